"""Annotations, masks and options that make no sense are named; neither epoch nor process dies."""

import io
import json
import math
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
from peer_torchvision import v2
from places import on_web
from servers.nginx import Nginx
from test_targets import NOTHING, batches, opened, place

__all__ = ["place"]  # a fixture


def changed(place: Path, tmp_path: Path, **change: Any) -> Path:
    known = json.loads((place / "all.json").read_text())
    known["annotations"][0] |= change
    (tmp_path / "changed.json").write_text(json.dumps(known))
    return tmp_path / "changed.json"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bbox": [1, 2, 3]}, r"annotation \d+: bbox is \[1, 2, 3\], but must be 4 numbers"),
        ({"bbox": [1, 2, "3", 4]}, "bbox is"),
        ({"bbox": [1, 2, -3, 4]}, "width and height must be at least 0"),
        ({"bbox": [1, 2, math.nan, 4]}, "bbox is"),
        ({"bbox": [0.5, 0, 1, 10**30]}, "bbox is"),
        ({"bbox": [True, True, 2, 2]}, "bbox is"),
        ({"category_id": "cat"}, "category_id is 'cat', but must be a whole number"),
        ({"category_id": 10**30}, "category_id is"),
        ({"iscrowd": 0.5}, "iscrowd is 0.5"),
        ({"category_id": None}, "category_id is None"),
        ({"area": "x"}, "area is 'x', but must be a number"),
        ({"image_id": [1]}, "image_id is"),
        ({"segmentation": [[1, 2, 3]]}, "a polygon has 3 numbers"),
        ({"segmentation": [[1, 2, None, 4]]}, "a polygon is"),
        ({"segmentation": [1, 2, 3, 4, 5, 6]}, r"list of polygons.*: \[\[x1, y1, x2, y2"),
        ({"segmentation": 7}, "segmentation is 7"),
        ({"segmentation": {"counts": "\x7f"}}, "cannot be read at character 1"),
        ({"segmentation": {"counts": "oooooooooo"}}, "cannot be read"),
        ({"segmentation": {"counts": [1, -1]}}, "must be whole numbers"),
        ({"keypoints": [1, 2]}, "keypoints has 2 numbers, but must have three for each point"),
        ({"keypoints": 7}, "keypoints is 7"),
        ({"segmentation": {"counts": [4], "size": 2}}, "segmentation.size is 2"),
    ],
    ids=str,
)
def test_bad_annotations_are_named(change: Any, message: str, place: Path, tmp_path: Path):
    with pytest.raises(ValueError, match=message):
        forebay.Dataset(place / "images", annotations=changed(place, tmp_path, **change))


@pytest.mark.filterwarnings("ignore:.* are not among its images")
def test_what_is_no_coco_file_is_named(place: Path, tmp_path: Path):
    one = '{"images": [{"id": 1, "file_name": "a.0.png"}], "annotations": '
    for text, message in (("{", "not JSON.*folder of YOLO's"), ("[]", "no list 'images'"),
                          ('{"images": [{"id": 1}]}', "image 0 has no id or no file_name"),
                          (one + "[{}]}", "no image_id"),
                          (one + "null}", "must be a list"),
                          ('{"images": [{"id": "1", "file_name": "x"}]}', "id is '1'"),
                          ('{"images": [{"id": 1, "file_name": ""}]}', "file_name is ''"),
                          ('{"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}]}',
                           "image 1 comes more than once"),
                          (one + '[{"id": 4, "image_id": 1}]}',
                           "annotation 4 has neither bbox nor caption")):  # fmt: skip
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            forebay.Dataset(place / "images", annotations=tmp_path / "bad.json")
    with pytest.raises(FileNotFoundError):
        forebay.Dataset(place / "images", annotations=tmp_path / "none.json")


def test_images_that_are_no_samples_are_told(place: Path, tmp_path: Path):
    known = json.loads((place / "all.json").read_text())
    known["images"].append({"id": 9, "file_name": "elsewhere.png"})
    (tmp_path / "more.json").write_text(json.dumps(known))
    with pytest.warns(UserWarning, match="1 of its 9 images have no sample .* elsewhere.png"):
        forebay.Dataset(place / "images", annotations=tmp_path / "more.json")


def test_an_image_that_was_resized_after_it_was_annotated_is_a_bad_sample(
    place: Path, tmp_path: Path
):
    shutil.copytree(place / "images", tmp_path / "images")
    with Image.open(place / "images/a.3.png") as image:
        image.resize((10, 11)).save(tmp_path / "images/a.3.png")
    dataset = forebay.Dataset(tmp_path / "images", annotations=place / "all.json")
    with pytest.warns(UserWarning, match="annotations are for an image of .* but it has 10 x 11"):
        loaded = batches(dataset, fields=["image", "boxes", "index"], on_bad="skip")
    assert sum(len(index) for _, _, index in loaded) == 7


