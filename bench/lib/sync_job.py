"""Jobs of bench/sync.py: workers in network namespaces, each with a part of the processor."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

import forebay
from forebay import transforms as T
from lib.program import ROOT
from lib.sync_program import MEAN, STD, Settings, make_model

sys.path.insert(0, str(ROOT / "tests/python"))
from servers.links import Network  # noqa: E402

CGROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 20_000
PORT = 29_500
TEST_SAMPLES = 2000
START_SECONDS_MAX = 120


@dataclass(frozen=True)
class Point:
    """A snapshot of a job: after so many seconds of training, and how good it is."""

    seconds: float
    steps: int
    accuracy: float


@dataclass(frozen=True)
class Outcome:
    """How a job went.

    Attributes:
        points: Its snapshots in their order.
        seconds: When it reached the accuracy, by a line between snapshots; None: it did not.
        reports: What each worker said at its end, by rank.
    """

    points: list[Point]
    seconds: float | None
    reports: dict[int, dict[str, Any]]


@contextmanager
def cpu_share(share: float) -> Iterator[list[str]]:
    """A control group that has this part of one core; gives the words before a command."""
    group = CGROUPS / f"forebay-{os.getpid()}-{time.monotonic_ns()}"
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(int(PERIOD_US * share)))
        enter = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        yield ["sh", "-c", enter, "sh"]
    finally:
        for _ in range(100):
            try:
                group.rmdir()
                break
            except OSError:  # the last process has not quite ended
                time.sleep(0.1)


class Accuracy:
    """Measures snapshots on the first images of each class of the test set.

    Args:
        data: The packed test images.
    """

    def __init__(self, data: str) -> None:
        loader = forebay.Loader(data, 500, shuffle=True, seed=1, transform=[T.Normalize(MEAN, STD)])
        self._batches = [
            batch for batch, _ in zip(loader, range(TEST_SAMPLES // 500), strict=False)
        ]
        self._model = make_model().eval()

    def of(self, state: dict[str, torch.Tensor]) -> float:
        """The part of the images that a model with this state knows."""
        self._model.load_state_dict(state)
        right = 0
        with torch.inference_mode():
            for images, labels in self._batches:
                images = images.contiguous(memory_format=torch.channels_last)
                right += int((self._model(images).argmax(1) == labels).sum())
        return right / TEST_SAMPLES


class Jobs:
    """Runs jobs of so many workers on links of given rates.

    Args:
        workers: How many.
        share: The part of a core that each worker has.
        accuracy: Measures snapshots.
    """

    def __init__(self, workers: int, share: float, accuracy: Accuracy) -> None:
        self._share, self._accuracy = share, accuracy
        self._stack = ExitStack()
        self._network = self._stack.enter_context(Network(workers))
        self.workers = workers

    def __enter__(self) -> "Jobs":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def limit(self, mbit: int) -> None:
        """Sets the rate of each worker's link in each direction."""
        self._network.limit(mbit)

    def run(self, settings: Settings, target: float) -> Outcome:
        """Trains until the accuracy is reached, or the time is over."""
        folder = Path(tempfile.mkdtemp(prefix="forebay-sync-", dir="/dev/shm"))
        try:
            with ExitStack() as stack:
                workers = [
                    self._start(stack, rank, replace(settings, folder=str(folder)))
                    for rank in range(self.workers)
                ]
                points, seconds = self._watch(folder, workers, settings, target)
            reports = {
                int(path.stem[4:]): json.loads(path.read_text())
                for path in folder.glob("rank*.json")
            }
        finally:
            shutil.rmtree(folder)
        return Outcome(points, seconds, reports)

    def _start(self, stack: ExitStack, rank: int, settings: Settings) -> subprocess.Popen[bytes]:
        words = stack.enter_context(cpu_share(self._share))
        command = [
            *words, *self._network.command(rank),
            sys.executable, "-m", "lib.sync_program", json.dumps(asdict(settings)),
        ]  # fmt: skip
        environment = {
            **os.environ,
            "RANK": str(rank), "WORLD_SIZE": str(self.workers), "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": self._network.address(0), "MASTER_PORT": str(PORT),
            "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "link0",
            "PYTHONPATH": f"{ROOT / 'bench'}:{os.environ.get('PYTHONPATH', '')}",
        }  # fmt: skip
        worker = subprocess.Popen(command, env=environment, start_new_session=True)
        stack.callback(_end, worker)
        return worker

    def _watch(
        self,
        folder: Path,
        workers: list[subprocess.Popen[bytes]],
        settings: Settings,
        target: float,
    ) -> tuple[list[Point], float | None]:
        points: list[Point] = []
        reached: float | None = None
        until = time.monotonic() + settings.seconds_max + START_SECONDS_MAX
        while reached is None and time.monotonic() < until:
            paths = sorted(folder.glob("*.pt"))
            if not paths:
                if all(worker.poll() is not None for worker in workers):
                    break
                time.sleep(0.2)
                continue
            points.append(self._measure(paths[0]))
            reached = reach(points, target)
            if points[-1].seconds >= settings.seconds_max:
                break
        (folder / "stop").touch()
        for worker in workers:
            try:
                worker.wait(20)
            except subprocess.TimeoutExpired:
                _end(worker)
        return points, reached

    def _measure(self, path: Path) -> Point:
        saved = torch.load(path)
        path.unlink()
        return Point(saved["seconds"], saved["steps"], self._accuracy.of(saved["state"]))


def reach(points: list[Point], target: float) -> float | None:
    """When the last of the points reached the accuracy, on a line from the one before it."""
    last = points[-1]
    if last.accuracy < target:
        return None
    before = points[-2] if len(points) > 1 else Point(0, 0, 0.1)
    part = (target - before.accuracy) / (last.accuracy - before.accuracy)
    return before.seconds + max(0.0, part) * (last.seconds - before.seconds)


def _end(worker: subprocess.Popen[bytes]) -> None:
    if worker.poll() is None:
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
