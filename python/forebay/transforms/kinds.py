"""The classes of transforms that users write; forebay.transforms exports them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

Size = int | Sequence[int]


class Transform:
    """A transform of one sample, which the core runs."""


# What a Loader takes: Forebay's transforms, torchvision's, and functions of the user's own.
Transforms = Sequence[Transform | Callable[..., Any]] | Transform | Callable[..., Any]


@dataclass(frozen=True)
class RandomResizedCrop(Transform):
    """Cuts a random part out of the image and resizes it.

    Args:
        size: The sample's size, in pixels.
        scale: The least and the largest area of the part, as shares of the image's area, above 0
            and at most 1.
        ratio: The least and the largest ratio of the part's width to its height.
        interpolation: "nearest", "nearest-exact", "bilinear" or "bicubic", or torchvision's
            InterpolationMode.
        antialias: Must be True.
    """

    size: Size
    scale: Sequence[float] = (0.08, 1.0)
    ratio: Sequence[float] = (3 / 4, 4 / 3)
    interpolation: Any = "bilinear"
    antialias: bool = True


@dataclass(frozen=True)
class RandomCrop(Transform):
    """Cuts a random part out of the image with a border around it, without scaling.

    An image that is too small is a bad sample, unless `pad_if_needed` is set or Resize comes
    before.

    Args:
        size: The sample's size, in pixels.
        padding: The border's pixels on all sides; or left and right, top and bottom; or left, top,
            right, bottom; None: no border.
        pad_if_needed: Whether the border is widened on both sides if an image is too small.
        fill: The colour of a constant border: a whole number from 0 to 255, or three. One number is
            also the label that maps of labels get; by kind: {"Image": 0, "Mask": 255}.
        padding_mode: "constant" fills the border with `fill`; "edge" repeats the last pixel;
            "reflect" mirrors the image without its last pixel and "symmetric" with it, at most
            once.
    """

    size: Size
    padding: int | Sequence[int] | None = None
    pad_if_needed: bool = False
    fill: int | Sequence[int] | Mapping[Any, Any] = 0
    padding_mode: str = "constant"


@dataclass(frozen=True)
class Resize(Transform):
    """Resizes the whole image.

    Args:
        size: The short side in pixels; the other side then keeps the image's shape, rounded down.
            Or (height, width), whatever the image's shape. None: the long side becomes `max_size`.
        interpolation: The same as for RandomResizedCrop.
        max_size: The largest long side in pixels, above `size`; to keep to it, the short side may
            become shorter. None: no limit.
        antialias: Must be True.
    """

    size: Size | None
    interpolation: Any = "bilinear"
    max_size: int | None = None
    antialias: bool = True


@dataclass(frozen=True)
class CenterCrop(Transform):
    """Cuts out the image's centre; a smaller image is centred on black pixels.

    Args:
        size: The sample's side in pixels, or (height, width).
    """

    size: Size


@dataclass(frozen=True)
class RandomHorizontalFlip(Transform):
    """Mirrors the image left to right with probability `p`, from 0 to 1."""

    p: float = 0.5


@dataclass(frozen=True)
class RandomVerticalFlip(Transform):
    """Mirrors the image top to bottom with probability `p`, from 0 to 1."""

    p: float = 0.5


@dataclass(frozen=True)
class Normalize(Transform):
    """Converts red, green and blue to floating-point numbers, (pixel / 255 - mean) / std.

    Unlike torchvision's Normalize it takes bytes from 0 to 255: it is ToDtype(torch.float32,
    scale=True) and Normalize in one. mean=(0, 0, 0) and std=(1, 1, 1) give the range from 0 to 1.
    """

    mean: Sequence[float] = IMAGENET_MEAN
    std: Sequence[float] = IMAGENET_STD


@dataclass(frozen=True)
class RandomErasing(Transform):
    """Replaces a random rectangle by one colour, or by noise.

    Args:
        p: The probability, from 0 to 1, that a sample gets such a rectangle.
        scale: The least and the largest area of the rectangle, as shares of the image's area, above
            0 and at most 1.
        ratio: The least and the largest ratio of its height to its width.
        value: The colour, one number or three, on the scale after Normalize (without Normalize,
            whole numbers from 0 to 255). "random", which needs Normalize: each pixel and channel
            gets a number of the standard normal distribution.
    """

    p: float = 0.5
    scale: Sequence[float] = (0.02, 0.33)
    ratio: Sequence[float] = (0.3, 3.3)
    value: float | Sequence[float] | str = 0
