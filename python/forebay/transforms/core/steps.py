"""Converts the user's augmentation steps to the core's."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from forebay import _core
from forebay.checks import flag
from forebay.transforms import augmentations as steps
from forebay.transforms import kinds as transform_kinds
from forebay.transforms import sizes
from forebay.transforms.core.arguments import (
    fills_of,
    interpolation_of,
    numbers_of,
    probability_of,
)
from forebay.transforms.core.crops import (
    border_of,
    both_sides,
    cropping_of,
    levels_of,
    padding_of,
    resizing_of,
    sides_of,
)
from forebay.transforms.kinds import RandomHorizontalFlip, RandomVerticalFlip
from forebay.transforms.timm_policies import TimmAugment, TimmOps, to_timm_step

_POLICIES = {
    "imagenet": _core.Policy.IMAGENET,
    "cifar10": _core.Policy.CIFAR10,
    "svhn": _core.Policy.SVHN,
}
_POLICY_STEPS = (steps.AutoAugment, steps.RandAugment, steps.TrivialAugmentWide, steps.AugMix)
_MOST = 2**31 - 1


def is_step(one: Any) -> bool:
    """Whether to_step() takes this transform."""
    return type(one) in _MAKERS


def to_step(one: Any) -> Any:
    """The core's step for an augmentation step, a flip or a crop.

    Raises:
        ValueError: An argument is invalid; the message names it.
    """
    try:
        return _MAKERS[type(one)](one)
    except RecursionError:
        raise ValueError(f"{_name(one)}: its transforms contain themselves") from None


def _maybe(one: Any, action: Any) -> Any:
    return _core.RandomApply(probability_of(one), [action])


def _factor(one: Any, name: str, *, centre: float) -> Any:
    """The range of a factor around `centre`; None: the factor is always the centre."""
    value = getattr(one, name)
    if value is None:
        return None
    numbers = numbers_of(one, name, (1, 2), Real)
    if len(numbers) == 1:
        if numbers[0] < 0:
            raise ValueError(f"{_name(one)}: {name} is {value!r}, but must be at least 0")
        least = centre - numbers[0]
        numbers = (max(least, 0.0) if centre == 1 else least, centre + numbers[0])
    return None if numbers[0] == numbers[1] == centre else _core.Range(*numbers)


def _jitter(one: steps.ColorJitter) -> Any:
    return _core.ColourJitter(
        _factor(one, "brightness", centre=1),
        _factor(one, "contrast", centre=1),
        _factor(one, "saturation", centre=1),
        _factor(one, "hue", centre=0),
    )


def _distortion(one: steps.RandomPhotometricDistort) -> Any:
    return _core.PhotometricDistortion(
        _range(one, "brightness"), _range(one, "contrast"), _range(one, "saturation"),
        _range(one, "hue"), probability_of(one),
    )  # fmt: skip


def _grey(one: steps.Grayscale) -> Any:
    if one.num_output_channels != 3:
        raise ValueError(
            f"Grayscale: num_output_channels is {one.num_output_channels!r}, but must be 3: "
            "samples have three channels"
        )
    return _core.Grey()


def _blur(one: steps.GaussianBlur) -> Any:
    lengths = (numbers_of(one, "kernel_size", (1, 2)) * 2)[:2]
    if any(not 0 < length <= _MOST for length in lengths):
        raise ValueError(f"GaussianBlur: kernel_size is {one.kernel_size!r}, but must be above 0")
    sigmas = (numbers_of(one, "sigma", (1, 2), Real) * 2)[:2]
    return _core.GaussianBlur(list(lengths), _core.Range(*sigmas))


def _angle(one: Any, name: str) -> Any:
    numbers = numbers_of(one, name, (1, 2), Real)
    return _core.Range(*(numbers if len(numbers) == 2 else _both_ways(one, name, numbers[0])))


def _both_ways(one: Any, name: str, most: float) -> tuple[float, float]:
    if most < 0:
        raise ValueError(f"{_name(one)}: {name} is {most!r}, but must be at least 0")
    return (-most, most)


def _rotation(one: steps.RandomRotation) -> Any:
    return _core.RandomRotation(
        _angle(one, "degrees"), _warp(one), _centre(one), flag("RandomRotation: expand", one.expand)
    )


def _affine(one: steps.RandomAffine) -> Any:
    translate = None if one.translate is None else list(numbers_of(one, "translate", (2,), Real))
    scale = None if one.scale is None else _range(one, "scale")
    shear = None
    if one.shear is not None:
        numbers = numbers_of(one, "shear", (1, 2, 4), Real)
        if len(numbers) == 1:
            numbers = _both_ways(one, "shear", numbers[0])
        along_y = numbers[2:] or (0.0, 0.0)
        shear = [_core.Range(*numbers[:2]), _core.Range(*along_y)]
    return _core.RandomAffine(
        _angle(one, "degrees"), translate, scale, shear, _warp(one), _centre(one)
    )


def _perspective(one: steps.RandomPerspective) -> Any:
    (distortion,) = numbers_of(one, "distortion_scale", (1,), Real)
    return _core.RandomPerspective(distortion, probability_of(one), _warp(one))


def _zoom_out(one: sizes.RandomZoomOut) -> Any:
    fill, label = levels_of(one)
    return _core.RandomZoomOut(_range(one, "side_range"), fill, probability_of(one), label)


def _iou_crop(one: sizes.RandomIoUCrop) -> Any:
    names = ("min_scale", "max_scale", "min_aspect_ratio", "max_aspect_ratio")
    least, most, narrowest, widest = (numbers_of(one, name, (1,), Real)[0] for name in names)
    overlaps: Sequence[float] = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
    if one.sampler_options is not None:
        is_list = isinstance(one.sampler_options, Sequence)
        overlaps = numbers_of(
            one, "sampler_options", (len(one.sampler_options) if is_list else 2,), Real
        )
    return _core.RandomIouCrop(
        _core.Range(least, most), _core.Range(narrowest, widest), list(overlaps),
        _count(one, "trials"),
    )  # fmt: skip


def _scale_jitter(one: sizes.ScaleJitter) -> Any:
    target = both_sides((sides_of(one, "target_size") * 2)[:2])
    return _core.ScaleJitter(target, _range(one, "scale_range"), resizing_of(one))


def _shortest_size(one: sizes.RandomShortestSize) -> Any:
    count = len(one.min_size) if isinstance(one.min_size, Sequence) else 1
    lengths = numbers_of(one, "min_size", (count,))
    if any(not 0 < length <= _MOST for length in lengths):
        raise ValueError(f"{_name(one)}: min_size is {one.min_size!r}, but must be above 0")
    longest = None if one.max_size is None else _count(one, "max_size")
    return _core.RandomShortestSize(list(lengths), longest, resizing_of(one))


def _random_resize(one: sizes.RandomResize) -> Any:
    return _core.RandomResize(_count(one, "min_size"), _count(one, "max_size"), resizing_of(one))


def _auto_augment(one: steps.AutoAugment) -> Any:
    name = getattr(one.policy, "value", one.policy)
    if not isinstance(name, str) or name not in _POLICIES:
        raise ValueError(
            f"AutoAugment: policy is {name!r}, but must be one of {', '.join(map(repr, _POLICIES))}"
        )
    return _core.AutoAugment(_POLICIES[name], _warp(one))


def _rand_augment(one: steps.RandAugment) -> Any:
    return _core.RandAugment(
        _count(one, "num_ops"), _count(one, "magnitude"), _count(one, "num_magnitude_bins"),
        _warp(one),
    )  # fmt: skip


def _trivial_augment(one: steps.TrivialAugmentWide) -> Any:
    return _core.TrivialAugmentWide(_count(one, "num_magnitude_bins"), _warp(one))


def _aug_mix(one: steps.AugMix) -> Any:
    (depth,) = numbers_of(one, "chain_depth", (1,))
    (alpha,) = numbers_of(one, "alpha", (1,), Real)
    return _core.AugMix(
        _count(one, "severity"), _count(one, "mixture_width"), min(max(depth, 0), _MOST), alpha,
        bool(one.all_ops), _warp(one),
    )  # fmt: skip


def _apply(one: steps.RandomApply) -> Any:
    return _core.RandomApply(probability_of(one), _members(one))


def _choice(one: steps.RandomChoice) -> Any:
    members = _members(one)
    weights = (
        (1.0,) * len(members) if one.p is None else numbers_of(one, "p", (len(members),), Real)
    )
    return _core.RandomChoice(list(weights), members)


def _members(one: Any) -> list[Any]:
    members = one.transforms
    if not isinstance(members, Sequence) or isinstance(members, str):
        raise ValueError(f"{_name(one)}: transforms is {members!r}, but must be a list")
    for member in members:
        if not is_step(member):
            raise ValueError(
                f"{_name(one)}: {member!r} is among its transforms, but only crops, flips and "
                "steps of an augmentation can be"
            )
    return [to_step(member) for member in members]


def _name(one: Any) -> str:
    return type(one).__name__


def _range(one: Any, name: str) -> Any:
    return _core.Range(*numbers_of(one, name, (2,), Real))


def _count(one: Any, name: str) -> int:
    (number,) = numbers_of(one, name, (1,), Integral)
    if not 0 <= number <= _MOST:
        raise ValueError(f"{_name(one)}: {name} is {number}, but must be from 0 to {_MOST}")
    return int(number)


def _centre(one: Any) -> list[float] | None:
    return None if one.center is None else list(numbers_of(one, "center", (2,), Real))


def _warp(one: Any) -> Any:
    fill, label = fills_of(one)
    if isinstance(one, _POLICY_STEPS) and not isinstance(one.fill, Mapping):
        label = 0  # torchvision's policies refuse masks, so their fill is a colour
    return _core.WarpOptions(interpolation_of(one), None if fill is None else list(fill), label)


_MAKERS: dict[type, Callable[[Any], Any]] = {
    RandomHorizontalFlip: lambda one: _maybe(one, _core.Flip(True, False)),
    RandomVerticalFlip: lambda one: _maybe(one, _core.Flip(False, True)),
    steps.ColorJitter: _jitter,
    steps.RandomPhotometricDistort: _distortion,
    steps.Grayscale: _grey,
    steps.RandomGrayscale: lambda one: _maybe(one, _core.Grey()),
    steps.RandomChannelPermutation: lambda one: _core.ChannelPermutation(),
    steps.RandomAutocontrast: lambda one: _maybe(one, _core.Autocontrast()),
    steps.RandomEqualize: lambda one: _maybe(one, _core.Equalize()),
    steps.RandomInvert: lambda one: _maybe(one, _core.Invert()),
    steps.RandomPosterize: lambda one: _maybe(one, _core.Posterize(_count(one, "bits"))),
    steps.RandomSolarize: lambda one: _maybe(
        one, _core.Solarize(*numbers_of(one, "threshold", (1,), Real))
    ),
    steps.RandomAdjustSharpness: lambda one: _maybe(
        one, _core.Sharpness(*numbers_of(one, "sharpness_factor", (1,), Real))
    ),
    steps.GaussianBlur: _blur,
    steps.RandomRotation: _rotation,
    steps.RandomAffine: _affine,
    steps.RandomPerspective: _perspective,
    steps.AutoAugment: _auto_augment,
    steps.RandAugment: _rand_augment,
    steps.TrivialAugmentWide: _trivial_augment,
    steps.AugMix: _aug_mix,
    transform_kinds.Resize: cropping_of,
    transform_kinds.RandomResizedCrop: cropping_of,
    transform_kinds.RandomCrop: cropping_of,
    transform_kinds.CenterCrop: cropping_of,
    sizes.Pad: lambda one: _core.Pad(padding_of(one), border_of(one)),
    sizes.RandomZoomOut: _zoom_out,
    sizes.RandomIoUCrop: _iou_crop,
    sizes.ScaleJitter: _scale_jitter,
    sizes.RandomShortestSize: _shortest_size,
    sizes.RandomResize: _random_resize,
    TimmAugment: to_timm_step,
    TimmOps: to_timm_step,
    steps.RandomApply: _apply,
    steps.RandomChoice: _choice,
    steps.RandomOrder: lambda one: _core.RandomOrder(_members(one)),
}
