"""Batches for training, in place of torch.utils.data.DataLoader."""

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, SupportsIndex

import numpy as np

from forebay import _core, states
from forebay.batches import Assembler
from forebay.checks import flag, whole
from forebay.choosing import Chosen, Sampler, Weights, check_batch, make_chooser
from forebay.compatibility import tell_unused
from forebay.dataset import Dataset, warn_without_labels
from forebay.decoding import check_damaged
from forebay.devices import Mover, can_pin, check_device, open_decoder
from forebay.epoch import Epoch
from forebay.iteration import Batches, progress_bar
from forebay.locks import ProcessLock
from forebay.mixing import Mixing
from forebay.monitor import Monitor
from forebay.options import feed_options, seconds, seed_of
from forebay.pipelines import split
from forebay.place import Place, beginning
from forebay.ranks import WORLD_SIZE_MAX, check_world, own_world, threads_of
from forebay.transform_kinds import Transforms

# Like the core's limit (feed/options.cc).
_PREFETCH_MAX = 1024


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
    ranks with the same batch_size x world_size (but for what `even_batches` repeats). Any thread
    may call anything; one epoch runs at a time, and what iter() gave before it raises
    RuntimeError. A copy, also in another process, begins the epoch that is not over yet at its
    beginning; state_dict() carries a position.

    A sample that cannot be decoded is replaced by another one when shuffled, else left out of its
    batch; a warning names it, and `bad_samples` lists it.

    Args:
        dataset: A Dataset, or what one is opened from: a packed dataset, a folder of images by
            class, or tar shards.
        batch_size: Samples of a batch, on this rank; None with a batch_sampler.
        shuffle: Whether samples come in a random order, another one in each epoch; of a dataset
            with weights (Dataset.weighted, concat), whether they are drawn by them.
        sampler: Gives the numbers of an epoch's samples, on this rank: any iterable of int, like
            torch.utils.data.Sampler, also one without end; its set_epoch(), where it has one, is
            called with each epoch's number unless you called it yourself. Without `shuffle`,
            `rank` and `world_size`.
        batch_sampler: Gives lists of numbers, one for each batch, like
            torch.utils.data.BatchSampler; batches may have different sizes. Without `batch_size`,
            `shuffle`, `sampler`, `drop_last`, `rank` and `world_size`.
        transform: What is done to each sample: forebay.transforms; or torchvision's own, v1 or v2,
            a Compose, a list of them, or a model's weights.transforms(). After these any functions
            of your own: each gets an image as a tensor (NumPy array without PyTorch) of the batch's
            layout, uint8 or as Normalize made it, and gives what the next one gets; threads of
            Python run them ahead of the loop. From the first of torchvision's on that the core has
            not, the rest runs in Python too, on what torchvision gives it there (a Pillow image
            until ToTensor or ToImage); a UserWarning says so. Without a crop, or a Resize with both
            sides, images must have the size of the dataset's first one; others are samples that
            cannot be used. None: images as they are, uint8 [3, height, width].
        target_transform: A function of each label (int, -1: none), as torchvision's datasets take
            it. What it gives becomes one tensor where it is numbers, or arrays of one shape, else
            a list; a collate_fn gets it as it is.
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
        even_batches: Whether, without `drop_last`, every rank has as many samples in an epoch's
            last batch, and at least one: up to world_size - 1 samples of the epoch's beginning
            come again in it. Else each sample comes once, and some ranks may have fewer samples in
            the last batch, or none. None: yes when shuffled.
        samples_per_epoch: How many are drawn, of a dataset with weights; None: as many as it has.
        dtype: "float32", "bfloat16" or "float16", with Normalize; "uint8" without; None: "float32"
            or "uint8".
        channels_last: Whether images are [height, width, 3].
        prefetch_factor: Batches that are prepared ahead.
        seed: The order, the augmentation and the generators of your functions depend on it; not on
            torch.manual_seed(), which seeds other generators than theirs. A function that has a
            parameter `generator` gets a torch.Generator, one with `rng` a numpy.random.Generator,
            seeded by the seed, the epoch and the sample, until it returns: the same for any number
            of threads and ranks, and after resuming. For collate_fn and batch_transform the step
            and the samples of this rank's batch take the sample's place. From 0 to 2^64 - 1; None:
            the initial seed of `generator`, else 0.
        generator: A torch.Generator whose initial seed is the seed, where `seed` is None.
        rank: This process's number, and
        world_size: how many share an epoch; None: those of torch.distributed, else RANK and
            WORLD_SIZE, else alone, asked again until the first iter(). Every rank has the same
            number of batches.
        on_bad: "replace" or "skip" a sample that cannot be used; None: as said above.
        damaged: "refuse": a sample whose pixels' data is damaged cannot be used; "decode": a JPEG
            becomes what libjpeg-turbo makes of it, with grey where rows are missing. What damage
            is: docs/images.md.
        bad_samples_max: After more samples that cannot be used the epoch ends with an error.
        memory_bytes_max: Bytes that chunks and batches may take together, the batches that you hold
            among them. Near this limit fewer batches are prepared ahead; a batch that does not fit
            beside those that you hold raises MemoryError, and comes when some of them are gone.
        pin_memory: Whether tensors are in page-locked memory, from where a GPU copies faster; the
            copy into it is made by threads ahead of the loop.
        device: "cuda", "cuda:1" or a torch.device: batches are there already. Images cross the bus
            as bytes, on a stream of their own, and are normalised there (before the bus where
            RandomErasing or a function of yours comes after Normalize); the next
            `prefetch_factor` batches lie on the device too. None: this machine's memory.
        decode: Where JPEGs are decoded, of batches on a GPU without functions of yours: "cpu";
            "gpu", as far as it can (baseline JPEGs with restart markers or small ones, as packed
            datasets have them), the rest by the CPU; "auto": by both, and by the GPU as little as
            keeps the loop from waiting. The same pixels, wherever.
        progress: Whether each epoch shows a progress bar (package tqdm).
        timeout: Seconds that the loop waits for one batch before next() raises RuntimeError; the
            next call waits for the same batch again. 0: without limit.
        worker_init_fn, persistent_workers, multiprocessing_context, pin_memory_device, in_order:
            DataLoader's arguments of its worker processes; taken, and told once that they mean
            nothing here.

    Raises:
        ValueError: Options that make no sense; the message names them.
        FileNotFoundError, DataError: As Dataset.
    """

    def __init__(
        self,
        dataset: Dataset | str | os.PathLike[str],
        batch_size: int | None = 1,
        shuffle: bool | None = False,
        sampler: Any = None,
        batch_sampler: Any = None,
        *,
        transform: Transforms | None = None,
        target_transform: Callable[..., Any] | None = None,
        fields: Sequence[str] | Mapping[str, str] = ("image", "label"),
        collate_fn: Callable[..., Any] | None = None,
        batch_transform: Callable[..., Any] | Mixing | None = None,
        num_workers: int | None = None,
        drop_last: bool = False,
        even_batches: bool | None = None,
        samples_per_epoch: int | None = None,
        dtype: str | None = None,
        channels_last: bool = False,
        prefetch_factor: int | None = 2,
        seed: int | None = None,
        generator: Any = None,
        rank: int | None = None,
        world_size: int | None = None,
        on_bad: str | None = None,
        damaged: str = "refuse",
        bad_samples_max: int = 100,
        memory_bytes_max: int = 4_000_000_000,
        pin_memory: bool = False,
        device: Any = None,
        decode: str = "cpu",
        progress: bool = False,
        timeout: float = 0,
        worker_init_fn: Any = None,
        persistent_workers: bool = False,
        multiprocessing_context: Any = None,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name != "self"}
        tell_unused(
            worker_init_fn=worker_init_fn,
            persistent_workers=persistent_workers,
            multiprocessing_context=multiprocessing_context,
            pin_memory_device=pin_memory_device,
            in_order=not in_order,
        )
        self.dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
        self.shuffle = flag("shuffle", bool(shuffle) if shuffle is None else shuffle)
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.drop_last = flag("drop_last", drop_last)
        self.seed, self.generator = seed_of(seed, generator), generator
        # What only the seed counts of, or nothing, need not be picklable.
        unused = dict.fromkeys(("generator", "worker_init_fn", "multiprocessing_context"))
        self._arguments = {**arguments, **unused, "seed": self.seed}
        self.num_workers = threads_of(num_workers)
        self.prefetch_factor = whole(
            "prefetch_factor", 2 if prefetch_factor is None else prefetch_factor, 1, _PREFETCH_MAX
        )
        self.timeout = seconds("timeout", timeout)
        self.collate_fn = collate_fn
        self.batch_transform = batch_transform
        self.batch_size = check_batch(
            batch_size,
            sampler,
            batch_sampler,
            shuffle=self.shuffle,
            drop_last=self.drop_last,
            has_rank=rank is not None or world_size is not None,
        )
        chooses = sampler is not None or batch_sampler is not None
        self._asked_world = (0, 1) if chooses else check_world(rank, world_size)
        self.rank, self.world_size = self._asked_world or own_world()
        whole("batch_size x world_size", self._global_batch(), 1, 2**32 - 1)
        self._chooser = make_chooser(
            self.dataset,
            sampler,
            batch_sampler,
            samples_per_epoch,
            batch=self._global_batch(),
            shuffle=self.shuffle,
            seed=self.seed,
        )
        self._samples = len(self.dataset) if samples_per_epoch is None else len(self._chooser or [])
        self.even_batches = (
            self.shuffle if even_batches is None else flag("even_batches", even_batches)
        )
        if on_bad not in (None, "replace", "skip"):
            raise ValueError(f"on_bad is {on_bad!r}, but must be 'replace' or 'skip'")
        if flag("progress", progress) and find_spec("tqdm") is None:
            raise ValueError("progress: its bar is the package tqdm's; pip install tqdm")

        pipeline = split(transform, channels_last=flag("channels_last", channels_last))
        if pipeline.in_python is not None:
            warnings.warn(f"forebay.Loader: transform: {pipeline.in_python}", stacklevel=2)
        self._assemble = Assembler(
            self.dataset,
            fields,
            pipeline.functions,
            target_transform,
            collate_fn,
            batch_transform,
            seed=self.seed,
            whole=pipeline.core is None,
            channels_last=channels_last,
        )
        if self._assemble.wants("label"):
            warn_without_labels(self.dataset)
        self.device = check_device(device)
        self.pin_memory = flag("pin_memory", pin_memory) and can_pin()
        on_host = self.device is None or self._assemble.uses_images
        makes_tensor = pipeline.core is not None and self._assemble.wants("image")
        decoder = open_decoder(decode, self.device if makes_tensor and not on_host else None)
        self._options, self._normalizing = feed_options(
            pipeline.core,
            dtype,
            channels_last=channels_last,
            with_image=self._assemble.wants("image"),
            with_file=self._assemble.wants("file"),
            later=[] if on_host or decoder else self._assemble.places("image"),
            dataset=self.dataset,
        )
        if decoder is not None:
            self._options.device, self._options.decode = decoder
        self._options.global_batch = self._global_batch()
        self._options.rank, self._options.world_size = self.rank, self.world_size
        self._options.seed = self.seed
        self._options.shuffle = self.shuffle and self._chooser is None
        self._options.next_epoch = self._chooser is None
        self._options.replace_bad = self.shuffle if on_bad is None else on_bad == "replace"
        self._options.drop_last = self.drop_last and self._chooser is None
        self._options.even_ranks = self.even_batches
        self._options.damaged = check_damaged(damaged)
        self._options.threads = self.num_workers
        self._options.prefetch = self.prefetch_factor
        self._options.bad_samples_max = whole("bad_samples_max", bad_samples_max, 0)
        self._options.memory_bytes_max = whole("memory_bytes_max", memory_bytes_max, 1)
        if self._chooser is None and self._samples > 0 and self._epoch_end(self._samples) == 0:
            warnings.warn(
                f"forebay.Loader: {self.dataset.path} has {self._samples} samples, fewer than one "
                f"batch of all ranks ({self._global_batch()}), and drop_last leaves them out: "
                "epochs have no batches",
                stacklevel=2,
            )
        self._progress = progress
        self._mover: Mover | None = None  # made by the first iter()
        self._monitor = Monitor(self.num_workers)
        # Held while the place or the feed changes, and never while functions of the user run.
        self._lock = ProcessLock()
        self._place = Place()
        self._open_feed()
        self._names = {"_names", *self.__dict__}  # attributes that a copy makes for itself

    def _global_batch(self) -> int:
        """Samples of a batch over all ranks; 1 where a batch_sampler chooses."""
        return (self.batch_size or 1) * self.world_size

    def __len__(self) -> int:
        """Batches of an epoch, the same on every rank (but for those of samplers)."""
        self._follow_world()
        samples = self._samples if self._chooser is None else len(self._chooser)
        if self.batch_sampler is not None:
            return samples
        return -(-self._epoch_end(samples) // self._global_batch())

    def __iter__(self) -> Iterator[Any]:
        self._follow_world()
        with self._lock.here():
            begun = self._place.next()
            # Lightning calls iter() just to see whether it can: that shall not cost an epoch.
            chosen = None if self._place.is_begun else self._place.kept
        if self._chooser is not None and (chosen is None or self._chooser.is_set()):
            begun, chosen = self._choose(begun, self._chooser)
        if self._mover is None and (self.device is not None or self.pin_memory):
            self._mover = Mover(self.device, self._normalizing)
        with self._lock.here():
            if chosen is not None or not self._feed.is_here:  # or in a forked child
                self._open_feed(chosen)
            samples = self._samples if chosen is None else len(chosen.samples)
            epoch = Epoch(
                self._feed,
                begun,
                chosen,
                is_empty=self._epoch_end(samples) == 0,
            )
            self._place.begin(epoch, chosen)
        ahead = self.prefetch_factor
        return Batches(
            epoch,
            partial(epoch.batches, self._assemble, self._mover, ahead, self._open_following),
            mover=self._mover,
            bar=partial(self._bar, epoch),
            monitor=self._monitor,
            timeout=self.timeout,
        )

    def __getstate__(self) -> dict[str, Any]:
        """For a copy: it begins the epoch that is not over yet, at its beginning."""
        arguments = {**self._arguments, "dataset": self.dataset}
        of_subclass = {k: v for k, v in self.__dict__.items() if k not in self._names}
        return {"arguments": arguments, "epoch": self.epoch, "of_subclass": of_subclass}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Loader.__init__(self, **state["arguments"])
        self.__dict__.update(state["of_subclass"])
        self._place.go_to(beginning(state["epoch"]))

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the threads and gives memory back; a later iter() goes on after the last batch."""
        with self._lock.here():
            now, running = self._place.now(), self._place.running
            kept = self._place.kept if running is None else running.stand.chosen
            self._place.resume(now, is_over=self._is_over(now), kept=kept)
            self._open_feed()

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """The next iter() begins this epoch, counted from 0; a sampler is told so too.

        Where it is the one that load_state_dict() or close() left in its middle, that iter() goes
        on there, so that a loop that sets each epoch may resume.
        """
        number = whole("set_epoch: epoch", epoch, 0, 2**32 - 1)
        with self._lock.here():
            place = self._place
            if self._chooser is not None:
                self._chooser.forget()
            if not (place.resumes and not place.is_begun and place.next()["epoch"] == number):
                place.go_to(beginning(number, place.now()["bad"]))

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
        """Where the loader stands: after the batch that was given last. Fit for JSON."""
        return {**self._identity(), **self._now()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next iter() goes on where state_dict() was called, at any world size.

        A state from an epoch's end goes on with the next epoch. With a sampler the next iter()
        raises ValueError where it does not give the samples that it gave before.

        Raises:
            ValueError: The state is of another dataset or seed, or none of a loader.
        """
        state = states.checked(state, self._identity())
        samples, position = state.get("samples", self._samples), state["position"]
        # Where ranks are evened out, an epoch ends some positions after its last sample.
        if self._chooser is None and position >= samples + WORLD_SIZE_MAX:
            raise ValueError(
                f"load_state_dict: the state's position is {position}, after the end of an epoch "
                f"({samples})"
            )
        batch = self._global_batch()
        if position < self._epoch_end(samples) and position % batch != 0:
            raise ValueError(
                f"load_state_dict: the state's position is {position}, but must be a multiple of "
                f"batch_size x world_size, which is {batch}; give both as they were"
            )
        with self._lock.here():
            if self._chooser is not None:
                self._chooser.forget()
            self._place.resume(state, is_over=self._is_over(state))

    def stats(self) -> dict[str, float]:
        """Where the time went, and what was done.

        Returns:
            "wait_seconds": of the loop, for batches; of these, "core_wait_seconds": for what is
            decoded, not for functions of yours or copies. "samples", "bytes_read",
            "made_on_gpu" (samples, with `decode`; of batches ahead of the loop too). Of all threads
            that decode together: "prepare_cpu_seconds", "starved_seconds" (waiting for what is
            read), "idle_seconds" (batches enough were ready). Of those that read:
            "read_cpu_seconds", "reading_seconds". "batch_bytes_peak": the most memory that batches
            have taken at the same time. All but wait_seconds since the threads began: close() ends
            them, and with samplers and weights each epoch has its own.
        """
        return self._monitor.stats(self._feed)

    @contextlib.contextmanager
    def trace(self, path: str | os.PathLike[str]) -> Iterator[None]:
        """Writes a timeline of what runs inside the `with`: threads, batches, waits.

        The file is JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open. With samplers
        and weights enter it after iter().
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
            "version": states.VERSION,
            "seed": self.seed,
            "order": self._order(),
            "dataset": self.dataset.fingerprint,
        }

    def _order(self) -> str:
        if isinstance(self._chooser, Sampler):
            return "sampler"
        if self._chooser is not None:
            return "weights"
        return "shuffled" if self.shuffle else "stored"

    def _epoch_end(self, samples: int) -> int:
        """The position after the last sample that is used."""
        batch = self._global_batch()
        return samples // batch * batch if self.drop_last else samples

    def _is_over(self, state: dict[str, Any]) -> bool:
        """Whether a state is an epoch's end; one that is empty has none."""
        end = self._epoch_end(state.get("samples", self._samples))
        return not state.get("more") and 0 < end <= state["position"]

    def _follow_world(self) -> None:
        """Between epochs, takes the rank that torch.distributed has got since the loader was made.

        Lightning makes its processes' group in fit(), when the loader is there already.
        """
        world = self._asked_world or own_world()
        with self._lock.here():
            if self._place.running is not None or world == (self.rank, self.world_size):
                return
            self.rank, self.world_size = world
            self._options.rank, self._options.world_size = self.rank, self.world_size
            self._options.global_batch = self._global_batch()
            self._open_feed()

    def _open_feed(self, chosen: Chosen | None = None) -> None:
        """An idle one: of the dataset, or where samples are chosen, of those, if they are yet."""
        core = self.dataset.core
        if self._chooser is not None:
            samples = np.empty(0, np.int64) if chosen is None else chosen.samples
            used = samples[: self._epoch_end(len(samples))]
            draws = np.empty(0, np.uint64) if chosen is None else chosen.draws[: len(used)]
            self._options.set_drawn_for(draws)
            core = core.select(used.astype(np.uint64))
        if self.batch_sampler is not None:
            ends = np.empty(0, np.uint64) if chosen is None or chosen.ends is None else chosen.ends
            self._options.set_step_ends(ends)
            self._options.global_batch = int(np.diff(ends, prepend=np.uint64(0)).max(initial=1))
        self._feed = _core.Feed(core, self._options)

    def _open_following(self, epoch: Epoch, chosen: Chosen) -> _core.Feed:
        """Gives a running epoch the feed of its next samples."""
        with self._lock.here():
            epoch.current_feed()  # raises where the epoch was ended meanwhile
            self._open_feed(chosen)
            epoch.feed = self._feed
            return self._feed

    def _now(self) -> dict[str, Any]:
        """Epoch, position and bad samples after the batch that was given last."""
        with self._lock.here():
            return self._place.now()

    def _choose(
        self, begun: dict[str, Any], chooser: Weights | Sampler
    ) -> tuple[dict[str, Any], Chosen]:
        """Where the epoch begins, and its samples."""
        count = begun["samples"] if begun.get("more") else None
        epoch, chosen = chooser.choose(begun["epoch"], begun.get("before", 0), count)
        if epoch != begun["epoch"]:  # as was set on the sampler
            begun = beginning(epoch, begun["bad"])
        if begun.get("sampled", chosen.digest) != chosen.digest:
            raise ValueError(
                f"sampler: it does not give the samples of epoch {epoch} that it gave when the "
                "state was made; give it the same seed, and set_epoch() where its order is to "
                "depend on the epoch"
                if isinstance(chooser, Sampler)
                else f"the samples of epoch {epoch} are not those that were drawn when the state "
                "was made; give the dataset the same weights, and the same samples_per_epoch"
            )
        return begun, chosen

    def _bar(self, epoch: Epoch) -> Any:
        """The epoch's progress bar; None where none is wanted."""
        if not self._progress:
            return None
        try:
            total = len(self)
        except TypeError:  # of a sampler without a length
            total = None
        return progress_bar(epoch, total, self._global_batch())
