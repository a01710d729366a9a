"""Jobs of two or three processes in which something goes wrong; test_sync_cases.py.

usage: python sync_cases.py FOLDER CASE/STRATEGY …

Runs a job for each case and strategy, some at the same time, in forked processes. Prints a line of
JSON for each: its name, and for each rank its exit status, its standard error, and its weights and
loss, if it came to its end.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

import forebay.sync
from forebay.ranks import job_store
from forebay.sync import connection
from forebay.sync.lasting import Lasting

STRATEGIES: dict[str, Any] = {
    "allreduce": forebay.sync.AllReduce(),
    "ako": forebay.sync.Ako(),
    "ako-gradients": forebay.sync.Ako(of="gradients"),
    "ako-staleness": forebay.sync.Ako(staleness=4),
    "ps": forebay.sync.ParameterServers(),
    "pairs": forebay.sync.Pairs(),
    "local": forebay.sync.LocalSteps(steps=5),
    "streaming": forebay.sync.LocalSteps(steps=6, fragments=2, delay=1),
    "auto": "auto",
}
OUTER_ADAMW = forebay.sync.LocalSteps(steps=5, outer=lambda own: torch.optim.AdamW(own, lr=0.02))
FEATURES, CLASSES, STEPS = 10, 3, 30
JOB_SECONDS = 90
JOBS_AT_ONCE = 4
WAIT_SECONDS = 40.0
HUNG_WAIT_SECONDS = {2: 2.0, 3: 4.0}  # by the number of processes: more take longer to begin


def make_model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(FEATURES, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, CLASSES)
    )


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(16, FEATURES, generator=torch.Generator().manual_seed(seed))
    return x, x[:, :CLASSES].argmax(1)


class Job:
    """One process of a job that learns."""

    def __init__(self, strategy: Any, wait_seconds: float = WAIT_SECONDS) -> None:
        self.rank = dist.get_rank()
        self.model = make_model()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.sync = forebay.sync.attach(
            self.model, self.optimizer, strategy, wait_seconds=wait_seconds
        )
        self.steps = 0
        self.kept: list[float] = []  # of the exchange at its end, if the case notes it

    def learn(self, steps: int, pause: float = 0.002) -> None:
        for _ in range(steps):
            x, y = batch(2 * self.steps + self.rank)
            self.optimizer.zero_grad()
            functional.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
            self.steps += 1
            time.sleep(pause)

    def result(self) -> dict[str, Any]:
        self.model.eval()
        x, y = batch(12345)
        tensors = [*self.model.parameters(), *self.model.buffers()]
        return {
            "loss": float(functional.cross_entropy(self.model(x), y).detach()),
            "weights": [float(tensor.detach().double().sum()) for tensor in tensors],
            "strategy": self.sync.strategy.name,
            "kept": self.kept,
        }


def unequal_machines(job: Job) -> None:
    """Rank 1 takes three seconds longer, and is far behind when rank 0 has made all its steps."""
    job.learn(STEPS, pause=0.002 + 0.1 * job.rank)
    job.sync.close()


def fewer_steps(job: Job) -> None:
    """Rank 1's data end one step before rank 0's."""
    job.learn(STEPS - job.rank)
    job.sync.close()


def many_fewer_steps(job: Job) -> None:
    """Rank 0's data end long before rank 1's."""
    job.learn(STEPS // 3 if job.rank == 0 else STEPS)
    job.sync.close()


def rank_0_validates(job: Job) -> None:
    """Rank 0 pauses for longer than the time after which the others say so."""
    job.learn(10)
    if job.rank == 0:
        time.sleep(2)
    job.learn(STEPS - 10)
    job.sync.close()


def one_overflow(job: Job) -> None:
    """A GradScaler of rank 1 finds an overflow in the second step, and leaves the step out."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024)
    for step in range(STEPS):
        x, y = batch(2 * step + job.rank)
        job.optimizer.zero_grad()
        factor = float("inf") if (step, job.rank) == (1, 1) else 1.0
        scaler.scale(functional.cross_entropy(job.model(x), y) * factor).backward()
        scaler.step(job.optimizer)
        scaler.update()
        time.sleep(0.002)
    job.sync.close()


def no_close(job: Job) -> None:
    """The script ends without close() and without destroy_process_group()."""
    job.learn(STEPS)


def one_closes(job: Job) -> None:
    """Rank 0 closes; rank 1 only ends."""
    job.learn(STEPS)
    if job.rank == 0:
        job.sync.close()


def one_raises(job: Job) -> None:
    """Rank 1's script fails."""
    job.learn(10)
    if job.rank == 1:
        raise KeyError("a mistake of the script")
    job.learn(STEPS - 10)
    job.sync.close()


def one_exits(job: Job) -> None:
    """Rank 1's script gives up with an exit status, as processes of mp.spawn() do that fail."""
    job.learn(10)
    if job.rank == 1:
        sys.exit(1)
    job.learn(STEPS - 10)
    job.sync.close()


def one_is_killed(job: Job) -> None:
    job.learn(10)
    if job.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    job.learn(STEPS - 10)
    job.sync.close()


def one_hangs(job: Job) -> None:
    """Rank 1 stops for longer than rank 0 waits."""
    job.learn(10)
    if job.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    job.learn(STEPS - 10)
    job.sync.close()


def one_of_three_raises(job: Job) -> None:
    job.learn(12)
    if job.rank == 1:
        raise KeyError("a mistake of the script")
    job.learn(STEPS - 12)
    job.sync.close()


def one_of_three_hangs(job: Job) -> None:
    job.learn(12)
    if job.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    job.learn(STEPS - 12)
    job.sync.close()


