"""Reads tables about samples: CSV and JSON-lines files, DataFrames, mappings and arrays.

What the values mean is labels.py's business; which sample a row belongs to, sample_names.py's.
"""

import csv
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The column of Hugging Face's metadata files that has the images' names.
FILE_NAME = "file_name"
_SUFFIXES = {".csv": ",", ".tsv": "\t", ".jsonl": "", ".ndjson": ""}
_PANDAS = "pandas.read_csv(…, dtype=str) reads other forms, and its DataFrame is a table too"

# The cells of a column: Python's values, or an array of numbers.
Cells = list[Any] | NDArray[Any]


@dataclass(frozen=True)
class Table:
    """Columns with a row for each of some samples.

    Attributes:
        name: The table's name in messages.
        columns: The cells by the columns' names. A mapping or an array is one column, named "".
        names: The key or file name of each row's sample; None: the rows are in the dataset's order.
        key: The name of the column that had the names; None: there was none.
    """

    name: str
    columns: dict[str, Cells]
    names: list[str] | None = None
    key: str | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), self.names or []))

    def choose(self, wanted: Any, default: Sequence[str]) -> str | list[str]:
        """The name of the column that is wanted, or the names of several.

        Args:
            wanted: A name, a list of names, or None.
            default: The names that are tried if `wanted` is None, before the only column.

        Raises:
            ValueError: There is no such column, or several columns come into question.
        """
        known = list(self.columns)
        if wanted is None:
            found = next((name for name in default if name in known), None)
            if found is None and len(known) != 1:
                raise ValueError(
                    f"{self.name} has the columns {known}; name the one that is meant (column=…)"
                )
            return known[0] if found is None else found
        if known == [""]:
            raise ValueError(f"{self.name} has no named columns; leave out column")
        names = [wanted] if isinstance(wanted, str) else list(wanted)
        wrong = [name for name in names if name not in known]
        if wrong or not names:
            raise ValueError(f"{self.name} has no column {(wrong or names)!r}; there are {known}")
        return wanted if isinstance(wanted, str) else names


def read_table(given: Any, key: str | None) -> Table:
    """Reads what a user gave as a table.

    Args:
        given: The path of a CSV, TSV or JSON-lines file; a DataFrame or a Series; an Arrow table; a
            mapping; or one row for each sample.
        key: The column with the samples' names. None: "file_name", else the first column.

    Raises:
        ValueError: It is none of these, or malformed.
        OSError: The file cannot be read.
    """
    if isinstance(given, (str, os.PathLike)):
        return _of_file(Path(os.path.expanduser(given)), key)
    if hasattr(given, "iloc") and hasattr(given, "index"):
        return _of_pandas(given, key)
    if hasattr(given, "column_names") and hasattr(given, "to_pydict"):
        return _keyed("the Arrow table", given.to_pydict(), key)
    if key is not None:
        raise ValueError(f"key: a {type(given).__name__} has no column {key!r}; leave out key")
    if isinstance(given, Mapping):
        wrong = next((name for name in given if not isinstance(name, (str, os.PathLike))), None)
        if wrong is not None:
            raise ValueError(f"the mapping has {wrong!r}, but must have names of files or keys")
        return Table("the mapping", {"": list(given.values())}, [os.fspath(one) for one in given])
    return Table("the array", {"": _rows(given)})


def _rows(given: Any) -> Cells:
    """One cell for each row of a list, array or tensor."""
    if isinstance(given, np.ndarray) or hasattr(given, "__array__"):
        values = np.asarray(given)
        if values.ndim == 0:
            raise ValueError(f"the table is {given!r}, but must have a row for each sample")
        return values if values.dtype.kind in "biuf" else values.tolist()
    if isinstance(given, (bytes, bytearray)) or not isinstance(given, Sequence):
        raise ValueError(
            f"the table is {given!r}, but must be the path of a CSV or JSON-lines file, a "
            "DataFrame, a mapping by file name, or a value for each sample"
        )
    return list(given)


def _of_file(path: Path, key: str | None) -> Table:
    delimiter = _SUFFIXES.get(path.suffix.lower())
    if delimiter is None:
        raise ValueError(
            f"{path}: a table is a file named .csv, .tsv, .jsonl or .ndjson; {_PANDAS}"
        )
    try:
        if delimiter:
            return _keyed(str(path), _csv_columns(path, delimiter), key)
        return _keyed(str(path), _json_columns(path), key)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8: {error}; {_PANDAS}") from None


def _csv_columns(path: Path, delimiter: str) -> dict[str, Cells]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            header = next(reader, [])
            rows = []
            for row in reader:
                if row and len(row) != len(header):
                    raise ValueError(
                        f"{path}: line {reader.line_num} has {len(row)} fields, but the first line "
                        f"names {len(header)} columns; {_PANDAS}"
                    )
                if row:
                    rows.append(row)
        except csv.Error as error:
            raise ValueError(f"{path}: line {reader.line_num}: {error}; {_PANDAS}") from None
    if len(set(header)) < len(header) or not header:
        raise ValueError(f"{path}: its first line must name the columns, but is {header}")
    cells = zip(*rows, strict=True) if rows else ([] for _ in header)
    return {name: list(column) for name, column in zip(header, cells, strict=True)}


def _json_columns(path: Path) -> dict[str, Cells]:
    rows: list[dict[str, Any]] = []
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}: line {number} is not JSON: {error}") from None
            if not isinstance(row, dict):
                raise ValueError(f"{path}: line {number} must be an object like {{…}}")
            rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _of_pandas(given: Any, key: str | None) -> Table:
    index = given.index.tolist()
    by_index = bool(index) and all(isinstance(name, str) for name in index)
    if not hasattr(given, "columns"):  # a Series
        if key is not None:
            raise ValueError(f"key: a Series has no column {key!r}; leave out key")
        return Table("the Series", {"": _cells(given)}, index if by_index else None)
    columns = {str(name): _cells(given[name]) for name in given.columns}
    if by_index and key is None:
        return Table("the DataFrame", columns, index)
    return _keyed("the DataFrame", columns, key)


def _cells(series: Any) -> Cells:
    """The cells of a Series; None where it has no value."""
    values = series.to_numpy()
    if values.dtype.kind in "biu" or (values.dtype.kind == "f" and np.isfinite(values).all()):
        return np.asarray(values)
    missing = series.isna().to_numpy()
    if values.dtype.kind == "f" and (values[~missing] % 1 == 0).all():
        values = values.astype(object)  # pandas has no missing whole numbers, so 3 became 3.0
        return [None if lacks else int(one) for one, lacks in zip(values, missing, strict=True)]
    return [None if lacks else one for one, lacks in zip(series.tolist(), missing, strict=True)]


def _keyed(name: str, columns: Mapping[str, Cells], key: str | None) -> Table:
    """A table with the samples' names in the column `key`."""
    others = dict(columns)
    if key is None:
        key = FILE_NAME if FILE_NAME in others else next(iter(others), None)
    if key not in others:
        raise ValueError(f"{name} has no column {key!r}; there are {list(others)}")
    names = others.pop(key)
    if not others:
        mark = next((one for one in ";\t|" if one in key), None)
        how = _PANDAS if mark is None else _PANDAS.replace("dtype", f"sep={mark!r}, dtype")
        raise ValueError(f"{name} has only the column {key!r}, which has the samples' names; {how}")
    return Table(name, others, [str(one) for one in names], key)
