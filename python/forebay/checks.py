"""Checks of single arguments; an error names the argument and says what it must be."""

import math
import operator
import warnings
from numbers import Real
from typing import Any


def whole(name: str, value: Any, least: int, most: int = 2**63 - 1) -> int:
    """A whole number from `least` to `most`, also one of NumPy or PyTorch.

    Raises:
        ValueError: The value is not a whole number, or out of bounds.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}, but must be a whole number") from None
    if not least <= number <= most:
        bounds = f"at least {least}" if most == 2**63 - 1 else f"from {least} to {most}"
        raise ValueError(f"{name} is {number}, but must be {bounds}")
    return number


def flag(name: str, value: Any) -> bool:
    """True or False, also NumPy's.

    Raises:
        ValueError: The value is neither True nor False.
    """
    if type(value).__name__ not in ("bool", "bool_"):
        raise ValueError(f"{name} is {value!r}, but must be True or False")
    return bool(value)


def function(name: str, value: Any) -> None:
    """Checks that the value can be called and is not a class.

    Raises:
        ValueError: The value cannot be called, or is a class.
    """
    if isinstance(value, type):
        kind = value.__name__
        raise ValueError(f"{name} is the class {kind}, but must be a function: call it, {kind}(…)")
    if not callable(value):
        raise ValueError(f"{name} is {value!r}, but must be a function")


def seconds(name: str, value: Any) -> float:
    """A time in seconds, at least 0.

    Raises:
        ValueError: The value is not a finite number, or is below 0.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 <= float(value) < math.inf:
        raise ValueError(f"{name} is {value!r}, but must be a number of seconds, at least 0")
    return float(value)


def warn_of_former_name(former: str, present: str) -> None:
    """Warns the caller's caller that it used the old name of something."""
    warnings.warn(
        f"{former} was renamed to {present}; the old name will be removed in version 0.2",
        DeprecationWarning,
        stacklevel=3,
    )
