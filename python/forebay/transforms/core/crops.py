"""Turns the user's crops, resizings and borders into the core's."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from forebay import _core
from forebay.transforms import kinds
from forebay.transforms.core.arguments import fills_of, interpolation_of, numbers_of

# These need no antialiasing, and torchvision ignores the argument.
_NEAREST = (_core.Interpolation.NEAREST, _core.Interpolation.NEAREST_EXACT)
_BORDERS = {
    "constant": _core.BorderKind.CONSTANT,
    "edge": _core.BorderKind.EDGE,
    "reflect": _core.BorderKind.REFLECT,
    "symmetric": _core.BorderKind.SYMMETRIC,
}


def any_size() -> Any:
    """The core's value for a size that is not known."""
    return _core.Size(width=0, height=0)


def sides_of(one: Any, name: str = "size") -> tuple[int, ...]:
    """One or two sides in pixels: a short side, or height and width."""
    sides = numbers_of(one, name, (1, 2))
    for side in sides:
        if not 1 <= side < 2**31:
            raise ValueError(
                f"{type(one).__name__}: {name} is {getattr(one, name)!r}, but must be above 0"
            )
    return sides


def size_of(one: Any) -> Any:
    """The core's size; one number is the side of a square."""
    height, width = (sides_of(one) * 2)[:2]
    return _core.Size(width=width, height=height)


def set_bounds(one: Any, into: Any) -> None:
    """Sets the least and the largest share of the area and ratio of a random rectangle."""
    into.scale_min, into.scale_max = numbers_of(one, "scale", (2,), Real)
    into.ratio_min, into.ratio_max = numbers_of(one, "ratio", (2,), Real)


def resizing_of(one: Any) -> Any:
    """The core's interpolation of a transform that resizes; it must be antialiased."""
    found = interpolation_of(one)
    if one.antialias is not True and found not in _NEAREST:
        raise ValueError(
            f"{type(one).__name__}: antialias is {one.antialias}, but must be True: Forebay always "
            "antialiases"
        )
    return found


def resize_of(one: kinds.Resize) -> Any:
    """The core's resize: of the short side, of the long side, or of both sides."""
    if one.max_size is None:
        sides = sides_of(one)
        return size_of(one) if len(sides) == 2 else _core.ShortSide(sides[0])
    (longest,) = sides_of(one, "max_size")[:1]
    if one.size is None:
        return _core.ShortSide(0, longest)
    sides = sides_of(one)
    if len(sides) == 2:
        raise ValueError(
            f"Resize: max_size is {one.max_size}, which needs a size of the short side alone, but "
            f"size is {one.size!r}"
        )
    if longest <= sides[0]:
        raise ValueError(f"Resize: max_size is {longest}, but must be above size, {sides[0]}")
    return _core.ShortSide(sides[0], longest)


def is_of_one_side(one: kinds.Resize) -> bool:
    """Whether a Resize gives one side, and the other one follows from the image's shape."""
    return one.size is None or len(sides_of(one)) == 1


def padding_of(one: Any) -> Any:
    """The core's padding."""
    padding = (0,) if one.padding is None else numbers_of(one, "padding", (1, 2, 4))
    if any(not 0 <= pixels < 2**31 for pixels in padding):
        raise ValueError(
            f"{type(one).__name__}: padding is {one.padding!r}, but must be at least 0"
        )
    return _core.Padding(*(padding * 4)[:4])


def levels_of(one: Any, kind: Any = Real) -> tuple[list[int], int]:
    """The colour `fill` as red, green and blue, rounded down like torchvision; and masks' label."""
    fill, label = fills_of(one, kind)
    if fill is None or any(not 0 <= level <= 255 for level in fill):
        raise ValueError(f"{type(one).__name__}: fill is {one.fill!r}, but must be from 0 to 255")
    return [int(level) for level in fill], label


def border_of(one: Any) -> Any:
    """The core's border."""
    if one.padding_mode not in _BORDERS:
        raise ValueError(
            f"{type(one).__name__}: padding_mode is {one.padding_mode!r}, but must be one of "
            f"{list(_BORDERS)}"
        )
    kind = Integral if isinstance(one, kinds.RandomCrop) else Real
    return _core.Border(_BORDERS[one.padding_mode], *levels_of(one, kind))


def crop_of(one: Any) -> Any:
    """The core's crop for a transform that is_crop() accepts."""
    crop: Any
    match one:
        case kinds.RandomResizedCrop():
            crop = _core.RandomResizedCrop()
            set_bounds(one, crop)
            return crop
        case kinds.RandomCrop():
            crop = _core.RandomCrop()
            crop.padding = padding_of(one)
            crop.pad_if_needed = bool(one.pad_if_needed)
            crop.border = border_of(one)
            return crop
        case kinds.CenterCrop():
            return _core.CentreCrop()
    crop = _core.WholeImage()
    crop.resize = resize_of(one)
    return crop


def is_crop(one: Any) -> bool:
    """Whether a transform cuts the image to a part, or resizes it."""
    return isinstance(
        one, (kinds.RandomResizedCrop, kinds.RandomCrop, kinds.CenterCrop, kinds.Resize)
    )


def cut_size(one: Any) -> Any:
    """The size after a transform that is_crop() accepts; any_size() if it depends on the image."""
    is_any = isinstance(one, kinds.Resize) and is_of_one_side(one)
    return any_size() if is_any else size_of(one)


def interpolation_in(one: Any) -> Any:
    """How a crop resizes; bilinear if it does not resize."""
    if isinstance(one, (kinds.RandomResizedCrop, kinds.Resize)):
        return resizing_of(one)
    return _core.Interpolation.BILINEAR


def cropping_of(one: Any) -> Any:
    """The core's step for a crop that is not the first transform."""
    return _core.Cropping(crop_of(one), cut_size(one), interpolation_in(one))


def both_sides(numbers: Sequence[int]) -> Any:
    """The core's size for (height, width)."""
    height, width = numbers
    return _core.Size(width=width, height=height)
