"""Augmentation steps, which the core runs; forebay.transforms exports them.

They have the names, parameters, defaults and distributions of torchvision.transforms.v2, and its
results on uint8 tensors, except that Grayscale always gives three channels. `interpolation` is
"nearest" or "bilinear", or torchvision's InterpolationMode. `fill` is the level, from 0 to 255, of
pixels outside the image, or three levels for red, green and blue; None is black, and bilinear
interpolation then fades to black at the image's sides. One level is also the label that maps of
labels get there (like in torchvision, but not for policies), and with three levels they get 0. A
dict gives each kind its own, as torchvision has it: {tv_tensors.Image: 0, tv_tensors.Mask: 255}, or
{"Image": 0, "Mask": 255}. Masks of objects always get 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forebay.transforms.kinds import Transform

Fill = float | Sequence[float] | Mapping[Any, Any] | None
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
        hue: The shift, as a part of a full turn, is drawn from -hue to hue, at most 0.5, or from
            the first to the second of two numbers; None: not changed.
    """

    brightness: Interval = None
    contrast: Interval = None
    saturation: Interval = None
    hue: Interval = None


@dataclass(frozen=True)
class RandomPhotometricDistort(Step):
    """The photometric distortion of SSD (Liu et al., 2016).

    Each change, also a new order of the channels, happens with probability `p`.

    Args:
        brightness: The least and the largest factor.
        contrast: The least and the largest factor; applied before the other changes or after them,
            equally often.
        saturation: The least and the largest factor.
        hue: The least and the largest shift, as parts of a full turn.
        p: From 0 to 1.
    """

    brightness: Sequence[float] = (0.875, 1.125)
    contrast: Sequence[float] = (0.5, 1.5)
    saturation: Sequence[float] = (0.5, 1.5)
    hue: Sequence[float] = (-0.05, 0.05)
    p: float = 0.5


@dataclass(frozen=True)
class Grayscale(Step):
    """Sets red, green and blue to 0.2989 red + 0.587 green + 0.114 blue.

    Args:
        num_output_channels: Must be 3.
    """

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
    """Replaces each level by 255 minus the level, with probability `p`."""

    p: float = 0.5


@dataclass(frozen=True)
class RandomPosterize(Step):
    """Keeps the highest `bits` bits of each level, 0 to 8, with probability `p`."""

    bits: int
    p: float = 0.5


@dataclass(frozen=True)
class RandomSolarize(Step):
    """Inverts levels of at least `threshold`, with probability `p`."""

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
    """Blurs with a Gaussian kernel.

    Args:
        kernel_size: The side of the kernel in pixels, odd; or its width and height.
        sigma: The standard deviation in pixels; or the least and the largest one, between which it
            is drawn.
    """

    kernel_size: int | Sequence[int]
    sigma: float | Sequence[float] = (0.1, 2.0)


@dataclass(frozen=True)
class RandomRotation(Step):
    """Rotates the image.

    Args:
        degrees: The angle is drawn from -degrees to degrees, or from the first to the second of two
            numbers; positive is counter-clockwise.
        interpolation: "nearest" or "bilinear".
        expand: Whether the result is as large as the rotated image, so that nothing is cut off;
            otherwise it keeps the image's size.
        center: The fixed point (x, y) in pixels from the top left corner; None: the image's centre.
            It does not matter if `expand` is true.
        fill: The level of pixels outside the image, or three levels, or None.
    """

    degrees: float | Sequence[float]
    interpolation: Any = "nearest"
    expand: bool = False
    center: Sequence[float] | None = None
    fill: Fill = 0


@dataclass(frozen=True)
class RandomAffine(Step):
    """Rotates, translates, scales and shears the image and keeps its size.

    Args:
        degrees: The angle is drawn from -degrees to degrees, or from the first to the second of two
            numbers; positive is clockwise.
        translate: The largest translations, as shares of the width and of the height; None: no
            translation.
        scale: The least and the largest factor; None: 1.
        shear: The angle in degrees along x is drawn from -shear to shear, or from the first to the
            second of two numbers; the third and fourth of four numbers are for the angle along y.
            None: no shear.
        interpolation: "nearest" or "bilinear".
        fill: The level of pixels outside the image, or three levels, or None.
        center: The fixed point (x, y) in pixels from the top left corner; None: the image's centre.
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
    """Moves each corner inwards, as if the image were seen from another point of view.

    Args:
        distortion_scale: The largest shift, in halves of the sides, from 0 to 1.
        p: The probability, from 0 to 1.
        interpolation: "nearest" or "bilinear".
        fill: The level of pixels outside the image, or three levels, or None.
    """

    distortion_scale: float = 0.5
    p: float = 0.5
    interpolation: Any = "bilinear"
    fill: Fill = 0


@dataclass(frozen=True)
class AutoAugment(Step):
    """Applies one of a policy's 25 pairs of operations (Cubuk et al., CVPR 2019).

    Args:
        policy: "imagenet", "cifar10" or "svhn", or torchvision's AutoAugmentPolicy.
        interpolation: "nearest" or "bilinear".
        fill: The level of pixels outside the image, or three levels, or None.
    """

    policy: Any = "imagenet"
    interpolation: Any = "nearest"
    fill: Fill = None


@dataclass(frozen=True)
class RandAugment(Step):
    """Applies random operations in turn, all with the same magnitude (Cubuk et al., 2020).

    Args:
        num_ops: How many operations.
        magnitude: From 0 to num_magnitude_bins - 1.
        num_magnitude_bins: How many magnitudes there are.
        interpolation: "nearest" or "bilinear".
        fill: The level of pixels outside the image, or three levels, or None.
    """

    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31
    interpolation: Any = "nearest"
    fill: Fill = None


@dataclass(frozen=True)
class TrivialAugmentWide(Step):
    """Applies one random operation with a random magnitude (Müller and Hutter, ICCV 2021).

    Args:
        num_magnitude_bins: How many magnitudes there are.
        interpolation: "nearest" or "bilinear".
        fill: The level of pixels outside the image, or three levels, or None.
    """

    num_magnitude_bins: int = 31
    interpolation: Any = "nearest"
    fill: Fill = None


@dataclass(frozen=True)
class AugMix(Step):
    """A weighted mean of the image and of results of operation chains (Hendrycks et al., 2020).

    Args:
        severity: How many of ten magnitudes are drawn from, the smallest first.
        mixture_width: How many chains.
        chain_depth: How many operations each chain has; below 1: drawn from 1 to 3.
        alpha: The parameter of the weights' Dirichlet distributions, above 0.
        all_ops: Whether operations may change brightness, contrast, colour and sharpness.
        interpolation: "nearest" or "bilinear".
        fill: The level of pixels outside the image, or three levels, or None.
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
    """Applies all of its transforms in turn, or none of them.

    Args:
        transforms: Crops, flips and augmentation steps.
        p: The probability that they are applied, from 0 to 1.
    """

    transforms: Sequence[Transform]
    p: float = 0.5


@dataclass(frozen=True)
class RandomChoice(Step):
    """Applies one of its transforms to each sample; or, as a batch_transform, to each batch.

    Args:
        transforms: Crops, flips and augmentation steps; or, as a batch_transform, MixUp and CutMix
            with the same num_classes.
        p: How often each is chosen, in any proportion; None: all equally often.
    """

    transforms: Sequence[Any]
    p: Sequence[float] | None = None


@dataclass(frozen=True)
class RandomOrder(Step):
    """Applies all of its transforms in a random order.

    Args:
        transforms: Crops, flips and augmentation steps.
    """

    transforms: Sequence[Transform]
