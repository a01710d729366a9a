"""Forebay's loader and its peers' at the same work: epochs of random crops as float32 NCHW batches.

Run as a program it is one side of bench/peers.py in a process of its own: for each line on its
standard input it runs an epoch and answers with a line of JSON.
usage: loader_sides.py SIDE DATA THREADS
"""

import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

SIZE = 224
BATCH = 32
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
# Each gives an epoch's batches, float32 [samples, 3, SIZE, SIZE]; the last one may be left out.
Epoch = Callable[[int], Iterator[np.ndarray]]


class Data:
    """The photographs as each side has them, below a folder."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "folder"  # one subfolder a class
        self.tar = root / "photos.tar"
        self.packed = root / "packed"


def _forebay(dataset: Path, threads: int) -> Epoch:
    from forebay import Loader, transforms

    loader = Loader(dataset, BATCH, shuffle=True, drop_last=True, num_workers=threads,
                    transform=transforms.train(SIZE))  # fmt: skip

    def epoch(number: int) -> Iterator[np.ndarray]:
        loader.set_epoch(number)
        return (np.asarray(images) for images, _ in loader)

    return epoch


def forebay(data: Data, threads: int) -> Epoch:
    """forebay.Loader on the packed photographs."""
    return _forebay(data.packed, threads)


def forebay_in_place(data: Data, threads: int) -> Epoch:
    """forebay.Loader on the folder."""
    return _forebay(data.folder, threads)


def turboloader(data: Data, threads: int) -> Epoch:
    """DataLoader with its fused crop (train_aug); it may decode at a smaller scale."""
    import turboloader

    loader = turboloader.DataLoader(
        str(data.tar), batch_size=BATCH, num_workers=threads, shuffle=True, image_size=SIZE,
        output_format="numpy_chw", train_aug=True, drop_last=True,
        transform=turboloader.ImageNetNormalize(),
    )  # fmt: skip

    def epoch(number: int) -> Iterator[np.ndarray]:
        loader.set_epoch(number)
        for batch in loader:
            yield np.asarray(batch[0] if isinstance(batch, tuple) else batch)

    return epoch


def _dali(data: Data, threads: int, crop_decode: bool) -> Epoch:
    from nvidia import dali
    from nvidia.dali import fn, types

    pipeline = dali.Pipeline(BATCH, num_threads=threads, device_id=None, seed=1)
    with pipeline:
        files, _ = fn.readers.file(file_root=str(data.folder), random_shuffle=True, name="files")
        if crop_decode:
            pixels = fn.resize(fn.decoders.image_random_crop(files), size=(SIZE, SIZE))
        else:
            pixels = fn.random_resized_crop(fn.decoders.image(files), size=(SIZE, SIZE))
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


def dali(data: Data, threads: int) -> Epoch:
    """A CPU pipeline that decodes whole images."""
    return _dali(data, threads, crop_decode=False)


def dali_crop(data: Data, threads: int) -> Epoch:
    """A CPU pipeline with decoders.image_random_crop."""
    return _dali(data, threads, crop_decode=True)


OURS: dict[str, Callable[[Data, int], Epoch]] = {
    "forebay": forebay,
    "forebay_in_place": forebay_in_place,
}
PEERS: dict[str, Callable[[Data, int], Epoch]] = {
    "turboloader": turboloader,
    "dali": dali,
    "dali_crop": dali_crop,
}


def run_epoch(epoch: Epoch, number: int) -> dict[str, float]:
    """What an epoch took, and what its numbers are like."""
    images, total, squares, pixels = 0, 0.0, 0.0, 0
    looked = 0.0
    wall_start, cpu_start = time.perf_counter(), time.process_time()
    first_batch = math.nan
    for batch in epoch(number):
        if images == 0:
            first_batch = time.perf_counter() - wall_start
        assert batch.shape[1:] == (3, SIZE, SIZE) and batch.dtype == np.float32, batch.shape
        images += len(batch)
        if images == len(batch):  # only the first: looking takes time
            look = time.process_time()
            total, squares, pixels = float(batch.sum()), float((batch**2).sum()), batch.size
            looked = time.process_time() - look
    wall = time.perf_counter() - wall_start - looked
    cpu = time.process_time() - cpu_start - looked
    return {
        "images": images,
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "first_batch_seconds": first_batch,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "mean": total / pixels,
        "std": math.sqrt(squares / pixels - (total / pixels) ** 2),
    }


def main() -> None:
    """Answers each line of standard input."""
    side, root, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    # What the side's library prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    epoch = {**OURS, **PEERS}[side](Data(root), threads)
    for number, _ in enumerate(sys.stdin):
        print(json.dumps(run_epoch(epoch, number)), file=answers, flush=True)


if __name__ == "__main__":
    main()
