"""Runs one rank of a job of bench/cache.py, which lib/cache_job.py starts on a machine of its own.

usage: python -m lib.cache_program SIDE OPTIONS
OPTIONS is a JSON object: "path" is what the side stored, "folder" is where this machine keeps what
it read; "regions", "memory_bytes", "disk_bytes" and "batch" are Forebay's. For each line of JSON on
standard input, {"check": whether the numbers are looked at}, it runs its next epoch and answers
with a line; before the first one it says "ready". The loader is opened when the first epoch begins.
After the line {"step_seconds": S, "timeline": FILE} it goes on with epochs until it is killed.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lib.remote_program import (
    BATCH,
    SHUFFLE_BUFFER,
    WORK,
    Forebay,
    RemoteSide,
    consume,
    litdata_images,
    streaming_images,
)
from lib.sides.side import SEED
from lib.sides.torch_side import batches, decode, transform

EPOCHS_MAX = 1000
# A rank has one thread, or one worker process which stays.
WORKERS = {"num_workers": 1, "persistent_workers": True}


class CachedForebay(Forebay):
    """forebay.Loader with the job's cache, or without one where it has no room."""

    threads = 1

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options["path"], Path(options["folder"]))
        self.regions = options.get("regions", "auto")
        self.batch = options.get("batch", BATCH)
        self._room = [options.get(name, 0) for name in ("disk_bytes", "memory_bytes")]

    def options(self) -> dict[str, Any]:
        """The cache."""
        from forebay import Cache

        if not any(self._room):
            return {}
        return {"cache": Cache(self.folder / "held" if self._room[0] else None, *self._room)}

    def counts(self) -> dict[str, float]:
        """All that Loader.stats() has."""
        return self.loader.stats()


class WebDatasetCached(RemoteSide):
    """WebDataset with its folder for shards; a node has the same shards in all epochs."""

    library = "webdataset"

    def epochs(self, first: int, count: int) -> Iterator[Iterable[np.ndarray]]:
        """Opens a WebLoader."""
        import webdataset

        made = transform(WORK)
        dataset = (
            webdataset.WebDataset(
                self.url, shardshuffle=100, seed=SEED, nodesplitter=webdataset.split_by_node,
                cache_dir=str(self.folder),
            )
            .shuffle(SHUFFLE_BUFFER)
            .to_tuple("jpg", "cls")
            .map_tuple(lambda file: made(decode(file)), int)
            .batched(BATCH)
        )  # fmt: skip
        loader = webdataset.WebLoader(dataset, batch_size=None, **WORKERS)
        for _ in range(first, first + count):
            yield batches(loader)


class StreamingCached(RemoteSide):
    """MosaicML Streaming; its folder of shards stays."""

    library = "streaming"

    def epochs(self, first: int, count: int) -> Iterator[Iterable[np.ndarray]]:
        """Opens a StreamingDataset."""
        import streaming

        dataset = streaming_images()(remote=self.url, local=str(self.folder), shuffle_seed=SEED)
        loader = streaming.StreamingDataLoader(dataset, batch_size=BATCH, **WORKERS)
        for _ in range(first, first + count):
            yield batches(loader)


class LitDataCached(RemoteSide):
    """LitData; its folder of chunks stays."""

    library = "litdata"

    def epochs(self, first: int, count: int) -> Iterator[Iterable[np.ndarray]]:
        """Opens a StreamingDataset."""
        import litdata

        dataset = litdata_images()(self.url, cache_dir=str(self.folder), shuffle=True, seed=SEED)
        loader = litdata.StreamingDataLoader(dataset, batch_size=BATCH, **WORKERS)
        for _ in range(first, first + count):
            yield batches(loader)


PEERS: dict[str, type[RemoteSide]] = {
    "webdataset": WebDatasetCached,
    "streaming": StreamingCached,
    "litdata": LitDataCached,
}


def train(
    side: RemoteSide, epochs: Iterable[Iterable[np.ndarray]], step_seconds: float, timeline: Path
) -> None:
    """Goes on with epochs like a training, each step of which takes so long after its batch came.

    Writes a line for each batch: when it came (time.monotonic()), how many images it has, and how
    many machines the cache has.
    """
    with timeline.open("w", buffering=1) as lines:
        for epoch in epochs:
            for batch in epoch:
                members = int(side.counts()["cache_members"])
                print(time.monotonic(), len(batch), members, file=lines)
                time.sleep(step_seconds)


def main() -> None:
    """Answers the lines of the input."""
    name, options = sys.argv[1], json.loads(sys.argv[2])
    # Standard output is for the answers alone; what the side's library prints goes elsewhere.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    side: RemoteSide
    if name == "forebay":
        side = CachedForebay(options)
    else:
        side = PEERS[name](options["path"], Path(options["folder"]))
    import torch.distributed

    importlib.import_module(side.library)
    torch.distributed.init_process_group("gloo")
    print(json.dumps("ready"), file=answers, flush=True)
    epochs = side.epochs(0, EPOCHS_MAX)
    for line in sys.stdin:
        asked = json.loads(line)
        if "timeline" in asked:
            train(side, epochs, asked["step_seconds"], Path(asked["timeline"]))
        start = time.monotonic()
        said = consume(next(epochs), start, asked["check"])
        print(json.dumps(said | {"stats": side.counts()}), file=answers, flush=True)
    # A cache that this process serves may still be asked by others, which end at the same time.
    torch.distributed.barrier()


if __name__ == "__main__":
    main()
