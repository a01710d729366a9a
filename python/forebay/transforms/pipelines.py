"""Splits a Loader's `transform` into what the core runs and what Python runs after it.

A transform is a list of members: Forebay's transforms, torchvision's, and functions of the user's
own. The core runs as many of the first members as it can. Python runs the rest, member by member.
Each member gets the kind of image that it would get where the user wrote it: a function in
Forebay's list gets a tensor of the batch's layout; torchvision's transforms, and functions within
its Compose, get a Pillow image until ToTensor, ToImage or PILToTensor, and after that tensors [3,
height, width].
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from forebay.checks import function
from forebay.pytorch import load_torch
from forebay.transforms.core.transform import is_cut
from forebay.transforms.kinds import Transform
from forebay.transforms.torchvision_transforms import (
    CONVERSIONS,
    CorePart,
    NotInCoreError,
    is_torchvision,
)
from forebay.transforms.user_functions import TorchvisionFunction, UserFunction, name_of

# torchvision's transforms that make tensors of Pillow images; some of them take nothing else.
_FROM_PILLOW = ("ToTensor", "PILToTensor", "ToImage")


@dataclass(frozen=True)
class Pipeline:
    """A transform, split.

    Attributes:
        core: What the core runs; None: images stay as they are. With an empty list images still
            become tensors, and must have one size.
        functions: What Python runs on each of the core's images, in turn.
        names: The functions' names, for messages.
        in_python: Why transforms of torchvision are among the functions; None: there are none.
    """

    core: list[Transform] | None
    functions: list[UserFunction]
    names: list[str]
    in_python: str | None = None


@dataclass(frozen=True)
class _Member:
    value: Any
    is_theirs: bool  # whether it is torchvision's, or within its Compose

    def name(self) -> str:
        return name_of(self.value)


def from_torchvision(transform: Any) -> list[Transform]:
    """Forebay's transforms that do the same as torchvision's; the core must run all of them.

    A Loader's `transform` takes torchvision's objects themselves; this shows what they become.
    ToImage, PILToTensor, ToTensor and ToDtype(torch.float32, scale=True) are part of what Forebay
    does anyway; if one of them scales pixels to 0 to 1 and there is no Normalize, it becomes
    Normalize(mean=(0, 0, 0), std=(1, 1, 1)). A flip directly before a random crop moves after it,
    which gives the same distribution. If torchvision would resize a Pillow image or floating-point
    numbers, Forebay resizes bytes: values differ by one level of 255 now and then.

    Args:
        transform: A Compose, also with others inside; a model's weights.transforms(); a sequence of
            transforms; or a single one.

    Raises:
        ValueError: A transform, its arguments or its position have no counterpart in Forebay's
            core; the message names it.
    """
    pipeline = split(transform, channels_last=False)
    if pipeline.functions:
        raise ValueError(f"from_torchvision: {only_in_python(pipeline)}")
    return pipeline.core or []


def only_in_python(pipeline: Pipeline) -> str:
    """Returns which part of the pipeline the core does not run, for messages."""
    if pipeline.in_python is not None:
        return pipeline.in_python
    return f"{pipeline.names[0]} is a function, which runs in Python"


def split(transform: Any, *, channels_last: bool) -> Pipeline:
    """Splits a transform into what the core runs and what Python runs.

    Args:
        transform: Like Loader's.
        channels_last: Whether the core's images are [height, width, 3].

    Raises:
        ValueError: A member is not a transform, or the core does not run its transforms in this
            order.
    """
    if transform is None:
        return Pipeline(None, [], [])
    _check_made(transform)
    is_one = isinstance(transform, Transform) or callable(transform)
    given = [transform] if is_one else transform
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ValueError(f"transform is {transform!r}, but must be a list of transforms")
    members = [member for one in given for member in _flat(one, False)]
    part, count, reason = _core_part(members)
    core, rest = part.transforms(), members[count:]
    _check_rest(rest, members[:count])
    has_ours = any(isinstance(one.value, Transform) for one in members)
    if rest and count > 0 and not has_ours and not is_cut(core):
        # The rest may bring images to one size, so the core must accept images of other sizes.
        reason = reason or (
            f"{rest[0].name()} is a function, which runs in Python, and nothing before it brings "
            "images to one size, like Resize((height, width)) would"
        )
        part, core, rest, count = CorePart(), [], members, 0
    functions = _functions(rest, _conversion(part, rest, members), channels_last)
    names = [one.name() for one in rest]
    return Pipeline(core if count > 0 else None, functions, names, _told(rest, reason, count > 0))


def _flat(one: Any, is_inside: bool) -> Iterator[_Member]:
    """The members of a transform; those of torchvision's Compose one by one."""
    _check_made(one)
    if type(one).__name__ == "Compose" and is_torchvision(one):
        for member in one.transforms:
            yield from _flat(member, True)
    elif _is_sequential(one) and any(map(is_torchvision, one)):
        for member in one:
            yield from _flat(member, True)
    else:
        yield _Member(one, is_inside or is_torchvision(one))


