"""Turns the user's transforms into the core's, and says which of them the core does not run."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

from forebay import _core
from forebay import transform_kinds as kinds
from forebay.arguments import interpolation_of, numbers_of, probability_of
from forebay.core_steps import is_step, to_step

_BORDERS = {
    "constant": _core.BorderKind.CONSTANT,
    "edge": _core.BorderKind.EDGE,
    "reflect": _core.BorderKind.REFLECT,
    "symmetric": _core.BorderKind.SYMMETRIC,
}
# The order in which the core runs the kinds of transforms. Of each kind but steps it runs one.
_PLACES: dict[type, int] = {
    kinds.Resize: 0,
    kinds.RandomResizedCrop: 1,
    kinds.RandomCrop: 1,
    kinds.CenterCrop: 1,
    kinds.Normalize: 3,
    kinds.RandomErasing: 4,
}
_STEP = 2
ORDER = (
    "RandomResizedCrop; or Resize, then RandomCrop or CenterCrop, then flips and steps of an "
    "augmentation in any order, then Normalize, then RandomErasing, each if wanted"
)


def _place(one: Any) -> int | None:
    return _STEP if is_step(one) else _PLACES.get(type(one))


def _check_order(transforms: Sequence[Any]) -> None:
    names = ", ".join(type(one).__name__ for one in transforms) or "nothing"
    places = []
    for one in transforms:
        place = _place(one)
        if place is None:
            raise ValueError(
                f"transform: Forebay has no {type(one).__name__}; it runs {ORDER} "
                "(forebay.transforms)"
            )
        places.append(place)
    present = [type(one) for one in transforms]
    good = (
        places == sorted(places)
        and all(places.count(place) <= 1 for place in places if place != _STEP)
        and not (kinds.Resize in present and kinds.RandomResizedCrop in present)
    )
    if not good:
        raise ValueError(
            f"transform: Forebay does not run {names} in this order; it runs {ORDER} "
            "(forebay.transforms)"
        )


def is_cut(transforms: Sequence[kinds.Transform]) -> bool:
    """Whether the transforms give samples of one size whatever the images' sizes are."""
    return any(
        _place(one) == 1 or (isinstance(one, kinds.Resize) and len(_sides(one)) == 2)
        for one in transforms
    )


def _sides(one: Any) -> tuple[int, ...]:
    sides = numbers_of(one, "size", (1, 2))
    for side in sides:
        if not 1 <= side < 2**31:
            raise ValueError(f"{type(one).__name__}: size is {one.size!r}, but must be above 0")
    return sides


def _size(one: Any) -> Any:
    height, width = (_sides(one) * 2)[:2]
    return _core.Size(width=width, height=height)


def _bounds(one: Any, into: Any) -> None:
    into.scale_min, into.scale_max = numbers_of(one, "scale", (2,), Real)
    into.ratio_min, into.ratio_max = numbers_of(one, "ratio", (2,), Real)


def _interpolation(one: kinds.RandomResizedCrop | kinds.Resize) -> Any:
    found = interpolation_of(one)
    if one.antialias is not True and found != _core.Interpolation.NEAREST:
        raise ValueError(
            f"{type(one).__name__}: antialias is {one.antialias}, but must be True: Forebay has no "
            "other kind"
        )
    return found


def _random_crop(one: kinds.RandomCrop) -> Any:
    crop = _core.RandomCrop()
    padding = (0,) if one.padding is None else numbers_of(one, "padding", (1, 2, 4))
    if any(not 0 <= pixels < 2**31 for pixels in padding):
        raise ValueError(f"RandomCrop: padding is {one.padding!r}, but must be at least 0")
    crop.padding = _core.Padding(*(padding * 4)[:4])
    crop.pad_if_needed = bool(one.pad_if_needed)
    fill = (numbers_of(one, "fill", (1, 3)) * 3)[:3]
    if any(not 0 <= level <= 255 for level in fill):
        raise ValueError(f"RandomCrop: fill is {one.fill!r}, but must be from 0 to 255")
    if one.padding_mode not in _BORDERS:
        raise ValueError(
            f"RandomCrop: padding_mode is {one.padding_mode!r}, but must be one of {list(_BORDERS)}"
        )
    crop.border = _core.Border(_BORDERS[one.padding_mode], list(fill))
    return crop


def _erasing(one: kinds.RandomErasing, into: Any) -> None:
    into.probability = probability_of(one)
    _bounds(one, into)
    if isinstance(one.value, str):
        if one.value != "random":
            raise ValueError(f"RandomErasing: value is {one.value!r}, but must be 'random'")
        into.noise = True
    else:
        into.value = list((numbers_of(one, "value", (1, 3), Real) * 3)[:3])


def to_core(transforms: Sequence[kinds.Transform]) -> tuple[Any, kinds.Normalize | None]:
    """The core's transform, and the Normalize among the transforms or None.

    Where is_cut() is false, the caller must still set the transform's size.

    Raises:
        ValueError: The core does not run these transforms, or not in this order or with these
            arguments.
    """
    _check_order(transforms)
    out = _core.Transform()
    out.crop, out.flip = _core.WholeImage(), 0
    resize = None
    normalize = None
    steps: list[Any] = []
    for one in transforms:
        match one:
            case kinds.Resize():
                if one.max_size is not None:
                    raise ValueError(
                        f"Resize: max_size is {one.max_size}, which Forebay does not support: "
                        "leave it out"
                    )
                sides = _sides(one)
                resize = _size(one) if len(sides) == 2 else _core.ShortSide(sides[0])
                out.interpolation = _interpolation(one)
                out.size = _size(one)
            case kinds.RandomResizedCrop():
                crop = _core.RandomResizedCrop()
                _bounds(one, crop)
                out.size, out.crop = _size(one), crop
                out.interpolation = _interpolation(one)
            case kinds.RandomCrop():
                out.size, out.crop = _size(one), _random_crop(one)
            case kinds.CenterCrop():
                out.size, out.crop = _size(one), _core.CentreCrop()
            case kinds.RandomHorizontalFlip() if not steps and out.flip == 0:
                out.flip = probability_of(one)
            case kinds.RandomVerticalFlip() if not steps and out.vertical_flip == 0:
                out.vertical_flip = probability_of(one)
            case kinds.Normalize():
                for name in ("mean", "std"):
                    numbers_of(one, name, (3,), Real)
                normalize = one
            case kinds.RandomErasing():
                _erasing(one, out.erasing)
            case _:
                steps.append(to_step(one))
    out.steps = steps
    if resize is not None:
        resized: Any = out.crop
        resized.resize = resize
        out.crop = resized
    return out, normalize
