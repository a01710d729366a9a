"""DALI's CPU pipelines, which read the folder.

The last batch of an epoch is full, as samples of the next epoch follow at once.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from lib.sides.side import BATCH, MEAN, RATIO, SCALE, SEED, STD, Data, Epoch, LoaderSide, Work


class Dali(LoaderSide):
    """Decodes whole images (decoders.image); CIFAR's border is black."""

    crop_decode = False

    def open(self, data: Data, work: Work, threads: int) -> Epoch:
        """Opens a pipeline with DALI's threads and its default prefetching."""
        from nvidia import dali
        from nvidia.dali import fn, types

        pipeline = dali.Pipeline(BATCH, num_threads=threads, device_id=None, seed=SEED)
        with pipeline:
            files, _ = fn.readers.file(file_root=str(data.folder), random_shuffle=True,
                                       name="files")  # fmt: skip
            # CIFAR's padded crop is made here, by a slice that may go beyond the image.
            crop: dict[str, Any] = {}
            if work.padding:
                pixels = fn.decoders.image(files)
                for axis in "xy":
                    # One of the 2 * padding + 1 places, in pixels.
                    place = fn.random.uniform(range=[-work.padding, work.padding + 1])
                    crop |= {f"start_{axis}": dali.math.floor(place)}
                start = fn.stack(crop.pop("start_y"), crop.pop("start_x"))
                pixels = fn.slice(
                    pixels, fn.cast(start, dtype=types.INT32), (work.size, work.size), axes=(0, 1),
                    normalized_anchor=False, normalized_shape=False, out_of_bounds_policy="pad",
                )  # fmt: skip
            elif self.crop_decode:
                pixels = fn.decoders.image_random_crop(
                    files, random_area=list(SCALE), random_aspect_ratio=list(RATIO)
                )
                pixels = fn.resize(pixels, size=(work.size, work.size))
            else:
                pixels = fn.random_resized_crop(
                    fn.decoders.image(files), size=(work.size, work.size),
                    random_area=list(SCALE), random_aspect_ratio=list(RATIO),
                )  # fmt: skip
            batch = fn.crop_mirror_normalize(
                pixels, mirror=fn.random.coin_flip(), output_layout="CHW", dtype=types.FLOAT,
                mean=[255 * mean for mean in MEAN], std=[255 * std for std in STD],
            )  # fmt: skip
            pipeline.set_outputs(batch)
        pipeline.build()
        batches = pipeline.epoch_size("files") // BATCH

        def epoch(_: int) -> Iterator[np.ndarray]:
            for _ in range(batches):
                (made,) = pipeline.run()
                yield np.asarray(made.as_tensor())

        return epoch


class DaliCrop(Dali):
    """Decodes the crop only (decoders.image_random_crop)."""

    crop_decode = True
    works = ("photos",)
