"""What a loader of bench/peers.py is: how it stores the images, and how it gives epochs of batches.

A side's own library is imported in its methods only, so that a missing one is one side less.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

BATCH = 32
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
SCALE = (0.08, 1.0)  # bounds of a random resized crop's share of the area
RATIO = (3 / 4, 4 / 3)  # bounds of its width to its height
SEED = 1
PAIRS = 100  # images whose stored pixels are compared with the files' own
# Gives an epoch's batches, float32 [samples, 3, size, size], C-contiguous.
Epoch = Callable[[int], Iterator[np.ndarray]]


class Work(NamedTuple):
    """What is made of an image; flipped half of the time and normalised in any case."""

    size: int  # pixels a side
    padding: int  # a random crop out of the image with that border; 0: a random resized crop


WORKS = {"photos": Work(224, 0), "cifar": Work(32, 4)}


class Data:
    """The images as the sides have them, below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "folder"  # JPEG files, one subfolder a class

    def files(self) -> list[tuple[Path, int]]:
        """Every file and its class, sorted by name."""
        classes = sorted(path for path in self.folder.iterdir())
        return [(file, i) for i, path in enumerate(classes) for file in sorted(path.iterdir())]

    def of(self, side: str) -> Path:
        """Where a side keeps what it made of the folder."""
        return self.root / side


class Side:
    """One loader."""

    # Whether it reads the files as they are, or a plain tar of them.
    plain = True
    # Whether it stores the files' own bytes; where not, `pixel_pairs` shows what became of them.
    verbatim = True
    # Whether it averages over all the pixels that a smaller one stands for.
    antialiased = True
    works: tuple[str, ...] = tuple(WORKS)

    def stored(self, data: Data) -> Path:
        """What its epochs read."""
        return data.folder

    def pack(self, data: Data, work: Work, threads: int) -> None:
        """Makes what `stored` names of the folder's files."""

    def open(self, data: Data, work: Work, threads: int) -> Epoch:
        """Epochs by `threads` threads or processes."""
        raise NotImplementedError

    def pixel_pairs(self, data: Data) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Original and stored pixels of some images; none where it stores the files' bytes."""
        return iter(())
