"""TurboLoader's DataLoader on a plain tar.

Photographs go through its fused path (train_aug), which decodes only a crop's region, at a smaller
scale where the crop stays large enough, and resizes without antialiasing. That path has no padded
crop for CIFAR, and its transforms of single samples are slower than its fused resize to 32 followed
by a crop of the whole batch by NumPy.
"""

import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lib.sides.random_crop import crop_padded
from lib.sides.side import BATCH, SEED, Data, Epoch, LoaderSide, Work


class TurboLoader(LoaderSide):
    """Gives a new array for each batch."""

    antialiased = False

    def stored(self, data: Data) -> Path:
        """One tar of the files."""
        return data.of("turboloader.tar")

    def pack(self, data: Data, work: Work, threads: int) -> None:
        """Writes the tar by Python's tarfile."""
        with tarfile.open(self.stored(data), "w") as tar:
            for file, _ in data.files():
                tar.add(file, file.name)

    def open(self, data: Data, work: Work, threads: int) -> Epoch:
        """Opens a DataLoader; its C++ pool has as many threads as the process has cores."""
        import turboloader

        loader = turboloader.DataLoader(
            str(self.stored(data)), batch_size=BATCH, num_workers=threads, shuffle=True,
            image_size=work.size, output_format="numpy_chw", train_aug=not work.padding,
            transform=turboloader.ImageNetNormalize(), distributed_seed=SEED,
        )  # fmt: skip
        random = np.random.default_rng(SEED)

        def epoch(number: int) -> Iterator[np.ndarray]:
            loader.set_epoch(number)
            for batch in loader:
                images = np.asarray(batch[0] if isinstance(batch, tuple) else batch)
                yield crop_padded(images, work.padding, random) if work.padding else images

        return epoch
