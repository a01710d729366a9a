"""Boxes, keypoints and masks move as torchvision v2 moves them with the image.

What the core draws for a sample is done again by torchvision's functions on tv_tensors.
"""

import json
import pickle
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from pycocotools import mask as coco_mask
from scipy import stats
from torchvision import tv_tensors

import forebay
from forebay import _core
from forebay import transforms as T
from forebay.transforms.core.steps import to_step
from forebay.transforms.core.transform import to_core
from peer_torchvision import v2
from torchvision_again import again

FIELDS = ["image", "boxes", "labels", "area", "iscrowd", "masks", "keypoints", "index", "mask"]
SEED = 11
# A test fails when the chance that two distributions are equal is lower. The seeds are fixed.
CHANCE = 0.001
# A step that changes nothing, so that all crops after it are drawn as steps.
NOTHING = T.RandomInvert(0)


def outline(random: np.random.Generator, width: int, height: int) -> list[float]:
    corners = random.uniform(-3, [width + 3, height + 3], (random.integers(3, 8), 2))
    return corners.round(2).ravel().tolist()


def runs(random: np.random.Generator, width: int, height: int) -> list[int]:
    ends = np.sort(random.integers(0, width * height + 1, 9))
    return np.diff(np.concatenate([[0], ends, [width * height]])).tolist()


def annotation(number: int, random: np.random.Generator, width: int, height: int) -> dict[str, Any]:
    left, top = random.uniform(0, [width * 0.8, height * 0.8])
    segmentation: Any = [outline(random, width, height) for _ in range(random.integers(1, 3))]
    kind = number % 5
    if kind == 3:
        segmentation = {"size": [height, width], "counts": runs(random, width, height)}
    elif kind == 4:
        raw = {"size": [height, width], "counts": runs(random, width, height)}
        packed = coco_mask.frPyObjects(raw, height, width)
        segmentation = {"size": [height, width], "counts": packed["counts"].decode()}
    return {
        "id": number,
        "category_id": int(random.integers(1, 91)),
        "bbox": [
            round(float(v), 2)
            for v in (left, top, random.uniform(0, width - left), random.uniform(0, height - top))
        ],
        "area": 5.5,
        "iscrowd": int(kind >= 3),
        "segmentation": segmentation,
        "keypoints": [
            *random.uniform(0, [width, height]).round(1).tolist(), 2,
            *random.uniform(0, [width, height]).round(1).tolist(), 1,
        ],
    }  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of images, one of masks, and annotations; an image without objects, one with 30."""
    root = tmp_path_factory.mktemp("targets")
    random = np.random.default_rng(3)
    (root / "images").mkdir()
    (root / "masks").mkdir()
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for i, count in enumerate([0, 1, 3, 30, 2, 7, 25, 4]):
        width, height = int(random.integers(20, 90)), int(random.integers(20, 90))
        pixels = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / "images" / f"a.{i}.png")
        wide = i % 2 == 0
        labels = random.integers(0, 65536 if wide else 256, (height, width))
        Image.fromarray(labels.astype(np.uint16 if wide else np.uint8)).save(
            root / "masks" / f"a.{i}.png"
        )
        images.append({"id": 70 + i, "file_name": f"a.{i}.png", "height": height, "width": width})
        for _ in range(count):
            one = annotation(len(annotations), random, width, height)
            annotations.append({**one, "image_id": 70 + i})
    random.shuffle(annotations)
    (root / "all.json").write_text(json.dumps({"images": images, "annotations": annotations}))
    return root


def opened(place: Path) -> forebay.Dataset:
    return forebay.Dataset(place / "images", annotations=place / "all.json", masks=place / "masks")


def original(place: Path, number: int) -> dict[str, Any]:
    """A sample as torchvision's users would make it."""
    image = Image.open(place / "images" / f"a.{number}.png")
    size = (image.height, image.width)
    known = json.loads((place / "all.json").read_text())
    own = [one for one in known["annotations"] if one["image_id"] == 70 + number]
    masks = [decoded(one["segmentation"], *size) for one in own]
    labels = np.asarray(Image.open(place / "masks" / f"a.{number}.png"))
    boxes = tv_tensors.BoundingBoxes(
        [one["bbox"] for one in own] or torch.zeros(0, 4), format="XYWH", canvas_size=size
    )
    points = np.array([one["keypoints"] for one in own], np.float32).reshape(-1, 2, 3)
    return {
        "image": tv_tensors.Image(image),
        "boxes": v2.functional.convert_bounding_box_format(boxes, new_format="XYXY"),
        "labels": torch.tensor([one["category_id"] for one in own], dtype=torch.int64),
        "iscrowd": torch.tensor([one["iscrowd"] for one in own], dtype=torch.int64),
        "masks": tv_tensors.Mask(np.array(masks, np.uint8).reshape(-1, *size)),
        "keypoints": tv_tensors.KeyPoints(points[..., :2].copy(), canvas_size=size),
        "visible": torch.from_numpy(points[..., 2]),
        "mask": tv_tensors.Mask(torch.from_numpy(labels.astype(np.int32))),
    }


