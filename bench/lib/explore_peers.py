"""The time until Forebay, Optuna and Ray Tune have the best score of a flow.

No time has the start of processes and the import of PyTorch in it. A peer's time begins with its
first trial, and ends with the first trial that has made all its epochs and has at least the score
in question. Forebay's time ends when its journal has the first branch with such a score; from its
run that of one whose stages do nothing but import PyTorch is subtracted. A peer ends without the
score after SECONDS_X times the whole run of Forebay, which tries every branch.
"""

import contextlib
import json
import math
import os
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch

from forebay import explore as fx
from lib import explore_flows
from lib.comparison import Comparison, DisagreementError, Side
from lib.explore_trials import Task, flow_of
from lib.peers_environment import EXPLORE_PYTHON, install_explore_peers
from lib.side_process import SideError, environment, last_line

SEEDS = 3
SECONDS_X = 3
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
    seconds: float  # until it had the score
    has_reached: bool  # else `seconds` is when it was ended
    whole_seconds: float
    trials: int
    best: float  # score of a complete training

    def show(self) -> "Turn":
        """Prints it, for people who wait."""
        more = "" if self.has_reached else " and more"
        what = f"{self.seconds:.1f} s{more} of {self.whole_seconds:.1f} s"
        print(f"{self.side:14} {what}, {self.trials} trials, best {self.best:.4f}", flush=True)
        return self


class Forebay(Side):
    """fx.run() with two workers. It gives the others the score to reach, and their time."""

    def __init__(self, task: Task, distance: float) -> None:
        self._flow, self._distance = flow_of(task)[0], distance
        self.target = self.seconds_max = 0.0
        self.scores: dict[str, float] = {}

    def turn(self) -> Turn:
        """Runs all branches in a new study."""
        begin_seconds = Run(explore_flows.start_flow()).seconds
        run = Run(self._flow)
        best = run.study.best.value
        self.target = best - self._distance
        self.scores = {key_of(row["config"]): row["score"] for row in run.study.table()}
        whole_seconds = run.seconds - begin_seconds
        self.seconds_max = SECONDS_X * whole_seconds
        seconds = run.seconds_until(self._flow.by, self.target) - begin_seconds
        return Turn("forebay", seconds, True, whole_seconds, len(self.scores), best).show()


class Run:
    """A run of a flow in a new study, whose journal is watched: its events have no times."""

    def __init__(self, flow: Any) -> None:
        self._sizes: list[tuple[float, int]] = []
        ended = threading.Event()
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
            journal = Path(folder) / "study/journal"
            self._start = time.monotonic()
            watching = pool.submit(self._watch, journal, ended)
            try:
                self.study = fx.run(flow, out=journal.parent, workers=2, quiet=True)
            finally:
                ended.set()
            self.seconds = time.monotonic() - self._start
            watching.result()
            self._lines = journal.read_bytes().splitlines(keepends=True)

    def seconds_until(self, metric: str, score: float) -> float:
        """Seconds from the call of fx.run() until a stage had reported this score or more."""
        size = 0
        for line in self._lines:
            size += len(line)
            event = json.loads(line.partition(b" ")[2])
            if event["kind"] == "done" and event["metrics"].get(metric, -math.inf) >= score:
                break
        known = min(at for at, seen in self._sizes if seen >= size) - self._start
        return min(known, self.seconds)

    def _watch(self, journal: Path, ended: threading.Event) -> None:
        is_last = False
        while not is_last:
            is_last = ended.wait(0.02)
            if journal.exists():
                self._sizes.append((time.monotonic(), journal.stat().st_size))


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
        seconds_max = self._forebay.seconds_max
        with tempfile.TemporaryDirectory() as folder:
            task = self._task._replace(seed=self._seed, folder=folder)
            task = task._replace(target=self._forebay.target, seconds_max=seconds_max)
            self._run(task)
            lines = (Path(folder) / "events").read_text().splitlines()
        self._seed += 1
        events = [json.loads(line) for line in lines]
        seconds = first_reached(events, self._epochs, self._forebay.target, self._forebay.scores)
        has_reached = seconds is not None and seconds <= seconds_max
        trials = sum("epoch" not in event for event in events)
        ended = [event["score"] for event in events if event.get("epoch") == self._epochs]
        took = min(seconds or seconds_max, seconds_max)
        best = max(ended, default=0.0)
        return Turn(self._name, took, has_reached, seconds_max, trials, best).show()

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


def _figures(turns: dict[str, list[Turn]], names: dict[str, str], complete: str) -> dict[str, Any]:
    """The medians of each peer's time over Forebay's, and in how many turns it was in time."""
    own = turns["forebay"]
    whole = statistics.median(turn.whole_seconds / turn.seconds for turn in own)
    figures: dict[str, Any] = {complete: whole}
    for peer, name in names.items():
        if peer in turns:
            pairs = zip(turns[peer], own, strict=True)
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
    names = {name: f"vs_{name}" for name in PEERS}
    return _figures(turns, names, "explore_complete_of_reached")


def measure_home(train: str, samples: int) -> dict[str, Any]:
    """Compares on trainings that share nothing, until a score two points below the best."""
    install_explore_peers()
    task = Task("small", train, samples, "", 0, 0.0, 0.0, "", False)
    turns = _compared(task, ["optuna_asha"], 0.02)
    return _figures(turns, {"optuna_asha": "asha_home"}, "home_complete_of_reached")
