"""What is done to the boxes and masks of a batch after all other transforms."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.transforms.boxes import (
    ClampBoundingBoxes,
    ConvertBoundingBoxFormat,
    ConvertMasks,
    SanitizeBoundingBoxes,
)
from forebay.transforms.core.arguments import numbers_of

_FORMATS = ("XYXY", "XYWH", "CXCYWH")
_MASK_TYPES = ("uint8", "int32", "int64", "float32")


@dataclass(frozen=True)
class BoxOptions:
    """What is done to boxes and masks.

    Attributes:
        least: The least width and height, and the least area, of boxes that stay; None: all stay.
        clamps: Whether boxes are clipped to the sides of their image.
        format: The format in which boxes are given.
        mask_type: The type of masks, as NumPy names it; None: they keep theirs.
    """

    least: tuple[float, float] | None = None
    clamps: bool = False
    format: str = "XYXY"
    mask_type: str | None = None

    def clamped(self, boxes: NDArray[np.float32], sizes: NDArray[np.int64]) -> NDArray[np.float32]:
        """Boxes [objects, 4], clipped to the sides of their images if `clamps` is set.

        Args:
            boxes: XYXY in pixels.
            sizes: (height, width) of each box's image [objects, 2].
        """
        if not self.clamps:
            return boxes
        sides = sizes[:, [1, 0, 1, 0]].astype(np.float32)
        return np.clip(boxes, np.float32(0), sides)

    def stay(
        self, boxes: NDArray[np.float32], sizes: NDArray[np.int64]
    ) -> NDArray[np.bool_] | None:
        """Which boxes stay [objects], like SanitizeBoundingBoxes of torchvision; None: all."""
        if self.least is None:
            return None
        min_size, min_area = self.least
        width, height = (boxes[:, 2:] - boxes[:, :2]).T
        inside = ((boxes >= 0) & (boxes <= sizes[:, [1, 0, 1, 0]])).all(axis=1)
        return inside & (width >= min_size) & (height >= min_size) & (width * height >= min_area)

    def formatted(self, boxes: NDArray[np.float32]) -> NDArray[np.float32]:
        """XYXY boxes, converted to `format`."""
        if self.format == "XYXY":
            return boxes
        sides = boxes[:, 2:] - boxes[:, :2]
        if self.format == "XYWH":
            return np.concatenate([boxes[:, :2], sides], axis=1)
        # torchvision's order of operations, so that float32 rounds in the same way.
        middles = (boxes[:, :2] * np.float32(2) + sides) / np.float32(2)
        return np.concatenate([middles, sides], axis=1)


def box_options(transforms: Sequence[Any]) -> BoxOptions:
    """Checks the transforms of boxes, and combines them.

    Raises:
        ValueError: A transform has an invalid argument, or comes twice.
    """
    kinds = [type(one) for one in transforms]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise ValueError(f"transform: {kind.__name__} comes more than once")
    least, name, mask_type = None, "XYXY", None
    for one in transforms:
        if isinstance(one, SanitizeBoundingBoxes):
            values = [numbers_of(one, name, (1,), Real)[0] for name in ("min_size", "min_area")]
            if min(values) < 1:
                raise ValueError(
                    f"SanitizeBoundingBoxes: min_size is {one.min_size} and min_area is "
                    f"{one.min_area}, but both must be at least 1"
                )
            least = (float(values[0]), float(values[1]))
        elif isinstance(one, ConvertBoundingBoxFormat):
            name = getattr(one.format, "value", one.format)
            if not isinstance(name, str) or name.upper() not in _FORMATS:
                raise ValueError(
                    f"ConvertBoundingBoxFormat: format is {name!r}, but must be one of "
                    f"{', '.join(_FORMATS)}"
                )
            name = name.upper()
        elif isinstance(one, ConvertMasks):
            mask_type = str(one.dtype).removeprefix("torch.")
            if mask_type not in _MASK_TYPES:
                raise ValueError(
                    f"ConvertMasks: dtype is {one.dtype!r}, but must be one of "
                    f"{', '.join(_MASK_TYPES)}"
                )
    return BoxOptions(least, ClampBoundingBoxes in kinds, name, mask_type)
