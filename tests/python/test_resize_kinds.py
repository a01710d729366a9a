"""Resize(max_size=…), nearest-exact and rotations that expand are torchvision's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.v2.functional import _geometry as geometry

import forebay
from forebay import _core
from forebay import transforms as T
from forebay.transforms.core.steps import to_step
from peer_torchvision import v2

EXACT = v2.InterpolationMode.NEAREST_EXACT


def made(one: Any, pixels: np.ndarray) -> np.ndarray:
    """What the core makes of pixels [height, width, 3] by one transform."""
    height, width = pixels.shape[:2]
    actions = _core.draw_actions([to_step(one)], _core.Size(width, height), 1, 0, 0)
    return _core.performed(pixels, actions)


def theirs(one: Any, pixels: np.ndarray) -> np.ndarray:
    return one(torch.from_numpy(pixels).permute(2, 0, 1)).permute(1, 2, 0).numpy()


def noise(random: np.random.Generator, longest: int = 120) -> np.ndarray:
    height, width = random.integers(1, longest, 2)
    return random.integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_nearest_exact_shows_torchvisions_pixels():
    random = np.random.default_rng(1)
    for _ in range(200):
        pixels = noise(random)
        size = random.integers(1, 200, 2).tolist()
        expected = theirs(v2.Resize(size, EXACT), pixels)
        for name in ("nearest-exact", EXACT):
            assert np.array_equal(made(T.Resize(size, name), pixels), expected), (
                pixels.shape,
                size,
            )


@pytest.mark.parametrize("size", [17, None])
def test_the_longest_side_is_torchvisions(size: int | None):
    random = np.random.default_rng(2)
    for _ in range(80):
        pixels = noise(random)
        longest = int(random.integers(18, 90))
        short, long = sorted(pixels.shape[:2])
        if (longest * short < long) if size is None else (17 * longest < 17 * long // short):
            with pytest.raises(ValueError, match="would have 0 on the short side"):
                made(T.Resize(size, max_size=longest), pixels)
            continue
        expected = theirs(v2.Resize(size, max_size=longest), pixels)
        got = made(T.Resize(size, max_size=longest), pixels)
        assert got.shape == expected.shape and np.array_equal(got, expected)


@pytest.mark.parametrize("degrees", [0, 90, -90, 180, 270, 1e-3, 30, -45, 133.7, 359.9])
@pytest.mark.parametrize("kind", ["nearest", "bilinear"])
def test_rotations_that_expand_are_torchvisions(degrees: float, kind: str):
    random = np.random.default_rng(3)
    mode = getattr(v2.InterpolationMode, kind.upper())
    for _ in range(8):
        pixels = noise(random)
        how: dict[str, Any] = {"degrees": (degrees, degrees), "expand": True, "fill": 77}
        expected = theirs(v2.RandomRotation(interpolation=mode, **how), pixels)
        got = made(T.RandomRotation(interpolation=kind, **how), pixels)
        assert got.shape == expected.shape
        levels = np.abs(got.astype(int) - expected)
        assert levels.max() <= (1 if kind == "bilinear" else 0)


def test_the_sizes_of_rotations_are_torchvisions():
    random = np.random.default_rng(4)
    for _ in range(1000):
        width, height = random.integers(1, 2000, 2).tolist()
        degrees = float(random.uniform(-400, 400))
        matrix = geometry._get_inverse_affine_matrix([0, 0], -degrees, [0, 0], 1, [0, 0])
        expected = geometry._compute_affine_output_size(matrix, width, height)
        step = to_step(T.RandomRotation((degrees, degrees), expand=True))
        (warp,) = _core.draw_actions([step], _core.Size(width, height), 1, 0, 0)
        assert warp.canvas == list(expected), (width, height, degrees)


@pytest.mark.parametrize(
    "transform",
    [
        [v2.ToImage(), v2.Resize(30, max_size=40), v2.CenterCrop(24)],
        [v2.ToImage(), v2.Resize(30, EXACT), v2.CenterCrop(24)],
        [v2.ToImage(), v2.RandomRotation((20, 20), expand=True), v2.CenterCrop(24)],
        [v2.ToImage(), v2.RandomRotation((90, 90), expand=True), v2.Resize((20, 30))],
    ],
)
def test_a_loader_runs_them_in_the_core(transform: list[Any], tmp_path: Path):
    random = np.random.default_rng(5)
    files = [random.integers(0, 256, (50 + i, 90 - i, 3), dtype=np.uint8) for i in range(3)]
    for i, pixels in enumerate(files):
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
    assert T.from_torchvision(transform)
    ((images,),) = forebay.Loader(tmp_path, 3, transform=transform, fields=["image"])
    for image, pixels in zip(images, files, strict=True):
        expected = v2.Compose(transform[1:])(torch.from_numpy(pixels).permute(2, 0, 1))
        assert torch.equal(image, expected)


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (T.Resize((30, 40), max_size=50), "needs a size of the short side alone"),
        (T.Resize(30, max_size=30), "max_size is 30, but must be above size, 30"),
        (T.Resize(None), "size is None"),
        (T.Resize(None, max_size=0), "max_size is 0"),
        (T.RandomRotation(9, "nearest-exact"), "interpolation of warps is nearest-exact"),
    ],
)
def test_what_makes_no_sense_is_named(one: Any, message: str, tmp_path: Path):
    Image.new("RGB", (50, 60)).save(tmp_path / "x.png")
    with pytest.raises(ValueError, match=message):
        list(forebay.Loader(tmp_path, 1, transform=[one, T.CenterCrop(4)], fields=["image"]))
