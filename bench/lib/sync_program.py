"""A worker of bench/sync.py: trains on its share of the data until it is told to stop.

usage: python -m lib.sync_program SETTINGS (JSON; see Settings), with the variables of torchrun
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

import forebay.sync
from lib.sync_work import TASKS, make_model, training_loader

TURNS, STEPS_OF_TURN = 12, 10


@dataclass(frozen=True)
class Settings:
    """What a job of workers does.

    Attributes:
        task: What it learns, a name of TASKS.
        data: The path of the packed training images.
        folder: For snapshots of rank 0's model, and the file "stop", which ends the job.
        strategy: A name for forebay.sync.attach, or "ddp", or "powersgd" for DDP with its hook, or
            "none": nothing is exchanged.
        options: The strategy's options.
        rate: The learning rate.
        seed: The seed of weights and order.
        seconds_max: The job ends after the first snapshot at or after this time.
        serves_only: Ranks that do not train.
        in_turns_with: A strategy that trains in turns with `strategy`, each with its own model. The
            job then ends after some turns, and reports only the times of both.
    """

    task: str
    data: str
    folder: str
    strategy: str
    options: dict[str, Any] = field(default_factory=dict)
    rate: float = 0.1
    seed: int = 0
    seconds_max: float = 120
    serves_only: tuple[int, ...] = ()
    in_turns_with: str = ""


class Training:
    """A worker's model and optimizer, and their exchange with the other workers."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        torch.manual_seed(settings.seed)
        self.model: nn.Module = make_model(settings.task)
        self.bare = self.model
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=settings.rate, momentum=0.9, weight_decay=5e-4
        )
        self.steps = 0
        self._last = Path(settings.folder) / "last"
        self._load_last()
        self.sync: forebay.sync.Sync | None = None
        if settings.strategy == "ddp":
            self.model = nn.parallel.DistributedDataParallel(self.model)
            return
        if settings.strategy == "powersgd":
            self._compress()
            return
        if settings.strategy == "none":
            return
        strategy: Any = settings.strategy
        if settings.options:
            strategy = forebay.sync.strategies.STRATEGIES[settings.strategy](**settings.options)
        self.sync = forebay.sync.attach(self.model, self.optimizer, strategy, wait_seconds=600)

    def _load_last(self) -> None:
        """Continues from rank 0's last snapshot if the launcher has restarted this process."""
        if self._last.exists():
            saved = torch.load(self._last)
            self.bare.load_state_dict(saved["state"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.steps = saved["steps"]

    def _compress(self) -> None:
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

        state = powerSGD_hook.PowerSGDState(
            process_group=None, start_powerSGD_iter=10, **self.settings.options
        )
        # One bucket holds all gradients. With several, the hook's callbacks begin their sums in an
        # order that differs from process to process, and Gloo ends the job with an error.
        model = nn.parallel.DistributedDataParallel(self.model, bucket_cap_mb=1000)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        self.model = model

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """Makes one training step."""
        task = TASKS[self.settings.task]
        samples = self.steps * task.batch * dist.get_world_size()
        part = min(1.0, (samples + 1) / task.warm_up)
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate * part
        self.optimizer.zero_grad()
        logits = self.model(images.contiguous(memory_format=torch.channels_last))
        functional.cross_entropy(logits, labels).backward()
        self.optimizer.step()
        self.steps += 1

    def save(self, path: Path, seconds: float) -> None:
        """Writes the model's state completely or not at all; a restart also continues from it."""
        part, last = path.with_suffix(".part"), path.with_suffix(".last")
        with self.sync.averaged_weights() if self.sync else nullcontext():
            saved = {
                "state": self.bare.state_dict(), "optimizer": self.optimizer.state_dict(),
                "steps": self.steps, "seconds": seconds,
            }  # fmt: skip
            torch.save(saved, part)
        os.link(part, last)
        last.rename(self._last)
        part.rename(path)


def endless(loader: Any) -> Iterator[Any]:
    """The batches of one epoch after another."""
    while True:
        yield from loader


def begin_of(folder: Path, rank: int) -> float:
    """Waits until the job begins; returns its first begin, also in restarted processes.

    A job begins when all workers are ready and lib/sync_job.py has limited their links and
    processors.
    """
    dist.barrier()
    if rank == 0:
        (folder / "ready").touch()
    while not (folder / "begin").exists():
        time.sleep(0.01)
    dist.barrier()
    return float((folder / "begin").read_text())


def take_turns(settings: Settings, batches: Iterator[Any], folder: Path, rank: int) -> None:
    """Reports the seconds of STEPS_OF_TURN steps of each strategy, turn by turn."""
    names = settings.in_turns_with, settings.strategy
    sides = {name: Training(replace(settings, strategy=name)) for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    begin_of(folder, rank)
    for turn in range(1 + TURNS):
        for name in sorted(sides, reverse=turn % 2 == 0):
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(STEPS_OF_TURN):
                sides[name].step(*next(batches))
            if turn > 0:  # DDP arranges its buckets in the first steps
                seconds[name].append(time.perf_counter() - begin)
    (folder / f"rank{rank}.json").write_text(json.dumps(seconds))
    dist.barrier()
    os._exit(0)


def main() -> None:
    """Trains until the file "stop" exists."""
    settings = Settings(**json.loads(sys.argv[1]))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    folder = Path(settings.folder)
    batches = endless(training_loader(settings.task, settings.data, settings.seed))
    if settings.in_turns_with:
        take_turns(settings, batches, folder, rank)
    training = Training(settings)
    (folder / f"process{rank}").write_text(str(os.getpid()))
    stop = folder / "stop"
    begin = begin_of(folder, rank)
    snapshot_seconds = TASKS[settings.task].snapshot_seconds
    next_snapshot = snapshot_seconds
    if rank in settings.serves_only:
        while not stop.exists():
            time.sleep(0.1)
    while not stop.exists():
        images, labels = next(batches)
        try:
            training.step(images, labels)
        except (OSError, RuntimeError):
            if stop.exists():  # another worker has ended in the middle of this step
                break
            raise
        seconds = time.time() - begin
        if rank == 0 and seconds >= next_snapshot:
            training.save(folder / f"{seconds:09.3f}.pt", seconds)
            next_snapshot = max(seconds, next_snapshot + snapshot_seconds)
    stats = training.sync.stats() if training.sync else {}
    strategy = str(training.sync.strategy) if training.sync else settings.strategy
    seconds = time.time() - begin
    report = {"steps": training.steps, "seconds": seconds, "stats": stats, "strategy": strategy}
    (folder / f"rank{rank}.json").write_text(json.dumps(report))
    os._exit(0)  # others may be in the middle of a step that needs this one


if __name__ == "__main__":
    main()
