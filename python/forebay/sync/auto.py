"""Changes the strategy of all processes of a job at the same step, while it runs."""

import json
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from forebay.sync.choice import Conditions, choose
from forebay.sync.decisions import ALONE, Choices, Seen
from forebay.sync.probe import Probe
from forebay.sync.strategies import STRATEGIES, Strategy

_LOOK_SECONDS = 0.5
# How long what is seen of the job is averaged, at least.
_WINDOW_SECONDS = 4.0
# A window has so many steps, so that one more or less does not matter. It may have fewer where the
# process would have made so many as fast as before, but was held up.
_WINDOW_STEPS = 10
# A process is held up in a window where it waited for others for more than this part of it.
_HELD_UP = 0.5
# Steps that are timed before a choice. The one before them is slower and does not count.
_MEASURED_STEPS = 6
# How long all processes have to answer before a change is called off.
_READY_SECONDS = 10.0
# What a process said longer ago does not count.
_FRESH_SECONDS = 5.0
# A sum of the whole model takes long on thin links.
CHANGE_SECONDS = 1800.0
_COUNTERS = ("steps", "waited_s", "reduced_bytes", "reducing_s")


@dataclass(frozen=True)
class Rates:
    """What a window has found; zeros stand for no measurement.

    Attributes:
        steps_per_s: Steps in a second, waiting included.
        sums_per_s: Bytes in a second while numbers are summed over all processes.
        held_up: Whether the process waited for others for most of the time.
    """

    steps_per_s: float = 0
    sums_per_s: float = 0
    held_up: bool = False


class Window:
    """Turns counters into rates of the last seconds."""

    def __init__(self) -> None:
        self._begin: tuple[float, dict[str, Any]] | None = None
        self._rates = Rates()

    def rates(self, stats: dict[str, Any]) -> Rates:
        """Returns the rates of the last window that has ended."""
        now = time.monotonic()
        if self._begin is None:
            self._begin = now, stats
        since, before = self._begin
        seconds = now - since
        if seconds < _WINDOW_SECONDS:
            return self._rates
        grown = {name: stats[name] - before[name] for name in _COUNTERS}
        steps, held_up = grown["steps"], grown["waited_s"] > _HELD_UP * seconds
        # This is how many steps it would have had at its former rate.
        usual = self._rates.steps_per_s * seconds
        if steps >= _WINDOW_STEPS or (held_up and usual >= _WINDOW_STEPS):
            self._rates = Rates(
                steps_per_s=max(steps, 1) / seconds,  # 0 stands for no measurement
                sums_per_s=grown["reduced_bytes"] / max(grown["reducing_s"], 1e-9),
                held_up=held_up,
            )
            self._begin = now, stats
        return self._rates


