"""Reads annotations in COCO's format: boxes, labels, outlines, keypoints and captions."""

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from forebay import _core
from forebay.objects import Objects, Outlines


def read_coco(path: str | os.PathLike[str], keys: Sequence[str]) -> Objects:
    """The annotations of the samples with these keys.

    An image of the annotations is the sample whose key is its file's name without the suffix; the
    name may have fewer folders than the key, if it is then the name of one sample alone. Samples
    that the annotations do not know have no objects. A UserWarning says how many images of the
    annotations are no samples.

    Raises:
        ValueError: The file has no such annotations; the message says which one is wrong, and how.
    """
    with open(path, encoding="utf-8") as file:
        try:
            found = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path}: no JSON: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("images"), list):
        raise ValueError(f"{path}: has no list 'images', so it is not in COCO's format")
    sample_of = _samples_of(found["images"], keys, os.fspath(path))
    image_ids = np.full(len(keys), -1, np.int64)
    for image_id, number in sample_of.items():
        image_ids[number] = image_id
    annotations = found.get("annotations", [])
    of_sample: list[list[Mapping[str, Any]]] = [[] for _ in keys]
    captions: list[list[str]] = [[] for _ in keys]
    has_captions = False
    for place, one in enumerate(annotations):
        if not isinstance(one, dict) or "image_id" not in one:
            raise ValueError(f"{path}: annotation {place} has no image_id")
        sample = sample_of.get(one["image_id"])
        if sample is None:
            continue
        if "caption" in one:
            captions[sample].append(str(one["caption"]))
            has_captions = True
        if "bbox" in one:
            of_sample[sample].append(one)
    objects = [one for some in of_sample for one in some]
    try:
        made = _objects(objects, np.array([len(some) for some in of_sample], np.int64))
    except _AnnotationError as error:
        raise ValueError(f"{path}: {error}") from None
    made["image_ids"] = image_ids
    made["captions"] = captions if has_captions else None
    return Objects(**made)


class _AnnotationError(Exception):
    """An annotation makes no sense; the message names it."""


def _samples_of(images: Sequence[Any], keys: Sequence[str], path: str) -> dict[int, int]:
    """The number of the sample of each image, by the images' ids."""
    whole = {key: number for number, key in enumerate(keys)}
    last: dict[str, int | None] = {}
    for key, number in whole.items():
        name = key.rsplit("/", 1)[-1]
        last[name] = None if name in last else number
    out: dict[int, int] = {}
    missing: list[str] = []
    for place, image in enumerate(images):
        if not isinstance(image, dict) or not {"id", "file_name"} <= image.keys():
            raise ValueError(f"{path}: image {place} has no id or no file_name")
        key = _key_of(str(image["file_name"]))
        found = whole.get(key, last.get(key.rsplit("/", 1)[-1]))
        if found is None:
            missing.append(str(image["file_name"]))
        else:
            out[image["id"]] = found
    if missing:
        warnings.warn(
            f"{path}: {len(missing)} of its {len(images)} images are no samples of the dataset, "
            f"such as {missing[0]}",
            stacklevel=4,
        )
    return out


def _key_of(file_name: str) -> str:
    """The key that an image of this name has in a folder (src/store/source/folder_source.cc)."""
    name = PurePosixPath(file_name.replace("\\", "/").removeprefix("./"))
    stem = name.stem.replace("%", "%25").replace(".", "%2E")
    return str(name.with_name(stem))


