"""Batches for training, in place of torch.utils.data.DataLoader."""

import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from forebay import _core
from forebay.dataset import Dataset
from forebay.transforms import Transform, to_core

_DTYPES = {
    "uint8": _core.DType.UINT8,
    "float32": _core.DType.FLOAT32,
    "bfloat16": _core.DType.BFLOAT16,
}
_STATE_VERSION = 0


def _world() -> tuple[int, int]:
    """Rank and world size of torch.distributed, else of the environment (torchrun), else alone."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    if "RANK" not in os.environ:  # Lightning's processes have WORLD_SIZE alone until they meet
        return 0, 1
    return int(os.environ["RANK"]), int(os.environ.get("WORLD_SIZE", "1"))


def _threads(num_workers: int | None) -> int:
    if num_workers is not None and num_workers < 0:
        raise ValueError(f"num_workers is {num_workers}, but must be at least 0")
    if num_workers:
        return num_workers
    return max(1, _core.usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


class Loader:
    """Batches of images, decoded, cropped and normalised by threads, without Python.

    Packed datasets are faster than folders in place: only what a crop needs is decoded, and
    nothing is opened for a single sample.

    Iterating gives the pairs (images, labels) of one epoch: images [samples, 3, size, size] (with
    `channels_last` [samples, size, size, 3]), labels int64 [samples], -1 where a sample has none;
    tensors where PyTorch is installed, else NumPy arrays. A batch's memory is its own until nobody
    uses it any more. Each iter() begins the next epoch, unless no batch was taken from the one
    before; the order and the augmentation depend on the seed, the epoch and the dataset's content
    alone, and are the same for any number of threads, and for any number of ranks with the same
    batch_size x world_size. One iterator at a time.

    A sample that cannot be decoded is replaced by another one when shuffled, else left out of its
    batch; a warning names it, and `bad_samples` lists it.

    Args:
        dataset: A Dataset, or what one is opened from: a packed dataset or a folder of images.
        batch_size: Samples of a batch, on this rank.
        shuffle: Whether samples come in a random order, another one in each epoch.
        num_workers: Threads that decode; None or 0: as many as this process may run at once,
            divided by the processes of the job on this machine (LOCAL_WORLD_SIZE).
        drop_last: Whether a last batch that is not full is left out.
        transform: What is done to each sample (forebay.transforms).
        dtype: "float32" or "bfloat16", with Normalize; "uint8" without; None: "float32" or "uint8".
        channels_last: Whether a batch is NHWC.
        prefetch_factor: Batches that are prepared ahead.
        seed: Of the order and the augmentation.
        rank: This process's number, and
        world_size: how many share an epoch; None: those of torch.distributed, else RANK and
            WORLD_SIZE, else alone, asked again until the first iter(). Every rank has the same
            number of batches; in the last one of an epoch (drop_last=False) some ranks may have
            fewer samples, or none.
        bad_samples_max: After more samples that cannot be used the epoch ends with an error.
        memory_max: Bytes that chunks and batches may take together.

    Raises:
        ValueError: Options that make no sense; the message names them.
        FileNotFoundError, DataError: As Dataset.
    """

    def __init__(
        self,
        dataset: Dataset | str | os.PathLike[str],
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        transform: Sequence[Transform],
        num_workers: int | None = None,
        drop_last: bool = False,
        dtype: str | None = None,
        channels_last: bool = False,
        prefetch_factor: int = 2,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        bad_samples_max: int = 100,
        memory_max: int = 4_000_000_000,
    ) -> None:
        self.dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.seed = seed
        self._asked_world = rank, world_size
        self.rank, self.world_size = self._own_world()
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, but must be at least 1")
        if self.world_size < 1:
            raise ValueError(f"world_size is {self.world_size}, but must be at least 1")

        core_transform, normalize = to_core(transform)
        dtype = dtype or ("uint8" if normalize is None else "float32")
        if dtype not in _DTYPES:
            raise ValueError(f"dtype is {dtype!r}, but must be one of {list(_DTYPES)}")
        if (dtype == "uint8") != (normalize is None):
            raise ValueError(
                f"dtype is {dtype}, which goes with{'out' if dtype == 'uint8' else ''} Normalize"
            )
        tensor = _core.TensorOptions()
        tensor.dtype = _DTYPES[dtype]
        tensor.layout = _core.Layout.NHWC if channels_last else _core.Layout.NCHW
        if normalize is not None:
            tensor.mean, tensor.std = list(normalize.mean), list(normalize.std)
        options = _core.FeedOptions()
        options.transform = core_transform
        options.tensor = tensor
        for name, core_name, value in (
            ("batch_size", "global_batch", batch_size * self.world_size),
            ("rank", "rank", self.rank),
            ("world_size", "world_size", self.world_size),
            ("seed", "seed", seed),
            ("shuffle", "shuffle", shuffle),
            ("drop_last", "drop_last", drop_last),
            ("num_workers", "threads", _threads(num_workers)),
            ("prefetch_factor", "prefetch", prefetch_factor),
            ("bad_samples_max", "bad_samples_max", bad_samples_max),
            ("memory_max", "memory_bytes_max", memory_max),
        ):
            try:
                setattr(options, core_name, value)
            except TypeError:
                raise ValueError(f"{name} is {value!r}, which cannot be used") from None
        self._options = options
        self._as_tensors = find_spec("torch") is not None

        self._open_feed()
        self._iterations = 0
        # Where the next iter() begins, and what was bad before.
        self._next: dict[str, Any] = {"epoch": 0, "position": 0, "bad": []}
        # Where the last iter() began, and whether a batch was taken from it: else it was none.
        self._begun = self._next
        self._taken = True

    def __len__(self) -> int:
        """Batches of an epoch, the same on every rank."""
        self._follow_world()
        return self._feed.steps

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        if not self._feed.is_here:  # in a forked child
            self._open_feed()
        self._follow_world()
        # Lightning calls iter() just to see whether it can: that shall not cost an epoch.
        now = self._next if self._taken else self._begun
        self._feed.start(json.dumps(now))
        self._started = True
        self._begun, self._taken = now, False
        self._iterations += 1
        self._next = {"epoch": now["epoch"] + 1, "position": 0, "bad": now["bad"]}
        return self._batches(self._iterations)

    def set_epoch(self, epoch: int) -> None:
        """The next iter() begins this epoch, counted from 0."""
        if epoch < 0:
            raise ValueError(f"set_epoch: epoch is {epoch}, but must be at least 0")
        self._next = {**self._next, "epoch": epoch, "position": 0}
        self._started, self._taken = False, True

    @property
    def bad_samples(self) -> list[dict[str, Any]]:
        """Samples that could not be used so far: sample, chunk, key and reason."""
        return self._now()["bad"]

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands: behind the batch that was given last. Fit for JSON."""
        return {
            "version": _STATE_VERSION,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "dataset": self.dataset.fingerprint,
            **self._now(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next iter() goes on where state_dict() was called, at any world size.

        A state from an epoch's end goes on with the next epoch.

        Raises:
            ValueError: The state is of another dataset or seed, or none of a loader.
        """
        missing = {"version", "seed", "shuffle", "dataset", "epoch", "position", "bad"} - set(state)
        if missing:
            raise ValueError(f"load_state_dict: not a Loader's state, {sorted(missing)} is missing")
        for name, value in (
            ("version", _STATE_VERSION),
            ("seed", self.seed),
            ("shuffle", self.shuffle),
            ("dataset", self.dataset.fingerprint),
        ):
            if state[name] != value:
                raise ValueError(
                    f"load_state_dict: the state's {name} is {state[name]!r}, the loader's is "
                    f"{value!r}"
                )
        position = {name: state[name] for name in ("epoch", "position", "bad")}
        if position["position"] >= self._epoch_end():
            position = {**position, "epoch": position["epoch"] + 1, "position": 0}
        self._next = position
        self._started, self._taken = False, True

    def stats(self) -> dict[str, float]:
        """What was done so far: samples, bytes read; seconds waited, preparing and reading."""
        core = self._feed.stats()
        return {
            "samples": core.samples,
            "bytes_read": core.bytes_read,
            "wait_seconds": core.wait_ns * 1e-9,
            "prepare_cpu_seconds": core.prepare_ns * 1e-9,
            "read_cpu_seconds": core.read_ns * 1e-9,
        }

    def _own_world(self) -> tuple[int, int]:
        rank, world_size = _world()
        asked_rank, asked_world_size = self._asked_world
        return (
            rank if asked_rank is None else asked_rank,
            world_size if asked_world_size is None else asked_world_size,
        )

    def _follow_world(self) -> None:
        """Between epochs, takes the rank that torch.distributed has got since the loader was made.

        Lightning makes its processes' group in fit(), when the loader is there already.
        """
        if self._started or self._own_world() == (self.rank, self.world_size):
            return
        self.rank, self.world_size = self._own_world()
        self._options.rank, self._options.world_size = self.rank, self.world_size
        self._options.global_batch = self.batch_size * self.world_size
        self._open_feed()

    def _now(self) -> dict[str, Any]:
        return json.loads(self._feed.state()) if self._started else self._next

    def _epoch_end(self) -> int:
        batch = self.batch_size * self.world_size
        return len(self.dataset) // batch * batch if self.drop_last else len(self.dataset)

    def _open_feed(self) -> None:
        self._feed = _core.Feed(self.dataset.core, self._options)
        self._started = False

    def _batches(self, iteration: int) -> Iterator[tuple[Any, Any]]:
        warned = len(self._next["bad"])
        while True:
            if iteration != self._iterations or not self._started or not self._feed.is_here:
                raise RuntimeError(
                    "forebay.Loader: this epoch was ended by a newer iter(), set_epoch() or "
                    "load_state_dict(), or by a fork; call iter() again"
                )
            batch = self._feed.next()
            self._taken = True
            if batch is None:
                self._next["bad"] = self._now()["bad"]
                return
            if self._feed.bad_samples > warned:
                for one in self.bad_samples[warned:]:
                    warnings.warn(
                        f"forebay: {one['key']} cannot be used: {one['reason']}", stacklevel=2
                    )
                warned = self._feed.bad_samples
            yield self._to_user(batch)

    def _to_user(self, batch: Any) -> tuple[Any, Any]:
        labels: Any = batch.labels.astype(np.int64)
        images: Any
        if self._as_tensors:
            import torch

            images, labels = torch.from_dlpack(batch.images), torch.from_numpy(labels)
        else:
            images = np.from_dlpack(batch.images)
        valid = batch.valid.view(bool)
        if valid.all():
            return images, labels
        kept = np.flatnonzero(valid)
        if len(kept) == 0 or kept[-1] == len(kept) - 1:  # an epoch's ragged end
            return images[: len(kept)], labels[: len(kept)]
        return images[kept], labels[kept]
