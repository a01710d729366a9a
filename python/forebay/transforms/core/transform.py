"""Converts the user's transforms to the core's, and says which of them the core does not run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from forebay import _core
from forebay.transforms import augmentations, kinds, sizes
from forebay.transforms.boxes import OfBoxes
from forebay.transforms.core.arguments import numbers_of, probability_of
from forebay.transforms.core.boxes import BoxOptions, box_options
from forebay.transforms.core.crops import (
    any_size,
    crop_of,
    cut_size,
    interpolation_in,
    is_crop,
    padding_of,
    resize_of,
    set_bounds,
)
from forebay.transforms.core.steps import is_step, to_step

ORDER = (
    "crops, flips and steps of an augmentation in any order, then Normalize, then RandomErasing, "
    "each if wanted"
)
_NESTING = (augmentations.RandomApply, augmentations.RandomChoice, augmentations.RandomOrder)
# These draw the size that they give, and so does a rotation that expands.
_DRAWN_SIZES = (
    sizes.RandomZoomOut,
    sizes.RandomIoUCrop,
    sizes.ScaleJitter,
    sizes.RandomShortestSize,
    sizes.RandomResize,
)


@dataclass(frozen=True)
class InCore:
    """A list of transforms, converted for the core.

    Attributes:
        transform: The core's transform. If `is_cut` is false, its size must still be set, or left
            as it is for samples with sizes of their own.
        normalize: The Normalize among the transforms; None: there is none.
        boxes: What is done to boxes after all other transforms.
        is_cut: Whether samples have one size, whatever the sizes of their images.
        draws_size: Whether samples have different sizes even if all images have the same size.
    """

    transform: Any
    normalize: kinds.Normalize | None
    boxes: BoxOptions
    is_cut: bool
    draws_size: bool


def to_core(transforms: Sequence[kinds.Transform]) -> InCore:
    """Converts the transforms for the core.

    Raises:
        ValueError: The core does not run these transforms, or not in this order or with these
            arguments.
    """
    own = [one for one in transforms if not isinstance(one, OfBoxes)]
    _check_order(own)
    made = _Made()
    for one in own:
        made.add(one)
    return made.finished(box_options([one for one in transforms if isinstance(one, OfBoxes)]))


def is_cut(transforms: Sequence[kinds.Transform]) -> bool:
    """Whether the transforms give samples of one size, whatever the images' sizes."""
    return to_core(transforms).is_cut


def members(transforms: Sequence[Any]) -> Iterator[Any]:
    """The transforms, and at any depth the transforms within them."""
    for one in transforms:
        yield one
        if isinstance(one, _NESTING):
            yield from members(one.transforms)


def draws_by_boxes(transforms: Sequence[Any]) -> bool:
    """Whether the random draws of one of the transforms, at any depth, depend on boxes."""
    return any(isinstance(one, sizes.RandomIoUCrop) for one in members(transforms))


def _check_order(transforms: Sequence[Any]) -> None:
    names = ", ".join(type(one).__name__ for one in transforms) or "nothing"
    places = []
    for one in transforms:
        last = {kinds.Normalize: 1, kinds.RandomErasing: 2}.get(type(one))
        if last is None and not is_step(one):
            raise ValueError(
                f"transform: Forebay has no {type(one).__name__}; it runs {ORDER} "
                "(forebay.transforms)"
            )
        places.append(last or 0)
    if places != sorted(places) or places.count(1) > 1 or places.count(2) > 1:
        raise ValueError(
            f"transform: Forebay does not run {names} in this order; it runs {ORDER} "
            "(forebay.transforms)"
        )


