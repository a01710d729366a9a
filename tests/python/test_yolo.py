"""Annotations in YOLO's text files, which give what the same objects in COCO's format give."""

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import forebay
from conftest import run_forebay
from forebay import transforms as T
from test_targets import NOTHING

NAMES = ["cat", "dog", "owl"]
SIZES = {"train/a.0": (40, 31), "train/b": (33, 60), "train/empty": (20, 20), "val/a": (64, 48),
         "val/none": (50, 30), "val/polygons": (120, 90)}  # fmt: skip
# For each image (class, left, top, width, height) in pixels, and (class, corners).
BOXES: dict[str, list[tuple[float, ...]]] = {
    "train/a.0": [(0, 0, 0, 40, 31), (2, 3.5, 4.25, 10.125, 20)],
    "train/b": [(1, 1, 2, 3, 4)],
    "train/empty": [],
    "val/a": [(1, 10, 10, 0, 0), (0, 60, 40, 4, 8), (2, 0.5, 0.5, 63, 47)],
    "val/none": [],
    "val/polygons": [(0, 5, 5, 50, 60)],
}
POLYGONS: dict[str, list[tuple[int, list[float]]]] = {
    "val/polygons": [(2, [10, 10, 80, 15, 60.5, 80.25]), (1, [0, 0, 120, 0, 120, 90, 0, 90])],
}
FIELDS = ["image", "boxes", "labels", "area", "iscrowd", "image_id", "index"]


def write_yolo(folder: Path) -> None:
    for name, (width, height) in SIZES.items():
        lines = [
            f"{label} {(left + w / 2) / width!r} {(top + h / 2) / height!r} {w / width!r} "
            f"{h / height!r}"
            for label, left, top, w, h in BOXES[name]
        ]
        for label, corners in POLYGONS.get(name, ()):
            places = [repr(at / (height if i % 2 else width)) for i, at in enumerate(corners)]
            lines.append(f"{label} {' '.join(places)}")
        if name == "val/none":
            continue
        (folder / f"{name}.txt").parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.txt").write_text("\n".join([*lines, ""]))


def write_coco(path: Path, keys: list[str]) -> None:
    """The same objects, in the same order."""
    images, annotations = [], []
    for number, name in enumerate(keys):
        width, height = SIZES[name]
        images.append({"id": number, "file_name": f"{name}.png", "width": width, "height": height})
        for label, left, top, w, h in BOXES[name]:
            annotations.append({"image_id": number, "category_id": label,
                                "bbox": [left, top, w, h]})  # fmt: skip
        for polygon_label, corners in POLYGONS.get(name, ()):
            xs, ys = corners[::2], corners[1::2]
            box = [min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)]
            annotations.append({"image_id": number, "category_id": polygon_label, "bbox": box,
                                "segmentation": [corners]})  # fmt: skip
    categories = [{"id": i, "name": name} for i, name in enumerate(NAMES)]
    known = {"images": images, "annotations": annotations, "categories": categories}
    path.write_text(json.dumps(known))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    random = np.random.default_rng(9)
    for name, (width, height) in SIZES.items():
        path = tmp_path / f"images/{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 256, (height, width, 3), np.uint8)
        Image.fromarray(pixels).save(path)
    write_yolo(tmp_path / "labels")
    keys = forebay.Dataset(tmp_path / "images").column("key")
    write_coco(tmp_path / "coco.json", [key.replace("%2E", ".") for key in keys])
    return tmp_path


def both(place: Path, **options: Any) -> tuple[forebay.Dataset, forebay.Dataset]:
    return (
        forebay.Dataset(place / "images", annotations=place / "labels", **options),
        forebay.Dataset(place / "images", annotations=place / "coco.json"),
    )


def expect_same(one: Any, other: Any) -> None:
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4)
        return
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        one, other = list(one.values()), list(other.values())
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        expect_same(a, b)


def batches(dataset: forebay.Dataset, **options: Any) -> list[Any]:
    usual = {"batch_size": 4, "seed": 5, "shuffle": True}
    return list(forebay.Loader(dataset, **(usual | options)))


@pytest.mark.parametrize(
    "transform",
    [
        [NOTHING],
        [T.Resize((32, 48))],
        [T.RandomResizedCrop(24), T.RandomHorizontalFlip(0.5)],
        [T.RandomShortestSize([40, 60]), T.RandomRotation(30), T.SanitizeBoundingBoxes()],
        [T.RandomIoUCrop(), T.ConvertBoundingBoxFormat("CXCYWH")],
    ],
    ids=str,
)
@pytest.mark.parametrize("fields", [FIELDS, ["image", "masks", "labels"], ["image", "target"]])
def test_targets_are_those_of_the_same_objects_in_cocos_format(
    transform: list[Any], fields: list[str], place: Path
):
    yolo, coco = both(place)
    expect_same(
        batches(yolo, transform=transform, fields=fields),
        batches(coco, transform=transform, fields=fields),
    )


