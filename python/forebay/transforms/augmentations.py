"""Steps of an augmentation that the core runs after the crop; forebay.transforms exports them.

They have the names, parameters, defaults and distributions of torchvision.transforms.v2, and its
results on uint8 tensors; but Grayscale always gives three channels. `interpolation` is "nearest" or
"bilinear", or torchvision's InterpolationMode. `fill` is the level, from 0 to 255, of what lies
outside of the image, or three for red, green and blue; None is black, to which bilinear
interpolation fades at the sides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forebay.transforms.kinds import Transform

Fill = float | Sequence[float] | None
Interval = float | Sequence[float] | None


class Step(Transform):
    """A transform of the cropped sample, before Normalize."""


@dataclass(frozen=True)
class ColorJitter(Step):
    """Changes brightness, contrast, saturation and hue, in a random order.

    Args:
        brightness: The factor is drawn from max(0, 1 - brightness) to 1 + brightness, or from the
            first to the second of two numbers; None: not changed.
        contrast: Like brightness.
        saturation: Like brightness.
        hue: The part of a full turn, from -hue to hue, at most 0.5, or two numbers.
    """

    brightness: Interval = None
    contrast: Interval = None
    saturation: Interval = None
    hue: Interval = None


@dataclass(frozen=True)
class RandomPhotometricDistort(Step):
    """SSD's distortion (Liu et al., 2016): each change, also the channels' order, with chance `p`.

    Args:
        brightness: The least and the largest factor.
        contrast: The least and the largest factor; before the others or after them, equally often.
        saturation: The least and the largest factor.
        hue: The least and the largest part of a full turn.
        p: From 0 to 1.
    """

    brightness: Sequence[float] = (0.875, 1.125)
    contrast: Sequence[float] = (0.5, 1.5)
    saturation: Sequence[float] = (0.5, 1.5)
    hue: Sequence[float] = (-0.05, 0.05)
    p: float = 0.5


@dataclass(frozen=True)
class Grayscale(Step):
    """Sets red, green and blue to 0.2989 red + 0.587 green + 0.114 blue."""

    num_output_channels: int = 3


@dataclass(frozen=True)
class RandomGrayscale(Step):
    """Grayscale with probability `p`, from 0 to 1."""

    p: float = 0.1


@dataclass(frozen=True)
class RandomChannelPermutation(Step):
    """Puts red, green and blue in a random order."""


@dataclass(frozen=True)
class RandomAutocontrast(Step):
    """Stretches each channel's levels to the range from 0 to 255, with probability `p`."""

    p: float = 0.5


@dataclass(frozen=True)
class RandomEqualize(Step):
    """Makes each channel's levels about equally frequent, with probability `p`."""

    p: float = 0.5


@dataclass(frozen=True)
class RandomInvert(Step):
    """Makes each level 255 minus itself, with probability `p`."""

    p: float = 0.5


@dataclass(frozen=True)
class RandomPosterize(Step):
    """Keeps the highest `bits` bits of each level, 0 to 8, with probability `p`."""

    bits: int
    p: float = 0.5


@dataclass(frozen=True)
class RandomSolarize(Step):
    """Inverts the levels from `threshold` on, with probability `p`."""

    threshold: float
    p: float = 0.5


@dataclass(frozen=True)
class RandomAdjustSharpness(Step):
    """Blurs or sharpens with probability `p`.

    Args:
        sharpness_factor: At least 0: 0 blurs, 1 changes nothing, 2 sharpens.
        p: From 0 to 1.
    """

    sharpness_factor: float
    p: float = 0.5


@dataclass(frozen=True)
class GaussianBlur(Step):
    """Blurs by a Gaussian.

    Args:
        kernel_size: How many pixels it mixes, odd; or how many across and down.
        sigma: Its standard deviation in pixels; or the least and the largest that are drawn.
    """

    kernel_size: int | Sequence[int]
    sigma: float | Sequence[float] = (0.1, 2.0)


@dataclass(frozen=True)
class RandomRotation(Step):
    """Rotates the image within its sides.

    Args:
        degrees: The angle is drawn from -degrees to degrees, or from the first to the second of two
            numbers; positive is counter-clockwise.
        interpolation: "nearest" or "bilinear".
        expand: False.
        center: The point (x, y) that stays where it is, in pixels from the top left corner; None:
            the middle.
        fill: The level of what lies outside, or three, or None.
    """

    degrees: float | Sequence[float]
    interpolation: Any = "nearest"
    expand: bool = False
    center: Sequence[float] | None = None
    fill: Fill = 0