class _Made:
    """Builds the core's transform from the user's transforms, one after the other."""

    def __init__(self) -> None:
        self._out = _core.Transform()
        self._out.crop, self._out.flip = _core.WholeImage(), 0
        self._normalize: kinds.Normalize | None = None
        self._steps: list[Any] = []
        self._resize: Any = None  # a Resize at the beginning
        self._is_cropped = False
        self._cropped = any_size()  # the size after the crop at the beginning
        self._size = any_size()  # the size after all transforms
        self._changes_size = False  # whether a step after the crop changes the size
        self._draws_size = False  # whether the size at the end is random

    def add(self, one: Any) -> None:
        """Adds the next transform."""
        is_begin = not self._steps and self._out.flip == 0 and self._out.vertical_flip == 0
        match one:
            case kinds.Normalize():
                for name in ("mean", "std"):
                    numbers_of(one, name, (3,), Real)
                self._normalize = one
            case kinds.RandomErasing():
                _set_erasing(one, self._out.erasing)
            case kinds.Resize() if is_begin and not self._is_cropped and self._resize is None:
                self._resize = resize_of(one)
                self._out.interpolation = interpolation_in(one)
                self._cropped = self._size = cut_size(one)
            case _ if is_crop(one) and is_begin and self._joins(one):
                self._out.crop = crop_of(one)
                if isinstance(one, kinds.RandomResizedCrop):
                    self._out.interpolation = interpolation_in(one)
                self._is_cropped = True
                self._cropped = self._size = cut_size(one)
            case kinds.RandomHorizontalFlip() if not self._steps and self._out.flip == 0:
                self._out.flip = probability_of(one)
            case kinds.RandomVerticalFlip() if not self._steps and self._out.vertical_flip == 0:
                self._out.vertical_flip = probability_of(one)
            case _:
                self._steps.append(to_step(one))
                self._follow_size(one)

    def _joins(self, one: Any) -> bool:
        """Whether a crop can become the core's crop at the beginning."""
        if self._is_cropped or isinstance(one, kinds.Resize):
            return False
        return self._resize is None or not isinstance(one, kinds.RandomResizedCrop)

    def _follow_size(self, one: Any) -> None:
        """Notes how a step changes the size of samples."""
        self._changes_size = self._changes_size or _changes_size(one)
        self._size, draws = _size_after(one, self._size)
        self._draws_size = not _is_known(self._size) and (draws or self._draws_size)

    def finished(self, boxes: BoxOptions) -> InCore:
        """Returns the transform with everything that was added."""
        out = self._out
        out.steps = self._steps
        if self._resize is not None:
            crop: Any = out.crop
            crop.resize = self._resize
            out.crop = crop
        out.size = self._size
        if self._changes_size:
            out.crop_size = self._cropped
        return InCore(
            transform=out,
            normalize=self._normalize,
            boxes=boxes,
            is_cut=_is_known(self._size),
            draws_size=self._draws_size,
        )


def _is_known(size: Any) -> bool:
    return size.width > 0


def _changes_size(one: Any) -> bool:
    if isinstance(one, _NESTING):
        return any(_changes_size(member) for member in one.transforms)
    return is_crop(one) or isinstance(one, sizes.Pad) or _draws_size(one)


def _draws_size(one: Any) -> bool:
    expands = isinstance(one, augmentations.RandomRotation) and one.expand
    return expands or isinstance(one, _DRAWN_SIZES)


def _size_after(one: Any, size: Any) -> tuple[Any, bool]:
    """The size after a step, any_size() if it is not known, and whether the step draws it."""
    if not _changes_size(one):
        return size, False
    if _draws_size(one):
        return any_size(), True
    if isinstance(one, sizes.Pad):
        return (_padded(one, size) if _is_known(size) else size), False
    if is_crop(one):
        after = cut_size(one)
        if not _is_known(after) and _is_known(size):
            after = _core.resized_size(resize_of(one), size)
        return after, False
    ways = [_size_after(member, size)[0] for member in one.transforms]
    if isinstance(one, augmentations.RandomApply):  # all of the members, or none
        through = size
        for member in one.transforms:
            through = _size_after(member, through)[0]
        ways = [through, size]
    elif isinstance(one, augmentations.RandomOrder):
        ways.append(any_size())
    same = {(way.width, way.height) for way in ways}
    is_one = len(same) == 1 and _is_known(ways[0])
    return (ways[0], False) if is_one else (any_size(), True)


def _padded(one: sizes.Pad, size: Any) -> Any:
    padding = padding_of(one)
    width = size.width + padding.left + padding.right
    height = size.height + padding.top + padding.bottom
    if max(width, height) >= 2**31:
        raise ValueError(f"Pad: padding is {one.padding!r}, which is too much")
    return _core.Size(width=width, height=height)


def _set_erasing(one: kinds.RandomErasing, into: Any) -> None:
    into.probability = probability_of(one)
    set_bounds(one, into)
    if isinstance(one.value, str):
        if one.value != "random":
            raise ValueError(f"RandomErasing: value is {one.value!r}, but must be 'random'")
        into.noise = True
    else:
        into.value = list((numbers_of(one, "value", (1, 3), Real) * 3)[:3])
