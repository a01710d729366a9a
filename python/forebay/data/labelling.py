"""Brings the rows of a user's table to the samples of a dataset."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from forebay.data.columns import DatasetColumns, frozen
from forebay.data.labels import Labels, make_labels, numbers_or_texts
from forebay.data.sample_names import NONE, SEVERAL
from forebay.data.tables import FILE_NAME, Table, read_table

if TYPE_CHECKING:
    from forebay.data.dataset import Dataset

# Hugging Face's names of the file with facts about the images of a folder, and of its labels.
_METADATA = ("metadata.csv", "metadata.jsonl")
_LABELS = ("label", "labels")
# Names that a column cannot have, because batches and datasets have fields of these names.
_TAKEN = ("index", "key", "label", "bytes", "source_path", "image", "file")


@dataclass(frozen=True)
class Described:
    """What a table says about the samples of a dataset.

    Attributes:
        kept: The numbers of the samples that stay; None: all of them. The rest is theirs.
        labels: Their labels, or None.
        columns: Further columns of theirs by name.
    """

    kept: NDArray[np.int64] | None
    labels: Labels | None
    columns: Mapping[str, NDArray[Any]]


class DatasetLabelling(DatasetColumns):
    """The part of Dataset that takes labels and columns from tables."""

    def with_labels(
        self,
        table: Any,
        classes: Sequence[Any] | Mapping[Any, int] | None = None,
        *,
        key: str | None = None,
        column: str | Sequence[str] | None = None,
        separator: str | None = None,
        kind: str | None = None,
        missing: str = "error",
    ) -> "Dataset":
        """The same samples with other labels, in `targets` and in batches (docs/labels.md).

        Rows belong to samples by a name: the sample's key, or the name of its image file. The
        suffix may be missing or another one; and the name may have more or fewer folders at its
        beginning, if only one sample then fits. A UserWarning counts rows without a sample.

        Args:
            table: The path of a file .csv, .tsv or .jsonl on this machine; a pandas DataFrame; an
                Arrow table; a mapping from names to labels, or a Series with names as its index; or
                a label for each sample in the dataset's order, as a list or an array.
            classes: The names of the classes, in the order of their numbers, or a mapping from
                names to numbers, such as another dataset's `class_to_idx`. None: all names in the
                table, sorted; or, if labels are whole numbers, these numbers, without names.
            key: The column with the names. None: "file_name" if there is one, else the first
                column; of a DataFrame with texts as its index, the index.
            column: The column with the labels. None: "label" or "labels", else the only other one.
                A list of columns gives float32 [samples, columns]: numbers, or several classes with
                the columns' names if all values are 0 or 1.
            separator: Stands between several classes in one text, such as "|" or " ".
            kind: "class": one class for each sample. "classes": several. "numbers": numbers to
                regress. None: texts and whole numbers are a class, lists and texts with a separator
                several classes, other numbers are numbers.
            missing: "error" or "drop" for samples without a row or with an empty value.

        Raises:
            ValueError: Samples have no label, a label is not among `classes`, or the table is
                malformed; the message names the first ones.
            OSError: The file cannot be read.
        """
        return self._described(
            _labels(
                self, table, classes, key=key, column=column, separator=separator, kind=kind,
                missing=missing,
            )
        )  # fmt: skip

    def with_column(
        self,
        name: str,
        table: Any,
        *,
        key: str | None = None,
        column: str | None = None,
        missing: str = "error",
    ) -> "Dataset":
        """The same samples with one more column, for `column(name)`, `filter` and batches.

        Args:
            name: The column's name; it replaces a column of that name that was packed or given.
            table, key, missing: The same as with_labels has.
            column: The table's column. None: `name` if there is one, else the only other one.

        Raises:
            ValueError: Samples have no value, the name is one of a dataset's own columns, or the
                table is malformed.
            OSError: The file cannot be read.
        """
        return self._described(_column(self, name, table, key=key, column=column, missing=missing))

    def _described(self, made: Described) -> "Dataset":
        """A view of this dataset that has what a table says."""
        raise NotImplementedError


def _labels(
    dataset: DatasetColumns,
    given: Any,
    classes: Sequence[Any] | Mapping[Any, int] | None,
    *,
    key: str | None,
    column: str | Sequence[str] | None,
    separator: str | None,
    kind: str | None,
    missing: str,
) -> Described:
    """Does what Dataset.with_labels says.

    Raises:
        ValueError: The same as with_labels; the message begins with that name.
    """
    try:
        table = read_table(given, key)
        chosen = table.choose(column, _LABELS)
        labels, has_value = make_labels(table, chosen, classes, separator, kind)
        kept, rows = _rows(dataset, table, has_value, missing)
    except ValueError as error:
        raise ValueError(f"with_labels: {error}") from None
    return Described(kept, labels.take(rows), {})


def _column(
    dataset: DatasetColumns,
    name: str,
    given: Any,
    *,
    key: str | None,
    column: str | None,
    missing: str,
) -> Described:
    """Does what Dataset.with_column says.

    Raises:
        ValueError: The same as with_column; the message begins with that name.
    """
    try:
        if not isinstance(name, str) or name in _TAKEN or not name:
            raise ValueError(f"{name!r} cannot be a column's name; choose another one")
        table = read_table(given, key)
        chosen = table.choose(column, (name,))
        if isinstance(chosen, list):
            raise ValueError(f"column is {chosen}, but must be one name")
        values, has_value = numbers_or_texts(table, chosen)
        kept, rows = _rows(dataset, table, has_value, missing)
    except ValueError as error:
        raise ValueError(f"with_column: {error}") from None
    return Described(kept, None, {name: frozen(values[rows])})


def metadata_of(dataset: DatasetColumns, folder: str) -> Described | None:
    """What Hugging Face's metadata file in a folder says about its images; None: there is none.

    Images without a row are left out, like there. A UserWarning says how many these are, and why a
    file is not used.
    """
    for path in (os.path.join(folder, name) for name in _METADATA):
        if not os.path.isfile(path):
            continue
        try:
            table = read_table(path, None)
            if table.key != FILE_NAME:
                _warn(
                    f"{path} has no column {FILE_NAME!r}, so it is not used; with_labels(path) and "
                    "with_column(name, path) take it",
                    4,
                )
                continue
            return _of_metadata(dataset, table)
        except (ValueError, OSError) as error:
            warnings.warn(f"{error}; this file is not used", stacklevel=4)
    return None


def _of_metadata(dataset: DatasetColumns, table: Table) -> Described:
    labels, everywhere = None, np.ones(len(table), bool)
    name = next((one for one in _LABELS if one in table.columns), None)
    if name is not None:
        labels, _ = make_labels(table, name, None, None, None)
    kept, rows = _rows(dataset, table, everywhere, "drop", stacklevel=6)
    if kept is not None:
        _warn(
            f"{table.name} has no row for {len(dataset) - len(kept)} of {len(dataset)} images, "
            "which are left out",
            5,
        )
    taken = [one for one in table.columns if one in _TAKEN and one != name]
    if taken:
        _warn(f"{table.name}: datasets have columns {taken} of their own; these are not used", 5)
    columns = {
        one: frozen(numbers_or_texts(table, one)[0][rows])
        for one in table.columns
        if one not in (*_TAKEN, name)
    }
    return Described(kept, None if labels is None else labels.take(rows), columns)


def _rows(
    dataset: DatasetColumns,
    table: Table,
    has_value: NDArray[np.bool_],
    missing: str,
    stacklevel: int = 4,
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    """The samples that stay (None: all), and the row of each of these."""
    if missing not in ("error", "drop"):
        raise ValueError(f"missing is {missing!r}, but must be 'error' or 'drop'")
    count = len(dataset)
    if table.names is None:
        if len(table) != count:
            raise ValueError(
                f"{table.name} has {len(table)} rows, but {dataset.path} has {count} samples; rows "
                "without names must be in the dataset's order, one for each sample"
            )
        row_of = np.arange(count)
    else:
        row_of = _rows_by_name(dataset, table, table.names, stacklevel)
    lacks = row_of < 0
    lacks[~lacks] = ~has_value[row_of[~lacks]]
    if not lacks.any():
        return None, row_of
    if missing == "error":
        numbers = np.flatnonzero(lacks)
        named = ", ".join(dataset.key(int(number)) for number in numbers[:3])
        raise ValueError(
            f"{table.name} has no value for {len(numbers)} of {count} samples, such as {named}; "
            "missing='drop' leaves these samples out"
        )
    kept = np.flatnonzero(~lacks)
    return kept, row_of[kept]


def _rows_by_name(
    dataset: DatasetColumns, table: Table, names: list[str], stacklevel: int
) -> NDArray[np.int64]:
    """The row of each sample, -1 if it has none."""
    found = dataset._names.find(names)
    several = np.flatnonzero(found == SEVERAL)
    if len(several) > 0:
        raise ValueError(
            f"{table.name}: {len(several)} of its names fit several samples, such as "
            f"{names[several[0]]!r}; give file names with their folders"
        )
    used = np.flatnonzero(found >= 0)
    _check_header(dataset, table, found[used])
    if len(used) == 0 and len(dataset) > 0:
        example = names[0] if names else ""
        raise ValueError(
            f"{table.name}: none of its {len(names)} names, such as {example!r}, is that of a "
            f"sample, such as {dataset.key(0)!r} (key=… names the column with the file names; a "
            "DataFrame that is read with dtype=str keeps the zeros of names like '007')"
        )
    order = used[np.argsort(found[used], kind="stable")]
    again = np.flatnonzero(np.diff(found[order]) == 0)
    if len(again) > 0:
        first, second = order[again[0]], order[again[0] + 1]
        raise ValueError(
            f"{table.name}: {len(again)} samples have more than one row, such as "
            f"{names[first]!r} in rows {first} and {second}; for several labels of a sample put "
            "them into one row: df.groupby(NAMES)[LABELS].agg(list)"
        )
    unused = np.flatnonzero(found == NONE)
    if len(unused) > 0:
        _warn(
            f"{table.name}: {len(unused)} of its {len(names)} rows have no sample in "
            f"{dataset.path}, such as {names[unused[0]]!r}",
            stacklevel + 1,
        )
    row_of = np.full(len(dataset), NONE, np.int64)
    row_of[found[used]] = used
    return dataset._names.spread(row_of)


def _check_header(dataset: DatasetColumns, table: Table, with_row: NDArray[np.int64]) -> None:
    """Raises ValueError if the name of the names' column is the name of a sample without a row."""
    if table.key is None:
        return
    sample = dataset._names.find_cheaply(table.key)
    if sample >= 0 and sample not in with_row:
        raise ValueError(
            f"{table.name}: its first row must name the columns, but has the name of a sample, "
            f"{table.key!r}; put a row such as file_name,label before it"
        )


def _warn(message: str, stacklevel: int) -> None:
    warnings.warn(message, stacklevel=stacklevel + 1)
