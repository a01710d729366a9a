"""Rank 0's decisions: when to measure the job again, and changes that need no measurement."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from forebay.sync.cost_model import Conditions, cheapest, estimates
from forebay.sync.strategies import LocalSteps, Strategy

# A job begins with this strategy, whose first exchange never comes in practice. Jobs that exchange
# by sums return to it to be measured again.
ALONE = LocalSteps(steps=1 << 30)
# The links are measured again when the job's figures were unusual in this many windows in a row.
# One window is enough if a pause of the script cannot be the reason: all processes were held up, or
# the links have become faster by more than _TIMES_AS_FAST.
_WINDOWS_OFF = 2
_TIMES_AS_FAST = 4.0
# By which factor a figure must differ from the usual one. Rates of links are noisier than those of
# steps.
_OFF = {"lately": 1.4, "bytes_per_s": 2.0, "sums_per_s": 2.0}
# The least time from a choice to the next measurement. It doubles, up to the maximum, when a choice
# was the same as the one before.
_CHOICE_SECONDS = 20.0
_CHOICE_SECONDS_MAX = 300.0
# All processes change at the same step. Nothing is changed while the slowest would need more time
# than this to reach the step of the fastest.
_CATCH_UP_SECONDS = 5.0


@dataclass(frozen=True)
class Seen:
    """A process's report about itself. Rates are those since the last change of its strategy.

    Attributes:
        changes: The number of choices and planned changes so far.
        steps: The number of steps since the beginning.
        steps_per_s: Steps per second, without the time spent waiting; 0: not measured yet.
        bytes_per_s: What all its links carry together; 0: not measured yet.
        lately: Steps per second in the last window, with the time spent waiting; 0: not measured
            yet.
        held_up: Whether it waited for others for most of that window.
        sums_per_s: Bytes per second while numbers are summed over all processes; 0: not measured.
        lost: Whether it has lost a peer.
    """

    changes: int
    steps: int
    steps_per_s: float
    bytes_per_s: float
    lately: float
    held_up: bool
    sums_per_s: float
    lost: bool


class Policy:
    """Decides on rank 0, from the reports of all processes. Plain logic.

    Args:
        clock: Returns the seconds since some fixed moment.

    Attributes:
        said: The last choice in words, with the figures on which it was based.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._present: Strategy = ALONE
        self._chosen: Strategy | None = None
        self._not_before = 0.0  # when the job may be measured again
        self._patience = _CHOICE_SECONDS
        self._conditions: Conditions | None = None  # of the last choice
        self._is_checked = False  # whether the last choice was reconsidered
        self._usual: list[Seen] | None = None
        self._off = 0
        self._last: list[float] = []
        self.said = ""

    def next(self, seen: list[Seen]) -> Strategy | None:
        """Returns the strategy to change to, or None for no change.

        The present strategy, or ALONE, stands for measuring the job again.

        Args:
            seen: The reports of all processes, by rank.
        """
        is_off = self._is_off(seen)
        apart = max(one.steps for one in seen) - min(one.steps for one in seen)
        is_apart = apart > _CATCH_UP_SECONDS * _of_job("steps_per_s", seen)
        if any(one.lost for one in seen) or is_apart:
            return None
        if better := self._better_known(seen):
            strategy = cheapest(better, self._chosen)
            self._take(better, strategy)
            return strategy
        if not is_off or self._clock() < self._not_before:
            return None
        # The links cannot be measured while the strategy takes sums; other messages may go on.
        return ALONE if self._present.sums else self._present

    def _better_known(self, seen: list[Seen]) -> Conditions | None:
        """Returns conditions under which another choice is better, or None for no change.

        The first steps of a job are slower, so each choice is reconsidered once, with the speed of
        later steps.
        """
        if self._conditions is None or self._is_checked or not all(one.lately for one in seen):
            return None
        self._is_checked = True
        self._conditions = replace(self._conditions, steps_per_s=_of_job("steps_per_s", seen))
        is_same = cheapest(self._conditions, self._chosen) == self._chosen
        return None if is_same else self._conditions

    def chosen(self, conditions: Conditions, strategy: Strategy) -> None:
        """All processes were measured, and go on with this strategy."""
        self._take(conditions, strategy)
        self._present, self._is_checked = strategy, False

    def changed(self, strategy: Strategy) -> None:
        """All processes have changed to this strategy."""
        self._present, self._usual = strategy, None

    def called_off(self) -> None:
        """The planned change was not made."""
        self._chosen = self._present
        self._not_before = self._clock() + _CHOICE_SECONDS

    def _take(self, conditions: Conditions, strategy: Strategy) -> None:
        self._conditions = conditions
        same = strategy == self._chosen
        self._patience = min(_CHOICE_SECONDS_MAX, self._patience * 2) if same else _CHOICE_SECONDS
        self._chosen = strategy
        self._not_before = self._clock() + self._patience
        self._usual, self._off = None, 0
        self.said = _describe(conditions, strategy)

    def _is_off(self, seen: list[Seen]) -> bool:
        """Whether the job's figures have been unusual for some time."""
        lately = [one.lately for one in seen]
        before = self._last or [0.0] * len(seen)
        if not all(new and new != old for new, old in zip(lately, before, strict=True)):
            return False  # not every process has a new window
        self._last = lately
        if self._usual is None:
            self._usual = seen
            return False
        times = {
            name: _of_job(name, seen) / usual
            for name in _OFF
            if _of_job(name, seen) > 0 and (usual := _of_job(name, self._usual)) > 0
        }
        off = any(not 1 / _OFF[name] < ratio < _OFF[name] for name, ratio in times.items())
        is_sure = all(one.held_up for one in seen) or times.get("bytes_per_s", 1) > _TIMES_AS_FAST
        self._off = self._off + (_WINDOWS_OFF if is_sure else 1) if off else 0
        return self._off >= _WINDOWS_OFF


def _of_job(name: str, seen: list[Seen]) -> float:
    """A figure of the whole job."""
    values = [float(getattr(one, name)) for one in seen]
    # For sums the highest rate counts: the last process to begin a sum has not waited for others.
    return max(values) if name == "sums_per_s" else min(values)


def _describe(conditions: Conditions, strategy: Strategy) -> str:
    found = estimates(conditions, strategy)
    best = found[0].seconds
    others = "; ".join(f"{one.label} {one.seconds / best:.2f}" for one in found)
    return (
        f"forebay.sync: {strategy} for {conditions.processes} processes, a model of "
        f"{conditions.model_bytes / 1e6:.1f} MB, {conditions.steps_per_s:.2f} steps/s and links of "
        f"{conditions.bytes_per_s / 1e6:.2f} MB/s (expected time: {others})"
    )
