"""What bench/gpu.py measures, in an interpreter that has the peers and a PyTorch for CUDA.

usage: python -m lib.gpu_program PHOTOS [--rounds N] [--rehearse]
Prints tables and, last, one JSON object.
"""

import argparse
import collections
import itertools
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lib.gpu_share import share_at
from lib.gpu_sides import CROPS, WHOLE, ForebayCpu, Photo, Side
from lib.gpu_training import FEEDS, images_per_second
from lib.machine import machine

IN_FLIGHT = 2  # batches
NVJPEG = ("nvjpeg_hybrid", "nvjpeg_hardware", "nvjpeg_both")


class Plan:
    """How much is done: in earnest, or on the CPU to see that it works."""

    def __init__(self, rehearse: bool, rounds: int | None) -> None:
        if not rehearse and not torch.cuda.is_available():
            raise SystemExit(
                f"bench gpu: PyTorch {torch.__version__} finds no GPU (--rehearse does without)"
            )
        self.device = torch.device("cpu" if rehearse else "cuda")
        self.rounds = rounds or (1 if rehearse else 5)
        self.batch = 16 if rehearse else 256
        self.turn_seconds = 0.2 if rehearse else 2.0
        self.images = 64 if rehearse else 16384  # of an epoch of training
        self.train_batch = 4 if rehearse else 256
        self.train_seconds = 0.5 if rehearse else 6.0
        self.models = ("resnet18",) if rehearse else ("resnet18", "resnet50")


def forebay_pack(folder: Path, target: Path) -> None:
    """The command's defaults."""
    command = os.environ.get("FOREBAY_BIN") or shutil.which("forebay") or "forebay"
    subprocess.run([command, "pack", str(folder), str(target)], check=True, capture_output=True)


