"""Batches for training, in place of torch.utils.data.DataLoader."""

import contextlib
import dataclasses
import hashlib
import json
import os
import sys
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay import _core
from forebay.batches import Assembler
from forebay.dataset import Dataset
from forebay.mixing import Mixing
from forebay.monitor import BottleneckWarning, Monitor
from forebay.transforms import Transform, to_core

_DTYPES = {
    "uint8": _core.DType.UINT8,
    "float32": _core.DType.FLOAT32,
    "bfloat16": _core.DType.BFLOAT16,
}
_STATE_VERSION = 0
_POSITION = ("epoch", "position", "bad")
_CHOSEN = ("sampled", "samples")  # also in states of chosen samples


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


@dataclasses.dataclass(frozen=True)
class _Ready:
    """A batch, and where the feed stood behind it; bad samples so far."""

    batch: Any
    state: str
    bad: int


class Loader:
    """Batches of images, decoded, cropped and normalised by threads, without Python.

    Packed datasets are faster than folders in place: only what a crop needs is decoded, and
    nothing is opened for a single sample.

    Iterating gives the pairs (images, labels) of one epoch: images [samples, 3, height, width]
    (with `channels_last` [samples, height, width, 3]), labels int64 [samples], -1 where there is
    none; tensors where PyTorch is installed, else NumPy arrays. A batch's memory is its own until
    nobody uses it any more. Each iter() begins the next epoch, unless no batch was taken from the
    one before; the order and the augmentation depend on the seed, the epoch and the dataset's
    content alone, and are the same for any number of threads, and for any number of ranks with the
    same batch_size x world_size. One iterator at a time.

    A sample that cannot be decoded is replaced by another one when shuffled, else left out of its
    batch; a warning names it, and `bad_samples` lists it.

    Args:
        dataset: A Dataset, or what one is opened from: a packed dataset, a folder of images by
            class, or tar shards.
        batch_size: Samples of a batch, on this rank.
        shuffle: Whether samples come in a random order, another one in each epoch; of a dataset
            with weights (Dataset.weighted, concat), whether they are drawn by them.
        sampler: Gives the numbers of an epoch's samples, on this rank: any iterable of int, as
            torch.utils.data.Sampler; set_epoch() and load_state_dict() call its set_epoch().
            Without `shuffle`, `rank` and `world_size`.
        transform: What is done to each sample (forebay.transforms), and behind that any functions
            of your own: each gets an image as a tensor (NumPy array without PyTorch) of the batch's
            layout, uint8 or as Normalize made it, and gives what the next one gets; threads of
            Python run them ahead of the loop. None: images as they are, uint8 [3, height, width].
        fields: What a batch consists of: "image", "label", "index" (the sample's number), "key"
            (its name), "file" (its image file's bytes) or any of Dataset.columns. A sequence gives
            tuples; a mapping dicts: {"pixels": "image", "y": "label"}. Without "image" nothing is
            decoded. Numbers are tensors, texts and bytes lists.
        collate_fn: Makes a batch of a list of samples, each a tuple or dict of fields, as
            DataLoader's. None: images of one size are stacked, others a list.
        batch_transform: MixUp, CutMix or a RandomChoice of them (forebay.mixing), whose labels are
            float32 [samples, classes]; or a function of your own of what would be the batch, which
            gives the batch. Runs in a thread ahead of the loop.
        num_workers: Threads that decode; None or 0: as many as this process may run at once,
            divided by the processes of the job on this machine (LOCAL_WORLD_SIZE).
        drop_last: Whether a last batch that is not full is left out.
        samples_per_epoch: How many are drawn, of a dataset with weights; None: as many as it has.
        dtype: "float32" or "bfloat16", with Normalize; "uint8" without; None: "float32" or "uint8".
        channels_last: Whether images are [height, width, 3].
        prefetch_factor: Batches that are prepared ahead.
        seed: Of the order and the augmentation.
        rank: This process's number, and
        world_size: how many share an epoch; None: those of torch.distributed, else RANK and
            WORLD_SIZE, else alone, asked again until the first iter(). Every rank has the same
            number of batches; in the last one of an epoch (drop_last=False) some ranks may have
            fewer samples, or none.
        on_bad: "replace" or "skip" a sample that cannot be used; None: as said above.
        bad_samples_max: After more samples that cannot be used the epoch ends with an error.
        memory_max: Bytes that chunks and batches may take together; images of their own sizes and
            files are not counted.
        progress: Whether each epoch shows a progress bar (package tqdm).

    Raises:
        ValueError: Options that make no sense; the message names them.
        FileNotFoundError, DataError: As Dataset.
    """

    def __init__(
        self,
        dataset: Dataset | str | os.PathLike[str],
        batch_size: int = 1,
        shuffle: bool = False,
        sampler: Any = None,
        *,
        transform: Sequence[Transform | Callable[[Any], Any]] | None = None,
        fields: Sequence[str] | Mapping[str, str] = ("image", "label"),
        collate_fn: Callable[[list[Any]], Any] | None = None,
        batch_transform: Callable[[Any], Any] | Mixing | None = None,
        num_workers: int | None = None,
        drop_last: bool = False,
        samples_per_epoch: int | None = None,
        dtype: str | None = None,
        channels_last: bool = False,
        prefetch_factor: int = 2,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        on_bad: str | None = None,
        bad_samples_max: int = 100,
        memory_max: int = 4_000_000_000,
        progress: bool = False,
    ) -> None:
        self._arguments = {name: value for name, value in locals().items() if name != "self"}
        self.dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.sampler = sampler
        self.drop_last = drop_last
        self.seed = seed
        self.batch_transform = batch_transform
        if sampler is not None and (shuffle or rank is not None or world_size is not None):
            raise ValueError(
                "sampler: it chooses the order and this rank's samples itself; leave out shuffle, "
                "rank and world_size"
            )
        self._asked_world = (rank, world_size) if sampler is None else (0, 1)
        self.rank, self.world_size = self._own_world()
        self._drawn = shuffle and self.dataset.weights is not None
        if samples_per_epoch is not None and not self._drawn:
            raise ValueError("samples_per_epoch: for a dataset with weights and shuffle=True only")
        self._samples = len(self.dataset) if samples_per_epoch is None else samples_per_epoch
        self._check(on_bad)

        self.num_workers = _threads(num_workers)
        self.prefetch_factor = prefetch_factor
        self.collate_fn = collate_fn
        own_transforms: list[Any] = list(transform or [])
        functions: list[Callable[[Any], Any]] = []
        while own_transforms and not isinstance(own_transforms[-1], Transform):
            functions.insert(0, own_transforms.pop())
        self._assemble = Assembler(
            self.dataset,
            fields,
            functions,
            collate_fn,
            batch_transform if isinstance(batch_transform, Mixing) else None,
            seed=seed,
            whole=not own_transforms,
            channels_last=channels_last,
        )
        self._options = self._feed_options(own_transforms, dtype, channels_last)
        in_order = sampler is not None or self._drawn
        replaced = shuffle if on_bad is None else on_bad == "replace"
        for name, core_name, value in (
            ("batch_size", "global_batch", batch_size * self.world_size),
            ("rank", "rank", self.rank),
            ("world_size", "world_size", self.world_size),
            ("seed", "seed", seed),
            ("shuffle", "shuffle", shuffle and not in_order),
            ("on_bad", "replace_bad", replaced),
            ("drop_last", "drop_last", drop_last),
            ("sampler", "next_epoch", not in_order),
            ("num_workers", "threads", self.num_workers),
            ("prefetch_factor", "prefetch", prefetch_factor),
            ("bad_samples_max", "bad_samples_max", bad_samples_max),
            ("memory_max", "memory_bytes_max", memory_max),
        ):
            try:
                setattr(self._options, core_name, value)
            except TypeError:
                raise ValueError(f"{name} is {value!r}, which cannot be used") from None
        if progress and find_spec("tqdm") is None:
            raise ValueError("progress: its bar is the package tqdm's; pip install tqdm")
        self._progress = progress
        self._monitor = Monitor(self.num_workers)

        # The samples of the epoch, by their numbers in the feed; None: the dataset's.
        self._chosen: NDArray[np.int64] | None = None
        self._tell_sampler = False
        self._open_feed(self.dataset.core)
        self._iterations = 0
        # Where the next iter() begins, and what was bad before.
        self._next: dict[str, Any] = {"epoch": 0, "position": 0, "bad": []}
        self._behind = ""  # the feed's state behind the batch that was given last
        # Where the last iter() began, and whether a batch was taken from it: else it was none.
        self._begun = self._next
        self._taken = True

    def _check(self, on_bad: str | None) -> None:
        """What the core does not check, or would tell by another name."""
        for name, value, least in (
            ("batch_size", self.batch_size, 1),
            ("world_size", self.world_size, 1),
            ("samples_per_epoch", self._samples, 0),
        ):
            if value < least:
                raise ValueError(f"{name} is {value}, but must be at least {least}")
        if on_bad not in (None, "replace", "skip"):
            raise ValueError(f"on_bad is {on_bad!r}, but must be 'replace' or 'skip'")
        if self._drawn and not np.any(self.dataset.weights):
            raise ValueError("dataset: all its samples have the weight 0; nothing can be drawn")

    def __len__(self) -> int:
        """Batches of an epoch, the same on every rank (but for those of samplers)."""
        self._follow_world()
        samples = self._samples if self.sampler is None else len(self.sampler)
        return -(-self._epoch_end(samples) // (self.batch_size * self.world_size))

    def __iter__(self) -> Iterator[Any]:
        self._follow_world()
        # Lightning calls iter() just to see whether it can: that shall not cost an epoch.
        now = self._next if self._taken else self._begun
        if self.sampler is not None or self._drawn:
            self._choose(now)
        elif not self._feed.is_here:  # in a forked child
            self._open_feed(self.dataset.core)
        self._feed.start(json.dumps({name: now[name] for name in _POSITION}))
        self._started = True
        self._begun, self._taken = now, False
        self._behind = self._feed.state()
        self._iterations += 1
        self._next = {"epoch": now["epoch"] + 1, "position": 0, "bad": now["bad"]}
        return self._given(self._iterations, len(now["bad"]))

    def __getstate__(self) -> dict[str, Any]:
        """For another process (spawn): its copy goes on behind the batch that was given last."""
        return {"arguments": {**self._arguments, "dataset": self.dataset}, "next": self._now()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["arguments"])  # type: ignore[misc]
        self._go_behind(state["next"])

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the threads and gives memory back; a later iter() goes on behind the last batch."""
        self._go_behind(self._now())
        self._open_feed(self.dataset.core)

    def set_epoch(self, epoch: int) -> None:
        """The next iter() begins this epoch, counted from 0; a sampler is told so too."""
        if epoch < 0:
            raise ValueError(f"set_epoch: epoch is {epoch}, but must be at least 0")
        self._go_to({"epoch": epoch, "position": 0, "bad": self._now()["bad"]})

    @property
    def epoch(self) -> int:
        """The epoch that is not over yet: where `for epoch in range(loader.epoch, …)` goes on."""
        now = self._now()
        return now["epoch"] + self._is_over(now)

    @property
    def bad_samples(self) -> list[dict[str, Any]]:
        """Samples that could not be used so far: sample, chunk, key and reason."""
        return self._now()["bad"]

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands: behind the batch that was given last. Fit for JSON."""
        return {**self._identity(), **self._now()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next iter() goes on where state_dict() was called, at any world size.

        A state from an epoch's end goes on with the next epoch. With a sampler the next iter()
        raises ValueError where it does not give the samples that it gave before.

        Raises:
            ValueError: The state is of another dataset or seed, or none of a loader.
        """
        own = self._identity()
        missing = {*own, *_POSITION} - set(state)
        if missing:
            raise ValueError(f"load_state_dict: not a Loader's state, {sorted(missing)} is missing")
        for name, value in own.items():
            if state[name] != value:
                raise ValueError(
                    f"load_state_dict: the state's {name} is {state[name]!r}, the loader's is "
                    f"{value!r}"
                )
        self._go_behind(state)

    def stats(self) -> dict[str, float]:
        """What was done so far, and where the time went.

        Returns:
            "samples", "bytes_read"; "wait_seconds": of the loop, for batches. Of all threads that
            decode together: "prepare_cpu_seconds", "starved_seconds" (waiting for what is read),
            "idle_seconds" (batches enough were ready). Of those that read: "read_cpu_seconds",
            "reading_seconds". Samplers and weights: of the current epoch.
        """
        core = self._feed.stats()
        return {
            "samples": core.samples,
            "bytes_read": core.bytes_read,
            "wait_seconds": core.wait_ns * 1e-9,
            "prepare_cpu_seconds": core.prepare_ns * 1e-9,
            "starved_seconds": core.starved_ns * 1e-9,
            "idle_seconds": core.idle_ns * 1e-9,
            "read_cpu_seconds": core.read_ns * 1e-9,
            "reading_seconds": core.reading_ns * 1e-9,
        }

    @contextlib.contextmanager
    def trace(self, path: str | os.PathLike[str]) -> Iterator[None]:
        """Writes a timeline of what runs inside the `with`: threads, batches, waits.

        The file is JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open. With samplers
        and weights enter it behind iter().
        """
        feed = self._feed
        feed.start_trace()
        try:
            yield
        finally:
            with open(path, "w", encoding="utf-8") as file:
                file.write(feed.stop_trace())

    def _feed_options(
        self, transform: list[Any], dtype: str | None, channels_last: bool
    ) -> _core.FeedOptions:
        options = _core.FeedOptions()
        options.files = self._assemble.wants("file")
        options.images = (
            _core.Images.NONE
            if not self._assemble.wants("image")
            else _core.Images.TENSOR
            if transform
            else _core.Images.WHOLE
        )
        if not transform:
            if dtype not in (None, "uint8"):
                raise ValueError(f"dtype is {dtype}, which goes with a transform with Normalize")
            return options
        options.transform, normalize = to_core(transform)
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
        options.tensor = tensor
        return options

    def _identity(self) -> dict[str, Any]:
        """What a state fits to."""
        return {
            "version": _STATE_VERSION,
            "seed": self.seed,
            "order": self._order(),
            "dataset": self.dataset.fingerprint,
        }

    def _order(self) -> str:
        if self.sampler is not None:
            return "sampler"
        return "weights" if self._drawn else "shuffled" if self.shuffle else "stored"

    def _epoch_end(self, samples: int) -> int:
        """The position behind the last sample that is used."""
        batch = self.batch_size * self.world_size
        return samples // batch * batch if self.drop_last else samples

    def _is_over(self, state: dict[str, Any]) -> bool:
        """Whether a state is an epoch's end; one that is empty has none."""
        return 0 < self._epoch_end(state.get("samples", self._samples)) <= state["position"]

    def _go_behind(self, state: dict[str, Any]) -> None:
        position = {name: state[name] for name in (*_POSITION, *_CHOSEN) if name in state}
        if self._is_over(state):
            position = {"epoch": state["epoch"] + 1, "position": 0, "bad": state["bad"]}
        self._go_to(position)

    def _go_to(self, position: dict[str, Any]) -> None:
        self._next = position
        self._started = False
        self._taken = True
        self._tell_sampler = True

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
        self._open_feed(self.dataset.core)

    def _now(self) -> dict[str, Any]:
        """Epoch, position and bad samples behind the batch that was given last."""
        if not self._started:
            return self._next
        now = json.loads(self._behind)
        if self._chosen is not None:
            for bad in now["bad"][self._bad_before :]:
                bad["sample"] = int(self._chosen[bad["sample"]])
            now |= {"sampled": self._sampled, "samples": len(self._chosen)}
        return now

    def _open_feed(self, core: _core.Dataset) -> None:
        self._feed = _core.Feed(core, self._options)
        self._started = False

    def _choose(self, begin: dict[str, Any]) -> None:
        """Opens a feed over the samples of the epoch that begins."""
        epoch = begin["epoch"]
        if self.sampler is None:
            chosen = self._draw(epoch)
        else:
            if self._tell_sampler and hasattr(self.sampler, "set_epoch"):
                self.sampler.set_epoch(epoch)
            self._tell_sampler = False
            chosen = np.fromiter(self.sampler, dtype=np.int64)
        sampled = hashlib.sha256(chosen.tobytes()).hexdigest()
        if begin.get("sampled", sampled) != sampled:
            raise ValueError(
                f"sampler: it does not give the samples of epoch {epoch} that it gave when the "
                "state was made; give it the same seed, and set_epoch() where its order is to "
                "depend on the epoch"
            )
        if chosen.size and not (chosen.min() >= 0 and chosen.max() < len(self.dataset)):
            raise IndexError(
                f"sampler: it gives {chosen.min()} to {chosen.max()}, but {self.dataset.path} has "
                f"{len(self.dataset)} samples"
            )
        self._chosen, self._sampled = chosen, sampled
        self._bad_before = len(begin["bad"])
        self._open_feed(self.dataset.core.select(chosen.astype(np.uint64)))

    def _draw(self, epoch: int) -> NDArray[np.int64]:
        """The epoch's samples, by the dataset's weights."""
        assert self.dataset.weights is not None
        bounds = np.cumsum(self.dataset.weights)
        raw = np.random.PCG64([self.seed, epoch]).random_raw(self._samples)
        uniform = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53
        # Rounding may reach the last bound, behind which there is nothing.
        last = int(np.searchsorted(bounds, bounds[-1]))
        return np.minimum(np.searchsorted(bounds, uniform * bounds[-1], side="right"), last)

    def _given(self, iteration: int, warned: int) -> Iterator[Any]:
        """The epoch for the user."""
        ahead = self.batch_transform is not None or self._assemble.functions
        ready = self._ahead(iteration) if ahead else self._in_turn(iteration)
        self._monitor.begin(self.stats())
        with contextlib.closing(ready), self._bar() as bar:
            for one in ready:
                self._behind = one.state
                if bar is not None:
                    bar.update()
                if (message := self._monitor.bottleneck(self.stats)) is not None:
                    warnings.warn(message, BottleneckWarning, stacklevel=2)
                if one.bad > warned:
                    for bad in self.bad_samples[warned:]:
                        warnings.warn(
                            f"forebay: {bad['key']} cannot be used: {bad['reason']}", stacklevel=2
                        )
                    warned = one.bad
                yield one.batch
                self._check_current(iteration)
        self._next["bad"] = self._now()["bad"]

    def _bar(self) -> Any:
        """The epoch's progress bar, or None, as a context."""
        if not self._progress:
            return contextlib.nullcontext()
        from tqdm.auto import tqdm

        now = json.loads(self._behind)
        done = now["position"] // (self.batch_size * self.world_size)
        return tqdm(total=len(self), initial=done, desc=f"epoch {now['epoch']}", unit="batch")

    def _in_turn(self, iteration: int) -> Generator[_Ready, None, None]:
        while (pulled := self._pull(iteration)) is not None:
            yield dataclasses.replace(pulled, batch=self._assemble(pulled.batch, self._chosen))

    def _ahead(self, iteration: int) -> Generator[_Ready, None, None]:
        """As _in_turn, with Python's threads at work on the next batches."""
        pool = ThreadPoolExecutor(self.prefetch_factor, thread_name_prefix="forebay")
        coming: deque[Future[_Ready]] = deque()
        failed: Exception | None = None
        try:
            while True:
                # What goes wrong ahead is told when its turn comes.
                while failed is None and len(coming) < self.prefetch_factor:
                    try:
                        pulled = self._pull(iteration)
                    except Exception as error:
                        failed = error
                        break
                    if pulled is None:
                        break
                    coming.append(pool.submit(self._finish, pulled, self._chosen))
                if not coming:
                    break
                yield coming.popleft().result()
            if failed is not None:
                raise failed
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _finish(self, pulled: _Ready, chosen: NDArray[np.int64] | None) -> _Ready:
        """With the user's functions applied; in a thread of Python."""
        batch = self._assemble(pulled.batch, chosen)
        if self.batch_transform is not None and not isinstance(self.batch_transform, Mixing):
            batch = self.batch_transform(batch)
        return dataclasses.replace(pulled, batch=batch)

    def _pull(self, iteration: int) -> _Ready | None:
        """The feed's next batch; None at the epoch's end."""
        self._check_current(iteration)
        batch = self._feed.next()
        self._taken = True
        if batch is None:
            return None
        return _Ready(batch, self._feed.state(), self._feed.bad_samples)

    def _check_current(self, iteration: int) -> None:
        if iteration != self._iterations or not self._started or not self._feed.is_here:
            raise RuntimeError(
                "forebay.Loader: this epoch was ended by a newer iter(), set_epoch(), "
                "load_state_dict() or close(), or by a fork; call iter() again"
            )
