"""The transforms as their user writes them; forebay.transforms has them all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

Size = int | Sequence[int]


class Transform:
    """Something that the core does to each sample."""


# What a Loader takes: Forebay's transforms, torchvision's, and functions of the user's own.
Transforms = Sequence[Transform | Callable[..., Any]] | Transform | Callable[..., Any]


@dataclass(frozen=True)
class RandomResizedCrop(Transform):
    """A random part of the image, resized.

    Args:
        size: The sample's.
        scale: Bounds of the part's share of the image's area, above 0, up to 1.
        ratio: Bounds of the part's width to its height.
        interpolation: "nearest", "bilinear" or "bicubic", or torchvision's InterpolationMode.
        antialias: True.
    """

    size: Size
    scale: Sequence[float] = (0.08, 1.0)
    ratio: Sequence[float] = (3 / 4, 4 / 3)
    interpolation: Any = "bilinear"
    antialias: bool = True


@dataclass(frozen=True)
class RandomCrop(Transform):
    """A random part of the image, with a border around it, in the image's own pixels.

    An image that is too small for it cannot be used (a bad sample), unless `pad_if_needed`, or
    Resize comes before.

    Args:
        size: The sample's.
        padding: The border's pixels on all sides; or left and right, top and bottom; or left, top,
            right, bottom; None: no border.
        pad_if_needed: Whether the border is widened, on both sides, where an image is too small.
        fill: A constant border's colour: a whole number from 0 to 255, or three.
        padding_mode: "constant"; "edge" repeats the last pixel; "reflect" mirrors the image without
            its last pixel, "symmetric" with it; these two at most once.
    """

    size: Size
    padding: int | Sequence[int] | None = None
    pad_if_needed: bool = False
    fill: int | Sequence[int] = 0
    padding_mode: str = "constant"


@dataclass(frozen=True)
class Resize(Transform):
    """The whole image, resized.

    Args:
        size: The short side's, the other one as the image's shape gives, rounded down; or
            (height, width), whatever the shape.
        interpolation: Like RandomResizedCrop's.
        max_size: None.
        antialias: True.
    """

    size: Size
    interpolation: Any = "bilinear"
    max_size: None = None
    antialias: bool = True


@dataclass(frozen=True)
class CenterCrop(Transform):
    """The image's middle; where the image is smaller, it lies in the middle of black."""

    size: Size


@dataclass(frozen=True)
class RandomHorizontalFlip(Transform):
    """Mirrored left to right with probability `p`."""

    p: float = 0.5


@dataclass(frozen=True)
class RandomVerticalFlip(Transform):
    """Mirrored top to bottom with probability `p`."""

    p: float = 0.5


@dataclass(frozen=True)
class Normalize(Transform):
    """Floating-point numbers: (pixel / 255 - mean) / std, for red, green and blue.

    Unlike torchvision's it takes the bytes from 0 to 255 themselves: it is ToDtype(torch.float32,
    scale=True) and Normalize in one. mean=(0, 0, 0) and std=(1, 1, 1) give the range from 0 to 1.
    """

    mean: Sequence[float] = IMAGENET_MEAN
    std: Sequence[float] = IMAGENET_STD


@dataclass(frozen=True)
class RandomErasing(Transform):
    """With probability `p` a random rectangle becomes one colour, or noise.

    Args:
        p: From 0 to 1.
        scale: Bounds of its share of the area, above 0, up to 1.
        ratio: Bounds of its height to its width.
        value: What it becomes, one number or three, on the scale after Normalize (without that,
            whole numbers from 0 to 255); "random", with Normalize: for each pixel and channel a
            number of the standard normal distribution.
    """

    p: float = 0.5
    scale: Sequence[float] = (0.02, 0.33)
    ratio: Sequence[float] = (0.3, 3.3)
    value: float | Sequence[float] | str = 0
