"""The host of bench/prep.py: trains on a loader's batches, or sleeps. Prints one JSON line.

usage: prep_program.py SETTINGS, a JSON object: data, batch, epochs, seconds (the consumer's time
for a batch; null: it trains a small network), servers (URLs of prep servers), policy (for them),
tells (whether it also prints the time.perf_counter() of each batch).
"""

import hashlib
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import forebay
from forebay import transforms

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def checksum(images: torch.Tensor) -> bytes:
    """Sums of each sample's 64-bit words, which cost the host little time."""
    words = images.numpy().view(np.uint64).reshape(len(images), -1)
    return words.sum(axis=1, dtype=np.uint64).tobytes()


def trainer() -> Callable[[torch.Tensor, torch.Tensor], None]:
    """A step of a small residual network on images of a quarter of the size."""
    torch.set_num_threads(1)
    torch.manual_seed(0)

    class Block(torch.nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.one = torch.nn.Conv2d(channels, channels, 3, padding=1)
            self.two = torch.nn.Conv2d(channels, channels, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.two(torch.relu(self.one(torch.relu(x))))

    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 7, stride=8),
        Block(8),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 1000),
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step(images: torch.Tensor, labels: torch.Tensor) -> None:
        loss = torch.nn.functional.cross_entropy(net(images.float() / 255), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def main() -> None:
    """Runs the epochs.

    Prints seconds, CPU seconds and checksums of each epoch, and how many batches had come from prep
    servers by its end.
    """
    settings: dict[str, Any] = json.loads(sys.argv[1])
    servers, policy = settings["servers"], settings["policy"]
    prep = forebay.Prep(servers, policy=policy) if servers else None
    loader = forebay.Loader(
        settings["data"],
        settings["batch"],
        shuffle=True,
        drop_last=True,
        transform=[transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()],
        num_workers=1,
        seed=1,
        prep=prep,
    )
    seconds = settings["seconds"]
    train = trainer() if seconds is None else None
    epochs = []
    for _ in range(settings["epochs"]):
        sums = []
        began, cpu = time.perf_counter(), sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        for images, labels in loader:
            sums.append(hashlib.sha256(checksum(images) + labels.numpy().tobytes()).hexdigest())
            if train is not None:
                train(images, labels)
            elif seconds:
                time.sleep(seconds)
            if settings["tells"]:
                print(time.perf_counter(), flush=True)
        took = time.perf_counter() - began
        cpu = sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - cpu
        servers = loader.prep_servers()
        near = sum(server["batches"] for server in servers)
        epochs.append({"began": began, "seconds": took, "cpu": cpu, "sums": sums, "near": near})
    out = {"epochs": epochs, "batches": len(loader), "servers": servers, "policy": policy}
    print(json.dumps(out))


if __name__ == "__main__":
    main()
