"""Jobs of bench/sync.py: workers in network namespaces, each with a part of the processor.

The limits of links and processors begin when all workers are ready to train.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from lib.program import ROOT
from lib.sync_points import Point, reach
from lib.sync_program import Settings
from lib.sync_work import make_model, test_batches

sys.path.insert(0, str(ROOT / "tests/python"))
from servers.links import Network  # noqa: E402

CGROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 20_000
PORT = 29_500
START_MBIT = 1000  # the rate of the links until all workers have begun
START_SECONDS_MAX = 300
END_SECONDS = 8


@dataclass(frozen=True)
class Outcome:
    """How a job went.

    Attributes:
        points: Its snapshots, in order.
        seconds: When it reached the accuracy; None: it did not.
        reports: The workers' reports at their end, by rank; killed workers have none.
        happened: Whether the planned event happened before the end.
    """

    points: list[Point]
    seconds: float | None
    reports: dict[int, dict[str, Any]]
    happened: bool


@contextmanager
def control_group() -> Iterator[Path]:
    """A control group of the processor, at first without a limit."""
    group = CGROUPS / f"forebay-{os.getpid()}-{time.monotonic_ns()}"
    group.mkdir()
    try:
        yield group
    finally:
        for _ in range(100):
            try:
                group.rmdir()
                break
            except OSError:  # the last process is still ending
                time.sleep(0.1)


class Accuracy:
    """Measures snapshots of models of a task.

    Args:
        task: A name of TASKS.
        data: The path of the packed test images.
    """

    def __init__(self, task: str, data: str) -> None:
        self._batches = test_batches(task, data)
        self._model = make_model(task).eval()

    def of(self, state: dict[str, torch.Tensor]) -> float:
        """The part of the images that a model with this state classifies correctly."""
        self._model.load_state_dict(state)
        right = total = 0
        with torch.inference_mode():
            for images, labels in self._batches:
                images = images.contiguous(memory_format=torch.channels_last)
                right += int((self._model(images).argmax(1) == labels).sum())
                total += len(labels)
        return right / total


class Jobs:
    """Runs jobs of a fixed number of workers on links of given rates.

    Args:
        workers: The number of workers.
        share: The part of a core that each worker has.
        on_loopback: Whether workers have neither their own network namespaces nor limited links.
    """

    def __init__(self, workers: int, share: float, *, on_loopback: bool = False) -> None:
        self._share = share
        self._stack = ExitStack()
        self._network = None if on_loopback else self._stack.enter_context(Network(workers))
        self.workers = workers

    def __enter__(self) -> "Jobs":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(
        self,
        settings: Settings,
        mbit: int,
        accuracy: Accuracy,
        target: float,
        *,
        after: tuple[float, Callable[["Jobs", Path], None]] | None = None,
        restarts: bool = False,
    ) -> Outcome:
        """Trains until the accuracy is reached, or the time is over.

        Args:
            settings: The job's settings, whose folder is replaced by a new one.
            mbit: The rate of each worker's link in each direction, in Mbit/s.
            accuracy: Measures the job's snapshots.
            target: The accuracy that ends the job.
            after: A time in seconds of training, and a function that is then called once with this
                object and the job's folder.
            restarts: Whether torchrun starts all workers again when one of them ends.
        """
        self.limit(START_MBIT)
        folder = Path(tempfile.mkdtemp(prefix="forebay-sync-", dir="/dev/shm"))
        settings = replace(settings, folder=str(folder))
        try:
            with ExitStack() as stack:
                groups = [stack.enter_context(control_group()) for _ in range(self.workers)]
                workers = [
                    self._start(stack, rank, groups[rank], settings, restarts)
                    for rank in range(self.workers)
                ]
                _wait_until_ready(folder, workers)
                self.limit(mbit)
                for group in groups:
                    (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                    (group / "cpu.cfs_quota_us").write_text(str(int(PERIOD_US * self._share)))
                (folder / "begins").write_text(str(time.time()))
                (folder / "begins").rename(folder / "begin")
                points, seconds, happened = self._watch(
                    folder, workers, settings, accuracy, target, after
                )
            reports = {
                int(path.stem[4:]): json.loads(path.read_text())
                for path in folder.glob("rank*.json")
            }
        finally:
            shutil.rmtree(folder)
        return Outcome(points, seconds, reports, happened)

    def limit(self, mbit: int) -> None:
        """Sets the rate of each worker's link in each direction, in Mbit/s."""
        if self._network is not None:
            self._network.limit(mbit)

    def kill(self, folder: Path, rank: int) -> None:
        """Kills a worker's process."""
        os.kill(int((folder / f"process{rank}").read_text()), signal.SIGKILL)

    def _start(
        self, stack: ExitStack, rank: int, group: Path, settings: Settings, restarts: bool
    ) -> subprocess.Popen[bytes]:
        words = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
        first, own, interface = "127.0.0.1", "127.0.0.1", "lo"
        if self._network is not None:
            words += self._network.command(rank)
            first, own = self._network.address(0), self._network.address(rank)
            interface = "link0"
        launcher = ["-m", "lib.sync_program"]
        if restarts:
            launcher = [
                "-m", "torch.distributed.run", f"--nnodes={self.workers}", "--nproc-per-node=1",
                "--rdzv-backend=c10d", f"--rdzv-endpoint={first}:{PORT}",
                f"--rdzv-conf=is_host={int(rank == 0)}", f"--local-addr={own}",
                "--max-restarts=3", "--monitor-interval=0.5", *launcher,
            ]  # fmt: skip
        command = [*words, sys.executable, *launcher, json.dumps(asdict(settings))]
        environment = {
            **os.environ,
            "RANK": str(rank), "WORLD_SIZE": str(self.workers), "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": first, "MASTER_PORT": str(PORT),
            "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": interface,
            # Keeps freed memory in the process. Without this, a process that allocates gradients in
            # each step got their memory from the system, which took a third of its time.
            "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
            # Without this, restarted workers find their predecessors' addresses.
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            "PYTHONPATH": f"{ROOT / 'bench'}:{os.environ.get('PYTHONPATH', '')}",
        }  # fmt: skip
        log = stack.enter_context((Path(settings.folder) / f"log{rank}").open("wb"))
        worker = subprocess.Popen(
            command, env=environment, start_new_session=True, stdout=log, stderr=log
        )
        stack.callback(_end, worker)
        return worker

    def _watch(
        self,
        folder: Path,
        workers: list[subprocess.Popen[bytes]],
        settings: Settings,
        accuracy: Accuracy,
        target: float,
        after: tuple[float, Callable[["Jobs", Path], None]] | None,
    ) -> tuple[list[Point], float | None, bool]:
        points: list[Point] = []
        reached: float | None = None
        hurts = after is not None
        while reached is None:
            if after is not None and seconds_since_begin(folder) >= after[0]:
                after[1](self, folder)
                after = None
            paths = sorted(folder.glob("*.pt"))
            if not paths:
                if seconds_since_begin(folder) > settings.seconds_max + END_SECONDS:
                    break  # rank 0 is in the middle of a long step
                if _have_ended(folder, workers):
                    break
                time.sleep(0.1)
                continue
            points.append(_measure(paths[0], accuracy))
            reached = reach(points, target)
            if points[-1][0] >= settings.seconds_max:
                break
        if not hurts:
            check_workers(folder)
        (folder / "stop").touch()
        until = time.monotonic() + END_SECONDS
        for worker in workers:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(max(0.1, until - time.monotonic()))
        return points, reached, after is None


