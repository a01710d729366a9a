"""Checks that the sides of bench/peers.py do the same work, by what their crops show.

The images are made to carry their own coordinates: Cb grows from left to right, Cr from top to
bottom, and Y is a checkerboard of single pixels. Straight lines through the Cb and Cr of a side's
sample show which part of the image it took and whether it flipped it. What is left of the
checkerboard shows whether the side averaged over all pixels of the image that became one pixel of
the sample. The distributions are compared with torchvision's own draws.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from lib.sides.side import MEAN, STD, Work

SAMPLES = 1024
FILES = 128
LOW, RANGE, CHECKER = 78, 100, 24  # levels of 255
# The largest distance between the distribution functions of 1024 draws and of the reference's
# (Kolmogorov and Smirnov), which chance exceeds once in 10^8 times. A scale that begins at 0.2
# instead of 0.08 is 0.13 away, and centred crops are 0.5 away.
DISTANCE_MAX = 0.1
# The largest share of the checkerboard's deviation that may be left in an antialiased sample, where
# the image became at least SMALLER times smaller.
SMALLER = 1.7
LEFT_OVER_MAX = 0.2


def image_size(work: Work) -> tuple[int, int]:
    """Returns the width and height of the made images, in pixels."""
    return (work.size, work.size) if work.padding else (640, 480)


def make_images(folder: Path, work: Work) -> None:
    """Writes FILES equal images, in two classes."""
    from PIL import Image

    width, height = image_size(work)
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    planes = (
        128 + CHECKER * (1 - 2 * ((x + y) % 2)),
        LOW + RANGE * (x + 0.5) / width,
        LOW + RANGE * (y + 0.5) / height,
    )
    pixels = np.stack(planes, axis=-1).round().astype(np.uint8)
    image = Image.fromarray(pixels, "YCbCr")
    for i in range(FILES):
        path = folder / f"class{i % 2}" / f"{i:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, quality=100, subsampling=0 if work.padding else 2)


def fit_crops(batch: np.ndarray, work: Work) -> np.ndarray:
    """Returns what a batch of samples shows of its crops.

    Returns:
        [samples, 6]: left, right, top and bottom of each crop as shares of the image; 1 where it is
        flipped, else 0; and the rest of the checkerboard, as a share of its deviation.
    """
    mean, std = (np.array(values, np.float32).reshape(3, 1, 1) for values in (MEAN, STD))
    red, green, blue = np.moveaxis((batch * std + mean) * 255, 1, 0)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    blueness, redness = 128 + (blue - luma) / 1.772, 128 + (red - luma) / 1.402
    # Only the middle half counts, as there may be a border around it.
    inside = slice(luma.shape[1] // 4, luma.shape[1] - luma.shape[1] // 4)
    begin_x, end_x = _ends(blueness[:, inside].mean(axis=1), work)
    begin_y, end_y = _ends(redness[:, :, inside].mean(axis=2), work)
    rest = luma[:, inside, inside].std(axis=(1, 2)) / CHECKER
    left, right = np.minimum(begin_x, end_x), np.maximum(begin_x, end_x)
    return np.stack([left, right, begin_y, end_y, begin_x > end_x, rest], axis=1)


def _ends(profile: np.ndarray, work: Work) -> tuple[np.ndarray, np.ndarray]:
    """Fits lines to the middle half of [samples, size]; returns where they begin and end."""
    size = profile.shape[1]
    inside = slice(size // 4, size - size // 4)
    at = np.arange(size)[inside] + 0.5
    slope, begin = np.polyfit(at, profile[:, inside].T, 1)
    if work.padding:  # half-sized chroma changes the slope, although nothing is scaled
        slope = np.sign(slope) * RANGE / size
        begin = profile[:, inside].mean(axis=1) - slope * at.mean()
    return (begin - LOW) / RANGE, (begin + slope * size - LOW) / RANGE


def reference(work: Work) -> dict[str, list[float]]:
    """The distributions of torchvision's draws; for a padded crop, all its places."""
    if work.padding:
        places = [i / (2 * work.padding) for i in range(2 * work.padding + 1)]
        return {"x": places, "y": places}
    from lib.sides.torchvision import reference_crops

    width, height = image_size(work)
    drawn = np.array(list(reference_crops(width, height, 20 * SAMPLES)), float)
    x, y, w, h = drawn.T / np.array([[width], [height], [width], [height]])
    return _distributions(x, x + w, y, y + h, width / height)


def _distributions(
    left: Any, right: Any, top: Any, bottom: Any, ratio: float
) -> dict[str, list[float]]:
    w, h = right - left, bottom - top
    free_x, free_y = w < 0.95, h < 0.95  # a crop of nearly the whole image has no choice of places
    return {
        "area": sorted(w * h),
        "ratio": sorted(np.log(w / h * ratio)),
        "x": sorted(left[free_x] / (1 - w[free_x])),
        "y": sorted(top[free_y] / (1 - h[free_y])),
    }


def distance(ours: list[float], theirs: list[float]) -> float:
    """The largest distance between the distribution functions of two sorted lists."""
    at = np.concatenate([ours, theirs])
    shares = [np.searchsorted(values, at, "right") / len(values) for values in (ours, theirs)]
    return float(abs(shares[0] - shares[1]).max())


def describe(
    fits: list[list[float]], expected: dict[str, list[float]], work: Work
) -> dict[str, float]:
    """A side's distances from the reference, its share of flips, the rest of the checkerboard."""
    left, right, top, bottom, flips, rest = np.array(fits).T
    width, height = image_size(work)
    said = {"flips": float(flips.mean())}
    if work.padding:
        places = {"x": left * width + work.padding, "y": top * height + work.padding}
        made = {axis: sorted(at.round() / (2 * work.padding)) for axis, at in places.items()}
        said["off_pixel"] = max(float(abs(at - at.round()).max()) for at in places.values())
    else:
        made = _distributions(left, right, top, bottom, width / height)
        smaller = np.minimum((right - left) * width, (bottom - top) * height) / work.size >= SMALLER
        said["left_over"] = float(rest[smaller].mean())
    return said | {name: distance(made[name], values) for name, values in expected.items()}


def complaint(said: dict[str, float], antialiased: bool) -> str:
    """Returns why a side's work is not the reference's; an empty text if it is the same."""
    for name, value in said.items():
        if name == "flips":
            wrong = abs(value - 0.5) > DISTANCE_MAX
        elif name == "left_over":
            wrong = antialiased and not value <= LEFT_OVER_MAX
        elif name == "off_pixel":
            wrong = not value <= 0.25
        else:
            wrong = not value <= DISTANCE_MAX
        if wrong or math.isnan(value):
            return f"{name} is {value:.3f}"
    return ""
