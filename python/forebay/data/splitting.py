"""The sizes of the parts that a dataset is split into."""

from collections.abc import Sequence
from numbers import Integral, Real


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
