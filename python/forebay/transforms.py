"""What happens to a sample between its file and the batch: torchvision v2's names and parameters.

A loader takes a sequence of these, in this order: how the sample is cut from its image
(RandomResizedCrop; or Resize, then RandomCrop or CenterCrop, of which one may be left out; Resize
alone with both sides); then RandomHorizontalFlip and RandomVerticalFlip, Normalize and
RandomErasing, each if wanted. They are run by Forebay's core in one pass, with the distributions of
torchvision.transforms.v2, the randomness drawn from the seed, the epoch and the sample alone.
Pixels are those of torchvision v2 on uint8 tensors; resizing is always antialiased.

MixUp, CutMix and RandomChoice of them act on whole batches (forebay.mixing).

A `size` is a number of pixels, for squares, or (height, width).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from forebay import _core
from forebay.mixing import CutMix, MixUp, RandomChoice

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "CenterCrop",
    "CutMix",
    "MixUp",
    "Normalize",
    "RandomChoice",
    "RandomCrop",
    "RandomErasing",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "Transform",
    "evaluate",
    "from_torchvision",
    "to_core",
    "train",
]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

# By torchvision's names and Pillow's numbers.
_INTERPOLATIONS: dict[Any, Any] = {
    "nearest": _core.Interpolation.NEAREST,
    "bilinear": _core.Interpolation.BILINEAR,
    "bicubic": _core.Interpolation.BICUBIC,
    0: _core.Interpolation.NEAREST,
    2: _core.Interpolation.BILINEAR,
    3: _core.Interpolation.BICUBIC,
}
_BORDERS = {
    "constant": _core.BorderKind.CONSTANT,
    "edge": _core.BorderKind.EDGE,
    "reflect": _core.BorderKind.REFLECT,
    "symmetric": _core.BorderKind.SYMMETRIC,
}

Size = int | Sequence[int]


class Transform:
    """Something that the core does to each sample."""


@dataclass(frozen=True)
class RandomResizedCrop(Transform):
    """A random part of the image, resized.

    Args:
        size: Of the sample.
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
        size: Of the sample.
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
        size: Of the short side, the other one as the image's shape gives, rounded down; or
            (height, width), whatever the shape.
        interpolation: As RandomResizedCrop's.
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
        value: What it becomes, one number or three, on the scale behind Normalize (without that,
            whole numbers from 0 to 255); "random", with Normalize: for each pixel and channel a
            number of the standard normal distribution.
    """

    p: float = 0.5
    scale: Sequence[float] = (0.02, 0.33)
    ratio: Sequence[float] = (0.3, 3.3)
    value: float | Sequence[float] | str = 0


_FLIPS = (RandomHorizontalFlip, RandomVerticalFlip)


def train(size: Size = 224) -> list[Transform]:
    """The usual ones for training on photographs: random resized crop, flip, ImageNet's mean."""
    return [RandomResizedCrop(size), RandomHorizontalFlip(), Normalize()]


def evaluate(size: Size = 224, resize: Size = 256) -> list[Transform]:
    """The usual ones for validation: the middle of the resized image, ImageNet's mean."""
    return [Resize(resize), CenterCrop(size), Normalize()]


# Where each stands in a list; at most one of a kind.
_PLACES: dict[type, int] = {
    Resize: 0,
    RandomResizedCrop: 1,
    RandomCrop: 1,
    CenterCrop: 1,
    RandomHorizontalFlip: 2,
    RandomVerticalFlip: 2,
    Normalize: 3,
    RandomErasing: 4,
}
_ORDER = (
    "RandomResizedCrop; or Resize, then RandomCrop or CenterCrop, of which one may be left out "
    "(Resize alone with both sides); then RandomHorizontalFlip and RandomVerticalFlip, then "
    "Normalize, then RandomErasing, each if wanted"
)