def test_they_stay_the_same_in_copies_views_sums_and_padded(place: Path):
    yolo, coco = both(place, category_names=NAMES)
    assert yolo.objects is not None and coco.objects is not None
    assert yolo.objects.categories == coco.objects.categories == dict(enumerate(NAMES))
    options: dict[str, Any] = {"transform": [T.Resize((20, 20))], "fields": ["image", "target"]}
    for change in (
        lambda dataset: pickle.loads(pickle.dumps(dataset)),
        lambda dataset: dataset.subset([5, 3, 5, 1]),
        lambda dataset: forebay.concat([dataset.subset([3]), dataset]),
    ):
        expect_same(batches(change(yolo), **options), batches(change(coco), **options))
    padded = {**options, "fields": ["image", "boxes", "labels", "masks"], "pad_targets": True}
    expect_same(batches(yolo, **padded), batches(coco, **padded))
    with pytest.raises(ValueError, match="YOLO's files and COCO's are different"):
        _ = forebay.concat([yolo, coco]).objects


def test_packed_images_and_other_suffixes(place: Path, tmp_path: Path):
    run_forebay("pack", place / "images", tmp_path / "set", "--order", "listed")
    options: dict[str, Any] = {
        "transform": [T.RandomResizedCrop(24)], "fields": ["image", "target", "key"],
        "shuffle": False,
    }  # fmt: skip
    packed = forebay.Dataset(tmp_path / "set", annotations=place / "labels")
    coco = forebay.Dataset(tmp_path / "set", annotations=place / "coco.json")
    for (_, ours, keys), (_, theirs, other_keys) in zip(
        batches(packed, **options), batches(coco, **options), strict=True
    ):
        assert keys == other_keys
        expect_same(ours, theirs)


def test_images_that_are_turned(tmp_path: Path):
    """The fractions are of the stored image, or with annotations_as="shown" of the shown one."""
    (tmp_path / "images").mkdir()
    (tmp_path / "labels").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6  # shown turned by 90 degrees clockwise
    Image.new("RGB", (80, 40)).save(tmp_path / "images/a.jpg", exif=exif)
    (tmp_path / "labels/a.txt").write_text("0 0.25 0.5 0.5 0.25\n")
    options: dict[str, Any] = {"transform": [NOTHING], "fields": ["image", "boxes", "area"]}
    expected = {None: [15, 0, 25, 40], "stored": [15, 0, 25, 40], "shown": [0, 30, 20, 50]}
    for drawn_on, box in expected.items():
        dataset = forebay.Dataset(
            tmp_path / "images", annotations=tmp_path / "labels", annotations_as=drawn_on
        )
        ((_, boxes, area),) = batches(dataset, orientation="apply", **options)
        assert boxes[0].tolist() == [box]
        assert area[0].tolist() == [400]
    dataset = forebay.Dataset(tmp_path / "images", annotations=tmp_path / "labels")
    ((_, boxes, _),) = batches(dataset, **options)
    assert boxes[0].tolist() == [[0, 15, 40, 25]]


