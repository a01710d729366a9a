"""The interface of bench/peers.py's loaders: how they store images and give epochs of batches.

A side's library is imported only in its methods, so that a missing library is one side less.
"""

import math
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lib.comparison import Side

BATCH = 32
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
SCALE = (0.08, 1.0)  # least and largest share of the area that a random resized crop has
RATIO = (3 / 4, 4 / 3)  # least and largest ratio of its width to its height
SEED = 1
PAIRS = 100  # how many images' stored pixels are compared with the files' own
# Gives an epoch's batches, float32 [samples, 3, size, size], C-contiguous.
Epoch = Callable[[int], Iterator[np.ndarray]]


class Work(NamedTuple):
    """What sides make of an image, which they also flip half of the time and normalise."""

    size: int  # pixels a side
    padding: int  # a random crop out of the image with that border; 0: a random resized crop


WORKS = {"photos": Work(224, 0), "cifar": Work(32, 4)}


class Data:
    """The folder of images that all sides start from, and places for what they store.

    Args:
        root: The folder that has both.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "folder"  # JPEG files, with one subfolder for each class

    def files(self) -> list[tuple[Path, int]]:
        """Returns every file with its class, sorted by name."""
        classes = sorted(path for path in self.folder.iterdir())
        return [(file, i) for i, path in enumerate(classes) for file in sorted(path.iterdir())]

    def fill(self, photos: Path, copies: int) -> None:
        """Copies all files of a folder of photographs by class, each several times."""
        for path in sorted(path for path in photos.rglob("*") if path.is_file()):
            for copy in range(copies):
                target = self.folder / path.parent.name / f"{path.stem}_{copy}.jpg"
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)

    def of(self, side: str) -> Path:
        """Returns the folder where a side keeps what it made from the images."""
        return self.root / side


class LoaderSide(Side):
    """One loader, in a process of its own (lib/side_program.py)."""

    epochs = 1  # how many a turn has

    # Whether it reads the files as they are, or a plain tar of them.
    plain = True
    # Whether it stores the files' own bytes; where not, `pixel_pairs` shows what became of them.
    verbatim = True
    # Whether what it stores has fewer pixels than the files have.
    resized = False
    # Whether it averages over all the pixels that a smaller one stands for.
    antialiased = True
    works: tuple[str, ...] = tuple(WORKS)

    def stored(self, data: Data) -> Path:
        """The file or folder that the epochs read."""
        return data.folder

    def pack(self, data: Data, work: Work, threads: int) -> None:
        """Makes what `stored` names from the folder's files; nothing where that is the folder."""

    def open(self, data: Data, work: Work, threads: int) -> Epoch:
        """Opens the loader with `threads` threads or processes; returns what gives its epochs."""
        raise NotImplementedError

    def start(self, data: Data, work: Work, threads: int) -> None:
        """Opens the loader; epochs are counted from 0."""
        self._work, self._epoch, self._number = work, self.open(data, work, threads), 0

    def turn(self) -> dict[str, Any]:
        """What `epochs` epochs took a consumer that only iterates, and looks at the very first.

        Returns:
            "images": how many. "wall_seconds": of all. "epoch_seconds": of the last epoch.
            "first_batch_at": when the first batch came, by time.monotonic().
            "first_of_epoch_seconds": from an epoch's begin to its first batch, the median.
            "pause_seconds": from an epoch's last batch to the next one's first, at most. In the
            first turn also "mean" and "std" of all numbers of the first epoch.
        """
        first, self._number = self._number, self._number + self.epochs
        return _run_epochs(self._epoch, self._work, first, self.epochs)

    def pixel_pairs(self, data: Data) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Original and stored pixels of some images; none where those are the files' own bytes."""
        return iter(())


class _Numbers:
    """Sums up numbers, for their mean and deviation."""

    def __init__(self) -> None:
        self.count, self.total, self.squares = 0, 0.0, 0.0

    def add(self, batch: np.ndarray) -> None:
        """Adds the numbers of a batch."""
        self.count += batch.size
        self.total += float(batch.sum(dtype=np.float64))
        self.squares += float(np.square(batch, dtype=np.float64).sum())

    def result(self) -> dict[str, float]:
        """The mean and the deviation."""
        mean = self.total / self.count
        return {"mean": mean, "std": math.sqrt(self.squares / self.count - mean**2)}


def _run_epochs(epoch: Epoch, work: Work, first: int, count: int) -> dict[str, Any]:
    """Runs `count` epochs from number `first` on (LoaderSide.turn)."""
    images, numbers = 0, _Numbers()
    epoch_seconds, to_first, pauses, first_batch_at = [], [], [], math.nan
    start = last = time.monotonic()
    for number in range(first, first + count):
        begin = time.monotonic()
        for i, batch in enumerate(epoch(number)):
            if i == 0:
                now = time.monotonic()
                to_first.append(now - begin)
                if number > first:
                    pauses.append(now - last)
                if math.isnan(first_batch_at):
                    first_batch_at = now
            assert batch.shape[1:] == (3, work.size, work.size), batch.shape
            assert batch.dtype == np.float32 and batch.flags.c_contiguous
            images += len(batch)
            if number == 0:
                numbers.add(batch)
            last = time.monotonic()
        epoch_seconds.append(time.monotonic() - begin)
    answer = {
        "images": images,
        "wall_seconds": last - start,
        "epoch_seconds": epoch_seconds[-1],
        "first_batch_at": first_batch_at,
        "first_of_epoch_seconds": statistics.median(to_first),
        "pause_seconds": max(pauses, default=math.nan),
    }
    return answer | (numbers.result() if first == 0 else {})
