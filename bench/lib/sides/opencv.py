"""A loader by hand: simplejpeg decodes, OpenCV resizes and normalises, in a pool of threads.

Neither holds Python's lock while it works. INTER_LINEAR, OpenCV's fastest bilinear resize, is not
antialiased; INTER_AREA is, but takes longer.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from lib.sides.random_crop import draw_crop, draw_flip, draw_padded
from lib.sides.side import BATCH, MEAN, SEED, STD, Data, Epoch, LoaderSide, Work

AHEAD = 2  # how many batches are in work


class OpenCv(LoaderSide):
    """Runs a task for each image, which writes it into its place in the batch."""

    antialiased = False

    def open(self, data: Data, work: Work, threads: int) -> Epoch:
        """Opens a pool of threads; OpenCV's own threads are off."""
        import cv2
        import simplejpeg

        cv2.setNumThreads(1)
        size, border = (work.size, work.size), work.padding
        scales = [1 / (255 * std) for std in STD]
        offsets = [-mean / std for mean, std in zip(MEAN, STD, strict=True)]

        def make(file: Path, out: np.ndarray) -> None:
            pixels = simplejpeg.decode_jpeg(file.read_bytes(), "RGB")
            if border:
                x, y = draw_padded(border)
                pixels = cv2.copyMakeBorder(
                    pixels, border, border, border, border, cv2.BORDER_REFLECT_101
                )[y : y + work.size, x : x + work.size]
            else:
                x, y, width, height = draw_crop(pixels.shape[1], pixels.shape[0])
                pixels = cv2.resize(pixels[y : y + height, x : x + width], size)
            if draw_flip():
                pixels = cv2.flip(pixels, 1)
            for plane, scale, offset, to in zip(
                cv2.split(pixels), scales, offsets, out, strict=True
            ):
                cv2.addWeighted(plane, scale, plane, 0, offset, to, cv2.CV_32F)

        files = [file for file, _ in data.files()]
        pool = ThreadPoolExecutor(threads)
        generator = np.random.default_rng(SEED)

        def epoch(_: int) -> Iterator[np.ndarray]:
            order = generator.permutation(len(files))
            running: deque[tuple[np.ndarray, list[Future[None]]]] = deque()
            for first in range(0, len(order), BATCH):
                chosen = order[first : first + BATCH]
                batch = np.empty((len(chosen), 3, *size), np.float32)
                tasks = [
                    pool.submit(make, files[i], out) for i, out in zip(chosen, batch, strict=True)
                ]
                running.append((batch, tasks))
                if len(running) > AHEAD:
                    yield _finish(*running.popleft())
            while running:
                yield _finish(*running.popleft())

        return epoch


def _finish(batch: np.ndarray, tasks: list[Future[None]]) -> np.ndarray:
    for task in tasks:
        task.result()
    return batch
