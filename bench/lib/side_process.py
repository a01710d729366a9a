"""A side of bench/peers.py in processes of its own: what they use, from outside.

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

from lib.peers_environment import PYTHON

ROOT = Path(__file__).resolve().parent.parent.parent
ANSWER_SECONDS_MAX = 600
NUMBERS = itertools.count()  # of processes, for their logs' names
TICK = os.sysconf("SC_CLK_TCK")


class SideError(RuntimeError):
    """A side ended, or gave no answer; says which and why."""


def command(side: str, work: str, root: Path, threads: int, what: str) -> list[str]:
    """Of lib/side_program.py."""
    return [str(PYTHON), "-m", "lib.side_program", side, work, str(root), str(threads), what]


def environment() -> dict[str, str]:
    """Its variables: where it finds its modules, and no library's own choice of threads."""
    paths = f"{ROOT / 'bench'}:{ROOT / 'build/release/python'}"
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}


def run_once(
    side: str, work: str, root: Path, cores: set[int], what: str
) -> tuple[Any, dict[str, float]]:
    """A side's answer to something else than epochs, if it gives one, and what that took."""
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
            # Also what it left behind, as a writer that waits for a worker that died.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(done.pid, signal.SIGKILL)
    after = os.times()
    if done.returncode != 0:
        raise SideError(f"{side}: {what}: {_last_line(log)}")
    used = after.children_user - before.children_user
    used += after.children_system - before.children_system
    took = {"wall_seconds": time.monotonic() - start, "cpu_seconds": used}
    return json.loads(answer) if answer else None, took


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


class SideProcess:
    """One side, at work in its turns; a session of its own, so that all its processes are found."""

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
        self.memory_bytes = 0

    def turn(self, epochs: int, watch_memory: bool = False) -> dict[str, float]:
        """What `epochs` epochs took; memory is watched while they run, or looked at behind them."""
        assert self.process.stdin and self.process.stdout
        done = threading.Event()
        watch = threading.Thread(target=self._watch, args=(done,))
        if watch_memory:
            watch.start()
        try:
            os.killpg(self.process.pid, signal.SIGCONT)
            self.process.stdin.write(f"{epochs}\n")
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], ANSWER_SECONDS_MAX)[0]:
                raise SideError(f"{self.side}: no answer for {ANSWER_SECONDS_MAX} s")
            answer = self.process.stdout.readline()
            if not answer:
                raise SideError(f"{self.side}: {_last_line(self.log)}")
            os.killpg(self.process.pid, signal.SIGSTOP)
        except (BrokenPipeError, ProcessLookupError) as error:
            raise SideError(f"{self.side}: {_last_line(self.log)}") from error
        finally:
            done.set()
            if watch_memory:
                watch.join()
        self._look_at_memory()
        made = json.loads(answer)
        cpu = cpu_seconds(self.process.pid)
        made["cpu_seconds"], self.cpu_before = cpu - self.cpu_before, cpu
        return made

    def end(self) -> None:
        """Asks it to end, and sees to it that all its processes do."""
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
        self.memory_bytes = max(self.memory_bytes, now)


class SidePair:
    """Two of the same side at work at the same time, each on a core of its own, as one side."""

    def __init__(self, side: str, work: str, root: Path, cores: set[int]) -> None:
        self.started = time.monotonic()
        self.sides = [SideProcess(side, work, root, {core}) for core in sorted(cores)]

    @property
    def memory_bytes(self) -> int:
        """Of all their processes."""
        return sum(side.memory_bytes for side in self.sides)

    def turn(self, epochs: int, watch_memory: bool = False) -> dict[str, float]:
        """That many epochs of each: the images of all, in the time of the slowest."""
        with ThreadPoolExecutor(len(self.sides)) as pool:
            all_made = list(pool.map(lambda side: side.turn(epochs, watch_memory), self.sides))
        made = all_made[0]
        made["images"] = sum(one["images"] for one in all_made)
        made["cpu_seconds"] = sum(one["cpu_seconds"] for one in all_made)
        made["wall_seconds"] = max(one["wall_seconds"] for one in all_made)
        return made

    def end(self) -> None:
        """Both."""
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
    """Of all its processes, living and ended."""
    total = 0.0
    for process, ended_children in processes(session):
        clock = (~process << 3) | 2  # clock_getcpuclockid(3): to the nanosecond
        try:
            total += time.clock_gettime(clock) + ended_children
        except OSError:
            continue  # ended since
    return total


def _memory_bytes(process: int) -> int:
    """Its own memory and its share of what it has together with others."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
