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

    Rank 0 decides. What the processes tell each other goes through a store. A change needs the
    answer of all of them: each says up to which step it goes on at most, and then rank 0 says at
    which step all change, or that nobody does. It is the same step in all processes, since those
    that take sums together must do so in the same steps, and end together.

    Args:
        store: Of torch.distributed; nobody else uses this object.
        rank: This process's.
        world_size: How many processes there are.
        model_bytes: The size of all learned numbers.
        stats: Gives those of the present exchange.
        change: Changes the strategy of this process, together with all others, within so many
            seconds.
        probe: Measures the links, together with all others, within so many seconds.
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
    ) -> None:
        self._store, self._rank, self._world_size = store, rank, world_size
        self._stats, self._change, self._take_probe = stats, change, probe
        self._choices = Choices(model_bytes) if rank == 0 else None
        self._since, self._window = time.monotonic(), Window()
        self._present: Strategy = ALONE
        self._probe, self._has_probed = Probe(), False
        self._number = 0  # of changes
        self._heard: dict[int, tuple[str, float]] = {}  # by rank: what it said last, and when
        self._changed = threading.Condition()
        self._steps = self._changed_after = 0
        self._planned: Strategy | None = None
        self._pause_at = 0
        self._change_at: int | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="forebay-sync", daemon=True)
        self._thread.start()

    def before_step(self) -> None:
        """In the training thread: measures the links before anything is exchanged."""
        if not self._has_probed:
            self._has_probed = True
            self._measure_links(CHANGE_SECONDS)

    def after_step(self) -> None:
        """In the training thread: changes the strategy where all processes do."""
        with self._changed:
            self._steps += 1
            if self._planned is None:
                return
            while self._planned and self._change_at is None and self._steps >= self._pause_at:
                self._changed.wait()
            if self._planned is None or self._change_at is None or self._steps < self._change_at:
                return
        self._make_change(CHANGE_SECONDS)

    def close(self, seconds_max: float) -> None:
        """Ends the thread; a change that the others count on is made."""
        until = time.monotonic() + seconds_max
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join(seconds_max)
        if self._planned is not None and self._change_at is not None:
            with suppress(TimeoutError, RuntimeError):  # this process ends all the same
                self._make_change(min(CHANGE_SECONDS, max(0.0, until - time.monotonic())))

    def _make_change(self, seconds_max: float) -> None:
        assert self._planned is not None
        try:
            is_same = self._planned == self._present
            if not is_same:
                self._change(self._planned, seconds_max)
            if is_same or self._planned == ALONE:
                self._measure_links(seconds_max)
            self._present = self._planned
        finally:
            with self._changed:
                self._planned = None
                self._changed_after = self._steps
                self._since, self._window = time.monotonic(), Window()
                self._changed.notify_all()

    def _measure_links(self, seconds_max: float) -> None:
        probe = self._take_probe(seconds_max)
        with self._changed:
            self._probe = probe

    def _run(self) -> None:
        try:
            while not self._wait(_LOOK_SECONDS):
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
            number, steps = self._number, self._steps
            since, window, probe = self._since, self._window, self._probe
            stats = self._stats()
            steps_since = steps - self._changed_after
        seen_lately = window.rates(stats)
        rates = [
            link["bytes_per_s"] for rank, link in enumerate(stats["links"]) if rank != self._rank
        ]
        seen = Seen(
            changes=number,
            steps=steps_since,
            all_steps=steps,
            seconds=time.monotonic() - since,
            steps_per_s=stats["steps_per_s"],
            bytes_per_s=sum(rates) if all(rates) else 0.0,
            probed_bytes_per_s=probe.bytes_per_s,
            latency_s=probe.latency_s,
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
        if self._choices is None:
            return
        if verdict < 0:
            self._choices.called_off()
            _say(f"forebay.sync: the change to {strategy} was called off: a process did not answer")
        else:
            self._choices.changed(strategy)

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


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