def test_runs_that_do_not_fit_their_image_are_a_bad_sample(place: Path, tmp_path: Path):
    path = changed(place, tmp_path, segmentation={"counts": [5, 9]})
    dataset = forebay.Dataset(place / "images", annotations=path)
    with pytest.warns(UserWarning, match="runs of 14 pixels, but its image has"):
        loaded = batches(dataset, fields=["image", "masks", "index"], on_bad="skip")
    assert sum(len(index) for _, _, index in loaded) == 7


@pytest.mark.parametrize("kind", ["small", "colours", "damaged"])
def test_a_bad_mask_is_a_bad_sample(kind: str, place: Path, tmp_path: Path):
    shutil.copytree(place / "masks", tmp_path / "masks")
    path = tmp_path / "masks/a.3.png"
    if kind == "small":
        Image.fromarray(np.zeros((3, 4), np.uint8)).save(path)
    elif kind == "colours":
        Image.fromarray(np.zeros((30, 40, 3), np.uint8)).save(path)
    else:
        path.write_bytes(path.read_bytes()[:-30])
    dataset = forebay.Dataset(place / "images", masks=tmp_path / "masks")
    messages = {"small": "the mask has 4 x 3", "colours": "has colours", "damaged": "PNG"}
    with pytest.warns(UserWarning, match=f"the sample's mask: .*{messages[kind]}"):
        loaded = batches(dataset, fields=["image", "mask", "index"], on_bad="skip")
    assert sum(len(index) for _, _, index in loaded) == 7


def test_a_mask_with_a_palette_gives_its_numbers(tmp_path: Path, place: Path):
    (tmp_path / "images").mkdir()
    (tmp_path / "masks").mkdir()
    shutil.copy(place / "images/a.0.png", tmp_path / "images/x.png")
    width, height = Image.open(place / "images/a.0.png").size
    numbers = np.arange(width * height).reshape(height, width) % 21
    mask = Image.fromarray(numbers.astype(np.uint8), "P")
    mask.putpalette([7, 99, 200] * 21)
    mask.save(tmp_path / "masks/x.png", bits=8)
    dataset = forebay.Dataset(tmp_path / "images", masks=tmp_path / "masks")
    ((_, mask),) = batches(dataset, transform=[NOTHING], fields=["image", "mask"])
    assert torch.equal(mask[0], torch.from_numpy(numbers.astype(np.uint8)))


def test_images_without_masks_are_named(place: Path, tmp_path: Path):
    (tmp_path / "masks").mkdir()
    shutil.copy(place / "masks/a.1.png", tmp_path / "masks")
    with pytest.raises(ValueError, match="no mask for 7 of 8 images, such as a%2E0"):
        forebay.Dataset(place / "images", masks=tmp_path / "masks")


def test_fields_that_cannot_move_are_refused(place: Path):
    dataset = opened(place)
    with pytest.raises(ValueError, match="'boxes' needs 'image'"):
        forebay.Loader(dataset, 3, fields=["boxes"], transform=[T.Resize((9, 9))])
    with pytest.raises(ValueError, match="'boxes' moves with the images that Forebay's"):
        forebay.Loader(dataset, 3, fields=["image", "boxes"], transform=[lambda image: image])
    with pytest.raises(ValueError, match="cannot be mixed"):
        forebay.Loader(
            dataset, 3, transform=[T.RandomResize(9, 30)], batch_transform=T.MixUp(num_classes=3)
        )
    with pytest.raises(ValueError, match="cannot move with the image"):
        forebay.Loader(dataset, 3, fields=["image", "boxes"], transform=[v2.ElasticTransform()])
    with pytest.raises(ValueError, match="there is no 'boxes'"):
        forebay.Loader(place / "images", 3, fields=["image", "boxes"])
    with pytest.raises(ValueError, match="masks have the sizes"):
        batches(dataset, fields=["image", "masks"], transform=[T.RandomResize(9, 30)],
                pad_targets=True)  # fmt: skip


