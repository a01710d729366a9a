"""Runs one side of bench/remote.py in a process of its own, which remote_process.py starts.

usage: python -m lib.remote_program SIDE URL FOLDER
URL is what the side stored, as it names it, and FOLDER is for what it keeps here. For each line of
JSON on standard input, {"epochs": how many, "check": whether their numbers are looked at}, the
side is opened anew in a forked process, runs its epochs one after another, and answers with a line
after each. With 0 epochs it answers after its first batch and ends. This program ends where one of
these processes fails. Only the side's library and PyTorch are loaded before. Where
FOREBAY_INDEX_CACHE names no folder, each process keeps Forebay's indexes in an empty one.
"""

import hashlib
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lib.sides.side import SEED, WORKS
from lib.sides.torch_side import batches, decode, transform, workers

BATCH = 64
WORKERS = 2
WORK = WORKS["photos"]
SHUFFLE_BUFFER = 1000


class RemoteSide:
    """A loader whose data lie on a server."""

    library = ""  # its module

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder

    def epochs(self, first: int, count: int) -> Iterator[Iterable[np.ndarray]]:
        """Opens the loader, and gives epochs of batches, float32 [samples, 3, 224, 224].

        Args:
            first: The number of the first epoch.
            count: How many epochs.
        """
        raise NotImplementedError

    def counts(self) -> dict[str, float]:
        """What the loader counted since it was opened; empty where it counts nothing."""
        return {}


class Forebay(RemoteSide):
    """forebay.Loader on a packed dataset."""

    library = "forebay"
    regions = "auto"
    threads = WORKERS
    batch = BATCH

    def options(self) -> dict[str, Any]:
        """Further arguments of the Loader."""
        return {}

    def epochs(self, first: int, count: int) -> Iterator[Iterable[np.ndarray]]:
        """Opens a Loader; its threads are the core's."""
        from forebay import Loader
        from forebay import transforms as T

        with Loader(
            self.url, self.batch, shuffle=True, num_workers=self.threads, seed=SEED,
            regions=self.regions, **self.options(),
            transform=[T.RandomResizedCrop(WORK.size), T.RandomHorizontalFlip(), T.Normalize()],
        ) as self.loader:  # fmt: skip
            for number in range(first, first + count):
                self.loader.set_epoch(number)
                yield (np.asarray(images) for images, _ in self.loader)

    def counts(self) -> dict[str, float]:
        """From Loader.stats()."""
        stats = self.loader.stats()
        return {key: stats[key] for key in ("bytes_read", "whole_bytes", "requests", "ranges")}


class ForebayWhole(Forebay):
    """The same, but each image file is read as a whole."""

    regions = "never"


def streaming_images() -> Callable[..., Any]:
    """Returns what opens a StreamingDataset whose samples are pairs of pixels and label."""
    import streaming

    made = transform(WORK)

    class Images(streaming.StreamingDataset):
        def __getitem__(self, at: Any) -> tuple[Any, int]:
            sample = super().__getitem__(at)
            return made(decode(sample["x"])), sample["y"]

    def opened(**arguments: Any) -> Any:
        dataset = Images(shuffle=True, batch_size=BATCH, **arguments)
        # Its worker processes would share this one's connection, and take each other's answers.
        for stream in dataset.streams:
            stream._downloader.clean_up()
        return dataset

    return opened


def litdata_images() -> Callable[..., Any]:
    """Returns a class like litdata.StreamingDataset whose samples are pairs of pixels and label."""
    import litdata
    from litdata.streaming import downloader

    # The store of this benchmark has no TLS, and litdata has no option that allows that.
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
    made = transform(WORK)

    class Images(litdata.StreamingDataset):
        def __getitem__(self, index: Any) -> tuple[Any, int]:
            sample = super().__getitem__(index)
            return made(decode(sample["image"])), sample["label"]

    return Images


class WebDataset(RemoteSide):
    """WebDataset's shards, each through a process of curl, as its manual has it; no cache."""

    library = "webdataset"

    def epochs(self, first: int, count: int) -> Iterator[Iterable[np.ndarray]]:
        """Opens a WebLoader, whose workers stay."""
        import webdataset

        made = transform(WORK)
        dataset = (
            webdataset.WebDataset(self.url, shardshuffle=100, seed=SEED + first)
            .shuffle(SHUFFLE_BUFFER)
            .to_tuple("jpg", "cls")
            .map_tuple(lambda file: made(decode(file)), int)
            .batched(BATCH)
        )
        loader = webdataset.WebLoader(dataset, batch_size=None, **workers(WORKERS))
        for _ in range(count):
            yield batches(loader)