def _check_made(one: Any) -> None:
    """Raises ValueError for what gives transforms only if it is called."""
    if isinstance(one, functools.partial) and one.func.__module__ == (
        "torchvision.transforms._presets"
    ):
        raise ValueError("transform: weights.transforms is a function; write weights.transforms()")
    name = name_of(one)
    if isinstance(one, type):
        raise ValueError(f"transform: {name} is a class; call it to make a transform: {name}(…)")
    if isinstance(one, FunctionType) and one.__module__ == "forebay.transforms":
        raise ValueError(
            f"transform: {name} is a function that gives transforms; call it: {name}(…)"
        )
    if not callable(one) and callable(getattr(one, "transforms", None)):
        raise ValueError(
            f"transform: {one} has a transform, but is none; write .transforms() after it"
        )


def _is_sequential(one: Any) -> bool:
    return type(one).__name__ == "Sequential" and type(one).__module__.startswith("torch.nn.")


def _core_part(members: list[_Member]) -> tuple[CorePart, int, str | None]:
    """What the core runs, how many members that is, and why it does not run the next member.

    The reason is None if the next member is a function, or if there is no next member.
    """
    part = CorePart()
    for place, member in enumerate(members):
        if not isinstance(member.value, Transform) and not is_torchvision(member.value):
            return part, place, None
        try:
            part.take(member.value, [one.value for one in members[place + 1 :]])
        except NotInCoreError as error:
            return part, place, str(error)
    return part, len(members), None


def _told(rest: list[_Member], reason: str | None, has_core: bool) -> str | None:
    """The message about torchvision's transforms that run in Python; None: there are none."""
    around = [one for one in rest if is_torchvision(getattr(one.value, "transforms", None))]
    if around and not is_torchvision(around[0].value):
        return (
            f"{around[0].name()} is a function, which runs in Python and gets tensors; give its "
            "`transforms`, which are torchvision's, instead"
        )
    slow = [one.name() for one in rest if is_torchvision(one.value)]
    if not slow:
        return None
    reason = reason or f"Forebay's core runs nothing after {rest[0].name()}, which is a function"
    images = "" if has_core else ", on whole images"
    return f"{reason}; {_joined(slow)} run{'s' * (len(slow) == 1)} in Python{images}"


def _conversion(part: CorePart, rest: list[_Member], members: list[_Member]) -> Any:
    """The member before `rest` that made a tensor of the Pillow image; None: it is still Pillow's.

    Forebay's own transforms give tensors, unless a later member asks for a Pillow image.
    """
    if part.conversion is not None or any(
        is_torchvision(one.value) and type(one.value).__name__ in _FROM_PILLOW for one in rest
    ):
        return part.conversion
    return next((one.value for one in members if isinstance(one.value, Transform)), None)


def _check_rest(rest: list[_Member], before: list[_Member]) -> None:
    """Raises ValueError if a member cannot run in Python after the members `before`."""
    for member in rest:
        if isinstance(member.value, Transform):
            raise ValueError(
                f"transform: {member.name()} of forebay.transforms stands after "
                f"{rest[0].name()}, which runs in Python; put Forebay's own first, or use "
                f"torchvision's {member.name()} there"
            )
        if is_torchvision(member.value) and member.name() in ("MixUp", "CutMix"):
            raise ValueError(
                f"transform: {member.name()} mixes whole batches; give "
                f"forebay.transforms.{member.name()} as batch_transform"
            )


def _functions(rest: list[_Member], conversion: Any, channels_last: bool) -> list[UserFunction]:
    """Returns what Python runs, with steps that convert images between the kinds of members."""
    out: list[UserFunction] = []
    is_theirs = False
    for place, member in enumerate(rest):
        if member.is_theirs and not is_theirs:
            out.append(_step(_entering(conversion, channels_last)))
        elif is_theirs and not member.is_theirs:
            out.append(_step(_leaving(channels_last)))
        is_theirs = member.is_theirs
        function("transform: a member", member.value)
        kind = TorchvisionFunction if is_torchvision(member.value) else UserFunction
        out.append(kind(member.value, "transform", place))
        if is_torchvision(member.value) and type(member.value).__name__ in CONVERSIONS:
            conversion = member.value
    if is_theirs:
        out.append(_step(_leaving(channels_last)))
    return out


def _step(own: Callable[[Any], Any]) -> UserFunction:
    return UserFunction(own, "transform")


def _entering(conversion: Any, channels_last: bool) -> Callable[[Any], Any]:
    """A function that makes the kind of image that torchvision's transforms get of a core's image.

    Args:
        conversion: The member that made a tensor of the Pillow image; None: it is still Pillow's.
        channels_last: Whether images come as [height, width, 3].
    """

    def enter(image: Any) -> Any:
        if not hasattr(image, "permute"):  # a function of the user's made it
            return image
        planes = image.permute(2, 0, 1) if channels_last else image
        if conversion is None and str(planes.dtype) == "torch.uint8":
            from PIL import Image

            pixels = np.ascontiguousarray(planes.permute(1, 2, 0).numpy())
            return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
        return conversion(planes) if type(conversion).__name__ == "ToImage" else planes

    return enter


def _leaving(channels_last: bool) -> Callable[[Any], Any]:
    """A function that turns the result of torchvision's transforms into a tensor of the batch."""

    def leave(image: Any) -> Any:
        torch = load_torch()
        if type(image).__module__.startswith("PIL."):
            pixels = np.array(image)
            pixels = pixels[..., None] if pixels.ndim == 2 else pixels
            image = torch.from_numpy(pixels).permute(2, 0, 1)
        is_image = isinstance(image, torch.Tensor) and image.ndim == 3
        return image.permute(1, 2, 0) if channels_last and is_image else image

    return leave


def _joined(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
