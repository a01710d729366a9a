"""Runs a side of bench/peers.py in processes of its own, and measures from outside what they use.

Between its turns a side stands still (SIGSTOP), so that it neither prepares batches that nobody
counts nor takes the others' time; a turn goes on where the one before ended. CPU seconds are those
of all its processes from the end of one turn to the end of the next, living and ended ones.
"""

import contextlib
import itertools
import json
import os
import select
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lib.comparison import Side
from lib.peers_environment import PYTHON
from lib.program import ROOT

ANSWER_SECONDS_MAX = 600
NUMBERS = itertools.count()  # numbers processes, for the names of their logs
TICK = os.sysconf("SC_CLK_TCK")


class SideError(RuntimeError):
    """A side ended or gave no answer; the message says which and why."""


def command(side: str, work: str, root: Path, threads: int, what: str) -> list[str]:
    """The command line of lib/side_program.py."""
    return [str(PYTHON), "-m", "lib.side_program", side, work, str(root), str(threads), what]


def environment() -> dict[str, str]:
    """Its variables: where it finds its modules, and one thread for libraries that use OpenMP."""
    paths = f"{ROOT / 'bench'}:{ROOT / 'build/release/python'}"
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}


def run_once(
    side: str, work: str, root: Path, cores: set[int], what: str
) -> tuple[Any, dict[str, float]]:
    """Runs something else than epochs; returns the side's answer, if any, and what it took."""
    log = root / f"{side}.log"
    start, before = time.monotonic(), os.times()
    with log.open("w") as errors, subprocess.Popen(
        command(side, work, root, len(cores), what), stdout=subprocess.PIPE, stderr=errors,
        stdin=subprocess.DEVNULL, env=environment(), text=True, start_new_session=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    ) as done:  # fmt: skip
        try:
            answer, _ = done.communicate(timeout=ANSWER_SECONDS_MAX)
        except subprocess.TimeoutExpired as error:
            raise SideError(f"{side}: {what}: no end after {ANSWER_SECONDS_MAX} s") from error
        finally:
            # This also ends what the side left, such as a writer that waits for a dead worker.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(done.pid, signal.SIGKILL)
    after = os.times()
    if done.returncode != 0:
        raise SideError(f"{side}: {what}: {last_line(log)}")
    used = after.children_user - before.children_user
    used += after.children_system - before.children_system
    took = {"wall_seconds": time.monotonic() - start, "cpu_seconds": used}
    return json.loads(answer) if answer else None, took


def last_line(log: Path) -> str:
    """Returns the last line of a log that says something."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


class RunningSide(Side):
    """A side in one or several processes.

    Its numbers differ from Forebay's by the mean and the deviation of all pixels of an epoch of
    normalised photographs.
    """

    differences_max = (0.1, 0.1)
    started: float  # by time.monotonic()
    epochs = 2  # of a turn
    watches_memory = True  # while a turn runs; else memory is looked at after it

    @property
    def memory_bytes(self) -> int:
        """The most memory that its processes were seen to take."""
        raise NotImplementedError

    def turn(self) -> dict[str, float]:
        """What `epochs` epochs took (LoaderSide.turn), and "cpu_seconds"."""
        raise NotImplementedError


class SideProcess(RunningSide):
    """One side, in a session of its own, so that all its processes are found."""

    def __init__(self, side: str, work: str, root: Path, cores: set[int]) -> None:
        self.side = side
        self.log = root / f"{side}_{next(NUMBERS)}.log"
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            command(side, work, root, len(cores), "run"), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.log.open("w"), env=environment(), text=True,
            start_new_session=True, preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )  # fmt: skip
        self.cpu_before = 0.0
        self._memory_bytes = 0

    @property
    def memory_bytes(self) -> int:
        """The most memory that its processes were seen to take."""
        return self._memory_bytes

    def turn(self) -> dict[str, float]:
        """What `epochs` epochs took (LoaderSide.turn), and "cpu_seconds"."""
        assert self.process.stdin and self.process.stdout
        done = threading.Event()
        watch = threading.Thread(target=self._watch, args=(done,))
        if self.watches_memory:
            watch.start()
        try:
            os.killpg(self.process.pid, signal.SIGCONT)
            self.process.stdin.write(f"{self.epochs}\n")
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], ANSWER_SECONDS_MAX)[0]:
                raise SideError(f"{self.side}: no answer for {ANSWER_SECONDS_MAX} s")
            answer = self.process.stdout.readline()
            if not answer:
                raise SideError(f"{self.side}: {last_line(self.log)}")
            os.killpg(self.process.pid, signal.SIGSTOP)
        except (BrokenPipeError, ProcessLookupError) as error:
            raise SideError(f"{self.side}: {last_line(self.log)}") from error
        finally:
            done.set()
            if self.watches_memory:
                watch.join()
        self._look_at_memory()
        made = json.loads(answer)
        cpu = cpu_seconds(self.process.pid)
        made["cpu_seconds"], self.cpu_before = cpu - self.cpu_before, cpu
        return made

    def end(self) -> None:
        """Asks the side to end, and makes sure that all its processes do."""
        with contextlib.suppress(subprocess.TimeoutExpired, BrokenPipeError, ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGCONT)
            self.process.communicate(timeout=20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _watch(self, done: threading.Event) -> None:
        while not done.wait(0.05):
            self._look_at_memory()

    def _look_at_memory(self) -> None:
        now = sum(_memory_bytes(process) for process, _ in processes(self.process.pid))
        self._memory_bytes = max(self._memory_bytes, now)


class SidePair(RunningSide):
    """The same side twice at the same time, each on a core of its own, counted as one side."""

    def __init__(self, side: str, work: str, root: Path, cores: set[int]) -> None:
        self.started = time.monotonic()
        self.sides = [SideProcess(side, work, root, {core}) for core in sorted(cores)]

    @property
    def memory_bytes(self) -> int:
        """The memory of all their processes together."""
        return sum(side.memory_bytes for side in self.sides)

    def turn(self) -> dict[str, float]:
        """What both took: the images of both, in the time of the slower one."""
        for side in self.sides:
            side.epochs, side.watches_memory = self.epochs, self.watches_memory
        with ThreadPoolExecutor(len(self.sides)) as pool:
            all_made = list(pool.map(lambda side: side.turn(), self.sides))
        made = all_made[0]
        made["images"] = sum(one["images"] for one in all_made)
        made["cpu_seconds"] = sum(one["cpu_seconds"] for one in all_made)
        made["wall_seconds"] = max(one["wall_seconds"] for one in all_made)
        return made

    def end(self) -> None:
        """Ends both."""
        for side in self.sides:
            side.end()


def processes(session: int) -> list[tuple[int, float]]:
    """The processes of a session, each with the CPU seconds of its children that have ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue  # ended since
        if int(fields[3]) == session:
            found.append((int(path.parent.name), (int(fields[13]) + int(fields[14])) / TICK))
    return found


def cpu_seconds(session: int) -> float:
    """Returns the CPU seconds of all processes of a session, living and ended."""
    total = 0.0
    for process, ended_children in processes(session):
        clock = (~process << 3) | 2  # clock_getcpuclockid(3): to the nanosecond
        try:
            total += time.clock_gettime(clock) + ended_children
        except OSError:
            continue  # ended since
    return total


def _memory_bytes(process: int) -> int:
    """A process's own memory, and its share of the memory that it has together with others."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
