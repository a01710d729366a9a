"""LitData on chunks that its optimize() made, decoded by Pillow, with torchvision's transforms."""

from pathlib import Path
from typing import Any

from lib.sides.side import BATCH, SEED, Data, Epoch, LoaderSide, Work
from lib.sides.torch_side import batches, decode, transform, workers


def _sample(item: tuple[str, int]) -> dict[str, Any]:
    return {"image": Path(item[0]).read_bytes(), "label": item[1]}


class LitData(LoaderSide):
    """Runs StreamingDataset and StreamingDataLoader on a local folder."""

    plain = False

    def stored(self, data: Data) -> Path:
        """Returns the folder of LitData's chunks, which have the files verbatim."""
        return data.of("litdata")

    def pack(self, data: Data, work: Work, threads: int) -> None:
        """Makes chunks of 64 MB, LitData's default."""
        import litdata

        files = [(str(file), label) for file, label in data.files()]
        litdata.optimize(fn=_sample, inputs=files, output_dir=str(self.stored(data)),
                         chunk_bytes="64MB", num_workers=threads)  # fmt: skip

    def open(self, data: Data, work: Work, threads: int) -> Epoch:
        """Opens LitData's worker processes."""
        made = transform(work)
        import litdata

        class Images(litdata.StreamingDataset):
            def __getitem__(self, index: Any) -> tuple[Any, int]:
                sample = super().__getitem__(index)
                return made(decode(sample["image"])), sample["label"]

        dataset = Images(str(self.stored(data)), shuffle=True, seed=SEED)
        loader = litdata.StreamingDataLoader(dataset, batch_size=BATCH, **workers(threads))
        return lambda _: batches(loader)
