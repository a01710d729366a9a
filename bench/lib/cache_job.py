"""A job of several machines, each of which is a process in a network namespace of its own."""

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lib.comparison import Side
from lib.peers_environment import PYTHON
from lib.remote_servers import Network, free_port
from lib.side_process import ANSWER_SECONDS_MAX, SideError, cpu_seconds, environment, last_line

# Each machine has a memory of its own, which the system's mounts are left without.
OWN_MEMORY = 'mount -t tmpfs -o size=16g tmpfs /dev/shm && exec "$@"'


class Job(Side):
    """Ranks of lib/cache_program.py, one on each machine, which wait for their turns.

    Args:
        name: Names it in messages and in its logs.
        side: "forebay", or a peer.
        network: Its machines.
        folder: For what its machines keep, and for logs.
        options: Those of lib/cache_program.py for a rank, beside "folder".
        variables: Added to its environment.
    """

    # The mean and the deviation of all numbers of an epoch may differ by so much from Forebay's.
    differences_max = (0.1, 0.1)

    def __init__(
        self,
        name: str,
        side: str,
        network: Network,
        folder: Path,
        options: Callable[[int], Mapping[str, Any]],
        variables: Mapping[str, str],
    ) -> None:
        self.name, self.folder = name, folder / name
        port = str(free_port(network.host))
        self._ranks = []
        for rank in range(network.machines):
            own = self.folder / str(rank)
            own.mkdir(parents=True)
            given = {**options(rank), "folder": str(own)}
            command = [*network.command(rank), "sh", "-c", OWN_MEMORY, "sh", str(PYTHON), "-m",
                       "lib.cache_program", side, json.dumps(given)]  # fmt: skip
            world = {"RANK": str(rank), "WORLD_SIZE": str(network.machines), "LOCAL_RANK": "0",
                     "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": network.address(0),
                     "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "link0", "TMPDIR": str(own),
                     "FOREBAY_INDEX_CACHE": str(own / "indexes")}  # fmt: skip
            self._ranks.append(subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self._log(rank).open("a"), text=True, start_new_session=True,
                env={**environment(), **variables, **world},
            ))  # fmt: skip
        for rank in range(network.machines):
            self._answer(rank)

    def _log(self, rank: int) -> Path:
        return self.folder / f"{rank}.log"

    def epoch(self, *, check: bool = False) -> dict[str, Any]:
        """All ranks' next epoch.

        Returns:
            "images", "wall_seconds" and "cpu_seconds" of all; "ranks": what consume() of
            lib/remote_program.py said of each, and "stats" that the loader counted since its start.
        """
        cpu = self._cpu_seconds()
        start = time.monotonic()
        for rank in range(len(self._ranks)):
            self._ask(rank, {"check": check})
        ranks = [self._answer(rank) for rank in range(len(self._ranks))]
        wall = time.monotonic() - start
        images = sum(one["images"] for one in ranks)
        cpu = self._cpu_seconds() - cpu
        return {"images": images, "wall_seconds": wall, "cpu_seconds": cpu, "ranks": ranks}

    def train(self, step_seconds: float) -> None:
        """Lets all ranks go on with epochs until they are killed; a step takes so long."""
        for rank in range(len(self._ranks)):
            timeline = str(self.timeline(rank))
            self._ask(rank, {"step_seconds": step_seconds, "timeline": timeline})

    def timeline(self, rank: int) -> Path:
        """The file in which a rank that trains writes down when its batches came."""
        return self.folder / f"{rank}.timeline"

    def send(self, rank: int, number: signal.Signals) -> None:
        """Sends a signal to a rank."""
        self._ranks[rank].send_signal(number)

    def check_lives(self, rank: int) -> None:
        """Raises SideError where a rank has ended."""
        if self._ranks[rank].poll() is not None:
            raise SideError(f"{self.name} {rank} ended: {last_line(self._log(rank))}")

    def kill(self) -> None:
        """Kills all ranks."""
        for process in self._ranks:
            process.kill()
            process.wait()

    def turn(self) -> dict[str, Any]:
        """An epoch that is not looked at."""
        return self.epoch()

    def _ask(self, rank: int, what: Mapping[str, Any]) -> None:
        questions = self._ranks[rank].stdin
        assert questions
        try:
            questions.write(json.dumps(what) + "\n")
            questions.flush()
        except BrokenPipeError as error:
            raise SideError(f"{self.name} {rank}: {last_line(self._log(rank))}") from error

    def _answer(self, rank: int) -> Any:
        answers = self._ranks[rank].stdout
        assert answers
        if not select.select([answers], [], [], ANSWER_SECONDS_MAX)[0]:
            raise SideError(f"{self.name} {rank}: no answer for {ANSWER_SECONDS_MAX} s")
        if not (answer := answers.readline()):
            raise SideError(f"{self.name} {rank}: {last_line(self._log(rank))}")
        return json.loads(answer)

    def _cpu_seconds(self) -> float:
        return sum(cpu_seconds(process.pid) for process in self._ranks)

    def end(self) -> None:
        """Ends the ranks and what they started."""
        for process in self._ranks:
            with contextlib.suppress(BrokenPipeError):
                assert process.stdin
                process.stdin.close()
        for process in self._ranks:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def total(epoch: Mapping[str, Any], stat: str) -> float:
    """The sum of what the ranks' loaders counted until the end of an epoch."""
    return sum(rank["stats"][stat] for rank in epoch["ranks"])
