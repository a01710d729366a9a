"""What the links of a job's processes carry, by the time that sums over all of them take."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from forebay.sync.cost_model import ring_share

_FIRST_BYTES = 1 << 16
_GROWTHS = (8, 4, 2)
# The last sum takes so long at least, and so many times as long as the first one, so that neither
# noise nor what passes a link at once counts for much.
_LAST_SECONDS_MIN = 0.05
_LAST_TIMES_FIRST = 3
# No sum is begun that is expected to take longer than this, but for the first ones.
_NEXT_SECONDS_MAX = 1.0
# A difference of less than this part of a sum's time is noise.
_NOISE = 0.05


@dataclass(frozen=True)
class Probe:
    """What was found; a rate of 0 stands for no measurement.

    Attributes:
        bytes_per_s: What each process sends, while a ring sums many numbers.
        latency_s: How long the sum of a few numbers takes.
    """

    bytes_per_s: float = 0
    latency_s: float = 0


def take_probe(
    processes: int,
    bytes_max: int,
    add: Callable[[torch.Tensor], None],
    least: Callable[[torch.Tensor], None],
    clock: Callable[[], float] = time.perf_counter,
) -> Probe:
    """Measures sums of more and more numbers; all processes do so at once, and find the same.

    Args:
        processes: How many.
        bytes_max: No sum has more, but for the first one.
        add: Sums a tensor over all processes, in its place.
        least: Takes the least of a tensor over all processes, in its place.
        clock: Seconds since any moment.
    """
    few = many = _FIRST_BYTES
    _seconds_of(few, add, least, clock)  # meanwhile what was sent before arrives
    few_s = many_s = _seconds_of(few, add, least, clock)
    while many_s < max(_LAST_SECONDS_MIN, _LAST_TIMES_FIRST * few_s):
        # Nothing is known of the latency before the second sum.
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
    few_s = min(few_s, many_s)  # something else may have held up the first sum
    if many == few:
        return Probe(ring_share(processes) * few / few_s, 0)
    sums_per_s = (many - few) / max(many_s - few_s, _NOISE * many_s)
    return Probe(ring_share(processes) * sums_per_s, max(0.0, few_s - few / sums_per_s))


def _seconds_of(
    size: int,
    add: Callable[[torch.Tensor], None],
    least: Callable[[torch.Tensor], None],
    clock: Callable[[], float],
) -> float:
    """How long a sum of so many bytes takes; the same in all processes."""
    numbers = torch.zeros(size // 4)
    begin = clock()
    add(numbers)
    # The process that was the last to begin has waited for nobody.
    seconds = torch.tensor([clock() - begin], dtype=torch.float64)
    least(seconds)
    return max(1e-9, float(seconds.item()))
