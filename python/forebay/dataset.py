"""Datasets: those that `forebay pack` wrote, folders of images and tar shards."""

import os
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from forebay import _core
from forebay.decoding import Pixels, decode


class Dataset:
    """A packed dataset, or a folder of images by class or tar shards in place: samples by number.

    A packed dataset's are in storage order; a folder's as torchvision's ImageFolder has them (an
    empty class keeps its number), shards' in the order of their members, with the classes of their
    .cls files. Data in place is read when it is used. It is listed anew at each opening, unless
    `forebay index` did it ahead; a UserWarning tells when that no longer holds, and what is left
    out. It has no checksums without `forebay index --checksums`.

    `dataset[i]` is the pair of an image (uint8 RGB [height, width, 3]) and its class number (-1:
    none), as torchvision's ImageFolder gives it without a transform; a slice is a list of such.

    Args:
        path: The dataset's folder, or one with a subfolder of images for each class; a folder of
            .tar files, one of them, or a range of them as in "train-{000..146}.tar".

    Raises:
        FileNotFoundError: There is nothing.
        ValueError: Neither a dataset nor a folder of folders of images, nor shards with images.
        DataError: It is damaged; `forebay verify` says where. Or a shard is, as it says.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.core = _core.Dataset.open(os.fspath(path))

    def __len__(self) -> int:
        return len(self.core)

    @overload
    def __getitem__(self, index: int) -> tuple[Pixels, int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[Pixels, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[Pixels, int] | list[tuple[Pixels, int]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = self._number(index)
        return decode(self.core.read(number)), int(self.targets[number])

    def __repr__(self) -> str:
        return f"forebay.Dataset({self.path!r}): {len(self)} samples, {len(self.classes)} classes"

    def __reduce__(self) -> tuple[type["Dataset"], tuple[str]]:
        return Dataset, (self.path,)

    @property
    def path(self) -> str:
        """The dataset's folder."""
        return self.core.path

    @cached_property
    def classes(self) -> list[str]:
        """The classes' names, by number."""
        return self.core.classes

    @cached_property
    def class_to_idx(self) -> dict[str, int]:
        """The classes' numbers, by name."""
        return {name: number for number, name in enumerate(self.classes)}

    @cached_property
    def targets(self) -> NDArray[np.int64]:
        """Each sample's class number, [samples]; -1 where it has none. Reads no image."""
        return self.core.labels()

    @property
    def fingerprint(self) -> str:
        """Of the content alone: equal datasets have equal ones wherever they lie.

        A folder's is of its files' names, classes and sizes.
        """
        return self.core.fingerprint

    def key(self, index: int) -> str:
        """A sample's name."""
        return self.core.key(self._number(index))

    def keys(self) -> list[str]:
        """All samples' names, in storage order."""
        return self.core.keys()

    def find(self, key: str) -> int | None:
        """The number of the sample with this name, None when there is none."""
        return self.core.find(key)

    def read(self, index: int) -> bytes:
        """A sample's image file as it is stored, its checksum compared where there is one."""
        return self.core.read(self._number(index))

    def _number(self, index: int) -> int:
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"{self.path} has {len(self)} samples, no sample {index}")
        return number
