"""Targets that would be wrong without a word: refused, or moved as they should be."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors

import forebay
from conftest import run_forebay
from forebay import transforms as T
from peer_torchvision import v2
from test_targets import NOTHING, batches, opened, place

__all__ = ["place"]  # a fixture

EYES = ["nose", "left_eye", "right_eye"]


def saved(root: Path, annotations: list[dict[str, Any]], size: Any = (40, 30), **more: Any) -> Path:
    """A folder with one image of 40 x 30 pixels, and annotations that say `size`, if any."""
    (root / "images").mkdir(exist_ok=True)
    pixels = np.random.default_rng(4).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(root / "images/x.png")
    sides = {} if size is None else {"width": size[0], "height": size[1]}
    known = [{"id": i, "image_id": 1, "category_id": 1, "bbox": [4, 5, 10, 8], **one}
             for i, one in enumerate(annotations)]  # fmt: skip
    path = root / "a.json"
    images = [{"id": 1, "file_name": "x.png", **sides}]
    path.write_text(json.dumps({"images": images, "annotations": known, **more}))
    return path


def runs(height: int, width: int) -> dict[str, Any]:
    return {"segmentation": {"size": [height, width], "counts": [10, 20, 30 * 40 - 30]}}


def test_run_lengths_of_another_shape_are_named(tmp_path: Path):
    # Both shapes have the same number of pixels, so only the size tells.
    path = saved(tmp_path, [runs(30, 40), runs(40, 30)])
    message = "annotation 1: its run-lengths are for an image of 30 x 40 pixels, but x.png has 40 x"
    with pytest.raises(ValueError, match=message):
        forebay.Dataset(tmp_path / "images", annotations=path)
    done = run_forebay("pack", tmp_path / "images", tmp_path / "set", "--annotations", path, code=1)
    assert "run-lengths are for an image of 30 x 40 pixels" in done.stderr
    # Without the image's size in the file, the run-lengths say for which size they are.
    path = saved(tmp_path, [runs(40, 30)], size=None)
    run_forebay("pack", tmp_path / "images", tmp_path / "set", "--annotations", path)
    for dataset in (forebay.Dataset(tmp_path / "images", annotations=path),
                    forebay.Dataset(tmp_path / "set")):  # fmt: skip
        with pytest.warns(UserWarning, match="for an image of 30 x 40 pixels, but it has 40 x 30"):
            loaded = batches(dataset, fields=["image", "masks", "index"], on_bad="skip")
        assert [len(index) for _, _, index in loaded] == [0]
    path = saved(tmp_path, [runs(30, 40)], size=None)
    dataset = forebay.Dataset(tmp_path / "images", annotations=path)
    ((_, masks),) = batches(dataset, fields=["image", "masks"], transform=[NOTHING])
    assert int(masks[0].sum()) == 20


@pytest.mark.parametrize("field", ["boxes", "masks", "keypoints", "mask", "target"])
def test_what_blends_or_repeats_images_is_refused_with_targets(field: str, place: Path):
    dataset = opened(place)
    how: dict[str, Any] = {"fields": ["image", "label", field]}
    for mixing in (T.MixUp(num_classes=3), T.CutMix(num_classes=3)):
        with pytest.raises(ValueError, match=f"mixes images, and '{field}' of one image"):
            forebay.Loader(dataset, 3, transform=[T.Resize((9, 9))], batch_transform=mixing, **how)
    for one in (T.AugMix(), T.RandomApply([T.RandomOrder([T.AugMix()])]), v2.AugMix(),
                T.TimmAugment("augmix-m3")):  # fmt: skip
        with pytest.raises(ValueError, match="AugMix blends several"):
            forebay.Loader(dataset, 3, transform=[one], **how)
    padded = (T.Pad(3, padding_mode="reflect"), T.RandomCrop(9, 2, padding_mode="symmetric"),
              T.RandomApply([T.Pad(3, padding_mode="edge")]))  # fmt: skip
    for one in padded:
        if field == "mask":  # which is mirrored with its image, and has no boxes
            assert len(list(forebay.Loader(dataset, 8, transform=[one], **how))) == 1
            continue
        with pytest.raises(ValueError, match=f"for '{field}' it must be 'constant'"):
            forebay.Loader(dataset, 3, transform=[one], **how)
    still = ["image", "image_id", "label"]
    forebay.Loader(dataset, 3, transform=[T.AugMix(), *padded], fields=still)


def flipped(dataset: forebay.Dataset, *transform: Any) -> tuple[Any, Any]:
    ((_, points, visible),) = forebay.Loader(
        dataset, 1, transform=list(transform), fields=["image", "keypoints", "visibility"]
    )
    return points[0][0].tolist(), visible[0][0].tolist()


@pytest.mark.parametrize("packed", [False, True])
def test_left_and_right_keypoints_change_places_in_mirrored_images(packed: bool, tmp_path: Path):
    points = [8, 7, 2, 5, 6, 1, 12, 9, 2]
    people = {"categories": [{"id": 1, "name": "person", "keypoints": EYES}]}
    path = saved(tmp_path, [{"keypoints": points}], **people)
    dataset = forebay.Dataset(tmp_path / "images", annotations=path)
    where: Any = {"path": tmp_path / "images", "annotations": path}
    if packed:
        run_forebay("pack", tmp_path / "images", tmp_path / "set", "--annotations", path)
        where = {"path": tmp_path / "set"}
        dataset = forebay.Dataset(**where)
    mirror, upside_down = T.RandomHorizontalFlip(1), T.RandomVerticalFlip(1)
    # The person's left eye was the point 1, and looks like a right eye in the mirror.
    swapped = [[31, 7, 2], [27, 9, 2], [34, 6, 1]], [2, 2, 1]
    assert flipped(dataset, mirror) == swapped
    assert flipped(dataset, NOTHING, mirror) == swapped
    assert flipped(dataset, T.RandomApply([mirror], 1)) == swapped
    assert flipped(dataset, upside_down) == ([[8, 22, 2], [12, 20, 2], [5, 23, 1]], [2, 2, 1])
    turned = [[31, 22, 2], [34, 23, 1], [27, 20, 2]], [2, 1, 2]
    assert flipped(dataset, mirror, upside_down) == turned, "half a turn mirrors nothing"
    assert flipped(dataset, T.RandomRotation((180, 180)))[1] == [2, 1, 2]
    assert flipped(dataset.subset([0]), mirror) == swapped
    plain = [[31, 7, 2], [34, 6, 1], [27, 9, 2]], [2, 1, 2]
    assert flipped(forebay.Dataset(**where, keypoint_pairs=[]), mirror) == plain
    own = forebay.Dataset(**where, keypoint_pairs=[(0, 2)])
    assert flipped(own, mirror) == ([[27, 9, 2], [34, 6, 1], [31, 7, 2]], [2, 1, 2])


def test_keypoint_pairs_that_make_no_sense_are_named(tmp_path: Path):
    path = saved(tmp_path, [{"keypoints": [8, 7, 2, 5, 6, 1]}])
    for pairs, message in (
        ([(0, 2)], "do not exist; objects have 2"),
        ([0, 1], "must be pairs of keypoints' numbers"),
        ([("left", "right")], "must be pairs of keypoints' numbers"),
        ([(0, 1), (1, 0)], "in one pair only"),
    ):
        with pytest.raises(ValueError, match=f"keypoint_pairs.*{message}"):
            given: Any = pairs
            assert forebay.Dataset(
                tmp_path / "images", annotations=path, keypoint_pairs=given
            ).objects
    orders = {"a": ["left", "right"], "b": ["right", "x", "left"]}
    several = {"categories": [{"id": i, "name": name, "keypoints": points}
                              for i, (name, points) in enumerate(orders.items())]}  # fmt: skip
    path = saved(tmp_path, [{"keypoints": [8, 7, 2, 5, 6, 1]}], **several)
    with pytest.warns(UserWarning, match="different keypoints, so flips exchange none"):
        forebay.Dataset(tmp_path / "images", annotations=path)


TURNED = {2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
          6: Image.Transpose.ROTATE_270}  # fmt: skip


@pytest.mark.parametrize("tag", TURNED)
def test_annotations_of_images_as_they_are_shown(tag: int, tmp_path: Path):
    """The sizes of mirrored and half-turned images do not tell, so annotations_as must."""
    for name in ("stored/images", "stored/masks", "shown/images", "shown/masks"):
        (tmp_path / name).mkdir(parents=True)
    random = np.random.default_rng(2)
    stored = Image.fromarray(random.integers(0, 256, (30, 40, 3), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = tag
    stored.save(tmp_path / "stored/images/x.png", exif=exif)
    shown = stored.transpose(TURNED[tag])
    shown.save(tmp_path / "shown/images/x.png")
    labels = Image.fromarray(random.integers(0, 20, shown.size[::-1], dtype=np.uint8))
    labels.save(tmp_path / "shown/masks/x.png")
    one = {"image_id": 1, "category_id": 1, "bbox": [2, 3, 9, 7], "keypoints": [4, 5, 2],
           "segmentation": [[2, 3, 11, 3, 11, 10]]}  # fmt: skip
    image = {"id": 1, "file_name": "x.png", "width": shown.width, "height": shown.height}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"images": [image], "annotations": [one]}))
    fields = ["image", "boxes", "masks", "keypoints", "mask"]

    def made(images: str, orientation: str = "apply", **how: Any) -> list[Any]:
        dataset = forebay.Dataset(
            tmp_path / images / "images", annotations=path, masks=tmp_path / "shown/masks", **how
        )
        (batch,) = forebay.Loader(
            dataset,
            1,
            transform=[NOTHING],
            fields=fields,
            orientation=orientation,
            bad_samples_max=0,
        )
        return [field[0] for field in batch]

    expected = made("shown")
    got = made("stored", annotations_as="shown")
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
    if tag == 6:  # the sizes tell
        again = made("stored")
        assert all(torch.equal(a, b) for a, b in zip(again, expected, strict=True))
        with pytest.raises(forebay.DataError, match='so leave out annotations_as="stored"'):
            made("stored", annotations_as="stored")
        with pytest.raises(forebay.DataError, match='give the Loader orientation="apply"'):
            made("stored", "ignore")
    else:
        assert not torch.equal(made("stored")[1], expected[1])
        assert not torch.equal(made("stored", annotations_as="stored")[4], expected[4])
    with pytest.raises(ValueError, match="give the Loader orientation='apply'"):
        made("stored", "ignore", annotations_as="shown")
    with pytest.raises(ValueError, match="annotations_as is 'seen', but must be"):
        made("stored", annotations_as="seen")


@pytest.mark.parametrize("packed", [False, True])
def test_what_pycocotools_takes_is_taken(packed: bool, tmp_path: Path):
    objects: list[dict[str, Any]] = [
        {"iscrowd": False, "category_id": 7.0, "area": None, "segmentation": None},
        {"iscrowd": None, "keypoints": None},
        {"iscrowd": True, "keypoints": [1, 2, 2]},
        {"keypoints": [3, 4, 1, 5, 6, 2], "area": 3},
        {"keypoints": []},
        {"bbox": None, "caption": "a dog"},
    ]
    path = saved(tmp_path, objects, size=(40.0, 30.0))
    dataset = forebay.Dataset(tmp_path / "images", annotations=path)
    if packed:
        run_forebay("pack", tmp_path / "images", tmp_path / "set", "--annotations", path)
        dataset = forebay.Dataset(tmp_path / "set")
    fields = ["image", "labels", "iscrowd", "area", "keypoints", "captions"]
    ((_, labels, iscrowd, area, points, captions),) = forebay.Loader(
        dataset, 1, transform=[NOTHING], fields=fields
    )
    assert labels[0].tolist() == [7, 1, 1, 1, 1]
    assert iscrowd[0].tolist() == [0, 0, 1, 0, 0]
    assert area[0].tolist() == [80, 80, 80, 3, 80]
    assert points[0].reshape(5, 6).tolist() == [
        [0] * 6, [0] * 6, [1, 2, 2, 0, 0, 0], [3, 4, 1, 5, 6, 2], [0] * 6
    ]  # fmt: skip
    assert captions == [["a dog"]]


def test_boxes_of_images_as_they_are(place: Path):
    fields = ["image", "boxes", "masks", "mask"]
    dataset = opened(place)
    plain = batches(dataset, transform=None, fields=fields)
    moved = batches(dataset, transform=[v2.Identity()], fields=fields)
    for one, other in zip(plain, moved, strict=True):
        for image, tensor in zip(one[0], other[0], strict=True):
            assert image.shape[2] == 3 and torch.equal(image.permute(2, 0, 1), tensor)
        for mine, theirs in zip(one[1:], other[1:], strict=True):
            assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    ((images, boxes),) = forebay.Loader(
        dataset.subset([3]), 1, fields=["image", "boxes"], tv_tensors=True
    )
    assert isinstance(images[0], tv_tensors.Image) and images[0].shape[0] == 3
    assert boxes[0].canvas_size == tuple(images[0].shape[1:])


def test_masks_that_are_no_png_are_called_so(tmp_path: Path):
    saved(tmp_path, [])
    (tmp_path / "masks").mkdir()
    Image.fromarray(np.zeros((30, 40), np.uint8)).save(tmp_path / "masks/x.png", "JPEG")
    dataset = forebay.Dataset(tmp_path / "images", masks=tmp_path / "masks")
    with pytest.warns(UserWarning, match="must be a PNG, but this file is not one"):
        batches(dataset, fields=["image", "mask"], on_bad="skip")
    (tmp_path / "masks/x.png").rename(tmp_path / "masks/x.jpg")
    with pytest.raises(ValueError, match="no mask for 1 of 1 images, such as x; each must be a PN"):
        forebay.Dataset(tmp_path / "images", masks=tmp_path / "masks")


@pytest.mark.parametrize("size", [(3, 700), (900, 2), (1, 2000)])
def test_thin_images_are_evaluated_as_torchvision_does(size: tuple[int, int], tmp_path: Path):
    pixels = np.random.default_rng(4).integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    transform = [T.Resize(64), T.CenterCrop(32)]
    ((image,),) = forebay.Loader(tmp_path, 1, transform=transform, fields=["image"])
    peer = v2.Compose([v2.Resize(64), v2.CenterCrop(32)])
    assert torch.equal(image[0], peer(torch.from_numpy(pixels).permute(2, 0, 1)))
    ((image,),) = forebay.Loader(tmp_path, 1, transform=T.evaluate(), fields=["image"])
    assert tuple(image.shape) == (1, 3, 224, 224)
