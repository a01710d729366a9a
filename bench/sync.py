"""Time to an accuracy for several workers with thin links, for each strategy of forebay.sync.

Workers are processes in network namespaces on this machine. The traffic into and out of each one is
limited to a rate (`tc tbf`), and each has a part of one core (a quota of cgroup v1), so that all
compute at the same speed whatever the others do. They learn CIFAR-10 or scikit-learn's digits with
models of 4.3 million numbers (17 MB), by SGD with momentum. Rank 0 writes its model every few
seconds. This program measures it on test images, on the rest of the machine, and ends the job when
the mean of three measurements in a row has reached the accuracy. A job that does not reach it
counts with the time that it had, so ratios with such a time are bounds. Needs root.

Each strategy gets the same search of learning rates; then parameter servers get a search of bounds,
servers and places, and local steps a search of their number (lib/sync_trials.py). A setting is
taken if it is a tenth faster than the best before it. The search has its own seed. Then the best
trial of each strategy runs with the other seeds, seed after seed, all strategies in turns. A
strategy that does not reach the accuracy in the search is not run with the other seeds. If it does
not reach it with links of 100 Mbit/s or less, it is not run with thinner links. Parts:

compare: each strategy at each rate of the links
changes: the rate of the links changes after some seconds
killed: a worker is killed during the time that the job takes without a kill; under strategies that
cannot go on without it, torchrun starts all workers again, from rank 0's model and optimizer
overhead: step times of our all-reduce and of DistributedDataParallel, each with its own model, in
the same processes, in turns of ten steps

TASK_STRATEGY_RATE_s: seconds to the accuracy with links of RATE Mbit/s (null: not reached)
TASK_ako_vs_ps_saving_RATE: the part of the tuned parameter servers' time that ako saves
TASK_auto_vs_best_RATE: the time of auto over that of the best strategy
TASK_STRATEGY_kill_cost_s: how much later the accuracy is reached when a worker is killed
vs_ddp_x, vs_ddp_loopback_x: steps of allreduce over those of DistributedDataParallel
usage: ./dev bench sync CIFAR [options]
CIFAR: a folder with train/ and test/, each with a folder of .jpg files for each class
"""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from lib.comparison import report, show_table
from lib.peers_environment import run_among_peers
from lib.program import ROOT
from lib.sync_job import Accuracy, Jobs, Outcome
from lib.sync_plot import plot
from lib.sync_program import Settings
from lib.sync_trials import SIDES, Record, Side, Trial, Trials
from lib.sync_work import TASKS, pack

WORKERS = 4
SHARE = 0.4  # the part of a core for each worker
RATES = (10, 50, 100, 1000)
SEEDS = 3
RESULTS = ROOT / "bench/results/sync.jsonl"
PARTS = ("compare", "changes", "killed", "overhead")
QUICK_RATES = (10, 100)
QUICK_SIDES = ("ako", "ps", "streaming", "allreduce", "auto")
CHANGES = ((10, 100), (100, 10))
CHANGE_SECONDS = {"cifar": 30, "digits": 8}
CHANGING_SIDES = ("ako", "streaming", "allreduce", "auto")
KILLED_SIDES = ("ako", "pairs", "ps", "streaming", "allreduce", "auto")
KILLED_RATE = 1000
KILLED_RANK = 2
OVERHEAD_SECONDS = 300  # at most


class Bench:
    """The workers and the data sets, which all parts use.

    Args:
        cifar: The folder with the images of CIFAR-10.
        stack: Ends the workers' links and removes the packed data.
    """

    def __init__(self, cifar: Path, stack: ExitStack) -> None:
        self._cifar, self._stack = cifar, stack
        self._data: dict[str, tuple[Path, Accuracy]] = {}

    @cached_property
    def jobs(self) -> Jobs:
        """Runs jobs of WORKERS workers with limited links."""
        return self._stack.enter_context(Jobs(WORKERS, SHARE))

    def data(self, task: str) -> tuple[Path, Accuracy]:
        """The folder with a task's packed images, and what measures models on them."""
        if task not in self._data:
            folder = Path(
                self._stack.enter_context(tempfile.TemporaryDirectory(prefix="forebay-sync-"))
            )
            pack(task, self._cifar, folder)
            self._data[task] = folder, Accuracy(task, str(folder / "test.forebay"))
        return self._data[task]

    def settings(self, trial: Trial, side: Side, seconds_max: float) -> Settings:
        """The workers' settings for a trial."""
        options = dict(trial.options or side.options(trial.mbit))
        serves_only = tuple(options.pop("serves_only", ()))
        return Settings(
            task=trial.task, data=str(self.data(trial.task)[0] / "train.forebay"), folder="",
            strategy=side.strategy, options=options, rate=trial.rate, seed=trial.seed,
            seconds_max=seconds_max, serves_only=serves_only,
        )  # fmt: skip

    def run(self, trial: Trial, seconds_max: float) -> Record:
        """Runs a trial for at most `seconds_max` seconds."""
        task, side = TASKS[trial.task], SIDES[trial.side]
        settings = self.settings(trial, side, seconds_max)
        after = None
        what, *numbers = trial.event.split() or [""]
        if what == "kill":
            after = float(numbers[0]), lambda jobs, folder: jobs.kill(folder, KILLED_RANK)
        elif what == "limit":
            later = int(numbers[0])
            after = float(numbers[1]), lambda jobs, folder: jobs.limit(later)
        outcome = self.jobs.run(
            settings, trial.mbit, self.data(trial.task)[1], task.accuracy,
            after=after, restarts=side.restarts and what == "kill",
        )  # fmt: skip
        return record_of(outcome)


