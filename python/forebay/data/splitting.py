"""Divides the samples of a dataset into parts."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


def part_counts(sizes: Sequence[float], samples: int) -> list[int]:
    """How many samples each part gets; the first parts get the samples that rounding leaves."""
    if not all(isinstance(size, Real) and size >= 0 for size in sizes):
        raise ValueError(
            f"split: {list(sizes)}: sizes must be numbers, not negative, given one by one: "
            "split(0.9, 0.1)"
        )
    if all(isinstance(size, Integral) for size in sizes):
        counts = [int(size) for size in sizes]
        if sum(counts) != samples:
            raise ValueError(f"split: {counts} sum to {sum(counts)}, not to {samples} samples")
        return counts
    if abs(sum(sizes) - 1) > 1e-6:
        raise ValueError(f"split: shares {list(sizes)} must sum to 1")
    counts = [int(samples * float(size)) for size in sizes]
    for i in range(samples - sum(counts)):
        counts[i % len(counts)] += 1
    return counts


def strata(values: NDArray[Any]) -> NDArray[np.int64]:
    """A number for each sample, the same for equal values [samples].

    Raises:
        ValueError: The values are not one class, text or whole number for each sample.
    """
    if values.ndim != 1 or values.dtype.kind == "f":
        raise ValueError(
            f"split: stratify needs a class for each sample, but these are {values.dtype} "
            f"{list(values.shape)}; give the name of a column, or a class for each sample"
        )
    texts = values if values.dtype != object else np.array([repr(one) for one in values])
    return np.unique(texts, return_inverse=True)[1].astype(np.int64)


def stratified(
    shuffled: NDArray[np.int64], groups: NDArray[np.int64], counts: Sequence[int]
) -> list[NDArray[np.int64]]:
    """Parts with the same share of each group, as far as whole samples allow.

    Samples are dealt to the parts group by group. The parts come in turn as evenly as their sizes
    allow, so each part gets its share of any run of samples.

    Args:
        shuffled: All samples' numbers in random order.
        groups: Each sample's group [samples].
        counts: The parts' sizes, which sum to the number of samples.
    """
    ordered = shuffled[np.argsort(groups[shuffled], kind="stable")]
    turns = np.concatenate([(np.arange(count) + 0.5) / max(count, 1) for count in counts])
    parts = np.repeat(np.arange(len(counts)), counts)[np.argsort(turns, kind="stable")]
    return [ordered[parts == part] for part in range(len(counts))]
