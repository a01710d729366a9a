"""Arguments that are what they should be, or an error that names them."""

import operator
from typing import Any


def whole(name: str, value: Any, least: int, most: int = 2**63 - 1) -> int:
    """A whole number, also of NumPy or PyTorch.

    Raises:
        ValueError: It is none, or out of bounds.
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
        ValueError: Something else.
    """
    if type(value).__name__ not in ("bool", "bool_"):
        raise ValueError(f"{name} is {value!r}, but must be True or False")
    return bool(value)


def function(name: str, value: Any) -> None:
    """Something to call, that is no class.

    Raises:
        ValueError: Something else.
    """
    if not callable(value) or isinstance(value, type):
        raise ValueError(f"{name} is {value!r}, but must be a function")
