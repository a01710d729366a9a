"""Measures what bench/gpu.py is for, in an interpreter that has the peers and a PyTorch for CUDA.

usage: python -m lib.gpu_program PHOTOS [--rounds N] [--rehearse]
Prints tables and, last, one JSON object.
"""

import argparse
import os
import random
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lib.comparison import Comparison, report, show_table
from lib.gpu_share import share_at
from lib.gpu_sides import CROPS, WHOLE, ForebayCpu, Photo, Side
from lib.gpu_training import FEEDS, Training
from lib.machine import machine
from lib.program import forebay
from lib.sides.random_crop import draw_crop

NVJPEG = ("nvjpeg_hybrid", "nvjpeg_hardware", "nvjpeg_both")


class Plan:
    """How much is measured: in earnest, or on the CPU to see that it works."""

    def __init__(self, rehearse: bool, rounds: int | None) -> None:
        if not rehearse and not torch.cuda.is_available():
            raise SystemExit(
                f"bench gpu: PyTorch {torch.__version__} finds no GPU (--rehearse does without)"
            )
        self.device = torch.device("cpu" if rehearse else "cuda")
        self.rounds = rounds or (1 if rehearse else 5)
        self.batch = 16 if rehearse else 256
        self.turn_seconds = 0.2 if rehearse else 2.0
        self.images = 64 if rehearse else 16384  # in an epoch of training
        self.train_batch = 4 if rehearse else 256
        self.train_seconds = 0.5 if rehearse else 6.0
        self.models = ("resnet18",) if rehearse else ("resnet18", "resnet50")


def read_photos(folder: Path, packed: Path) -> list[Photo]:
    """The photographs, in a random order, and their random crops.

    Both nvJPEG and Forebay's kernels must take them: they are JPEGs of three components.
    """
    from forebay import Dataset, decode

    dataset = Dataset(packed)
    draws = random.Random(1)
    photos = []
    for i in range(len(dataset)):
        path = next(
            path for path in (folder / dataset.key(i)).parent.glob(f"{Path(dataset.key(i)).name}.*")
        )
        file = path.read_bytes()
        height, width, _ = decode(file).shape
        photos.append(Photo(file, dataset.read(i), width, height, draw_crop(width, height, draws)))
    draws.shuffle(photos)
    return photos


def reference(side: Side, photos: list[Photo], *, whole: bool) -> list[np.ndarray]:
    """The pixels that a side is to make: resized crops, the crops' own pixels, or whole images."""
    from forebay import decode

    if side.resized:
        crops = ForebayCpu(torch.device("cpu"), [photos])
        begun = crops.begin(photos)
        crops.wait(begun)
        return crops.result(begun, photos)
    images = decode([photo.packed for photo in photos])
    if whole:
        return images
    boxes = [photo.box for photo in photos]
    return [image[y : y + h, x : x + w] for image, (x, y, w, h) in zip(images, boxes, strict=True)]


def check(side: Side, photos: list[Photo], *, whole: bool) -> tuple[float, float]:
    """How far its pixels are from the reference's, in levels, of the middle and the worst image."""
    begun = side.begin(photos)
    side.wait(begun)
    differences = []
    for image, other in zip(
        side.result(begun, photos), reference(side, photos, whole=whole), strict=True
    ):
        if image.shape != other.shape:
            raise RuntimeError(f"{image.shape}, but {other.shape} was asked for")
        differences.append(float(np.abs(image.astype(np.int16) - other).mean()))
    middle, worst = statistics.median(differences), max(differences)
    side.check(middle, worst)
    return middle, worst


def compare(
    kinds: dict[str, type[Side]], photos: list[Photo], plan: Plan, *, whole: bool
) -> tuple[dict[str, float], dict[str, str]]:
    """Each side's images a second, the best of the rounds; and why others are missing."""
    batches = [
        photos[first : first + plan.batch]
        for first in range(0, len(photos) - plan.batch + 1, plan.batch)
    ]
    comparison = Comparison("gpu", kinds)
    differences: dict[str, tuple[float, float]] = {}

    def make(name: str) -> Side:
        side = kinds[name](plan.device, batches)
        side.turn_seconds = plan.turn_seconds
        differences[name] = check(side, batches[0], whole=whole)
        return side

    comparison.open(make)
    title = "whole images" if whole else "crops"
    print()
    show_table(title, {"difference": "12.3f", "worst": "9.3f"}, differences)
    rates = comparison.rounds(plan.rounds)
    best = {name: max(rate) for name, rate in rates.items()}
    print()
    columns = {"images a second": "16.0f", "ours x": "8.2f"}
    show_table(
        title, columns, {name: (rate, best["forebay"] / rate) for name, rate in best.items()}
    )
    return best, comparison.missing