def _check_order(transforms: Sequence[Any]) -> None:
    names = ", ".join(type(one).__name__ for one in transforms) or "nothing"
    for one in transforms:
        if type(one) not in _PLACES:
            raise ValueError(
                f"transform: Forebay has no {type(one).__name__}; it runs {_ORDER} "
                "(forebay.transforms)"
            )
    kinds = [type(one) for one in transforms]
    places = [_PLACES[kind] for kind in kinds]
    cuts = places.count(1)
    first = transforms[0] if transforms else None
    good = (
        places == sorted(places)
        and len(set(kinds)) == len(kinds)
        and (cuts == 1 or (cuts == 0 and isinstance(first, Resize) and len(_sides(first)) == 2))
        and not (Resize in kinds and RandomResizedCrop in kinds)
    )
    if not good:
        raise ValueError(
            f"transform: Forebay does not run {names} in this order; it runs {_ORDER} "
            "(forebay.transforms)"
        )


def _numbers(
    one: Any, name: str, counts: tuple[int, ...], kind: type = Integral
) -> tuple[Any, ...]:
    """An argument that is a number, or a sequence of as many as `counts` says."""
    value = getattr(one, name)
    several = isinstance(value, Iterable) and not isinstance(value, str)
    numbers = tuple(value) if several else (value,)
    if len(numbers) not in counts or any(
        isinstance(number, bool) or not isinstance(number, kind) for number in numbers
    ):
        what = "whole number" if kind is Integral else "number"
        parts = [f"a {what}" if count == 1 else f"{count} {what}s" for count in counts]
        raise ValueError(
            f"{type(one).__name__}: {name} is {value!r}, but must be {' or '.join(parts)}"
        )
    return numbers


def _sides(one: Any) -> tuple[int, ...]:
    sides = _numbers(one, "size", (1, 2))
    for side in sides:
        if not 1 <= side < 2**31:
            raise ValueError(f"{type(one).__name__}: size is {one.size!r}, but must be above 0")
    return sides


def _size(one: Any) -> Any:
    height, width = (_sides(one) * 2)[:2]
    return _core.Size(width=width, height=height)


def _bounds(one: Any, into: Any) -> None:
    into.scale_min, into.scale_max = _numbers(one, "scale", (2,), Real)
    into.ratio_min, into.ratio_max = _numbers(one, "ratio", (2,), Real)


def _interpolation(one: RandomResizedCrop | Resize) -> Any:
    name = getattr(one.interpolation, "value", one.interpolation)
    kind = type(one).__name__
    if not isinstance(name, (str, int)) or name not in _INTERPOLATIONS:
        raise ValueError(
            f"{kind}: interpolation is {name!r}, but must be one of 'nearest', 'bilinear' and "
            "'bicubic'"
        )
    found = _INTERPOLATIONS[name]
    if one.antialias is not True and found != _core.Interpolation.NEAREST:
        raise ValueError(
            f"{kind}: antialias is {one.antialias}, but must be True: Forebay has no other kind"
        )
    return found


def _random_crop(one: RandomCrop) -> Any:
    crop = _core.RandomCrop()
    padding = (0,) if one.padding is None else _numbers(one, "padding", (1, 2, 4))
    if any(not 0 <= pixels < 2**31 for pixels in padding):
        raise ValueError(f"RandomCrop: padding is {one.padding!r}, but must be at least 0")
    crop.padding = _core.Padding(*(padding * 4)[:4])
    crop.pad_if_needed = bool(one.pad_if_needed)
    fill = (_numbers(one, "fill", (1, 3)) * 3)[:3]
    if any(not 0 <= level <= 255 for level in fill):
        raise ValueError(f"RandomCrop: fill is {one.fill!r}, but must be from 0 to 255")
    if one.padding_mode not in _BORDERS:
        raise ValueError(
            f"RandomCrop: padding_mode is {one.padding_mode!r}, but must be one of {list(_BORDERS)}"
        )
    crop.border = _core.Border(_BORDERS[one.padding_mode], list(fill))
    return crop


