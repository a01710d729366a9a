"""Detection and segmentation on pictures of scattered digits.

The examples learn, and an evaluation by COCO's rules is the same with torchvision's loader.
"""

import contextlib
import importlib.util
import io
import json
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from sklearn.datasets import load_digits
from torchvision.datasets import CocoDetection, wrap_dataset_for_transforms_v2

import forebay
from peer_torchvision import v2
from test_frameworks import example, run

DIGITS = (1, 4, 7)  # the classes; their numbers in the annotations are ten times as large
SIDE = 128


@pytest.fixture(scope="module")
def scattered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures with one to three digits of any size, their boxes, and their masks."""
    root = tmp_path_factory.mktemp("scattered")
    (root / "images").mkdir()
    (root / "masks").mkdir()
    random = np.random.default_rng(0)
    digits, labels = load_digits(return_X_y=True)
    known: dict[str, list[dict[str, Any]]] = {
        "images": [],
        "annotations": [],
        "categories": [{"id": 10 * digit, "name": str(digit)} for digit in DIGITS],
    }
    for number in range(320):
        picture = random.integers(0, 90, (SIDE, SIDE, 3)).astype(np.uint8)
        mask = np.zeros((SIDE, SIDE), np.uint8)
        for column in range(random.integers(1, 4)):
            digit = int(random.choice(DIGITS))
            pixels = digits[random.choice(np.flatnonzero(labels == digit))].reshape(8, 8)
            size = int(random.integers(24, 42))
            image = Image.fromarray((pixels * 15).astype(np.uint8)).resize((size, size))
            shape = np.asarray(image) > 110
            rows, columns = np.flatnonzero(shape.any(1)), np.flatnonzero(shape.any(0))
            shape = shape[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
            height, width = shape.shape
            left = 43 * column + int(random.integers(0, 43 - width))
            top = int(random.integers(0, SIDE - height))
            colour = random.integers(130, 256, 3)
            picture[top : top + height, left : left + width][shape] = colour
            mask[top : top + height, left : left + width][shape] = 1 + DIGITS.index(digit)
            known["annotations"].append(
                {
                    "id": len(known["annotations"]) + 1,
                    "image_id": number,
                    "category_id": 10 * digit,
                    "bbox": [left, top, width, height],
                    "area": width * height,
                    "iscrowd": 0,
                }
            )
        name = f"{number:03}.png"
        Image.fromarray(picture).save(root / "images" / name)
        Image.fromarray(mask).save(root / "masks" / name)
        known["images"].append({"id": number, "file_name": name, "width": SIDE, "height": SIDE})
    (root / "boxes.json").write_text(json.dumps(known))
    return root


def last_number(printed: str) -> float:
    return float(re.findall(r": ([\d.]+)$", printed.strip())[0])


def test_a_detector_finds_digits(scattered: Path):
    images, boxes = scattered / "images", scattered / "boxes.json"
    printed = run(example("detection_train.py"), images, boxes, 8, cwd=scattered)
    assert last_number(printed) > 0.5, printed


def test_a_segmenter_finds_digits(scattered: Path):
    images, masks = scattered / "images", scattered / "masks"
    printed = run(example("segmentation_train.py"), images, masks, 4, 4, cwd=scattered)
    assert last_number(printed) > 0.5, printed


def detection_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("detection", example("detection_train.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def trained(detection: ModuleType, images: Path, boxes: Path, epochs: int) -> torch.nn.Module:
    """The example's detector after a few epochs, which finds some digits and misses others."""
    torch.manual_seed(0)
    model = detection.Detector(len(DIGITS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader, _ = detection.loaders(str(images), str(boxes), 96)
    for _ in range(epochs):
        for pixels, corners, labels in loader:
            own = torch.where(labels < 0, -1, torch.bucketize(labels // 10, torch.tensor(DIGITS)))
            loss = detection.loss_of(model(pixels), corners, own)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


@torch.no_grad()
def stats_of(
    detection: ModuleType, model: torch.nn.Module, batches: Iterable[Any], known: COCO
) -> list[float]:
    """COCO's twelve numbers for what the model finds on batches of images and targets."""
    normalize = v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    found: list[dict[str, Any]] = []
    for images, targets in batches:
        made = model(torch.stack([normalize(image) for image in images]))
        for target, boxes, labels, scores in zip(targets, *detection.detections(made), strict=True):
            boxes[:, 2:] -= boxes[:, :2]
            found += [
                {"image_id": target["image_id"], "category_id": 10 * DIGITS[label],
                 "bbox": box, "score": score}
                for box, label, score in zip(
                    boxes.tolist(), labels.tolist(), scores.tolist(), strict=True
                )
                if score > 0.1
            ]  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        judge = COCOeval(known, known.loadRes(found), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return [float(one) for one in judge.stats]


def test_the_evaluation_is_that_of_torchvisions_loader(scattered: Path):
    images, boxes = scattered / "images", scattered / "boxes.json"
    preset = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    with contextlib.redirect_stdout(io.StringIO()):
        coco = CocoDetection(images, str(boxes), transforms=preset)
    theirs = torch.utils.data.DataLoader(
        wrap_dataset_for_transforms_v2(coco, ("boxes", "labels", "image_id")),
        4, collate_fn=lambda batch: tuple(zip(*batch, strict=True)),
    )  # fmt: skip
    dataset = forebay.Dataset(images, annotations=boxes)
    fields = ["image", "target"]
    ours = forebay.Loader(dataset, 4, transform=preset, fields=fields, tv_tensors=True)
    for (pixels, targets), (own_pixels, own_targets) in zip(theirs, ours, strict=True):
        for image, target, own, own_target in zip(
            pixels, targets, own_pixels, own_targets, strict=True
        ):
            torch.testing.assert_close(own, image, rtol=0, atol=1e-7)
            assert torch.equal((own * 255).round(), (image * 255).round())  # the files' bytes
            assert own_target["image_id"] == target["image_id"]
            assert torch.equal(own_target["labels"], target["labels"])
            assert torch.equal(own_target["boxes"], target["boxes"])
            assert own_target["boxes"].format == target["boxes"].format
            assert own_target["boxes"].canvas_size == target["boxes"].canvas_size
    detection = detection_example()
    model = trained(detection, images, boxes, 2)
    expected, stats = (stats_of(detection, model, batches, coco.coco) for batches in (theirs, ours))
    assert stats == expected and len(stats) == 12
    assert 0.02 < stats[0] < 0.95, stats
