"""Chooses an epoch's samples and their order, unless each of the dataset's samples comes once."""

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay import _core
from forebay.data.dataset import Dataset
from forebay.loading.options import Options

_END = object()  # marks the end of a sampler
# How many samples are taken at once from a sampler without a length, or with a smaller one.
_BLOCK_SAMPLES = 2**16


class EpochSamples:
    """The next samples of an epoch, or all of them, by their numbers in the dataset.

    Args:
        samples: Their numbers in their order; at least one batch of them, unless nothing follows.
        draws: The number that each sample's augmentation is drawn for, up to 2^48 - 1.
        ends: Where each batch ends, counted in `samples`; None: all batches have one size.
        before: How many samples of the epoch came before these.
        steps_before: How many batches of the epoch came before these.
        following: Chooses the samples that come after these; None: these are the last ones.
    """

    def __init__(
        self,
        samples: NDArray[np.int64],
        draws: NDArray[np.uint64],
        *,
        ends: NDArray[np.uint64] | None = None,
        before: int = 0,
        steps_before: int = 0,
        following: "Callable[[], EpochSamples] | None" = None,
    ) -> None:
        self.count = len(samples)
        self._samples = samples
        self._draws = draws
        self.ends = ends
        self.before = before
        self.steps_before = steps_before
        self._select_following = following
        self._following: EpochSamples | Exception | None = None
        self._is_choosing = False  # whether a call of _select_following() began

    @cached_property
    def digest(self) -> str:
        """A text that identifies these samples."""
        return _digest(self._samples)

    def listed(self, end: int) -> _core.SampleList | None:
        """The first `end` of the samples for the core; None: the core draws them itself."""
        ends = np.empty(0, np.uint64) if self.ends is None else self.ends
        return _core.SampleList(self._samples[:end].astype(np.uint64), self._draws[:end], ends)

    @property
    def has_following(self) -> bool:
        """Whether the epoch has samples after these."""
        return self._select_following is not None

    def following(self) -> "EpochSamples | Exception":
        """The samples after these, or why they cannot be chosen; the same at each call."""
        if self._following is None:
            assert self._select_following is not None
            if self._is_choosing:  # an exception that is not an Exception ended it in the middle
                return RuntimeError(
                    "forebay.Loader: an exception came while the sampler was read, so that its "
                    "next samples are unknown; call iter() again"
                )
            self._is_choosing = True
            try:
                self._following = self._select_following()
            except Exception as error:
                self._following = error
        return self._following

    def identity(self) -> dict[str, Any]:
        """Returns what a Loader's state says about the samples (states.CHOSEN)."""
        return {
            "sampled": self.digest,
            "samples": self.count,
            "before": self.before,
            "more": self.has_following,
        }


class WeightedSamples(EpochSamples):
    """An epoch's samples that the core draws by weights.

    Args:
        count: How many there are.
        draw: Returns the samples; called if a state needs their digest.
    """

    def __init__(self, count: int, draw: Callable[[], NDArray[np.uint64]]) -> None:
        super().__init__(np.empty(0, np.int64), np.empty(0, np.uint64))
        self.count = count
        self._draw = draw

    @cached_property
    def digest(self) -> str:
        """A text that identifies these samples."""
        return _digest(self._draw().astype(np.int64))

    def listed(self, end: int) -> None:
        """Returns None, because the core draws these samples itself."""


def _digest(samples: NDArray[np.int64]) -> str:
    return hashlib.sha256(samples.tobytes()).hexdigest()


