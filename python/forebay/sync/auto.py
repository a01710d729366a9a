"""Changes the strategy of all processes of a job at the same step, while it runs.

This is the driver: a thread, a store and a clock around plain logic. window.py turns counters into
rates, cost_model.py compares strategies, policy.py decides on rank 0, agreement.py lets all
processes agree on a step, and schedule.py says what a process does after each step.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from forebay.sync.agreement import CALLED_OFF, Agreement, Await, Propose, Write
from forebay.sync.cost_model import Conditions
from forebay.sync.guide import Guide
from forebay.sync.policy import ALONE, Policy, Seen
from forebay.sync.probe import Probe
from forebay.sync.schedule import MEASURED_STEPS, Due, Schedule
from forebay.sync.strategies import STRATEGIES, Strategy
from forebay.sync.window import Window

# Rank 0 decides nothing while the last report of a process is older than this.
_FRESH_SECONDS = 5.0
# How long a wait for another process lasts before this process sees that it has ended itself.
_WAIT_SECONDS = 0.2
# How long a change may take: a sum of the whole model takes long on thin links.
CHANGE_SECONDS = 1800.0


class Auto:
    """Follows a job's links in a background thread, and changes the strategy of all processes.

    At the beginning, and when rank 0 decides to measure the job again, all processes measure the
    links together. Some steps later they find out the speed of the slowest process. All choose by
    the same figures, so all choose the same strategy.

    Rank 0 makes all other decisions, from reports that the processes put into a store. A change
    needs the agreement of all processes (agreement.py), since processes that take sums together
    must take them in the same steps, and end together.

    Args:
        store: A store of torch.distributed; nothing else uses this object.
        rank: This process's rank.
        world_size: The number of processes.
        model_bytes: The size of all learned numbers.
        stats: Returns the statistics of the present exchange.
        change: Changes the strategy of this process, together with all others, within the given
            number of seconds.
        probe: Measures the links, together with all others, within the given number of seconds.
        least: Returns the least of a number over all processes, which all call it at the same
            step. Its other arguments: how long this process took for the steps before the call,
            for which others may take much longer; and how long it waits for them at most.
        guide: Decides.
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
        guide: Guide,
    ) -> None:
        self._store, self._rank, self._world_size = store, rank, world_size
        self._model_bytes = model_bytes
        self._stats, self._change, self._take_probe, self._least = stats, change, probe, least
        self._guide, self._clock = guide, guide.clock
        self._policy = guide.policy(guide.clock) if rank == 0 else None
        self._window = Window(guide.clock)
        self._probe = Probe()
        self._measured_since = 0.0
        self._heard: dict[int, tuple[str, float]] = {}  # by rank: its last report, and when it came
        self._changed = threading.Condition()  # its lock guards self._schedule
        self._schedule = Schedule()
        self._thread = threading.Thread(target=self._run, name="forebay-sync", daemon=True)
        self._thread.start()

    def before_step(self) -> None:
        """In the training thread: before the first step, measures the links."""
        if self._schedule.must_measure:
            self._begin_measuring(CHANGE_SECONDS)

    def after_step(self) -> None:
        """In the training thread: times steps, and chooses or changes the strategy when due."""
        with self._changed:
            due = self._schedule.step()
            while due is Due.PAUSE:
                self._changed.wait()
                due = self._schedule.due()
        if due is Due.TIME:
            self._measured_since = self._clock()
        elif due is Due.CHOOSE:
            seconds = max(1e-9, self._clock() - self._measured_since)
            self._choose(MEASURED_STEPS / seconds, seconds, CHANGE_SECONDS)
        elif due is Due.CHANGE:
            self._make_change(CHANGE_SECONDS)

    def close(self, seconds_max: float) -> None:
        """Ends the thread, then makes a change or a choice on which the other processes count."""
        until = time.monotonic() + seconds_max
        self.stop()
        with suppress(TimeoutError, RuntimeError):  # this process ends in any case
            if self._schedule.owes_change:
                self._make_change(_left(until))
            if self._schedule.owes_choice:
                self._choose(0.0, 0.0, _left(until))

    def stop(self) -> None:
        """Ends the thread."""
        with self._changed:
            self._schedule.end()
            self._changed.notify_all()
        self._thread.join()

    def _make_change(self, seconds_max: float) -> None:
        schedule = self._schedule
        planned = schedule.planned
        assert planned is not None
        try:
            measures = planned in (schedule.present, ALONE)
            self._go_on_with(planned, seconds_max)
            if self._policy is not None:
                self._policy.changed(planned)
            if measures:
                self._begin_measuring(seconds_max)
            else:
                schedule.chosen = planned
        finally:
            with self._changed:
                schedule.change()
                self._window = Window(self._clock)
                self._changed.notify_all()

    def _go_on_with(self, strategy: Strategy, seconds_max: float) -> None:
        if strategy != self._schedule.present:
            self._change(strategy, seconds_max)
            self._schedule.present = strategy

    def _begin_measuring(self, seconds_max: float) -> None:
        self._probe = self._take_probe(seconds_max)
        with self._changed:
            self._schedule.begin_measuring()

    def _choose(self, steps_per_s: float, seconds: float, seconds_max: float) -> None:
        """Chooses together with all other processes.

        Args:
            steps_per_s: This process's speed. A process that ends passes 0, and then no process
                changes its strategy.
            seconds: How long this process took for the measured steps.
            seconds_max: How long it waits for the others, and again how long the change may take.
        """
        try:
            least = self._least(steps_per_s, seconds, seconds_max)
            if least > 0:
                conditions = Conditions(
                    self._world_size, self._model_bytes, least,
                    self._probe.bytes_per_s, self._probe.latency_s,
                )  # fmt: skip
                strategy = self._guide.choose(conditions, self._schedule.chosen)
                if self._policy is not None:
                    self._policy.chosen(conditions, strategy)
                    _say(self._policy.said)
                self._go_on_with(strategy, seconds_max)
            elif steps_per_s > 0 and self._schedule.present == ALONE:
                _say(
                    f"forebay.sync: rank {self._rank} goes on without exchanging anything, because "
                    "another process ended before the processes had chosen a strategy"
                )
        finally:
            with self._changed:
                self._schedule.choose()
                self._window = Window(self._clock)

    def _run(self) -> None:
        try:
            while not self._wait(self._guide.look_seconds):
                with self._changed:
                    measures = self._schedule.measures
                if measures:
                    continue
                self._tell()
                if self._policy is not None:
                    self._decide(self._policy)
                if self._store.check([f"plan {self._schedule.number}"]):
                    self._take_part()
        except RuntimeError:  # rank 0 has ended, and its store with it
            pass
        finally:
            with self._changed:
                self._schedule.forget_plan()
                self._changed.notify_all()

    def _wait(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._schedule.is_over, seconds)

    def _tell(self) -> None:
        with self._changed:
            number, steps, window = self._schedule.number, self._schedule.steps, self._window
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

    def _decide(self, policy: Policy) -> None:
        keys = [f"seen {rank}" for rank in range(self._world_size)]
        if not self._store.check(keys):
            return
        now = self._clock()
        for rank, text in enumerate(self._store.multi_get(keys)):
            if rank not in self._heard or self._heard[rank][0] != text:
                self._heard[rank] = text, now
        seen = [Seen(**json.loads(self._heard[rank][0])) for rank in range(self._world_size)]
        is_old = any(now - heard > _FRESH_SECONDS for _, heard in self._heard.values())
        number = self._schedule.number
        if is_old or any(one.changes != number for one in seen):
            return
        said = policy.said
        strategy = policy.next(seen)
        if policy.said != said:
            _say(policy.said)
        if strategy is not None:
            self._store.set(f"plan {number}", json.dumps([strategy.name, asdict(strategy)]))

    def _take_part(self) -> None:
        """Agrees with the other processes on the step of a change, and waits until it is made."""
        schedule = self._schedule
        number = schedule.number
        name, options = json.loads(self._store.get(f"plan {number}"))
        strategy = STRATEGIES[name](**options)
        with self._changed:
            if schedule.is_over:
                return
            # The pause comes after the other processes have seen the plan, so none waits for that.
            stats = self._stats()
            lately = self._window.rates(stats).steps_per_s or stats["steps_per_s"]
            pause_at = schedule.plan(strategy, 2 + int(self._guide.look_seconds * lately))
        verdict = self._agree(Agreement(number, self._rank, self._world_size), pause_at)
        with self._changed:
            if verdict == CALLED_OFF:
                schedule.call_off()
            else:
                schedule.agree(verdict)
            self._changed.notify_all()
            self._changed.wait_for(lambda: schedule.planned is None or schedule.is_over)
        if self._policy is not None and verdict == CALLED_OFF:
            self._policy.called_off()
            _say(f"forebay.sync: the change to {strategy} was called off: a process did not answer")

    def _agree(self, agreement: Agreement, pause_at: int) -> int:
        """Carries out the agreement's actions until there is a verdict."""
        actions = agreement.begin(pause_at)
        while agreement.verdict is None:
            action = actions.pop(0)
            match action:
                case Write():
                    self._store.set(action.key, action.value)
                case Await():
                    actions += agreement.found(self._values(action.keys, action.seconds))
                case Propose():
                    value = self._store.compare_set(action.key, "", action.value)
                    agreement.settled(value.decode())
        return agreement.verdict

    def _values(self, keys: Sequence[str], seconds_max: float) -> list[str] | None:
        """Returns the values of keys, or None if they are not all set in time or it is over."""
        until = time.monotonic() + seconds_max
        while not self._store.check(list(keys)):
            left = until - time.monotonic()
            if left <= 0 or self._wait(0):
                return None
            with suppress(RuntimeError):  # not set yet
                self._store.wait(list(keys), timedelta(seconds=min(left, _WAIT_SECONDS)))
        return [value.decode() for value in self._store.multi_get(list(keys))]


def _left(until: float) -> float:
    return min(CHANGE_SECONDS, max(0.0, until - time.monotonic()))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