class Streaming(RemoteSide):
    """MosaicML Streaming; each epoch begins with an empty folder for its shards."""

    library = "streaming"

    def epochs(self, first: int, count: int) -> Iterator[Iterable[np.ndarray]]:
        """Opens a StreamingDataset for each epoch."""
        import streaming
        from streaming.base.util import clean_stale_shared_memory

        images = streaming_images()
        for number in range(first, first + count):
            clean_stale_shared_memory()
            with tempfile.TemporaryDirectory(dir=self.folder) as local:
                dataset = images(remote=self.url, local=local, shuffle_seed=SEED + number)
                yield batches(
                    streaming.StreamingDataLoader(dataset, batch_size=BATCH, **workers(WORKERS))
                )


class LitData(RemoteSide):
    """LitData; each epoch begins with an empty cache."""

    library = "litdata"

    def epochs(self, first: int, count: int) -> Iterator[Iterable[np.ndarray]]:
        """Opens a StreamingDataset for each epoch."""
        import litdata

        images = litdata_images()
        for number in range(first, first + count):
            with tempfile.TemporaryDirectory(dir=self.folder) as cache:
                dataset = images(self.url, cache_dir=cache, shuffle=True, seed=SEED + number)
                yield batches(
                    litdata.StreamingDataLoader(dataset, batch_size=BATCH, **workers(WORKERS))
                )


SIDES: dict[str, type[RemoteSide]] = {
    "forebay": Forebay,
    "forebay_whole": ForebayWhole,
    "webdataset": WebDataset,
    "streaming": Streaming,
    "litdata": LitData,
}


class Look:
    """What was seen of an epoch's numbers."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._count, self._total, self._squares = 0, 0.0, 0.0

    def add(self, batch: np.ndarray) -> None:
        """Looks at a batch."""
        self._hash.update(np.ascontiguousarray(batch).data)
        self._count += batch.size
        self._total += float(batch.sum(dtype=np.float64))
        self._squares += float(np.square(batch, dtype=np.float64).sum())

    def result(self) -> dict[str, Any]:
        """A hash of all numbers in their order, their mean and their deviation."""
        mean = self._total / self._count
        deviation = (self._squares / self._count - mean**2) ** 0.5
        return {"hash": self._hash.hexdigest(), "mean": mean, "std": deviation}


def consume(epoch: Iterable[np.ndarray], start: float, check: bool) -> dict[str, Any]:
    """Iterates over an epoch, and says what it took from `start` on (time.monotonic())."""
    images, to_first, look = 0, None, Look()
    for batch in epoch:
        to_first = to_first or time.monotonic() - start
        assert batch.shape[1:] == (3, WORK.size, WORK.size), batch.shape
        assert batch.dtype == np.float32
        images += len(batch)
        if check:
            look.add(batch)
    said = {"images": images, "wall_seconds": time.monotonic() - start}
    return said | {"first_batch_seconds": to_first} | (look.result() if check else {})


def run(side: RemoteSide, first: int, count: int, check: bool) -> Iterator[dict[str, Any]]:
    """Runs epochs, and says of each what it took, from the end of the one before."""
    last, counts = time.monotonic(), dict[str, float]()
    for epoch in side.epochs(first, count):
        said = consume(epoch, last, check)
        last += said["wall_seconds"]
        before, counts = counts, side.counts()
        yield said | {key: counts[key] - before.get(key, 0) for key in counts}


def first_batch(side: RemoteSide) -> dict[str, Any]:
    """How long the first batch takes from opening on."""
    start = time.monotonic()
    for epoch in side.epochs(0, 1):
        for batch in epoch:
            return {"images": len(batch), "first_batch_seconds": time.monotonic() - start}
    raise RuntimeError("there was no batch")


def answer(side: RemoteSide, asked: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
    """Does what a line asks for, in a forked process."""
    with tempfile.TemporaryDirectory(dir=side.folder) as kept:
        if (child := os.fork()) == 0:
            os.environ.setdefault("FOREBAY_INDEX_CACHE", kept)
            if asked["epochs"] == 0:
                say(first_batch(side))
                os._exit(0)  # without waiting for what the loader reads ahead
            for said in run(side, 0, asked["epochs"], asked["check"]):
                say(said)
            sys.exit()
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(1)


def main() -> None:
    """Answers the lines of the input."""
    name, url, folder = sys.argv[1:]
    # Standard output is for the answers alone; what the side's library prints goes elsewhere.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    side = SIDES[name](url, Path(folder))
    for library in ("torch", side.library):
        importlib.import_module(library)
    for line in sys.stdin:
        answer(
            side, json.loads(line), lambda said: print(json.dumps(said), file=answers, flush=True)
        )


if __name__ == "__main__":
    main()
