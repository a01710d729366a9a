"""Labels of samples that a user gave: classes, several classes at once, or numbers."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.data.tables import Cells, Table

KINDS = ("class", "classes", "numbers")
_LABEL_MAX = 2**31 - 1
_CLASSES_MAX = 2**20  # of several at once, because each sample has a number for each class
_NAMED = 3  # how many names a message has
# "007" is a name, and no number.
_INTEGER = re.compile(r"-?(0|[1-9]\d*)")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d*)?([eE][-+]?\d+)?")


@dataclass(frozen=True)
class Labels:
    """A label for each sample.

    Attributes:
        values: Class numbers, int64 [samples], -1 for none; or several classes at once, 0 or 1, or
            numbers, float32 [samples, n] or [samples].
        classes: The names of the classes, in the order of their numbers; empty: they have no names.
    """

    values: NDArray[Any]
    classes: list[str]

    @property
    def is_class(self) -> bool:
        """Whether each sample has one class at most."""
        return self.values.dtype == np.int64

    def take(self, samples: NDArray[np.int64]) -> "Labels":
        """The labels of these samples, in this order."""
        return Labels(self.values[samples], self.classes)

    def fingerprint(self, of_images: str) -> str:
        """The fingerprint of a dataset with these labels, whose images have another fingerprint."""
        facts = [of_images, self.values.dtype.str, list(self.values.shape), self.classes]
        sha256 = hashlib.sha256(json.dumps(facts).encode())
        sha256.update(np.ascontiguousarray(self.values).tobytes())
        return sha256.hexdigest()

    def text(self, sample: int) -> str:
        """A sample's label for people."""
        value = self.values[sample]
        if self.is_class:
            return self.classes[value] if 0 <= value < len(self.classes) else str(value)
        if self.classes:
            return ", ".join(self.classes[i] for i in np.flatnonzero(value))
        return ", ".join(f"{one:g}" for one in np.atleast_1d(value))


def names_in_order(classes: Any) -> list[Any]:
    """The names of classes, in the order of their numbers.

    Args:
        classes: The names in this order, or a mapping from names to numbers like `class_to_idx`.

    Raises:
        ValueError: It is a single text, or the numbers are not 0, 1, 2 and so on.
    """
    if isinstance(classes, str):
        raise ValueError(f"classes is {classes!r}, but must be names of classes")
    if not isinstance(classes, Mapping):
        return list(classes)
    name_of = {number: name for name, number in classes.items()}
    if len(name_of) < len(classes) or set(name_of) != set(range(len(classes))):
        raise ValueError(
            f"classes is {classes!r}, but a mapping must give the names the numbers from 0 to "
            f"{len(classes) - 1}, each once, like class_to_idx"
        )
    return [name_of[number] for number in range(len(classes))]


def renumbered(labels: Labels, classes: Sequence[str] | Mapping[str, int]) -> Labels:
    """The same labels with the numbers that `classes` give, such as another dataset's.

    Raises:
        ValueError: The samples have no named classes, a class of theirs is not among `classes`, or
            a name occurs twice there.
    """
    names = names_in_order(classes)
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"classes is {classes!r}, but must be names of classes")
    if len(set(names)) < len(names):
        raise ValueError("classes: a name occurs twice")
    if not labels.is_class or not labels.classes:
        raise ValueError("classes: the samples have no named classes; use with_labels")
    if labels.classes == names:
        return labels
    of = {name: number for number, name in enumerate(names)}
    used = np.bincount(labels.values[labels.values >= 0], minlength=len(labels.classes))
    missing = [name for name, count in zip(labels.classes, used, strict=True)
               if count and name not in of]  # fmt: skip
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise ValueError(
            f"classes: {', '.join(map(repr, missing[:3]))}{more} have samples, but are not among "
            f"the {len(names)} classes; add them, or leave their samples out of the source"
        )
    numbers = np.array([of.get(name, -1) for name in labels.classes] + [-1], np.int64)
    return Labels(numbers[labels.values], names)


