"""Reads annotations in COCO's format: boxes, labels, outlines, keypoints and captions."""

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay import _core
from forebay.data.annotations import Annotations, Outlines
from forebay.data.names import Names


def read_coco(path: str | os.PathLike[str], samples: Names) -> Annotations:
    """The annotations of the samples with these names.

    An image of the annotations belongs to the sample of the same file name. If there is none, names
    count without their suffixes, as long as they leave no choice. Either name may have more folders
    at its beginning, if only one sample then fits. Samples without an image in the annotations have
    no objects. A UserWarning says how many these are, and another one how many images of the
    annotations have no sample.

    Raises:
        ValueError: The file is not in COCO's format; a name fits several images or samples; no
            image of the file has a sample; or an annotation is invalid: the message says which
            annotation, and how.
    """
    with open(os.path.expanduser(path), encoding="utf-8") as file:
        try:
            found = json.load(file)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{path}: not JSON: {error}; annotations is a JSON file in COCO's format, or the "
                "folder of YOLO's text files"
            ) from None
    if not isinstance(found, dict) or not isinstance(found.get("images"), list):
        raise ValueError(f"{path}: has no list 'images', so it is not in COCO's format")
    name = os.fspath(path)
    try:
        image_of, sample_of = _images_of(found["images"], samples, name)
        annotations = found.get("annotations", [])
        made = _made(image_of, *_divided(annotations, sample_of, len(image_of)))
    except _AnnotationError as error:
        raise ValueError(f"{name}: {error}") from None
    _tell_of_unlisted(annotations, {int(image["id"]) for image in found["images"]}, name)
    made["categories"] = _categories(found.get("categories"))
    made["pairs"] = _pairs_of_all(_pairs(found.get("categories")), name)
    return Annotations(**made)


def read_packed(texts: Sequence[str | None], path: str) -> Annotations:
    """The annotations of a packed dataset's samples.

    Args:
        texts: For each sample JSON in COCO's format with the sample's image alone; None: the sample
            has no objects, and its image no id.
        path: The dataset's path, for messages.

    Raises:
        ValueError: The annotations of a sample are invalid; the message says which, and how.
    """
    image_of: list[Any] = [None] * len(texts)
    of_sample: list[Found] = [[] for _ in texts]
    captions: list[list[str]] = [[] for _ in texts]
    categories: dict[int, str] = {}
    pairs: set[tuple[tuple[int, int], ...]] = set()
    at = path
    try:
        for number, text in enumerate(texts):
            if text is None:
                continue
            at = f"{path}: the annotations of sample {number}"
            found = _document(text)
            image_of[number] = found["images"][0]
            sample_of = {int(image_of[number]["id"]): 0}
            objects, texts_of = _divided(found.get("annotations", []), sample_of, 1)
            of_sample[number], captions[number] = objects[0], texts_of[0]
            categories |= _categories(found.get("categories"))
            pairs |= _pairs(found.get("categories"))
        at = path
        made = _made(image_of, of_sample, captions)
        made["categories"] = categories
        made["pairs"] = _pairs_of_all(pairs, path)
    except _AnnotationError as error:
        raise ValueError(f"{at}: {error}") from None
    return Annotations(**made)


Found = list[Mapping[str, Any]]
_FAR = 1e9  # more pixels than any image has


class _AnnotationError(Exception):
    """An annotation is invalid; the message names it."""


def _images_of(
    images: Sequence[Any], samples: Names, path: str
) -> tuple[list[Any], dict[int, int]]:
    """Each sample's image (None: it has none), and the samples' numbers by the images' ids."""
    if not images:
        raise _AnnotationError("its list 'images' is empty")
    names = []
    seen: set[int] = set()
    for place, image in enumerate(images):
        number, name = _checked_image(place, image)
        if number in seen:
            raise _AnnotationError(f"image {number} comes more than once")
        seen.add(number)
        names.append(name)
    try:
        found = samples.samples_of(names)
    except ValueError as error:
        raise _AnnotationError(str(error)) from None
    image_of: list[Any] = [None] * len(samples.keys)
    for image, sample in zip(images, found, strict=True):
        if sample >= 0:
            image_of[sample] = image
    missing = [name for name, sample in zip(names, found, strict=True) if sample < 0]
    if len(missing) == len(names):
        raise _AnnotationError(
            f"none of its {len(names)} images is in the dataset (the first is {missing[0]!r}); the "
            "file name of an image must be the name of a sample, apart from the suffix"
            + (f", such as {samples.keys[0]}" if samples.keys else "")
        )
    if missing:
        warnings.warn(
            f"{path}: {len(missing)} of its {len(images)} images have no sample in the dataset, "
            f"such as {missing[0]}",
            stacklevel=4,
        )
    unknown = [key for key, image in zip(samples.keys, image_of, strict=True) if image is None]
    if unknown:
        warnings.warn(
            f"{path}: {len(unknown)} of the dataset's {len(image_of)} samples are not among its "
            f"images, such as {unknown[0]}, and count as images without objects; "
            "dataset.filter(dataset.objects.image_ids >= 0) leaves them out",
            stacklevel=4,
        )
    known = enumerate(image_of)
    return image_of, {int(image["id"]): number for number, image in known if image is not None}


