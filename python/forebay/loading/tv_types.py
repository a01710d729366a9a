"""Gives a batch's fields torchvision's types (tv_tensors), if a Loader's user asks for them.

The values stay the same, and no memory is copied. docs/targets.md says which field has which type.
"""

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.checks import flag
from forebay.pytorch import load_torch

_MODULE = "torchvision.tv_tensors"


def check_tv_tensors(wanted: Any, *, pads: bool, channels_last: bool) -> bool:
    """Checks Loader's `tv_tensors`.

    Args:
        wanted: What the user gave.
        pads: Whether targets are padded, for which torchvision has no types.
        channels_last: Whether images are [height, width, 3], for which torchvision has no type.

    Raises:
        ValueError: The types are wanted, but cannot be given.
    """
    if not flag("tv_tensors", wanted):
        return False
    if pads:
        raise ValueError(
            "tv_tensors: BoundingBoxes have one image's boxes; leave out pad_targets or tv_tensors"
        )
    if channels_last:
        raise ValueError(
            "tv_tensors: torchvision's images are [3, height, width]; leave out channels_last or "
            "tv_tensors"
        )
    if load_torch() is None or find_spec("torchvision") is None or find_spec(_MODULE) is None:
        raise ValueError(
            "tv_tensors: they need torchvision 0.16 or newer: pip install 'torchvision>=0.16'"
        )
    return True


class TvTypes:
    """Makes tv_tensors of tensors.

    Args:
        box_format: The format in which boxes are given: "XYXY", "XYWH" or "CXCYWH".
    """

    def __init__(self, box_format: str) -> None:
        from torchvision import tv_tensors

        self._types = tv_tensors
        self._box_format = box_format

    def images(self, images: Any) -> Any:
        """A batch's images, or each of a list or dict of images; other results stay."""
        torch = load_torch()
        if isinstance(images, torch.Tensor):
            return self._types.Image(images) if images.ndim > 2 else images
        if isinstance(images, list):
            return [self.images(image) for image in images]
        if isinstance(images, dict):
            return {name: self.images(image) for name, image in images.items()}
        return images

    def maps(self, maps: Any) -> Any:
        """The maps of labels of a whole batch."""
        return self._types.Mask(maps)

    def moved(self, fields: dict[str, Any], sizes: NDArray[np.int64]) -> dict[str, Any]:
        """The fields that moved with the images; each is a list with an entry for each sample.

        Args:
            fields: By name.
            sizes: (height, width) of each sample's image [samples, 2].
        """
        out = dict(fields)
        canvases: list[Any] = [tuple(size) for size in sizes.tolist()]
        for name in ("masks", "mask"):
            if name in fields:
                out[name] = [self._types.Mask(one) for one in fields[name]]
        if "boxes" in fields:
            out["boxes"] = [
                self._types.BoundingBoxes(one, format=self._box_format, canvas_size=canvas)
                for one, canvas in zip(fields["boxes"], canvases, strict=True)
            ]
        # torchvision has had KeyPoints since 0.23.
        if "keypoints" in fields and hasattr(self._types, "KeyPoints"):
            out["keypoints"] = [
                self._types.KeyPoints(one[..., :2], canvas_size=canvas)
                for one, canvas in zip(fields["keypoints"], canvases, strict=True)
            ]
        return out


def with_type_of(original: Any, made: Any) -> Any:
    """`made`, with torchvision's type of the tensor `original` that it was made from, if any.

    Most of PyTorch's functions return plain tensors for tv_tensors.
    """
    if type(made) is type(original) or not type(original).__module__.startswith(_MODULE):
        return made
    from torchvision import tv_tensors

    return tv_tensors.wrap(made, like=original)
