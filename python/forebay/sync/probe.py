"""Measures what the links of a job carry, by the time that sums over all processes take."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from forebay.sync.cost_model import ring_share

_FIRST_BYTES = 1 << 16
_GROWTHS = (8, 4, 2)
# Sums grow until one takes at least this long and this many times as long as the first sum, so that
# neither noise nor a link's burst allowance matters much.
_LAST_SECONDS_MIN = 0.05
_LAST_TIMES_FIRST = 3
# Except for the first size, no sum is begun that is expected to take longer than this.
_NEXT_SECONDS_MAX = 1.0
# A difference of less than this part of a sum's time is noise.
_NOISE = 0.05


@dataclass(frozen=True)
class Probe:
    """The result of a probe; a rate of 0 stands for no measurement.

    Attributes:
        bytes_per_s: What each process sends per second while a ring sums many numbers.
        latency_s: How long the sum of a few numbers takes.
    """

    bytes_per_s: float = 0
    latency_s: float = 0


def take_probe(
    processes: int,
    bytes_max: int,
    add: Callable[[torch.Tensor], None],
    least: Callable[[float], float],
    clock: Callable[[], float] = time.perf_counter,
) -> Probe:
    """Measures growing sums; all processes call it together, and get the same result.

    Args:
        processes: The number of processes.
        bytes_max: The size of the largest sum, except that the first size may be larger.
        add: Replaces a tensor by its sum over all processes.
        least: Returns the least of a number over all processes.
        clock: Returns the seconds since some fixed moment.
    """
    few = many = _FIRST_BYTES
    _seconds_of(few, add, least, clock)  # meanwhile, earlier messages arrive
    few_s = many_s = _seconds_of(few, add, least, clock)
    while many_s < max(_LAST_SECONDS_MIN, _LAST_TIMES_FIRST * few_s):
        # The latency is unknown before a sum of a second size.
        latency_s = few_s if many > few else 0.0
        growth = next(
            (
                times
                for times in _GROWTHS
                if many * times <= bytes_max
                and latency_s + (many_s - latency_s) * times <= _NEXT_SECONDS_MAX
            ),
            None,
        )
        if growth is None:
            break
        many *= growth
        many_s = _seconds_of(many, add, least, clock)
    few_s = min(few_s, many_s)  # the first sum may have been delayed by something else
    if many == few:
        return Probe(ring_share(processes) * few / few_s, 0)
    sums_per_s = (many - few) / max(many_s - few_s, _NOISE * many_s)
    return Probe(ring_share(processes) * sums_per_s, max(0.0, few_s - few / sums_per_s))


def _seconds_of(
    size: int,
    add: Callable[[torch.Tensor], None],
    least: Callable[[float], float],
    clock: Callable[[], float],
) -> float:
    """How long a sum of `size` bytes takes; the same number in all processes."""
    numbers = torch.zeros(size // 4)
    begin = clock()
    add(numbers)
    # The least time counts: the last process to begin has not waited for others.
    return max(1e-9, least(clock() - begin))
