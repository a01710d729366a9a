"""Time to an accuracy of several workers whose links are thin, by what they exchange.

Workers are processes in network namespaces on this machine. What leaves and enters each of them is
limited to a rate (`tc tbf`), and each has a part of one core (a quota of cgroup v1), so that they
compute as fast as each other whatever the others do. They learn CIFAR-10 with a small convolutional
network of 4.3 million numbers (17 MB), by SGD with momentum, 64 samples a worker and step. Rank 0
writes its model every few seconds; this program measures it on 2,000 test images meanwhile, on the
rest of the machine, and ends the job when the accuracy is reached. A job that does not reach it in
SECONDS counts with SECONDS, so that figures against it are bounds. Each strategy takes the best of
the same learning rates. Needs root.

STRATEGY_RATE_s: seconds to the accuracy with links of RATE Mbit/s (null: not reached)
ako_vs_ps_saving_RATE: the part of the parameter servers' time that ako saves
usage: ./dev bench sync CIFAR [options]
CIFAR: a folder with train/ and test/, each with a folder of .jpg files for each class
"""

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lib.comparison import report, show_table
from lib.program import forebay
from lib.sync_job import Accuracy, Jobs, Outcome
from lib.sync_program import Settings

WORKERS = 4
SHARE = 0.4  # of a core, for each worker
RATES = (50, 100)


@dataclass(frozen=True)
class Side:
    """A strategy with its options."""

    strategy: str
    options: dict[str, Any]


SIDES = {
    "ako": Side("ako", {}),
    "ako_gradients": Side("ako", {"of": "gradients"}),
    "ps": Side("ps", {"staleness": 1}),
    "local": Side("local", {"steps": 50}),
    "streaming": Side("local", {"steps": 48, "fragments": 4, "delay": 8}),
    "pairs": Side("pairs", {}),
    "allreduce": Side("allreduce", {}),
    "ddp": Side("ddp", {}),
    "powersgd": Side("powersgd", {"matrix_approximation_rank": 2}),
}
DEFAULT_SIDES = ("ako", "ps", "streaming", "pairs")


def best(outcomes: dict[float, Outcome]) -> float:
    """The learning rate that reached the accuracy first, or else came nearest to it."""

    def worth(rate: float) -> tuple[float, float]:
        seconds = outcomes[rate].seconds
        nearest = max((point.accuracy for point in outcomes[rate].points), default=0.0)
        return (-seconds if seconds is not None else float("-inf"), nearest)

    return max(outcomes, key=worth)


def row(rate: float, outcome: Outcome) -> list[Any]:
    """What the table shows of a side."""
    reached = "not" if outcome.seconds is None else f"{outcome.seconds:.1f}"
    own = outcome.reports.get(0, {})
    seconds = own.get("seconds") or float("nan")
    links = own.get("stats", {}).get("links", [])
    sent = sum(link["sent_bytes"] for link in links) / seconds / 1e6
    parts = max((link["partitions"] for link in links), default=1)
    nearest = max((point.accuracy for point in outcome.points), default=0.0)
    return [reached, nearest, rate, own.get("steps", 0) / seconds, sent, parts]


def main() -> None:
    """Prints a table for each rate of the links and, last, one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cifar", type=Path)
    parser.add_argument("--rates", type=int, nargs="+", default=RATES, metavar="MBIT")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=DEFAULT_SIDES)
    parser.add_argument("--learning-rates", type=float, nargs="+", default=[0.05])
    parser.add_argument("--accuracy", type=float, default=0.6)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="forebay-sync-") as folder:
        for part in ("train", "test"):
            forebay("pack", arguments.cifar / part, f"{folder}/{part}.forebay")
        settings = Settings(
            data=f"{folder}/train.forebay", folder="", strategy="",
            seconds_max=arguments.seconds, seed=arguments.seed,
        )  # fmt: skip
        with Jobs(WORKERS, SHARE, Accuracy(f"{folder}/test.forebay")) as jobs:
            for rate in arguments.rates:
                jobs.limit(rate)
                figures |= compare(jobs, settings, rate, arguments)
    report(figures)


def compare(
    jobs: Jobs, settings: Settings, rate: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Runs all sides at one rate of the links; returns the figures."""
    figures: dict[str, Any] = {}
    rows = {}
    for name in arguments.sides:
        outcomes = {
            learning_rate: jobs.run(
                settings.with_side(SIDES[name].strategy, SIDES[name].options, learning_rate),
                arguments.accuracy,
            )
            for learning_rate in arguments.learning_rates
        }
        chosen = best(outcomes)
        rows[name] = row(chosen, outcomes[chosen])
        figures[f"{name}_{rate}_s"] = outcomes[chosen].seconds
        print(f"{rate} Mbit/s  {name}  {rows[name][0]} s  {rows[name][1]:.1%}", flush=True)
    columns = {"seconds": "9", "accuracy": "10.1%", "rate": "8", "steps/s": "9.2f",
               "MB/s sent": "11.2f", "p": "6"}  # fmt: skip
    show_table(f"{rate} Mbit/s", columns, rows)
    ako, servers = (figures.get(f"{name}_{rate}_s") for name in ("ako", "ps"))
    if ako is not None and "ps" in rows:
        figures[f"ako_vs_ps_saving_{rate}"] = 1 - ako / (servers or arguments.seconds)
    return figures


if __name__ == "__main__":
    main()
