"""Batches for training, in place of torch.utils.data.DataLoader."""

import contextlib
import dataclasses
import hashlib
import json
import os
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from forebay import _core
from forebay.ahead import Ready, ahead
from forebay.batches import Assembler
from forebay.checks import flag, function, whole
from forebay.choosing import Sampler, Weights, numbers_of_draws
from forebay.dataset import Dataset
from forebay.devices import Mover, can_pin, check_device, open_decoder
from forebay.mixing import Mixing
from forebay.monitor import BottleneckWarning, Monitor
from forebay.options import feed_options, split_transform
from forebay.ranks import own_world, threads_of
from forebay.transforms import Transform

_STATE_VERSION = 0
# As the core's limits (base/limits.h, feed/options.cc).
_PREFETCH_MAX = 1024
_BATCH_MAX = 2**20
_WORLD_SIZE_MAX = 2**16
_POSITION = ("epoch", "position", "bad")
_OF_BAD = {"sample", "chunk", "key", "reason"}
_CHOSEN = ("sampled", "samples")  # also in states of chosen samples


class Loader:
    """Batches of images, decoded, cropped and normalised by threads, without Python.

    Packed datasets are faster than folders in place: only what a crop needs is decoded, and
    nothing is opened for a single sample.

    Iterating gives the pairs (images, labels) of one epoch: with a transform images [samples, 3,
    height, width] (with `channels_last` [samples, height, width, 3]), labels int64 [samples], -1
    where there is none; tensors where PyTorch is installed, else NumPy arrays. A batch's memory is
    its own until nobody uses it any more. Each iter() begins the next epoch, unless no batch was
    taken from the one before; the order and the augmentation depend on the seed, the epoch and
    the dataset's content alone, and are the same for any number of threads, and for any number of
    ranks with the same batch_size x world_size. One iterator at a time.

    A sample that cannot be decoded is replaced by another one when shuffled, else left out of its
    batch; a warning names it, and `bad_samples` lists it.

    Args:
        dataset: A Dataset, or what one is opened from: a packed dataset, a folder of images by
            class, or tar shards.
        batch_size: Samples of a batch, on this rank.
        shuffle: Whether samples come in a random order, another one in each epoch; of a dataset
            with weights (Dataset.weighted, concat), whether they are drawn by them.
        sampler: Gives the numbers of an epoch's samples, on this rank: any iterable of int, as
            torch.utils.data.Sampler; its set_epoch(), where it has one, is called with each epoch's
            number unless you called it yourself. Without `shuffle`, `rank` and `world_size`.
        transform: What is done to each sample (forebay.transforms), and behind that any functions
            of your own: each gets an image as a tensor (NumPy array without PyTorch) of the batch's
            layout, uint8 or as Normalize made it, and gives what the next one gets; threads of
            Python run them ahead of the loop. None: images as they are, uint8 [3, height, width].
        fields: What a batch consists of: "image", "label", "index" (the sample's number), "key"
            (its name), "file" (its image file's bytes) or any of Dataset.columns. A sequence gives
            tuples; a mapping dicts: {"pixels": "image", "y": "label"}. Without "image" nothing is
            decoded. Numbers are tensors, texts and bytes lists.
        collate_fn: Makes a batch of a list of samples, each a tuple or dict of fields, as
            DataLoader's, in a thread ahead of the loop; a batch without samples is made without it.
            None: images are stacked, but where there is no transform a list, as each has its size.
        batch_transform: MixUp, CutMix or a RandomChoice of them (forebay.mixing), whose labels are
            float32 [samples, classes]; or a function of your own of what would be the batch, which
            gives the batch. Runs in up to `prefetch_factor` threads ahead of the loop.
        num_workers: Threads that decode; None or 0: as many as this process may run at once,
            divided by the processes of the job on this machine (LOCAL_WORLD_SIZE).
        drop_last: Whether a last batch that is not full is left out.
        samples_per_epoch: How many are drawn, of a dataset with weights; None: as many as it has.
        dtype: "float32", "bfloat16" or "float16", with Normalize; "uint8" without; None: "float32"
            or "uint8".
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
        memory_bytes_max: Bytes that chunks and batches may take together; images of their own
            sizes and files are not counted.
        pin_memory: Whether tensors are in page-locked memory, from where a GPU copies faster; the
            copy into it is made by threads ahead of the loop.
        device: "cuda", "cuda:1" or a torch.device: batches are there already. Images cross the bus
            as bytes, on a stream of their own, and are normalised there (before the bus where
            RandomErasing or a function of yours comes behind Normalize); the next
            `prefetch_factor` batches lie on the device too. None: this machine's memory.
        decode: Where JPEGs are decoded, of batches on a GPU without functions of yours: "cpu";
            "gpu", as far as it can (baseline JPEGs with restart markers or small ones, as packed
            datasets have them), the rest by the CPU; "auto": by both, and by the GPU as little as
            keeps the loop from waiting. The same pixels, wherever.
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
        transform: Sequence[Transform | Callable[[Any], Any]]
        | Transform
        | Callable[[Any], Any]
        | None = None,
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
        memory_bytes_max: int = 4_000_000_000,
        pin_memory: bool = False,
        device: Any = None,
        decode: str = "cpu",
        progress: bool = False,
    ) -> None:
        self._arguments = {name: value for name, value in locals().items() if name != "self"}
        self.dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
        self.batch_size = whole("batch_size", batch_size, 1, _BATCH_MAX)
        self.shuffle = flag("shuffle", shuffle)
        self.sampler = sampler
        self.batch_sampler = None  # frameworks look for it where there is a sampler
        self.drop_last = flag("drop_last", drop_last)
        self.seed = whole("seed", seed, 0, 2**64 - 1)
        self.num_workers = threads_of(num_workers)
        self.prefetch_factor = whole("prefetch_factor", prefetch_factor, 1, _PREFETCH_MAX)
        self.collate_fn = collate_fn
        self.batch_transform = batch_transform
        self._asked_world = self._check_world(rank, world_size)
        self.rank, self.world_size = self._own_world()
        whole("batch_size x world_size", self.batch_size * self.world_size, 1, 2**32 - 1)
        self._chooser = self._make_chooser(samples_per_epoch)
        self._samples = len(self.dataset) if samples_per_epoch is None else len(self._chooser or [])
        if on_bad not in (None, "replace", "skip"):
            raise ValueError(f"on_bad is {on_bad!r}, but must be 'replace' or 'skip'")
        if flag("progress", progress) and find_spec("tqdm") is None:
            raise ValueError("progress: its bar is the package tqdm's; pip install tqdm")

        own_transforms, functions = split_transform(transform)
        if collate_fn is not None:
            function("collate_fn", collate_fn)
        if batch_transform is not None and not isinstance(batch_transform, Mixing):
            function("batch_transform", batch_transform)
        self._assemble = Assembler(
            self.dataset,
            fields,
            functions,
            collate_fn,
            batch_transform if isinstance(batch_transform, Mixing) else None,
            seed=self.seed,
            whole=not own_transforms,
            channels_last=flag("channels_last", channels_last),
        )
        self.device = check_device(device)
        self.pin_memory = flag("pin_memory", pin_memory) and can_pin()
        on_host = bool(self.device is None or functions or collate_fn or batch_transform)
        images_on_device = not on_host and bool(own_transforms) and self._assemble.wants("image")
        decoder = open_decoder(decode, self.device if images_on_device else None)
        self._options, self._normalizing = feed_options(
            own_transforms,
            dtype,
            channels_last=channels_last,
            with_image=self._assemble.wants("image"),
            with_file=self._assemble.wants("file"),
            later=[] if on_host or decoder else self._assemble.places("image"),
        )
        if decoder is not None:
            self._options.device, self._options.decode = decoder
        self._options.global_batch = self.batch_size * self.world_size
        self._options.rank, self._options.world_size = self.rank, self.world_size
        self._options.seed = self.seed
        self._options.shuffle = self.shuffle and self._chooser is None
        self._options.next_epoch = self._chooser is None
        self._options.replace_bad = self.shuffle if on_bad is None else on_bad == "replace"
        self._options.drop_last = self.drop_last
        self._options.threads = self.num_workers
        self._options.prefetch = self.prefetch_factor
        self._options.bad_samples_max = whole("bad_samples_max", bad_samples_max, 0)
        self._options.memory_bytes_max = whole("memory_bytes_max", memory_bytes_max, 1)
        if self.drop_last and self.sampler is None and self._epoch_end(self._samples) == 0:
            raise ValueError(
                f"{self.dataset.path}: {self._samples} samples, fewer than one global batch "
                f"({self._options.global_batch}); give a smaller batch_size, or keep the last one "
                "(drop_last=False)"
            )
        self._progress = progress
        self._mover: Mover | None = None  # made by the first iter()
        self._monitor = Monitor(self.num_workers)
        self._wait_seconds = 0.0

        # The samples of the epoch, by their numbers in the feed; None: the dataset's.
        self._chosen: NDArray[np.int64] | None = None
        self._epoch_was_set = False
        # Whether the next iter() goes on in the middle of an epoch.
        self._resumes = False
        self._open_feed(self.dataset.core)
        self._iterations = 0
        # Where the next iter() begins, and what was bad before.
        self._next: dict[str, Any] = {"epoch": 0, "position": 0, "bad": []}
        self._behind = ""  # the feed's state behind the batch that was given last
        # Where the last iter() began, and whether a batch was taken from it: else it was none.
        self._begun = self._next
        self._taken = True

    def _check_world(
        self, rank: int | None, world_size: int | None
    ) -> tuple[int | None, int | None]:
        """The two as they were asked for; None: whatever torch.distributed says."""
        if self.sampler is not None:
            if self.shuffle or rank is not None or world_size is not None:
                raise ValueError(
                    "sampler: it chooses the order and this rank's samples itself; leave out "
                    "shuffle, rank and world_size"
                )
            return 0, 1
        if (rank is None) != (world_size is None):
            raise ValueError(
                f"rank is {rank}, world_size is {world_size}: give both, or neither for those of "
                "torch.distributed"
            )
        if rank is None or world_size is None:
            return None, None
        world_size = whole("world_size", world_size, 1, _WORLD_SIZE_MAX)
        return whole("rank", rank, 0, world_size - 1), world_size

    def _make_chooser(self, samples_per_epoch: int | None) -> Weights | Sampler | None:
        if self.sampler is not None:
            if not hasattr(self.sampler, "__iter__"):
                raise ValueError(f"sampler is {self.sampler!r}, but must be an iterable of numbers")
            return Sampler(self.sampler, self.dataset)
        if not self.shuffle or self.dataset.weights is None:
            if samples_per_epoch is not None:
                raise ValueError(
                    "samples_per_epoch: for a dataset with weights and shuffle=True only"
                )
            return None
        if samples_per_epoch is None:
            return Weights(self.dataset, len(self.dataset), self.seed)
        return Weights(self.dataset, whole("samples_per_epoch", samples_per_epoch, 0), self.seed)

    def __len__(self) -> int:
        """Batches of an epoch, the same on every rank (but for those of samplers)."""
        self._follow_world()
        samples = self._samples if self._chooser is None else len(self._chooser)
        return -(-self._epoch_end(samples) // (self.batch_size * self.world_size))

    def __iter__(self) -> Iterator[Any]:
        self._follow_world()
        # Lightning calls iter() just to see whether it can: that shall not cost an epoch.
        now = self._next if self._taken else self._begun
        # Also those of an epoch that was left in its middle.
        now = {**now, "bad": self._now()["bad"]}
        if self._chooser is not None:
            now = self._choose(now, self._chooser)
        elif not self._feed.is_here:  # in a forked child
            self._open_feed(self.dataset.core)
        self._feed.start(json.dumps({name: now[name] for name in _POSITION}))
        self._started = True
        self._resumes = False
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

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """The next iter() begins this epoch, counted from 0; a sampler is told so too.

        Where it is the one that load_state_dict(), close() or unpickling left in its middle, that
        iter() goes on there, so that a loop that sets each epoch may resume.
        """
        number = whole("set_epoch: epoch", epoch, 0, 2**32 - 1)
        self._epoch_was_set = True
        if not (self._resumes and self._next["epoch"] == number):
            self._go_to({"epoch": number, "position": 0, "bad": self._now()["bad"]})

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
        if not isinstance(state, Mapping):
            raise ValueError(f"load_state_dict: {state!r} is no state of a Loader")
        missing = {*own, *_POSITION} - set(state)
        if missing:
            raise ValueError(f"load_state_dict: not a Loader's state, {sorted(missing)} is missing")
        for name, value in own.items():
            if state[name] != value:
                raise ValueError(
                    f"load_state_dict: the state's {name} is {state[name]!r}, the loader's is "
                    f"{value!r}"
                )
        for name, most in (("epoch", 2**32 - 2), ("position", 2**63 - 1)):
            whole(f"load_state_dict: the state's {name}", state[name], 0, most)
        if not isinstance(state["bad"], list) or not all(
            isinstance(bad, Mapping) and set(bad) >= _OF_BAD for bad in state["bad"]
        ):
            raise ValueError("load_state_dict: the state's bad is no list of bad samples")
        samples = state.get("samples", self._samples)
        end = self._epoch_end(whole("load_state_dict: the state's samples", samples, 0))
        if self.sampler is None and state["position"] > end:
            raise ValueError(
                f"load_state_dict: the state's position is {state['position']}, behind the end of "
                f"an epoch ({end})"
            )
        self._go_behind(dict(state))

    def stats(self) -> dict[str, float]:
        """Where the time went, and what was done.

        Returns:
            "wait_seconds": of the loop, for batches; of these, "core_wait_seconds": for what is
            decoded, not for functions of yours or copies. "samples", "bytes_read",
            "made_on_gpu" (samples, with `decode`; of batches ahead of the loop too). Of all threads
            that decode together: "prepare_cpu_seconds", "starved_seconds" (waiting for what is
            read), "idle_seconds" (batches enough were ready). Of those that read:
            "read_cpu_seconds", "reading_seconds". All but wait_seconds since the threads began:
            close() ends them, and with samplers and weights each epoch has its own.
        """
        core = self._feed.stats()
        return {
            "wait_seconds": self._wait_seconds,
            "core_wait_seconds": core.wait_ns * 1e-9,
            "samples": core.samples,
            "bytes_read": core.bytes_read,
            "made_on_gpu": core.made_on_gpu,
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
        with open(os.fspath(path), "w", encoding="utf-8") as file:
            feed.start_trace()
            try:
                yield
            finally:
                file.write(feed.stop_trace())

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
        if self._chooser is not None:
            return "weights"
        return "shuffled" if self.shuffle else "stored"

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
        self._resumes = True

    def _go_to(self, position: dict[str, Any]) -> None:
        self._next = position
        self._started = False
        self._taken = True
        self._epoch_was_set = True
        self._resumes = False

    def _own_world(self) -> tuple[int, int]:
        rank, world_size = own_world()
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
            return {**self._next, "bad": [dict(bad) for bad in self._next["bad"]]}
        now = json.loads(self._behind)
        if self._chosen is not None:
            for bad in now["bad"][self._bad_before :]:
                bad["sample"] = int(self._chosen[bad["sample"]])
            now |= {"sampled": self._sampled, "samples": len(self._chosen)}
        return now

    def _open_feed(self, core: _core.Dataset) -> None:
        self._feed = _core.Feed(core, self._options)
        self._started = False

    def _choose(self, begin: dict[str, Any], chooser: Weights | Sampler) -> dict[str, Any]:
        """Opens a feed over the samples of the epoch that begins; where it begins."""
        epoch, chosen = chooser.choose(begin["epoch"], self._epoch_was_set)
        self._epoch_was_set = False
        sampled = hashlib.sha256(chosen.tobytes()).hexdigest()
        if begin.get("sampled", sampled) != sampled:
            raise ValueError(
                f"sampler: it does not give the samples of epoch {epoch} that it gave when the "
                "state was made; give it the same seed, and set_epoch() where its order is to "
                "depend on the epoch"
                if self.sampler is not None
                else f"the samples of epoch {epoch} are not those that were drawn when the state "
                "was made; give the dataset the same weights, and the same samples_per_epoch"
            )
        too_few = self.drop_last and self._epoch_end(len(chosen)) == 0
        if too_few:
            chosen = chosen[:0]
        self._options.drop_last = self.drop_last and not too_few
        self._options.set_drawn_for(numbers_of_draws(chosen, len(self.dataset)))
        self._chosen, self._sampled = chosen, sampled
        self._bad_before = len(begin["bad"])
        self._open_feed(self.dataset.core.select(chosen.astype(np.uint64)))
        return {**begin, "epoch": epoch}

    def _given(self, iteration: int, warned: int) -> Iterator[Any]:
        """The epoch for the user."""
        if self._mover is None and (self.device is not None or self.pin_memory):
            self._mover = Mover(self.device, self._normalizing)
        mover = self._mover
        ready = self._in_turn(iteration)
        if mover or self.batch_transform is not None or self._assemble.runs_python:
            finish = partial(self._finish, self._chosen, mover)
            pull, is_ready = partial(self._pull, iteration), partial(self._is_ready, iteration)
            ready = ahead(pull, is_ready, finish, self.prefetch_factor)
        self._monitor.begin(self.stats())
        with contextlib.closing(ready), self._bar() as bar:
            while (one := self._waited_for(ready)) is not None:
                self._behind = one.state
                self._taken = True
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
                # Held by the loop alone: what it lets go of shall go.
                batch = [one.batch if mover is None else mover.receive(one.batch)]
                del one
                yield batch.pop()
                self._check_current(iteration)
        self._taken = True
        self._next["bad"] = self._now()["bad"]

    def _waited_for(self, ready: Iterator[Ready]) -> Ready | None:
        begin = time.perf_counter()
        one = next(ready, None)
        self._wait_seconds += time.perf_counter() - begin
        return one

    def _bar(self) -> Any:
        """The epoch's progress bar, or None, as a context."""
        if not self._progress:
            return contextlib.nullcontext()
        from tqdm.auto import tqdm

        now = json.loads(self._behind)
        done = now["position"] // (self.batch_size * self.world_size)
        try:
            total = len(self)
        except TypeError:  # of a sampler without a length
            total = None
        return tqdm(total=total, initial=done, desc=f"epoch {now['epoch']}", unit="batch")

    def _in_turn(self, iteration: int) -> Generator[Ready, None, None]:
        while (pulled := self._pull(iteration)) is not None:
            made = [dataclasses.replace(pulled, batch=self._assemble(pulled.batch, self._chosen))]
            del pulled
            yield made.pop()

    def _finish(
        self,
        chosen: NDArray[np.int64] | None,
        mover: Mover | None,
        batch: Any,
        stop: threading.Event,
    ) -> Any:
        """With the user's functions applied, and on its way; in a thread of Python."""
        with contextlib.nullcontext() if mover is None else mover.working():
            made = self._assemble(batch, chosen, stop)
        if self.batch_transform is not None and not isinstance(self.batch_transform, Mixing):
            made = self.batch_transform(made)
        return made if mover is None else mover.send(made)

    def _pull(self, iteration: int) -> Ready | None:
        """The feed's next batch; None at the epoch's end."""
        self._check_current(iteration)
        batch = self._feed.next()
        if batch is None:
            return None
        return Ready(batch, self._feed.state(), self._feed.bad_samples)

    def _is_ready(self, iteration: int) -> bool:
        self._check_current(iteration)
        return self._feed.is_ready()

    def _check_current(self, iteration: int) -> None:
        if iteration != self._iterations or not self._started or not self._feed.is_here:
            raise RuntimeError(
                "forebay.Loader: this epoch was ended by a newer iter(), set_epoch(), "
                "load_state_dict() or close(), or by a fork; call iter() again"
            )
