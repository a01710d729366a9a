"""Batches for training, to be used in place of torch.utils.data.DataLoader."""

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, SupportsIndex

from forebay import _core
from forebay.checks import warn_of_former_name, whole
from forebay.data.cache import Cache
from forebay.data.dataset import Dataset
from forebay.files import replacing
from forebay.loading.assembler import Assembler
from forebay.loading.attributes import LoaderAttributes
from forebay.loading.epoch import Epoch
from forebay.loading.epoch_source import EpochSource
from forebay.loading.feed_options import feed_options
from forebay.loading.iteration import Batches, progress_bar
from forebay.loading.monitor import Monitor
from forebay.loading.mover import Mover
from forebay.loading.options import NOT_COPIED, check
from forebay.loading.position import EpochPosition, Position
from forebay.loading.prep import Prep, server_figures
from forebay.loading.samplers import EpochSamples
from forebay.locks import ProcessLock
from forebay.transforms.kinds import Transforms
from forebay.transforms.mixing import Mixing


class Loader(LoaderAttributes):
    """Batches of images, decoded, cropped and normalised by threads, without Python.

    Packed datasets are faster than folders in place: only the part of an image that a crop needs is
    decoded, and no file is opened for a single sample.

    Iterating gives the pairs (images, labels) of one epoch. With a transform images are [samples,
    3, height, width], or with `channels_last` [samples, height, width, 3]; labels are int64
    [samples], -1 for a sample without a class, or what Dataset.with_labels made of others, float32
    [samples, n] or [samples]. Both are tensors if PyTorch is installed, else NumPy arrays. A
    batch's memory is not used again while anything refers to the batch. Each iter() begins the next
    epoch, unless no batch was taken from the one before. The order and the augmentation depend on
    the seed, the epoch and the dataset's content alone: they are the same for any number of
    threads, and for any number of ranks with the same batch_size x world_size (except for the
    samples that `even_batches` repeats). Any thread may call any method. One epoch runs at a time:
    a newer iter() ends it, and its batches then raise RuntimeError. A copy, also in another
    process, begins the unfinished epoch again from its beginning; state_dict() carries a position.

    A sample that cannot be decoded (a bad sample) is replaced by another one when shuffled, else
    left out of its batch; a warning names it, and `bad_samples` lists it.

    Args:
        dataset: A Dataset, or the path of a packed dataset, a folder of images by class, or tar
            shards.
        batch_size: Samples of a batch on this rank, from 1 to 2^20; None with a batch_sampler.
        shuffle: Whether samples come in a random order, a new one in each epoch. For a dataset with
            weights (Dataset.weighted, concat): whether samples are drawn by the weights.
        sampler: Gives the numbers of an epoch's samples on this rank: any iterable of int, like
            torch.utils.data.Sampler, also an endless one. If it has a set_epoch(), this is called
            with each epoch's number, unless you called it yourself. It cannot be combined with
            `shuffle`, `rank` and `world_size`.
        batch_sampler: Gives lists of numbers, one list for each batch, like
            torch.utils.data.BatchSampler; batches may have different sizes. It cannot be combined
            with `batch_size`, `shuffle`, `sampler`, `drop_last`, `rank` and `world_size`.
        transform: The transforms of each sample: forebay.transforms; or torchvision's own, v1 or
            v2, as a Compose, a list, or a model's weights.transforms(). Functions of your own may
            follow: each gets an image as a tensor (without PyTorch a NumPy array) of the batch's
            layout, uint8 or as Normalize made it, and its result goes to the next function. Several
            views of an image (a list, tuple or dict) are collated like DataLoader does it. Python
            threads run them ahead of the loop. The first of torchvision's transforms that the core
            does not have, and everything after it, also run in Python, on the kind of image that
            torchvision would give them (a Pillow image until ToTensor or ToImage); a UserWarning
            says so. Without a crop or a Resize to (height, width), images must have the size of the
            dataset's first image; others are bad samples. None: images stay as they are, uint8 [3,
            height, width].
        target_transform: A function of each label (int, -1: none; of others a float or a tensor
            [n]), like torchvision's datasets take. Its results become one tensor if they are
            numbers, or arrays of one shape, else a list; a collate_fn gets them unchanged.
        fields: The fields of a batch: "image", "label", "index" (the sample's number), "key" (its
            name), "file" (the bytes of its image file), any of Dataset.columns, a further image by
            its name in Dataset's `images`, or targets of a Dataset with `annotations` or `masks`,
            such as "boxes", "masks", "mask", "target" (docs/targets.md). A sequence gives tuples; a
            mapping gives dicts: {"pixels": "image", "y": "label"}. Without "image" nothing is
            decoded. Numbers come as tensors, texts and bytes as lists.
        collate_fn: Makes a batch from a list of samples, each a tuple or dict of fields, like
            DataLoader's. It runs in a thread ahead of the loop, and is not called for a batch
            without samples. None: images are stacked; without a transform they are a list, because
            each has its own size.
        batch_transform: MixUp, CutMix or a RandomChoice of them (forebay.mixing), which turn labels
            into float32 [samples, classes]; or a function of your own, which gets the finished
            batch and returns the batch for the loop. It runs in up to `prefetch_factor` threads
            ahead of the loop.
        num_workers: How many threads decode, up to 1024; None or 0: one for each core that this
            process may use, divided by the number of the job's processes on this machine
            (LOCAL_WORLD_SIZE).
        drop_last: Whether an incomplete last batch is left out.
        even_batches: Without `drop_last`: whether all ranks have the same number of samples in an
            epoch's last batch, and at least one; up to world_size - 1 samples from the epoch's
            beginning then come again. False: each sample comes once, and some ranks may have fewer
            samples in the last batch, or none. None: True when shuffled.
        samples_per_epoch: How many samples an epoch draws from a dataset with weights; None: as
            many as the dataset has.
        repeats: How many times in a row each sample comes, with different augmentations, given to
            the ranks in turn. An epoch does not get longer by this, so it has only some of the
            dataset's samples.
        dtype: "float32", "bfloat16" or "float16" with Normalize; "uint8" without. None: "float32"
            or "uint8".
        channels_last: Whether images are [height, width, 3].
        prefetch_factor: How many batches are prepared ahead, from 1 to 1024; None: 2.
        seed: The order, the augmentation and the generators of your functions depend on it; from 0
            to 2^64 - 1. torch.manual_seed() changes nothing here. A function with a parameter
            `generator` gets a torch.Generator, and one with `rng` a numpy.random.Generator, which
            belong to the function until it returns. They depend on the seed, the epoch and the
            sample, and are the same for any number of threads and ranks, and after resuming. For
            collate_fn and batch_transform they depend on the step and the samples of this rank's
            batch instead of the sample. None: the initial seed of `generator`, else 0.
        generator: A torch.Generator whose initial seed is the seed if `seed` is None.
        rank: This process's number, from 0.
        world_size: How many processes share an epoch, up to 65536. If both are None, they come from
            torch.distributed, else from RANK and WORLD_SIZE, else this process is alone; until the
            first iter() they are looked up again. Every rank has the same number of batches.
        on_bad: "replace" or "skip" bad samples; None: "replace" when shuffled, else "skip".
        damaged: "refuse": a sample with damaged pixel data is a bad sample. "decode": a damaged
            JPEG becomes what libjpeg-turbo makes of it, with grey for missing rows. docs/images.md
            says what counts as damage.
        orientation: "apply": images are mirrored and turned by their orientation tags before
            anything else, like Pillow's ImageOps.exif_transpose, and boxes, masks and keypoints
            with them. "ignore": they stay as they are stored. docs/images.md says more.
        bad_samples_max: With more bad samples than this the epoch ends with an error.
        memory_bytes_max: How many bytes chunks and batches may take together, including the batches
            that you hold. Near this limit fewer batches are prepared ahead. If a batch does not fit
            beside the batches that you hold, next() raises MemoryError; call it again after you
            have released some of them.
        regions: "auto": of images that come over a network from a packed dataset, only the parts
            that their crops need are read, if that saves bytes. "never": images are read as a
            whole. The batches are the same, except that damage outside of a crop goes unseen;
            `forebay verify` finds it.
        pin_memory: Whether tensors are in page-locked memory, from which a GPU copies faster;
            threads ahead of the loop copy them there.
        device: "cuda", "cuda:1" or a torch.device to which batches go. Images cross the bus as
            bytes, on separate streams, and are normalised on the device (before the bus if a
            function of yours comes after Normalize); the next `prefetch_factor` batches are on the
            device too. None: this machine's memory.
        decode: Where JPEGs are decoded, for batches on a GPU without functions of yours. "auto":
            the CPU decodes, and the GPU only as much as is needed to keep the loop from waiting.
            "gpu": the GPU decodes what it can (baseline JPEGs with restart markers or small ones,
            as packed datasets have them), and the CPU the rest. "cpu": only the CPU decodes. The
            pixels are the same everywhere.
        pad_targets: Whether boxes, labels, masks and keypoints are one tensor for the batch, as
            long as its sample with the most objects needs; samples with fewer objects are filled
            with -1 for labels and 0 for the others. False: each is a list of tensors, one for each
            sample.
        tv_tensors: Whether images, boxes, masks and keypoints have torchvision's types Image,
            BoundingBoxes, Mask and KeyPoints (docs/targets.md says more).
        progress: Whether each epoch shows a progress bar (package tqdm).
        timeout: How many seconds the loop waits for one batch before next() raises RuntimeError;
            the next call waits for the same batch again. 0: no limit.
        storage_options, index_cache: If the dataset is a URL: the same as Dataset's.
        cache, cache_bytes: If the dataset is a path: the same as Dataset's. Remote data that
            several machines of a job need then comes once (docs/cache.md).
        prep: Prep servers, which prepare a share of the batches on other machines (docs/prep.md):
            "https://HOST:PORT", a list of these, or a Prep.
        worker_init_fn, persistent_workers, multiprocessing_context, pin_memory_device, in_order:
            DataLoader's arguments for its worker processes. They have no effect here; a warning
            says so once.

    Raises:
        ValueError: An option is invalid, or options do not fit together; the message names them.
        FileNotFoundError, DataError: The same as Dataset's.
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
        repeats: int = 1,
        dtype: str | None = None,
        channels_last: bool = False,
        prefetch_factor: int | None = 2,
        seed: int | None = None,
        generator: Any = None,
        rank: int | None = None,
        world_size: int | None = None,
        on_bad: str | None = None,
        damaged: str = "refuse",
        orientation: str = "ignore",
        bad_samples_max: int = 100,
        memory_bytes_max: int = 4_000_000_000,
        regions: str = "auto",
        pin_memory: bool = False,
        device: Any = None,
        decode: str = "auto",
        pad_targets: bool = False,
        tv_tensors: bool = False,
        progress: bool = False,
        timeout: float = 0,
        storage_options: Mapping[str, Any] | None = None,
        index_cache: str | os.PathLike[str] | None = None,
        cache: Cache | str | os.PathLike[str] | None = None,
        cache_bytes: int | str | None = None,
        prep: Prep | str | Sequence[str] | None = None,
        worker_init_fn: Any = None,
        persistent_workers: bool = False,
        multiprocessing_context: Any = None,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name != "self"}
        for message in (options := check(arguments)).warnings:
            warnings.warn(message, stacklevel=2)
        self._arguments = {**arguments, **dict.fromkeys(NOT_COPIED), "seed": options.seed}
        self._show(options, arguments)
        self._assemble = Assembler(options)
        core_options, self._normalizing = feed_options(options)
        self._source = EpochSource(options, core_options)
        self._progress = options.progress
        self._monitor = Monitor(self.num_workers, needs_servers=options.batch_sampler is None)
        self._mover: Mover | None = None  # made by the first iter()
        # Held while the position or the feed changes, and never while the user's functions run.
        self._lock = ProcessLock()
        self._place = Position()
        self._running: Epoch | None = None  # the last iter()'s epoch, until it ends
        self._feed = self._source.open()
        self._names = {"_names", *self.__dict__}  # attributes that a copy makes for itself

    @property
    def rank(self) -> int:
        """This process's number among those that share an epoch, from 0."""
        return self._source.rank

    @property
    def world_size(self) -> int:
        """How many processes share an epoch."""
        return self._source.world_size

    def __len__(self) -> int:
        """How many batches an epoch has, the same on every rank (unless samplers differ)."""
        return len(self._own_source())

    def __iter__(self) -> Batches:
        self._follow_world()
        with self._lock.here():
            place = self._place
        begun, selected = self._source.select(place)
        if self._mover is None and (self.device is not None or self.pin_memory):
            self._mover = Mover(self.device, self._normalizing)
        with self._lock.here():
            if not self._feed.is_here:  # in a forked child
                self._feed = self._source.open()
            is_empty, listed = self._source.is_empty(selected), self._source.listed(selected)
            epoch = Epoch(self._feed, begun, selected, listed, is_empty=is_empty)
            self._go_to(self._place.iterate(begun, selected), running=epoch)
        ahead = self.prefetch_factor
        return Batches(
            epoch,
            partial(epoch.batches, self._assemble, self._mover, ahead, self._go_on),
            take=partial(self._take, epoch),
            give_back=partial(self._give_back, epoch),
            finish=partial(self._finish, epoch),
            mover=self._mover,
            bar=partial(self._bar, begun, selected),
            monitor=self._monitor,
            cache=self.dataset.cache,
            timeout=self.timeout,
            length=partial(len, self),
        )

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy, which begins the unfinished epoch from its beginning."""
        arguments = {**self._arguments, "dataset": self.dataset}
        of_subclass = {k: v for k, v in self.__dict__.items() if k not in self._names}
        return {"arguments": arguments, "epoch": self.epoch, "of_subclass": of_subclass}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Loader.__init__(self, **state["arguments"])
        self.__dict__.update(state["of_subclass"])
        self._place = self._place.set_epoch(state["epoch"])

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the threads and frees memory; a later iter() continues after the last batch."""
        with self._lock.here():
            is_over = self._source.is_over(self._place.now())
            self._go_to(self._place.close(is_over=is_over))
            self._feed = self._source.open()

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """Makes the next iter() begin this epoch, counted from 0; a sampler is told so too.

        If load_state_dict() or close() left this epoch unfinished, the next iter() continues it, so
        that a loop that sets each epoch can resume.
        """
        number = whole("set_epoch: epoch", epoch, 0, _core.EPOCH_MAX)
        with self._lock.here():
            self._source.forget()
            place = self._place.set_epoch(number)
            if place is not self._place:
                self._go_to(place)

    @property
    def epoch(self) -> int:
        """The first unfinished epoch, to resume with `for epoch in range(loader.epoch, …)`."""
        now = self._now()
        return now["epoch"] + self._source.is_over(now)

    @property
    def bad_samples(self) -> list[dict[str, Any]]:
        """The bad samples so far, each with its sample, chunk, key and reason."""
        return self._now()["bad"]

    def state_dict(self) -> dict[str, Any]:
        """The Loader's position, after the last batch that the loop got, as a dict fit for JSON."""
        return {**self._source.identity(), **self._now()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iter() continue where state_dict() was called, at any world size.

        A state from an epoch's end continues with the next epoch. With a sampler, the next iter()
        raises ValueError if the sampler does not give the same samples as before.

        Raises:
            ValueError: The state belongs to another dataset or seed, or is not a Loader's state.
        """
        state = self._source.checked(state)
        with self._lock.here():
            self._source.forget()
            self._go_to(self._place.load(state, is_over=self._source.is_over(state)))

    def stats(
        self, *, price_per_1000_requests: float | None = None, price_per_gb: float | None = None
    ) -> dict[str, float]:
        """Where the time went, what was done, and what that cost.

        Args:
            price_per_1000_requests: The object store's price for 1000 requests, in any currency.
            price_per_gb: Its price for sending 10^9 bytes.

        Returns:
            "wait_seconds": how long the loop waited for batches; "core_wait_seconds": how much of
            this was for the core, rather than for functions of yours or copies. "samples",
            "bytes_read", and "made_on_gpu" (samples, with `decode`): what was done, also for
            batches ahead of the loop. "prepare_cpu_seconds", "starved_seconds" (waiting for data to
            be read) and "idle_seconds" (enough batches were ready): the times of all decoding
            threads together. "read_cpu_seconds", "reading_seconds": the times of the reading
            threads. "whole_bytes": what "bytes_read" would be if every image were read as a whole
            (`regions`); "requests": how many reads there were, and "ranges": how many runs of bytes
            they had. "batch_bytes_peak": the most memory that batches have taken at the same time.

            Network traffic for the dataset, also of other Loaders, and 0 on local disks:
            "http_requests" and, among these, "retries" (after a failed request) and "hedges"
            (beside a slow request); "wire_bytes_received", "wire_bytes_sent": with headers.
            "link_latency_seconds" (from a request to its answer's first byte) and
            "link_bytes_per_second": current values, 0 if unknown. "cost": only with a price; of
            http_requests and wire_bytes_received.

            A dataset with a cache adds the numbers of Cache.stats(). Their names begin with
            "cache", as in "cache_origin_bytes", and they count what all datasets of this process do
            with the cache.

            All but wait_seconds count since the threads began: close() ends them.

        Raises:
            ValueError: A price is negative or not a finite number.
        """
        stats = self._monitor.stats(self._feed, price_per_1000_requests, price_per_gb)
        if self.dataset.cache is not None:
            cache = self.dataset.cache.stats()
            stats |= {f"cache_{k}": v for k, v in cache.items() if not isinstance(v, bool | str)}
        return stats

    def prep_servers(self) -> list[dict[str, Any]]:
        """What each prep server (`prep`) did since the threads began; docs/prep.md explains it."""
        return server_figures(self._feed.prep_stats())

    def near_sides(self) -> list[dict[str, Any]]:
        """The old name of `prep_servers`."""
        warn_of_former_name("Loader.near_sides()", "Loader.prep_servers()")
        return self.prep_servers()

    @contextlib.contextmanager
    def trace(self, path: str | os.PathLike[str]) -> Iterator[None]:
        """Writes a timeline of the threads, batches and waits inside the `with`.

        The file is JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open. It is written at
        the end.

        Raises:
            OSError: The file cannot be written.
        """
        feed = self._feed
        with replacing(path, "trace") as write:
            feed.start_trace()
            try:
                yield
            finally:
                write([feed.stop_trace()])

    def _now(self) -> dict[str, Any]:
        """Epoch, position and bad samples after the last batch that the loop got."""
        with self._lock.here():
            return self._place.now()

    def _own_source(self) -> EpochSource:
        """The source of epochs, with the rank that this process has now."""
        self._follow_world()
        return self._source

    def _go_to(self, place: Position, running: Epoch | None = None) -> None:
        """Ends the running epoch; then the Loader's position is `place`, and `running` runs."""
        if self._running is not None:
            self._running.end()
        self._place, self._running = place, running

    def _take(self, epoch: Epoch, epoch_position: EpochPosition) -> None:
        """Notes that the loop got a batch of this epoch."""
        with self._lock.here():
            if epoch is self._running and self._place.epoch_position is not epoch_position:
                self._place = self._place.take(epoch_position)

    def _give_back(self, epoch: Epoch, epoch_position: EpochPosition) -> None:
        """Notes that the loop did not get the batch of this position after all."""
        with self._lock.here():
            if epoch is self._running and self._place.epoch_position is epoch_position:
                self._place = self._place.give_back()

    def _finish(self, epoch: Epoch, epoch_position: EpochPosition | None) -> None:
        """Notes that the loop saw the end of this epoch."""
        with self._lock.here():
            if epoch is self._running and self._place.epoch_position is not None:
                self._place = self._place.finish(epoch_position, is_empty=epoch.is_empty)

    def _follow_world(self) -> None:
        """Between epochs, takes the rank that torch.distributed got after the Loader was made.

        Lightning makes its process group in fit(), when the Loader already exists.
        """
        with self._lock.here():
            if self._running is None and self._source.follow_world():
                self._feed = self._source.open()

    def _go_on(
        self, epoch: Epoch, state: dict[str, Any], following: EpochSamples
    ) -> Exception | None:
        """Continues a running epoch at a state, with the samples that follow (Epoch.go_on)."""
        with self._lock.here():
            return epoch.go_on(state, following, self._source.listed(following))

    def _bar(self, begun: dict[str, Any], selected: EpochSamples | None) -> Any:
        """The epoch's progress bar; None if none is wanted."""
        if not self._progress:
            return None
        return progress_bar(begun, selected, partial(len, self), self._source.global_batch)
