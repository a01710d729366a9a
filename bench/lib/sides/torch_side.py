"""What the sides on torch.utils.data share: torchvision, and how it is done there."""

import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from lib.sides.side import MEAN, RATIO, SCALE, STD, Work


def transform(work: Work) -> Callable[[Any], Any]:
    """From a PIL image to a float32 tensor [3, size, size].

    A tensor of bytes first, as torchvision's manual advises: cropping and resizing it is faster
    here than Pillow's images.
    """
    import torch
    from torchvision.transforms import v2

    crop: Any = v2.RandomResizedCrop(work.size, scale=SCALE, ratio=RATIO)
    if work.padding:
        crop = v2.RandomCrop(work.size, padding=work.padding, padding_mode="reflect")
    normalize = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    return v2.Compose([v2.ToImage(), crop, v2.RandomHorizontalFlip(), *normalize])


def decode(file: bytes) -> Any:
    """A PIL image."""
    from PIL import Image

    return Image.open(io.BytesIO(file)).convert("RGB")


def workers(threads: int) -> dict[str, Any]:
    """Arguments of a DataLoader: no worker beside the trainer where there is one core for both."""
    if threads == 1:
        return {"num_workers": 0}
    return {"num_workers": threads, "persistent_workers": True}


def batches(loader: Iterable[Any]) -> Iterator[np.ndarray]:
    """The images of each batch, as the arrays that they are."""
    return (images.numpy() for images, _ in loader)
