"""Masks whose files have other names than their images, like those of Cityscapes."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import forebay
from conftest import run_forebay

CITYSCAPES = ("{}_leftImg8bit", "{}_gtFine_labelIds")
NAMES = ["aachen/aachen_000000_000019", "aachen/aachen_000001_000019", "bonn/bonn_000000_000019"]


def write(path: Path, pixels: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, np.uint8)).save(path)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three images with their masks, and what else Cityscapes has beside a mask."""
    for number, name in enumerate(NAMES):
        write(tmp_path / f"left/{name}_leftImg8bit.png", np.full((6, 8, 3), number))
        write(tmp_path / f"fine/{name}_gtFine_labelIds.png", np.full((6, 8), 10 + number))
        write(tmp_path / f"fine/{name}_gtFine_instanceIds.png", np.full((6, 8), 99))
        write(tmp_path / f"fine/{name}_gtFine_color.png", np.full((6, 8, 3), 99))
        (tmp_path / f"fine/{name}_gtFine_polygons.json").write_text(json.dumps({"objects": []}))
    return tmp_path


def labels_by_key(dataset: forebay.Dataset) -> dict[str, int]:
    loader = forebay.Loader(dataset, 2, fields=["image", "mask", "key"])
    return {
        key: int(mask.unique().item())
        for _, masks, keys in loader
        for mask, key in zip(masks, keys, strict=True)
    }


EXPECTED = {f"{name}_leftImg8bit": 10 + number for number, name in enumerate(NAMES)}


def test_a_pair_of_patterns_says_which_mask_belongs_to_which_image(place: Path):
    dataset = forebay.Dataset(place / "left", masks=place / "fine", mask_names=CITYSCAPES)
    assert labels_by_key(dataset) == EXPECTED
    assert labels_by_key(pickle.loads(pickle.dumps(dataset))) == EXPECTED


def test_masks_are_packed_by_patterns(place: Path, tmp_path: Path):
    options = ("--masks", place / "fine", "--mask-names", *CITYSCAPES)
    run_forebay("pack", place / "left", tmp_path / "set", *options)
    assert labels_by_key(forebay.Dataset(tmp_path / "set")) == EXPECTED
    again = run_forebay("pack", place / "left", tmp_path / "set", *options)
    assert "already complete" in again.stdout
    far = forebay.Dataset(tmp_path / "set", masks=place / "fine", mask_names=CITYSCAPES)
    assert labels_by_key(far) == EXPECTED


def test_an_image_without_a_mask_is_named(place: Path, tmp_path: Path):
    (place / f"fine/{NAMES[1]}_gtFine_labelIds.png").unlink()
    message = (
        "no mask for 1 of 3 images, such as aachen/aachen_000001_000019_leftImg8bit; the mask of "
        r"an image {}_leftImg8bit must be a PNG {}_gtFine_labelIds"
    )
    with pytest.raises(ValueError, match=message):
        forebay.Dataset(place / "left", masks=place / "fine", mask_names=CITYSCAPES)
    options = ("--masks", place / "fine", "--mask-names", *CITYSCAPES)
    done = run_forebay("pack", place / "left", tmp_path / "set", *options, code=1)
    assert message in done.stderr


def test_an_image_that_does_not_fit_its_pattern_has_no_mask(place: Path):
    write(place / "left/bonn/other.png", np.zeros((6, 8, 3)))
    write(place / "fine/bonn/other.png", np.zeros((6, 8)))
    with pytest.raises(ValueError, match="no mask for 1 of 4 images, such as bonn/other;"):
        forebay.Dataset(place / "left", masks=place / "fine", mask_names=CITYSCAPES)


def test_two_masks_of_an_image_are_an_error(place: Path, tmp_path: Path):
    write(tmp_path / "two.png", np.zeros((6, 8)))
    (tmp_path / "two.png").rename(place / f"fine/{NAMES[2]}_gtFine_labelIds.PNG")
    with pytest.raises(ValueError, match="masks: .*000019_leftImg8bit.png may belong to bonn/"):
        forebay.Dataset(place / "left", masks=place / "fine", mask_names=CITYSCAPES)
    options = ("--masks", place / "fine", "--mask-names", *CITYSCAPES)
    done = run_forebay("pack", place / "left", tmp_path / "set", *options, code=1)
    assert "may belong to bonn/" in done.stderr


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ("_labelIds", "mask_names is '_labelIds', but must be a pair"),
        (("{}",), "must be a pair"),
        (("{}", 3), "must be a pair"),
        (("{}", "_labelIds"), r'the pattern "_labelIds" must have {} once'),
        (("{}", "{}{}"), "must have {} once"),
        (("left/{}", "{}"), "has folders"),
        (("{}_leftImg8bit.png", "{}"), 'has a suffix, but must be "{}_leftImg8bit"'),
    ],
    ids=str,
)
def test_what_is_no_pair_of_patterns_is_refused(patterns: Any, message: str, place: Path):
    with pytest.raises(ValueError, match=message):
        forebay.Dataset(place / "left", masks=place / "fine", mask_names=patterns)


def test_patterns_need_masks(place: Path, tmp_path: Path):
    with pytest.raises(ValueError, match="mask_names: there are no masks"):
        forebay.Dataset(place / "left", mask_names=CITYSCAPES)
    done = run_forebay(
        "pack", place / "left", tmp_path / "set", "--masks", place / "fine", "--mask-names",
        "left", "fine", code=1,
    )  # fmt: skip
    assert 'pack: --mask-names: the pattern "left" must have {} once' in done.stderr
