"""Finds samples by their keys or by the names of their image files."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from forebay import _core

NONE, SEVERAL = -1, -2  # no sample has the name; several samples match equally well


class SampleNames:
    """The names of a dataset's samples, by the rules of src/store/source/image_names.h.

    Args:
        keys: The samples' keys. Samples with the same key count as the same sample.
        paths: Gives the paths of the samples' images in their source; called if a name is not a
            key.
    """

    def __init__(self, keys: Sequence[str], paths: Callable[[], Sequence[str]]) -> None:
        self._keys = keys
        self._paths = paths
        self._first: dict[str, int] = {}
        for number, key in enumerate(keys):
            self._first.setdefault(key, number)

    def find(self, names: Sequence[str]) -> NDArray[np.int64]:
        """For each name the number of the first sample with it, NONE or SEVERAL."""
        found = np.array([self._first.get(name, NONE) for name in names], np.int64)
        others = np.flatnonzero(found == NONE)
        if len(others) > 0:
            firsts = np.append(np.array(list(self._first.values()), np.int64), [SEVERAL, NONE])
            found[others] = firsts[self._images.find([names[int(i)] for i in others])]
        return found

    def find_cheaply(self, name: str) -> int:
        """Does what find() does, but reads no paths that earlier names did not need."""
        if name in self._first or "_images" in self.__dict__:
            return int(self.find([name])[0])
        return NONE

    def spread(self, of_first: NDArray[np.int64]) -> NDArray[np.int64]:
        """Gives all samples with the same key the number that the first of them has.

        Args:
            of_first: A number for each sample [samples].
        """
        if len(self._first) == len(self._keys):
            return of_first
        return of_first[[self._first[key] for key in self._keys]]

    @cached_property
    def _images(self) -> _core.ImageNames:
        paths = self._paths()
        return _core.ImageNames(list(self._first), [paths[i] for i in self._first.values()])