def ratios(rates: dict[str, float], prefix: str) -> dict[str, float]:
    """Forebay's images a second over each peer's; nvJPEG counts by its best setting."""
    made = {}
    settings = [rates[name] for name in NVJPEG if name in rates]
    if settings:
        made[f"{prefix}vs_nvjpeg_x"] = rates["forebay"] / max(settings)
    for name in ("dali", "torchvision"):
        if name in rates:
            made[f"{prefix}vs_{name}_x"] = rates["forebay"] / rates[name]
    return made


def share(photos: list[Photo], plan: Plan) -> dict[str, float]:
    """The share of the GPU that 10,000 crops a second take, where the GPU makes as many."""
    try:
        lost = share_at(10_000, photos, plan.device, plan.batch)
    except RuntimeError as error:
        print(f"NOT MEASURED: gpu_share_10k: {error}", flush=True)
        return {}
    print(f"\nshare of the GPU at 10,000 crops a second: {lost:.3f}", flush=True)
    return {"gpu_share_10k": lost}


def multiply(source: Path, folder: Path, images: int) -> None:
    """Links to the photographs again and again, until there are `images`, in the same classes."""
    files = sorted(path for path in source.rglob("*") if path.is_file())
    for i in range(images):
        path = files[i % len(files)]
        target = folder / path.parent.name / f"{i // len(files):03}_{path.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, target)


def train(folder: Path, packed: Path, plan: Plan) -> tuple[dict[str, Any], dict[str, str]]:
    """Images a second of each model with each feed, and as a share of the one in memory."""
    figures: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for model in plan.models:
        names = [name for name in FEEDS if name not in missing]
        comparison = Comparison("gpu", names, needed=())
        comparison.open(
            lambda name, model=model: Training(  # type: ignore[misc]
                model, FEEDS[name], folder, packed, plan.device, plan.train_batch,
                plan.train_seconds,
            )
        )  # fmt: skip
        rates = comparison.rounds(min(2, plan.rounds))
        missing |= comparison.missing
        best = {name: max(values) for name, values in rates.items()}
        if "in_memory" not in best:
            continue
        shares = {name: (rate, rate / best["in_memory"]) for name, rate in best.items()}
        show_table(model, {"images a second": "16.0f", "of memory's": "12.3f"}, shares)
        for name, (rate, of_memory) in shares.items():
            figures[f"{model}_{name}_per_second"] = rate
            figures[f"{model}_{name}_of_in_memory"] = of_memory
        ours = [
            best[name] for name in ("forebay_gpu", "forebay_cpu", "forebay_auto") if name in best
        ]
        if ours:
            figures[f"{model}_of_in_memory"] = max(ours) / best["in_memory"]
    return figures, missing


def main() -> None:
    """Prints tables and, last, one JSON object."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("photos", type=Path)
    arguments.add_argument("--rounds", type=int)
    arguments.add_argument("--rehearse", action="store_true")
    given = arguments.parse_args()
    plan = Plan(given.rehearse, given.rounds)
    result: dict[str, Any] = {"torch": torch.__version__}
    if plan.device.type == "cuda":
        result["gpu"] = torch.cuda.get_device_name(plan.device)
    print(machine(), result, flush=True)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        shutil.copytree(given.photos, root / "once")
        forebay("pack", root / "once", root / "packed")
        photos = read_photos(root / "once", root / "packed")
        crops, missing = compare(CROPS, photos, plan, whole=False)
        result |= {"crops_per_s": crops["forebay"], **ratios(crops, "")}
        whole, missing_whole = compare(WHOLE, photos, plan, whole=True)
        result |= {"full_per_s": whole["forebay"], **ratios(whole, "full_")}
        result |= {"crops": crops, "full": whole, "missing": missing | missing_whole}
        if plan.device.type == "cuda":
            result |= share(photos, plan)
        report(result)  # so that these figures are there if training is cut off
        multiply(root / "once", root / "many", plan.images)
        forebay("pack", root / "many", root / "many_packed")
        figures, missing_train = train(root / "many", root / "many_packed", plan)
        result |= figures
        result["missing"] |= missing_train
    report(result)


if __name__ == "__main__":
    main()