class Auto:
    """Follows a job's links in a thread of its own, and changes the strategy of all processes.

    At the beginning, and when rank 0 decides that the job is measured again, all processes measure
    the links, and after some steps they tell each other how long those took. They choose by the
    same figures, so all choose the same.

    For everything else rank 0 decides. What the processes tell each other goes through a store. A
    change needs the answer of all of them: each says up to which step it goes on at most, and then
    rank 0 says at which step all change, or that nobody does. It is the same step in all processes,
    since those that take sums together must do so in the same steps, and end together.

    Args:
        store: Of torch.distributed; nobody else uses this object.
        rank: This process's.
        world_size: How many processes there are.
        model_bytes: The size of all learned numbers.
        stats: Gives those of the present exchange.
        change: Changes the strategy of this process, together with all others, within so many
            seconds.
        probe: Measures the links, together with all others, within so many seconds.
        least: Returns the least of a number over all processes, which all call it at the same
            step. Its other arguments are how long this process took for the steps before, which
            others may take much longer for, and how long it may take in any case.
    """

    def __init__(
        self,
        store: Any,
        rank: int,
        world_size: int,
        model_bytes: int,
        stats: Callable[[], dict[str, Any]],
        change: Callable[[Strategy, float], None],
        probe: Callable[[float], Probe],
        least: Callable[[float, float, float], float],
    ) -> None:
        self._store, self._rank, self._world_size = store, rank, world_size
        self._model_bytes = model_bytes
        self._stats, self._change, self._take_probe, self._least = stats, change, probe, least
        self._choices = Choices() if rank == 0 else None
        self._window = Window()
        self._present: Strategy = ALONE
        self._chosen: Strategy | None = None  # what all went on with after the last choice
        self._probe = Probe()
        self._choose_at: int | None = None  # the step after which all choose
        self._measured_since = 0.0
        self._number = 0  # of choices and plans of changes
        self._heard: dict[int, tuple[str, float]] = {}  # by rank: what it said last, and when
        self._changed = threading.Condition()
        self._steps = 0
        self._planned: Strategy | None = None
        self._pause_at = 0
        self._change_at: int | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="forebay-sync", daemon=True)
        self._thread.start()

    def before_step(self) -> None:
        """In the training thread: before the first step, measures the links."""
        if self._chosen is None and self._choose_at is None:
            self._begin_measuring(CHANGE_SECONDS)

    def after_step(self) -> None:
        """In the training thread: times steps, and changes the strategy where all processes do."""
        with self._changed:
            self._steps += 1
            if self._choose_at is None and not self._is_change_due():
                return
        if self._choose_at is None:
            self._make_change(CHANGE_SECONDS)
        elif self._steps == self._choose_at - _MEASURED_STEPS:
            self._measured_since = time.monotonic()
        elif self._steps == self._choose_at:
            seconds = max(1e-9, time.monotonic() - self._measured_since)
            self._choose(_MEASURED_STEPS / seconds, seconds, CHANGE_SECONDS)

    def close(self, seconds_max: float) -> None:
        """Ends the thread; a change or a choice that the others count on is made."""
        until = time.monotonic() + seconds_max
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join(seconds_max)
        with suppress(TimeoutError, RuntimeError):  # this process ends all the same
            if self._planned is not None and self._change_at is not None:
                self._make_change(_left(until))
            if self._choose_at is not None:
                self._choose(0.0, 0.0, _left(until))

    def _is_change_due(self) -> bool:
        """Whether all change their strategy after this step; waits until that is known."""
        while self._planned and self._change_at is None and self._steps >= self._pause_at:
            self._changed.wait()
        if self._planned is None or self._change_at is None:
            return False
        return self._steps >= self._change_at

    def _make_change(self, seconds_max: float) -> None:
        assert self._planned is not None
        try:
            measures = self._planned in (self._present, ALONE)
            self._go_on_with(self._planned, seconds_max)
            if self._choices is not None:
                self._choices.changed(self._planned)
            if measures:
                self._begin_measuring(seconds_max)
            else:
                self._chosen = self._planned
        finally:
            with self._changed:
                self._planned = None
                self._window = Window()
                self._changed.notify_all()

    def _go_on_with(self, strategy: Strategy, seconds_max: float) -> None:
        if strategy != self._present:
            self._change(strategy, seconds_max)
            self._present = strategy

    def _begin_measuring(self, seconds_max: float) -> None:
        self._probe = self._take_probe(seconds_max)
        with self._changed:
            self._choose_at = self._steps + 1 + _MEASURED_STEPS

    def _choose(self, steps_per_s: float, seconds: float, seconds_max: float) -> None:
        """Chooses together with all other processes.

        Args:
            steps_per_s: Of this process. One that ends says 0, and then nothing changes.
            seconds: How long its steps took.
            seconds_max: How long it waits for the others, and then for the change.
        """
        try:
            least = self._least(steps_per_s, seconds, seconds_max)
            if least > 0:
                conditions = Conditions(
                    self._world_size, self._model_bytes, least,
                    self._probe.bytes_per_s, self._probe.latency_s,
                )  # fmt: skip
                strategy = choose(conditions, self._chosen)
                if self._choices is not None:
                    self._choices.chosen(conditions, strategy)
                    _say(self._choices.said)
                self._go_on_with(strategy, seconds_max)
            elif steps_per_s > 0 and self._present == ALONE:
                _say(
                    f"forebay.sync: rank {self._rank} goes on without exchanging anything, because "
                    "another process ended before all had chosen a strategy"
                )
        finally:
            with self._changed:
                self._chosen, self._choose_at = self._present, None
                self._number += 1
                self._window = Window()

    def _run(self) -> None:
        try:
            while not self._wait(_LOOK_SECONDS):
                with self._changed:
                    measures = self._chosen is None or self._choose_at is not None
                if measures:
                    continue
                self._tell()
                if self._choices is not None:
                    self._decide(self._choices)
                if self._store.check([f"plan {self._number}"]):
                    self._take_part()
        except RuntimeError:  # rank 0 has ended, and its store with it
            pass
        finally:
            with self._changed:
                if self._change_at is None:
                    self._planned = None
                self._changed.notify_all()

    def _wait(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._ended, seconds)

    def _tell(self) -> None:
        with self._changed:
            number, steps, window = self._number, self._steps, self._window
            stats = self._stats()
        seen_lately = window.rates(stats)
        rates = [
            link["bytes_per_s"] for rank, link in enumerate(stats["links"]) if rank != self._rank
        ]
        seen = Seen(
            changes=number,
            steps=steps,
            steps_per_s=stats["steps_per_s"],
            bytes_per_s=sum(rates) if all(rates) else 0.0,
            lately=seen_lately.steps_per_s,
            held_up=seen_lately.held_up,
            sums_per_s=seen_lately.sums_per_s,
            lost=any(link["lost"] for link in stats["links"]),
        )
        self._store.set(f"seen {self._rank}", json.dumps(asdict(seen)))

    def _decide(self, choices: Choices) -> None:
        keys = [f"seen {rank}" for rank in range(self._world_size)]
        if not self._store.check(keys):
            return
        now = time.monotonic()
        for rank, text in enumerate(self._store.multi_get(keys)):
            if rank not in self._heard or self._heard[rank][0] != text:
                self._heard[rank] = text, now
        seen = [Seen(**json.loads(self._heard[rank][0])) for rank in range(self._world_size)]
        is_old = any(now - heard > _FRESH_SECONDS for _, heard in self._heard.values())
        if is_old or any(one.changes != self._number for one in seen):
            return
        said = choices.said
        strategy = choices.next(seen)
        if choices.said != said:
            _say(choices.said)
        if strategy is not None:
            self._store.set(f"plan {self._number}", json.dumps([strategy.name, asdict(strategy)]))

    def _take_part(self) -> None:
        """Agrees with all others on the step of a change, and waits until it has been made."""
        number = self._number
        name, options = json.loads(self._store.get(f"plan {number}"))
        strategy = STRATEGIES[name](**options)
        with self._changed:
            if self._ended:
                return
            self._planned, self._change_at = strategy, None
            # Until then the others have seen the plan, too, so that nobody has to wait for that.
            stats = self._stats()
            lately = self._window.rates(stats).steps_per_s or stats["steps_per_s"]
            unseen = int(_LOOK_SECONDS * lately)
            self._pause_at = self._steps + 2 + unseen
            pause_at = self._pause_at
        self._store.set(f"ready {number} {self._rank}", str(pause_at))
        verdict = self._verdict(number)
        with self._changed:
            self._number += 1
            if verdict < 0:
                self._planned = None
            else:
                self._change_at = verdict
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._planned is None or self._ended)
        if self._choices is not None and verdict < 0:
            self._choices.called_off()
            _say(f"forebay.sync: the change to {strategy} was called off: a process did not answer")

    def _verdict(self, number: int) -> int:
        """The step of the change, or -1 where not all processes can make it.

        Rank 0 says it. Where it does not, the first that has waited long enough calls it off.
        """
        key = f"verdict {number}"
        if self._choices is not None:
            ready = [f"ready {number} {rank}" for rank in range(self._world_size)]
            steps = -1
            if self._is_there(ready, _READY_SECONDS):
                steps = max(int(text) for text in self._store.multi_get(ready))
            return int(self._store.compare_set(key, "", str(steps)))
        if self._is_there([key], 2 * _READY_SECONDS):
            return int(self._store.get(key))
        return int(self._store.compare_set(key, "", "-1"))

    def _is_there(self, keys: list[str], seconds_max: float) -> bool:
        try:
            self._store.wait(keys, timedelta(seconds=seconds_max))
        except RuntimeError:
            return bool(self._store.check(keys))  # raises where the store is gone
        return True


def _left(until: float) -> float:
    return min(CHANGE_SECONDS, max(0.0, until - time.monotonic()))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
