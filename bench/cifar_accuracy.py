"""Compares the accuracy of a ResNet-18 on CIFAR-10 with Forebay's and with torchvision's loader.

The loaders and the training are the code that docs/migrating.md prints; both sides have the same
seeds and schedule. The orders and crops are each side's own, so that the accuracies differ by as
much as those of two seeds. Both sides train at the same time, each on one half of the cores, in
bfloat16 (by autocast) where the processor has instructions for it.
usage: ./dev bench cifar_accuracy CIFAR [EPOCHS] [SAMPLES] [SEEDS]
CIFAR: a folder with train/ and test/, each with a folder of .jpg files for each class
EPOCHS: how many (30); SAMPLES: how many training images (0: all); SEEDS: how many runs (1)
"""

import argparse
import multiprocessing
import os
import re
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from lib.comparison import Comparison, Side, report
from lib.program import ROOT

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
    """Whether the processor has instructions for bfloat16."""
    return "avx512_bf16" in Path("/proc/cpuinfo").read_text().split()


def train(side: str, cifar: str, epochs: int, seed: int, cores: set[int]) -> tuple[float, float]:
    """One side's accuracy and seconds, in a process of its own on these cores."""
    os.sched_setaffinity(0, cores)  # PyTorch counts the cores when it is imported
    multiprocessing.set_start_method("fork", force=True)  # the same as in a user's script
    import torch

    code = printed_code()
    start = time.monotonic()
    # The cache of cast weights is off, as it would outlive a step.
    with torch.autocast("cpu", torch.bfloat16, enabled=has_bfloat16(), cache_enabled=False):
        accuracy = code["train"](code[f"{side}_loaders"], cifar, epochs, seed)
    return accuracy, time.monotonic() - start


class Training(Side):
    """Trains with one side's loader, with the next seed in each turn.

    Args:
        side: "forebay" or "torchvision".
        cifar: The folder with train/ and test/.
        epochs: How many each training has.
        cores: The cores that it runs on.
    """

    def __init__(self, side: str, cifar: Path, epochs: int, cores: set[int]) -> None:
        self.side, self.cifar, self.epochs, self.cores = side, cifar, epochs, cores
        self.seed = 0

    def turn(self) -> float:
        """The accuracy with this turn's seed."""
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            run = pool.submit(train, self.side, str(self.cifar), self.epochs, self.seed, self.cores)
            accuracy, seconds = run.result()
        print(f"seed {self.seed}, {self.side}: {accuracy:.4f}, {seconds:.0f} s", flush=True)
        self.seed += 1
        return accuracy


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
    halves = dict(zip(SIDES, (set(cores[:middle] or cores), set(cores[middle:])), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        cifar = given.cifar
        if given.samples > 0:
            cifar = Path(folder)
            take(given.cifar, given.samples, cifar)
        comparison = Comparison("cifar_accuracy", SIDES, needed=SIDES)
        comparison.open(lambda name: Training(name, cifar, given.epochs, halves[name]))
        accuracies = comparison.rounds(given.seeds, together=True)
        train_images = sum(1 for _ in (cifar / "train").rglob("*.jpg"))
    mean = {side: statistics.fmean(accuracies[side]) for side in SIDES}
    report(
        {
            "epochs": given.epochs,
            "train_images": train_images,
            "bfloat16": has_bfloat16(),
            "accuracies": accuracies,
            "forebay_minus_torchvision": mean["forebay"] - mean["torchvision"],
        }
    )


if __name__ == "__main__":
    main()
