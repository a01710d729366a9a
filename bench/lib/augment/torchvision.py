"""torchvision v2's sides of bench/augment.py, on tensors and on Pillow's images.

Both work image by image, as torchvision draws once for a call, and copy each image into the batch.
Tensors are uint8 until the end. They come from the decoder channels last, and the crop makes planes
of them; Pillow's images become planes too before they are normalised, which then takes a fifth of
the time. simplejpeg decodes for the tensors, as torchvision's own decoder is not there beside
PyTorch's CPU build (scripts/torchvision_on_cpu.py). What the recipe of DeiT needs is in timm, which
has it for Pillow's images.
"""

import io
from collections.abc import Sequence
from typing import Any

import simplejpeg
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, v2

from lib.augment.side import DETECTION_SIZE, SIZE, Made, Side, Target
from lib.photo import Photo
from lib.sides.side import MEAN, STD

_BILINEAR = InterpolationMode.BILINEAR  # the classification reference's, also in policies
_FILL = [123.0, 117.0, 104.0]  # the detection reference's


class TorchvisionTensors(Side):
    """Works on uint8 tensors."""

    def __init__(self, recipe: str) -> None:
        super().__init__(recipe)
        self.transform = _transform(recipe, [])

    def decode(self, file: bytes) -> Any:
        """The image [3, height, width], channels last."""
        return torch.from_numpy(simplejpeg.decode_jpeg(file, "RGB")).permute(2, 0, 1)

    def run(self, photos: Sequence[Photo]) -> Made:
        """Makes one image at a time."""
        targets = []
        for i, (photo, to) in enumerate(zip(photos, self.out, strict=False)):
            image = self.decode(photo.file)
            if self.recipe == "detection":
                made, target = self.transform(image, self._target(i))
                targets.append(Target(target["boxes"].numpy(), target["labels"].numpy()))
            else:
                made = self.transform(image)
            to.copy_(made)
        images = self.out[: len(photos)].numpy()
        return Made(images, targets if self.recipe == "detection" else None)

    def _target(self, i: int) -> dict[str, Any]:
        boxes = tv_tensors.BoundingBoxes(
            torch.from_numpy(self.targets[i].boxes),
            format="XYXY",
            canvas_size=(self.photos[i].height, self.photos[i].width),
        )  # type: ignore[call-overload]
        return {"boxes": boxes, "labels": torch.from_numpy(self.targets[i].labels)}


class TorchvisionPillow(TorchvisionTensors):
    """Works on Pillow's images."""

    def __init__(self, recipe: str) -> None:
        Side.__init__(self, recipe)
        planes = [v2.PILToTensor(), v2.Lambda(torch.Tensor.contiguous, torch.Tensor)]
        self.transform = _timm() if recipe == "deit" else _transform(recipe, planes)

    def decode(self, file: bytes) -> Any:
        """The image in RGB."""
        image = Image.open(io.BytesIO(file))
        return image if image.mode == "RGB" else image.convert("RGB")


def _transform(recipe: str, to_tensor: Sequence[Any]) -> Any:
    """A recipe in torchvision v2.

    Args:
        recipe: One of RECIPES but deit.
        to_tensor: Makes uint8 tensors of the images that the steps give.
    """
    end = [*to_tensor, v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD, inplace=True)]
    if recipe == "detection":
        size = (DETECTION_SIZE, DETECTION_SIZE)
        return v2.Compose(
            [
                v2.RandomPhotometricDistort(),
                v2.RandomZoomOut(fill=_FILL),
                v2.RandomIoUCrop(),
                v2.RandomHorizontalFlip(),
                v2.Resize(size, antialias=True),
                v2.SanitizeBoundingBoxes(),
                *end,
            ]
        )
    steps, last = _steps(recipe)
    crop = v2.RandomResizedCrop(SIZE, antialias=True)
    return v2.Compose([crop, v2.RandomHorizontalFlip(), *steps, *end, *last])


def _steps(recipe: str) -> tuple[list[Any], list[Any]]:
    """What stands before Normalize, and what stands after it."""
    erasing = [v2.RandomErasing(p=0.1)]
    if recipe == "trivial":
        return [v2.TrivialAugmentWide(interpolation=_BILINEAR)], erasing
    if recipe == "randaugment":
        return [v2.RandAugment(2, 9, interpolation=_BILINEAR)], erasing
    if recipe == "simclr":
        jitter = v2.RandomApply([v2.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8)
        blur = v2.RandomApply([v2.GaussianBlur(23, (0.1, 2.0))], p=0.5)
        return [jitter, v2.RandomGrayscale(p=0.2), blur], []
    assert recipe == "plain", recipe
    return [], []


def _timm() -> Any:
    """The transform of DeiT's training, as timm makes it."""
    from timm.data import auto_augment, create_transform

    def posterize(image: Any, bits: int, **more: Any) -> Any:
        if (
            bits == 0
        ):  # which timm draws now and then; Pillow 13 refuses it, earlier ones gave black
            return Image.new("RGB", image.size)
        return auto_augment.posterize(image, bits, **more)

    auto_augment.NAME_TO_OP["PosterizeIncreasing"] = posterize
    return create_transform(
        SIZE,
        is_training=True,
        auto_augment="rand-m9-mstd0.5-inc1",
        interpolation="bicubic",
        re_prob=0.25,
        re_mode="pixel",
        re_count=1,
        mean=MEAN,
        std=STD,
    )
