"""Converts torchvision's transforms to Forebay's, as far as the core can run them.

Forebay does not import torchvision, but recognises its objects by the module of their type.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from forebay import _core
from forebay.transforms import augmentations, kinds
from forebay.transforms import boxes as box_transforms
from forebay.transforms import sizes as size_transforms
from forebay.transforms.core.arguments import OF_IMAGES, OF_MASKS, numbers_of, of_kind
from forebay.transforms.core.transform import to_core
from forebay.transforms.timm_policies import from_timm, is_timm

_FLIPS = (kinds.RandomHorizontalFlip, kinds.RandomVerticalFlip)
# The arguments that Forebay's transform takes over from torchvision's of the same name.
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
_WARP = ("interpolation", "fill")
# The same for steps of an augmentation.
_COPIED_STEPS: dict[str, tuple[str, ...]] = {
    "ColorJitter": ("brightness", "contrast", "saturation", "hue"),
    "RandomPhotometricDistort": ("brightness", "contrast", "saturation", "hue", "p"),
    "Grayscale": ("num_output_channels",),
    "RandomGrayscale": ("p",),
    "RandomChannelPermutation": (),
    "RandomAutocontrast": ("p",),
    "RandomEqualize": ("p",),
    "RandomInvert": ("p",),
    "RandomPosterize": ("bits", "p"),
    "RandomSolarize": ("threshold", "p"),
    "RandomAdjustSharpness": ("sharpness_factor", "p"),
    "GaussianBlur": ("kernel_size", "sigma"),
    "RandomRotation": ("degrees", "expand", "center", *_WARP),
    "RandomAffine": ("degrees", "translate", "scale", "shear", "center", *_WARP),
    "RandomPerspective": ("distortion_scale", "p", *_WARP),
    "AutoAugment": ("policy", *_WARP),
    "RandAugment": ("num_ops", "magnitude", "num_magnitude_bins", *_WARP),
    "TrivialAugmentWide": ("num_magnitude_bins", *_WARP),
    "AugMix": ("severity", "mixture_width", "chain_depth", "alpha", "all_ops", *_WARP),
    "RandomApply": ("p",),
    "RandomChoice": ("p",),
    "RandomOrder": (),
}
# The same for steps that change sizes.
_COPIED_SIZES: dict[str, tuple[str, ...]] = {
    "Pad": ("padding", "fill", "padding_mode"),
    "RandomZoomOut": ("fill", "side_range", "p"),
    "RandomIoUCrop": (
        "min_scale",
        "max_scale",
        "min_aspect_ratio",
        "max_aspect_ratio",
        "trials",
    ),
    "ScaleJitter": ("target_size", "scale_range", "interpolation", "antialias"),
    "RandomShortestSize": ("min_size", "max_size", "interpolation", "antialias"),
    "RandomResize": ("min_size", "max_size", "interpolation", "antialias"),
}
# The same for transforms of boxes.
_COPIED_BOXES: dict[str, tuple[str, ...]] = {
    "SanitizeBoundingBoxes": ("min_size", "min_area"),
    "ClampBoundingBoxes": (),
    "ConvertBoundingBoxFormat": ("format",),
}
_NESTING = ("RandomApply", "RandomChoice", "RandomOrder")
# These turn bytes into numbers from 0 to 1.
_SCALING = ("ToTensor", "ConvertImageDtype", "ToDtype")
# These change nothing, because samples are RGB tensors from the beginning.
_IGNORED = ("Identity", "PILToTensor", "ToImage", "ToPureTensor")
# An image is Pillow's before these and a tensor after them.
CONVERSIONS = (*_SCALING, "PILToTensor", "ToImage", "ToPureTensor")


class NotInCoreError(Exception):
    """The core does not do what one of torchvision's transforms does; the message says why."""


def is_torchvision(one: Any) -> bool:
    """Whether an object is one of torchvision's transforms, or of timm's policies among them."""
    module = type(one).__module__
    return (
        is_timm(one)
        or module == "torchvision.transforms"
        or module.startswith("torchvision.transforms.")
    )