def _erasing(one: RandomErasing, into: Any) -> None:
    into.probability = _probability(one)
    _bounds(one, into)
    if isinstance(one.value, str):
        if one.value != "random":
            raise ValueError(f"RandomErasing: value is {one.value!r}, but must be 'random'")
        into.noise = True
    else:
        into.value = list((_numbers(one, "value", (1, 3), Real) * 3)[:3])


def _probability(one: Any) -> float:
    (p,) = _numbers(one, "p", (1,), Real)
    if not 0 <= p <= 1:
        raise ValueError(f"{type(one).__name__}: p is {p}, but must be from 0 to 1")
    return p


def to_core(transforms: Sequence[Transform]) -> tuple[Any, Normalize | None]:
    """What the core calls them, and how pixels are normalised.

    Raises:
        ValueError: The core does not run these in this order, or not with these arguments.
    """
    _check_order(transforms)
    out = _core.Transform()
    out.flip = 0
    resize = None
    normalize = None
    for one in transforms:
        match one:
            case Resize():
                if one.max_size is not None:
                    raise ValueError(
                        f"Resize: max_size is {one.max_size}, which Forebay does not support: "
                        "leave it out"
                    )
                sides = _sides(one)
                resize = _size(one) if len(sides) == 2 else _core.ShortSide(sides[0])
                out.interpolation = _interpolation(one)
                out.size = _size(one)
                out.crop = _core.CentreCrop()
            case RandomResizedCrop():
                crop = _core.RandomResizedCrop()
                _bounds(one, crop)
                out.size, out.crop = _size(one), crop
                out.interpolation = _interpolation(one)
            case RandomCrop():
                out.size, out.crop = _size(one), _random_crop(one)
            case CenterCrop():
                out.size, out.crop = _size(one), _core.CentreCrop()
            case RandomHorizontalFlip():
                out.flip = _probability(one)
            case RandomVerticalFlip():
                out.vertical_flip = _probability(one)
            case Normalize():
                for name in ("mean", "std"):
                    _numbers(one, name, (3,), Real)
                normalize = one
            case RandomErasing():
                _erasing(one, out.erasing)
    if resize is not None:
        resized: Any = out.crop
        resized.resize = resize
        out.crop = resized
    return out, normalize


# Of torchvision: the arguments that Forebay's transform of the same name takes from one.
_COPIED: dict[str, tuple[str, ...]] = {
    "RandomResizedCrop": ("size", "scale", "ratio", "interpolation", "antialias"),
    "RandomCrop": ("size", "pad_if_needed", "fill", "padding_mode"),
    "Resize": ("size", "interpolation", "max_size", "antialias"),
    "CenterCrop": ("size",),
    "RandomHorizontalFlip": ("p",),
    "RandomVerticalFlip": ("p",),
    "Normalize": ("mean", "std"),
    "RandomErasing": ("p", "scale", "ratio"),
}
# What becomes of nothing: samples are RGB tensors from the beginning.
_IGNORED = ("Identity", "PILToTensor", "ToImage", "ToPureTensor")