class _Draws:
    """The numbers that augmentation is drawn for, from the sample and how often it came before.

    Args:
        samples: How many samples the dataset has.
    """

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._came: NDArray[np.int64] | None = None  # how often each sample came, once some did

    def number(self, selected: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The numbers that the augmentation of an epoch's next samples is drawn for."""
        order = np.argsort(selected, kind="stable")
        ordered = selected[order]
        at = np.arange(len(selected))
        first = np.where(np.diff(ordered, prepend=-1) != 0, at, 0)
        times = np.empty_like(selected)
        times[order] = at - np.maximum.accumulate(first)
        if self._came is not None:
            times += self._came[selected]
        return ((selected + times * self._samples) & _core.DRAWN_FOR_MAX).astype(np.uint64)

    def count(self, selected: NDArray[np.int64]) -> None:
        """Counts samples that came, if others follow."""
        now = np.bincount(selected, minlength=self._samples)
        self._came = now if self._came is None else self._came + now


class Repeats:
    """Gives each sample several times in a row, for repeated augmentation.

    Hoffer et al., "Augment Your Batch", CVPR 2020. Ranks take the copies in turn. An epoch has as
    many samples as without repeating them, so only one in `repeats` of the dataset's samples.

    Args:
        samples: How many samples the dataset, and an epoch, has.
        repeats: How often each comes.
        shuffle: Whether each epoch has other samples; else all epochs have the first ones.
        seed: From 0 to 2^64 - 1.
    """

    def __init__(self, samples: int, repeats: int, seed: int, *, shuffle: bool) -> None:
        self._samples = samples
        self._repeats = repeats
        self._shuffle = shuffle
        self._seed = seed

    def __len__(self) -> int:
        return self._samples

    def is_set(self) -> bool:
        """Returns False, because nobody else can set the epoch."""
        return False

    def forget(self) -> None:
        """Does nothing, because nobody can have set an epoch."""

    def select(
        self, epoch: int, before: int = 0, count: int | None = None
    ) -> tuple[int, EpochSamples]:
        """The epoch and its samples: all of them, whatever came before."""
        samples = self.numbers(epoch)
        times = np.tile(np.arange(self._repeats), self._samples)[: self._samples]
        draws = (samples + times * self._samples) & _core.DRAWN_FOR_MAX
        return epoch, EpochSamples(samples, draws.astype(np.uint64))

    def numbers(self, epoch: int) -> NDArray[np.int64]:
        """The numbers of the epoch's samples, each several times in a row."""
        order = np.arange(self._samples)
        if self._shuffle:  # NumPy promises that these raw numbers never change
            raw = np.random.PCG64([self._seed, epoch]).random_raw(self._samples)
            order = np.argsort(raw, kind="stable")
        return np.repeat(order, self._repeats)[: self._samples]


class Weights:
    """Draws samples by a dataset's weights, with replacement, by the seed and the epoch alone.

    Args:
        dataset: Has weights that are not all 0.
        samples: How many are drawn in an epoch.
        seed: From 0 to 2^64 - 1.
    """

    def __init__(self, dataset: Dataset, samples: int, seed: int) -> None:
        assert dataset.weights is not None
        self._weights = _core.SampleWeights(dataset.weights)
        self._samples = samples
        self._seed = seed

    def __len__(self) -> int:
        return self._samples

    def is_set(self) -> bool:
        """Returns False, because nobody else can set the epoch."""
        return False

    def forget(self) -> None:
        """Does nothing, because nobody can have set an epoch."""

    def select(
        self, epoch: int, before: int = 0, count: int | None = None
    ) -> tuple[int, EpochSamples]:
        """The epoch and its samples: all of them, whatever came before."""
        draw = partial(self._weights.draw, self._seed, epoch, self._samples)
        return epoch, WeightedSamples(self._samples, draw)

    def order(self, samples: int) -> _core.Weighted:
        """Returns the core's order, whose epochs draw this number of samples."""
        return _core.Weighted(self._weights, samples)


class _Ours(int):
    """The number of an epoch that a Loader set, and not the user."""


class Sampler:
    """Chooses the samples that a user's sampler gives.

    If the sampler has a set_epoch(), like DistributedSampler, it is called with each epoch's
    number, unless the user has called it since the last epoch.

    Args:
        sampler: An iterable of samples' numbers, or of lists of them, one list for each batch.
        dataset: Has the samples.
        batch: How many samples a batch has; None: the sampler gives batches.
    """

    def __init__(self, sampler: Any, dataset: Dataset, batch: int | None) -> None:
        self._sampler = sampler
        self._dataset = dataset
        self._batch = batch
        # The epoch that the sampler had before anybody set it.
        self._unset = getattr(sampler, "epoch", None)

    def __len__(self) -> int:
        return len(self._sampler)

    def is_set(self) -> bool:
        """Whether the user has set the sampler's epoch since the last epoch was selected."""
        own = getattr(self._sampler, "epoch", None)
        return own is not None and not isinstance(own, _Ours) and own != self._unset

    def forget(self) -> None:
        """Ignores an epoch that was set on the sampler, because one was set on the loader later."""
        self._unset = getattr(self._sampler, "epoch", None)

    def select(
        self, epoch: int, before: int = 0, count: int | None = None
    ) -> tuple[int, EpochSamples]:
        """Returns the epoch (the loader's, unless another was set on the sampler) and its samples.

        Args:
            epoch: From 0.
            before: How many samples are skipped.
            count: How many are chosen at first; None: as many as the sampler says it has.
        """
        if self.is_set():
            if int(self._sampler.epoch) != epoch:
                before, count = 0, None
            epoch = int(self._sampler.epoch)
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(_Ours(epoch))
            # A sampler that keeps just the number cannot tell who set it.
            kept = getattr(self._sampler, "epoch", None)
            self._unset = None if isinstance(kept, _Ours) else kept
        stream = _Stream(self._sampler, self._dataset, self._batch)
        stream.skip(before)
        return epoch, stream.take(count)


class _Stream:
    """Reads a sampler block by block, because it may be endless."""

    def __init__(self, sampler: Any, dataset: Dataset, batch: int | None) -> None:
        # A list of Python's own numbers is faster to go through than an array.
        is_array = hasattr(sampler, "__array__")
        given = np.atleast_1d(np.asarray(sampler)).tolist() if is_array else sampler
        self._items: Iterator[Any] = iter(given)
        self._dataset = dataset
        self._name = "batch_sampler" if batch is None else "sampler"
        self._draws = _Draws(len(dataset))
        self._came = 0  # samples
        self._batches_came = 0  # if the sampler gives batches
        self._batch = batch
        self._looked_at: Any = _END  # an item that was taken to see whether there are more
        try:
            self._block = max(len(sampler), _BLOCK_SAMPLES)
        except TypeError:
            self._block = _BLOCK_SAMPLES
        if batch is not None:
            self._block = -(-self._block // batch) * batch

    def skip(self, count: int) -> None:
        """Skips that many samples, which count as having come."""
        while self._came < count:
            numbers, _ = self._read(min(self._block, count - self._came))
            if len(numbers) == 0:
                return
            self._came += len(numbers)
            self._draws.count(numbers)

    def take(self, count: int | None = None) -> EpochSamples:
        """The next `count` samples; None: a block of them."""
        before = self._came
        steps = self._batches_came if self._batch is None else before // self._batch
        numbers, ends = self._read(self._block if count is None else count)
        draws = self._draws.number(numbers)
        self._came += len(numbers)
        more = self._has_more()
        if more:
            self._draws.count(numbers)
        following = self.take if more else None
        return EpochSamples(
            numbers, draws, ends=ends, before=before, steps_before=steps, following=following
        )

    def _has_more(self) -> bool:
        if self._looked_at is _END:
            self._looked_at = next(self._items, _END)
        return self._looked_at is not _END

    def _items_left(self, count: int) -> Iterator[Any]:
        """The next items, at most `count` of them."""
        if count > 0 and self._has_more():
            item, self._looked_at = self._looked_at, _END
            yield item
            yield from itertools.islice(self._items, count - 1)

    def _read(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.uint64] | None]:
        """Returns the next samples, at least `count` unless fewer are left, and batch ends."""
        if self._batch is not None:
            return self._checked(list(self._items_left(count))), None
        batches: list[NDArray[np.int64]] = []
        taken = 0
        while taken < count and self._has_more():
            batches += map(self._checked_batch, self._items_left(1))
            taken += len(batches[-1])
        self._batches_came += len(batches)
        ends = np.cumsum([len(batch) for batch in batches], dtype=np.uint64)
        return np.concatenate([np.empty(0, np.int64), *batches]), ends

    def _checked_batch(self, item: Any) -> NDArray[np.int64]:
        if not isinstance(item, Iterable) or isinstance(item, str):
            raise ValueError(
                f"batch_sampler: it gives {item!r}, but must give lists of whole numbers, one list "
                "for each batch (for single numbers: sampler)"
            )
        batch = self._checked(list(item))
        if not 0 < len(batch) <= _core.BATCH_MAX:
            raise ValueError(
                f"batch_sampler: it gives a batch of {len(batch)} samples, but a batch must have "
                f"from 1 to {_core.BATCH_MAX}"
            )
        return batch

    def _checked(self, given: list[Any]) -> NDArray[np.int64]:
        try:
            numbers = np.asarray(given)
        except ValueError:  # lists of unequal lengths
            numbers = np.empty((1, 0), object)
        if numbers.size == 0 and numbers.ndim == 1:
            return np.empty(0, np.int64)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            what = "lists" if numbers.ndim > 1 else f"{numbers.dtype} {list(numbers.shape)}"
            raise ValueError(
                f"{self._name}: it gives {what}, but must give whole numbers, one for each sample "
                "(for a mask: Dataset.filter; for lists, one a batch: batch_sampler)"
            )
        count = len(self._dataset)
        if numbers.min() < 0 or numbers.max() >= count:
            raise IndexError(
                f"{self._name}: it gives {numbers.min()} to {numbers.max()}, but "
                f"{self._dataset.path} has {count} samples"
            )
        return numbers.astype(np.int64)


def make_epoch_sampler(options: Options, batch: int) -> Weights | Sampler | Repeats | None:
    """The object that chooses an epoch's samples; None: the core takes each sample once.

    Args:
        options: The Loader's.
        batch: Samples of a batch over all ranks.
    """
    dataset, seed = options.dataset, options.seed
    if options.batch_sampler is not None:
        return Sampler(options.batch_sampler, dataset, None)
    if options.sampler is not None:
        return Sampler(options.sampler, dataset, batch)
    if options.repeats > 1:
        return Repeats(len(dataset), options.repeats, seed, shuffle=options.shuffle)
    return None if options.draws is None else Weights(dataset, options.draws, seed)
