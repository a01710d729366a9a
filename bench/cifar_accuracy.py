"""A ResNet-18 on CIFAR-10 through Forebay and through torchvision's loader: the same accuracy?

The loaders and the training are docs/migrating.md's code as printed; both sides have the same
seeds and schedule. The orders and crops are each side's own, so that the accuracies differ by as
much as two seeds do. Both train at the same time, each on one half of the cores; in bfloat16 (by
autocast) where the processor has instructions for it.
usage: ./dev bench cifar_accuracy CIFAR [EPOCHS] [SAMPLES] [SEEDS]
CIFAR: a folder with train/ and test/, each with a folder of .jpg files for each class
EPOCHS: 30 unless told; SAMPLES: only so many training images (0: all); SEEDS: so many runs (1)
"""

import argparse
import json
import multiprocessing
import os
import re
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from lib.machine import machine

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- run -->\n```python\n(.*?)```", re.DOTALL)
PARTS = ("torchvision_loaders", "forebay_loaders", "train")
SIDES = ("forebay", "torchvision")


def printed_code() -> dict[str, Any]:
    """What the migration page defines: the two loaders and the training."""
    names: dict[str, Any] = {}
    for block in BLOCK.findall((ROOT / "docs/migrating.md").read_text()):
        if any(f"def {part}(" in block for part in PARTS):
            exec(compile(block, "docs/migrating.md", "exec"), names)
    return names


def take(cifar: Path, samples: int, root: Path) -> None:
    """Links to `samples` training images, the first of each class, and to all test images."""
    (root / "test").symlink_to((cifar / "test").resolve())
    classes = sorted(path for path in (cifar / "train").iterdir() if path.is_dir())
    for one in classes:
        (root / "train" / one.name).mkdir(parents=True)
        for file in sorted(one.iterdir())[: max(1, samples // len(classes))]:
            (root / "train" / one.name / file.name).symlink_to(file.resolve())


def has_bfloat16() -> bool:
    """Whether the processor computes in it."""
    return "avx512_bf16" in Path("/proc/cpuinfo").read_text().split()


def train(side: str, cifar: str, epochs: int, seed: int, cores: set[int]) -> tuple[float, float]:
    """One side's accuracy and seconds, in a process of its own on these cores."""
    os.sched_setaffinity(0, cores)  # before PyTorch counts them
    multiprocessing.set_start_method("fork", force=True)  # as in a user's script
    sys.path.insert(0, str(ROOT / "build/release/python"))
    import torch

    code = printed_code()
    start = time.monotonic()
    # Without the cache of casted weights: it would outlive a step.
    with torch.autocast("cpu", torch.bfloat16, enabled=has_bfloat16(), cache_enabled=False):
        accuracy = code["train"](code[f"{side}_loaders"], cifar, epochs, seed)
    return accuracy, time.monotonic() - start


def main() -> None:
    """Prints a line for each run and, last, one JSON object."""
    arguments = argparse.ArgumentParser(
        usage="./dev bench cifar_accuracy CIFAR [EPOCHS] [SAMPLES] [SEEDS]", description=__doc__
    )
    arguments.add_argument("cifar", type=Path)
    arguments.add_argument("epochs", type=int, nargs="?", default=30)
    arguments.add_argument("samples", type=int, nargs="?", default=0)
    arguments.add_argument("seeds", type=int, nargs="?", default=1)
    given = arguments.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    middle = len(cores) // 2
    halves = (set(cores[:middle] or cores), set(cores[middle:]))
    accuracies: dict[str, list[float]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as folder:
        cifar = given.cifar
        if given.samples > 0:
            cifar = Path(folder)
            take(given.cifar, given.samples, cifar)
        for seed in range(given.seeds):
            with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
                runs = {
                    side: pool.submit(train, side, str(cifar), given.epochs, seed, half)
                    for side, half in zip(SIDES, halves, strict=True)
                }
                for side, run in runs.items():
                    accuracy, seconds = run.result()
                    accuracies[side].append(accuracy)
                    print(f"seed {seed}, {side}: {accuracy:.4f}, {seconds:.0f} s", flush=True)
        train_images = sum(1 for _ in (cifar / "train").rglob("*.jpg"))
    mean = {side: statistics.fmean(accuracies[side]) for side in SIDES}
    result = {
        "machine": machine(),
        "epochs": given.epochs,
        "train_images": train_images,
        "bfloat16": has_bfloat16(),
        "accuracies": accuracies,
        "forebay_minus_torchvision": mean["forebay"] - mean["torchvision"],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