class CorePart:
    """The first members of a transform, as many as the core runs."""

    def __init__(self) -> None:
        self._taken: list[Any] = []
        self._scaled = False
        # The last member that would turn the Pillow image into a tensor in torchvision.
        self.conversion: Any = None

    def transforms(self) -> list[kinds.Transform]:
        """Returns what the core runs for the members that were taken."""
        out = list(self._taken)
        present = [type(one) for one in out]
        if self._scaled and kinds.Normalize not in present:
            at = present.index(kinds.RandomErasing) if kinds.RandomErasing in present else len(out)
            out.insert(at, kinds.Normalize(mean=(0, 0, 0), std=(1, 1, 1)))
        return out

    def take(self, member: Any, later: Sequence[Any]) -> None:
        """Adds the next member, Forebay's or torchvision's.

        Args:
            member: The member.
            later: The members after it.

        Raises:
            NotInCoreError: The core does not run this transform of torchvision's, or not at this
                position.
            ValueError: Torchvision could not run it either.
        """
        if isinstance(member, kinds.Transform):
            self._taken.append(member)
            return
        made = self._converted(member, later)
        try:
            own = _flips_after_crop([*self._taken, *made])
            if own:
                _check(own)
        except ValueError as error:
            reason = str(error).removeprefix("transform: ")
            if len(made) > 1:  # the reason names only what the member became
                reason = f"{type(member).__name__}: {reason}"
            raise NotInCoreError(reason) from None
        self._taken = own
        self._scaled = self._scaled or _scales(member, self._scaled)
        if type(member).__name__ in CONVERSIONS:
            self.conversion = member

    def _converted(self, member: Any, later: Sequence[Any]) -> list[kinds.Transform]:
        """The transforms of Forebay that do the same as one of torchvision's."""
        name = type(member).__name__
        if is_timm(member):
            if self._scaled:
                raise NotInCoreError(f"timm's {name} gets numbers from 0 to 1 here")
            try:
                return [from_timm(member)]
            except ValueError as error:
                raise NotInCoreError(str(error)) from None
        if name in _IGNORED or name in _SCALING:
            _scales(member, self._scaled)
            mask_type = _mask_type(member)
            return [] if mask_type is None else [box_transforms.ConvertMasks(mask_type)]
        if name == "ImageClassification":  # a model's preset, which gets Pillow's images
            return [
                kinds.Resize(member.resize_size, member.interpolation),
                kinds.CenterCrop(member.crop_size),
                kinds.Normalize(member.mean, member.std),
            ]
        if name in _COPIED_BOXES:
            values = {one: getattr(member, one) for one in _COPIED_BOXES[name]}
            return [getattr(box_transforms, name)(**values)]
        if name in _COPIED_STEPS or name in _COPIED_SIZES:
            return [self._step(member)]
        if name not in _COPIED:
            raise NotInCoreError(f"{name} has no counterpart in Forebay's core")
        arguments = {one: getattr(member, one) for one in _COPIED[name]}
        if self.conversion is None and "antialias" in arguments:
            arguments["antialias"] = True  # Pillow, which would resize here, always does
        if name == "RandomCrop":
            arguments["padding"] = _padding(member)
            arguments["fill"] = self._fill(member)
        if name == "RandomErasing":
            arguments["value"] = self._erased_value(member, later)
        if name == "Normalize":
            self._check_normalize()
            for key, value in arguments.items():
                numbers = np.ravel(value).tolist()
                arguments[key] = numbers * 3 if len(numbers) == 1 else numbers
        return [getattr(kinds, name)(**arguments)]

    def _step(self, member: Any) -> augmentations.Step:
        name = type(member).__name__
        if self._scaled:
            raise NotInCoreError(
                f"{name} gets numbers from 0 to 1 here; Forebay's core changes bytes, before "
                "ToTensor or ToDtype"
            )
        copied = _COPIED_STEPS.get(name) or _COPIED_SIZES.get(name, ())
        arguments = {one: getattr(member, one) for one in copied}
        if name == "RandomIoUCrop":
            arguments["sampler_options"] = member.options
        if name in _COPIED_SIZES:
            if self.conversion is None and "antialias" in arguments:
                arguments["antialias"] = True  # Pillow, which would resize here, always does
            sized: augmentations.Step = getattr(size_transforms, name)(**arguments)
            return sized
        if name in _NESTING:
            arguments["transforms"] = [self._nested(one, name) for one in member.transforms]
        made: augmentations.Step = getattr(augmentations, name)(**arguments)
        return made

    def _nested(self, member: Any, outer: str) -> kinds.Transform:
        name = type(member).__name__
        if not is_torchvision(member):
            raise NotInCoreError(f"{outer} contains {name}, which is not torchvision's")
        if name == "Compose":
            return augmentations.RandomApply(
                [self._nested(one, outer) for one in member.transforms], 1
            )
        if name in _COPIED_STEPS or name in _COPIED_SIZES:
            return self._step(member)
        flips = {kind.__name__: kind for kind in _FLIPS}
        if name not in flips:
            raise NotInCoreError(f"{name} within {outer} has no counterpart in Forebay's core")
        return flips[name](member.p)

    def _check_normalize(self) -> None:
        if not self._scaled:
            raise ValueError(
                "transform: torchvision's Normalize needs numbers from 0 to 1, but gets bytes; put "
                "ToTensor or ToDtype(torch.float32, scale=True) before it"
            )

    def _fill(self, member: Any) -> Any:
        fill = member.fill
        colour = of_kind(fill, OF_IMAGES, 0) if isinstance(fill, Mapping) else fill
        levels = colour if isinstance(colour, Sequence) else (colour,)
        if self._scaled and any(level != 0 for level in levels if level is not None):
            raise NotInCoreError(
                "RandomCrop's fill is on the scale from 0 to 1 here; Forebay's core pads bytes, "
                "before ToTensor or ToDtype"
            )
        return 0 if fill is None else fill

    def _erased_value(self, member: Any, later: Sequence[Any]) -> Any:
        value = "random" if member.value is None else member.value  # v2 keeps None for "random"
        is_zero = value != "random" and not np.any(value)
        if not self._scaled and not is_zero and any(_is_scaling(one) for one in later):
            raise NotInCoreError(
                "RandomErasing's value is on the scale of bytes here; Forebay's core erases after "
                "ToTensor or ToDtype"
            )
        return value


