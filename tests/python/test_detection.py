"""Runs the examples of detection and segmentation on pictures of scattered digits."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

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
