"""Albumentations' side of bench/augment.py, with OpenCV of one thread.

simplejpeg decodes and addWeighted normalises into the batch, as in lib/crop_sides.py:
Albumentations' own Normalize and ToTensorV2, with the copy into the batch, take four times as long.
Erasing is therefore on bytes, by the mean, which is about 0 after normalising.

Albumentations has no TrivialAugmentWide and no RandAugment, so OneOf chooses among the same
operations, each drawing from the whole range of magnitudes. Its resize is not antialiased and its
Sharpen only sharpens; CropAndPad and BBoxSafeRandomCrop stand for zooming out and the IoU crop.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import albumentations as A
import cv2
import numpy as np
import simplejpeg

from lib.augment.side import DETECTION_SIZE, SEED, SIZE, Made, Side, Target
from lib.crop_sides import OFFSET, SCALE
from lib.photo import Photo
from lib.sides.side import MEAN

_MEAN_BYTES = tuple(round(255 * mean) for mean in MEAN)
_FILL = (123, 117, 104)  # the detection reference's


class Albumentations(Side):
    """Works on uint8 arrays, image by image."""

    def __init__(self, recipe: str) -> None:
        super().__init__(recipe)
        cv2.setNumThreads(1)
        boxes = A.BboxParams("pascal_voc", label_fields=["labels"], min_area=1, clip=True)
        self.transform = A.Compose(
            _steps(recipe), bbox_params=boxes if recipe == "detection" else None, seed=SEED
        )
        self.planes = [np.empty((self.size, self.size), np.uint8) for _ in range(3)]

    def run(self, photos: Sequence[Photo]) -> Made:
        """Makes one image at a time."""
        targets = []
        images = self.out[: len(photos)].numpy()
        for i, (photo, image) in enumerate(zip(photos, images, strict=True)):
            pixels = simplejpeg.decode_jpeg(photo.file, "RGB")
            if self.recipe == "detection":
                given = self.targets[i]
                made = self.transform(image=pixels, bboxes=given.boxes, labels=given.labels)
                targets.append(Target(made["bboxes"], made["labels"]))
            else:
                made = self.transform(image=pixels)
            cv2.split(made["image"], self.planes)
            for plane, scale, offset, to in zip(self.planes, SCALE, OFFSET, image, strict=True):
                cv2.addWeighted(plane, scale, plane, 0, offset, to, cv2.CV_32F)
        return Made(images, targets if self.recipe == "detection" else None)


class _Ranges(NamedTuple):
    """The largest magnitudes of a policy's operations.

    Attributes:
        shear: Pixels across for each pixel down.
        pixels: Of a move.
        degrees: Of a rotation.
        change: How far from 1 the factors of brightness, contrast, colour and sharpness are.
        bits: The fewest and the most bits that Posterize keeps.
        threshold: The least and the largest share of 255 that Solarize inverts from.
    """

    shear: float
    pixels: int
    degrees: float
    change: float
    bits: tuple[int, int]
    threshold: tuple[float, float]


_TRIVIAL = _Ranges(0.99, 32, 135, 0.99, (2, 8), (0, 1))
_RANDAUGMENT = _Ranges(0.09, 30, 9, 0.27, (7, 7), (0.7, 0.7))
_DEIT = _Ranges(0.27, 90, 27, 0.81, (1, 2), (0, 0.2))


def _steps(recipe: str) -> list[Any]:
    """The recipe up to Normalize, as Albumentations has it."""
    if recipe == "detection":
        return _detection()
    interpolation = cv2.INTER_CUBIC if recipe == "deit" else cv2.INTER_LINEAR
    crop = A.RandomResizedCrop((SIZE, SIZE), interpolation=interpolation)
    return [crop, A.HorizontalFlip(p=0.5), *_after_crop(recipe)]


def _after_crop(recipe: str) -> list[Any]:
    if recipe == "trivial":
        return [A.OneOf(_policy(_TRIVIAL), p=1), A.Erasing(fill=_MEAN_BYTES, p=0.1)]
    if recipe == "randaugment":
        twice = [A.OneOf(_policy(_RANDAUGMENT), p=1) for _ in range(2)]
        return [*twice, A.Erasing(fill=_MEAN_BYTES, p=0.1)]
    if recipe == "deit":
        # timm skips each of the two operations half of the time.
        twice = [A.OneOf([*_policy(_DEIT), A.InvertImg(p=1)], p=0.5) for _ in range(2)]
        return [*twice, A.Erasing(fill="random", p=0.25)]
    if recipe == "simclr":
        jitter = A.ColorJitter((0.2, 1.8), (0.2, 1.8), (0.2, 1.8), (-0.2, 0.2), p=0.8)
        blur = A.GaussianBlur(blur_limit=(23, 23), sigma_limit=(0.1, 2.0), p=0.5)
        return [jitter, A.ToGray(p=0.2), blur]
    assert recipe == "plain", recipe
    return []


def _policy(ranges: _Ranges) -> list[Any]:
    """The 14 operations of torchvision's policies, equally likely."""
    shear = math.degrees(math.atan(ranges.shear))
    sideways, still = (-ranges.pixels, ranges.pixels), (0, 0)
    factors = (1 - ranges.change, 1 + ranges.change)
    one = (1.0, 1.0)  # the factor of what is left alone, which Albumentations then skips
    return [
        A.NoOp(p=1),
        A.Affine(shear={"x": (-shear, shear), "y": still}, p=1),
        A.Affine(shear={"x": still, "y": (-shear, shear)}, p=1),
        A.Affine(translate_px={"x": sideways, "y": still}, p=1),
        A.Affine(translate_px={"x": still, "y": sideways}, p=1),
        A.Rotate((-ranges.degrees, ranges.degrees), p=1),
        A.ColorJitter(factors, one, one, still, p=1),
        A.ColorJitter(one, factors, one, still, p=1),
        A.ColorJitter(one, one, factors, still, p=1),
        # With a lightness of 1, an alpha is the same as torchvision's sharpness factor of
        # 1 + 13 alpha.
        A.Sharpen(alpha=(0, ranges.change / 13), lightness=one, p=1),
        A.Posterize(num_bits=ranges.bits, p=1),
        A.Solarize(threshold_range=ranges.threshold, p=1),
        A.AutoContrast(method="pil", p=1),
        A.Equalize(mode="cv", p=1),
    ]


def _detection() -> list[Any]:
    one, still = (1.0, 1.0), (0, 0)
    return [
        A.ColorJitter((0.875, 1.125), one, one, still, p=0.5),
        A.ColorJitter(one, (0.5, 1.5), one, still, p=0.5),
        A.ColorJitter(one, one, (0.5, 1.5), still, p=0.5),
        A.ColorJitter(one, one, one, (-0.05, 0.05), p=0.5),
        A.ChannelShuffle(p=0.5),
        A.CropAndPad(percent=(0, 1.5), keep_size=False, fill=_FILL, p=0.5),
        A.BBoxSafeRandomCrop(erosion_rate=0.3, p=6 / 7),
        A.HorizontalFlip(p=0.5),
        A.Resize(DETECTION_SIZE, DETECTION_SIZE, interpolation=cv2.INTER_LINEAR),
    ]
