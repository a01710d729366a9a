"""From the core's batches to what a Loader's user asked for."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.checks import function
from forebay.choosing import Chosen
from forebay.dataset import Dataset
from forebay.mixing import Mixing, check_mixing, mix, no_labels
from forebay.pytorch import load_torch
from forebay.user_functions import Occasion, UserFunction

# Fields that the core's batches have by themselves.
_OWN = ("image", "file", "label", "index")


class Assembler:
    """Makes a user's batch of one of the core.

    Args:
        dataset: Where columns come from.
        fields: Like Loader's.
        functions: The user's, for each image in turn.
        target_transform: Like Loader's.
        collate_fn: Like Loader's.
        batch_transform: Like Loader's.
        seed: What the mixing and the functions draw depends on it.
        whole: Whether images come one by one, each of its own size.
        channels_last: Whether images are to be [height, width, 3].
    """

    def __init__(
        self,
        dataset: Dataset,
        fields: Sequence[str] | Mapping[str, str],
        functions: list[UserFunction],
        target_transform: Callable[..., Any] | None,
        collate_fn: Callable[..., Any] | None,
        batch_transform: Callable[..., Any] | Mixing | None,
        *,
        seed: int,
        whole: bool,
        channels_last: bool,
    ) -> None:
        if isinstance(fields, str) or not isinstance(fields, Sequence | Mapping):
            raise ValueError(f"fields is {fields!r}, but must be a sequence or a mapping of names")
        self._fields = list(fields.values() if isinstance(fields, Mapping) else fields)
        self._names = list(fields) if isinstance(fields, Mapping) else None
        self._dataset = dataset
        for field in self._fields:
            if field not in _OWN and field not in dataset.columns:
                known = [*_OWN[:2], *dataset.columns]
                raise ValueError(f"fields: there is no {field!r}; there are {known}")
        if not self._fields:
            raise ValueError("fields is empty: a batch would have nothing")
        if functions and not self.wants("image"):
            raise ValueError(f"transform: has functions of images, but fields {self._fields} none")
        mixing = batch_transform if isinstance(batch_transform, Mixing) else None
        if mixing is not None and not (self.wants("image") and self.wants("label")):
            raise ValueError(f"batch_transform: mixes images and labels, fields are {self._fields}")
        if mixing is not None and whole and not functions:
            raise ValueError("batch_transform: images of their own sizes cannot be mixed")
        if mixing is not None and collate_fn is not None:
            raise ValueError("batch_transform: cannot mix what a collate_fn makes")
        if target_transform is not None and not self.wants("label"):
            raise ValueError(
                f"target_transform: is for labels, but fields {self._fields} have none"
            )
        if mixing is not None:
            check_mixing(mixing)
        # Whether something in Python uses the images, the mixing or the user's functions.
        self.uses_images = bool(functions or collate_fn or batch_transform)
        # Whether something in Python takes time.
        self.runs_python = self.uses_images or target_transform is not None
        self._functions = functions
        self._mixing = mixing
        if target_transform is not None and not callable(target_transform):
            raise ValueError(
                f"target_transform is {target_transform!r}, but must be a function, or a type"
            )
        self._target_transform = _user_function(target_transform, "target_transform")
        self._collate_fn = _user_function(collate_fn, "collate_fn")
        own = None if isinstance(batch_transform, Mixing) else batch_transform
        self._batch_transform = _user_function(own, "batch_transform")
        self._seed = seed
        self._whole = whole
        self._channels_last = channels_last
        self._as_tensors = load_torch() is not None

    def wants(self, field: str) -> bool:
        """Whether batches have it."""
        return field in self._fields

    def places(self, field: str) -> list[Any]:
        """Where batches have it: indexes of the tuple, or names of the dict."""
        names: Sequence[Any] = self._names or range(len(self._fields))
        return [name for name, one in zip(names, self._fields, strict=True) if one == field]

    def __call__(
        self, batch: Any, chosen: Chosen | None, stop: threading.Event | None = None
    ) -> Any:
        """The batch for the user.

        Args:
            batch: The core's.
            chosen: The samples that the batch's numbers count; None: the dataset's own.
            stop: Set when nobody waits for it any more: the functions' next image is not begun.

        Raises:
            CancelledError: It was stopped.
        """
        valid = batch.valid.view(bool)
        kept = None if valid.all() else np.flatnonzero(valid)
        samples = batch.samples if kept is None else batch.samples[kept]
        numbers = samples.astype(np.int64) if chosen is None else chosen.samples[samples]
        step = batch.step + (0 if chosen is None else chosen.steps_before)
        names = dict.fromkeys(self._fields)  # each once, in their order
        made = {name: self._value(name, batch, kept, numbers, stop) for name in names}
        drawn_for = batch.drawn_for if kept is None else batch.drawn_for[kept]
        occasion = Occasion(self._seed, batch.epoch, drawn_for, step)
        if self._collate_fn is not None:
            values = [made[field] for field in self._fields]
            if len(numbers) == 0:
                return self._named(values)
            samples = [self._named(list(sample)) for sample in zip(*values, strict=True)]
            return self._transformed(self._collate_fn(samples, occasion), occasion)
        for name, stack in (("image", _stack), ("label", _collate)):
            if isinstance(made.get(name), _Made):
                made[name] = stack(made[name])
        if self._mixing is not None:
            self._mix(made, batch.epoch, step, len(numbers))
        return self._transformed(self._named([made[field] for field in self._fields]), occasion)

    def _mix(self, made: dict[str, Any], epoch: int, step: int, count: int) -> None:
        assert self._mixing is not None
        if count == 0:
            made["label"] = self._array(no_labels(self._mixing))
            return
        if isinstance(made["label"], list):
            raise ValueError(
                "batch_transform: mixes labels, but target_transform gives "
                f"{type(made['label'][0]).__name__}; it must give whole numbers, or float32 "
                "[classes]"
            )
        made["image"], made["label"] = mix(
            self._mixing, made["image"], made["label"], seed=self._seed, epoch=epoch,
            step=step, channels_last=self._channels_last,
        )  # fmt: skip

    def _transformed(self, batch: Any, occasion: Occasion) -> Any:
        return batch if self._batch_transform is None else self._batch_transform(batch, occasion)

    def _named(self, values: list[Any]) -> Any:
        if self._names is None:
            return tuple(values)
        return dict(zip(self._names, values, strict=True))

    def _value(
        self,
        field: str,
        batch: Any,
        kept: NDArray[np.int64] | None,
        numbers: NDArray[np.int64],
        stop: threading.Event | None,
    ) -> Any:
        if field == "image":
            images = self._images(batch, kept)
            # Nobody knows what the functions would make of none.
            applies = self._functions and len(images) > 0
            if not applies:
                return images
            return self._apply(self._functions, "transform", images, batch, kept, stop)
        if field == "file":
            files = batch.files
            return files if kept is None else [files[i] for i in kept]
        if field == "label":
            labels = batch.labels if kept is None else batch.labels[kept]
            if self._target_transform is None or len(labels) == 0:
                return self._array(labels.astype(np.int64))
            own = [self._target_transform]
            return self._apply(own, "target_transform", labels.tolist(), batch, kept, stop)
        column = numbers if field == "index" else self._dataset.column(field)[numbers]
        if column.dtype.kind == "u":  # with which PyTorch does next to nothing
            column = column.astype(np.int64)
        return column.tolist() if column.dtype == object else self._array(column)

    def _images(self, batch: Any, kept: NDArray[np.int64] | None) -> Any:
        images: Any
        if self._whole:
            images = [self._whole_image(image) for image in batch.whole if image is not None]
        else:
            images = self._tensor(batch.images)
            if kept is not None:
                ragged = len(kept) == 0 or kept[-1] == len(kept) - 1  # at an epoch's end
                images = images[: len(kept)] if ragged else images[kept]
        return images

    def _apply(
        self,
        functions: list[UserFunction],
        name: str,
        values: Any,
        batch: Any,
        kept: NDArray[np.int64] | None,
        stop: threading.Event | None,
    ) -> "_Made":
        """What functions make of each of a batch's images, or labels."""
        drawn_for = batch.drawn_for if kept is None else batch.drawn_for[kept]
        made = _Made()
        for place, value in enumerate(values):
            if stop is not None and stop.is_set():
                raise CancelledError
            occasion = Occasion(self._seed, batch.epoch, drawn_for[place : place + 1])
            for own in functions:
                value = own(value, occasion)
                if value is None and name == "transform":
                    raise ValueError(f"transform: {own.own!r} returned None for an image")
            made.append(value)
        return made

    def _whole_image(self, image: NDArray[np.uint8]) -> Any:
        own = self._array(image)
        if self._channels_last:
            return own
        return own.permute(2, 0, 1) if self._as_tensors else own.transpose(2, 0, 1)

    def _tensor(self, images: Any) -> Any:
        if self._as_tensors:
            import torch

            return torch.from_dlpack(images)
        return np.from_dlpack(images)

    def _array(self, values: NDArray[Any]) -> Any:
        if self._as_tensors:
            import torch

            return torch.from_numpy(values)
        return values


