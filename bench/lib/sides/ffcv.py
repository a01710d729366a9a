"""FFCV's Loader on a file that its DatasetWriter made, where images are compressed again.

Its region crop resizes by OpenCV's INTER_AREA. CIFAR's border is black.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lib.sides.side import (
    BATCH,
    MEAN,
    PAIRS,
    RATIO,
    SCALE,
    SEED,
    STD,
    Data,
    Epoch,
    LoaderSide,
    Work,
)
from lib.sides.torch_side import decode

RAW = 100  # in place of a JPEG quality; pixels are stored


class _Images:
    def __init__(self, files: list[tuple[Path, int]]) -> None:
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        file, label = self.files[i]
        return decode(file.read_bytes()), label


class FfcvQ96(LoaderSide):
    """Stores JPEGs of quality 96, whose loss can hardly be seen."""

    plain = False
    verbatim = False
    quality = 96
    side_max = 0  # the longest side that is stored, in pixels; 0: all as they are

    def stored(self, data: Data) -> Path:
        """The file that FFCV's writer makes."""
        return data.of(f"q{self.quality}_{self.side_max}.beton")

    def pack(self, data: Data, work: Work, threads: int) -> None:
        """Writes the images, smaller where `side_max` says so."""
        from ffcv.fields import IntField, RGBImageField
        from ffcv.writer import DatasetWriter

        mode = "jpg" if self.quality < RAW else "raw"
        field = RGBImageField(
            write_mode=mode, jpeg_quality=self.quality, max_resolution=self.side_max or None
        )
        writer = DatasetWriter(str(self.stored(data)), {"image": field, "label": IntField()},
                               num_workers=threads)  # fmt: skip
        writer.from_indexed_dataset(_Images(data.files()))

    def pixel_pairs(self, data: Data) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Takes pixels through FFCV's own compression."""
        import cv2
        from ffcv.fields.rgb_image import encode_jpeg

        for file, _ in data.files()[:PAIRS]:
            pixels = np.asarray(decode(file.read_bytes()))
            if self.quality < RAW:
                stored = encode_jpeg(pixels, self.quality)
                yield pixels, cv2.imdecode(stored, cv2.IMREAD_COLOR_RGB)

    def open(self, data: Data, work: Work, threads: int) -> Epoch:
        """Opens threads and compiled transforms; a last batch that is not full is dropped."""
        from ffcv import transforms as T
        from ffcv.fields import basics, rgb_image
        from ffcv.loader import Loader, OrderOption

        if work.padding:
            crop = [rgb_image.SimpleRGBImageDecoder(), T.RandomHorizontalFlip(),
                    T.RandomTranslate(work.padding)]  # fmt: skip
        else:
            size = (work.size, work.size)
            crop = [rgb_image.RandomResizedCropRGBImageDecoder(size, SCALE, RATIO),
                    T.RandomHorizontalFlip()]  # fmt: skip
        normalize = T.NormalizeImage(255 * np.array(MEAN), 255 * np.array(STD), np.float32)
        images = [*crop, normalize, T.ToTensor(), T.ToTorchImage(channels_last=False)]
        loader = Loader(
            str(self.stored(data)), BATCH, num_workers=threads, order=OrderOption.RANDOM, seed=SEED,
            os_cache=True, drop_last=True,
            pipelines={"image": images, "label": [basics.IntDecoder(), T.ToTensor()]},
        )  # fmt: skip

        def epoch(_: int) -> Iterator[np.ndarray]:
            return (batch.numpy() for batch, _ in loader)

        return epoch


class FfcvQ90(FfcvQ96):
    """Stores JPEGs of quality 90, which is FFCV's default."""

    quality = 90
    works = ("photos",)


class FfcvResized(FfcvQ90):
    """Stores smaller JPEGs of quality 90, like FFCV's recipes for ImageNet."""

    resized = True
    side_max = 350


class FfcvRaw(FfcvQ96):
    """Stores pixels, like FFCV's example for CIFAR; nothing is decoded."""

    quality = RAW
    works = ("cifar",)
