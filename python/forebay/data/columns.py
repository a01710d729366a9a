"""The part of Dataset that knows the samples' names and columns."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay import _core
from forebay.checks import whole
from forebay.data.labels import Labels
from forebay.data.sample_names import SEVERAL, SampleNames

# Columns that every dataset has without reading an index.
_KNOWN = ("index", "key", "label", "bytes")
# Further columns that a packed dataset's chunk indexes have for each image.
_OF_IMAGES = ("width", "height", "source_path")
_IMAGE_SUFFIXES = (
    ".jpg", ".jpeg", ".png", ".webp", ".ppm", ".bmp", ".pgm", ".tif", ".tiff",
)  # fmt: skip


class DatasetColumns:
    """Names and columns of a Dataset's samples."""

    core: _core.Dataset
    # Labels and columns that a user gave, or that a metadata file has.
    _labels: Labels | None = None
    _given_columns: Mapping[str, NDArray[Any]] = {}

    def __len__(self) -> int:
        return len(self.core)

    @property
    def path(self) -> str:
        """The dataset's path; for a concatenation all paths, with " + " between them."""
        return self.core.path

    @cached_property
    def given_labels(self) -> Labels | None:
        """The labels that a user or a metadata file gave; None: they are those of the files."""
        return self._labels

    @cached_property
    def targets(self) -> NDArray[Any]:
        """Each sample's label, [samples] or [samples, n]; reads no image.

        These are class numbers, int64 [samples], -1 for a sample without a class; or, if
        `with_labels` gave several classes at once or numbers, float32.
        """
        given = self.given_labels
        return frozen(self.core.labels() if given is None else given.values)

    @cached_property
    def classes(self) -> list[str]:
        """The classes' names, in the order of their numbers."""
        given = self.given_labels
        return self.core.classes if given is None else given.classes

    @cached_property
    def class_to_idx(self) -> dict[str, int]:
        """The classes' numbers, by name."""
        return {name: number for number, name in enumerate(self.classes)}

    @cached_property
    def fingerprint(self) -> str:
        """A text that depends on the content alone, so equal datasets have the same one everywhere.

        A folder's fingerprint depends on its files' names, classes and sizes. Labels that were
        given count too, but columns do not.
        """
        given = self.given_labels
        return self.core.fingerprint if given is None else given.fingerprint(self.core.fingerprint)

    def key(self, index: int) -> str:
        """A sample's name."""
        return self.core.key(self._number(index))

    def keys(self) -> list[str]:
        """All samples' names, in the order of their numbers."""
        return self.column("key").tolist()

    def find(self, name: str) -> int | None:
        """The number of the first sample with this name; None if there is none.

        Args:
            name: A sample's key; or the name of its image file with its suffix, as it is in the
                column "source_path" or with more or fewer folders at its beginning.

        Raises:
            ValueError: It is a file name that fits several samples.
        """
        found = self.core.find(name)
        if found is not None or not name.lower().endswith(_IMAGE_SUFFIXES):
            return found
        number = int(self._names.find([name])[0])
        if number == SEVERAL:
            raise ValueError(f"find: {name!r} fits several samples; give more of its folders")
        return None if number < 0 else number

    @cached_property
    def columns(self) -> list[str]:
        """The names that `column` takes.

        These are "index", "key", "label", "bytes" (the image file's size) and "source_path" (the
        image's path in the folder or shard that it comes from). Packed datasets also have "width",
        "height", and the samples' own fields, such as "class"; samples from WebDataset shards have
        "json", "text" (from .txt) and others. Columns that were given by `with_column` or by a
        metadata file come last.
        """
        own = self.core.scalar_fields if self.core.has_indexes else []
        known = [*_KNOWN, *(_OF_IMAGES if self.core.has_indexes else _OF_IMAGES[-1:])]
        return list(dict.fromkeys([*known, *own, *self._given_columns]))

    def column(self, name: str) -> NDArray[Any]:
        """The values of all samples under a name. Reads no image.

        Returns:
            A read-only array [samples] of numbers (int64, uint32, float32), or of texts (JSON as
            text) with None for samples without a value; "label" is `targets`. In a packed dataset,
            the first use of a column other than "index", "key", "label" and "bytes" reads all
            chunks' indexes, which are kept.

        Raises:
            ValueError: There is no column of that name; `columns` lists the names.
        """
        if name not in self.columns:
            raise ValueError(f"{self.path} has no column {name!r}; there are {self.columns}")
        if name in self._given_columns:
            return self._given_columns[name]
        if name not in self._kept_columns:
            read = self._read_columns(name)
            self._kept_columns.update({own: frozen(column) for own, column in read.items()})
        return self._kept_columns[name]

    def _read_columns(self, name: str) -> Mapping[str, NDArray[Any]]:
        """The column, and other columns that are read together with it."""
        if name == "index":
            return {name: np.arange(len(self))}
        if name == "label":
            return {name: self.targets}
        if name == "bytes":
            return {name: self.core.lengths()}
        if name == "key":
            return {name: _objects(self.core.keys())}
        if not self.core.has_indexes:
            return {name: _objects(self.core.source_paths() or [])}
        found = self.core.columns()
        return {
            name: found[name] if isinstance(found[name], np.ndarray) else _objects(found[name])
            for name in self.columns
            if name in found
        }

    @cached_property
    def _kept_columns(self) -> dict[str, NDArray[Any]]:
        return {}

    @cached_property
    def _names(self) -> SampleNames:
        return SampleNames(self.keys(), lambda: self.column("source_path").tolist())

    def _number(self, index: int) -> int:
        index = whole("a sample's number", index, -(2**63))
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"{self.path} has {len(self)} samples, no sample {index}")
        return number


def frozen(values: NDArray[Any]) -> NDArray[Any]:
    """Makes an array read-only, because all callers get the same array."""
    values.flags.writeable = False
    return values


def _objects(values: list[Any]) -> NDArray[Any]:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
