"""The time until Forebay, Optuna and Ray Tune have the best score of a flow.

Forebay's time is that of its whole run, from the call of fx.run() on: it starts its workers, and
tries every branch. A peer's time begins with its first trial, when Ray and all processes have
started and imported what they need, and ends with the first trial that has made all its epochs and
has at least the score in question. A peer ends without it after SECONDS_X times Forebay's time.
"""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from forebay import explore as fx
from lib.comparison import Comparison, DisagreementError, Side
from lib.explore_trials import Task, flow_of
from lib.peers_environment import EXPLORE_PYTHON, install_explore_peers
from lib.side_process import SideError, environment, last_line

SEEDS = 3
SECONDS_X = 4
STARTING_SECONDS_MAX = 120
# Ray sends nothing, and its workers have the priority of all others.
VARIABLES = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}

OPTUNA = [["optuna", "0"], ["optuna", "1"]]
PEERS: dict[str, tuple[list[list[str]], bool]] = {
    "optuna_asha": (OPTUNA, False),
    "ray_asha": ([["ray"]], False),
    "optuna_cached": (OPTUNA, True),
}


class Turn(NamedTuple):
    """What a side's turn took."""

    side: str
    seconds: float
    has_reached: bool
    trials: int

    def show(self) -> "Turn":
        """Prints it, for people who wait."""
        more = "" if self.has_reached else " and more"
        print(f"{self.side:14} {self.seconds:.1f} s{more}, {self.trials} trials", flush=True)
        return self


class Forebay(Side):
    """fx.run() with two workers. It gives the others the score to reach, and their time."""

    def __init__(self, task: Task, distance: float) -> None:
        self._flow, self._distance = flow_of(task)[0], distance
        self.target = self.seconds = 0.0
        self.scores: dict[str, float] = {}

    def turn(self) -> Turn:
        """Runs all branches in a new study."""
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            study = fx.run(self._flow, out=Path(folder) / "study", workers=2, quiet=True)
            self.seconds = time.monotonic() - start
        self.scores = {key_of(row["config"]): row["score"] for row in study.table()}
        self.target = study.best.value - self._distance
        return Turn("forebay", self.seconds, True, len(self.scores)).show()


class Peer(Side):
    """A tool in processes of its own, two at a time; each turn has another seed."""

    def __init__(self, name: str, task: Task, forebay: Forebay) -> None:
        self._name, (self._commands, is_cached) = name, PEERS[name]
        self._task, self._forebay = task._replace(is_cached=is_cached), forebay
        self._epochs = flow_of(task)[1]
        self._seed = 0

    def turn(self) -> Turn:
        """Runs the tool until it has the score, or until its time is over.

        Raises:
            SideError: The tool failed.
            DisagreementError: A trial has another score than Forebay's branch.
        """
        seconds_max = SECONDS_X * self._forebay.seconds
        with tempfile.TemporaryDirectory() as folder:
            task = self._task._replace(seed=self._seed, folder=folder)
            task = task._replace(target=self._forebay.target, seconds_max=seconds_max)
            self._run(task)
            lines = (Path(folder) / "events").read_text().splitlines()
        self._seed += 1
        events = [json.loads(line) for line in lines]
        seconds = first_reached(events, self._epochs, self._forebay.target, self._forebay.scores)
        trials = sum("epoch" not in event for event in events)
        if seconds is None or seconds > seconds_max:
            return Turn(self._name, seconds_max, False, trials).show()
        return Turn(self._name, seconds, True, trials).show()

    def _run(self, task: Task) -> None:
        path = str(task.write())
        log = Path(task.folder) / "log"
        seconds_max = task.seconds_max + STARTING_SECONDS_MAX
        with log.open("w") as output, contextlib.ExitStack() as running:
            tools = [
                running.enter_context(_started([*command[:1], path, *command[1:]], output))
                for command in self._commands
            ]
            end = time.monotonic() + seconds_max
            try:
                codes = [tool.wait(max(0, end - time.monotonic())) for tool in tools]
            except subprocess.TimeoutExpired as error:
                raise SideError(f"no end after {seconds_max:.0f} s") from error
        if any(codes):
            raise SideError(last_line(log))


def first_reached(
    events: Sequence[dict[str, Any]],
    epochs: int,
    target: float,
    scores: Mapping[str, float],
) -> float | None:
    """Seconds from the first trial's beginning to the end of one that has the target; else None.

    Args:
        events: Those that lib.explore_trials.Trials writes.
        epochs: After which a trial ends with its score.
        target: The score in question.
        scores: Forebay's score of each configuration, by key_of().

    Raises:
        DisagreementError: A trial has ended with another score than Forebay's branch.
    """
    ended = [event for event in events if event.get("epoch") == epochs]
    for event in ended:
        if event["score"] != scores[key_of(event["config"])]:
            raise DisagreementError(f"{event}, but Forebay: {scores[key_of(event['config'])]}")
    start = min(event["at"] for event in events)
    return min((one["at"] - start for one in ended if one["score"] >= target), default=None)


def key_of(config: dict[str, Any]) -> str:
    """The same text for equal configurations."""
    return json.dumps(config, sort_keys=True)


@contextlib.contextmanager
def _started(arguments: Sequence[str], output: Any) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(EXPLORE_PYTHON), "-m", "lib.explore_tool", *arguments]
    process = subprocess.Popen(
        command, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
        env={**environment(), **VARIABLES}, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:  # Ray ends its servers when it is asked to end
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def _on_two_cores() -> Iterator[None]:
    """Keeps this process, and those that it starts, on two cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:2])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _compared(task: Task, peers: Sequence[str], distance: float) -> dict[str, list[Turn]]:
    comparison = Comparison("explore", ["forebay", *peers])
    forebay = Forebay(task, distance)

    def made(name: str) -> Side:
        return forebay if name == "forebay" else Peer(name, task, forebay)

    with _on_two_cores():
        comparison.open(made)
        return comparison.rounds(SEEDS)


def _figures(turns: dict[str, list[Turn]], names: dict[str, str]) -> dict[str, Any]:
    """The medians of each peer's time over Forebay's, and in how many turns it was in time."""
    figures: dict[str, Any] = {}
    for peer, name in names.items():
        if peer in turns:
            pairs = zip(turns[peer], turns["forebay"], strict=True)
            figures[f"{name}_x"] = statistics.median(a.seconds / b.seconds for a, b in pairs)
            figures[f"{name}_reached"] = sum(turn.has_reached for turn in turns[peer])
    return figures


def measure_shared(train: str, weights: Any, samples: int) -> dict[str, Any]:
    """Compares on the flow with heads, whose branches share nearly everything."""
    install_explore_peers()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/weights.pt"
        torch.save(weights, path)
        task = Task("head", train, samples, path, 0, 0.0, 0.0, "", False)
        turns = _compared(task, list(PEERS), 0.0)
    return _figures(turns, {name: f"vs_{name}" for name in PEERS})


def measure_home(train: str, samples: int) -> dict[str, Any]:
    """Compares on trainings that share nothing, until a score two points below the best."""
    install_explore_peers()
    task = Task("small", train, samples, "", 0, 0.0, 0.0, "", False)
    return _figures(_compared(task, ["optuna_asha"], 0.02), {"optuna_asha": "asha_home"})
