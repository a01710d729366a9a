"""Writes image_resize.txt: digests of PyTorch's uint8 resize, antialiased except for nearest.

Each line is "mode width height out_width out_height seed sha256" of the resized RGB bytes. Images
come from `image` below, which src/image/resize_test.cc repeats. Run with PyTorch on x86-64:
python tests/golden/image_resize.py
"""

import hashlib
import random
from pathlib import Path

import numpy as np
import torch

FIXED = [
    (350, 300, 224, 224),
    (32, 32, 32, 32),
    (32, 32, 224, 224),
    (500, 375, 341, 256),
    (375, 500, 256, 341),
    (1, 1, 224, 224),
    (1, 300, 224, 224),
    (300, 1, 224, 224),
    (7, 5, 1, 1),
    (2048, 3, 1, 3),
    (3, 2048, 3, 1),
    (16384, 2, 3, 2),
    (16384, 1, 1, 1),
    (1, 16384, 1, 2),
    (224, 300, 224, 224),
    (300, 224, 224, 224),
    (2, 2, 6, 6),
    (2, 3, 162, 2),
    (225, 223, 224, 224),
]


def image(width: int, height: int, seed: int) -> np.ndarray:
    """Returns noise of all values for an even seed, and of 0 and 255 only for an odd one."""
    v = (np.arange(width * height * 3, dtype=np.uint32) + np.uint32(seed * 7919)) * np.uint32(
        2654435761
    )
    v ^= v >> 15
    v *= np.uint32(2246822519)
    v ^= v >> 13
    values = (v & 1) * 255 if seed % 2 else v & 255
    return values.astype(np.uint8).reshape(height, width, 3)


def resize(pixels: np.ndarray, width: int, height: int, mode: str = "bilinear") -> np.ndarray:
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    smooth = {} if mode == "nearest" else {"antialias": True, "align_corners": False}
    out = torch.nn.functional.interpolate(tensor, size=(height, width), mode=mode, **smooth)
    return out[0].permute(1, 2, 0).contiguous().numpy()


def main() -> None:
    rng = random.Random(5)
    sizes = list(FIXED)
    while len(sizes) < 240:
        a, b, c, d = (max(1, int(2 ** rng.uniform(0, 9.5))) for _ in range(4))
        sizes.append((a, b, c, d))
    lines = [f"# by image_resize.py with torch {torch.__version__}"]
    for mode in ("bilinear", "bicubic", "nearest"):
        for seed, (width, height, out_width, out_height) in enumerate(sizes):
            pixels = resize(image(width, height, seed), out_width, out_height, mode)
            digest = hashlib.sha256(pixels.tobytes()).hexdigest()
            lines.append(f"{mode} {width} {height} {out_width} {out_height} {seed} {digest}")
    Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