def one_of_three_hangs_at_the_end(job: Job) -> None:
    """Rank 1 stops instead of ending."""
    job.learn(STEPS)
    if job.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    job.sync.close()


def one_of_three_comes_back(job: Job) -> None:
    """Rank 1 stops for longer than the others wait, and goes on when they have gone on."""
    store = job_store()
    job.learn(12)
    if job.rank == 1:
        store.set("process", str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    for _ in range(2):
        try:
            job.learn(STEPS - 12)
        except forebay.sync.SyncError as error:
            print(error, file=sys.stderr)
    if job.rank == 0:
        os.kill(int(store.get("process")), signal.SIGCONT)
    job.sync.close()


def first_of_three_is_killed(job: Job) -> None:
    job.learn(12)
    if job.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    job.learn(STEPS - 12)
    job.sync.close()


def two_of_three_are_killed(job: Job) -> None:
    """One after the other; the third goes on alone."""
    for rank in (1, 2):
        job.learn(12)
        if job.rank == rank:
            os.kill(os.getpid(), signal.SIGKILL)
    job.learn(STEPS - 24)
    job.sync.close()


def one_of_three_is_killed_at_the_end(job: Job) -> None:
    """Rank 0 has ended, rank 2 has some steps to make, and rank 1 is killed."""
    job.learn(12 if job.rank == 0 else 22)
    if job.rank == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    if job.rank == 2:
        job.learn(STEPS - 22)
    job.sync.close()


def two_of_three_are_lost_at_once(job: Job) -> None:
    """Rank 2 is killed when it has said that it is left after rank 1 was lost."""
    job.learn(12)
    if job.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if job.rank == 2:
        kill = mock.Mock(side_effect=lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        with mock.patch.object(Lasting, "_connected", kill):
            job.learn(STEPS - 12)
    job.learn(STEPS - 12)


def one_of_three_is_behind(job: Job) -> None:
    """Rank 1 is lost before rank 2 has the last sum, and rank 0 has it."""
    take, make_even = Lasting._take_newest, Lasting._make_even

    def take_behind(own: Any, reduced_bytes: int, shared: Any, momentum: Any) -> None:
        if job.rank == 2:
            shared += 1
            reduced_bytes -= 4
        take(own, reduced_bytes, shared, momentum)

    def note_and_make_even(own: Any, *arguments: Any) -> bool:
        kept = torch.utils._pytree.tree_leaves(own.state_dict())
        job.kept = [float(one.sum()) for one in kept if isinstance(one, torch.Tensor)]
        return make_even(own, *arguments)

    with (
        mock.patch.object(Lasting, "_take_newest", take_behind),
        mock.patch.object(Lasting, "_make_even", note_and_make_even),
    ):
        job.learn(12)
        if job.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        job.learn(STEPS - 12)
        job.sync.close()


def runs(case: Any, strategy: Any, rank: int, folder: Path) -> None:
    """A child process: one process of the job."""
    error = os.open(folder / f"stderr{rank}", os.O_CREAT | os.O_WRONLY)
    os.dup2(error, 2)
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=processes_of(case)
    )
    dist.barrier()  # so that attach() does not wait for processes that start slowly
    stops = "hangs" in case.__name__
    stops = stops or case in (one_of_three_comes_back, two_of_three_are_lost_at_once)
    job = Job(strategy, HUNG_WAIT_SECONDS[processes_of(case)] if stops else WAIT_SECONDS)
    case(job)
    (folder / f"result{rank}").write_text(json.dumps(job.result()))


def processes_of(case: Any) -> int:
    return 3 if "three" in case.__name__ else 2


class Running:
    """The processes of a job."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self._folder = name, folder
        case, strategy = name.split("/")
        self._hangs = "hangs" in case
        processes = processes_of(globals()[case])
        known = {**STRATEGIES, "outer": OUTER_ADAMW}
        folder.mkdir(parents=True)
        self._statuses: list[int | None] = [None] * processes
        self._begin = time.monotonic()
        self._children: list[int] = []
        for rank in range(processes):
            child = os.fork()
            if child == 0:
                runs(globals()[case], known[strategy], rank, folder)
                sys.exit(0)  # like any script's end, with all that Python does then
            self._children.append(child)

    def is_over(self) -> bool:
        """Whether all processes have ended; kills those that do not come to their end."""
        is_late = time.monotonic() - self._begin > JOB_SECONDS
        for rank, child in enumerate(self._children):
            others = self._statuses[:1] + self._statuses[2:]
            is_stopped = self._hangs and rank == 1 and None not in others
            if self._statuses[rank] is not None:
                continue
            if is_late or is_stopped:
                os.kill(child, signal.SIGKILL)
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                self._statuses[rank] = os.waitstatus_to_exitcode(status)
        return None not in self._statuses

    def outcome(self) -> dict[str, Any]:
        ranks = []
        for rank, status in enumerate(self._statuses):
            result = self._folder / f"result{rank}"
            said = (self._folder / f"stderr{rank}").read_text()
            found = json.loads(result.read_text()) if result.exists() else None
            ranks.append({"status": status, "said": said, "found": found})
        return {"name": self.name, "ranks": ranks}


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    running: list[Running] = []
    while names or running:
        while names and len(running) < JOBS_AT_ONCE:
            name = names.pop(0)
            running.append(Running(name, folder / name))
        for job in [job for job in running if job.is_over()]:
            running.remove(job)
            print(json.dumps(job.outcome()), flush=True)
        time.sleep(0.01)


connection._SAY_SECONDS = 1.0  # instead of 30, so that a case need not take so long

if __name__ == "__main__":
    main()