@pytest.mark.parametrize(
    "text",
    [
        "1 0.5 0.5 1 1", "\n\n1 0.5 0.5 1 1\r\n\r\n", "1.0\t0.5 5e-1 1.0 1.", "\ufeff1 .5 .5 1 1",
        "1 0.5000001 0.5 1.0000004 1",
    ],
)  # fmt: skip
def test_lines_may_be_written_in_any_way(text: str, place: Path):
    (place / "labels/val/a.txt").write_text(text)
    yolo, _ = both(place)
    (_, boxes, labels), = batches(yolo.subset([3]), transform=[NOTHING], shuffle=False,
                                  fields=["image", "boxes", "labels"])  # fmt: skip
    assert yolo.key(3) == "val/a"
    assert labels[0].tolist() == [1]
    assert torch.allclose(boxes[0], torch.tensor([[0.0, 0, 64, 48]]), atol=1e-4)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 0.5 0.5 1", "it has 4 columns, but must have 5"),
        ("1", "it has 1 columns"),
        ("1 0.5 0.5 1 1 0.9", "it has 6 columns"),
        ("1 0.1 0.1 0.2 0.2 0.3 0.3 0.4", "it has 8 columns"),
        ("1 -0.5 0.5 1 1", "-0.5 is no fraction"),
        ("1 0.5 0.5 -0.2 1", "-0.2 is no fraction"),
        ("1 0.5 0.5 -0.0005 1", "the width and the height are -0.0005 and 1, but"),
        ("1 0.5 0.5 1.01 1", "1.01 is no fraction"),
        ("1 320 240 100 80", "320 is no fraction of the image's width or height"),
        ("1 nan 0.5 1 1", "nan is no fraction"),
        ("1 0.5 inf 1 1", "inf is no fraction"),
        ("1 0.5 1e999 1 1", "1e999 is no fraction"),
        ("1 0.1 0.1 0.2 0.2 0.3 7", "7 is no fraction"),
        ("-1 0.5 0.5 1 1", "the class is -1, but must be a whole number from 0 on"),
        ("0.5 0.5 0.5 1 1", "the class is 0.5"),
        ("nan 0.5 0.5 1 1", "the class is nan"),
        ("inf 0.5 0.5 1 1", "the class is inf"),
        ("1e30 0.5 0.5 1 1", "the class is 1e30"),
        ("3 0.5 0.5 1 1", "the class is 3, but category_names has the numbers 0 to 2"),
        ("cat 0.5 0.5 1 1", "'cat' is not a number"),
        ("1 0.5 0.5 1 1_0", "'1_0' is not a number"),
        ("1 ٠.٥ 0.5 1 1", "it is not plain text"),
        ("{}", "it has 1 columns"),
        ("x" * 10000, "it has 1 columns"),
        ("x" * 10000 + " 1 1 1 1", "'x{39} is not a number$"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_bad_line_is_named(line: str, message: str, place: Path):
    (place / "labels/train/b.txt").write_text(f"0 0.5 0.5 1 1\n\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"labels/train/b.txt: line 3: {message}"):
        both(place, category_names=NAMES)


def test_what_is_no_text_is_named(place: Path):
    shutil.copy(place / "images/val/a.png", place / "labels/val/a.txt")
    with pytest.raises(ValueError, match=r"val/a.txt: line 1: it (is not plain text|has)"):
        both(place)


def test_files_without_samples_are_told(place: Path):
    (place / "labels/classes.txt").write_text("cat\ndog\nowl\n")
    both(place)
    (place / "labels/val/other.txt").write_text("not read")
    with pytest.warns(UserWarning, match=r"1 of its 7 .txt files have no sample .* val/other.txt"):
        both(place)


def test_boxes_alone_have_no_masks(place: Path, tmp_path: Path):
    (tmp_path / "boxes").mkdir()
    name = next((place / "images").rglob("*.*")).stem
    (tmp_path / f"boxes/{name}.txt").write_text("0 0.5 0.5 0.2 0.2")
    dataset = forebay.Dataset(place / "images", annotations=tmp_path / "boxes")
    with pytest.raises(ValueError, match=r"no 'masks' \(the annotations have no outlines\)"):
        forebay.Loader(dataset, fields=["image", "masks"])


def test_labels_of_other_images_are_refused(place: Path, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="there are no .txt files; YOLO's labels"):
        forebay.Dataset(place / "images", annotations=tmp_path / "empty")
    (tmp_path / "empty/x.txt").write_text("")
    with pytest.raises(ValueError, match="none of its 1 .txt files, such as x.txt, has the name"):
        forebay.Dataset(place / "images", annotations=tmp_path / "empty")


def test_a_name_that_fits_several_images_is_an_error(place: Path):
    shutil.copy(place / "images/val/a.png", place / "images/val/a.webp")
    with pytest.raises(ValueError, match="labels: the file_name val/a.txt may mean val/a"):
        both(place)
    (place / "images/val/a.webp").unlink()
    (place / "labels/val/a.txt").rename(place / "labels/b.txt")
    shutil.copy(place / "images/val/a.png", place / "images/val/b.png")
    with pytest.raises(ValueError, match="b.txt .*b"):
        both(place)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("cat", "category_names is 'cat', but must be a list"),
        (3, "category_names is 3"),
        ([], "there are no names"),
        (["cat", 3], "3 is no name"),
        ({"cat": 0}, "must be a whole number"),
        ({-1: "cat"}, "must be from 0"),
    ],
    ids=str,
)
def test_what_is_no_list_of_names_is_refused(names: Any, message: str, place: Path):
    with pytest.raises(ValueError, match=message):
        both(place, category_names=names)


def test_names_need_yolos_files(place: Path):
    for annotations in (None, place / "coco.json"):
        with pytest.raises(ValueError, match="category_names: there is no folder"):
            forebay.Dataset(place / "images", annotations=annotations, category_names=NAMES)
