"""The tasks of the workers of bench/sync.py: models and prepared samples."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import forebay
from forebay import transforms as T

CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


@dataclass(frozen=True)
class Task:
    """A data set, and how models learn it.

    Batches are so small that noise in the gradients limits a worker's progress: with four times as
    many samples in a step, it needs less than half of the steps. So an exchange gains much, like
    in a large job.

    Attributes:
        batch: The number of samples of each worker in a step.
        warm_up: The number of samples, over all workers, during which the learning rate rises.
        accuracy: A job ends when the mean of three measurements in a row reaches it.
        seconds_max: The time that a job may take.
        snapshot_seconds: The time from one measurement of the model to the next.
        learning_rates: Each strategy begins with the middle one and climbs from there.
    """

    batch: int
    warm_up: int
    accuracy: float
    seconds_max: float
    snapshot_seconds: float
    learning_rates: tuple[float, ...]

    @property
    def middle_rate(self) -> float:
        """The learning rate in the middle."""
        return self.learning_rates[len(self.learning_rates) // 2]


TASKS = {
    "cifar": Task(16, 2500, 0.40, 120, 4, (0.0025, 0.005, 0.01, 0.02, 0.04)),
    "digits": Task(4, 500, 0.96, 60, 2, (0.003, 0.01, 0.03)),
}


def make_model(task: str) -> nn.Module:
    """Returns a model of 4.3 million numbers (17 MB) that needs few operations for its size.

    CIFAR-10: three convolutions and two linear layers. Digits of 8 x 8 pixels: linear layers.
    """
    if task == "digits":
        return nn.Sequential(
            nn.Flatten(), nn.Linear(192, 2048), nn.ReLU(), nn.Linear(2048, 1856), nn.ReLU(),
            nn.Linear(1856, 10),
        )  # fmt: skip
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


def training_loader(task: str, data: str, seed: int) -> forebay.Loader:
    """This rank's batches of shuffled epochs, augmented for CIFAR-10."""
    transform: list[Any] = [T.Normalize((0.3,) * 3, (0.35,) * 3)]
    if task == "cifar":
        transform = [
            T.RandomCrop(32, padding=4, padding_mode="reflect"), T.RandomHorizontalFlip(),
            T.Normalize(CIFAR_MEAN, CIFAR_STD),
        ]  # fmt: skip
    return forebay.Loader(
        data, TASKS[task].batch, shuffle=True, drop_last=True, num_workers=1, seed=seed,
        transform=transform,
    )  # fmt: skip


def test_batches(task: str, data: str, samples_max: int = 2000) -> list[Any]:
    """Batches of images and labels: the first ones of a fixed order of the test set."""
    normalize = T.Normalize((0.3,) * 3, (0.35,) * 3)
    if task == "cifar":
        normalize = T.Normalize(CIFAR_MEAN, CIFAR_STD)
    loader = forebay.Loader(data, 100, shuffle=True, seed=1, transform=[normalize])
    return [batch for batch, _ in zip(loader, range(samples_max // 100), strict=False)]


def pack(task: str, source: Path, folder: Path) -> None:
    """Packs CIFAR-10 or scikit-learn's digits into `train.forebay` and `test.forebay`."""
    from lib.program import forebay as run

    if task == "digits":
        source = folder / "images"
        _write_digits(source)
    for part in ("train", "test"):
        run("pack", source / part, folder / f"{part}.forebay")


def _write_digits(folder: Path) -> None:
    from PIL import Image
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    for number, (image, label) in enumerate(zip(pixels.reshape(-1, 8, 8), labels, strict=True)):
        part = "test" if number % 5 == 0 else "train"
        path = folder / part / str(label) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        grey = Image.fromarray((image * (255 / 16)).astype("uint8"))
        grey.convert("RGB").save(path)
