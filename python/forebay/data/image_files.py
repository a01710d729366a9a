"""Lists of image files with labels, as they are given to Dataset in place of a path."""

import os
from collections.abc import Sequence
from typing import Any

from forebay.data.labels import Labels, make_labels
from forebay.data.sources import rooted
from forebay.data.tables import Table


def read_pairs(given: Sequence[Any]) -> tuple[list[str], Labels | None]:
    """The files of a list of pairs (path, label), or of a list of paths, and their labels.

    Relative paths become absolute ones, because the program may change its working directory.

    Raises:
        ValueError: The list has anything else, or only some files have a label.
    """
    are_paths = [isinstance(one, (str, os.PathLike)) for one in given]
    for one, is_path in zip(given, are_paths, strict=True):
        is_pair = isinstance(one, (tuple, list)) and len(one) == 2
        if not is_path and not (is_pair and isinstance(one[0], (str, os.PathLike))):
            raise ValueError(f"dataset: the list has {one!r}, but must have pairs (path, label)")
        path = os.fsdecode(one if is_path else one[0])
        if "://" in path:
            raise ValueError(f"dataset: {path} in the list must be a file on this machine")
    if any(are_paths):
        if not all(are_paths):
            raise ValueError("dataset: some files of the list have a label, and some have none")
        return [rooted(os.path.expanduser(os.fsdecode(one))) for one in given], None
    files = [rooted(os.path.expanduser(os.fsdecode(path))) for path, _ in given]
    if not files:
        return files, None
    table = Table("the list", {"": [label for _, label in given]})
    try:
        labels, has_value = make_labels(table, "", None, None, None)
        if not has_value.all():
            raise ValueError(f"the list has no label for {files[int(has_value.argmin())]}")
    except ValueError as error:
        raise ValueError(f"dataset: {error}") from None
    return files, labels
