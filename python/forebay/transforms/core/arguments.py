"""Arguments of the user's transforms, converted for the core; invalid ones raise ValueError."""

import math
from collections.abc import Iterable
from contextlib import suppress
from numbers import Integral, Real
from typing import Any

from forebay import _core

# The core's interpolations by torchvision's names and Pillow's numbers.
_INTERPOLATIONS: dict[Any, Any] = {
    "nearest": _core.Interpolation.NEAREST,
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
    value = getattr(one, name)
    numbers: tuple[Any, ...] = (value,)
    if isinstance(value, Iterable) and not isinstance(value, str):
        with suppress(TypeError):  # an array without dimensions cannot be iterated
            numbers = tuple(value)
    if len(numbers) not in counts or not all(_is_finite(number, kind) for number in numbers):
        what = "whole number" if kind is Integral else "number"
        parts = [f"a {what}" if count == 1 else f"{count} {what}s" for count in counts]
        raise ValueError(
            f"{type(one).__name__}: {name} is {value!r}, but must be {' or '.join(parts)}"
        )
    return numbers


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
            "'bilinear' and 'bicubic'"
        )
    return _INTERPOLATIONS[name]


def probability_of(one: Any) -> float:
    """The argument `p`, from 0 to 1."""
    (p,) = numbers_of(one, "p", (1,), Real)
    if not 0 <= p <= 1:
        raise ValueError(f"{type(one).__name__}: p is {p}, but must be from 0 to 1")
    return p