def _checked_image(place: int, image: Any) -> tuple[int, str]:
    """The id and the file name of an image."""
    if not isinstance(image, dict) or not {"id", "file_name"} <= image.keys():
        raise _AnnotationError(f"image {place} has no id or no file_name")
    number, name = _whole(f"image {place}: id", image["id"]), image["file_name"]
    if not isinstance(name, str) or not PurePosixPath(name).name:
        raise _AnnotationError(f"image {number}: file_name is {_shown(name)}")
    return number, name


def _document(text: str) -> dict[str, Any]:
    """One sample's annotations, in COCO's format with one image."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _AnnotationError(f"not JSON: {error}") from None
    images = found.get("images") if isinstance(found, dict) else None
    if not isinstance(images, list) or len(images) != 1:
        raise _AnnotationError("coco.json has no list 'images' with its one image")
    _checked_image(0, images[0])
    assert isinstance(found, dict)
    return found


def _made(
    image_of: Sequence[Any], of_sample: Sequence[Found], captions: list[list[str]]
) -> dict[str, Any]:
    """The arguments of Annotations, from each sample's image, objects and captions."""
    made = _objects(
        [one for some in of_sample for one in some],
        np.array([len(some) for some in of_sample], np.int64),
    )
    made["image_ids"] = np.array(
        [-1 if image is None else int(image["id"]) for image in image_of], np.int64
    )
    made["sizes"] = np.array(
        [_size(image, found) for image, found in zip(image_of, of_sample, strict=True)], np.uint32
    ).reshape(-1, 2)
    made["captions"] = captions if any(captions) else None
    return made


def _size(image: Any, found: Found) -> tuple[int, int]:
    """(width, height) of a sample's image, 0 if neither it nor its run-lengths say it.

    Raises:
        _AnnotationError: Run-lengths are for an image of another size.
    """
    size = (0, 0)
    sides: list[Any] = [image and image.get(side) for side in ("width", "height")]
    if all(_is_whole(side) and 0 < side < 2**31 for side in sides):
        size = (int(sides[0]), int(sides[1]))
    for one in found:
        segmentation = one.get("segmentation")
        given = segmentation.get("size") if isinstance(segmentation, dict) else None
        if given is None:
            continue
        if not isinstance(given, list) or len(given) != 2 or not all(map(_is_whole, given)):
            raise _AnnotationError(
                f"annotation {one.get('id')}: segmentation.size is {_shown(given)}, but must be "
                "the image's height and width in pixels"
            )
        own = (int(given[1]), int(given[0]))
        if size not in ((0, 0), own):
            raise _AnnotationError(
                f"annotation {one.get('id')}: its run-lengths are for an image of {own[0]} x "
                f"{own[1]} pixels, but {image['file_name']} has {size[0]} x {size[1]} "
                "(segmentation.size is height, width)"
            )
        size = own
    return size


def _categories(categories: Any) -> dict[int, str]:
    """The categories' names by their ids; a category without a name is left out."""
    return {
        int(one["id"]): one["name"]
        for one in (categories if isinstance(categories, list) else [])
        if isinstance(one, dict) and _is_whole(one.get("id")) and type(one.get("name")) is str
    }


