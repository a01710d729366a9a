"""What a Loader does to the boxes of samples at the end; forebay.transforms exports it.

Boxes, keypoints and masks move with their image through all other transforms.
"""

from dataclasses import dataclass
from typing import Any

from forebay.transforms.kinds import Transform


class OfBoxes(Transform):
    """A transform of boxes alone. It may stand anywhere, and acts after all others."""


@dataclass(frozen=True)
class SanitizeBoundingBoxes(OfBoxes):
    """Leaves out objects whose boxes are too small, together with their masks and labels.

    Args:
        min_size: The least width and height in pixels, at least 1.
        min_area: The least area in pixels, at least 1.
    """

    min_size: float = 1.0
    min_area: float = 1.0


@dataclass(frozen=True)
class ClampBoundingBoxes(OfBoxes):
    """Ends boxes at the sides of their image. Crops, paddings and warps do so anyway."""


@dataclass(frozen=True)
class ConvertBoundingBoxFormat(OfBoxes):
    """Gives boxes in another format.

    Args:
        format: "XYXY" (left, top, right, bottom), "XYWH" (left, top, width, height) or "CXCYWH"
            (the middle, width, height), or torchvision's BoundingBoxFormat.
    """

    format: Any