def decoded(segmentation: Any, height: int, width: int) -> np.ndarray:
    own = coco_mask.frPyObjects(segmentation, height, width) if (
        isinstance(segmentation, list) or isinstance(segmentation["counts"], list)
    ) else segmentation  # fmt: skip
    return coco_mask.decode(coco_mask.merge(own) if isinstance(own, list) else own)


def drawn(transform: list[Any], sample: Mapping[str, Any], number: int) -> list[Any]:
    """What the core draws in epoch 0 for a sample, all of which must be steps."""
    core = to_core(transform).transform
    height, width = sample["image"].shape[1:]
    boxes = [list(map(float, box)) for box in sample["boxes"]]
    return _core.draw_actions(core.steps, _core.Size(width, height), SEED, 0, number, boxes)


TRANSFORMS: list[list[Any]] = [
    [],
    [T.RandomHorizontalFlip(0.5), T.RandomVerticalFlip(0.5)],
    [T.RandomResizedCrop(32)],
    [T.RandomResizedCrop((20, 40), interpolation="bicubic"), T.RandomHorizontalFlip(1)],
    [T.Resize((30, 50)), T.CenterCrop(60)],
    [T.Resize(25, "nearest"), T.RandomCrop(20, 4)],
    [T.RandomCrop((30, 20), pad_if_needed=True, fill=(9, 8, 7)), T.Resize(16)],
    [T.Pad((1, 2, 3, 4), fill=100), T.RandomCrop(18)],
    [T.RandomZoomOut((123, 117, 104), p=1), T.RandomHorizontalFlip()],
    [T.RandomIoUCrop()],
    [T.RandomIoUCrop(sampler_options=[0.1]), T.Resize((20, 20))],
    [T.RandomPhotometricDistort(), T.RandomZoomOut(0), T.RandomIoUCrop(), T.RandomVerticalFlip()],
    [T.ScaleJitter((40, 60))],
    [T.RandomShortestSize([16, 30, 44], 50), T.RandomHorizontalFlip()],
    [T.RandomResize(10, 40)],
    [T.RandomRotation(40)],
    [T.RandomRotation((90, 90)), T.RandomRotation((-180, -180))],
    [T.RandomAffine(20, (0.2, 0.1), (0.7, 1.3), 10, "bilinear", fill=5)],
    [T.RandomRotation(40, expand=True, fill={tv_tensors.Image: 7, tv_tensors.Mask: 255})],
    [T.RandomRotation(180, "bilinear", expand=True), T.RandomCrop(20), T.RandomHorizontalFlip()],
    [T.RandomRotation((90, 90), expand=True), T.RandomRotation((-7, -7), expand=True)],
    [T.Resize(30, max_size=40)],
    [T.Resize(None, max_size=33), T.Resize(21, "nearest-exact", max_size=22)],
    [T.RandomZoomOut({"Image": 3, "others": 255}, p=1), T.RandomCrop(99, 5, True, {"Mask": 9})],
    [T.RandomPerspective(0.4, 1)],
    [T.RandAugment(fill=3), T.RandomResizedCrop(24)],
    [T.RandomApply([T.Resize((31, 17)), T.RandomGrayscale(0.5)], 0.5), T.ColorJitter(0.5, 0.5)],
]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda value: str(value)[:90])
def test_what_moves_is_where_torchvision_moves_it(transform: list[Any], place: Path):
    dataset = opened(place)
    steps = [NOTHING, *transform]
    loader = forebay.Loader(dataset, 3, transform=steps, fields=FIELDS, seed=SEED)
    warps = [one for one in transform if type(one).__name__ in
             ("RandomRotation", "RandomAffine", "RandomPerspective", "RandAugment")]  # fmt: skip
    count = 0
    for image, boxes, labels, area, iscrowd, masks, keypoints, index, mask in loader:
        for i, number in enumerate(index.tolist()):
            sample = original(place, number)
            actions = drawn(steps, sample, number)
            expected = {name: again(actions, sample[name]) for name in
                        ("image", "boxes", "masks", "keypoints", "mask")}  # fmt: skip
            levels = (image[i].int() - expected["image"].int()).abs().max()
            assert levels <= (1 if warps else 0), (number, actions)
            off = 1e-3 if warps else 0.0
            empty = dropped(actions, transform, boxes[i])
            close(boxes[i][~empty], expected["boxes"].as_subclass(torch.Tensor)[~empty], off)
            close(keypoints[i][..., :2], expected["keypoints"].as_subclass(torch.Tensor), off)
            close(keypoints[i][..., 2], sample["visible"], off)
            assert torch.equal(masks[i], expected["masks"].as_subclass(torch.Tensor)), number
            assert torch.equal(mask[i].int(), expected["mask"].as_subclass(torch.Tensor)), number
            assert torch.equal(labels[i], sample["labels"])
            assert torch.equal(iscrowd[i], sample["iscrowd"])
            assert (area[i] == 5.5).all()
            count += len(labels[i])
    assert count == 72