def from_torchvision(transform: Any) -> list[Transform]:
    """The same as a torchvision Compose (v2, or the older one) does, for Loader's `transform`.

    ToImage, PILToTensor, ToTensor and ToDtype(torch.float32, scale=True) are part of what Forebay
    does anyway; without Normalize they become Normalize(mean=(0, 0, 0), std=(1, 1, 1)). A flip
    before a random crop goes behind it, which gives the same distribution. Where torchvision
    resizes a Pillow image or floating-point numbers, Forebay resizes bytes: values differ by a
    level of 255 now and then.

    Args:
        transform: A Compose, nested ones included; a sequence of transforms; or one.

    Raises:
        ValueError: A member, its arguments or its place have no counterpart here; it is named.
    """
    out: list[Any] = []
    scaled = False
    for member in _flat(transform):
        name = type(member).__name__
        if not type(member).__module__.startswith("torchvision.transforms"):
            raise ValueError(
                f"from_torchvision: {name} (of {type(member).__module__}) is not torchvision's own"
            )
        if name in ("ToTensor", "ConvertImageDtype", "ToDtype"):
            scaled = _scales(member, scaled) or scaled
        elif name in _COPIED:
            if name == "Normalize" and not scaled:
                raise ValueError(
                    "from_torchvision: Normalize without ToDtype(torch.float32, scale=True) or "
                    "ToTensor before it works on the scale from 0 to 255, which Forebay's does not"
                )
            out.append(_from_torchvision(member, scaled))
        elif name not in _IGNORED:
            raise ValueError(
                f"from_torchvision: {name} has no counterpart in Forebay, which runs {_ORDER}"
            )
    kinds = [type(one) for one in out]
    if scaled and Normalize not in kinds:
        at = kinds.index(RandomErasing) if RandomErasing in kinds else len(out)
        out.insert(at, Normalize(mean=(0, 0, 0), std=(1, 1, 1)))
    out = _flips_behind_crop(out)
    to_core(out)
    return out


def _flat(transform: Any) -> Iterable[Any]:
    if isinstance(transform, Sequence):
        members = transform
    elif type(transform).__name__ in ("Compose", "Sequential"):
        members = getattr(transform, "transforms", transform)
    else:
        yield transform
        return
    for member in members:
        yield from _flat(member)


def _scales(member: Any, scaled: bool) -> bool:
    """Whether a conversion makes numbers from 0 to 1 of bytes."""
    name = type(member).__name__
    dtype = "torch.float32" if name == "ToTensor" else str(member.dtype)
    if dtype == "torch.uint8" and not scaled:
        return False
    if dtype != "torch.float32":
        raise ValueError(
            f"from_torchvision: {name} to {dtype} has no counterpart in Forebay: convert to "
            "torch.float32, or give Loader a dtype"
        )
    if name == "ToDtype" and not member.scale and not scaled:
        raise ValueError(
            "from_torchvision: ToDtype(torch.float32) without scale=True gives numbers from 0 to "
            "255, which Forebay does not"
        )
    return True


def _from_torchvision(member: Any, scaled: bool) -> Any:
    name = type(member).__name__
    arguments = {one: getattr(member, one) for one in _COPIED[name]}
    if name == "RandomErasing":
        # v2 keeps a list, and None for "random".
        value = member.value
        arguments["value"] = "random" if value is None else value
    if name == "RandomCrop":
        arguments["padding"] = _padding(member)
        fill = member.fill
        levels = fill if isinstance(fill, Sequence) else (fill,)
        if scaled and any(level != 0 for level in levels if level is not None):
            raise ValueError(
                "from_torchvision: RandomCrop's fill is on the scale of the numbers that it gets; "
                "put it before ToDtype or ToTensor"
            )
        arguments["fill"] = 0 if fill is None else fill
    return globals()[name](**arguments)


def _padding(member: Any) -> Any:
    """As the constructor takes it: v2 keeps left, right, top and bottom, v1 what it was given."""
    padding = member.padding
    if ".v2." not in type(member).__module__ or padding is None:
        return padding or None
    left, right, top, bottom = padding
    return (left, top, right, bottom)


def _flips_behind_crop(transforms: list[Any]) -> list[Any]:
    """Flips directly before a random crop go behind it, where the crop is symmetric."""
    for at, crop in enumerate(transforms):
        if not isinstance(crop, (RandomCrop, RandomResizedCrop)):
            continue
        first = at
        while first > 0 and isinstance(transforms[first - 1], _FLIPS):
            first -= 1
        padding = ()
        if isinstance(crop, RandomCrop) and crop.padding is not None:
            padding = _numbers(crop, "padding", (1, 2, 4))
        if len(padding) == 4 and (padding[0] != padding[2] or padding[1] != padding[3]):
            continue
        before, flips, rest = transforms[:first], transforms[first:at], transforms[at + 1 :]
        return [*before, crop, *flips, *rest]
    return transforms
