"""forebay.Loader on a packed dataset, the same kept to AVX2, and on the folder as it is."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lib.program import ROOT, forebay
from lib.sides.side import BATCH, PAIRS, SEED, Data, Epoch, LoaderSide, Work

LIBRARY = ROOT / "build/release/bench/libbench_crop_c.so"


class ForebayInPlace(LoaderSide):
    """Reads the folder as it is."""

    def open(self, data: Data, work: Work, threads: int) -> Epoch:
        """Opens a Loader; its threads are the core's."""
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
    """Reads what `forebay pack` made: the same pixels, stored without loss."""

    plain = False
    verbatim = False

    def stored(self, data: Data) -> Path:
        """The packed dataset."""
        return data.of("forebay")

    def pack(self, data: Data, work: Work, threads: int) -> None:
        """Packs with the command's defaults."""
        forebay("pack", data.folder, self.stored(data), "--threads", threads)

    def pixel_pairs(self, data: Data) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Decodes its files and the folder's by the same decoder."""
        import simplejpeg

        from forebay import Dataset

        dataset = Dataset(self.stored(data))
        for i in range(min(PAIRS, len(dataset))):
            files = (data.folder / f"{dataset.key(i)}.jpg").read_bytes(), dataset.read(i)
            original, stored = (simplejpeg.decode_jpeg(file, "RGB") for file in files)
            yield original, stored


class ForebayResized(Forebay):
    """Stores smaller JPEGs of quality 90, with nearly as many pixels as FfcvResized's."""

    resized = True
    works = ("photos",)

    def stored(self, data: Data) -> Path:
        """The packed dataset of smaller images."""
        return data.of("forebay_resized")

    def pack(self, data: Data, work: Work, threads: int) -> None:
        """Packs with shorter sides of 256 pixels at most."""
        made = self.stored(data)
        forebay("pack", data.folder, made, "--threads", threads, "--resize", 256, "--quality", 90)


class ForebayAvx2(Forebay):
    """Reads the same dataset like a machine that has no AVX-512."""

    def pack(self, data: Data, work: Work, threads: int) -> None:
        """Does nothing, as Forebay's dataset is used."""

    def open(self, data: Data, work: Work, threads: int) -> Epoch:
        """Opens the same Loader, but restricts the instructions before."""
        from forebay import _core  # noqa: F401 - what is restricted
        from lib.crop_sides import load_forebay

        # Highway keeps its choice in its shared library, which both modules use.
        mapped = Path("/proc/self/maps").read_text()
        if "libhwy.so" not in mapped:
            raise RuntimeError("forebay has no shared libhwy.so, so AVX2 cannot be forced")
        load_forebay(LIBRARY).bench_crop_restrict(True)
        return super().open(data, work, threads)
