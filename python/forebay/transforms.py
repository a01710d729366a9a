"""What happens to a sample between its file and the batch: torchvision v2's names and parameters.

A loader takes a sequence of these, in this order: RandomResizedCrop, or RandomCrop, or Resize and
CenterCrop; then RandomHorizontalFlip, Normalize and RandomErasing, each if wanted. They are run by
Forebay's core in one pass, with the distributions of torchvision.transforms.v2, the randomness
drawn from the seed, the epoch and the sample alone. Resizing is antialiased, and equal to
torchvision's on uint8 images.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forebay import _core

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

_INTERPOLATIONS = {
    "nearest": _core.Interpolation.NEAREST,
    "bilinear": _core.Interpolation.BILINEAR,
    "bicubic": _core.Interpolation.BICUBIC,
}


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random part of the image, resized to size x size pixels.

    Args:
        size: Pixels a side.
        scale: Bounds of the part's share of the image's area, above 0, up to 1.
        ratio: Bounds of the part's width to its height.
        interpolation: "nearest", "bilinear" or "bicubic".
    """

    size: int
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: str = "bilinear"


@dataclass(frozen=True)
class RandomCrop:
    """A random part of size x size pixels of the image with a mirrored border around it.

    An image of another size is first resized so that its short side has `size` pixels.

    Args:
        size: Pixels a side.
        padding: The border's pixels, less than `size`; padding_mode is "reflect".
    """

    size: int
    padding: int = 0


@dataclass(frozen=True)
class Resize:
    """The whole image, resized so that its short side has `size` pixels; before CenterCrop."""

    size: int
    interpolation: str = "bilinear"


@dataclass(frozen=True)
class CenterCrop:
    """The middle size x size pixels; behind Resize, at most its size."""

    size: int


@dataclass(frozen=True)
class RandomHorizontalFlip:
    """Mirrored left to right with probability `p`: 0.5."""

    p: float = 0.5


@dataclass(frozen=True)
class Normalize:
    """Floating-point numbers: (pixel / 255 - mean) / std, for red, green and blue."""

    mean: Sequence[float] = IMAGENET_MEAN
    std: Sequence[float] = IMAGENET_STD


@dataclass(frozen=True)
class RandomErasing:
    """With probability `p` a random rectangle becomes 0.

    Args:
        p: From 0 to 1.
        scale: Bounds of its share of the area.
        ratio: Bounds of its height to its width.
    """

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)


Transform = (
    RandomResizedCrop
    | RandomCrop
    | Resize
    | CenterCrop
    | RandomHorizontalFlip
    | Normalize
    | RandomErasing
)


def train(size: int = 224) -> list[Transform]:
    """The usual ones for training on photographs: random resized crop, flip, ImageNet's mean."""
    return [RandomResizedCrop(size), RandomHorizontalFlip(), Normalize()]


def evaluate(size: int = 224, resize: int = 256) -> list[Transform]:
    """The usual ones for validation: the middle of the resized image, ImageNet's mean."""
    return [Resize(resize), CenterCrop(size), Normalize()]


# The orders that the core runs: each list's members come in its order, those in brackets if wanted.
_ORDERS = (
    (RandomResizedCrop, [RandomHorizontalFlip], [Normalize], [RandomErasing]),
    (RandomCrop, [RandomHorizontalFlip], [Normalize], [RandomErasing]),
    (Resize, CenterCrop, [Normalize]),
)


def _fits(transforms: Sequence[Transform], order: Sequence[Any]) -> bool:
    left = [type(transform) for transform in transforms]
    for kind in order:
        optional = isinstance(kind, list)
        if left and left[0] is (kind[0] if optional else kind):
            left.pop(0)
        elif not optional:
            return False
    return not left


def _interpolation(name: str) -> Any:
    if name not in _INTERPOLATIONS:
        raise ValueError(f"interpolation is {name!r}, but must be one of {list(_INTERPOLATIONS)}")
    return _INTERPOLATIONS[name]


def to_core(transforms: Sequence[Transform]) -> tuple[Any, Normalize | None]:
    """What the core calls them, and how pixels are normalised.

    Raises:
        ValueError: The core does not run these in this order.
    """
    if not any(_fits(transforms, order) for order in _ORDERS):
        names = ", ".join(type(transform).__name__ for transform in transforms) or "nothing"
        raise ValueError(
            f"transform: Forebay does not run {names} in this order; it runs RandomResizedCrop, "
            "RandomCrop, or Resize and CenterCrop; behind the first two RandomHorizontalFlip, then "
            "Normalize, then RandomErasing, each if wanted; behind the last Normalize "
            "(forebay.transforms)"
        )
    out: Any = _core.TrainTransform()
    out.flip = False
    normalize = None
    for one in transforms:
        match one:
            case RandomResizedCrop():
                crop = _core.RandomResizedCrop()
                crop.scale_min, crop.scale_max = one.scale
                crop.ratio_min, crop.ratio_max = one.ratio
                out.size, out.crop = one.size, crop
                out.interpolation = _interpolation(one.interpolation)
            case RandomCrop():
                padded = _core.RandomPaddedCrop()
                padded.padding = one.padding
                out.size, out.crop = one.size, padded
            case Resize():
                out = _core.EvalTransform()
                out.resize = one.size
                out.interpolation = _interpolation(one.interpolation)
            case CenterCrop():
                out.size = one.size
            case RandomHorizontalFlip():
                if one.p not in (0, 0.5):
                    raise ValueError(f"RandomHorizontalFlip: p is {one.p}, but must be 0.5 or 0")
                out.flip = one.p == 0.5
            case Normalize():
                normalize = one
            case RandomErasing():
                out.erasing.probability = one.p
                out.erasing.scale_min, out.erasing.scale_max = one.scale
                out.erasing.ratio_min, out.erasing.ratio_max = one.ratio
    return out, normalize
