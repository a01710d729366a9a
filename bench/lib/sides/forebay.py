"""forebay.Loader: packed, packed with AVX2 at best, and on the folder as it is."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lib.sides.side import BATCH, PAIRS, SEED, Data, Epoch, Side, Work

LIBRARY = Path(__file__).parents[3] / "build/release/bench/libbench_crop_c.so"


class ForebayInPlace(Side):
    """The folder, nothing made of it."""

    def open(self, data: Data, work: Work, threads: int) -> Epoch:
        """Threads of the core."""
        from forebay import Loader
        from forebay import transforms as T

        padded = T.RandomCrop(work.size, work.padding or None, padding_mode="reflect")
        crop = padded if work.padding else T.RandomResizedCrop(work.size)
        loader = Loader(
            self.stored(data), BATCH, shuffle=True, num_workers=threads, seed=SEED,
            transform=[crop, T.RandomHorizontalFlip(), T.Normalize()],
        )  # fmt: skip

        def epoch(number: int) -> Iterator[np.ndarray]:
            loader.set_epoch(number)
            return (np.asarray(images) for images, _ in loader)

        return epoch


class Forebay(ForebayInPlace):
    """What `forebay pack` made: the same pixels, stored without loss."""

    plain = False
    verbatim = False

    def stored(self, data: Data) -> Path:
        """The dataset."""
        return data.of("forebay")

    def pack(self, data: Data, work: Work, threads: int) -> None:
        """The command's defaults."""
        command = [os.environ["FOREBAY_BIN"], "pack", str(data.folder), str(self.stored(data)),
                   "--threads", str(threads)]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def pixel_pairs(self, data: Data) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Its files, decoded by the same decoder as the folder's."""
        import simplejpeg

        from forebay import Dataset

        dataset = Dataset(self.stored(data))
        for i in range(min(PAIRS, len(dataset))):
            files = (data.folder / f"{dataset.key(i)}.jpg").read_bytes(), dataset.read(i)
            original, stored = (simplejpeg.decode_jpeg(file, "RGB") for file in files)
            yield original, stored


class ForebayAvx2(Forebay):
    """The same dataset on a machine that had no AVX-512."""

    def pack(self, data: Data, work: Work, threads: int) -> None:
        """Forebay's is used."""

    def open(self, data: Data, work: Work, threads: int) -> Epoch:
        """As Forebay, but for the instructions."""
        from forebay import _core  # noqa: F401 - what is restricted
        from lib.crop_sides import load_forebay

        # Highway's choice lies in its shared library, which both modules use.
        mapped = Path("/proc/self/maps").read_text()
        if "libhwy.so" not in mapped:
            raise RuntimeError("forebay has no shared libhwy.so, so AVX2 cannot be forced")
        load_forebay(LIBRARY).bench_crop_restrict(True)
        return super().open(data, work, threads)