def _pairs(categories: Any) -> set[tuple[tuple[int, int], ...]]:
    """For each list of keypoints' names the pairs of left and right, by their numbers."""
    found = set()
    for one in categories if isinstance(categories, list) else []:
        names = one.get("keypoints") if isinstance(one, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            continue
        places = {name.lower(): place for place, name in enumerate(names)}
        others = {name: name.replace("left", "right") for name in places if "left" in name}
        found.add(tuple((places[name], places[o]) for name, o in others.items() if o in places))
    return found - {()}


def _pairs_of_all(found: set[tuple[tuple[int, int], ...]], path: str) -> NDArray[np.uint32]:
    if len(found) > 1:
        warnings.warn(
            f"{path}: its categories have different keypoints, so flips exchange none of them; "
            "give keypoint_pairs",
            stacklevel=4,
        )
    pairs = found.pop() if len(found) == 1 else ()
    return np.array(pairs, np.uint32).reshape(-1, 2)


def _divided(
    annotations: Any, sample_of: Mapping[int, int], count: int
) -> tuple[list[Found], list[list[str]]]:
    """The objects and the captions of each sample."""
    if not isinstance(annotations, list):
        raise _AnnotationError(f"annotations is {_shown(annotations)}, but must be a list")
    of_sample: list[Found] = [[] for _ in range(count)]
    captions: list[list[str]] = [[] for _ in range(count)]
    for place, one in enumerate(annotations):
        if not isinstance(one, dict) or "image_id" not in one:
            raise _AnnotationError(f"annotation {place} has no image_id")
        image = _whole(f"annotation {one.get('id')}: image_id", one["image_id"])
        if one.get("caption") is None and one.get("bbox") is None:
            raise _AnnotationError(f"annotation {one.get('id')} has neither bbox nor caption")
        sample = sample_of.get(image)
        if sample is None:
            continue
        if one.get("caption") is not None:
            captions[sample].append(str(one["caption"]))
        if one.get("bbox") is not None:
            of_sample[sample].append(one)
    return of_sample, captions


def _tell_of_unlisted(annotations: Sequence[Any], images: set[int], path: str) -> None:
    """Warns of annotations of images that the file does not list."""
    unlisted = [one for one in annotations if int(one["image_id"]) not in images]
    if unlisted:
        first = unlisted[0]
        warnings.warn(
            f"{path}: {len(unlisted)} of its {len(annotations)} annotations are of images that it "
            f"does not list, such as annotation {first.get('id')} of image {first['image_id']}",
            stacklevel=4,
        )


def _is_whole(value: Any) -> bool:
    """Whether a value is a whole number, which JSON may write as 7, 7.0, true or false."""
    if isinstance(value, float):
        return value.is_integer() and abs(value) < 2**53
    return isinstance(value, int) and -(2**63) <= value < 2**63


def _whole(what: str, value: Any) -> int:
    if not _is_whole(value):
        raise _AnnotationError(f"{what} is {_shown(value)}, but must be a whole number")
    return int(value)


def _objects(found: Sequence[Mapping[str, Any]], counts: Any) -> dict[str, Any]:
    """The arguments of Annotations that describe objects, which are in the samples' order."""
    sides = np.array([_box(one) for one in found], np.float32).reshape(-1, 4)
    boxes = sides.copy()
    boxes[:, 2:] += boxes[:, :2]
    area = [_area(one, side) for one, side in zip(found, sides, strict=True)]
    out: dict[str, Any] = {
        "counts": counts,
        "boxes": boxes,
        "columns": {
            "labels": np.array([_number(one, "category_id") for one in found], np.int64),
            "area": np.array(area, np.float32),
            "iscrowd": np.array([_number(one, "iscrowd", 0) for one in found], np.int64),
        },
    }
    if any(one.get("segmentation") is not None for one in found):
        out["outlines"] = _outlines(found)
    points = [_keypoints(one) for one in found] if any(map(_has_keypoints, found)) else []
    most = max(map(len, points), default=0)
    if most > 0:
        out["keypoints"] = np.zeros((len(points), most, 3), np.float32)
        for row, own in zip(out["keypoints"], points, strict=True):
            row[: len(own)] = own
    return out


def _area(one: Mapping[str, Any], side: Any) -> float:
    area = one.get("area")
    if area is None:
        return float(side[2] * side[3])
    if not _is_number(area):
        raise _AnnotationError(
            f"annotation {one.get('id')}: area is {_shown(area)}, but must be a number"
        )
    return float(area)


def _number(one: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = one.get(name)
    return _whole(f"annotation {one.get('id')}: {name}", default if value is None else value)


def _numbers(one: Mapping[str, Any], name: str, values: Any, count: int | None) -> list[float]:
    is_list = isinstance(values, list) and (count is None or len(values) == count)
    if not is_list or not all(map(_is_number, values)):
        wanted = "numbers" if count is None else f"{count} numbers"
        raise _AnnotationError(
            f"annotation {one.get('id')}: {name} is {_shown(values)}, but must be {wanted}"
        )
    return [float(value) for value in values]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _FAR


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


def _has_keypoints(one: Mapping[str, Any]) -> bool:
    return bool(one.get("keypoints"))


def _keypoints(one: Mapping[str, Any]) -> NDArray[np.float32]:
    """x, y and visibility of an object's keypoints [points, 3]."""
    values = one.get("keypoints")
    numbers = _numbers(one, "keypoints", [] if values is None else values, None)
    if len(numbers) % 3 != 0:
        raise _AnnotationError(
            f"annotation {one.get('id')}: keypoints has {len(numbers)} numbers, but must have "
            "three for each point: x, y and visibility"
        )
    return np.array(numbers, np.float32).reshape(-1, 3)


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
    """The parts of an object's outline: whether each is run-lengths, and its numbers."""
    segmentation = one.get("segmentation")
    if segmentation is None:
        return []
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
    if segmentation and all(map(_is_number, segmentation)):
        raise _AnnotationError(
            f"annotation {one.get('id')}: segmentation is {_shown(segmentation)}, but must be a "
            "list of polygons, each a list of numbers: [[x1, y1, x2, y2, x3, y3]]"
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
