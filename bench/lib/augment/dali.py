"""DALI's side of bench/augment.py: a pipeline on the CPU with one thread, and its own auto_aug.

A batch is made at once, without prefetching. Photographs are decoded only where the crop is
(decoders.image_random_crop). The flip is part of crop_mirror_normalize and so comes last, which
gives the same distribution. Differences from torchvision: the contrast of color_twist is around
middle grey, and its changes have one order; the policies sharpen up to the image's sides; erasing
is always by a colour; RandAugment of the recipe of DeiT has no mstd; channels stay in order in
detection.
"""

import io
from collections.abc import Sequence
from contextlib import redirect_stderr
from typing import Any

import numpy as np
from nvidia.dali import fn, math, pipeline_def, types
from nvidia.dali.auto_aug import rand_augment, trivial_augment

from lib.augment.side import DETECTION_SIZE, GROUP, SEED, SIZE, Made, Side, Target
from lib.photo import Photo
from lib.sides.side import MEAN, RATIO, SCALE, STD

_MEAN_BYTES = [255 * mean for mean in MEAN]
_STD_BYTES = [255 * std for std in STD]
_FILL = [123, 117, 104]  # the detection reference's


class Dali(Side):
    """Runs the recipe's pipeline."""

    def __init__(self, recipe: str) -> None:
        super().__init__(recipe)
        make = _detection if recipe == "detection" else _classification
        with redirect_stderr(io.StringIO()):  # DALI warns of what its own auto_aug does
            self.pipeline = make(
                recipe,
                batch_size=GROUP,
                num_threads=1,
                device_id=None,
                seed=SEED,
                prefetch_queue_depth=1,
                exec_async=False,
                exec_pipelined=False,
                exec_dynamic=False,
            )
            self.pipeline.build()

    def run(self, photos: Sequence[Photo]) -> Made:
        """Makes a batch."""
        feed = self.pipeline.feed_input
        feed("file", [np.frombuffer(photo.file, np.uint8) for photo in photos])
        if self.recipe != "detection":
            (images,) = self.pipeline.run()
            return Made(np.asarray(images.as_tensor()))
        sides = [np.array([photo.width, photo.height] * 2, np.float32) for photo in photos]
        feed("boxes", [t.boxes / side for t, side in zip(self.targets, sides, strict=True)])
        feed("labels", [target.labels.astype(np.int32) for target in self.targets])
        images, boxes, labels = self.pipeline.run()
        targets = [
            Target(np.asarray(boxes[i]) * DETECTION_SIZE, np.asarray(labels[i]))
            for i in range(len(photos))
        ]
        return Made(np.asarray(images.as_tensor()), targets)


@pipeline_def(enable_conditionals=True)
def _classification(recipe: str) -> Any:
    """The recipes that begin with a crop."""
    file = fn.external_source(name="file", dtype=types.UINT8, ndim=1, no_copy=True)
    images = fn.decoders.image_random_crop(
        file,
        random_area=list(SCALE),
        random_aspect_ratio=list(RATIO),
        adjust_orientation=False,
    )
    interpolation = types.INTERP_CUBIC if recipe == "deit" else types.INTERP_LINEAR
    images = fn.resize(images, size=(SIZE, SIZE), interp_type=interpolation)
    if recipe == "trivial":
        images = trivial_augment.trivial_augment_wide(images, fill_value=0)
        images = _erased(images, 0.1)
    if recipe == "randaugment":
        images = rand_augment.rand_augment(images, n=2, m=9, fill_value=0)
        images = _erased(images, 0.1)
    if recipe == "deit":
        images = rand_augment.rand_augment(images, n=2, m=9, num_magnitude_bins=11)
        images = _erased(images, 0.25)
    if recipe == "simclr":
        images = _jittered(images)
    return _normalised(images, fn.random.coin_flip(dtype=types.INT32))


def _normalised(images: Any, flip: Any) -> Any:
    return fn.crop_mirror_normalize(
        images, mirror=flip, output_layout="CHW", mean=_MEAN_BYTES, std=_STD_BYTES
    )


