"""Trains a compiled model in several processes (DistributedDataParallel and torch.compile).

The loader takes its rank from torch.distributed, so no sampler is needed, and every rank makes the
same number of steps.
usage: torchrun --nproc-per-node N ddp_compile.py DATASET [EPOCHS] [--out FILE]
"""

import argparse
import os

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import forebay
from forebay import transforms as T


def main() -> None:
    """Trains; rank 0 prints the mean loss and saves the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("epochs", type=int, nargs="?", default=2)
    parser.add_argument("--out", default="ddp_model.pt")
    arguments = parser.parse_args()

    on_gpu = torch.cuda.is_available()
    distributed.init_process_group("nccl" if on_gpu else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    torch.manual_seed(0)
    loader = forebay.Loader(
        arguments.dataset, batch_size=4, shuffle=True, drop_last=True, transform=T.train(64)
    )
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(256, len(loader.dataset.classes)),
    ).to(device)  # fmt: skip
    compiled = torch.compile(DistributedDataParallel(model))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(arguments.epochs):
        total = torch.zeros((), device=device)
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            loss = nn.functional.cross_entropy(compiled(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        distributed.all_reduce(total)
        if loader.rank == 0:
            mean = total.item() / (len(loader) * loader.world_size)
            print(f"epoch {epoch}: {len(loader)} steps, loss {mean:.4f}")
    if loader.rank == 0:
        torch.save(model.state_dict(), arguments.out)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
