"""When the batches of a job's ranks came, and how soon they came as before after a disturbance.

Throughput is counted in windows of WINDOW_S, one of which begins every STEP_S. In half a second
seven ranks have some forty batches in bench/cache.py, so that one batch more or less is 2.5 %. In
shorter windows the batches' own grain would look like a dip, and longer ones would hide real dips.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

WINDOW_S = 0.5
STEP_S = 0.1
STAYS_S = 5  # for so long throughput must stay
BACK = 0.9  # this share of the usual throughput counts as back


class Batch(NamedTuple):
    """A batch: when it came, by time.monotonic(), its images, and the machines in the cache."""

    at: float
    images: int
    members: int


def read_timeline(path: Path) -> list[Batch]:
    """The batches that a rank of lib/cache_program.py has written down."""
    lines = path.read_text().split("\n")[:-1]  # the last one may be half a line
    return [
        Batch(float(at), int(images), int(members))
        for at, images, members in (line.split() for line in lines)
    ]


def rates(ranks: Iterable[Sequence[Batch]], begin: float, end: float) -> list[float]:
    """Images per second of all ranks together, in each window from begin to end."""
    counts = [0] * math.floor((end - begin) / STEP_S + 1e-6)
    for batch in (batch for rank in ranks for batch in rank):
        if begin <= batch.at < begin + len(counts) * STEP_S:
            counts[int((batch.at - begin) / STEP_S)] += batch.images
    steps = round(WINDOW_S / STEP_S)
    windows = range(len(counts) - steps + 1)
    return [sum(counts[first : first + steps]) / WINDOW_S for first in windows]


def usual_rate(ranks: Iterable[Sequence[Batch]], begin: float, end: float) -> float:
    """Images per second of all ranks together, the median of the windows from begin to end."""
    return statistics.median(rates(ranks, begin, end))


def recovery_s(found: Sequence[float], usual: float) -> float:
    """How long after a disturbance the first window begins after which STAYS_S are all back.

    Args:
        found: Images per second in windows from the disturbance on.
        usual: Images per second without one.
    """
    good = [rate >= BACK * usual for rate in found]
    stays = round(STAYS_S / STEP_S)
    for first in range(len(good) - stays + 1):
        if all(good[first : first + stays]):
            return first * STEP_S
    return math.inf


def longest_gap_s(ranks: Iterable[Sequence[Batch]], begin: float, end: float) -> float:
    """The longest time in which any of the ranks had no batch between begin and end."""
    longest = 0.0
    for rank in ranks:
        times = [begin, *(batch.at for batch in rank if begin < batch.at < end), end]
        longest = max(longest, *(b - a for a, b in zip(times, times[1:], strict=False)))
    return longest
