"""torchvision's transforms as Forebay's."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from forebay import transform_kinds as kinds
from forebay.core_transforms import ORDER, numbers_of, to_core

_FLIPS = (kinds.RandomHorizontalFlip, kinds.RandomVerticalFlip)
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


def from_torchvision(transform: Any) -> list[kinds.Transform]:
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
    value_of_bytes = False
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
            if name == "RandomErasing" and not scaled:
                value_of_bytes = out[-1].value != "random" and bool(np.any(out[-1].value))
        elif name not in _IGNORED:
            raise ValueError(
                f"from_torchvision: {name} has no counterpart in Forebay, which runs {ORDER}"
            )
    if scaled and value_of_bytes:
        raise ValueError(
            "from_torchvision: RandomErasing's value is on the scale of the numbers that it gets; "
            "put it behind ToDtype or ToTensor"
        )
    present = [type(one) for one in out]
    if scaled and kinds.Normalize not in present:
        at = present.index(kinds.RandomErasing) if kinds.RandomErasing in present else len(out)
        out.insert(at, kinds.Normalize(mean=(0, 0, 0), std=(1, 1, 1)))
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
    return getattr(kinds, name)(**arguments)


def _padding(member: Any) -> Any:
    """As the constructor takes it: v2 keeps left, right, top and bottom, v1 what it was given."""
    padding = member.padding
    if ".v2." not in type(member).__module__ or padding is None:
        return padding or None
    left, right, top, bottom = padding
    return (left, top, right, bottom)


def _flips_behind_crop(own: list[Any]) -> list[Any]:
    """Flips directly before a random crop go behind it, where the crop is symmetric."""
    for at, crop in enumerate(own):
        if not isinstance(crop, (kinds.RandomCrop, kinds.RandomResizedCrop)):
            continue
        first = at
        while first > 0 and isinstance(own[first - 1], _FLIPS):
            first -= 1
        padding = ()
        if isinstance(crop, kinds.RandomCrop) and crop.padding is not None:
            padding = numbers_of(crop, "padding", (1, 2, 4))
        if len(padding) == 4 and (padding[0] != padding[2] or padding[1] != padding[3]):
            continue
        before, flips, rest = own[:first], own[first:at], own[at + 1 :]
        return [*before, crop, *flips, *rest]
    return own