def draw_box(width: int, height: int, draws: random.Random) -> tuple[int, int, int, int]:
    """A random resized crop's: 8 to 100 % of the area, ratio 3:4 to 4:3."""
    for _ in range(10):
        area = width * height * draws.uniform(0.08, 1)
        ratio = math.exp(draws.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return draws.randint(0, width - w), draws.randint(0, height - h), w, h
    return 0, 0, width, height


def read_photos(folder: Path, packed: Path) -> list[Photo]:
    """Those that both nvJPEG and Forebay's kernels take: JPEGs of three components."""
    import forebay

    dataset = forebay.Dataset(packed)
    draws = random.Random(1)
    photos = []
    for i in range(len(dataset)):
        path = next(
            path for path in (folder / dataset.key(i)).parent.glob(f"{Path(dataset.key(i)).name}.*")
        )
        file = path.read_bytes()
        height, width, _ = forebay.decode(file).shape
        photos.append(Photo(file, dataset.read(i), width, height, draw_box(width, height, draws)))
    draws.shuffle(photos)
    return photos


def turn(side: Side, seconds: float) -> float:
    """Images a second."""
    begun: collections.deque[Any] = collections.deque()
    images = 0
    start = time.monotonic()
    for photos in itertools.cycle(side.batches):
        begun.append(side.begin(photos))
        images += len(photos)
        if len(begun) == IN_FLIGHT:
            side.wait(begun.popleft())
        if time.monotonic() - start >= seconds:
            break
    for last in begun:
        side.wait(last)
    return images / (time.monotonic() - start)


def check(name: str, side: Side, photos: list[Photo], whole: bool) -> tuple[float, float]:
    """How far its pixels are from the reference's, in levels, of the middle and the worst image."""
    import forebay

    if side.resized:
        crops = ForebayCpu(torch.device("cpu"), [photos])
        begun = crops.begin(photos)
        crops.wait(begun)
        expected = crops.result(begun, photos)
    else:
        expected = forebay.decode([photo.packed for photo in photos])
    if not side.resized and not whole:
        boxes = [photo.box for photo in photos]
        expected = [
            image[y : y + h, x : x + w] for image, (x, y, w, h) in zip(expected, boxes, strict=True)
        ]
    begun = side.begin(photos)
    side.wait(begun)
    made = side.result(begun, photos)
    differences = []
    for image, other in zip(made, expected, strict=True):
        if image.shape != other.shape:
            raise RuntimeError(f"{name}: {image.shape}, but {other.shape} was asked for")
        differences.append(float(np.abs(image.astype(np.int16) - other).mean()))
    middle, worst = statistics.median(differences), max(differences)
    if middle > side.differences_max[0] or worst > side.differences_max[1]:
        raise RuntimeError(f"{name}: pixels are {middle:.2f} levels away, of one image {worst:.2f}")
    return middle, worst


def compare(
    kinds: dict[str, type[Side]], photos: list[Photo], plan: Plan, whole: bool
) -> tuple[dict[str, float], dict[str, str]]:
    """Each side's images a second, the best of the rounds; and why others are missing."""
    batches = [
        photos[first : first + plan.batch]
        for first in range(0, len(photos) - plan.batch + 1, plan.batch)
    ]
    sides: dict[str, Side] = {}
    missing: dict[str, str] = {}
    print(f"\n{'whole images' if whole else 'crops':18}{'differences':>18}", flush=True)
    for name, kind in kinds.items():
        try:
            side = kind(plan.device, batches)
            middle, worst = check(name, side, batches[0], whole)
        except Exception as error:  # noqa: BLE001 - a peer may fail in any way
            print(f"NOT COMPARED: {name}: {error}", flush=True)
            missing[name] = str(error)
            continue
        sides[name] = side
        print(f"{name:18}{middle:9.3f}{worst:9.3f}", flush=True)
    if "forebay" not in sides:
        raise SystemExit("bench gpu: Forebay itself failed")
    best = dict.fromkeys(sides, 0.0)
    for _ in range(plan.rounds):
        for name, side in sides.items():
            best[name] = max(best[name], turn(side, plan.turn_seconds))
    print(f"\n{'images a second':18}")
    for name, rate in best.items():
        print(f"{name:18}{rate:11.0f}{best['forebay'] / rate:8.2f}", flush=True)
    return best, missing


def ratios(rates: dict[str, float], prefix: str) -> dict[str, float]:
    """Forebay's over the peers'; nvJPEG's best setting."""
    made = {}
    settings = [rates[name] for name in NVJPEG if name in rates]
    if settings:
        made[f"{prefix}vs_nvjpeg_x"] = rates["forebay"] / max(settings)
    for name in ("dali", "torchvision"):
        if name in rates:
            made[f"{prefix}vs_{name}_x"] = rates["forebay"] / rates[name]
    return made


def share(photos: list[Photo], plan: Plan) -> dict[str, float]:
    """What 10,000 crops a second take of the GPU, where it makes as many."""
    try:
        lost = share_at(10_000, photos, plan.device, plan.batch)
    except RuntimeError as error:
        print(f"NOT MEASURED: gpu_share_10k: {error}", flush=True)
        return {}
    print(f"\nshare of the GPU at 10,000 crops a second: {lost:.3f}", flush=True)
    return {"gpu_share_10k": lost}


def multiply(source: Path, folder: Path, images: int) -> None:
    """At least so many, the same ones again and again, in the same classes."""
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
        rates: dict[str, list[float]] = {}
        for _ in range(min(2, plan.rounds)):
            for name, feed in FEEDS.items():
                if name in missing:
                    continue
                try:
                    rate = images_per_second(
                        model, feed, folder, packed, plan.device, plan.train_batch,
                        plan.train_seconds,
                    )  # fmt: skip
                except Exception as error:  # noqa: BLE001 - as above
                    print(f"NOT COMPARED: {name}: {error}", flush=True)
                    missing[name] = str(error)
                    continue
                rates.setdefault(name, []).append(rate)
        best = {name: max(values) for name, values in rates.items()}
        if "in_memory" not in best:
            continue
        for name, rate in best.items():
            print(f"{model} {name:16}{rate:10.0f}{rate / best['in_memory']:8.3f}", flush=True)
            figures[f"{model}_{name}_per_second"] = rate
            figures[f"{model}_{name}_of_in_memory"] = rate / best["in_memory"]
        ours = [
            best[name] for name in ("forebay_gpu", "forebay_cpu", "forebay_auto") if name in best
        ]
        figures[f"{model}_of_in_memory"] = max(ours) / best["in_memory"]
    return figures, missing


def main() -> None:
    """Prints."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("photos", type=Path)
    arguments.add_argument("--rounds", type=int)
    arguments.add_argument("--rehearse", action="store_true")
    given = arguments.parse_args()
    plan = Plan(given.rehearse, given.rounds)
    result: dict[str, Any] = {"machine": machine(), "torch": torch.__version__}
    if plan.device.type == "cuda":
        result["gpu"] = torch.cuda.get_device_name(plan.device)
    print(f"{result}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        shutil.copytree(given.photos, root / "once")
        forebay_pack(root / "once", root / "packed")
        photos = read_photos(root / "once", root / "packed")
        crops, missing = compare(CROPS, photos, plan, whole=False)
        result |= {"crops_per_s": crops["forebay"], **ratios(crops, "")}
        whole, missing_whole = compare(WHOLE, photos, plan, whole=True)
        result |= {"full_per_s": whole["forebay"], **ratios(whole, "full_")}
        result |= {"crops": crops, "full": whole, "missing": missing | missing_whole}
        if plan.device.type == "cuda":
            result |= share(photos, plan)
        print(json.dumps(result), flush=True)  # in case that training is cut off
        multiply(root / "once", root / "many", plan.images)
        forebay_pack(root / "many", root / "many_packed")
        figures, missing_train = train(root / "many", root / "many_packed", plan)
        result |= figures
        result["missing"] |= missing_train
    print(json.dumps(result))


if __name__ == "__main__":
    main()