def close(one: torch.Tensor, other: torch.Tensor, off: float) -> None:
    torch.testing.assert_close(one, other.reshape(one.shape), rtol=0, atol=off)


def dropped(actions: list[Any], transform: list[Any], boxes: torch.Tensor) -> torch.Tensor:
    """Which boxes RandomIoUCrop has emptied, because their middle lies outside of the crop."""
    if not any(isinstance(one, T.RandomIoUCrop) for one in transform):
        return torch.zeros(len(boxes), dtype=torch.bool)
    return (boxes[:, 2:] == boxes[:, :2]).all(1)


def batches(dataset: forebay.Dataset, **options: Any) -> list[Any]:
    options = {"transform": [T.RandomResizedCrop(32)], "seed": SEED, **options}
    return list(forebay.Loader(dataset, 3, **options))


def flat(fields: Any) -> list[Any]:
    """All tensors of a batch, also those in lists and dicts."""
    if isinstance(fields, dict):
        return [one for name in sorted(fields) for one in flat(fields[name])]
    return [one for part in fields for one in flat(part)] if isinstance(fields, (list, tuple)) else [fields]  # fmt: skip  # noqa: E501


def same(one: Any, other: Any) -> bool:
    pairs = list(zip(flat(one), flat(other), strict=True))
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)


def test_batches_are_the_same_on_any_number_of_threads_and_in_a_copy(place: Path):
    dataset = opened(place)
    options = {"transform": TRANSFORMS[11], "shuffle": True, "fields": FIELDS}
    first = batches(dataset, num_workers=1, **options)
    assert same(first, batches(dataset, num_workers=3, **options))
    assert same(first, batches(pickle.loads(pickle.dumps(dataset)), **options))


def test_small_boxes_go_as_torchvision_lets_them(place: Path):
    dataset = opened(place)
    transform = [NOTHING, T.RandomIoUCrop(), T.Resize((40, 40))]
    limits = {"min_size": 4, "min_area": 60}
    whole = batches(dataset, transform=transform, fields=["boxes", "labels", "masks", "image"])
    transform += [T.SanitizeBoundingBoxes(**limits)]
    left = batches(dataset, transform=transform, fields=["boxes", "labels", "masks", "image"])
    gone = 0
    for (boxes, labels, masks, _), (some, some_labels, some_masks, _) in zip(
        whole, left, strict=True
    ):
        for i, own in enumerate(boxes):
            theirs = tv_tensors.BoundingBoxes(own, format="XYXY", canvas_size=(40, 40))
            expected = v2.SanitizeBoundingBoxes(**limits)(
                {"boxes": theirs, "labels": labels[i], "masks": tv_tensors.Mask(masks[i])}
            )
            assert torch.equal(some[i], expected["boxes"].as_subclass(torch.Tensor))
            assert torch.equal(some_labels[i], expected["labels"])
            assert torch.equal(some_masks[i], expected["masks"].as_subclass(torch.Tensor))
            gone += len(own) - len(some[i])
    assert gone > 10