def record_of(outcome: Outcome) -> Record:
    """The figures of an outcome that are kept."""
    last_s, last, _ = outcome.points[-1] if outcome.points else (1.0, 0, 0.0)
    # Rank 0 has no report if it was ended in the middle of a long step.
    own = outcome.reports.get(0) or {"steps": last, "seconds": last_s}
    seconds = own["seconds"]
    stats = own.get("stats") or {}
    links = stats.get("links", [])
    return Record(
        seconds=outcome.seconds and round(outcome.seconds, 2),
        points=outcome.points,
        steps_per_s=round(own["steps"] / seconds, 3),
        mb_per_s=round(sum(link["sent_bytes"] for link in links) / seconds / 1e6, 3),
        parts=max((link["partitions"] for link in links), default=1),
        waited=round(stats.get("waited_s", 0.0) / seconds, 3),
        strategy=own.get("strategy", ""),
        happened=outcome.happened,
    )


def compare(
    trials: Trials, chosen: dict[tuple[str, int, str], Trial], seeds: int
) -> dict[str, Any]:
    """Shows a table for each task and rate; returns the figures.

    Args:
        trials: Runs trials that were not run yet.
        chosen: The trial of each task, rate and side.
        seeds: The number of seeds.
    """
    figures: dict[str, Any] = {}
    for task, mbit in dict.fromkeys((task, mbit) for task, mbit, _ in chosen):
        most = TASKS[task].seconds_max
        rows, times = {}, {}
        tuned = {side: trial for (t, m, side), trial in chosen.items() if (t, m) == (task, mbit)}
        run = {side: trial for side, trial in tuned.items() if trial.mbit == mbit}
        found = in_turns(trials, run, seeds)
        for side, trial in tuned.items():
            if side not in run:  # it did not reach the accuracy with wider links
                times[side], rows[side] = most, [most, "not run"]
                figures[f"{task}_{side}_{mbit}_s"] = None
                continue
            records = found[side]
            times[side] = statistics.mean(record.seconds_or(most) for record in records)
            reached = sum(record.seconds is not None for record in records)
            rows[side] = row(trial, records, times[side])
            figures[f"{task}_{side}_{mbit}_s"] = round(times[side], 2) if reached else None
        columns = {"seconds": "9.1f", "reached": ">9", "accuracy": "10.1%", "rate": "8",
                   "steps/s": "9.2f", "MB/s sent": "11.2f", "p": "6", "waited": "8.0%"}  # fmt: skip
        show_table(f"{task}, {mbit} Mbit/s, to {TASKS[task].accuracy:.0%}", columns, rows)
        if {"ako", "ps"} <= times.keys():
            figures[f"{task}_ako_vs_ps_saving_{mbit}"] = round(1 - times["ako"] / times["ps"], 3)
        if "auto" in times and len(times) > 1:
            others = min(seconds for side, seconds in times.items() if side != "auto")
            figures[f"{task}_auto_vs_best_{mbit}"] = round(times["auto"] / others, 3)
    return figures


def in_turns(trials: Trials, tuned: dict[str, Trial], seeds: int) -> dict[str, list[Record]]:
    """The outcomes of each side's trial with each seed except the search's, seed after seed."""
    found: dict[str, list[Record]] = {side: [] for side in tuned}
    for seed in range(1, 1 + seeds):
        for side, trial in tuned.items():
            searched = trials.known_of(trial)
            if searched is None or searched.seconds is not None:
                found[side].append(trials.of(replace(trial, seed=seed)))
            elif seed == 1:
                found[side].append(searched)
    return found


def row(trial: Trial, records: list[Record], seconds: float) -> list[Any]:
    """A side's row in the table; figures are means over the seeds."""
    reached = f"{sum(record.seconds is not None for record in records)}/{len(records)}"

    def mean(name: str) -> float:
        return statistics.mean(getattr(record, name) for record in records)

    return [seconds, reached, mean("accuracy"), trial.rate, mean("steps_per_s"),
            mean("mb_per_s"), records[0].parts, mean("waited")]  # fmt: skip


