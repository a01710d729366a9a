"""MixUp and CutMix, which mix whole batches, with torchvision v2's names and parameters."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from forebay import _core
from forebay.checks import whole
from forebay.transforms.augmentations import RandomChoice


@dataclass(frozen=True, kw_only=True)
class MixUp:
    """Mixes each image and its label with the image and label before it in the batch.

    The result is a weighted mean. The weight of the image itself is drawn for each batch, from the
    distribution Beta(alpha, alpha) (Zhang et al., "mixup: Beyond Empirical Risk Minimization",
    2018). The first image is mixed with the last one.

    Args:
        alpha: Above 0; larger values give more equal weights.
        num_classes: How many classes the labels have; None: the labels are float32 already.
    """

    alpha: float = 1.0
    num_classes: int | None = None


@dataclass(frozen=True, kw_only=True)
class CutMix:
    """Replaces a box of each image by the same box of the image before it in the batch.

    The box is drawn once for each batch: its share of the area is 1 minus a number from Beta(alpha,
    alpha), before it is clipped to the image (Yun et al., "CutMix: Regularization Strategy to Train
    Strong Classifiers", 2019). Labels are mixed by area.

    Args:
        alpha: Above 0; larger values give more equal weights.
        num_classes: How many classes the labels have; None: the labels are float32 already.
    """

    alpha: float = 1.0
    num_classes: int | None = None


Mixing = MixUp | CutMix | RandomChoice


def _choices(mixing: Mixing) -> tuple[list[Any], int | None]:
    """Returns the core's choices, and the number of classes (None: labels are already soft)."""
    if isinstance(mixing, (MixUp, CutMix)):
        members: Sequence[Any] = (mixing,)
        weights: Sequence[float] = (1.0,)
    elif isinstance(mixing, RandomChoice):
        if not isinstance(mixing.transforms, Iterable):
            raise ValueError(f"RandomChoice: {mixing.transforms!r} must be a list")
        members = tuple(mixing.transforms)
        weights = (1.0,) * len(members) if mixing.p is None else tuple(mixing.p)
    else:
        raise ValueError(f"mixing is {mixing!r}, but must be a MixUp, CutMix or RandomChoice")
    if not members or any(not isinstance(one, (MixUp, CutMix)) for one in members):
        raise ValueError(f"RandomChoice: {members!r} must be one or more MixUp and CutMix")
    if len(weights) != len(members) or not (
        all(_is_finite(weight) and weight >= 0 for weight in weights)
        and 0 < sum(weights) < math.inf
    ):
        raise ValueError(
            f"RandomChoice: p is {mixing.p!r}, but must be a weight for each, not all 0"  # type: ignore[union-attr]
        )
    classes = {one.num_classes for one in members}
    if len(classes) > 1:
        raise ValueError(f"RandomChoice: num_classes must be the same for all, but is {classes}")
    for one in members:
        name = type(one).__name__
        if not _is_finite(one.alpha) or one.alpha <= 0:
            raise ValueError(f"{name}: alpha is {one.alpha!r}, but must be a number above 0")
        if one.num_classes is not None:
            whole(f"{name}: num_classes", one.num_classes, 1)
    kinds = {MixUp: _core.MixKind.MIX_UP, CutMix: _core.MixKind.CUT_MIX}
    choices = [
        _core.MixChoice(kinds[type(one)], one.alpha, weight)
        for one, weight in zip(members, weights, strict=True)
    ]
    return choices, classes.pop()


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def check_mixing(mixing: Mixing, shape: Sequence[int] | None) -> None:
    """Checks that a Loader's labels can be mixed.

    Args:
        mixing: How they are mixed.
        shape: The shape of a sample's label if labels are float32: () or (n,); None: they are class
            numbers.

    Raises:
        ValueError: The number of classes is needed, or is not that of the labels.
    """
    classes = _choices(mixing)[1]
    if shape is None and classes is None:
        raise ValueError("batch_transform: num_classes is needed, because labels are class numbers")
    if shape is not None and classes is not None and tuple(shape) != (classes,):
        raise ValueError(
            f"batch_transform: num_classes is {classes}, but a label is float32 {list(shape)}; "
            "leave out num_classes"
        )


def no_labels(mixing: Mixing) -> np.ndarray:
    """The labels of a batch without samples, float32 [0, classes]."""
    return np.empty((0, _choices(mixing)[1] or 0), np.float32)


def draw(mixing: Mixing, height: int, width: int, *, seed: int, epoch: int, step: int) -> Any:
    """Draws how a batch of images of height x width pixels is mixed, the same on every machine.

    Returns:
        An object with `own`, the weight of each image's own label, and `box`, which is CutMix's (x,
        y, width, height) in pixels, or None if nothing is cut.
    """
    return _draw(_choices(mixing)[0], height, width, seed, epoch, step)


def _draw(choices: list[Any], height: int, width: int, seed: int, epoch: int, step: int) -> Any:
    for name, value, least, most in (
        ("height", height, 1, 2**31 - 1),
        ("width", width, 1, 2**31 - 1),
        ("seed", seed, 0, 2**64 - 1),
        ("epoch", epoch, 0, _core.EPOCH_MAX),
        ("step", step, 0, _core.DRAWN_FOR_MAX),
    ):
        if not least <= value <= most:
            bits = most.bit_length()
            raise ValueError(f"mix: {name} is {value}, but must be from {least} to 2^{bits} - 1")
    return _core.draw_mix(choices, height, width, seed, epoch, step)


def mix(
    mixing: Mixing,
    images: Any,
    labels: Any,
    *,
    seed: int,
    epoch: int,
    step: int,
    channels_last: bool = False,
) -> tuple[Any, Any]:
    """Mixes a batch in place.

    The mixing depends on the seed, the epoch and the step alone, and is the same on all ranks.

    Args:
        mixing: How the batch is mixed.
        images: A contiguous tensor or array in this machine's memory, [samples, 3, height, width];
            float32, bfloat16 or float16, for CutMix also uint8.
        labels: Integers [samples] from 0 to num_classes - 1, or float32 [samples, classes] or
            [samples].
        seed: From 0 to 2^64 - 1, like Loader's.
        epoch: From 0 to 2^32 - 1.
        step: The batch's number in its epoch, from 0 to 2^48 - 1.
        channels_last: Whether images are [samples, height, width, 3].

    Returns:
        `images`, and labels as float32 [samples, classes] or [samples], a tensor or an array like
        `labels`.

    Raises:
        ValueError: Images or labels have another type or shape, or a label is not a class (-1:
            none).
    """
    choices, classes = _choices(mixing)
    as_tensor = not isinstance(labels, np.ndarray)
    soft = _soft(labels, classes)
    if not hasattr(images, "shape"):
        raise ValueError(
            f"mix: images are a {type(images).__name__}, but must be one tensor or array"
        )
    shape = tuple(images.shape)
    if len(shape) != 4 or shape[3 if channels_last else 1] != 3 or shape[0] != len(soft):
        kind = "[samples, height, width, 3]" if channels_last else "[samples, 3, height, width]"
        raise ValueError(
            f"mix: images are {list(shape)}, but must be {kind}, of {len(soft)} samples "
            "like the labels"
        )
    height, width = shape[1:3] if channels_last else shape[2:4]
    if len(soft) > 0:
        drawn = _draw(choices, height, width, seed, epoch, step)
        try:
            _core.mix(images, soft.reshape(len(soft), -1), drawn, channels_last)
        except TypeError:
            raise ValueError(
                f"mix: images of {images.dtype} must be a contiguous, writable tensor or array of "
                "float32, bfloat16, float16 or uint8 in this machine's memory"
            ) from None
    if as_tensor:
        import torch

        return images, torch.from_numpy(soft)
    return images, soft


def _soft(labels: Any, classes: int | None) -> np.ndarray:
    """A copy of the labels as float32 [samples, classes], or [samples] if they are numbers."""
    soft = np.asarray(labels)
    if soft.ndim == 1 and soft.dtype == np.float32 and classes is None:
        return np.array(soft)
    if soft.ndim == 1:
        return _one_hot(soft, classes)
    if soft.ndim == 2 and soft.dtype == np.float32:
        if classes is not None and soft.shape[1] != classes:
            raise ValueError(
                f"mix: labels have {soft.shape[1]} classes, but num_classes is {classes}"
            )
        return np.array(soft, order="C")
    raise ValueError(
        f"mix: labels are {soft.dtype} {list(soft.shape)}, but must be integers [samples] or "
        "float32 [samples, classes]"
    )


def _one_hot(labels: np.ndarray, classes: int | None) -> np.ndarray:
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"mix: labels are {labels.dtype}, but must be integers")
    if classes is None:
        raise ValueError("mix: num_classes is needed, because labels are class numbers")
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong) > 0:
        raise ValueError(
            f"mix: the label of sample {wrong[0]} is {labels[wrong[0]]}, but must be from 0 to "
            f"{classes - 1} (num_classes is {classes})"
        )
    out = np.zeros((len(labels), classes), np.float32)
    out[np.arange(len(labels)), labels] = 1
    return out