def joined(parts: Sequence[Labels]) -> Labels:
    """The labels of several datasets, one after the other; classes with the same name become one.

    Raises:
        ValueError: The datasets have different kinds of labels, or only some have names of classes.
    """
    first = parts[0]
    if all(part.is_class for part in parts):
        if len({bool(part.classes) for part in parts}) > 1:
            raise ValueError(
                "concat: only some of the datasets have names of classes, so their class numbers "
                "cannot be combined; with_labels(…, classes=…) gives them names"
            )
        classes = list(dict.fromkeys(name for part in parts for name in part.classes))
        places = {name: number for number, name in enumerate(classes)}
        values = [
            np.array([*(places[name] for name in part.classes), -1])[part.values]
            if classes else part.values
            for part in parts
        ]  # fmt: skip
        return Labels(np.concatenate(values), classes)
    kinds = {(part.values.dtype.kind, part.values.shape[1:], *part.classes) for part in parts}
    if len(kinds) > 1:
        raise ValueError(
            "concat: the datasets have different labels, such as classes in one and numbers in "
            "another, or several classes at once that differ; give all the same `classes`"
        )
    return Labels(np.concatenate([part.values for part in parts]), first.classes)


def make_labels(
    table: Table,
    column: str | list[str],
    classes: Sequence[Any] | Mapping[Any, int] | None,
    separator: str | None,
    kind: str | None,
) -> tuple[Labels, NDArray[np.bool_]]:
    """The labels of a table's rows, and whether each row has one.

    Args:
        table: The table.
        column: The column of the labels, or several columns.
        classes: What names_in_order() takes; None: the names are those of the table.
        separator: Stands between several classes in one text; None: a text is one class.
        kind: One of KINDS; None: by the values.

    Raises:
        ValueError: A value is not of the kind, or not one of the classes; the message names it.
    """
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind is {kind!r}, but must be one of {KINDS}")
    names = None if classes is None else [str(one) for one in names_in_order(classes)]
    if names is not None and len(set(names)) < len(names):
        raise ValueError(f"classes: some names come more than once: {names}")
    if isinstance(column, list):
        return _of_columns(table, column, names, kind)
    cells = table.columns[column]
    if isinstance(cells, np.ndarray) and cells.ndim > 1:
        return _of_matrix(cells, names, kind)
    values = _values(cells)
    has_value = np.array([one is not None for one in values], bool)
    if kind is None:
        kind = _kind_of(values, names, separator)
    if kind == "numbers":
        return Labels(_numbers(table, column, values), []), has_value
    if kind == "class":
        return _one_class(table, values, names), has_value
    rows = _zeros_and_ones(values, names)
    if rows is not None:
        return _of_matrix(rows, names, kind)[0], has_value
    sets = [_items(one, separator) for one in values]
    if separator is not None:
        has_value[:] = True  # an empty text is no class at all
    return _several_classes(table, sets, names), has_value


