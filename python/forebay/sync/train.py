"""The processes of `forebay train --sync`: C++ trains in each, and Python connects them.

usage: forebay train … --sync STRATEGY, in the processes of torchrun
"""

import argparse
import importlib
import json
import math
import os
import sys
from contextlib import ExitStack
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from forebay.ranks import local_world_size
from forebay.sync.connection import Connection
from forebay.sync.errors import SyncError
from forebay.sync.guide import Guide, strategy_of
from forebay.sync.numbers import Numbers
from forebay.sync.strategies import ParameterServers, Strategy
from forebay.sync.together import Together, newest_of

_WAIT_SECONDS = 1800.0
_WRONG_USAGE = 2


class Job:
    """A run's connection to the job's other processes: the Python side of Replicas.

    `src/train/run/replicas.h` has the contract of its functions.

    Args:
        strategy: How numbers are exchanged. A Guide chooses the strategy that suits the links.
    """

    def __init__(self, strategy: Strategy | Guide) -> None:
        self._strategy = strategy
        store, self.rank, self.processes = next(dist.rendezvous("env://"))
        self._store = dist.PrefixStore("forebay-train", store)
        self._connection = Connection(self._store, self.rank, self.processes, _WAIT_SECONDS)
        self.processes_here = local_world_size()
        self._together: Together | None = None
        self._is_together = True  # no process was lost
        self._shown = ExitStack()

    def newest_rank(self, steps: int) -> int:
        """The rank with the most steps; the lowest such rank if several are equal."""
        # The other processes wait while rank 0 measures, however long that takes.
        return newest_of(self._connection.objects(steps, math.inf))

    def from_rank(self, rank: int, own: bytes) -> bytes:
        """Returns in all processes the bytes that `rank` passes as `own`.

        After the exchange has ended without some process, each process gets its own.
        """
        if not self._is_together:
            return own
        return self._connection.bytes_from(rank, own, math.inf)

    def begin(
        self,
        weights: torch.Tensor,
        gradient: torch.Tensor,
        sizes: list[int],
        momentum: list[torch.Tensor],
    ) -> None:
        """Begins to exchange the weights and the gradient (float32 [numbers] each), in place.

        `momentum` is the optimizer's state, float32 tensors of any shapes.
        """

        def share_momentum() -> None:
            for tensor in momentum:
                if self.rank != 0:
                    tensor.zero_()
                self._connection.add(tensor)

        numbers = Numbers(weights, gradient, sizes)
        self._together = Together(
            self._connection, self._store, numbers, self._strategy, str(sizes),
            share_state=share_momentum,
        )  # fmt: skip
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
            self._is_together = together.close(math.inf)
            if not self._is_together:
                print(
                    f"forebay: train: rank {self.rank} keeps its own weights instead of the mean "
                    "of all: other processes were lost or did not end in time",
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
    try:
        job = Job(strategy)
    except SyncError as error:
        _fail(str(error))
    sys.exit(trainer.run(sys.argv[1:], job))


if __name__ == "__main__":
    main()
