"""Arguments of the user's transforms, converted for the core; invalid ones raise ValueError."""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from numbers import Integral, Real
from typing import Any

from forebay import _core

# The core's interpolations by torchvision's names and Pillow's numbers.
_INTERPOLATIONS: dict[Any, Any] = {
    "nearest": _core.Interpolation.NEAREST,
    "nearest-exact": _core.Interpolation.NEAREST_EXACT,
    "bilinear": _core.Interpolation.BILINEAR,
    "bicubic": _core.Interpolation.BICUBIC,
    0: _core.Interpolation.NEAREST,
    2: _core.Interpolation.BILINEAR,
    3: _core.Interpolation.BICUBIC,
}


def numbers_of(
    one: Any, name: str, counts: tuple[int, ...], kind: Any = Integral
) -> tuple[Any, ...]:
    """The numbers of an argument: one number, or a sequence with one of the lengths in `counts`.

    Raises:
        ValueError: The argument is anything else, or one of the numbers is not finite.
    """
    return _numbers_in(f"{type(one).__name__}: {name}", getattr(one, name), counts, kind)


def _numbers_in(what: str, value: Any, counts: tuple[int, ...], kind: Any) -> tuple[Any, ...]:
    numbers: tuple[Any, ...] = (value,)
    if isinstance(value, Iterable) and not isinstance(value, str):
        with suppress(TypeError):  # an array without dimensions cannot be iterated
            numbers = tuple(value)
    if len(numbers) not in counts or not all(_is_finite(number, kind) for number in numbers):
        name = "whole number" if kind is Integral else "number"
        parts = [f"a {name}" if count == 1 else f"{count} {name}s" for count in counts]
        raise ValueError(f"{what} is {value!r}, but must be {' or '.join(parts)}")
    return numbers


def of_kind(by_kind: Mapping[Any, Any], names: tuple[str, ...], missing: Any) -> Any:
    """The value for a kind of input in torchvision's dicts: {tv_tensors.Mask: 255, "others": 0}.

    Args:
        by_kind: The dict; a defaultdict's default counts last.
        names: The names of the kind, the first known one of which counts.
        missing: The result if the dict has nothing for this kind.
    """
    found = {getattr(kind, "__name__", kind): value for kind, value in by_kind.items()}
    for name in (*names, "others"):
        if name in found:
            return found[name]
    factory = getattr(by_kind, "default_factory", None)
    return missing if factory is None else factory()


# The kinds of input in torchvision's dicts that are images, or maps of labels.
OF_IMAGES, OF_MASKS = ("Image",), ("Mask",)
# Kinds that a fill may be for. Whether an image is a plain tensor depends on the other transforms.
_FILLED = ("Image", "Mask", "BoundingBoxes", "KeyPoints", "others")


def fills_of(one: Any, kind: Any = Real) -> tuple[tuple[Any, ...] | None, int]:
    """The argument `fill`: red, green and blue of images (None: `fill` is), and masks' label.

    Raises:
        ValueError: A colour is not one number or three; or a label is not a whole number from 0 to
            255.
    """
    what, fill = f"{type(one).__name__}: fill", one.fill
    if isinstance(fill, Mapping):
        unknown = [one for one in fill if getattr(one, "__name__", one) not in _FILLED]
        if unknown:
            raise ValueError(f"{what} is for {unknown[0]!r}, but must be for one of {_FILLED}")
        colour = of_kind(fill, OF_IMAGES, 0)
        (label,) = _numbers_in(f"{what} for masks", of_kind(fill, OF_MASKS, 0) or 0, (1,), Real)
    else:
        colour = fill
        numbers = () if fill is None else _numbers_in(what, fill, (1, 3), kind)
        if any(not 0 <= level <= 255 for level in numbers):
            raise ValueError(f"{what} is {fill!r}, but must be from 0 to 255")
        # torchvision refuses three levels for masks.
        label = int(numbers[0]) if len(numbers) == 1 else 0
    if not 0 <= label <= 255 or label != int(label):
        raise ValueError(
            f"{what} for masks is {label}, but must be a whole number from 0 to 255; give another "
            "colour for images by kind: fill={'Image': …, 'Mask': 255}"
        )
    if colour is None:
        return None, int(label)
    return (_numbers_in(what, colour, (1, 3), kind) * 3)[:3], int(label)


def _is_finite(number: Any, kind: Any) -> bool:
    if isinstance(number, bool) or not isinstance(number, kind):
        return False
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer that no float can hold
        return False


def interpolation_of(one: Any) -> Any:
    """The core's interpolation for torchvision's name, InterpolationMode or Pillow's number."""
    name = getattr(one.interpolation, "value", one.interpolation)
    if not isinstance(name, (str, int)) or name not in _INTERPOLATIONS:
        raise ValueError(
            f"{type(one).__name__}: interpolation is {name!r}, but must be one of 'nearest', "
            "'nearest-exact', 'bilinear' and 'bicubic'"
        )
    return _INTERPOLATIONS[name]


def probability_of(one: Any) -> float:
    """The argument `p`, from 0 to 1."""
    (p,) = numbers_of(one, "p", (1,), Real)
    if not 0 <= p <= 1:
        raise ValueError(f"{type(one).__name__}: p is {p}, but must be from 0 to 1")
    return p