@pytest.mark.parametrize("format", ["XYWH", "cxcywh", tv_tensors.BoundingBoxFormat.CXCYWH])
def test_boxes_come_in_other_formats(format: Any, place: Path):
    dataset = opened(place)
    plain = batches(dataset, fields=["image", "boxes"])
    transform = [T.ConvertBoundingBoxFormat(format), T.RandomResizedCrop(32)]
    for (_, boxes), (_, others) in zip(
        plain, batches(dataset, transform=transform, fields=["image", "boxes"]), strict=True
    ):
        for own, other in zip(boxes, others, strict=True):
            name = getattr(format, "value", format).upper()
            theirs = tv_tensors.BoundingBoxes(own, format="XYXY", canvas_size=(32, 32))
            expected = v2.functional.convert_bounding_box_format(theirs, new_format=name)
            assert torch.equal(other, expected.as_subclass(torch.Tensor))


def test_targets_are_padded(place: Path):
    fields = ["image", "boxes", "labels", "masks", "keypoints", "mask", "visibility"]
    for lists, padded in zip(
        batches(opened(place), fields=fields),
        batches(opened(place), fields=fields, pad_targets=True),
        strict=True,
    ):
        most = max(len(boxes) for boxes in lists[1])
        count = len(lists[1])
        assert padded[1].shape == (count, most, 4)
        assert padded[3].shape == (count, most, 32, 32)
        assert padded[4].shape == (count, most, 2, 3)
        assert torch.equal(padded[5], lists[5])
        assert torch.equal(padded[6], padded[4][..., 2].long())
        for i, boxes in enumerate(lists[1]):
            assert torch.equal(padded[1][i, : len(boxes)], boxes)
            assert (padded[1][i, len(boxes) :] == 0).all()
            assert (padded[2][i, len(boxes) :] == -1).all()


def test_a_target_is_what_torchvisions_models_take(place: Path):
    images, targets = batches(opened(place), fields=["image", "target"])[1]
    assert len(images) == len(targets) == 3
    assert set(targets[0]) == {
        "boxes", "labels", "area", "iscrowd", "masks", "keypoints", "visibility", "image_id",
        "mask",
    }  # fmt: skip
    assert [int(target["image_id"]) for target in targets] == [73, 74, 75]
    assert all(target["masks"].shape[1:] == (32, 32) for target in targets)


def test_parts_and_sums_have_the_objects_of_their_samples(place: Path):
    dataset = forebay.Dataset(place / "images", annotations=place / "all.json")
    fields = ["image", "boxes", "masks", "index", "target"]
    transform = [T.Resize((20, 20))]
    whole: dict[int, Any] = {}
    for _, boxes, masks, index, _ in batches(dataset, transform=transform, fields=fields):
        whole |= dict(zip(index.tolist(), zip(boxes, masks, strict=True), strict=True))
    order = [6, 2, 2, 0, 5]
    both = forebay.concat([dataset.subset(order), dataset])
    for _, boxes, masks, index, targets in batches(both, transform=transform, fields=fields):
        for i, number in enumerate(index.tolist()):
            own = [*order, *range(8)][number]
            assert same((boxes[i], masks[i]), whole[own])
            assert int(targets[i]["image_id"]) == 70 + own


def test_captions(tmp_path: Path, place: Path):
    known = json.loads((place / "all.json").read_text())
    texts = [{"image_id": 71, "caption": "one"}, {"image_id": 71, "caption": "two"}]
    (tmp_path / "captions.json").write_text(json.dumps({**known, "annotations": texts}))
    dataset = forebay.Dataset(place / "images", annotations=tmp_path / "captions.json")
    assert dataset.objects is not None
    loaded = batches(dataset, fields=["image", "captions"])
    assert [text for _, texts in loaded for text in texts][:3] == [[], ["one", "two"], []]


