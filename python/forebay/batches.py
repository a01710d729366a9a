"""From the core's batches to what a Loader's user asked for."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.checks import function
from forebay.dataset import Dataset
from forebay.mixing import Mixing, check_mixing, mix, no_labels
from forebay.pytorch import load_torch

# Fields that the core's batches have by themselves.
_OWN = ("image", "file", "label", "index")


class Assembler:
    """Makes a user's batch of one of the core.

    Args:
        dataset: Where columns come from.
        fields: As Loader's.
        functions: The user's, for each image in turn.
        collate_fn: As Loader's.
        batch_transform: As Loader's.
        seed: Of what the mixing draws.
        whole: Whether images come one by one, each of its own size.
        channels_last: Whether images are to be [height, width, 3].
    """

    def __init__(
        self,
        dataset: Dataset,
        fields: Sequence[str] | Mapping[str, str],
        functions: list[Callable[[Any], Any]],
        collate_fn: Callable[[list[Any]], Any] | None,
        batch_transform: Callable[[Any], Any] | Mixing | None,
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
        if mixing is not None:
            check_mixing(mixing)
        elif batch_transform is not None:
            function("batch_transform", batch_transform)
        if collate_fn is not None:
            function("collate_fn", collate_fn)
        # Whether something in Python takes time, the mixing or the user's functions.
        self.runs_python = bool(functions or collate_fn or batch_transform)
        self._functions = functions
        self._batch_transform = batch_transform
        self._seed = seed
        self._collate_fn = collate_fn
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
        self, batch: Any, chosen: NDArray[np.int64] | None, stop: threading.Event | None = None
    ) -> Any:
        """The batch for the user.

        Args:
            batch: The core's.
            chosen: The dataset's numbers, by those of the batch; None: they are the same.
            stop: Set when nobody waits for it any more: the functions' next image is not begun.

        Raises:
            CancelledError: It was stopped.
        """
        valid = batch.valid.view(bool)
        kept = None if valid.all() else np.flatnonzero(valid)
        samples = batch.samples if kept is None else batch.samples[kept]
        numbers = samples.astype(np.int64) if chosen is None else chosen[samples]
        names = dict.fromkeys(self._fields)  # each once, in their order
        made = {name: self._value(name, batch, kept, numbers, stop) for name in names}
        if self._collate_fn is not None:
            values = [made[field] for field in self._fields]
            if len(numbers) == 0:
                return self._named(values)
            samples = zip(*values, strict=True)
            collated = self._collate_fn([self._named(list(sample)) for sample in samples])
            return self._transformed(collated)
        made = {name: _stack(v) if isinstance(v, _Made) else v for name, v in made.items()}
        if isinstance(self._batch_transform, Mixing) and len(numbers) > 0:
            made["image"], made["label"] = mix(
                self._batch_transform, made["image"], made["label"], seed=self._seed,
                epoch=batch.epoch, step=batch.step, channels_last=self._channels_last,
            )  # fmt: skip
        elif isinstance(self._batch_transform, Mixing):
            made["label"] = self._array(no_labels(self._batch_transform))
        return self._transformed(self._named([made[field] for field in self._fields]))

    def _transformed(self, batch: Any) -> Any:
        if self._batch_transform is None or isinstance(self._batch_transform, Mixing):
            return batch
        return self._batch_transform(batch)

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
            return _Made(self._apply(images, stop)) if applies else images
        if field == "file":
            files = batch.files
            return files if kept is None else [files[i] for i in kept]
        if field == "label":
            labels = batch.labels if kept is None else batch.labels[kept]
            return self._array(labels.astype(np.int64))
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

    def _apply(self, images: Any, stop: threading.Event | None) -> Iterator[Any]:
        for image in images:
            if stop is not None and stop.is_set():
                raise CancelledError
            for own in self._functions:
                image = own(image)
                if image is None:
                    raise ValueError(f"transform: {own!r} returned None for an image")
            yield image

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
    """What a user's functions made of the images."""


def _stack(made: list[Any]) -> Any:
    """In one where they are arrays, as PyTorch's default_collate does; else the list."""
    if not made or not all(hasattr(one, "shape") and hasattr(one, "dtype") for one in made):
        return list(made)
    shapes = sorted({tuple(one.shape) for one in made})
    if len(shapes) > 1:
        raise ValueError(
            f"transform: its functions gave images of sizes {shapes[0]} and {shapes[1]} in one "
            "batch; make them of one size, or give a collate_fn"
        )
    torch = load_torch()
    if torch is None:
        return np.stack(made)
    return torch.stack([torch.as_tensor(one) for one in made])