def changes(trials: Trials, task: str, sides: Sequence[str], seeds: int) -> dict[str, Any]:
    """Runs jobs whose links become thinner or wider; returns the figures."""
    figures: dict[str, Any] = {}
    for before, later in CHANGES:
        event = f"limit {later} {CHANGE_SECONDS[task]}"
        found: dict[str, list[float]] = {side: [] for side in sides}
        for seed in range(1, 1 + seeds):
            for side in sides:
                trial = replace(trials.tuned(task, before, side), seed=seed, event=event)
                found[side].append(trials.of(trial).seconds_or(TASKS[task].seconds_max))
        times = {side: statistics.mean(seconds) for side, seconds in found.items()}
        for side, seconds in times.items():
            figures[f"{task}_{side}_{before}_then_{later}_s"] = round(seconds, 2)
        if "auto" in times and len(times) > 1:
            best = min(seconds for side, seconds in times.items() if side != "auto")
            figures[f"{task}_auto_vs_best_{before}_then_{later}"] = round(times["auto"] / best, 3)
    return figures


def killed(trials: Trials, tuned: Sequence[Trial], seeds: int) -> dict[str, Any]:
    """Runs each trial with and without killing a worker; returns the figures."""
    figures: dict[str, Any] = {}
    for trial in tuned:
        costs = []
        for seed in range(1, 1 + seeds):
            calm = trials.of(replace(trial, seed=seed))
            if calm.seconds is None:
                continue
            instant = round(calm.seconds * (0.2 * (1 + (seed - 1) % 4)))
            hurt = trials.of(replace(trial, seed=seed, event=f"kill {instant}"))
            if hurt.happened:
                costs.append(hurt.seconds_or(TASKS[trial.task].seconds_max) - calm.seconds)
        name = f"{trial.task}_{trial.side}_kill_cost_s"
        figures[name] = round(statistics.mean(costs), 1) if costs else None
    return figures


def overhead(bench: Bench, stack: ExitStack) -> dict[str, Any]:
    """Compares steps of allreduce with those of DDP, in turns, with fast links and on loopback."""
    figures = {}
    folder, accuracy = bench.data("digits")
    for name, jobs in {
        "vs_ddp_x": bench.jobs,
        "vs_ddp_loopback_x": stack.enter_context(Jobs(2, 0.8, on_loopback=True)),
    }.items():
        settings = Settings(
            task="digits", data=str(folder / "train.forebay"), folder="",
            strategy="allreduce", in_turns_with="ddp", rate=0.01, seconds_max=OVERHEAD_SECONDS,
        )  # fmt: skip
        seconds = jobs.run(settings, 1000, accuracy, target=2).reports[0]
        ratios = [ddp / own for ddp, own in zip(seconds["ddp"], seconds["allreduce"], strict=True)]
        figures[name] = round(statistics.median(ratios), 3)
        show_table(
            name, {"least": "7.2f", "median": "7.2f", "most": "7.2f"},
            {"steps over those of DDP": [min(ratios), figures[name], max(ratios)]},
        )  # fmt: skip
    return figures


def main() -> None:
    """Prints tables and, at the end, one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cifar", type=Path)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, help="digits; with --full, all")
    parser.add_argument("--rates", type=int, nargs="+", metavar="MBIT")
    parser.add_argument("--sides", nargs="+", choices=SIDES)
    parser.add_argument("--seeds", type=int, help=f"1; with --full, {SEEDS}")
    parser.add_argument(
        "--full", action="store_true",
        help=f"searches, and runs all rates and strategies; continues {RESULTS.name}",
    )  # fmt: skip
    parser.add_argument("--plot", type=Path, help="draws the results of --full as an SVG")
    arguments = parser.parse_args()
    if arguments.plot:
        run_among_peers()  # for matplotlib
    torch.set_num_threads(1)
    full = arguments.full
    tasks = arguments.tasks or (tuple(TASKS) if full else ("digits",))
    rates = arguments.rates or (RATES if full else QUICK_RATES)
    sides = arguments.sides or (tuple(SIDES) if full else QUICK_SIDES)
    seeds = arguments.seeds or (SEEDS if full else 1)
    figures: dict[str, Any] = {}
    with ExitStack() as stack:
        bench = Bench(arguments.cifar, stack)
        kept = Trials(RESULTS, bench.run)
        if arguments.plot:
            plot(kept, arguments.plot)
            return
        trials = kept if full else Trials(None, bench.run)
        for task in tasks:
            find = kept.searched if full else kept.tuned
            if "compare" in arguments.parts:
                chosen = {
                    (task, mbit, side): find(task, mbit, side)
                    for mbit in sorted(rates, reverse=True)
                    for side in sides
                }
                figures |= compare(trials, chosen, seeds)
            if "changes" in arguments.parts and full:
                changing = [side for side in CHANGING_SIDES if side in sides]
                figures |= changes(trials, task, changing, seeds)
            if "killed" in arguments.parts:
                hurt = [side for side in KILLED_SIDES if side in sides][: None if full else 2]
                tuned = [find(task, KILLED_RATE, side) for side in hurt]
                figures |= killed(trials, tuned, seeds)
        if "overhead" in arguments.parts:
            figures |= overhead(bench, stack)
    report(figures)


if __name__ == "__main__":
    main()
