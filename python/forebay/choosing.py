"""Which samples an epoch has, and in which order, where it is not each of a dataset's once."""

import dataclasses
import hashlib
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.checks import whole
from forebay.dataset import Dataset

_DRAW_MAX = 2**48 - 1  # as the core's random numbers are named


@dataclasses.dataclass(frozen=True)
class Chosen:
    """An epoch's samples, by their numbers in the dataset, in their order."""

    samples: NDArray[np.int64]

    @cached_property
    def digest(self) -> str:
        """What tells them from others."""
        return hashlib.sha256(self.samples.tobytes()).hexdigest()


def numbers_of_draws(chosen: NDArray[np.int64], samples: int) -> NDArray[np.uint64]:
    """What the augmentation of each is drawn for: the sample, and how often it came before.

    Args:
        chosen: An epoch's samples, in their order.
        samples: That there are.
    """
    order = np.argsort(chosen, kind="stable")
    ordered = chosen[order]
    at = np.arange(len(chosen))
    first = np.where(np.diff(ordered, prepend=-1) != 0, at, 0)
    before = np.empty_like(chosen)
    before[order] = at - np.maximum.accumulate(first)
    return ((chosen + before * samples) & _DRAW_MAX).astype(np.uint64)


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
        self._samples = samples
        self._seed = seed

    def __len__(self) -> int:
        return self._samples

    def is_set(self) -> bool:
        """As Sampler's: never."""
        return False

    def forget(self) -> None:
        """As Sampler's."""

    def choose(self, epoch: int) -> tuple[int, NDArray[np.int64]]:
        """The epoch, and its samples' numbers."""
        bounds = self._bounds
        raw = np.random.PCG64([self._seed, epoch]).random_raw(self._samples)
        uniform = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53
        # Rounding may reach the last bound, behind which there is nothing.
        last = int(np.searchsorted(bounds, bounds[-1]))
        return epoch, np.minimum(np.searchsorted(bounds, uniform * bounds[-1], side="right"), last)


class _Ours(int):
    """An epoch that was set here, not by the sampler's user."""


class Sampler:
    """What a user's sampler gives.

    Its epoch is set where it has a set_epoch(), as DistributedSampler, and its user has not set one
    since the last epoch.

    Args:
        sampler: An iterable of numbers.
        dataset: That they are of.
    """

    def __init__(self, sampler: Any, dataset: Dataset) -> None:
        self._sampler = sampler
        self._dataset = dataset
        # That no user of it set.
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

    def choose(self, epoch: int) -> tuple[int, NDArray[np.int64]]:
        """The epoch, the loader's unless the sampler's user has set it; its samples' numbers."""
        if self.is_set():
            epoch = int(self._sampler.epoch)
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(_Ours(epoch))
            # One that keeps but the number cannot tell who set it.
            kept = getattr(self._sampler, "epoch", None)
            self._unset = None if isinstance(kept, _Ours) else kept
        return epoch, self._numbers()

    def _numbers(self) -> NDArray[np.int64]:
        given = self._sampler if hasattr(self._sampler, "__array__") else list(self._sampler)
        try:
            numbers = np.asarray(given)
        except ValueError:  # lists of unequal lengths
            numbers = np.empty((1, 0), object)
        if numbers.size == 0 and numbers.ndim == 1:
            return np.empty(0, np.int64)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            what = "lists" if numbers.ndim > 1 else f"{numbers.dtype} {list(numbers.shape)}"
            raise ValueError(
                f"sampler: it gives {what}, but must give whole numbers, one for each sample (for "
                "a mask: Dataset.filter; for batches: batch_size)"
            )
        count = len(self._dataset)
        if numbers.min() < 0 or numbers.max() >= count:
            raise IndexError(
                f"sampler: it gives {numbers.min()} to {numbers.max()}, but {self._dataset.path} "
                f"has {count} samples"
            )
        return numbers.astype(np.int64)


def make_chooser(
    dataset: Dataset, sampler: Any, samples_per_epoch: int | None, *, shuffle: bool, seed: int
) -> Weights | Sampler | None:
    """By a Loader's arguments; None: each of the dataset's samples once, which the core chooses."""
    draws = sampler is None and shuffle and dataset.weights is not None
    if samples_per_epoch is not None and not draws:
        raise ValueError("samples_per_epoch: for a dataset with weights and shuffle=True only")
    if sampler is not None:
        if not hasattr(sampler, "__iter__"):
            raise ValueError(f"sampler is {sampler!r}, but must be an iterable of numbers")
        return Sampler(sampler, dataset)
    if not draws:
        return None
    if samples_per_epoch is None:
        return Weights(dataset, len(dataset), seed)
    return Weights(dataset, whole("samples_per_epoch", samples_per_epoch, 0), seed)