def _erased(images: Any, probability: float) -> Any:
    """RandomErasing by the mean, which is 0 after Normalize."""
    if fn.random.coin_flip(probability=probability, dtype=types.BOOL):
        area = fn.random.uniform(range=[0.02, 0.33])
        ratio = math.exp(fn.random.uniform(range=[np.log(0.3), np.log(3.3)]))
        height = math.min(math.sqrt(area * ratio), 1.0)
        width = math.min(math.sqrt(area / ratio), 1.0)
        top = (1 - height) * fn.random.uniform(range=[0.0, 1.0])
        left = (1 - width) * fn.random.uniform(range=[0.0, 1.0])
        images = fn.erase(
            images,
            anchor=fn.stack(top, left),
            shape=fn.stack(height, width),
            axis_names="HW",
            normalized=True,
            fill_value=_MEAN_BYTES,
        )
    return images


def _jittered(images: Any) -> Any:
    """The steps of SimCLR."""
    if fn.random.coin_flip(probability=0.8, dtype=types.BOOL):
        images = fn.color_twist(
            images,
            brightness=fn.random.uniform(range=[0.2, 1.8]),
            contrast=fn.random.uniform(range=[0.2, 1.8]),
            saturation=fn.random.uniform(range=[0.2, 1.8]),
            hue=fn.random.uniform(range=[-72.0, 72.0]),
        )
    if fn.random.coin_flip(probability=0.2, dtype=types.BOOL):
        images = fn.saturation(images, saturation=0.0)
    if fn.random.coin_flip(probability=0.5, dtype=types.BOOL):
        images = fn.gaussian_blur(images, window_size=23, sigma=fn.random.uniform(range=[0.1, 2.0]))
    return images


@pipeline_def(enable_conditionals=True)
def _detection(recipe: str) -> Any:
    """The detection reference's "ssd" recipe; boxes are shares of the sides."""
    file = fn.external_source(name="file", dtype=types.UINT8, ndim=1, no_copy=True)
    boxes = fn.external_source(name="boxes", dtype=types.FLOAT, ndim=2)
    labels = fn.external_source(name="labels", dtype=types.INT32, ndim=1)
    images = fn.decoders.image(file, adjust_orientation=False)
    images = fn.color_twist(
        images,
        brightness=_maybe(1.0, fn.random.uniform(range=[0.875, 1.125])),
        contrast=_maybe(1.0, fn.random.uniform(range=[0.5, 1.5])),
        saturation=_maybe(1.0, fn.random.uniform(range=[0.5, 1.5])),
        hue=_maybe(0.0, fn.random.uniform(range=[-18.0, 18.0])),
    )
    if fn.random.coin_flip(dtype=types.BOOL):
        place = {
            "ratio": fn.random.uniform(range=[1.0, 4.0]),
            "paste_x": fn.random.uniform(range=[0.0, 1.0]),
            "paste_y": fn.random.uniform(range=[0.0, 1.0]),
        }
        images = fn.paste(images, fill_value=_FILL, **place)
        boxes = fn.bbox_paste(boxes, ltrb=True, **place)
    anchor, shape, boxes, labels = fn.random_bbox_crop(
        boxes,
        labels,
        aspect_ratio=[0.5, 2.0],
        thresholds=[0.0, 0.1, 0.3, 0.5, 0.7, 0.9],
        scaling=[0.3, 1.0],
        bbox_layout="xyXY",
        allow_no_crop=True,
        num_attempts=40,
    )
    images = fn.slice(images, anchor, shape)
    images = fn.resize(images, size=(DETECTION_SIZE, DETECTION_SIZE))
    flip = fn.random.coin_flip(dtype=types.INT32)
    return _normalised(images, flip), fn.bb_flip(boxes, ltrb=True, horizontal=flip), labels


def _maybe(neutral: float, drawn: Any) -> Any:
    """What was drawn, half of the time."""
    return neutral + fn.random.coin_flip(dtype=types.INT32) * (drawn - neutral)
