"""Draws the plot of bench/peers.py, an SVG: images per CPU second of each side.

usage: python -m lib.peers_plot FILE.svg, with the benchmark's JSON object on standard input
"""

import json
import sys
from pathlib import Path
from typing import Any

NAMES = {
    "forebay": "Forebay, packed",
    "forebay_avx2": "Forebay, packed, AVX2",
    "forebay_in_place": "Forebay, folder",
    "forebay_resized": "Forebay, smaller (lossy)",
    "turboloader": "TurboLoader",
    "dali_crop": "DALI, crop decode",
    "dali": "DALI",
    "ffcv_raw": "FFCV, raw pixels",
    "ffcv_q90": "FFCV, quality 90 (lossy)",
    "ffcv_q96": "FFCV, quality 96 (lossy)",
    "ffcv_resized": "FFCV, smaller (lossy)",
    "torchvision": "torchvision",
    "spdl": "SPDL",
    "webdataset": "WebDataset",
    "litdata": "LitData",
    "streaming": "Streaming",
    "opencv": "simplejpeg + OpenCV",
}
OURS, THEIRS, TEXT = "#1f6f5c", "#b9c0c7", "#333333"
TITLES = {
    "photos": "Photographs: random resized crop 224",
    "cifar": "CIFAR-10 JPEGs: padded crop 32",
}


def draw(axes: Any, title: str, sides: dict[str, dict[str, float]]) -> None:
    """Draws a bar for each side, the fastest on top."""
    speeds = sorted((side["per_cpu_second"], name) for name, side in sides.items())
    colours = [OURS if name.startswith("forebay") else THEIRS for _, name in speeds]
    bars = axes.barh(
        [NAMES[name] for _, name in speeds], [speed for speed, _ in speeds], color=colours
    )
    axes.bar_label(bars, [f"{speed:,.0f}" for speed, _ in speeds], padding=4, color=TEXT)
    axes.set_title(title, loc="left", color=TEXT)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, colors=TEXT)
    axes.set_xticks([])
    axes.margins(x=0.12, y=0.02)


def main() -> None:
    """Writes the file."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams |= {"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10}
    result = json.load(sys.stdin)
    figure, both = pyplot.subplots(1, 2, figsize=(11, 5), layout="constrained")
    for axes, (work, title) in zip(both, TITLES.items(), strict=True):
        draw(axes, title, result[work]["one"])
    figure.supxlabel(
        f"images per CPU second, one thread, one core ({result['machine']})",
        color=TEXT, fontsize=9,
    )  # fmt: skip
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, transparent=False, metadata={"Date": None})


if __name__ == "__main__":
    main()
