"""How fast numbers are summed over all processes of a job: what its links carry, and how late."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from forebay.sync.choice import ring_share

_BYTES_FIRST = 1 << 16
_GROWTH = 4
# The last sum takes so long at least, and so many times as long as the first one, so that neither
# noise nor what passes a link at once counts for much.
_SECONDS = 0.05
_TIMES = 3
# However long a sum takes, none is begun after so long.
_SECONDS_MAX = 0.5


@dataclass(frozen=True)
class Probe:
    """What was found; zeros stand for no measurement.

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
) -> Probe:
    """Measures sums of more and more numbers; all processes do so at once.

    Args:
        processes: How many.
        bytes_max: The size of the largest sum.
        add: Sums a tensor over all processes, in its place.
        least: Takes the least of a tensor over all processes, in its place.
    """
    numbers = torch.zeros(max(bytes_max, _BYTES_FIRST) // 4)
    # While the first sum goes on, what was sent before arrives.
    _seconds_of(numbers[: _BYTES_FIRST // 4], add, least)
    taken: list[tuple[int, float]] = []
    size, begin = _BYTES_FIRST, time.perf_counter()
    while True:
        taken.append((size, _seconds_of(numbers[: size // 4], add, least)))
        seconds = taken[-1][1]
        is_enough = seconds >= max(_SECONDS, _TIMES * taken[0][1]) and len(taken) > 1
        late = torch.tensor([_SECONDS_MAX - (time.perf_counter() - begin)], dtype=torch.float64)
        least(late)  # so that all end after the same sum
        if is_enough or late.item() < 0 or size * _GROWTH > numbers.nbytes:
            break
        size *= _GROWTH
    (few, few_s), (many, many_s) = taken[0], taken[-1]
    if many_s <= few_s:
        return Probe(ring_share(processes) * many / max(many_s, 1e-9), 0)
    sums_per_s = (many - few) / (many_s - few_s)
    return Probe(ring_share(processes) * sums_per_s, max(0.0, few_s - few / sums_per_s))


def _seconds_of(
    numbers: torch.Tensor,
    add: Callable[[torch.Tensor], None],
    least: Callable[[torch.Tensor], None],
) -> float:
    begin = time.perf_counter()
    add(numbers)
    # The process that was the last to begin has waited for nobody.
    seconds = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
    least(seconds)
    return float(seconds.item())
