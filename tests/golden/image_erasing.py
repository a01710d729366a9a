"""Writes image_erasing.txt: moments of the rectangles of torchvision.transforms.v2.RandomErasing.

Each line is "size", the share of samples that lose a rectangle, and then the mean and standard
deviation of x, y, width and height of the rectangles of a million square samples, with the default
probability, scale and ratio. `draw` is torchvision's make_params and _call_one of
torchvision/transforms/v2/_augment.py over arrays.
"""

from pathlib import Path

import numpy as np
import torch

SIZES = [224, 32, 7, 3]
DRAWS = 1_000_000


def draw(size: int, n: int) -> np.ndarray:
    """Returns the rectangles (x, y, width, height) of those of n samples that lose one."""
    low, high = torch.log(torch.tensor([0.3, 3.3])).tolist()
    out = np.zeros((n, 4))
    left = np.flatnonzero((torch.rand(n) < 0.5).numpy())
    for _ in range(10):
        area = size * size * torch.empty(len(left)).uniform_(0.02, 0.33).double().numpy()
        ratio = torch.exp(torch.empty(len(left)).uniform_(low, high)).double().numpy()
        h = np.round(np.sqrt(area * ratio))
        w = np.round(np.sqrt(area / ratio))
        good = (w < size) & (h < size)
        w, h = w[good], h[good]
        y = np.floor(torch.rand(len(h), dtype=torch.float64).numpy() * (size - h + 1))
        x = np.floor(torch.rand(len(w), dtype=torch.float64).numpy() * (size - w + 1))
        out[left[good]] = np.stack([x, y, w, h], axis=1)
        left = left[~good]
    return out[(out[:, 2] > 0) & (out[:, 3] > 0)]


def main() -> None:
    torch.manual_seed(7)
    lines = [f"# by image_erasing.py with torch {torch.__version__}"]
    for size in SIZES:
        erased = draw(size, DRAWS)
        figures = np.stack([erased.mean(axis=0), erased.std(axis=0)], axis=1).ravel()
        share = len(erased) / DRAWS
        lines.append(f"{size} {share:.6f} " + " ".join(f"{v:.6f}" for v in figures))
    Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
