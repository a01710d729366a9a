"""Steps that change the size of images; forebay.transforms exports them.

They have the names, parameters and distributions of torchvision.transforms.v2. After a step that
draws a size, each image of a batch has its own size, unless a later transform brings all to one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forebay.transforms.augmentations import Fill, Step


@dataclass(frozen=True)
class Pad(Step):
    """Puts a border around the image.

    Args:
        padding: The border's pixels on all sides; or left and right, top and bottom; or left, top,
            right, bottom.
        fill: The colour of a constant border: from 0 to 255, or three such numbers. One number is
            also the label that maps of labels get; see RandomAffine for a fill by kind.
        padding_mode: The same as RandomCrop's.
    """

    padding: int | Sequence[int]
    fill: Fill = 0
    padding_mode: str = "constant"


@dataclass(frozen=True)
class RandomZoomOut(Step):
    """Puts the image at a random place on a larger canvas of one colour (SSD, Liu et al., 2016).

    Args:
        fill: The same as Pad's.
        side_range: The least and the largest factor of the sides, at least 1.
        p: The probability, from 0 to 1.
    """

    fill: Fill = 0
    side_range: Sequence[float] = (1.0, 4.0)
    p: float = 0.5


@dataclass(frozen=True)
class RandomIoUCrop(Step):
    """A random crop that overlaps with a box and contains its centre (SSD, Liu et al., 2016).

    A least overlap is drawn from `sampler_options`. Then crops are drawn until one has at least
    this intersection over union with a box whose centre it contains; if the least overlap is 1 or
    more, the image stays as it is. Boxes with a centre outside the crop become empty:
    SanitizeBoundingBoxes removes them. Images without boxes stay as they are.

    Args:
        min_scale: The least share of each side, from 0 to 1.
        max_scale: The largest share of each side.
        min_aspect_ratio: The least ratio of width to height.
        max_aspect_ratio: The largest ratio of width to height.
        sampler_options: The least overlaps, all equally likely; None: 0, 0.1, 0.3, 0.5, 0.7, 0.9
            and 1.
        trials: How many crops are tried for each overlap.
    """

    min_scale: float = 0.3
    max_scale: float = 1.0
    min_aspect_ratio: float = 0.5
    max_aspect_ratio: float = 2.0
    sampler_options: Sequence[float] | None = None
    trials: int = 40


@dataclass(frozen=True)
class ScaleJitter(Step):
    """Resizes the image to fit a size, times a random factor (Ghiasi et al., CVPR 2021).

    Args:
        target_size: (height, width) in pixels. Like in torchvision, the image's height is compared
            with the second number and its width with the first.
        scale_range: The least and the largest factor.
        interpolation: "nearest", "nearest-exact", "bilinear" or "bicubic", or torchvision's
            InterpolationMode.
        antialias: Must be True.
    """

    target_size: Sequence[int]
    scale_range: Sequence[float] = (0.1, 2.0)
    interpolation: Any = "bilinear"
    antialias: bool = True


@dataclass(frozen=True)
class RandomShortestSize(Step):
    """Resizes the image so that its short side has a length drawn from a list.

    Args:
        min_size: The lengths in pixels, all equally likely, or one length.
        max_size: The largest long side in pixels; to keep to it, the short side may become shorter.
            None: no limit.
        interpolation: The same as ScaleJitter's.
        antialias: Must be True.
    """

    min_size: int | Sequence[int]
    max_size: int | None = None
    interpolation: Any = "bilinear"
    antialias: bool = True


@dataclass(frozen=True)
class RandomResize(Step):
    """Resizes the image so that its short side has a random length.

    Args:
        min_size: The least length in pixels.
        max_size: One more than the largest length.
        interpolation: The same as ScaleJitter's.
        antialias: Must be True.
    """

    min_size: int
    max_size: int
    interpolation: Any = "bilinear"
    antialias: bool = True