def _objects(found: Sequence[Mapping[str, Any]], counts: Any) -> dict[str, Any]:
    """The arguments of Objects for annotations in the samples' order."""
    sides = np.array([_box(one) for one in found], np.float32).reshape(-1, 4)
    boxes = sides.copy()
    boxes[:, 2:] += boxes[:, :2]
    area = [one.get("area", side[2] * side[3]) for one, side in zip(found, sides, strict=True)]
    out: dict[str, Any] = {
        "counts": counts,
        "boxes": boxes,
        "columns": {
            "labels": np.array([_number(one, "category_id") for one in found], np.int64),
            "area": np.array(area, np.float32),
            "iscrowd": np.array([int(one.get("iscrowd", 0)) for one in found], np.int64),
        },
    }
    if any("segmentation" in one for one in found):
        out["outlines"] = _outlines(found)
    points = next((len(one["keypoints"]) // 3 for one in found if "keypoints" in one), None)
    if points is not None:
        values = np.array([_keypoints(one, points) for one in found], np.float32)
        out["keypoints"] = np.ascontiguousarray(values[..., :2])
        out["visible"] = values[..., 2].astype(np.int64)
    return out


def _number(one: Mapping[str, Any], name: str) -> int:
    value = one.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _AnnotationError(
            f"annotation {one.get('id')}: {name} is {value!r}, but must be a whole number"
        )
    return value


def _numbers(one: Mapping[str, Any], name: str, values: Any, count: int | None) -> list[float]:
    is_list = isinstance(values, list) and (count is None or len(values) == count)
    numbers = [value for value in values if isinstance(value, int | float)] if is_list else []
    if not is_list or len(numbers) != len(values) or not np.isfinite(numbers).all():
        wanted = "numbers" if count is None else f"{count} numbers"
        raise _AnnotationError(
            f"annotation {one.get('id')}: {name} is {_shown(values)}, but must be {wanted}"
        )
    return numbers


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _box(one: Mapping[str, Any]) -> list[float]:
    box = _numbers(one, "bbox", one["bbox"], 4)
    if box[2] < 0 or box[3] < 0:
        raise _AnnotationError(
            f"annotation {one.get('id')}: bbox is {box}, but its width and height must be at least "
            "0 (bbox is left, top, width, height)"
        )
    return box


def _keypoints(one: Mapping[str, Any], points: int) -> list[list[float]]:
    values = one.get("keypoints", [0] * (3 * points))
    numbers = _numbers(one, "keypoints", values, 3 * points)
    return [numbers[i : i + 3] for i in range(0, len(numbers), 3)]


def _outlines(found: Sequence[Mapping[str, Any]]) -> Outlines:
    parts: list[int] = []
    is_runs: list[int] = []
    numbers: list[Any] = []
    for one in found:
        own = _parts(one)
        parts.append(len(own))
        is_runs += [runs for runs, _ in own]
        numbers += [values for _, values in own]
    return Outlines(
        parts=np.array(parts, np.int64),
        lengths=np.array([len(values) for values in numbers], np.int64),
        is_runs=np.array(is_runs, np.uint8),
        numbers=np.concatenate([np.zeros(0, np.int32), *numbers]).astype(np.int32),
    )


def _parts(one: Mapping[str, Any]) -> list[tuple[int, Any]]:
    """The parts of an object: whether each is run-lengths, and its numbers."""
    segmentation = one.get("segmentation", [])
    if isinstance(segmentation, dict):
        counts = segmentation.get("counts")
        if isinstance(counts, str):
            try:
                runs = _core.decode_runs(counts)
            except ValueError as error:
                raise _AnnotationError(f"annotation {one.get('id')}: {error}") from None
        else:
            runs = np.array(_numbers(one, "segmentation.counts", counts, None))
            if (runs < 0).any() or (runs != runs.astype(np.int64)).any() or (runs >= 2**31).any():
                raise _AnnotationError(
                    f"annotation {one.get('id')}: segmentation.counts must be whole numbers, at "
                    "least 0"
                )
        return [(1, np.asarray(runs).astype(np.int32))]
    if not isinstance(segmentation, list):
        raise _AnnotationError(
            f"annotation {one.get('id')}: segmentation is {_shown(segmentation)}, but must be a "
            "list of polygons, or run-lengths"
        )
    out = []
    for polygon in segmentation:
        corners = _numbers(one, "a polygon", polygon, None)
        if len(corners) % 2 != 0:
            raise _AnnotationError(
                f"annotation {one.get('id')}: a polygon has {len(corners)} numbers, but must have "
                "two for each corner"
            )
        out.append((0, _core.corners(np.array(corners, np.float64))))
    return out
