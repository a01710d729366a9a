"""What the sides on torch.utils.data share: decoding, torchvision's transforms, and workers."""

import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from lib.sides.side import MEAN, RATIO, SCALE, STD, Work


def transform(work: Work) -> Callable[[Any], Any]:
    """Transforms from a PIL image to a float32 tensor [3, size, size].

    They begin with a tensor of bytes, as torchvision's manual advises: cropping and resizing it is
    faster here than with Pillow's images.
    """
    import torch
    from torchvision.transforms import v2

    crop: Any = v2.RandomResizedCrop(work.size, scale=SCALE, ratio=RATIO)
    if work.padding:
        crop = v2.RandomCrop(work.size, padding=work.padding, padding_mode="reflect")
    normalize = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    return v2.Compose([v2.ToImage(), crop, v2.RandomHorizontalFlip(), *normalize])


def decode(file: bytes) -> Any:
    """Decodes a file to a PIL image."""
    from PIL import Image

    return Image.open(io.BytesIO(file)).convert("RGB")


def workers(threads: int) -> dict[str, Any]:
    """Arguments of a DataLoader, with no worker where there is one core for it and the trainer."""
    if threads == 1:
        return {"num_workers": 0}
    return {"num_workers": threads, "persistent_workers": True}


def batches(loader: Iterable[Any]) -> Iterator[np.ndarray]:
    """The images of each batch, as arrays."""
    return (images.numpy() for images, _ in loader)
