"""Kornia's side of bench/augment.py.

Kornia works on batches of float32 images of one size. Photographs become that by simplejpeg and
torchvision's crop, on uint8. Most of Kornia's steps then draw for each image of the batch, but its
policies draw one operation for a whole batch, so they get one image at a time. Its TrivialAugment
has 12 operations, with other ranges than torchvision's, and its RandAugment 15.
"""

from collections.abc import Sequence
from typing import Any

import kornia.augmentation as K
import simplejpeg
import torch
from kornia.augmentation.auto import RandAugment, TrivialAugment
from torchvision.transforms import v2

from lib.augment.side import GROUP, SIZE, Made, Side
from lib.photo import Photo
from lib.sides.side import MEAN, STD


class Kornia(Side):
    """Crops on uint8 tensors, then runs Kornia on the batch."""

    def __init__(self, recipe: str) -> None:
        super().__init__(recipe)
        self.crop = v2.RandomResizedCrop(SIZE, antialias=True)
        self.pixels = torch.zeros((GROUP, 3, SIZE, SIZE), dtype=torch.uint8)
        self.policy = {
            "trivial": lambda: TrivialAugment(transformation_matrix_mode="skip"),
            "randaugment": lambda: RandAugment(2, 9, transformation_matrix_mode="skip"),
        }.get(recipe, lambda: None)()
        self.steps = torch.nn.Sequential(*_steps(recipe))

    @torch.inference_mode()
    def run(self, photos: Sequence[Photo]) -> Made:
        """Makes a batch."""
        for photo, to in zip(photos, self.pixels, strict=False):
            whole = torch.from_numpy(simplejpeg.decode_jpeg(photo.file, "RGB"))
            to.copy_(self.crop(whole.permute(2, 0, 1)))
        images = self.pixels[: len(photos)].float().div_(255)
        if self.policy is not None:
            for i in range(len(photos)):
                images[i : i + 1] = self.policy(images[i : i + 1])
        made: Any = self.steps(images)
        return Made(made.contiguous().numpy())


def _steps(recipe: str) -> list[Any]:
    """What Kornia does to the whole batch, after the policy."""
    flip, end = K.RandomHorizontalFlip(p=0.5), K.Normalize(mean=list(MEAN), std=list(STD))
    if recipe == "simclr":
        return [
            flip,
            K.ColorJitter(0.8, 0.8, 0.8, 0.2, p=0.8),
            K.RandomGrayscale(p=0.2),
            K.RandomGaussianBlur((23, 23), (0.1, 2.0), p=0.5),
            end,
        ]
    if recipe in ("trivial", "randaugment"):
        return [flip, end, K.RandomErasing(p=0.1, scale=(0.02, 0.33), ratio=(0.3, 3.3))]
    assert recipe == "plain", recipe
    return [flip, end]
