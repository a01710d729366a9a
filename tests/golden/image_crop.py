"""Writes image_crop.txt: moments of the crops of torchvision.transforms.v2.RandomResizedCrop.

Each line is "width height" and then the mean and standard deviation of x, y, width and height of a
million crops with the default scale and ratio. `draw` is torchvision's make_params
(torchvision/transforms/v2/_geometry.py) over arrays.
"""

from pathlib import Path

import numpy as np
import torch

SIZES = [(500, 375), (375, 500), (32, 32), (1000, 100), (100, 1000), (3, 2), (640, 480), (7, 31)]
DRAWS = 1_000_000


def draw(width: int, height: int, n: int) -> np.ndarray:
    low, high = torch.log(torch.tensor([3 / 4, 4 / 3])).tolist()
    out = np.zeros((n, 4))
    left = np.arange(n)
    for _ in range(10):
        area = width * height * torch.empty(len(left)).uniform_(0.08, 1.0).double().numpy()
        ratio = torch.exp(torch.empty(len(left)).uniform_(low, high)).double().numpy()
        w = np.round(np.sqrt(area * ratio))
        h = np.round(np.sqrt(area / ratio))
        good = (w > 0) & (w <= width) & (h > 0) & (h <= height)
        w, h = w[good], h[good]
        y = np.floor(torch.rand(len(h), dtype=torch.float64).numpy() * (height - h + 1))
        x = np.floor(torch.rand(len(w), dtype=torch.float64).numpy() * (width - w + 1))
        out[left[good]] = np.stack([x, y, w, h], axis=1)
        left = left[~good]
    w, h = width, height
    if width / height < 3 / 4:
        h = round(w / (3 / 4))
    elif width / height > 4 / 3:
        w = round(h * (4 / 3))
    out[left] = [(width - w) // 2, (height - h) // 2, w, h]
    return out


def main() -> None:
    torch.manual_seed(7)
    lines = [f"# by image_crop.py with torch {torch.__version__}"]
    for width, height in SIZES:
        crops = draw(width, height, DRAWS)
        figures = np.stack([crops.mean(axis=0), crops.std(axis=0)], axis=1).ravel()
        lines.append(f"{width} {height} " + " ".join(f"{v:.6f}" for v in figures))
    Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
