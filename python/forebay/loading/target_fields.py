"""Makes the target fields of a batch, which moved with its images: boxes, labels and others."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.data.annotations import OF_ANNOTATIONS, Annotations
from forebay.loading.prefetch import BatchError
from forebay.transforms.core.boxes import BoxOptions

Arrays = list[NDArray[Any]]
# The shape (without the samples) and the type of padded fields of a batch without samples.
_NO_OBJECTS: dict[str, tuple[tuple[int, ...], Any]] = {
    "boxes": ((0, 4), np.float32),
    "labels": ((0,), np.int64),
    "area": ((0,), np.float32),
    "iscrowd": ((0,), np.int64),
    "keypoints": ((0, 0, 3), np.float32),
    "visibility": ((0, 0), np.int64),
    "masks": ((0, 0, 0), np.uint8),
}


class TargetFields:
    """Makes the fields of batches from the annotations of a dataset.

    Args:
        objects: The dataset's annotations.
        boxes: What is done to boxes after all other transforms.
        pads: Whether each field becomes one array for all samples, as long as the sample with the
            most objects needs: boxes, keypoints and masks are then filled with 0, labels with -1.
    """

    def __init__(self, objects: Annotations, boxes: BoxOptions, *, pads: bool) -> None:
        self._objects = objects
        self._boxes = boxes
        self._pads = pads

    @property
    def mask_type(self) -> str:
        """The type of maps of labels in a batch without samples."""
        return self._boxes.mask_type or "uint8"

    def values(
        self, wanted: set[str], batch: Any, kept: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> dict[str, Any]:
        """The fields by name: an array for each sample, or with `pads` one for all.

        Args:
            wanted: The fields.
            batch: The core's batch.
            kept: The indexes of the batch's valid samples.
            sizes: (height, width) of each of these samples [samples, 2].
        """
        firsts, counts, pixels = (column[kept] for column in batch.objects)
        places = np.repeat(np.arange(len(kept)), counts)
        inside = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        numbers = np.repeat(firsts, counts) + inside
        boxes = self._boxes.clamped(batch.boxes, sizes[places])
        stay = self._boxes.stay(boxes, sizes[places])
        rows = np.arange(len(places)) if stay is None else np.flatnonzero(stay)
        ends = np.cumsum(np.bincount(places[rows], minlength=len(kept)))[:-1]

        def divided(values: NDArray[Any]) -> Arrays:
            return np.split(values, ends) if len(kept) > 0 else []

        out: dict[str, Any] = {}
        every = "target" in wanted
        if every or "boxes" in wanted:
            out["boxes"] = divided(self._boxes.formatted(boxes[rows]))
        for name, column in self._objects.columns.items():
            if every or name in wanted:
                values = column[numbers[rows]]
                if name == "area" and self._objects.are_fractions:
                    values = (values * pixels[places[rows]]).astype(np.float32)
                out[name] = divided(values)
        if self._objects.keypoints is not None and (every or "keypoints" in wanted):
            out["keypoints"] = divided(self._keypoints(batch)[rows])
        if self._objects.keypoints is not None and (every or "visibility" in wanted):
            out["visibility"] = divided(self._keypoints(batch)[rows, :, 2].astype(np.int64))
        if self._objects.outlines is not None and (every or "masks" in wanted):
            masks = batch.masks
            own = divided(inside[rows])
            found = [masks[place][some] for place, some in zip(kept, own, strict=True)]
            out["masks"] = [self._typed(one) for one in found]
        if self._pads:
            out = {name: _padded(name, values, len(kept)) for name, values in out.items()}
            if "masks" in out:
                out["masks"] = self._typed(out["masks"])
        return out | self._of_samples(wanted, batch, kept)

    def _of_samples(self, wanted: set[str], batch: Any, kept: NDArray[np.int64]) -> dict[str, Any]:
        """The fields with one value for each sample."""
        out: dict[str, Any] = {}
        every = "target" in wanted
        samples = batch.samples[kept].astype(np.int64)
        if self._objects.image_ids is not None and (every or "image_id" in wanted):
            out["image_id"] = self._objects.image_ids[samples]
        if self._objects.captions is not None and (every or "captions" in wanted):
            out["captions"] = [self._objects.captions[sample] for sample in samples]
        if self._objects.maps is not None and (every or "mask" in wanted):
            maps = batch.maps
            own = [maps[place] for place in kept]
            # PyTorch has hardly any operations for uint16.
            out["mask"] = [
                self._typed(one.astype(np.int32) if one.dtype == np.uint16 else one) for one in own
            ]
        return out

    def _typed(self, masks: NDArray[Any]) -> NDArray[Any]:
        wanted = self._boxes.mask_type
        return masks if wanted is None else masks.astype(wanted, copy=False)

    def _keypoints(self, batch: Any) -> NDArray[np.float32]:
        """x, y and visibility of all objects, float32 [objects, points, 3]."""
        assert self._objects.keypoints is not None
        found: NDArray[np.float32] = batch.points.reshape(-1, self._objects.keypoints.shape[1], 3)
        return found


def _padded(name: str, values: Arrays, count: int) -> NDArray[Any]:
    """One array for all samples [samples, most objects, ...]."""
    if count == 0:
        return np.zeros((0, *_NO_OBJECTS[name][0]), _NO_OBJECTS[name][1])
    shapes = {value.shape[1:] for value in values}
    if len(shapes) > 1:
        raise BatchError(
            f"pad_targets: {name} have the sizes {sorted(shapes)} in one batch; give a transform "
            "that brings all images to one size"
        )
    most = max(len(value) for value in values)
    fill = -1 if name == "labels" else 0
    out = np.full((len(values), most, *shapes.pop()), fill, values[0].dtype)
    for row, value in zip(out, values, strict=True):
        row[: len(value)] = value
    return out


def of_each(fields: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """A dict for each sample, like the targets that torchvision's detection models take.

    Args:
        fields: By name, each with a value for each sample.
        count: How many samples there are.
    """
    names = [name for name in (*OF_ANNOTATIONS, "image_id", "mask", "captions") if name in fields]
    return [{name: fields[name][i] for name in names} for i in range(count)]
