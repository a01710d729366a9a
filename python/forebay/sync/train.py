"""The processes of `forebay train --sync`: C++ trains in each, and Python connects them.

usage: forebay train … --sync STRATEGY, in the processes of torchrun
"""

import argparse
import importlib
import json
import os
import sys
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from forebay.ranks import local_world_size
from forebay.sync.auto import CHANGE_SECONDS
from forebay.sync.guide import Guide, strategy_of
from forebay.sync.numbers import Numbers
from forebay.sync.strategies import ParameterServers, Strategy
from forebay.sync.together import Together, newest_of

_WAIT_SECONDS = 30.0
# Under strategies without sums, processes end at different times. If rank 0 measures, all wait for
# each other after each epoch.
_CLOSE_SECONDS = 600.0
# The other processes wait while rank 0 measures, however long that takes.
_GROUP_TIMEOUT = timedelta(days=365)
_WRONG_USAGE = 2


class Job:
    """A run's connection to the job's other processes: the Python side of Replicas.

    `src/train/run/replicas.h` has the contract of its functions.

    Args:
        strategy: How numbers are exchanged. A Guide chooses the strategy that suits the links.
    """

    def __init__(self, strategy: Strategy | Guide) -> None:
        self._strategy = strategy
        self.rank, self.processes = dist.get_rank(), dist.get_world_size()
        self.processes_here = local_world_size()
        self._together: Together | None = None
        self._shown = ExitStack()

    def newest_rank(self, steps: int) -> int:
        """The rank with the most steps; the lowest such rank if several are equal."""
        made = [0] * self.processes
        dist.all_gather_object(made, steps)
        return newest_of(made)

    def from_rank(self, rank: int, own: bytes) -> bytes:
        """Returns in all processes the bytes that `rank` passes as `own`."""
        given = [own]
        dist.broadcast_object_list(given, rank)
        return given[0]

    def begin(self, weights: torch.Tensor, gradient: torch.Tensor, sizes: list[int]) -> None:
        """Begins to exchange the weights and the gradient (float32 [numbers] each), in place."""
        numbers = Numbers(weights, gradient, sizes)
        self._together = Together(numbers, self._strategy, _WAIT_SECONDS, str(sizes))
        self.after_update = self._together.after_update

    def before_update(self) -> None:
        """The gradient is complete: replaces it by what the optimiser shall apply."""
        assert self._together is not None
        self._together.before_step()
        self._together.before_update()

    def show_averaged(self) -> None:
        """Lends the model the mean of all weights, as far as it is known, until show_own()."""
        if self._together is not None:
            self._shown.enter_context(self._together.averaged_weights())

    def show_own(self) -> None:
        """Gives the model this process's own weights again."""
        self._shown.close()

    def end(self) -> None:
        """Ends the exchange; afterwards the model has the mean of all weights."""
        if self._together is not None:
            together, self._together = self._together, None
            self._stats = together.stats()
            if not together.close(_CLOSE_SECONDS, CHANGE_SECONDS):
                print(
                    f"forebay: train: rank {self.rank} keeps its own weights instead of the mean "
                    "of all: other processes were lost or did not end within "
                    f"{_CLOSE_SECONDS:.0f} s",
                    file=sys.stderr,
                )

    def stats(self) -> dict[str, Any]:
        """What was exchanged so far; see `forebay.sync.Sync.stats`."""
        return self._stats if self._together is None else self._together.stats()

    def describe(self) -> str:
        """The statistics in a few words, for a progress line."""
        stats = self.stats()
        links = [link for rank, link in enumerate(stats["links"]) if rank != self.rank]
        sent = sum(link["sent_bytes"] for link in links) + stats["reduced_bytes"]
        text = f"sync: {self._name()}, {sent / max(1, stats['steps']) / 1e6:.1f} MB a step"
        parts = max((link["partitions"] for link in links), default=1)
        if parts > 1:
            text += f" (1/{parts} of the model a peer)"
        return text + f", waited {stats['waited_s']:.0f} s"

    def _name(self) -> str:
        return "ended" if self._together is None else self._together.strategy.name

    def stats_text(self) -> str:
        """The statistics as JSON."""
        return json.dumps(self.stats())


def _fail(why: str) -> NoReturn:
    print(f"forebay: train: {why}", file=sys.stderr)
    sys.exit(_WRONG_USAGE)


def main() -> None:
    """Runs the command line; ends the process with its exit status."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--sync", required=True)
    strategy_name = parser.parse_known_args()[0].sync
    try:
        strategy = strategy_of(strategy_name)
    except ValueError as error:
        _fail(str(error))
    if isinstance(strategy, ParameterServers):
        _fail("--sync ps is for forebay.sync.attach() alone; use auto, ako or another strategy")
    if "RANK" not in os.environ or "MASTER_ADDR" not in os.environ:
        _fail("--sync needs a job: torchrun --no-python --nproc-per-node=N forebay train …")
    try:
        trainer: Any = importlib.import_module("forebay._train")
    except ImportError as error:
        _fail(
            "--sync needs the module forebay._train; build Forebay with torch and with this Python "
            f"({error})"
        )
    dist.init_process_group("gloo", timeout=_GROUP_TIMEOUT)
    status = trainer.run(sys.argv[1:], Job(strategy))
    sys.stdout.flush()
    # Threads that wait for a process that is gone would hold up the interpreter's end.
    os._exit(status)


if __name__ == "__main__":
    main()