def numbers_or_texts(table: Table, column: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """A column's values as an array [rows] or [rows, n], and whether each row has one.

    Whole numbers become int64, other numbers float32; anything else stays as it is (object).
    """
    cells = table.columns[column]
    if isinstance(cells, np.ndarray):
        kind = np.float32 if cells.dtype.kind == "f" else np.int64
        return cells.astype(kind), _are_numbers(cells)
    values = _values(cells)
    has_value = np.array([one is not None for one in values], bool)
    filled = [0 if one is None else one for one in values]
    if all(type(one) is int and abs(one) < 2**63 for one in filled):
        return np.array(filled, np.int64), has_value
    if all(type(one) in (int, float) for one in filled):
        return np.array(filled, np.float32), has_value
    out = np.empty(len(values), dtype=object)
    out[:] = cells
    return out, np.ones(len(values), bool)


def _values(cells: Cells) -> list[Any]:
    """The cells as Python's values; None: no value. Texts become numbers if all of them can."""
    if isinstance(cells, np.ndarray):
        cells = (cells.astype(np.int64) if cells.dtype == bool else cells).tolist()
    if all(one is None or isinstance(one, str) for one in cells):
        return _parsed([None if one is None else one.strip() or None for one in cells])
    values = [one.item() if isinstance(one, np.generic) else one for one in cells]
    values = [int(one) if isinstance(one, bool) else one for one in values]
    return [None if isinstance(one, float) and one != one else one for one in values]


def _are_numbers(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each row has no NaN [rows]."""
    return ~np.isnan(values).reshape(len(values), -1).any(axis=1)


def _parsed(texts: list[str | None]) -> list[Any]:
    """Whole numbers if all texts are, else numbers if all are, else the texts."""
    known = [text for text in texts if text is not None]
    for pattern, type_of in ((_INTEGER, int), (_NUMBER, float)):
        if all(pattern.fullmatch(text) for text in known):
            return [None if text is None else type_of(text) for text in texts]
    return texts


def _kind_of(values: list[Any], names: list[str] | None, separator: str | None) -> str:
    known = [one for one in values if one is not None]
    if separator is not None:
        return "classes"
    if any(_is_list(one) for one in known):
        has_fractions = any(isinstance(item, float) for one in known for item in _items(one, None))
        return "numbers" if has_fractions and names is None else "classes"
    if names is None and any(isinstance(one, float) for one in known):
        return "numbers"
    return "class"


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, set, frozenset, np.ndarray))


def _items(value: Any, separator: str | None) -> list[Any]:
    """The classes in one cell."""
    if value is None:
        return []
    if _is_list(value):
        return [one.item() if isinstance(one, np.generic) else one for one in value]
    if separator is not None and isinstance(value, str):
        return [text.strip() for text in value.split(separator) if text.strip()]
    return [value]


def _zeros_and_ones(values: list[Any], names: list[str] | None) -> NDArray[np.float32] | None:
    """Lists that have 0 or 1 for each class, as rows; None: they are no such lists.

    Such lists of two or more numbers cannot be class numbers: these would name a class twice, or
    would be the same for all samples.
    """
    known = [one for one in values if one is not None]
    if not known or not all(isinstance(one, (list, tuple, np.ndarray)) for one in known):
        return None
    count = len(known[0]) if names is None else len(names)
    if count < 2 or any(len(one) != count for one in known):
        return None
    if not all(
        isinstance(item, (int, float)) and item in (0, 1)
        for one in known
        for item in _items(one, None)
    ):
        return None
    return np.array([[0] * count if one is None else one for one in values], np.float32)


def _numbers(table: Table, column: str, values: list[Any]) -> NDArray[np.float32]:
    """Numbers [rows], or [rows, n] if the cells are lists; 0 where a row has none."""
    shape = next((np.shape(one) for one in values if one is not None), ())
    filled = [np.zeros(shape, np.float32) if one is None else one for one in values]
    try:
        out = np.array([np.asarray(one, np.float32) for one in filled], np.float32)
    except (TypeError, ValueError):
        out = np.empty((0, 0, 0), np.float32)
    if out.ndim > 2 or (out.ndim == 2 and not shape):
        raise ValueError(
            f"{table.name}: the column {column!r} has values that are not numbers, or not as many "
            f"in each row, such as {_first_that(values, lambda one: not _is_number(one))!r}"
        )
    return out.reshape(len(values), *shape)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _first_that(values: Iterable[Any], fits: Any) -> Any:
    return next((one for one in values if one is not None and fits(one)), None)


def _one_class(table: Table, values: list[Any], names: list[str] | None) -> Labels:
    """Class numbers; -1 where a row has none."""
    if any(_is_list(one) for one in values):
        raise ValueError(f"{table.name}: some rows have lists of classes; give kind='classes'")
    known = _known(table, values)
    numbers, classes = _numbering(table, known, names)
    if names is None and not classes:
        wrong = [one for one in known if not -1 <= one <= _LABEL_MAX]
        if wrong:
            raise ValueError(f"{table.name}: {wrong[0]} is no class number, which is 0 or more")
    found = [-1 if one is None else numbers[_whole(one)] for one in values]
    return Labels(np.array(found, np.int64), classes)


def _known(table: Table, values: Iterable[Any]) -> set[Any]:
    """The different values."""
    known = set()
    for one in values:
        if not isinstance(one, (str, int, float, type(None))):
            raise ValueError(f"{table.name}: {one!r} is no class, which is a text or whole number")
        known.add(_whole(one))
    return known - {None}


def _whole(value: Any) -> Any:
    """A whole number as an int: a DataFrame with missing values may have 3.0 for 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _numbering(
    table: Table, known: set[Any], names: list[str] | None
) -> tuple[dict[Any, int], list[str]]:
    """The class number of each value, and the classes' names."""
    if names is None:
        if all(type(one) is int for one in known):
            return {one: one for one in known}, []
        names = sorted({str(one) for one in known})
    places = {name: number for number, name in enumerate(names)}
    if all(str(one) in places for one in known):
        return {one: places[str(one)] for one in known}, names
    wrong = sorted(str(one) for one in known if str(one) not in places)
    if all(type(one) is int for one in known):
        wrong = [str(one) for one in sorted(known) if not 0 <= one < len(names)]
    if not wrong:
        return {one: one for one in known}, names
    raise ValueError(
        f"{table.name}: {', '.join(map(repr, wrong[:_NAMED]))} "
        f"{'is' if len(wrong) == 1 else 'are'} not among the {len(names)} classes "
        f"{names[:_NAMED]}{'…' if len(names) > _NAMED else ''}"
        + (f" ({len(wrong)} such values)" if len(wrong) > _NAMED else "")
    )


def _several_classes(table: Table, sets: list[list[Any]], names: list[str] | None) -> Labels:
    """Several classes for each row, 0 or 1, float32 [rows, classes]."""
    known = _known(table, (one for items in sets for one in items))
    if any(isinstance(one, str) for one in known):
        flat = _parsed([str(one) for items in sets for one in items])
        ends = iter(flat)
        sets = [[next(ends) for _ in items] for items in sets]
        known = set(flat)
    numbers, classes = _numbering(table, known, names)
    wrong = [one for one in numbers.values() if one < 0]
    if wrong:
        raise ValueError(f"{table.name}: {wrong[0]} is no class number, which is 0 or more")
    count = len(classes) or max(numbers.values(), default=-1) + 1
    if count > _CLASSES_MAX:
        raise ValueError(f"{table.name}: {count - 1} is above the largest class number, 2^20 - 1")
    out = np.zeros((len(sets), count), np.float32)
    rows = np.repeat(np.arange(len(sets)), [len(items) for items in sets])
    out[rows, [numbers[_whole(one)] for items in sets for one in items]] = 1
    return Labels(out, classes)


def _of_columns(
    table: Table, columns: list[str], names: list[str] | None, kind: str | None
) -> tuple[Labels, NDArray[np.bool_]]:
    """Columns side by side, float32 [rows, columns]; classes have their columns' names."""
    if kind == "class":
        raise ValueError(f"kind: {columns} are several columns, so 'class' is impossible")
    if names is not None:
        raise ValueError(f"classes: the names are those of the columns {columns}; leave it out")
    values = [_values(table.columns[name]) for name in columns]
    each = [_numbers(table, name, column) for name, column in zip(columns, values, strict=True)]
    out = np.stack(each, axis=1)
    has_value = np.all([[one is not None for one in column] for column in values], axis=0)
    labels, _ = _of_matrix(out, columns, kind)
    return labels, has_value


def _of_matrix(
    values: NDArray[Any], names: list[str] | None, kind: str | None
) -> tuple[Labels, NDArray[np.bool_]]:
    """Rows of numbers, or of 0 and 1 for classes."""
    if values.ndim != 2 or kind == "class":
        raise ValueError(
            f"labels are {values.dtype} {list(values.shape)}, but must have one or two dimensions"
            + (", and one with kind='class'" if kind else "")
        )
    is_several = bool(((values == 0) | (values == 1) | np.isnan(values)).all())
    if kind == "classes" and not is_several:
        raise ValueError("labels of several columns must be 0 or 1 for kind='classes'")
    if names is not None and len(names) != values.shape[1]:
        raise ValueError(f"classes: {len(names)} names for {values.shape[1]} columns of labels")
    classes = [] if names is None or kind == "numbers" or not is_several else names
    return Labels(values.astype(np.float32), classes), _are_numbers(values)
