"""The jobs of bench/sync.py, and their outcomes, which a file keeps so that runs can resume."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from lib.sync_points import Point, best_mean
from lib.sync_work import TASKS

LINK_BOUND_MBIT = 100
WORTH = 0.9  # part of the time; another seed changes the time by up to a tenth


@dataclass(frozen=True)
class Side:
    """A strategy with its options.

    Attributes:
        strategy: A name of Settings.strategy.
        options: Returns its options for a rate of the links.
        searches: Functions that return, for a rate of the links, a list of changes of the options,
            which are tried with the best learning rate. The best change of a list stays for the
            next list.
        restarts: Whether the launcher restarts all workers when one dies.
    """

    strategy: str
    options: Callable[[int], dict[str, Any]] = lambda mbit: {}
    searches: tuple[Callable[[int], list[dict[str, Any]]], ...] = ()
    restarts: bool = True


def _local_steps(mbit: int, factor: int = 1) -> dict[str, Any]:
    # A ring takes 210 / mbit seconds for 17 MB, and a worker makes about ten steps in a second.
    steps = 16
    while steps < 10 / 0.8 * 210 / mbit:
        steps *= 2
    return {"steps": steps * factor}


def _streaming(mbit: int, factor: int = 1) -> dict[str, Any]:
    steps = _local_steps(mbit, factor)["steps"]
    return {"steps": steps, "fragments": 4, "delay": steps // 4 - 1}


SIDES = {
    "ako": Side("ako", restarts=False),
    "ako_float32": Side("ako", lambda mbit: {"encoding": "float32"}, restarts=False),
    "ako_gradients": Side(
        "ako", lambda mbit: {"of": "gradients", "encoding": "float32"}, restarts=False
    ),
    "ako_int8": Side("ako", lambda mbit: {"encoding": "int8"}, restarts=False),
    "ako_top": Side("ako", lambda mbit: {"encoding": "top"}, restarts=False),
    "ps": Side(
        "ps",
        lambda mbit: {"staleness": 1},
        (
            lambda mbit: [{"staleness": bound} for bound in (0, 4, 16, 64)],
            lambda mbit: [{"servers": [1, 3]}, {"servers": [3], "serves_only": [3]}],
        ),
    ),
    "local": Side("local", _local_steps, (lambda mbit: [_local_steps(mbit, 2)],)),
    "streaming": Side("local", _streaming, (lambda mbit: [_streaming(mbit, 2)],)),
    "pairs": Side("pairs", restarts=False),
    "allreduce": Side("allreduce"),
    "powersgd": Side("powersgd", lambda mbit: {"matrix_approximation_rank": 2}),
    "auto": Side("auto"),
    "alone": Side("none"),
}


@dataclass(frozen=True)
class Trial:
    """One job.

    Attributes:
        task: A name of TASKS.
        mbit: The rate of the links.
        side: A name of SIDES.
        rate: The learning rate.
        options: Replaces the side's options, unless empty.
        seed: The seed of weights and order; 0 is the search's.
        event: What happens during the job: "", "kill SECONDS" or "limit MBIT SECONDS".
    """

    task: str
    mbit: int
    side: str
    rate: float
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    event: str = ""

    @property
    def key(self) -> str:
        """The trial as JSON, which identifies it."""
        return json.dumps(list(asdict(self).values()))


@dataclass(frozen=True)
class Record:
    """The figures of a job that are kept.

    Attributes:
        seconds: When it reached the task's accuracy; None: it did not in the time that it had.
        points: Its snapshots.
        steps_per_s: Rank 0's steps per second.
        mb_per_s: What rank 0 sent per second, in MB, without collective sums.
        parts: Into how many parts the model was cut.
        waited: The part of the time in which rank 0 waited for others.
        strategy: The strategy at the end.
        happened: Whether the trial's event, if any, happened before the job ended.
    """

    seconds: float | None
    points: list[Point]
    steps_per_s: float = 0.0
    mb_per_s: float = 0.0
    parts: int = 1
    waited: float = 0.0
    strategy: str = ""
    happened: bool = True

    @property
    def accuracy(self) -> float:
        """The best mean accuracy of snapshots in a row."""
        return best_mean(self.points)

    def seconds_or(self, most: float) -> float:
        """The time to the accuracy, or `most` if the job did not reach it."""
        return most if self.seconds is None else self.seconds


# Returns a trial's outcome, after running it for at most the given seconds if needed. A function
# that only looks outcomes up returns None for a trial that was not run.
OutcomeOf = Callable[[Trial, float | None], Record | None]


class Trials:
    """Runs trials that were not run before.

    Args:
        path: A file of JSON lines with the outcomes so far; None: outcomes are not kept.
        run: Runs a trial for at most the given number of seconds.
    """

    def __init__(self, path: Path | None, run: Callable[[Trial, float], Record]) -> None:
        self._path, self._run = path, run
        self._records: dict[str, Record] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                key, record = json.loads(line)
                self._records[json.dumps(key)] = Record(**record)

    def of(self, trial: Trial, seconds_max: float | None = None) -> Record:
        """The trial's outcome. A new trial runs for at most `seconds_max`, or the task's time."""
        if trial.key not in self._records:
            record = self._run(trial, seconds_max or TASKS[trial.task].seconds_max)
            self._records[trial.key] = record
            if self._path is not None:
                self._path.parent.mkdir(exist_ok=True)
                with self._path.open("a") as out:
                    out.write(json.dumps([json.loads(trial.key), asdict(record)]) + "\n")
            reached = "not" if record.seconds is None else f"{record.seconds:.1f} s"
            print(
                f"{trial.task} {trial.mbit} Mbit/s {trial.side} rate {trial.rate} "
                f"{trial.options or ''} seed {trial.seed} {trial.event}: {reached}, "
                f"{record.accuracy:.1%}, {record.steps_per_s:.2f} steps/s {record.strategy}",
                flush=True,
            )
        return self._records[trial.key]

    def known_of(self, trial: Trial) -> Record | None:
        """The trial's outcome, if it was run."""
        return self._records.get(trial.key)

    def known(self) -> set[tuple[str, int]]:
        """The tasks and rates of trials that were run."""
        return {(task, mbit) for task, mbit, *_ in map(json.loads, self._records)}

    def known_best(self, task: str, mbit: int, side: str) -> Record | None:
        """The outcome of the side's best trial that was run."""
        return self.known_of(self.tuned(task, mbit, side))

    def tuned(self, task: str, mbit: int, side: str) -> Trial:
        """The best trial of the search so far; the search's first trial if none was run."""
        first = Trial(task, mbit, side, TASKS[task].middle_rate)
        return self._found(first, lambda trial, _: self.known_of(trial))

    def searched(self, task: str, mbit: int, side: str) -> Trial:
        """The best of the search that every strategy gets.

        From the task's middle learning rate, it goes to higher rates while they are better; if the
        first is not better, to lower rates. Then, with the best rate, parameter servers try other
        bounds, and then other numbers and places of servers; local steps try twice their number. A
        trial replaces the present best if it is a tenth faster, and ends when it can no longer be.

        If a side did not reach the accuracy with wider links, it is not run, and its best trial
        with the wider links is returned. Links faster than LINK_BOUND_MBIT do not count for this,
        because there the processor may have been the limit.
        """
        known = {rate for known, rate in self.known() if known == task}
        for wider in sorted(rate for rate in known if mbit < rate <= LINK_BOUND_MBIT):
            if self.known_best(task, wider, side) is None:
                continue
            found = self.searched(task, wider, side)  # continues an interrupted search
            if self.of(found).seconds is None:
                return found
        return self._found(Trial(task, mbit, side, TASKS[task].middle_rate), self.of)

    def _found(self, first: Trial, outcome_of: OutcomeOf) -> Trial:
        best = self._climbed(first, outcome_of)
        for changes in SIDES[first.side].searches:
            for change in changes(first.mbit):
                options = {**(best.options or SIDES[first.side].options(first.mbit)), **change}
                best = self._better(best, replace(best, options=options), outcome_of)
        return best

    def _climbed(self, first: Trial, outcome_of: OutcomeOf) -> Trial:
        rates = TASKS[first.task].learning_rates
        at = rates.index(first.rate)
        for others in (rates[at + 1 :], rates[:at][::-1]):
            best = first
            for rate in others:
                last, best = best, self._better(best, replace(best, rate=rate), outcome_of)
                if best == last:
                    break
            if best != first:
                break
        return best

    def _better(self, best: Trial, other: Trial, outcome_of: OutcomeOf) -> Trial:
        present = outcome_of(best, None)
        if present is None:
            return best
        seconds = None
        if present.seconds is not None:
            # The last snapshot of a mean comes up to two intervals after the time that is counted.
            seconds = WORTH * present.seconds + 2 * TASKS[best.task].snapshot_seconds
        found = outcome_of(other, seconds)
        if found is None:
            return best
        if present.seconds is None and found.seconds is None:
            return other if found.accuracy > present.accuracy else best
        if found.seconds is None:
            return best
        return other if found.seconds <= WORTH * present.seconds_or(float("inf")) else best