def _wait_until_ready(folder: Path, workers: list[subprocess.Popen[bytes]]) -> None:
    until = time.monotonic() + START_SECONDS_MAX
    while not (folder / "ready").exists():
        _have_ended(folder, workers)
        if time.monotonic() > until:
            raise RuntimeError(f"not all workers are ready; rank 0 said:\n{_said(folder)}")
        time.sleep(0.02)


def _have_ended(folder: Path, workers: list[subprocess.Popen[bytes]]) -> bool:
    if any(worker.poll() is None for worker in workers):
        return False
    if not _has_diverged(folder) and not list(folder.glob("rank*.json")):
        raise RuntimeError(f"all workers have ended; rank 0 said:\n{_said(folder)}")
    return True


def _said(folder: Path, rank: int = 0) -> str:
    return (folder / f"log{rank}").read_text(errors="replace")


def check_workers(folder: Path) -> None:
    """Raises if a worker has failed, unless a model has diverged, which ends all workers.

    Without this check, a job that does not run would count as one that learns slowly.
    """
    if _has_diverged(folder):
        return
    for rank in range(len(list(folder.glob("log*")))):
        said = _said(folder, rank)
        if "Traceback" in said:
            raise RuntimeError(f"rank {rank} has failed; it said:\n{said}")


def _has_diverged(folder: Path) -> bool:
    return any("is not finite" in path.read_text(errors="replace") for path in folder.glob("log*"))


def seconds_since_begin(folder: Path) -> float:
    """How long a job has been training."""
    try:
        return time.time() - float((folder / "begin").read_text())
    except FileNotFoundError:
        return 0.0


def _measure(path: Path, accuracy: Accuracy) -> Point:
    saved = torch.load(path)
    path.unlink()
    return round(saved["seconds"], 2), saved["steps"], accuracy.of(saved["state"])


def _end(worker: subprocess.Popen[bytes]) -> None:
    if worker.poll() is None:
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