@dataclass(frozen=True)
class RandomAffine(Step):
    """Rotates, moves, scales and shears the image within its sides.

    Args:
        degrees: The angle is drawn from -degrees to degrees, or from the first to the second of two
            numbers; positive is clockwise.
        translate: The largest share of the width and of the height that it is moved by; None: none.
        scale: The least and the largest factor; None: 1.
        shear: Degrees along x from -shear to shear, or from the first to the second of two numbers;
            the third and fourth of four are along y; None: 0.
        interpolation: "nearest" or "bilinear".
        fill: The level of what lies outside, or three, or None.
        center: The point (x, y) that stays where it is, in pixels from the top left corner; None:
            the middle.
    """

    degrees: float | Sequence[float]
    translate: Sequence[float] | None = None
    scale: Sequence[float] | None = None
    shear: float | Sequence[float] | None = None
    interpolation: Any = "nearest"
    fill: Fill = 0
    center: Sequence[float] | None = None


@dataclass(frozen=True)
class RandomPerspective(Step):
    """Moves each corner inwards, as if the image were seen from another place.

    Args:
        distortion_scale: How far at most, in halves of the sides, from 0 to 1.
        p: The probability, from 0 to 1.
        interpolation: "nearest" or "bilinear".
        fill: The level of what lies outside, or three, or None.
    """

    distortion_scale: float = 0.5
    p: float = 0.5
    interpolation: Any = "bilinear"
    fill: Fill = 0


@dataclass(frozen=True)
class AutoAugment(Step):
    """One of a policy's 25 pairs of operations (Cubuk et al., CVPR 2019).

    Args:
        policy: "imagenet", "cifar10" or "svhn", or torchvision's AutoAugmentPolicy.
        interpolation: "nearest" or "bilinear".
        fill: The level of what lies outside, or three, or None.
    """

    policy: Any = "imagenet"
    interpolation: Any = "nearest"
    fill: Fill = None


@dataclass(frozen=True)
class RandAugment(Step):
    """Some operations in turn, all of one magnitude (Cubuk et al., 2020).

    Args:
        num_ops: How many.
        magnitude: From 0 to num_magnitude_bins - 1.
        num_magnitude_bins: How many magnitudes there are.
        interpolation: "nearest" or "bilinear".
        fill: The level of what lies outside, or three, or None.
    """

    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31
    interpolation: Any = "nearest"
    fill: Fill = None


@dataclass(frozen=True)
class TrivialAugmentWide(Step):
    """One operation of a random magnitude (Müller and Hutter, ICCV 2021).

    Args:
        num_magnitude_bins: How many magnitudes there are.
        interpolation: "nearest" or "bilinear".
        fill: The level of what lies outside, or three, or None.
    """

    num_magnitude_bins: int = 31
    interpolation: Any = "nearest"
    fill: Fill = None


@dataclass(frozen=True)
class AugMix(Step):
    """The weighted mean of the image and of chains of operations on it (Hendrycks et al., 2020).

    Args:
        severity: How many of ten magnitudes are drawn from, the smallest first.
        mixture_width: How many chains.
        chain_depth: How many operations each has; below 1: from 1 to 3.
        alpha: The parameter of the weights' Dirichlet distributions, above 0.
        all_ops: Whether operations may change brightness, contrast, colour and sharpness.
        interpolation: "nearest" or "bilinear".
        fill: The level of what lies outside, or three, or None.
    """

    severity: int = 3
    mixture_width: int = 3
    chain_depth: int = -1
    alpha: float = 1.0
    all_ops: bool = True
    interpolation: Any = "bilinear"
    fill: Fill = None


@dataclass(frozen=True)
class RandomApply(Step):
    """All of some steps and flips in turn, or none of them.

    Args:
        transforms: Steps and flips.
        p: The probability of all of them, from 0 to 1.
    """

    transforms: Sequence[Transform]
    p: float = 0.5


@dataclass(frozen=True)
class RandomChoice(Step):
    """One of several steps and flips for each sample; or one of several MixUp and CutMix, a batch.

    Args:
        transforms: Steps and flips; or, as a batch_transform, MixUp and CutMix of the same
            num_classes.
        p: How often each is chosen, in any proportion; None: all equally often.
    """

    transforms: Sequence[Any]
    p: Sequence[float] | None = None


@dataclass(frozen=True)
class RandomOrder(Step):
    """Some steps and flips, in a random order.

    Args:
        transforms: Steps and flips.
    """

    transforms: Sequence[Transform]
