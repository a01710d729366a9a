"""SPDL's Pipeline, where FFmpeg decodes, crops and scales (swscale's bilinear) in threads."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from lib.sides.random_crop import draw_crop, draw_flip, draw_padded
from lib.sides.side import BATCH, MEAN, SEED, STD, Data, Epoch, LoaderSide, Work


def _filters(width: int, height: int, work: Work) -> str:
    flip = ",hflip" if draw_flip() else ""
    if work.padding:
        x, y = draw_padded(work.padding)
        wide = f"iw+{2 * work.padding}:ih+{2 * work.padding}:{work.padding}:{work.padding}"
        return (f"format=rgb24,pad={wide},crop={work.size}:{work.size}:{x}:{y}{flip}"
                ",format=rgb24")  # fmt: skip
    x, y, w, h = draw_crop(width, height)
    return (f"crop={w}:{h}:{x}:{y}:exact=1,scale={work.size}:{work.size}:flags=bilinear{flip}"
            ",format=rgb24")  # fmt: skip


class Spdl(LoaderSide):
    """Decodes and scales each image in a task, and normalises each batch in one more."""

    def open(self, data: Data, work: Work, threads: int) -> Epoch:
        """Makes a pipeline for each epoch, like SPDL's own DataLoader."""
        import spdl.io
        import torch
        from spdl.pipeline import PipelineBuilder

        torch.set_num_threads(1)
        mean = torch.tensor(MEAN).mul_(255).reshape(3, 1, 1)
        scale = torch.tensor(STD).mul_(255).reciprocal_().reshape(3, 1, 1)
        files = [str(file) for file, _ in data.files()]

        def decode(path: str) -> Any:
            packets = spdl.io.demux_image(path)
            filters = _filters(packets.width, packets.height, work)
            return spdl.io.decode_packets(packets, filter_desc=filters)

        def batch(frames: list[Any]) -> np.ndarray:
            pixels = spdl.io.to_torch(spdl.io.convert_frames(frames))
            planes = pixels.permute(0, 3, 1, 2).to(
                torch.float32, memory_format=torch.contiguous_format
            )
            return planes.sub_(mean).mul_(scale).numpy()

        generator = random.Random(SEED)

        def epoch(_: int) -> Iterator[np.ndarray]:
            order = generator.sample(files, len(files))
            pipeline = (
                PipelineBuilder()
                .add_source(order)
                .pipe(decode, concurrency=threads)
                .aggregate(BATCH)
                .pipe(batch)
                .add_sink(2)
                .build(num_threads=threads)
            )
            with pipeline.auto_stop():
                yield from pipeline

        return epoch
