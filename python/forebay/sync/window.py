"""A process's rates over the last seconds, from counters that only grow. Plain logic."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# The least length of a window.
_SECONDS = 4.0
# A window has at least this many steps, so that one more or less does not matter. It may have fewer
# if the process was held up, and would have made this many at its former rate.
_STEPS = 10
# A process is held up in a window if it waited for others for more than this part of the time.
_HELD_UP = 0.5
_COUNTERS = ("steps", "waited_s", "reduced_bytes", "reducing_s")


@dataclass(frozen=True)
class Rates:
    """The rates in a window; 0 stands for no measurement.

    Attributes:
        steps_per_s: Steps per second, with the time spent waiting.
        sums_per_s: Bytes per second while numbers are summed over all processes.
        held_up: Whether the process waited for others for most of the time.
    """

    steps_per_s: float = 0
    sums_per_s: float = 0
    held_up: bool = False


class Window:
    """Turns counters into rates.

    Args:
        clock: Returns the seconds since some fixed moment.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begin: tuple[float, dict[str, Any]] | None = None
        self._rates = Rates()

    def rates(self, stats: dict[str, Any]) -> Rates:
        """Returns the rates of the last complete window.

        Args:
            stats: The present counters, with the names of `Sync.stats`.
        """
        now = self._clock()
        if self._begin is None:
            self._begin = now, stats
        since, before = self._begin
        seconds = now - since
        if seconds < _SECONDS:
            return self._rates
        grown = {name: stats[name] - before[name] for name in _COUNTERS}
        steps, held_up = grown["steps"], grown["waited_s"] > _HELD_UP * seconds
        usual = self._rates.steps_per_s * seconds  # the number of steps at the former rate
        if steps >= _STEPS or (held_up and usual >= _STEPS):
            self._rates = Rates(
                steps_per_s=max(steps, 1) / seconds,  # 0 stands for no measurement
                sums_per_s=grown["reduced_bytes"] / max(grown["reducing_s"], 1e-9),
                held_up=held_up,
            )
            self._begin = now, stats
        return self._rates
