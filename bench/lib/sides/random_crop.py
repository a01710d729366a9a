"""Draws random crops for the libraries that leave this to their user."""

import math
import random

import numpy as np

from lib.sides.side import RATIO, SCALE


def draw_crop(
    width: int, height: int, draws: random.Random | None = None
) -> tuple[int, int, int, int]:
    """Left, top, width and height, in pixels, like torchvision's RandomResizedCrop.get_params.

    Args:
        width, height: The image's, in pixels.
        draws: Where the random numbers come from; None: Python's own generator.
    """
    uniform, randint = (draws or random).uniform, (draws or random).randint
    for _ in range(10):
        area = width * height * uniform(*SCALE)
        ratio = math.exp(uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return randint(0, width - w), randint(0, height - h), w, h
    w, h = min(width, round(height * RATIO[1])), min(height, round(width / RATIO[0]))
    return (width - w) // 2, (height - h) // 2, w, h


def draw_padded(padding: int) -> tuple[int, int]:
    """How far right of and below the bordered image's corner a crop begins, in pixels."""
    return random.randint(0, 2 * padding), random.randint(0, 2 * padding)


def draw_flip() -> bool:
    """Returns True half of the time."""
    return random.random() < 0.5


def crop_padded(images: np.ndarray, padding: int, generator: np.random.Generator) -> np.ndarray:
    """Adds a mirrored border to each image, crops it to its own size again, and flips half of them.

    Args:
        images: [samples, 3, size, size].
        padding: The border's width, in pixels.
        generator: Draws the places and the flips.
    """
    count, _, height, width = images.shape
    sides = (padding, padding)
    wide = np.pad(images, ((0, 0), (0, 0), sides, sides), "reflect")
    offsets = generator.integers(0, 2 * padding + 1, (count, 2))
    flips = generator.integers(0, 2, (count,))
    out = np.empty_like(images)
    for i in range(count):
        x, y = offsets[i]
        crop = wide[i, :, y : y + height, x : x + width]
        out[i] = crop[:, :, ::-1] if flips[i] else crop
    return out
