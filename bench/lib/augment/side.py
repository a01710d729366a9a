"""The interface of the sides of bench/augment.py, and the recipes that they follow.

A batch is made of files in memory, and ends as float32 in one block of memory.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from lib.comparison import DisagreementError
from lib.comparison import Side as AnySide
from lib.photo import Photo

GROUP = 32  # photographs that are timed together: a batch
SIZE = 224
DETECTION_SIZE = 300
SEED = 1
# Each recipe begins with a random resized crop and a flip, and ends with normalised float32;
# detection begins with whole photographs and their boxes.
RECIPES = {
    "plain": "crop, flip and normalise alone",
    "trivial": "TrivialAugmentWide, erasing 0.1 (torchvision's classification reference)",
    "randaugment": "RandAugment 2 of 9, erasing 0.1 (torchvision's classification reference)",
    "deit": "bicubic crop, rand-m9-mstd0.5-inc1, erasing 0.25 by noise (timm's recipe of DeiT)",
    "simclr": "jitter 0.8, grey 0.2, blur 0.5 (SimCLR)",
    "detection": 'boxes; distort, zoom out, IoU crop (torchvision\'s detection reference, "ssd")',
}
BOXES_MAX = 8  # boxes of a photograph, at most


class Target(NamedTuple):
    """The boxes of a photograph.

    Attributes:
        boxes: float32 [boxes, 4]: left, top, right, bottom, in pixels.
        labels: int64 [boxes].
    """

    boxes: np.ndarray
    labels: np.ndarray


class Made(NamedTuple):
    """A batch.

    Attributes:
        images: float32 [photographs, 3, height, width].
        targets: The boxes of each image, in its pixels; None: the recipe has none.
    """

    images: np.ndarray
    targets: list[Target] | None = None


class Side(AnySide):
    """One way to make batches of at most GROUP photographs by one of the recipes.

    Args:
        recipe: One of RECIPES.
    """

    def __init__(self, recipe: str) -> None:
        self.recipe = recipe
        self.size = DETECTION_SIZE if recipe == "detection" else SIZE
        self.out = torch.zeros((GROUP, 3, self.size, self.size))
        self.seconds: list[float] = []  # of each turn
        self.quiet: list[bool] = []  # whether nobody disturbed it
        self.numbers: list[np.ndarray] = []  # of each turn, as numbers_of() gives them

    def begin(
        self,
        photos: Sequence[Photo],
        first: int,
        round_number: int,
        is_quiet: Callable[[], bool],
    ) -> None:
        """Begins a group of photographs.

        Args:
            photos: At most GROUP.
            first: The number of the first one.
            round_number: How often the photographs were there before.
            is_quiet: Whether nobody else has used the core since it was called last.
        """
        self.photos, self.first, self.round_number = photos, first, round_number
        self.is_quiet = is_quiet
        self.targets = [
            target_of(first + i, photo.width, photo.height) for i, photo in enumerate(photos)
        ]

    def turn(self) -> None:
        """Makes the group's batch; counts its CPU seconds, and what the batch contains."""
        self.is_quiet()
        start = time.process_time()
        made = self.run(self.photos)
        self.seconds.append(time.process_time() - start)
        self.quiet.append(self.is_quiet())
        self.numbers.append(numbers_of(made, (len(self.photos), 3, self.size, self.size)))

    def forget(self) -> None:
        """Forgets the turns until now, which only made the side ready."""
        self.seconds.clear()
        self.quiet.clear()
        self.numbers.clear()

    def run(self, photos: Sequence[Photo]) -> Made:
        """Does what is timed."""
        raise NotImplementedError


def numbers_of(made: Made, shape: tuple[int, ...]) -> np.ndarray:
    """What is compared of each image: float64 [images, numbers].

    The numbers are the means of the three channels and their deviations; how much neighbours in a
    row differ on average, which blurs and resizes change; how much red and green do, which
    saturation changes; and the share of zeros, which only erasing leaves. With boxes also how many
    there are, and the sum of their shares of the image's area.

    Raises:
        DisagreementError: The batch is not float32 of that shape.
    """
    images = made.images
    if images.dtype != np.float32 or images.shape != shape:
        raise DisagreementError(f"{images.dtype} {images.shape}, but must be float32 {shape}")
    tensor = torch.from_numpy(images)
    variances, means = torch.var_mean(tensor, dim=(2, 3), correction=0)
    rough = tensor.diff(dim=3).abs_().mean(dim=(1, 2, 3))
    coloured = (tensor[:, 0] - tensor[:, 1]).abs_().mean(dim=(1, 2))
    erased = (tensor == 0).float().mean(dim=(1, 2, 3))
    columns: list[Any] = [means, variances.sqrt(), torch.stack([rough, coloured, erased], dim=1)]
    if made.targets is not None:
        columns.append([[len(target.boxes)] for target in made.targets])
        columns.append([[_area(target.boxes) / shape[2] / shape[3]] for target in made.targets])
    return np.concatenate(columns, axis=1, dtype=np.float64)


def _area(boxes: np.ndarray) -> float:
    return float(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1).sum())


def target_of(number: int, width: int, height: int) -> Target:
    """Boxes for a photograph that has none: the same ones whenever its number and size are given.

    There are 1 to BOXES_MAX, each at least an eighth of the sides.
    """
    random = np.random.default_rng(number)
    count = int(random.integers(1, BOXES_MAX + 1))
    extent = random.uniform(0.125, 0.75, (count, 2))
    start = random.uniform(0, 1 - extent)
    boxes = np.concatenate([start, start + extent], axis=1) * [width, height, width, height]
    return Target(boxes.astype(np.float32), random.integers(0, 91, count))
