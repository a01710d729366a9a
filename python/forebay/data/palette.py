"""The colours of masks whose colours stand for classes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forebay import _core
from forebay.checks import whole

_CLASSES_MAX = 256  # a label has one byte
_EXAMPLE = "{(128, 0, 0): 1, (0, 0, 128): 2}"


@dataclass(frozen=True)
class Palette:
    """Which class number each colour stands for.

    Attributes:
        entries: Red, green, blue and the class number of each colour, all from 0 to 255.
        others: The class number of all other colours; None: they are an error.
    """

    entries: tuple[tuple[int, int, int, int], ...]
    others: int | None = None

    def core(self) -> Any:
        """The same palette for the core."""
        colours = np.array(self.entries, np.uint8).reshape(-1, 4)
        return _core.make_palette(colours, self.others)


def check_palette(given: Any) -> Palette:
    """Makes a Palette of Dataset's `palette`.

    Args:
        given: A mapping from colours (r, g, b) to class numbers, in which None stands for all
            other colours; or a sequence of colours [classes, 3], in the order of their numbers.

    Raises:
        ValueError: It is neither; a colour is not three numbers from 0 to 255, or comes twice; or
            a class number is not from 0 to 255.
    """
    if isinstance(given, Mapping):
        pairs = [(colour, number) for colour, number in given.items() if colour is not None]
        others = None if given.get(None) is None else _number("all other colours", given[None])
    elif isinstance(given, Sequence | np.ndarray) and not isinstance(given, str | bytes):
        pairs, others = [(colour, number) for number, colour in enumerate(given)], None
    else:
        raise ValueError(
            f"palette is {given!r}, but must be a mapping from colours to class numbers, such as "
            f"{_EXAMPLE}, or a list of colours in the order of their class numbers"
        )
    if not pairs:
        raise ValueError(f"palette: there are no colours; give some, such as {_EXAMPLE}")
    known: dict[tuple[int, int, int], int] = {}
    for colour, number in pairs:
        rgb = _colour(colour)
        if rgb in known:
            raise ValueError(f"palette: the colour {rgb} comes more than once")
        known[rgb] = _number(str(rgb), number)
    return Palette(tuple((*rgb, number) for rgb, number in known.items()), others)


def _colour(given: Any) -> tuple[int, int, int]:
    is_list = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str | bytes)
    if not is_list or len(given) != 3:
        raise ValueError(
            f"palette: {given!r} is no colour; a colour is (red, green, blue), each from 0 to 255"
        )
    red, green, blue = (whole(f"palette: a channel of {given!r}", one, 0, 255) for one in given)
    return red, green, blue


def _number(colour: str, given: Any) -> int:
    return whole(f"palette: the class number of {colour}", given, 0, _CLASSES_MAX - 1)
