"""The part of Dataset that selects samples: views of the same files, nothing is copied."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forebay.checks import whole
from forebay.data.columns import DatasetColumns, frozen
from forebay.data.splitting import part_counts, strata, stratified

if TYPE_CHECKING:
    from forebay.data.dataset import Dataset


class DatasetSelecting(DatasetColumns):
    """Parts of a Dataset, and weights of its samples."""

    _weights: NDArray[np.float64] | None = None

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """How often a shuffling Loader draws each sample, in proportion [samples]; None: once."""
        return None if self._weights is None else frozen(self._weights)

    def subset(self, indices: ArrayLike) -> "Dataset":
        """The samples with these numbers, in this order; a number may appear several times.

        Nothing is copied. For a slice use `dataset.subset(range(100))`, for a boolean mask
        `filter`.

        Raises:
            IndexError: A number is not that of a sample.
            ValueError: The numbers are not integers in one dimension.
        """
        numbers = np.asarray(indices)
        if numbers.size == 0:
            numbers = numbers.astype(np.int64)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise ValueError(
                f"subset: indices are {numbers.dtype} {list(numbers.shape)}, but must be integers "
                "in one dimension (for a mask: filter)"
            )
        numbers = numbers.astype(np.int64)
        wrong = numbers[(numbers < -len(self)) | (numbers >= len(self))]
        if wrong.size:
            raise IndexError(f"{self.path} has {len(self)} samples, no sample {wrong[0]}")
        return self._selected(np.where(numbers < 0, numbers + len(self), numbers))

    def filter(self, condition: ArrayLike | Callable[[dict[str, Any]], bool]) -> "Dataset":
        """The samples for which the condition is true, in their order; reads no image.

        Args:
            condition: Booleans [samples], such as `dataset.targets == 3` or
                `dataset.column("width") >= 64`; or a function of one sample's columns, such as
                `lambda sample: "cat" in sample["key"]`.
        """
        if callable(condition):
            columns = {name: self.column(name) for name in self.columns}
            kept = np.array(
                [
                    bool(condition({name: column[i] for name, column in columns.items()}))
                    for i in range(len(self))
                ],
                dtype=bool,
            )
        else:
            kept = np.asarray(condition)
        if kept.dtype != bool or kept.shape != (len(self),):
            raise ValueError(
                f"filter: the condition is {kept.dtype} {list(kept.shape)}, but must be bool "
                f"[{len(self)}]"
            )
        return self.subset(np.flatnonzero(kept))

    def split(
        self, *sizes: float, seed: int = 0, stratify: bool | str | ArrayLike = False
    ) -> list["Dataset"]:
        """Disjoint random parts, each in the dataset's order: `training, rest = d.split(0.9, 0.1)`.

        Args:
            sizes: The parts' sizes, like torch.utils.data.random_split's: numbers of samples (int),
                or shares of the dataset that sum to 1 (float).
            seed: From 0 to 2^64 - 1. The choice depends on the seed, the sizes, the number of
                samples and what `stratify` names alone.
            stratify: True: each part has the same share of each class, as far as whole samples
                allow. The name of a column, or a value for each sample [samples]: the same for its
                values.

        Raises:
            ValueError: The sizes do not fit, or samples have no single class to stratify by.
        """
        seed = whole("split: seed", seed, 0, 2**64 - 1)
        counts = part_counts(sizes, len(self))
        # NumPy promises that these raw numbers never change.
        shuffled = np.argsort(np.random.PCG64(seed).random_raw(len(self)), kind="stable")
        if stratify is False:
            parts = np.split(shuffled, np.cumsum(counts)[:-1])
        else:
            name = "label" if stratify is True else stratify
            values = self.column(name) if isinstance(name, str) else np.asarray(name)
            if len(np.atleast_1d(values)) != len(self):
                raise ValueError(f"split: stratify has {values.size} values, not {len(self)}")
            if stratify is True and (values == -1).all() and len(self):
                raise ValueError(
                    "split: stratify=True needs a class for each sample, but no sample has one; "
                    "with_labels gives classes, or name a column"
                )
            parts = stratified(shuffled, strata(values), counts)
        return [self.subset(np.sort(part)) for part in parts]

    def weighted(self, weights: ArrayLike) -> "Dataset":
        """The same samples; a Loader that shuffles draws them with these weights.

        An epoch then has as many draws as the dataset has samples (or Loader's
        `samples_per_epoch`), with replacement, like torch.utils.data.WeightedRandomSampler.

        Args:
            weights: [samples], not negative, in any proportion, and not all 0.
        """
        own = np.array(weights, dtype=np.float64)  # the caller may change its array
        if own.shape != (len(self),):
            raise ValueError(f"weighted: {list(own.shape)} weights for {len(self)} samples")
        if not (np.isfinite(own).all() and (own >= 0).all() and own.any()):
            raise ValueError("weighted: weights must be finite, not negative, and some above 0")
        out = self._selected(np.arange(len(self)))
        out._weights = own
        return out

    def _selected(self, numbers: NDArray[np.int64]) -> "Dataset":
        """The samples with these numbers, which exist."""
        raise NotImplementedError
