"""A worker of bench/sync.py: trains on its share of CIFAR-10 until it is told to stop.

usage: python -m lib.sync_program SETTINGS (JSON; see Settings), with the variables of torchrun
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

import forebay
import forebay.sync
from forebay import transforms as T

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
WARM_UP_SAMPLES = 10_000  # of all workers, while the learning rate rises


@dataclass(frozen=True)
class Settings:
    """What a job of workers does.

    Attributes:
        data: The packed training images.
        folder: For snapshots of rank 0's model, and the file "stop", which ends the job.
        strategy: A name of forebay.sync.STRATEGIES, or "ddp", or "powersgd" for DDP with its hook.
        options: The strategy's.
        rate: The learning rate.
        batch: Samples of each worker in a step.
        seed: Of weights and order.
        seconds_max: The job ends after the first snapshot that is so old.
        snapshot_seconds: The time between snapshots.
    """

    data: str
    folder: str
    strategy: str
    options: dict[str, Any] = field(default_factory=dict)
    rate: float = 0.1
    batch: int = 64
    seed: int = 0
    seconds_max: float = 120
    snapshot_seconds: float = 4

    def with_side(self, strategy: str, options: dict[str, Any], rate: float) -> "Settings":
        """The same work by another strategy and learning rate."""
        return replace(self, strategy=strategy, options=options, rate=rate)


def make_model() -> nn.Module:
    """Three convolutions and two linear layers: 4.3 million numbers, 17 MB, and few operations."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(4096, 1024), nn.ReLU(), nn.Dropout(), nn.Linear(1024, 10),
    )  # fmt: skip
    for parameter in model.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return model


class Training:
    """A worker's model, optimizer and what joins them to the others'."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        torch.manual_seed(settings.seed)
        self.model: nn.Module = make_model()
        self.bare = self.model
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=settings.rate, momentum=0.9, weight_decay=5e-4
        )
        self.sync: forebay.sync.Sync | None = None
        if settings.strategy in ("ddp", "powersgd"):
            self.model = nn.parallel.DistributedDataParallel(self.model)
            if settings.strategy == "powersgd":
                self._compress()
        else:
            kinds = forebay.sync.strategies.STRATEGIES
            strategy = kinds[settings.strategy](**settings.options)
            self.sync = forebay.sync.attach(
                self.model, self.optimizer, strategy, wait_seconds=settings.seconds_max
            )

    def _compress(self) -> None:
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

        state = powerSGD_hook.PowerSGDState(
            process_group=None, start_powerSGD_iter=10, **self.settings.options
        )
        assert isinstance(self.model, nn.parallel.DistributedDataParallel)
        self.model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)

    def step(self, images: torch.Tensor, labels: torch.Tensor, samples: int) -> float:
        """One step; `samples` is how many all workers have learned from."""
        part = min(1.0, (samples + 1) / WARM_UP_SAMPLES)
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate * part
        self.optimizer.zero_grad()
        logits = self.model(images.contiguous(memory_format=torch.channels_last))
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def save(self, path: Path, **more: Any) -> None:
        """Writes the model's state and more numbers, as a whole or not at all."""
        part = path.with_suffix(".part")
        torch.save({"state": self.bare.state_dict(), **more}, part)
        part.rename(path)


def endless(loader: Any) -> Iterator[Any]:
    """The batches of one epoch after another."""
    while True:
        yield from loader


def main() -> None:
    """Trains until the file "stop" is there."""
    settings = Settings(**json.loads(sys.argv[1]))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    training = Training(settings)
    rank, workers = dist.get_rank(), dist.get_world_size()
    loader = forebay.Loader(
        settings.data, settings.batch, shuffle=True, drop_last=True, num_workers=1,
        seed=settings.seed,
        transform=[
            T.RandomCrop(32, padding=4, padding_mode="reflect"),
            T.RandomHorizontalFlip(),
            T.Normalize(MEAN, STD),
        ],
    )  # fmt: skip
    folder = Path(settings.folder)
    dist.barrier()
    start = time.monotonic()
    steps, next_snapshot, number, losses = 0, settings.snapshot_seconds, 0, []
    stop = folder / "stop"
    batches = endless(loader)
    while not stop.exists():
        images, labels = next(batches)
        try:
            losses.append(training.step(images, labels, steps * settings.batch * workers))
        except (OSError, RuntimeError):
            if stop.exists():  # another worker has ended in the middle of this step
                break
            raise
        steps += 1
        seconds = time.monotonic() - start
        if rank == 0 and seconds >= next_snapshot:
            loss = sum(losses) / len(losses)
            training.save(folder / f"{number:04}.pt", seconds=seconds, steps=steps, loss=loss)
            number, losses = number + 1, []
            next_snapshot = max(seconds, next_snapshot + settings.snapshot_seconds)
    stats = training.sync.stats() if training.sync else {}
    report = {"rank": rank, "steps": steps, "seconds": time.monotonic() - start, "stats": stats}
    (folder / f"rank{rank}.json").write_text(json.dumps(report))
    os._exit(0)  # others may be in the middle of a step that needs this one


if __name__ == "__main__":
    main()