class _Made(list[Any]):
    """What a user's functions made, of each image or label one."""


def _user_function(own: Callable[..., Any] | None, name: str) -> UserFunction | None:
    if own is None:
        return None
    if name != "target_transform":  # for which a type such as float will do
        function(name, own)
    return UserFunction(own, name)


def _stack(made: list[Any]) -> Any:
    """Images in one where they are arrays, as PyTorch's default_collate does; else the list."""
    if not made or not all(hasattr(one, "shape") and hasattr(one, "dtype") for one in made):
        return list(made)
    shapes = sorted({tuple(one.shape) for one in made})
    if len(shapes) > 1:
        raise ValueError(
            f"transform: its functions gave images of sizes {shapes[0]} and {shapes[1]} in one "
            "batch; make them of one size, or give a collate_fn"
        )
    return _stacked(made)


def _collate(made: list[Any]) -> Any:
    """Labels in one where they are numbers, or arrays of one shape; else the list."""
    if all(isinstance(one, int | float) for one in made):
        kinds = {type(one) for one in made}
        dtype = np.float64 if float in kinds else bool if kinds == {bool} else np.int64
        return _stacked([np.array(one, dtype) for one in made])
    shapes = {tuple(one.shape) if _is_array(one) else None for one in made}
    return list(made) if None in shapes or len(shapes) > 1 else _stacked(made)


def _is_array(one: Any) -> bool:
    """Whether it is an array, tensor or scalar of numbers."""
    is_array = hasattr(one, "shape") and hasattr(one, "dtype")
    return is_array and getattr(one.dtype, "kind", "f") in "biufc"


def _stacked(made: list[Any]) -> Any:
    torch = load_torch()
    if torch is None:
        return np.stack(made)
    return torch.stack([torch.as_tensor(one) for one in made])
