"""Further images of samples, such as the right one of a stereo pair, besides their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# How many missing images a message names.
_NAMED = 3


@dataclass(frozen=True)
class FurtherImages:
    """One further image of each sample.

    Attributes:
        images: The Dataset that has them.
        numbers: The number there of each sample's image [samples].
    """

    images: Any
    numbers: NDArray[np.int64]

    def take(self, samples: NDArray[np.int64]) -> "FurtherImages":
        """Those of these samples, in this order."""
        return FurtherImages(self.images, self.numbers[samples])


def check_names(given: Any, taken: Sequence[str]) -> None:
    """Checks what a Dataset was given as `images`.

    Args:
        given: What the user gave.
        taken: The names that a batch's other fields have.

    Raises:
        ValueError: It is no mapping of names that fields can have.
    """
    if not isinstance(given, Mapping):
        raise ValueError(
            f"images is {given!r}, but must be a mapping of names: {{'right': 'photos/right'}}"
        )
    for name in given:
        if not isinstance(name, str) or not name:
            raise ValueError(f"images: {name!r} is no name")
        if name in taken:
            raise ValueError(f"images: {name!r} is the name of another field; take another one")


def numbers_by_key(
    argument: str, what: str, own: Sequence[str], keys: Sequence[str], path: str
) -> NDArray[np.int64]:
    """The number that each sample has in another dataset, where it has the same key.

    Args:
        argument: What the other dataset was given as, and
        what: what it has of each sample, for messages.
        own: The samples' keys.
        keys, path: Those of the other dataset.

    Raises:
        ValueError: Samples are missing there; the message names the first ones.
    """
    numbers = {key: number for number, key in enumerate(keys)}
    missing = [key for key in own if key not in numbers]
    if missing:
        named = ", ".join(missing[:_NAMED])
        raise ValueError(
            f"{argument}: {path} has no {what} for {len(missing)} of {len(own)} images, such as "
            f"{named}; each has the name of its image, but for the suffix"
        )
    return np.array([numbers[key] for key in own], np.int64)
