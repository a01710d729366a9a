"""Transforms of boxes and masks, which a Loader applies last; forebay.transforms exports them.

Boxes, keypoints and masks move with their image through all other transforms.
"""

from dataclasses import dataclass
from typing import Any

from forebay.transforms.kinds import Transform


class OfBoxes(Transform):
    """A transform of boxes or masks alone. It may stand anywhere, and acts after all others."""


@dataclass(frozen=True)
class SanitizeBoundingBoxes(OfBoxes):
    """Removes objects with boxes that are too small or reach outside the image.

    Their masks, labels and other values go with them.

    Args:
        min_size: The least width and height in pixels, at least 1.
        min_area: The least area in pixels, at least 1.
    """

    min_size: float = 1.0
    min_area: float = 1.0


@dataclass(frozen=True)
class ClampBoundingBoxes(OfBoxes):
    """Clips boxes to the sides of their image. Crops, paddings and warps do so anyway."""


@dataclass(frozen=True)
class ConvertBoundingBoxFormat(OfBoxes):
    """Converts boxes to another format.

    Args:
        format: "XYXY" (left, top, right, bottom), "XYWH" (left, top, width, height) or "CXCYWH"
            (centre, width, height), or torchvision's BoundingBoxFormat.
    """

    format: Any


@dataclass(frozen=True)
class ConvertMasks(OfBoxes):
    """Converts maps of labels and masks of objects, like ToDtype({tv_tensors.Mask: dtype}).

    Args:
        dtype: "uint8", "int32", "int64" or "float32", or PyTorch's type. torch.int64 is what
            cross_entropy takes.
    """

    dtype: Any
