"""MosaicML Streaming on its MDS shards, decoded by Pillow, with torchvision's transforms."""

from pathlib import Path
from typing import Any

from lib.sides.side import BATCH, SEED, Data, Epoch, LoaderSide, Work
from lib.sides.torch_side import batches, decode, transform, workers


class Streaming(LoaderSide):
    """Runs StreamingDataset on a local folder, in Streaming's own DataLoader."""

    plain = False

    def stored(self, data: Data) -> Path:
        """Returns the folder of Streaming's shards, which have the files verbatim."""
        return data.of("streaming")

    def pack(self, data: Data, work: Work, threads: int) -> None:
        """Writes shards by MDSWriter, without compression or checksums, which are its defaults."""
        from streaming import MDSWriter

        columns = {"x": "bytes", "y": "int"}
        with MDSWriter(out=str(self.stored(data)), columns=columns) as out:
            for file, label in data.files():
                out.write({"x": file.read_bytes(), "y": label})

    def open(self, data: Data, work: Work, threads: int) -> Epoch:
        """Opens Streaming's worker processes."""
        made = transform(work)
        import streaming
        from streaming.base.util import clean_stale_shared_memory

        class Images(streaming.StreamingDataset):
            def __getitem__(self, at: Any) -> tuple[Any, int]:
                sample = super().__getitem__(at)
                return made(decode(sample["x"])), sample["y"]

        clean_stale_shared_memory()
        dataset = Images(local=str(self.stored(data)), shuffle=True, shuffle_seed=SEED,
                         batch_size=BATCH)  # fmt: skip
        loader = streaming.StreamingDataLoader(dataset, batch_size=BATCH, **workers(threads))
        return lambda _: batches(loader)
