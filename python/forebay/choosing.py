"""Which samples an epoch has, and in which order, where it is not each of a dataset's once."""

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.checks import whole
from forebay.dataset import Dataset

_DRAW_MAX = 2**48 - 1  # the largest number that the core names a stream of random numbers by
# The most samples of a batch, like the core's limit (base/limits.h).
_BATCH_MAX = 2**20
_END = object()  # in place of an item where there are no more
# How many samples are taken of a sampler at once where it does not say how many it gives.
_BLOCK_SAMPLES = 2**16


class Chosen:
    """An epoch's samples, by their numbers in the dataset, in their order; or the next of them.

    Args:
        samples: At least those of a batch, unless nothing follows.
        draws: What the augmentation of each is drawn for.
        ends: Where each batch ends, counted in `samples`; None: all batches have one size.
        before: How many samples of the epoch came before these.
        steps_before: How many batches of the epoch came before these.
        following: Chooses what comes after them; None: nothing does.
    """

    def __init__(
        self,
        samples: NDArray[np.int64],
        draws: NDArray[np.uint64],
        *,
        ends: NDArray[np.uint64] | None = None,
        before: int = 0,
        steps_before: int = 0,
        following: "Callable[[], Chosen] | None" = None,
    ) -> None:
        self.samples = samples
        self.draws = draws
        self.ends = ends
        self.before = before
        self.steps_before = steps_before
        self._choose_following = following
        self._following: Chosen | None = None

    @cached_property
    def digest(self) -> str:
        """What tells them from others."""
        return hashlib.sha256(self.samples.tobytes()).hexdigest()

    @property
    def has_following(self) -> bool:
        """Whether the epoch has samples after these."""
        return self._choose_following is not None

    def following(self) -> "Chosen":
        """The samples after these; the same at each call."""
        if self._following is None:
            assert self._choose_following is not None
            self._following = self._choose_following()
        return self._following

    def identity(self) -> dict[str, Any]:
        """What a Loader's state says of them (states.CHOSEN)."""
        return {
            "sampled": self.digest,
            "samples": len(self.samples),
            "before": self.before,
            "more": self.has_following,
        }


