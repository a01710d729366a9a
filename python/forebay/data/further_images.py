"""Further images of samples, such as the right image of a stereo pair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class FurtherImages:
    """One further image of each sample.

    Attributes:
        images: The Dataset that contains them.
        numbers: The number in `images` of each sample's image [samples].
    """

    images: Any
    numbers: NDArray[np.int64]

    def take(self, samples: NDArray[np.int64]) -> "FurtherImages":
        """The further images of these samples, in this order."""
        return FurtherImages(self.images, self.numbers[samples])


def check_names(given: Any, taken: Sequence[str]) -> None:
    """Checks Dataset's `images`.

    Args:
        given: What the user gave.
        taken: The names of a batch's other fields.

    Raises:
        ValueError: `given` is not a mapping, or has a name that a field cannot have.
    """
    if not isinstance(given, Mapping):
        raise ValueError(
            f"images is {given!r}, but must be a mapping of names: {{'right': 'photos/right'}}"
        )
    for name in given:
        if not isinstance(name, str) or not name:
            raise ValueError(f"images: {name!r} is not a name")
        if name in taken:
            raise ValueError(f"images: {name!r} is the name of another field; choose another name")