def test_torchvisions_detection_reference(place: Path):
    fill = defaultdict(lambda: (123.0, 117.0, 104.0), {tv_tensors.Mask: 0})
    theirs = [
        v2.ToImage(), v2.RandomPhotometricDistort(), v2.RandomZoomOut(fill=fill),
        v2.RandomIoUCrop(), v2.RandomHorizontalFlip(0.5), v2.ToDtype(torch.float32, scale=True),
        v2.SanitizeBoundingBoxes(), v2.ToPureTensor(),
    ]  # fmt: skip
    ours = [
        T.RandomPhotometricDistort(), T.RandomZoomOut((123, 117, 104)), T.RandomIoUCrop(),
        T.RandomHorizontalFlip(), T.Normalize((0, 0, 0), (1, 1, 1)), T.SanitizeBoundingBoxes(),
    ]  # fmt: skip
    fields = ["image", "boxes", "masks"]
    one = batches(opened(place), transform=v2.Compose(theirs), fields=fields)
    assert same(one, batches(opened(place), transform=ours, fields=fields))
    multiscale = [
        v2.ToImage(), v2.RandomShortestSize([16, 20, 30], 40), v2.ScaleJitter((30, 30)),
        v2.Pad(3), v2.RandomResize(10, 20), v2.ClampBoundingBoxes(),
        v2.ConvertBoundingBoxFormat("XYWH"),
    ]  # fmt: skip
    ours = [
        T.RandomShortestSize([16, 20, 30], 40), T.ScaleJitter((30, 30)), T.Pad(3),
        T.RandomResize(10, 20), T.ConvertBoundingBoxFormat("XYWH"), T.ClampBoundingBoxes(),
    ]  # fmt: skip
    one = batches(opened(place), transform=v2.Compose(multiscale), fields=fields)
    assert same(one, batches(opened(place), transform=ours, fields=fields))


def crops(own: Any, theirs: Any, boxes: list[list[float]], count: int) -> tuple[Any, Any]:
    """The regions that both draw for an image of 100 x 80: left, top, width, height."""
    step = to_step(own)
    mine = []
    for sample in range(count):
        actions = _core.draw_actions([step], _core.Size(100, 80), 1, 0, sample, boxes)
        mine += [tuple(action.region) for action in actions]
    inputs = [torch.zeros(3, 80, 100), tv_tensors.BoundingBoxes(
        boxes, format="XYXY", canvas_size=(80, 100)
    )]  # fmt: skip
    torch.manual_seed(4)
    other = []
    for _ in range(count):
        drawn_by_them = theirs.make_params(inputs)
        if "left" in drawn_by_them:
            other.append(tuple(drawn_by_them[key] for key in ("left", "top", "width", "height")))
    return np.array(mine), np.array(other)


def test_iou_crops_have_torchvisions_distribution():
    boxes = [[10.0, 10, 40, 60], [50, 20, 95, 70], [0, 0, 5, 5]]
    mine, other = crops(T.RandomIoUCrop(), v2.RandomIoUCrop(), boxes, 800)
    # The others stay as they are.
    cropped = [[len(mine), 800 - len(mine)], [len(other), 800 - len(other)]]
    assert stats.chi2_contingency(cropped).pvalue > CHANCE
    for column in range(4):
        assert stats.ks_2samp(mine[:, column], other[:, column]).pvalue > CHANCE


def test_sizes_have_torchvisions_distributions():
    size = _core.Size(100, 80)
    image = [torch.zeros(3, 80, 100)]
    pairs = [
        (T.ScaleJitter((60, 90)), v2.ScaleJitter((60, 90))),
        (T.RandomShortestSize([20, 40, 60], 70), v2.RandomShortestSize([20, 40, 60], 70)),
    ]
    for own, theirs in pairs:
        step = to_step(own)
        mine = [_core.draw_actions([step], size, 1, 0, sample)[0].resized for sample in range(2000)]
        torch.manual_seed(4)
        other = [theirs.make_params(image)["size"] for _ in range(2000)]
        assert stats.ks_2samp([one[0] for one in mine], [one[1] for one in other]).pvalue > CHANCE
        assert stats.ks_2samp([one[1] for one in mine], [one[0] for one in other]).pvalue > CHANCE
    step = to_step(T.RandomZoomOut())
    views = [
        action.outside.viewport if action.outside else (0, 0, 100, 80)
        for sample in range(4000)
        for action in _core.draw_actions([step], size, 1, 0, sample)
    ]
    assert stats.binomtest(len(views), 4000, 0.5).pvalue > CHANCE
    torch.manual_seed(4)
    pads = [v2.RandomZoomOut().make_params(image)["padding"] for _ in range(len(views))]
    for own, theirs in ((0, 0), (1, 1)):
        left = [-view[own] for view in views]
        assert stats.ks_2samp(left, [pad[theirs] for pad in pads]).pvalue > CHANCE
    widths = [100 + pad[0] + pad[2] for pad in pads]
    assert stats.ks_2samp([view[2] for view in views], widths).pvalue > CHANCE
