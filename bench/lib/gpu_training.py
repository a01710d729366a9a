"""The training of bench/gpu.py: a ResNet on a GPU in mixed precision, fed in different ways."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from lib.comparison import Side
from lib.gpu_sides import SIZE
from lib.sides.side import MEAN, RATIO, SCALE, STD

WARM_UP = 10  # steps
WORKERS = len(os.sched_getaffinity(0))
CLASSES = 1000
# Images [batch, 3, SIZE, SIZE], channels last, and labels [batch], on the device, without an end.
Batches = Iterator[tuple[Any, Any]]


def in_memory(folder: Path, packed: Path, device: torch.device, batch: int) -> Batches:
    """The same batch again and again, which shows what the GPU can do."""
    images = torch.randn(batch, 3, SIZE, SIZE, device=device, dtype=torch.float16)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(CLASSES, (batch,), device=device)
    while True:
        yield images, labels


def dataloader(folder: Path, packed: Path, device: torch.device, batch: int) -> Batches:
    """PyTorch's DataLoader on torchvision's ImageFolder and transforms, with one worker a core."""
    from torch.utils.data import DataLoader, RandomSampler
    from torchvision import datasets
    from torchvision import transforms as V

    transform = V.Compose(
        [V.RandomResizedCrop(SIZE), V.RandomHorizontalFlip(), V.ToTensor(), V.Normalize(MEAN, STD)]
    )
    dataset = datasets.ImageFolder(str(folder), transform)
    # The epoch has no end, as pauses between such short ones would count for too much.
    sampler = RandomSampler(dataset, replacement=True, num_samples=10**7)
    loader = DataLoader(
        dataset, batch, sampler=sampler, num_workers=WORKERS, pin_memory=device.type == "cuda"
    )
    for images, labels in loader:
        moved = images.to(device, non_blocking=True, memory_format=torch.channels_last)
        yield moved, labels.to(device, non_blocking=True)


def dali(folder: Path, packed: Path, device: torch.device, batch: int) -> Batches:
    """DALI's mixed decoders.image_random_crop, with its default share of the hardware's engines."""
    from nvidia import dali
    from nvidia.dali import fn, types
    from nvidia.dali.plugin.pytorch import feed_ndarray

    gpu = device.type == "cuda"
    pipeline = dali.Pipeline(batch, WORKERS, (device.index or 0) if gpu else None, seed=1)
    with pipeline:
        files, labels = fn.readers.file(file_root=str(folder), random_shuffle=True, name="files")
        pixels = fn.decoders.image_random_crop(
            files, device="mixed" if gpu else "cpu", random_area=list(SCALE),
            random_aspect_ratio=list(RATIO),
        )  # fmt: skip
        pixels = fn.resize(pixels, size=(SIZE, SIZE))
        crops = fn.crop_mirror_normalize(
            pixels, mirror=fn.random.coin_flip(), output_layout="HWC", dtype=types.FLOAT16,
            mean=[255 * mean for mean in MEAN], std=[255 * std for std in STD],
        )  # fmt: skip
        pipeline.set_outputs(crops, labels)
    pipeline.build()
    while True:
        made, numbers = pipeline.run()
        images = torch.empty((batch, SIZE, SIZE, 3), dtype=torch.float16, device=device)
        host_labels = torch.empty((batch, 1), dtype=torch.int32)
        if gpu:
            feed_ndarray(made.as_tensor(), images, cuda_stream=torch.cuda.current_stream(device))
        else:
            feed_ndarray(made.as_tensor(), images)
        feed_ndarray(numbers.as_tensor(), host_labels)
        yield images.permute(0, 3, 1, 2), host_labels.long().view(-1).to(device)


def _forebay(decode: str) -> Callable[..., Batches]:
    def batches(folder: Path, packed: Path, device: torch.device, batch: int) -> Batches:
        import forebay
        from forebay import transforms as T

        loader = forebay.Loader(
            packed, batch, shuffle=True, drop_last=True, transform=T.train(SIZE), dtype="float16",
            channels_last=True, device=device, decode=decode, num_workers=WORKERS,
        )  # fmt: skip
        while True:
            for images, labels in loader:
                yield images.permute(0, 3, 1, 2), labels

    return batches


FEEDS: dict[str, Callable[..., Batches]] = {
    "in_memory": in_memory,
    "dataloader": dataloader,
    "dali": dali,
    "forebay_cpu": _forebay("cpu"),
    "forebay_auto": _forebay("auto"),
    "forebay_gpu": _forebay("gpu"),
}


class Training(Side):
    """Trains a ResNet by SGD in bfloat16 on what one of FEEDS gives.

    Args:
        model: Its name in torchvision.models.
        feed: One of FEEDS, whose arguments `folder`, `packed`, `device` and `batch` are.
        seconds: How long a turn takes, after WARM_UP steps.
    """

    def __init__(
        self,
        model: str,
        feed: Callable[..., Batches],
        folder: Path,
        packed: Path,
        device: torch.device,
        batch: int,
        seconds: float,
    ) -> None:
        self.model, self.device, self.batch, self.seconds = model, device, batch, seconds
        self.open = lambda: feed(folder, packed, device, batch)

    def turn(self) -> float:
        """Images a second of a new model, from a newly opened feed."""
        from torchvision import models

        model = getattr(models, self.model)(num_classes=CLASSES).to(self.device)
        model = model.to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        loss_of = torch.nn.CrossEntropyLoss()
        steps, start = 0, 0.0
        for number, (images, labels) in enumerate(self.open()):
            if number == WARM_UP:
                self._finish()
                start = time.monotonic()
            with torch.autocast(self.device.type, torch.bfloat16):
                loss = loss_of(model(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if number >= WARM_UP:
                steps += 1
                # Steps are queued ahead of the GPU, but not by much, as they wait for batches.
                if steps % 20 == 0:
                    self._finish()
                if time.monotonic() - start >= self.seconds:
                    self._finish()
                    return steps * self.batch / (time.monotonic() - start)
        raise RuntimeError("the batches came to an end")

    def _finish(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
