"""WebDataset on shards that its own writer made, decoded by Pillow, torchvision's transforms."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lib.sides.side import BATCH, Data, Epoch, LoaderSide, Work
from lib.sides.torch_side import batches, decode, transform, workers

SHARDS = 8  # a worker reads whole shards


class WebDataset(LoaderSide):
    """Shuffles shards, then samples in a buffer of 1000, like in its manual."""

    def stored(self, data: Data) -> Path:
        """A folder of tars: NUMBER.jpg and NUMBER.cls for each image, the files verbatim."""
        return data.of("webdataset")

    def pack(self, data: Data, work: Work, threads: int) -> None:
        """Writes shards by WebDataset's ShardWriter."""
        from webdataset import ShardWriter

        self.stored(data).mkdir()
        files = data.files()
        np.random.default_rng(0).shuffle(files)
        per_shard = -(-len(files) // SHARDS)
        with ShardWriter(str(self.stored(data) / "%06d.tar"), maxcount=per_shard, verbose=0) as out:
            for i, (file, label) in enumerate(files):
                out.write({"__key__": f"{i:09}", "jpg": file.read_bytes(), "cls": label})

    def open(self, data: Data, work: Work, threads: int) -> Epoch:
        """Opens a WebLoader; its workers make the batches."""
        import webdataset

        shards = sorted(str(path) for path in self.stored(data).iterdir())
        made = transform(work)
        dataset = (
            webdataset.WebDataset(shards, shardshuffle=SHARDS, seed=1)
            .shuffle(1000)
            .to_tuple("jpg", "cls")
            .map_tuple(lambda file: made(decode(file)), int)
            .batched(BATCH)
        )
        loader = webdataset.WebLoader(dataset, batch_size=None, **workers(threads))

        def epoch(_: int) -> Iterator[np.ndarray]:
            return batches(loader)

        return epoch
