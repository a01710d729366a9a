"""Writes image_prepare.txt: digests of samples made from JPEGs by Pillow, PyTorch and NumPy.

A line "file NAME HEX" is a JPEG. A line "train NAME SIZE MODE SAMPLE x y width height flip UINT8
FLOAT32" is the sample made from it in training: a random resized crop (drawn as src/image/crop.h
says, from the stream of seed 31 and SAMPLE), resized to SIZE x SIZE and perhaps mirrored. A line
"eval NAME SIZE MODE RESIZE UINT8 FLOAT32" is the centre of the resized image. UINT8 and FLOAT32
are digests (the first 16 bytes of SHA-256) of the sample's bytes, channels first, before and after
they are normalised. The steps are those of torchvision.transforms.v2 on tensors. Run with PyTorch
on x86-64:
python tests/golden/image_prepare.py
"""

import hashlib
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import torch
from feed_order import M32, below, stream
from image_resize import resize
from PIL import Image

SEED, AUGMENT = 31, 4
MEAN = np.array([0.485, 0.456, 0.406], np.float32).astype(np.float64)
STD = np.array([0.229, 0.224, 0.225], np.float32).astype(np.float64)


def jpeg(rng: np.random.Generator, width: int, height: int, mode: str, **options: Any) -> bytes:
    """Makes a JPEG of waves, a few rectangles and some noise."""
    y, x = np.mgrid[:height, :width] / 20
    channels = len(Image.new(mode, (1, 1)).getbands())
    waves = [np.sin(x * rng.uniform(0, 3) + y * rng.uniform(0, 3)) for _ in range(channels)]
    pixels = 128 + 90 * np.stack(waves, -1)
    for _ in range(6):
        left, top = rng.integers(0, width), rng.integers(0, height)
        right, bottom = left + rng.integers(0, width) + 1, top + rng.integers(0, height) + 1
        pixels[top:bottom, left:right] += rng.uniform(-80, 80, channels)
    pixels += rng.normal(0, rng.uniform(0, 8), pixels.shape)
    values = pixels.round().clip(0, 255).astype(np.uint8)
    out = io.BytesIO()
    image = Image.frombytes(mode, (width, height), values.tobytes())
    image.save(out, format="JPEG", **options)
    return out.getvalue()


def files() -> dict[str, bytes]:
    rng = np.random.default_rng(12)
    return {
        "444": jpeg(rng, 120, 90, "RGB", quality=85, subsampling=0),
        "422": jpeg(rng, 97, 131, "RGB", quality=75, subsampling=1, restart_marker_blocks=3),
        "420": jpeg(rng, 250, 187, "RGB", quality=75, subsampling=2),
        "420_optimised": jpeg(rng, 143, 201, "RGB", quality=60, optimize=True),
        "420_rough": jpeg(rng, 64, 300, "RGB", quality=12),
        "420_fine": jpeg(rng, 50, 37, "RGB", quality=98, subsampling=2, restart_marker_rows=1),
        "progressive": jpeg(rng, 160, 111, "RGB", quality=70, progressive=True),
        "grey": jpeg(rng, 99, 80, "L", quality=80),
        "cmyk": jpeg(rng, 40, 50, "CMYK", quality=70),
        "rgb": jpeg(rng, 70, 60, "RGB", quality=80, keep_rgb=True),
        "wide": jpeg(rng, 400, 9, "RGB", quality=70),
        "one_pixel": jpeg(rng, 1, 1, "RGB", quality=90),
    }


def uniform(numbers: Iterator[int]) -> float:
    return (next(numbers) >> 11) * 2.0**-53


def draw(width: int, height: int, sample: int) -> tuple[int, int, int, int, bool]:
    """Draws like RandomResizedCrop.make_params, then a flip, from Forebay's generator."""
    numbers = stream(SEED, AUGMENT, 0, sample)
    for _ in range(10):
        area = width * height * (0.08 + (1 - 0.08) * uniform(numbers))
        log_min, log_max = math.log(3 / 4), math.log(4 / 3)
        ratio = math.exp(log_min + (log_max - log_min) * uniform(numbers))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            y = below(height - h + 1, numbers)
            x = below(width - w + 1, numbers)
            break
    else:
        w, h = width, height
        if width / height < 3 / 4:
            h = round(w / (3 / 4))
        elif width / height > 4 / 3:
            w = round(h * (4 / 3))
        x, y = (width - w) // 2, (height - h) // 2
    return x, y, w, h, (next(numbers) & M32) >> 31 == 1


def digests(pixels: np.ndarray) -> str:
    chw = np.ascontiguousarray(pixels.transpose(2, 0, 1))
    normal = (chw / 255.0 - MEAN[:, None, None]) / STD[:, None, None]
    both = (chw.tobytes(), normal.astype("<f4").tobytes())
    return " ".join(hashlib.sha256(part).hexdigest()[:32] for part in both)


def train(name: str, pixels: np.ndarray, size: int, mode: str, sample: int) -> str:
    x, y, w, h, flip = draw(pixels.shape[1], pixels.shape[0], sample)
    out = resize(pixels[y : y + h, x : x + w], size, size, mode)
    if flip:
        out = out[:, ::-1]
    return f"train {name} {size} {mode} {sample} {x} {y} {w} {h} {int(flip)} {digests(out)}"


def evaluate(name: str, pixels: np.ndarray, size: int, mode: str, short: int) -> str:
    """Makes the line for torchvision's Resize and CenterCrop."""
    height, width = pixels.shape[:2]
    if width <= height:
        out = resize(pixels, short, int(short * height / width), mode)
    else:
        out = resize(pixels, int(short * width / height), short, mode)
    top, left = round((out.shape[0] - size) / 2), round((out.shape[1] - size) / 2)
    cut = out[top : top + size, left : left + size]
    return f"eval {name} {size} {mode} {short} {digests(cut)}"


def main() -> None:
    lines = [f"# by image_prepare.py with Pillow {PIL.__version__}, torch {torch.__version__}"]
    sample = 0
    for name, data in files().items():
        lines.append(f"file {name} {data.hex()}")
        pixels = np.array(Image.open(io.BytesIO(data)).convert("RGB"))
        for mode, draws in (("bilinear", 24), ("bicubic", 6), ("nearest", 4)):
            for number in range(draws):
                size = (224, 64, 33, 128, 7, 1)[number % 6]
                lines.append(train(name, pixels, size, mode, sample))
                sample += 1
            for size, short in ((224, 256), (30, 32)):
                lines.append(evaluate(name, pixels, size, mode, short))
    Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
