"""Writes image_padded.txt: digests of crops of images with mirrored padding, by NumPy.

Each line is "width height seed padding x y size sha256"; (x, y) is the crop's corner in the padded
image. The images come from image_resize.py. Run: python tests/golden/image_padded.py
"""

import hashlib
import random
from pathlib import Path

import numpy as np
from image_resize import image


def main() -> None:
    rng = random.Random(6)
    lines = [f"# by image_padded.py with NumPy {np.__version__}"]
    for seed in range(60):
        width, height = rng.randint(5, 40), rng.randint(5, 40)
        padding = rng.randint(0, min(width, height) - 1)
        size = rng.randint(1, min(width, height))
        x = rng.randint(0, width + 2 * padding - size)
        y = rng.randint(0, height + 2 * padding - size)
        sides = ((padding, padding), (padding, padding), (0, 0))
        padded = np.pad(image(width, height, seed), sides, mode="reflect")
        digest = hashlib.sha256(padded[y : y + size, x : x + size].tobytes()).hexdigest()
        lines.append(f"{width} {height} {seed} {padding} {x} {y} {size} {digest}")
    Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
