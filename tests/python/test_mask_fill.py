"""Maps of labels get torchvision's `fill`, and its segmentation reference runs."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors

import forebay
from forebay import transforms as T
from peer_torchvision import v2

WIDTH, HEIGHT = 40, 30
BY_KIND = {tv_tensors.Image: 9, tv_tensors.Mask: 255}
OTHERS = {tv_tensors.Mask: 255, "others": 9}
DEFAULT = defaultdict(lambda: 9, {tv_tensors.Mask: 255})


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> forebay.Dataset:
    root = tmp_path_factory.mktemp("pairs")
    random = np.random.default_rng(1)
    for name in ("images", "masks"):
        (root / name).mkdir()
    for i in range(4):
        pixels = random.integers(10, 200, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / f"images/{i}.png")
        labels = random.integers(1, 21, (HEIGHT, WIDTH), dtype=np.uint8)
        Image.fromarray(labels).save(root / f"masks/{i}.png")
    return forebay.Dataset(root / "images", masks=root / "masks")


def loaded(dataset: forebay.Dataset, transform: Any) -> tuple[Any, Any]:
    how: dict[str, Any] = {"transform": transform, "fields": ["image", "mask"]}
    ((images, masks),) = forebay.Loader(dataset, 4, **how)
    return images, masks


def originals(dataset: forebay.Dataset) -> list[tuple[Any, Any]]:
    root = Path(dataset.path).parent
    return [
        (
            tv_tensors.Image(Image.open(root / f"images/{i}.png")),
            tv_tensors.Mask(Image.open(root / f"masks/{i}.png")),
        )
        for i in range(4)
    ]


# These draw nothing, so torchvision's results can be compared pixel by pixel.
def named(cases: list[Any]) -> list[str]:
    """Names of cases that are the same in every process."""
    return [f"{case[0]}-{number}" for number, case in enumerate(cases)]


FIXED = [
    ("Pad", {"padding": (1, 2, 3, 4), "fill": 255}),
    ("Pad", {"padding": 3, "fill": BY_KIND}),
    ("Pad", {"padding": 3, "fill": OTHERS}),
    ("RandomRotation", {"degrees": (30, 30), "fill": 255}),
    ("RandomRotation", {"degrees": (30, 30), "expand": True, "fill": BY_KIND}),
    ("RandomAffine", {"degrees": (20, 20), "scale": (0.5, 0.5), "fill": 255}),
    ("RandomAffine", {"degrees": 0, "scale": (0.7, 0.7), "fill": BY_KIND}),
]


@pytest.mark.parametrize(("name", "arguments"), FIXED, ids=named(FIXED))
@pytest.mark.parametrize("theirs", [False, True])
def test_masks_have_torchvisions_fill(
    name: str, arguments: Any, theirs: bool, pairs: forebay.Dataset
):
    peer = getattr(v2, name)(**arguments)
    transform = [v2.ToImage(), peer] if theirs else [getattr(T, name)(**arguments)]
    images, masks = loaded(pairs, transform)
    for image, mask, original in zip(images, masks, originals(pairs), strict=True):
        expected_image, expected_mask = peer(*original)
        assert torch.equal(mask, expected_mask.as_subclass(torch.Tensor)[0])
        assert torch.equal(image, expected_image.as_subclass(torch.Tensor))
        assert (mask == 255).any()


# These draw their place; the colour of the image tells where the mask must have the label.
DRAWN = [
    ("RandomZoomOut", {"fill": BY_KIND, "side_range": (1.5, 2), "p": 1}),
    # The default of a defaultdict counts, as its user means it (torchvision 0.28 takes 0).
    ("RandomZoomOut", {"fill": DEFAULT, "side_range": (1.5, 2), "p": 1}),
    ("RandomCrop", {"size": 36, "padding": 8, "pad_if_needed": True, "fill": BY_KIND}),
    ("RandomCrop", {"size": (50, 36), "pad_if_needed": True, "fill": OTHERS}),
    ("RandomPerspective", {"p": 1, "interpolation": v2.InterpolationMode.NEAREST, "fill": BY_KIND}),
    ("RandomRotation", {"degrees": 80, "fill": BY_KIND}),
]


@pytest.mark.parametrize(("name", "arguments"), DRAWN, ids=named(DRAWN))
@pytest.mark.parametrize("theirs", [False, True])
def test_masks_are_filled_where_images_are(
    name: str, arguments: Any, theirs: bool, pairs: forebay.Dataset
):
    one = getattr(v2 if theirs else T, name)(**arguments)
    images, masks = loaded(pairs, [v2.ToImage(), one] if theirs else [one])
    for image, mask in zip(images, masks, strict=True):
        assert torch.equal((image == 9).all(0), mask == 255)
        assert (mask == 255).any() and (mask != 255).any()


def test_what_masks_get_without_a_fill_of_their_own(pairs: forebay.Dataset):
    # torchvision refuses three levels for masks, and masks for policies.
    for one in (T.Pad(2, fill=(1, 2, 3)), T.RandomRotation(45, fill=None),
                T.RandAugment(4, 25, fill=77), T.Pad(2, fill={"Image": 5})):  # fmt: skip
        _, masks = loaded(pairs, [one])
        assert max(int(mask.max()) for mask in masks) <= 20
    _, masks = loaded(pairs, [T.RandAugment(8, 30, fill={"Image": 5, "Mask": 255})])
    assert any((mask == 255).any() for mask in masks)


def test_masks_of_objects_stay_0_and_1(pairs: forebay.Dataset, tmp_path: Path):
    path = tmp_path / "a.json"
    path.write_text(
        '{"images": [{"id": 0, "file_name": "0.png"}], "annotations": [{"image_id": 0, '
        '"category_id": 1, "bbox": [0, 0, 9, 9], "segmentation": [[0, 0, 9, 0, 9, 9]]}]}'
    )
    dataset = forebay.Dataset(pairs.path, annotations=path)
    how: dict[str, Any] = {"transform": [T.Pad(5, fill=255)], "fields": ["image", "masks"]}
    ((_, masks),) = forebay.Loader(dataset, 4, **how)
    assert masks[0].unique().tolist() == [0, 1]


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        ({"Mask": 256}, "fill for masks is 256, but must be a whole number from 0 to 255"),
        ({"Mask": 0.5}, "fill for masks is 0.5"),
        ({"Mask": (1, 2, 3)}, "fill for masks is .*must be a number"),
        ({"Image": (1, 2)}, "fill is .*must be a number or 3 numbers"),
        (300, "fill is 300, but must be from 0 to 255"),
    ],
)
def test_fills_that_make_no_sense_are_named(fill: Any, message: str, pairs: forebay.Dataset):
    for one in (T.Pad(1, fill=fill), T.RandomRotation(9, fill=fill), T.RandomZoomOut(fill)):
        with pytest.raises(ValueError, match=f"{type(one).__name__}: {message}"):
            forebay.Loader(pairs, 4, transform=[one])


def test_torchvisions_segmentation_reference(pairs: forebay.Dataset):
    transform = v2.Compose([
        v2.ToImage(),
        v2.RandomResize(20, 60),
        v2.RandomHorizontalFlip(0.5),
        v2.RandomCrop(48, pad_if_needed=True, fill={tv_tensors.Mask: 255, "others": 0}),
        v2.ToDtype(
            {tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None},
            scale=True,
        ),
        v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        v2.ToPureTensor(),
    ])  # fmt: skip
    assert T.ConvertMasks("int64") in T.from_torchvision(transform)
    images, masks = loaded(pairs, transform)
    assert images.dtype == torch.float32 and tuple(images.shape) == (4, 3, 48, 48)
    assert masks.dtype == torch.int64 and tuple(masks.shape) == (4, 48, 48)
    assert 255 in masks and set(masks.unique().tolist()) <= {*range(1, 21), 255}
    scores = torch.zeros(4, 21, 48, 48, requires_grad=True)
    torch.nn.functional.cross_entropy(scores, masks, ignore_index=255).backward()


def test_masks_have_the_type_that_is_asked_for(pairs: forebay.Dataset):
    for dtype in ("int32", torch.int64, "float32"):
        _, masks = loaded(pairs, [T.RandomCrop(8), T.ConvertMasks(dtype)])
        assert masks.dtype == getattr(torch, str(dtype).removeprefix("torch."))
    with pytest.raises(ValueError, match="ConvertMasks: dtype is 'int7', but must be one of"):
        loaded(pairs, [T.RandomCrop(8), T.ConvertMasks("int7")])
    few = forebay.Loader(
        pairs, 9, rank=1, world_size=2, even_batches=False, transform=[T.ConvertMasks("int64"),
        T.RandomCrop(8)], fields=["image", "mask"], sampler=None,
    )  # fmt: skip
    assert [mask.dtype for _, mask in few] == [torch.int64]
