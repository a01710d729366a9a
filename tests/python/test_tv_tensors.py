"""A Loader gives torchvision's types on request, with the numbers that it gives without them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torchvision import tv_tensors
from torchvision.transforms import v2

import forebay
from forebay import transforms as T
from forebay.loading.mover import Normalizing, _map
from test_targets import opened, place, same

__all__ = ["place"]  # the fixture
FIELDS = ["image", "boxes", "labels", "masks", "keypoints", "visibility", "mask", "target"]
OWN_SIZES = [T.RandomShortestSize([16, 30, 44], 50)]
ONE_SIZE = [T.RandomResizedCrop((20, 32))]


def loaded(place: Path, **options: Any) -> list[Any]:
    options = {"fields": {name: name for name in FIELDS}, **options}
    return list(forebay.Loader(opened(place), 3, seed=4, **options))


def plain(value: Any) -> Any:
    """The value without torchvision's types."""
    if isinstance(value, torch.Tensor):
        return value.as_subclass(torch.Tensor)
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("format", ["XYXY", "CXCYWH"])
@pytest.mark.parametrize("transform", [OWN_SIZES, ONE_SIZE])
def test_fields_have_torchvisions_types(transform: list[Any], format: str, place: Path):
    transform = [*transform, T.ConvertBoundingBoxFormat(format)]
    expected = loaded(place, transform=transform)
    made = loaded(place, transform=transform, tv_tensors=True)
    for batch, other in zip(made, expected, strict=True):
        assert all(isinstance(image, torch.Tensor) for image in batch["image"])
        if isinstance(batch["image"], list):
            assert all(type(image) is tv_tensors.Image for image in batch["image"])
        else:
            assert type(batch["image"]) is tv_tensors.Image
            assert type(batch["mask"]) is tv_tensors.Mask
        for i, target in enumerate(batch["target"]):
            size = tuple(batch["image"][i].shape[1:])
            for boxes in (target["boxes"], batch["boxes"][i]):
                assert type(boxes) is tv_tensors.BoundingBoxes
                assert boxes.format == tv_tensors.BoundingBoxFormat[format]
                assert boxes.canvas_size == size
            for points in (target["keypoints"], batch["keypoints"][i]):
                assert type(points) is tv_tensors.KeyPoints and points.canvas_size == size
            for name in ("masks", "mask"):
                assert type(target[name]) is tv_tensors.Mask
            assert type(batch["masks"][i]) is tv_tensors.Mask
            assert type(target["labels"]) is type(batch["labels"][i]) is torch.Tensor
            assert type(target["image_id"]) is int
            known = other["target"][i]
            points = torch.cat([target["keypoints"], target["visibility"][..., None]], dim=2)
            assert torch.equal(points, known["keypoints"])
            assert target["image_id"] == int(known["image_id"])
            for name in ("boxes", "labels", "area", "masks", "mask"):
                assert torch.equal(plain(target[name]), known[name])
        for name in ("image", "boxes", "labels", "masks", "visibility", "mask"):
            assert same([plain(batch[name])], [other[name]])


def test_torchvisions_transforms_go_on_with_a_batch(place: Path):
    flip = v2.RandomHorizontalFlip(p=1)
    both: list[list[dict[str, Any]]] = [
        loaded(place, transform=[T.Resize((20, 32)), *flips], tv_tensors=True)
        for flips in ([], [T.RandomHorizontalFlip(1)])
    ]
    for batch, mirrored in zip(*both, strict=True):
        for i, target in enumerate(batch["target"]):
            image, own = flip(batch["image"][i : i + 1], target)
            assert torch.equal(image[0], mirrored["image"][i])
            for name in ("boxes", "masks", "mask"):
                assert torch.equal(own[name], mirrored["target"][i][name])


def test_functions_get_the_types(place: Path):
    seen: list[Any] = []

    def collate(samples: list[Any]) -> list[Any]:
        seen.extend(type(value) for value in samples[0])
        return samples

    fields = ["image", "boxes", "masks", "labels"]
    options: dict[str, Any] = {"transform": OWN_SIZES, "fields": fields, "tv_tensors": True}
    loaded(place, collate_fn=collate, **options)
    types = [tv_tensors.Image, tv_tensors.BoundingBoxes, tv_tensors.Mask, torch.Tensor]
    assert seen[:4] == types
    batches = loaded(place, batch_transform=lambda batch: [*batch, 1], **options)
    assert type(batches[0][1][0]) is tv_tensors.BoundingBoxes

    def own(image: torch.Tensor) -> torch.Tensor:
        assert type(image) is torch.Tensor
        return image + 1

    images = loaded(place, **{**options, "transform": [*ONE_SIZE, own]})[0][0]
    assert type(images) is tv_tensors.Image


def test_images_without_annotations_have_the_type(packed: Path):
    for transform in (None, [T.RandomResizedCrop(20), T.Normalize()]):
        images, labels = next(iter(forebay.Loader(packed, 4, transform=transform, tv_tensors=True)))
        own = images if isinstance(images, list) else [images]
        assert all(type(one) is tv_tensors.Image for one in own) and type(labels) is torch.Tensor


def test_the_types_go_to_devices(place: Path):
    batch = loaded(place, transform=ONE_SIZE, tv_tensors=True)[0]
    # Like the copies: both methods give plain tensors.
    moved = _map(batch, lambda tensor: tensor.as_subclass(torch.Tensor) + 0)
    assert same([plain(moved)], [plain(batch)])
    assert type(moved["mask"]) is tv_tensors.Mask
    before, after = batch["target"][0]["boxes"], moved["target"][0]["boxes"]
    assert (after.format, after.canvas_size) == (before.format, before.canvas_size)
    normalized = Normalizing((0.5,) * 3, (0.5,) * 3, "float32", False, ["image"])(batch)
    assert type(normalized["image"]) is tv_tensors.Image


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tv_tensors": 1}, "tv_tensors is 1"),
        ({"pad_targets": True}, "leave out pad_targets"),
        ({"channels_last": True}, "leave out channels_last"),
        ({"transform": [plain]}, "moves with .*; plain gets only the image"),
    ],
)
def test_what_does_not_go_together_is_named(options: dict[str, Any], said: str, place: Path):
    with pytest.raises(ValueError, match=said):
        loaded(place, **{"transform": ONE_SIZE, "tv_tensors": True, **options})


def test_torchvision_is_asked_for(packed: Path):
    code = f"""
import sys
sys.modules["torchvision"] = None
import forebay
try:
    forebay.Loader({str(packed)!r}, tv_tensors=True)
except ValueError as error:
    print(error)
"""
    paths = {"PYTHONPATH": str(Path(forebay.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=paths)
    assert "need torchvision 0.16 or newer" in done.stdout, done.stderr
