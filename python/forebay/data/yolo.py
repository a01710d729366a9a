"""Reads annotations in YOLO's format: a text file for each image, with an object in each line."""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.checks import whole
from forebay.data.annotations import Annotations, Outlines
from forebay.data.names import Names

# How far beyond the image a fraction may be: writers round to three digits or more.
_ROUNDING = 0.001
_CLASSES_MAX = 2**31 - 1
# labelImg writes the names of the classes beside the labels.
_NOT_OF_AN_IMAGE = "classes.txt"


def read_yolo(folder: str | os.PathLike[str], samples: Names, names: Any = None) -> Annotations:
    """The annotations of the samples with these names.

    The file a.txt belongs to the image with the name a, whatever its suffix; like in COCO's format,
    either name may have more folders at its beginning, if only one sample then fits. A sample
    without a file, or with an empty one, has no objects. Each line has an object: its class and
    the x and y of its centre, its width and its height; or its class and x and y of three or more
    corners. All are fractions of the image's width and height. A UserWarning says how many files
    have no sample.

    Args:
        folder: The folder with the .txt files, also in folders of their own.
        names: Names of the classes: a sequence in the order of their numbers, or a mapping from
            numbers to names. None: any class number may come.

    Raises:
        ValueError: A line is not an object, and the message says which line of which file; a file
            fits several samples; no file has a sample; or `names` are no names.
    """
    folder = os.path.expanduser(folder)
    categories = _categories(names)
    files = _files(folder)
    found = _samples_of(files, samples, folder)
    objects: list[list[_Object]] = [[] for _ in samples.keys]
    for file, sample in zip(files, found, strict=True):
        if sample >= 0:
            objects[sample] = _read(os.path.join(folder, file), categories)
    every = [one for some in objects for one in some]
    boxes = np.array([one.box for one in every], np.float64).reshape(-1, 4)
    return Annotations(
        counts=np.array([len(some) for some in objects], np.int64),
        boxes=boxes.astype(np.float32),
        are_fractions=True,
        columns={
            "labels": np.array([one.label for one in every], np.int64),
            "area": (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]),
            "iscrowd": np.zeros(len(every), np.int64),
        },
        outlines=_outlines(every),
        image_ids=np.arange(len(objects)),
        categories=categories,
    )


@dataclass(frozen=True)
class _Object:
    """An object: its class, its left, top, right and bottom, and x and y of its corners in turn."""

    label: int
    box: tuple[float, float, float, float]
    corners: Sequence[float] = ()


def _categories(names: Any) -> dict[int, str]:
    if names is None:
        return {}
    is_list = isinstance(names, Sequence) and not isinstance(names, str | bytes)
    if not is_list and not isinstance(names, Mapping):
        raise ValueError(
            f"category_names is {names!r}, but must be a list of names in the order of the "
            "classes' numbers, or a mapping from numbers to names"
        )
    pairs: Iterable[Any] = names.items() if isinstance(names, Mapping) else enumerate(names)
    out = {whole("category_names: a number", i, 0, _CLASSES_MAX): name for i, name in pairs}
    for name in out.values():
        if not isinstance(name, str):
            raise ValueError(f"category_names: {name!r} is no name")
    if not out:
        raise ValueError("category_names: there are no names")
    return out


def _files(folder: str) -> list[str]:
    """The paths of the folder's text files, from the folder on."""
    out = []
    for place, folders, files in os.walk(folder, followlinks=True):
        folders.sort()
        inside = os.path.relpath(place, folder)
        names = sorted(name for name in files if name.lower().endswith(".txt"))
        out += [os.path.normpath(os.path.join(inside, name)) for name in names]
    return out


def _samples_of(files: list[str], samples: Names, folder: str) -> list[int]:
    """The number of each file's sample, -1 if there is none."""
    try:
        found = samples.samples_of(files)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None
    missing = [
        file
        for file, sample in zip(files, found, strict=True)
        if sample < 0 and os.path.basename(file) != _NOT_OF_AN_IMAGE
    ]
    if not any(sample >= 0 for sample in found) and samples.keys:
        said = "there are no .txt files"
        if missing:
            said = (
                f"none of its {len(missing)} .txt files, such as {missing[0]}, has the name of a "
                f"sample, such as {samples.keys[0]}"
            )
        raise ValueError(f"{folder}: {said}; YOLO's labels of images/a.jpg are in labels/a.txt")
    if missing:
        warnings.warn(
            f"{folder}: {len(missing)} of its {len(files)} .txt files have no sample in the "
            f"dataset, such as {missing[0]}",
            stacklevel=4,
        )
    return found


def _read(path: str, categories: Mapping[int, str]) -> list[_Object]:
    with open(path, "rb") as file:
        content = file.read()
    out = []
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        try:
            words = line.decode("ascii").split()
            if words:
                out.append(_object(words, categories))
        except ValueError as error:
            said = "it is not plain text" if isinstance(error, UnicodeDecodeError) else error
            raise ValueError(f"{path}: line {number}: {said}") from None
    return out


def _object(words: Sequence[str], categories: Mapping[int, str]) -> _Object:
    """The object of a line's words.

    Raises:
        ValueError: The words are not an object.
    """
    if len(words) != 5 and (len(words) < 7 or len(words) % 2 == 0):
        raise ValueError(
            f"it has {len(words)} columns, but must have 5 (class, x and y of the centre, width, "
            "height), or a class and x and y of three or more corners"
        )
    label = _class_number(words[0], categories)
    places = [_fraction(word) for word in words[1:]]
    if len(places) > 4:
        xs, ys = places[::2], places[1::2]
        return _Object(label, (min(xs), min(ys), max(xs), max(ys)), places)
    x, y, width, height = places
    if min(width, height) < 0:
        raise ValueError(
            f"the width and the height are {words[3]} and {words[4]}, but must be 0 or more"
        )
    return _Object(label, (x - width / 2, y - height / 2, x + width / 2, y + height / 2))


def _class_number(word: str, categories: Mapping[int, str]) -> int:
    number = _number(word)
    if not number.is_integer() or not 0 <= number <= _CLASSES_MAX:
        raise ValueError(f"the class is {word}, but must be a whole number from 0 on")
    if categories and int(number) not in categories:
        raise ValueError(
            f"the class is {word}, but category_names has the numbers {min(categories)} to "
            f"{max(categories)}"
        )
    return int(number)


def _fraction(word: str) -> float:
    number = _number(word)
    if not -_ROUNDING <= number <= 1 + _ROUNDING:
        raise ValueError(
            f"{word} is no fraction of the image's width or height, which is from 0 to 1"
        )
    return number


def _number(word: str) -> float:
    try:
        if "_" in word:  # which Python's float() takes
            raise ValueError
        return float(word)
    except ValueError:
        raise ValueError(f"{word!r:.40} is not a number") from None


def _outlines(objects: Sequence[_Object]) -> Outlines | None:
    """The corners of all objects, in fractions; None if no object has any."""
    outlined = [one for one in objects if one.corners]
    if not outlined:
        return None
    numbers: NDArray[np.float64] = np.concatenate([one.corners for one in outlined])
    return Outlines(
        parts=np.array([1 if one.corners else 0 for one in objects], np.int64),
        lengths=np.array([len(one.corners) for one in outlined], np.int64),
        is_runs=np.zeros(len(outlined), np.uint8),
        numbers=numbers,
    )
