"""Turns the user's transforms into the core's, and says which of them the core does not run."""

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

from forebay import _core
from forebay import transform_kinds as kinds

# The core's interpolations by torchvision's names and Pillow's numbers.
_INTERPOLATIONS: dict[Any, Any] = {
    "nearest": _core.Interpolation.NEAREST,
    "bilinear": _core.Interpolation.BILINEAR,
    "bicubic": _core.Interpolation.BICUBIC,
    0: _core.Interpolation.NEAREST,
    2: _core.Interpolation.BILINEAR,
    3: _core.Interpolation.BICUBIC,
}
_BORDERS = {
    "constant": _core.BorderKind.CONSTANT,
    "edge": _core.BorderKind.EDGE,
    "reflect": _core.BorderKind.REFLECT,
    "symmetric": _core.BorderKind.SYMMETRIC,
}
# The order in which the core runs the kinds of transforms; it runs at most one of each kind.
_PLACES: dict[type, int] = {
    kinds.Resize: 0,
    kinds.RandomResizedCrop: 1,
    kinds.RandomCrop: 1,
    kinds.CenterCrop: 1,
    kinds.RandomHorizontalFlip: 2,
    kinds.RandomVerticalFlip: 2,
    kinds.Normalize: 3,
    kinds.RandomErasing: 4,
}
ORDER = (
    "RandomResizedCrop; or Resize, then RandomCrop or CenterCrop, then RandomHorizontalFlip and "
    "RandomVerticalFlip, then Normalize, then RandomErasing, each if wanted"
)


def _check_order(transforms: Sequence[Any]) -> None:
    names = ", ".join(type(one).__name__ for one in transforms) or "nothing"
    for one in transforms:
        if type(one) not in _PLACES:
            raise ValueError(
                f"transform: Forebay has no {type(one).__name__}; it runs {ORDER} "
                "(forebay.transforms)"
            )
    present = [type(one) for one in transforms]
    places = [_PLACES[kind] for kind in present]
    cuts = places.count(1)
    good = (
        places == sorted(places)
        and len(set(present)) == len(present)
        and cuts <= 1
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
        _PLACES.get(type(one)) == 1 or (isinstance(one, kinds.Resize) and len(_sides(one)) == 2)
        for one in transforms
    )


def numbers_of(
    one: Any, name: str, counts: tuple[int, ...], kind: Any = Integral
) -> tuple[Any, ...]:
    """The numbers of an argument: one number, or a sequence with one of the lengths in `counts`.

    Raises:
        ValueError: The argument is anything else, or one of the numbers is not finite.
    """
    value = getattr(one, name)
    several = isinstance(value, Iterable) and not isinstance(value, str)
    numbers: tuple[Any, ...] = tuple(value) if several else (value,)
    if len(numbers) not in counts or any(
        isinstance(number, bool) or not isinstance(number, kind) or not math.isfinite(number)
        for number in numbers
    ):
        what = "whole number" if kind is Integral else "number"
        parts = [f"a {what}" if count == 1 else f"{count} {what}s" for count in counts]
        raise ValueError(
            f"{type(one).__name__}: {name} is {value!r}, but must be {' or '.join(parts)}"
        )
    return numbers


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
    name = getattr(one.interpolation, "value", one.interpolation)
    kind = type(one).__name__
    if not isinstance(name, (str, int)) or name not in _INTERPOLATIONS:
        raise ValueError(
            f"{kind}: interpolation is {name!r}, but must be one of 'nearest', 'bilinear' and "
            "'bicubic'"
        )
    found = _INTERPOLATIONS[name]
    if one.antialias is not True and found != _core.Interpolation.NEAREST:
        raise ValueError(
            f"{kind}: antialias is {one.antialias}, but must be True: Forebay has no other kind"
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
    into.probability = _probability(one)
    _bounds(one, into)
    if isinstance(one.value, str):
        if one.value != "random":
            raise ValueError(f"RandomErasing: value is {one.value!r}, but must be 'random'")
        into.noise = True
    else:
        into.value = list((numbers_of(one, "value", (1, 3), Real) * 3)[:3])


def _probability(one: Any) -> float:
    (p,) = numbers_of(one, "p", (1,), Real)
    if not 0 <= p <= 1:
        raise ValueError(f"{type(one).__name__}: p is {p}, but must be from 0 to 1")
    return p


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
            case kinds.RandomHorizontalFlip():
                out.flip = _probability(one)
            case kinds.RandomVerticalFlip():
                out.vertical_flip = _probability(one)
            case kinds.Normalize():
                for name in ("mean", "std"):
                    numbers_of(one, name, (3,), Real)
                normalize = one
            case kinds.RandomErasing():
                _erasing(one, out.erasing)
    if resize is not None:
        resized: Any = out.crop
        resized.resize = resize
        out.crop = resized
    return out, normalize
