"""One configuration of a flow after the other, as a tool that knows no flows runs them.

A trial computes all of its stages in the process that calls it, with the functions and seeds of the
flow, so that its scores are those of fx.run(). With a cache, the input of the last stage is kept by
hand: in this process by the settings that it depends on, and in files for other processes.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from forebay import _core
from forebay.explore.calling import call, filled
from forebay.explore.plan import Plan, Planned
from forebay.explore.stages import Report, Running
from lib import explore_flows


class Task(NamedTuple):
    """What a tool has to do."""

    flow: str  # "head" or "small"
    train: str
    samples: int
    weights: str  # the file with the backbone of the flow "head"
    seed: int  # of the tool's own random numbers
    target: float  # the score with which it ends
    seconds_max: float
    folder: str  # its own, for events, storage and cached results
    is_cached: bool

    def write(self) -> Path:
        """Writes it into its folder, for read_task()."""
        path = Path(self.folder) / "task.json"
        path.write_text(json.dumps(self._asdict()))
        return path


def read_task(path: str) -> Task:
    """What write() wrote."""
    return Task(**json.loads(Path(path).read_text()))


def flow_of(task: Task) -> tuple[Any, int]:
    """The flow, and the number of epochs after which its trainings have their scores."""
    if task.flow == "head":
        weights = torch.load(task.weights)
        flow = explore_flows.head_flow(task.train, weights, task.samples)
        return flow, explore_flows.HEAD_EPOCHS
    return explore_flows.small_flow(task.train, task.samples), explore_flows.SMALL_EPOCHS


class Trials:
    """The trials that this process makes. They append to the file `events` in the task's folder.

    An event is a line of JSON: `at`, the system's monotonic time in seconds, `config`, and with a
    report also its `epoch`, from 1, and its `score`.
    """

    def __init__(self, task: Task) -> None:
        torch.set_num_threads(1)
        self.task = task
        self.flow, self.epochs = flow_of(task)
        self._kept: dict[str, Report] = {}

    def run(self, config: dict[str, Any], on_report: Callable[[int, float], object]) -> float:
        """Computes one branch; returns its score.

        Args:
            config: The label of a value for each explore.
            on_report: Gets each epoch, from 1, and its score. An error that it raises ends the
                trial.
        """
        self._log(config=config)
        plan = Plan(_core.ExploreEngine(1, 2**63, 2**63), explore_flows.SEED, 1, None)
        metric = plan.single(self.flow, config).metric
        *before, last = plan.tasks
        (needed,) = last.inputs

        def reported(epoch: int, report: Report) -> None:
            score = report.metrics[metric]
            self._log(config=config, epoch=epoch, score=score)
            on_report(epoch, score)

        made = {needed: self._cached(before) if self.task.is_cached else _made(before)}
        return _computed(last, made, reported).metrics[metric]

    def _cached(self, before: list[Planned]) -> Report:
        key = "-".join(str(value) for _, value in sorted(before[-1].config.items()))
        path = Path(self.task.folder) / f"{key}.pt"
        if key not in self._kept:
            if path.exists():
                self._kept[key] = Report(torch.load(path))
            else:
                self._kept[key] = _made(before)
                unfinished = path.with_suffix(f".{os.getpid()}")
                torch.save(self._kept[key].state, unfinished)
                unfinished.rename(path)
        return self._kept[key]

    def _log(self, **event: Any) -> None:
        line = json.dumps({"at": time.monotonic(), **event}) + "\n"
        with open(Path(self.task.folder) / "events", "a") as file:
            file.write(line)


def _made(tasks: list[Planned]) -> Report:
    """Computes these tasks, each of which has its inputs before it; returns the last result."""
    made: dict[int, Report] = {}
    for done, task in enumerate(tasks, start=1):
        made[task.number] = _computed(task, made)
        needed = {number for later in tasks[done:] for number in later.inputs} | {task.number}
        made = {number: report for number, report in made.items() if number in needed}
    return made[tasks[-1].number]


def _computed(
    task: Planned,
    made: dict[int, Report],
    on_report: Callable[[int, Report], object] = lambda epoch, report: None,
) -> Report:
    states = {number: report.state for number, report in made.items()}
    args, kwargs = filled(task.args, states, None), filled(task.kwargs, states, None)
    running = Running(task.seed_identity)
    return call(task.stage.function, args, kwargs, running, on_report=on_report)