def _check(own: list[kinds.Transform]) -> None:
    """Raises ValueError if the core does not run these transforms."""
    transform = to_core(own).transform
    size = transform.size if transform.crop_size is None else transform.crop_size
    # If no transform cuts the samples, their size is known later.
    _core.check_steps(transform.steps, size if size.width > 0 else None)


def _is_scaling(member: Any) -> bool:
    if not is_torchvision(member) or type(member).__name__ not in _SCALING:
        return False
    return _image_type(member) not in ("None", "torch.uint8")


def _image_type(member: Any) -> str:
    """The type that one of _SCALING gives images; ToDtype may have one for each kind of input."""
    dtype = getattr(member, "dtype", "torch.float32")
    kinds_of_images = (*OF_IMAGES, "Tensor")
    return str(of_kind(dtype, kinds_of_images, None) if isinstance(dtype, Mapping) else dtype)


def _mask_type(member: Any) -> str | None:
    """The type that ToDtype gives masks, as NumPy names it; None: they keep theirs."""
    dtype = getattr(member, "dtype", None)
    found = of_kind(dtype, OF_MASKS, None) if isinstance(dtype, Mapping) else None
    return None if found is None else str(found).removeprefix("torch.")


def _scales(member: Any, scaled: bool) -> bool:
    """Whether a member scales pixels to 0 to 1; `scaled`: whether they were so before it."""
    name = type(member).__name__
    if name == "ImageClassification":
        return True
    if name not in _SCALING:
        return False
    dtype = _image_type(member)
    if dtype in ("None", "torch.uint8") and not scaled:
        return False
    if dtype == "None":
        return scaled
    if dtype != "torch.float32":
        raise NotInCoreError(
            f"{name} to {dtype} has no counterpart in Forebay's core: convert to torch.float32, or "
            "give Loader a dtype"
        )
    if name == "ToDtype" and not member.scale and not scaled:
        raise NotInCoreError(
            "ToDtype(torch.float32) without scale=True gives numbers from 0 to 255, which "
            "Forebay's core cannot give"
        )
    return True


def _padding(member: Any) -> Any:
    """The constructor's `padding`: v1 keeps it; v2 keeps left, right, top and bottom instead."""
    padding = member.padding
    if ".v2." not in type(member).__module__ or padding is None:
        return padding or None
    left, right, top, bottom = padding
    return (left, top, right, bottom)


def _flips_after_crop(own: list[Any]) -> list[Any]:
    """Moves flips from directly before a random crop to after it, if the crop is symmetric."""
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