def test_names_match_by_whole_folders(tmp_path: Path):
    for name in ("cat/x.png", "dog/y.png"):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((9, 8, 3), np.uint8)).save(tmp_path / "images" / name)
    images = [{"id": 1, "file_name": "y.png"}, {"id": 2, "file_name": "dog/x.png"}]
    boxes = [{"image_id": i, "category_id": i, "bbox": [0, 0, i, i]} for i in (1, 2)]
    (tmp_path / "a.json").write_text(json.dumps({"images": images, "annotations": boxes}))
    with (
        pytest.warns(UserWarning, match="1 of its 2 images have no sample .* dog/x.png"),
        pytest.warns(UserWarning, match="1 of the dataset's 2 samples .* such as cat/x,"),
    ):
        dataset = forebay.Dataset(tmp_path / "images", annotations=tmp_path / "a.json")
    assert dataset.objects is not None
    assert dataset.objects.counts.tolist() == [0, 1]
    assert dataset.objects.columns["labels"].tolist() == [1]


def test_batches_without_good_samples_have_no_objects(place: Path, tmp_path: Path):
    shutil.copytree(place / "masks", tmp_path / "masks")
    for mask in (tmp_path / "masks").iterdir():
        mask.write_bytes(b"no mask")
    dataset = forebay.Dataset(
        place / "images", annotations=place / "all.json", masks=tmp_path / "masks"
    )
    fields = ["image", "boxes", "labels", "masks", "keypoints", "mask", "visibility", "target"]
    for pads in (False, True):
        with pytest.warns(UserWarning, match="the sample's mask"):
            loaded = batches(dataset, fields=fields, on_bad="skip", pad_targets=pads)
        for batch in loaded:
            assert [len(values) for values in batch] == [0] * len(fields)
    last: dict[str, Any] = {"rank": 1, "world_size": 2, "even_batches": False, "shuffle": True}
    one = opened(place).subset([3])
    loaded = list(
        forebay.Loader(one, 2, transform=[T.RandomShortestSize(30)], fields=fields[:5], **last)
    )
    assert [len(batch[1]) for batch in loaded] == [0]


def test_masks_lie_anywhere(place: Path, nginx: Nginx, tmp_path: Path):
    run_forebay("pack", place / "masks", tmp_path / "packed")
    masks = f"{nginx.url}/{on_web(nginx, tmp_path / 'packed')}"
    far = forebay.Dataset(place / "images", masks=masks)
    near = forebay.Dataset(place / "images", masks=place / "masks")
    pairs = [batches(dataset, fields=["image", "mask"]) for dataset in (far, near)]
    for (_, one), (_, other) in zip(*pairs, strict=True):
        assert torch.equal(one, other)


def test_sizes_that_follow_from_the_first_image(tmp_path: Path):
    (tmp_path / "images").mkdir()
    for i in range(4):
        Image.fromarray(np.full((60, 80, 3), i, np.uint8)).save(tmp_path / f"images/{i}.png")
    for transform, shape in (
        ([T.RandomHorizontalFlip(), T.Resize(32)], (32, 42)),
        ([T.ColorJitter(0.1), T.Resize(32)], (32, 42)),
        ([T.Pad(4)], (68, 88)),
        ([T.Resize(30), T.Pad(2)], (34, 44)),
        ([v2.RandomHorizontalFlip(), v2.Resize(32), v2.ToImage()], (32, 42)),
        ([T.RandomChoice([T.RandomCrop(32), T.RandomResizedCrop(32)])], (32, 32)),
    ):
        loader = forebay.Loader(tmp_path / "images", 4, transform=transform, fields=["image"])
        ((images,),) = list(loader)
        assert tuple(images.shape) == (4, 3, *shape)


def test_crops_by_boxes_need_no_box_in_the_batch(place: Path):
    dataset = opened(place)
    transform = [T.RandomIoUCrop()]
    plain = batches(dataset, transform=transform, fields=["image"])
    wanted = batches(dataset, transform=transform, fields=["image", "boxes"])
    for (one,), (other, _) in zip(plain, wanted, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_decoders_boxes_are_in_place_of_its_crop():
    file = forebay_png(np.random.default_rng(1).integers(0, 256, (90, 90, 3), dtype=np.uint8))
    box = [(10, 20, 30, 40)]
    alone = forebay.BatchDecoder([T.RandomResizedCrop(64)])([file], boxes=box).images
    then = forebay.BatchDecoder([T.RandomResizedCrop(64), T.CenterCrop(32)])([file], boxes=box)
    assert torch.equal(then.images, alone[:, :, 16:48, 16:48])
    padded = forebay.BatchDecoder([T.CenterCrop(32), T.Pad(4)])([file], boxes=box)
    assert padded.errors() == {} and padded.images.shape == (1, 3, 40, 40)
    with pytest.raises(ValueError, match="does not begin with one"):
        forebay.BatchDecoder([T.ColorJitter(0.1), T.RandomResizedCrop(32)])([file], boxes=box)


def forebay_png(pixels: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()
