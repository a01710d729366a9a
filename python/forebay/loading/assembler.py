"""Turns the core's batches into the batches that a Loader's user asked for."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.loading.options import Options
from forebay.loading.target_fields import TargetFields, of_each
from forebay.loading.tv_types import TvTypes
from forebay.pytorch import load_torch
from forebay.transforms.mixing import mix, no_labels
from forebay.transforms.user_functions import DrawContext, UserFunction, name_of


class Assembler:
    """Makes a user's batch from one of the core's.

    Args:
        options: A Loader's.
    """

    def __init__(self, options: Options) -> None:
        self._dataset = options.dataset
        self._fields = options.fields
        # The fields that are images, with the core's numbers of them.
        self._images_of = {name: number for number, name in enumerate(options.image_fields)}
        self._names = options.names
        # Whether making a batch takes time in Python.
        self.runs_python = options.runs_python
        self._functions = options.functions
        self._target_transform = options.target
        self._collate_fn = options.collate
        self._batch_transform = options.batch
        self._mixing = options.mixing
        self._seed = options.seed
        self._whole = options.has_own_sizes  # images come one by one
        self._made = options.recipe is not None
        self._target_fields = options.target_fields
        self._targets: TargetFields | None = None
        if self._target_fields:
            assert options.recipe is not None and options.dataset.objects is not None
            self._targets = TargetFields(
                options.dataset.objects, options.recipe.boxes, pads=options.pad_targets
            )
        self._types: TvTypes | None = None
        if options.tv_tensors:
            recipe = options.recipe
            self._types = TvTypes("XYXY" if recipe is None else recipe.boxes.format)
        self._channels_last = options.channels_last
        self._as_tensors = load_torch() is not None

    def __call__(self, batch: Any, steps_before: int, stop: threading.Event | None = None) -> Any:
        """The batch for the user.

        Args:
            batch: The core's.
            steps_before: How many of the epoch's batches came before the core's first.
            stop: Set when nobody waits for the batch any more; then no further image is begun.

        Raises:
            CancelledError: `stop` was set.
        """
        valid = batch.valid.view(bool)
        kept = None if valid.all() else np.flatnonzero(valid)
        samples = batch.samples if kept is None else batch.samples[kept]
        numbers = samples.astype(np.int64)
        step = batch.step + steps_before
        names = dict.fromkeys(self._fields)  # each once, in their order
        moved = self._moved(batch, kept)
        made = {
            name: moved[name] if name in moved else self._value(name, batch, kept, numbers, stop)
            for name in names
        }
        drawn_for = batch.drawn_for if kept is None else batch.drawn_for[kept]
        context = DrawContext(self._seed, batch.epoch, drawn_for, step)
        if self._collate_fn is not None:
            self._set_image_types(made)
            values = [made[field] for field in self._fields]
            if len(numbers) == 0:
                return self._named(values)
            samples = [self._named(list(sample)) for sample in zip(*values, strict=True)]
            return self._transformed(self._collate_fn(samples, context), context)
        for name, value in made.items():
            if isinstance(value, _Made):
                made[name] = _stack(value) if name in self._images_of else _collate(value)
        if self._mixing is not None:
            self._mix(made, batch.epoch, step, len(numbers))
        self._set_image_types(made)
        return self._transformed(self._named([made[field] for field in self._fields]), context)

    def _set_image_types(self, made: dict[str, Any]) -> None:
        """Gives the images torchvision's type, if the user wants it."""
        if self._types is not None:
            for name in self._images_of:
                made[name] = self._types.images(made[name])

    def _mix(self, made: dict[str, Any], epoch: int, step: int, count: int) -> None:
        assert self._mixing is not None
        if count == 0:
            given = self._dataset.given_labels
            if given is None or given.is_class:
                made["label"] = self._array(no_labels(self._mixing))
            return
        if isinstance(made["label"], list):
            raise ValueError(
                "batch_transform: it mixes labels, but target_transform gives "
                f"{type(made['label'][0]).__name__}; it must give whole numbers, or float32 "
                "[classes]"
            )
        labels, shapes = made["label"], {_shape(made[name]) for name in self._images_of}
        if len(shapes) > 1:
            raise ValueError(
                f"batch_transform: it mixes all images of a sample alike, but they have the shapes "
                f"{sorted(shapes)}"
            )
        if () in shapes:
            raise ValueError(
                "batch_transform: it mixes images, but transform's functions give several views of "
                "each; mix each view in a function of yours with forebay.mixing.mix"
            )
        for name in self._images_of:
            made[name], made["label"] = mix(
                self._mixing, made[name], labels, seed=self._seed, epoch=epoch,
                step=step, channels_last=self._channels_last,
            )  # fmt: skip

    def _transformed(self, batch: Any, context: DrawContext) -> Any:
        return batch if self._batch_transform is None else self._batch_transform(batch, context)

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
        if field in self._images_of:
            images = self._images(batch, kept, self._images_of[field])
            # Without images the functions are not called, and what they would give is not known.
            applies = self._functions and len(images) > 0
            if not applies:
                return images
            return self._apply(self._functions, "transform", images, batch, kept, stop)
        if field == "file":
            files = batch.files
            return files if kept is None else [files[i] for i in kept]
        if field == "label":
            return self._labels(batch, kept, numbers, stop)
        column = numbers if field == "index" else self._dataset.column(field)[numbers]
        if column.dtype.kind == "u":  # PyTorch has hardly any operations for unsigned types
            column = column.astype(np.int64)
        return column.tolist() if column.dtype == object else self._array(column)

    def _labels(
        self,
        batch: Any,
        kept: NDArray[np.int64] | None,
        numbers: NDArray[np.int64],
        stop: threading.Event | None,
    ) -> Any:
        """The labels: those that the user gave for the samples, else the files' class numbers."""
        given = self._dataset.given_labels
        if given is not None:
            labels = given.values[numbers]
        else:
            labels = (batch.labels if kept is None else batch.labels[kept]).astype(np.int64)
        if self._target_transform is None or len(labels) == 0:
            return self._array(labels)
        each = labels.tolist() if labels.ndim == 1 else [self._array(one) for one in labels]
        return self._apply([self._target_transform], "target_transform", each, batch, kept, stop)

    def _moved(self, batch: Any, kept: NDArray[np.int64] | None) -> dict[str, Any]:
        """The fields that moved with the images, as tensors."""
        if self._targets is None:
            return {}
        places = np.arange(len(batch.samples)) if kept is None else kept
        if self._whole:
            shapes = [batch.whole_sizes[place] for place in places]
            sizes = np.array(shapes, np.int64).reshape(-1, 2)
        else:
            sizes = np.tile(np.array(batch.image_size, np.int64), (len(places), 1))
        values = self._targets.values(self._target_fields, batch, places, sizes)
        out = {name: self._tensors(value) for name, value in values.items()}
        if self._types is not None:
            out = self._types.moved(out, sizes)
        if "target" in self._target_fields:
            out["target"] = self._targets_of(out, len(places))
        if not self._whole and "mask" in self._target_fields:
            none = self._array(np.zeros((0, *batch.image_size), self._targets.mask_type))
            out["mask"] = _stacked(out["mask"]) if out["mask"] else none
            if self._types is not None:
                out["mask"] = self._types.maps(out["mask"])
        return {name: out[name] for name in self._target_fields if name in out}

    def _targets_of(self, fields: dict[str, Any], count: int) -> list[dict[str, Any]]:
        """The field "target"; with torchvision's types an image_id is an int, like there."""
        if self._types is not None and "image_id" in fields:
            fields = {**fields, "image_id": fields["image_id"].tolist()}
        return of_each(fields, count)

    def _tensors(self, value: Any) -> Any:
        """An array, or each array of a list, as a tensor; anything else as it is."""
        if isinstance(value, list):
            return [self._tensors(one) for one in value]
        return self._array(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value

    def _images(self, batch: Any, kept: NDArray[np.int64] | None, number: int) -> Any:
        """All samples' images of one number: 0 is a sample's own image, others are further ones."""
        images: Any
        if self._whole:
            images = [
                self._whole_image(image) for image in batch.whole(number) if image is not None
            ]
        else:
            images = self._tensor(batch.images(number))
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
        """Returns what the functions make of each image, or label, of a batch."""
        drawn_for = batch.drawn_for if kept is None else batch.drawn_for[kept]
        made = _Made()
        for place, value in enumerate(values):
            if stop is not None and stop.is_set():
                raise CancelledError
            context = DrawContext(self._seed, batch.epoch, drawn_for[place : place + 1])
            for own in functions:
                value = own(value, context)
                if value is None and name == "transform":
                    raise TypeError(
                        f"transform: {name_of(own.own)} returned None for an image, where "
                        "DataLoader's default_collate raises TypeError too; return the image"
                    )
            made.append(value)
        return made

    def _whole_image(self, image: Any) -> Any:
        own = self._tensor(image)
        if self._made:  # in the batch's layout
            return own
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
    """What a user's functions made: one value for each image or label."""


def _stack(made: list[Any]) -> Any:
    """What the functions made of all images of a batch, collated like DataLoader does it.

    Images become one array; several views of each image become a list of such arrays. Objects that
    DataLoader does not know stay a list.
    """
    are_arrays = [hasattr(one, "shape") and hasattr(one, "dtype") for one in made]
    kinds = Mapping | Sequence | Number
    if any(
        isinstance(one, kinds)
        for one, is_array in zip(made, are_arrays, strict=True)
        if not is_array
    ):
        return collate(list(made))
    if not made or not all(are_arrays):
        return list(made)
    shapes = sorted({tuple(one.shape) for one in made})
    if len(shapes) > 1:
        raise ValueError(
            f"transform: its functions gave images of sizes {shapes[0]} and {shapes[1]} in one "
            "batch; make them of one size, or give a collate_fn"
        )
    return _stacked(made)


def _collate(made: list[Any]) -> Any:
    """One array of all labels if they are numbers or arrays of one shape; else the list."""
    if all(isinstance(one, int | float) for one in made):
        kinds = {type(one) for one in made}
        dtype = np.float64 if float in kinds else bool if kinds == {bool} else np.int64
        return _stacked([np.array(one, dtype) for one in made])
    shapes = {tuple(one.shape) if _is_array(one) else None for one in made}
    return list(made) if None in shapes or len(shapes) > 1 else _stacked(made)


def collate(values: list[Any]) -> Any:
    """PyTorch's default_collate; without PyTorch the same with NumPy arrays."""
    torch = load_torch()
    if torch is not None:
        return torch.utils.data.default_collate(values)
    first = values[0]
    if isinstance(first, np.ndarray | np.generic | Number):
        return np.stack([np.asarray(one) for one in values])
    if isinstance(first, str | bytes):
        return values
    if isinstance(first, Mapping):
        return {name: collate([one[name] for one in values]) for name in first}
    if isinstance(first, Sequence):
        if len({len(one) for one in values}) > 1:
            raise RuntimeError("each element in list of batch should be of equal size")
        return [collate(list(views)) for views in zip(*values, strict=True)]
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{type(first)}"
    )


def _shape(images: Any) -> tuple[int, ...]:
    """The shape of a batch's images; () if they are a list."""
    return tuple(getattr(images, "shape", ()))


def _is_array(one: Any) -> bool:
    """Whether a value is an array, tensor or scalar of numbers."""
    is_array = hasattr(one, "shape") and hasattr(one, "dtype")
    return is_array and getattr(one.dtype, "kind", "f") in "biufc"


def _stacked(made: list[Any]) -> Any:
    torch = load_torch()
    if torch is None:
        return np.stack(made)
    return torch.stack([torch.as_tensor(one) for one in made])
