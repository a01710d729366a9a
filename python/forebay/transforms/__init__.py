"""Transforms of samples and batches, with torchvision v2's names and parameters.

A Loader takes a sequence of these: crops, flips and augmentation steps, in any order and number;
then Normalize and RandomErasing, both optional. If the crop comes first, the part of an image
outside of it is not decoded. Without a crop or a Resize to (height, width), all images must have
one size at the end, unless a step draws sizes or boxes and masks move with the images: then each
image has its own size. Forebay's core runs all transforms, with the distributions of
torchvision.transforms.v2; the random numbers depend on the seed, the epoch and the sample alone.
Pixels are those of torchvision v2 on uint8 tensors; resizing is always antialiased. A Loader takes
torchvision's own objects too: from_torchvision() shows what they become.

MixUp, CutMix and a RandomChoice of them act on whole batches (forebay.mixing).

A `size` is (height, width) in pixels, or one number for a square.
"""

from forebay.transforms.augmentations import (
    AugMix,
    AutoAugment,
    ColorJitter,
    GaussianBlur,
    Grayscale,
    RandAugment,
    RandomAdjustSharpness,
    RandomAffine,
    RandomApply,
    RandomAutocontrast,
    RandomChannelPermutation,
    RandomChoice,
    RandomEqualize,
    RandomGrayscale,
    RandomInvert,
    RandomOrder,
    RandomPerspective,
    RandomPhotometricDistort,
    RandomPosterize,
    RandomRotation,
    RandomSolarize,
    TrivialAugmentWide,
)
from forebay.transforms.boxes import (
    ClampBoundingBoxes,
    ConvertBoundingBoxFormat,
    ConvertMasks,
    SanitizeBoundingBoxes,
)
from forebay.transforms.kinds import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    CenterCrop,
    Normalize,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    Size,
    Transform,
)
from forebay.transforms.mixing import CutMix, MixUp
from forebay.transforms.pipelines import from_torchvision
from forebay.transforms.sizes import (
    Pad,
    RandomIoUCrop,
    RandomResize,
    RandomShortestSize,
    RandomZoomOut,
    ScaleJitter,
)
from forebay.transforms.timm_policies import TimmAugment

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "AugMix",
    "AutoAugment",
    "CenterCrop",
    "ClampBoundingBoxes",
    "ColorJitter",
    "ConvertBoundingBoxFormat",
    "ConvertMasks",
    "CutMix",
    "GaussianBlur",
    "Grayscale",
    "MixUp",
    "Normalize",
    "Pad",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChannelPermutation",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomIoUCrop",
    "RandomOrder",
    "RandomPerspective",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomResize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomShortestSize",
    "RandomSolarize",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "Resize",
    "SanitizeBoundingBoxes",
    "ScaleJitter",
    "TimmAugment",
    "Transform",
    "TrivialAugmentWide",
    "evaluate",
    "from_torchvision",
    "train",
]


def train(size: Size = 224) -> list[Transform]:
    """The usual transforms for training: random resized crop, flip, ImageNet's normalisation."""
    return [RandomResizedCrop(size), RandomHorizontalFlip(), Normalize()]


def evaluate(size: Size = 224, resize: Size = 256) -> list[Transform]:
    """The usual transforms for validation: resize, centre crop, ImageNet's normalisation."""
    return [Resize(resize), CenterCrop(size), Normalize()]
