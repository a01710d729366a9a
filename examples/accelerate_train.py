"""Trains with Hugging Face Accelerate. Started again, it goes on after the last checkpoint.

The loader takes its rank from Accelerate's processes, so it needs no prepare(). Since it is
registered for checkpoints, its position is saved and loaded with the model.
usage: accelerate launch accelerate_train.py DATASET [EPOCHS] [--out FOLDER] [--max-steps N]
       (or torchrun --nproc-per-node N accelerate_train.py …)
"""

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn

import forebay
from forebay import transforms as T

BATCH_SIZE = 4  # for each process
CHECKPOINT_STEPS = 5


def main() -> None:
    """Trains, starting from the last checkpoint if there is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("epochs", type=int, nargs="?", default=2)
    parser.add_argument("--out", type=Path, default=Path("accelerate_run"))
    parser.add_argument("--max-steps", type=int, default=0, help="ends before the last epoch does")
    arguments = parser.parse_args()

    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    set_seed(0)
    transform = T.train(size=64)
    loader = forebay.Loader(
        arguments.dataset, BATCH_SIZE, shuffle=True, drop_last=True, transform=transform
    )
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(256, len(loader.dataset.classes)),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    model, optimizer = accelerator.prepare(model, optimizer)
    accelerator.register_for_checkpointing(loader)
    checkpoint = arguments.out / "checkpoint"
    if checkpoint.exists():
        accelerator.load_state(str(checkpoint))

    # The loader's position tells how many steps this run and earlier runs have done.
    state = loader.state_dict()
    steps = state["epoch"] * len(loader) + state["position"] // (
        BATCH_SIZE * accelerator.num_processes
    )
    for epoch in range(loader.epoch, arguments.epochs):
        for images, labels in loader:
            images, labels = images.to(accelerator.device), labels.to(accelerator.device)
            loss = nn.functional.cross_entropy(model(images), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
            if steps % CHECKPOINT_STEPS == 0:
                accelerator.save_state(str(checkpoint))
            if steps == arguments.max_steps:
                accelerator.end_training()
                return
        mean = accelerator.reduce(loss.detach(), "mean").item()
        accelerator.print(f"epoch {epoch}: {steps} steps, loss {mean:.3f}")
    accelerator.save_model(model, arguments.out / "final", safe_serialization=False)
    accelerator.end_training()


if __name__ == "__main__":
    main()