class _Draws:
    """Numbers what the augmentation is drawn for: the sample, and how often it came before.

    Args:
        samples: That the dataset has.
    """

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._came: NDArray[np.int64] | None = None  # how often each sample came, once some did

    def number(self, chosen: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The numbers of an epoch's next samples."""
        order = np.argsort(chosen, kind="stable")
        ordered = chosen[order]
        at = np.arange(len(chosen))
        first = np.where(np.diff(ordered, prepend=-1) != 0, at, 0)
        times = np.empty_like(chosen)
        times[order] = at - np.maximum.accumulate(first)
        if self._came is not None:
            times += self._came[chosen]
        return ((chosen + times * self._samples) & _DRAW_MAX).astype(np.uint64)

    def count(self, chosen: NDArray[np.int64]) -> None:
        """These came, and others follow."""
        now = np.bincount(chosen, minlength=self._samples)
        self._came = now if self._came is None else self._came + now


class Weights:
    """Draws by a dataset's weights, with replacement: a function of the seed and the epoch alone.

    Args:
        dataset: One with weights.
        samples: Drawn in an epoch.
        seed: Of the draws.
    """

    def __init__(self, dataset: Dataset, samples: int, seed: int) -> None:
        assert dataset.weights is not None
        if not dataset.weights.any():
            raise ValueError("dataset: all its samples have the weight 0; nothing can be drawn")
        self._bounds = np.cumsum(dataset.weights / dataset.weights.max())
        self._dataset = dataset
        self._samples = samples
        self._seed = seed

    def __len__(self) -> int:
        return self._samples

    def is_set(self) -> bool:
        """Whether somebody else set the epoch, which nobody can."""
        return False

    def forget(self) -> None:
        """Does nothing: no epoch can have been set."""

    def choose(self, epoch: int, before: int = 0, count: int | None = None) -> tuple[int, Chosen]:
        """The epoch, and its samples; they are drawn as a whole, whatever came before."""
        bounds = self._bounds
        raw = np.random.PCG64([self._seed, epoch]).random_raw(self._samples)
        uniform = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53
        # Rounding may reach the last bound, after which there is nothing.
        last = int(np.searchsorted(bounds, bounds[-1]))
        drawn = np.minimum(np.searchsorted(bounds, uniform * bounds[-1], side="right"), last)
        return epoch, Chosen(drawn, _Draws(len(self._dataset)).number(drawn))


class _Ours(int):
    """An epoch that was set here, not by the sampler's user."""


class Sampler:
    """What a user's sampler gives.

    Its epoch is set where it has a set_epoch(), like DistributedSampler, and its user has not set
    one since the last epoch.

    Args:
        sampler: An iterable of samples' numbers, or of lists of them, one list a batch.
        dataset: Has the samples.
        batch: Samples of a batch; None: the sampler gives batches.
    """

    def __init__(self, sampler: Any, dataset: Dataset, batch: int | None) -> None:
        self._sampler = sampler
        self._dataset = dataset
        self._batch = batch
        # An epoch that the sampler has without anybody having set it.
        self._unset = getattr(sampler, "epoch", None)

    def __len__(self) -> int:
        return len(self._sampler)

    def is_set(self) -> bool:
        """Whether its user has set its epoch since the last one was chosen."""
        own = getattr(self._sampler, "epoch", None)
        return own is not None and not isinstance(own, _Ours) and own != self._unset

    def forget(self) -> None:
        """What was set up to now counts for nothing: the loader was told its place."""
        self._unset = getattr(self._sampler, "epoch", None)

    def choose(self, epoch: int, before: int = 0, count: int | None = None) -> tuple[int, Chosen]:
        """The epoch, the loader's unless the sampler's user has set it; its samples.

        Args:
            epoch: From 0.
            before: How many samples are passed over.
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
    """What a sampler gives, block by block, as there may be no end of it."""

    def __init__(self, sampler: Any, dataset: Dataset, batch: int | None) -> None:
        # Arrays give Python's own numbers, which are faster to go through one by one.
        is_array = hasattr(sampler, "__array__")
        given = np.atleast_1d(np.asarray(sampler)).tolist() if is_array else sampler
        self._items: Iterator[Any] = iter(given)
        self._dataset = dataset
        self._name = "batch_sampler" if batch is None else "sampler"
        self._draws = _Draws(len(dataset))
        self._came = 0  # samples
        self._batches_came = 0  # where it gives batches
        self._batch = batch
        self._looked_at: Any = _END  # taken of the items to see whether there are more
        try:
            self._block = max(len(sampler), _BLOCK_SAMPLES)
        except TypeError:
            self._block = _BLOCK_SAMPLES
        if batch is not None:
            self._block = -(-self._block // batch) * batch

    def skip(self, count: int) -> None:
        """Passes over that many samples, which count as having come."""
        while self._came < count:
            numbers, _ = self._read(min(self._block, count - self._came))
            if len(numbers) == 0:
                return
            self._came += len(numbers)
            self._draws.count(numbers)

    def take(self, count: int | None = None) -> Chosen:
        """The next samples: so many, or a block."""
        before = self._came
        steps = self._batches_came if self._batch is None else before // self._batch
        numbers, ends = self._read(self._block if count is None else count)
        draws = self._draws.number(numbers)
        self._came += len(numbers)
        more = self._has_more()
        if more:
            self._draws.count(numbers)
        following = self.take if more else None
        return Chosen(
            numbers, draws, ends=ends, before=before, steps_before=steps, following=following
        )

    def _has_more(self) -> bool:
        if self._looked_at is _END:
            self._looked_at = next(self._items, _END)
        return self._looked_at is not _END

    def _items_left(self, count: int) -> Iterator[Any]:
        """The next items, so many at most."""
        if count > 0 and self._has_more():
            item, self._looked_at = self._looked_at, _END
            yield item
            yield from itertools.islice(self._items, count - 1)

    def _read(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.uint64] | None]:
        """At least that many samples, where there are so many; where each batch of them ends."""
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
        if not 0 < len(batch) <= _BATCH_MAX:
            raise ValueError(
                f"batch_sampler: it gives a batch of {len(batch)} samples, but a batch must have "
                f"from 1 to {_BATCH_MAX}"
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


def make_chooser(
    dataset: Dataset,
    sampler: Any,
    batch_sampler: Any,
    samples_per_epoch: int | None,
    *,
    batch: int,
    shuffle: bool,
    seed: int,
) -> Weights | Sampler | None:
    """By a Loader's arguments; None: each of the dataset's samples once, which the core chooses."""
    draws = sampler is None and batch_sampler is None and shuffle and dataset.weights is not None
    if samples_per_epoch is not None and not draws:
        raise ValueError("samples_per_epoch: for a dataset with weights and shuffle=True only")
    for name, one in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if one is not None and not hasattr(one, "__iter__"):
            raise ValueError(f"{name} is {one!r}, but must be an iterable of numbers")
    if batch_sampler is not None:
        return Sampler(batch_sampler, dataset, None)
    if sampler is not None:
        return Sampler(sampler, dataset, batch)
    if not draws:
        return None
    if samples_per_epoch is None:
        return Weights(dataset, len(dataset), seed)
    return Weights(dataset, whole("samples_per_epoch", samples_per_epoch, 0), seed)


def check_batch(
    batch_size: Any,
    sampler: Any,
    batch_sampler: Any,
    *,
    shuffle: bool,
    drop_last: bool,
    has_rank: bool,
) -> int | None:
    """A Loader's batch size, None with a batch_sampler.

    Raises:
        ValueError: The arguments do not go together.
    """
    if batch_sampler is None:
        if sampler is not None and (shuffle or has_rank):
            raise ValueError(
                "sampler: it chooses the order and this rank's samples itself; leave out shuffle, "
                "rank and world_size"
            )
        return whole("batch_size", batch_size, 1, _BATCH_MAX)
    is_default = batch_size is None or (type(batch_size) is int and batch_size == 1)
    if not is_default or shuffle or drop_last or sampler is not None or has_rank:
        raise ValueError(
            "batch_sampler: it chooses the batches itself; leave out batch_size, shuffle, sampler, "
            "drop_last, rank and world_size"
        )
    return None
