"""The sides of bench/gpu.py: from batches of JPEGs in this machine's memory to pixels on a GPU.

Forebay and DALI make normalised float16 crops [images, 3, SIZE, SIZE]. nvJPEG and torchvision have
no such call and decode only: the crop's own pixels, or the whole image. Where there is no GPU, all
but nvJPEG work on the CPU, which shows that they do the same. Each library is imported only in its
side, so that a missing library is one side less.
"""

import collections
import itertools
import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from lib import comparison
from lib.photo import Photo
from lib.sides.side import MEAN, STD

SIZE = 224
THREADS = len(os.sched_getaffinity(0))
IN_FLIGHT = 2  # batches


class Side(comparison.Side):
    """Makes batches; wait() comes back when what begin() returned is done.

    Its pixels differ from the reference's by a mean difference in levels of 255: of the middle
    image and of the worst one. Peers upsample chroma, transform and resize in other ways.

    Args:
        device: A torch.device.
        batches: The photographs of each batch, as many in all.
    """

    differences_max: tuple[float, ...] = (3.0, 12.0)
    # Whether result() gives resized crops; else the crop's own pixels.
    resized = True
    turn_seconds = 2.0  # how long a turn takes

    def __init__(self, device: torch.device, batches: Sequence[Sequence[Photo]]) -> None:
        self.device, self.batches = device, batches

    def turn(self) -> float:
        """Images a second, over `turn_seconds`."""
        begun: collections.deque[Any] = collections.deque()
        images = 0
        start = time.monotonic()
        for photos in itertools.cycle(self.batches):
            begun.append(self.begin(photos))
            images += len(photos)
            if len(begun) == IN_FLIGHT:
                self.wait(begun.popleft())
            if time.monotonic() - start >= self.turn_seconds:
                break
        for last in begun:
            self.wait(last)
        return images / (time.monotonic() - start)

    def begin(self, photos: Sequence[Photo]) -> Any:
        """Begins a batch."""
        raise NotImplementedError

    def wait(self, begun: Any) -> None:
        """Waits for a batch's pixels; raises an error where an image's are missing."""
        raise NotImplementedError

    def result(self, begun: Any, photos: Sequence[Photo]) -> list[np.ndarray]:
        """Each image's pixels, uint8 [height, width, 3]."""
        raise NotImplementedError


def _pixels(batch: torch.Tensor) -> list[np.ndarray]:
    """The pixels of normalised crops, uint8 [height, width, 3] each."""
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    levels = (batch.cpu().float() * std + mean) * 255
    return list(levels.round().clamp(0, 255).byte().permute(0, 2, 3, 1).contiguous().numpy())


def _numpy(image: Any) -> np.ndarray:
    return np.ascontiguousarray(torch.as_tensor(image).cpu().numpy())


class Forebay(Side):
    """Calls a forebay.BatchDecoder with packed files."""

    differences_max = (0.0, 0.0)

    def __init__(self, device: torch.device, batches: Sequence[Sequence[Photo]]) -> None:
        super().__init__(device, batches)
        self.decoder = self._decoder(None if device.type == "cpu" else device)

    def _decoder(self, device: Any) -> Any:
        import forebay
        from forebay import transforms as T

        own = [T.RandomResizedCrop(SIZE), T.Normalize(MEAN, STD)]
        return forebay.BatchDecoder(own, device=device, dtype="float16", threads=THREADS)

    def begin(self, photos: Sequence[Photo]) -> Any:
        """Begins a batch after the current stream's work so far."""
        boxes = np.array([photo.box for photo in photos])
        return self.decoder([photo.packed for photo in photos], boxes=boxes)

    def wait(self, begun: Any) -> None:
        """Waits and looks for bad files, like every loop must."""
        if errors := begun.errors():
            raise RuntimeError(f"forebay: {errors}")

    def result(self, begun: Any, photos: Sequence[Photo]) -> list[np.ndarray]:
        """Returns the crops."""
        return _pixels(begun.images)


class ForebayCpu(Forebay):
    """The same by the CPU, in this machine's memory: what the others are compared with."""

    def __init__(self, device: torch.device, batches: Sequence[Sequence[Photo]]) -> None:
        super().__init__(torch.device("cpu"), batches)


class Dali(Side):
    """Runs decoders.image_slice, resize and crop_mirror_normalize on the originals.

    Its pipeline takes the batches in their order, ahead of whoever waits for them.
    """

    def __init__(self, device: torch.device, batches: Sequence[Sequence[Photo]]) -> None:
        super().__init__(device, batches)
        from nvidia import dali

        self.gpu = device.type == "cuda"
        number = (device.index or 0) if self.gpu else None
        self.pipeline = dali.Pipeline(len(batches[0]), THREADS, number)
        with self.pipeline:
            self.pipeline.set_outputs(self._graph())
        self.pipeline.build()
        self.outputs: Any = None

    def _inputs(self) -> Any:
        """The pipeline's inputs: the files and boxes of each batch, again and again."""
        from nvidia.dali import fn

        batches = [
            (
                [np.frombuffer(photo.file, np.uint8) for photo in photos],
                np.array([(photo.box[1], photo.box[0]) for photo in photos], np.int32),
                np.array([(photo.box[3], photo.box[2]) for photo in photos], np.int32),
            )
            for photos in self.batches
        ]
        return fn.external_source(batches, num_outputs=3, cycle="quiet", no_copy=True)

    def _graph(self) -> Any:
        from nvidia.dali import fn, types

        files, begins, shapes = self._inputs()
        pixels = fn.decoders.image_slice(
            files, begins, shapes, device="mixed" if self.gpu else "cpu", axes=(0, 1),
            normalized_anchor=False, normalized_shape=False, adjust_orientation=False,
        )  # fmt: skip
        pixels = fn.resize(pixels, size=(SIZE, SIZE), antialias=True)
        return fn.crop_mirror_normalize(
            pixels, output_layout="CHW", dtype=types.FLOAT16,
            mean=[255 * mean for mean in MEAN], std=[255 * std for std in STD],
        )  # fmt: skip

    def begin(self, photos: Sequence[Photo]) -> Any:
        """Does nothing, because the pipeline runs ahead."""

    def wait(self, begun: Any) -> None:
        """Waits for the pipeline's next batch."""
        (self.outputs,) = self.pipeline.run()

    def result(self, begun: Any, photos: Sequence[Photo]) -> list[np.ndarray]:
        """The crops of the batch that was waited for last."""
        crops = self.outputs.as_cpu() if self.gpu else self.outputs
        return _pixels(torch.from_numpy(np.array(crops.as_array())))


class _Begun(NamedTuple):
    """The images, and the event that follows them in the stream."""

    images: Any
    event: Any


class _Decoder(Side):
    """A side that decodes only, on the current stream."""

    resized = False

    def decode(self, photos: Sequence[Photo]) -> Any:
        """Begins a list of images."""
        raise NotImplementedError

    def begin(self, photos: Sequence[Photo]) -> Any:
        """Begins decoding; returns the images and an event after them."""
        images = self.decode(photos)
        gpu = self.device.type == "cuda"
        return _Begun(images, torch.cuda.current_stream().record_event() if gpu else None)

    def wait(self, begun: Any) -> None:
        """Waits; raises an error if an image could not be decoded."""
        if begun.event is not None:
            begun.event.synchronize()
        if missing := sum(image is None for image in begun.images):
            raise RuntimeError(f"{missing} of {len(begun.images)} images were not decoded")


class NvJpeg(_Decoder):
    """Runs nvImageCodec's decoder with one of nvJPEG's backends, on each original's region."""

    kind = "HYBRID_CPU_GPU"

    def __init__(self, device: torch.device, batches: Sequence[Sequence[Photo]]) -> None:
        super().__init__(device, batches)
        from nvidia import nvimgcodec

        if device.type != "cuda":
            raise RuntimeError("nvImageCodec needs a GPU")
        self.codec = nvimgcodec
        self.decoder = nvimgcodec.Decoder(
            device_id=device.index or 0, max_num_cpu_threads=THREADS, backends=self._backends()
        )

    def _backends(self) -> Any:
        return [self.codec.Backend(getattr(self.codec.BackendKind, self.kind))]

    def _stream(self, photo: Photo) -> Any:
        x, y, width, height = photo.box
        region = self.codec.Region(y, x, y + height, x + width)
        return self.codec.CodeStream(photo.file).get_sub_code_stream(region=region)

    def decode(self, photos: Sequence[Photo]) -> Any:
        """Begins a list of images, which has None where it could not decode."""
        params = self.codec.DecodeParams(apply_exif_orientation=False)
        return self.decoder.decode([self._stream(photo) for photo in photos], params=params)

    def result(self, begun: Any, photos: Sequence[Photo]) -> list[np.ndarray]:
        """The crops' own pixels."""
        return [_numpy(torch.from_dlpack(image.to_dlpack())) for image in begun.images]


class NvJpegHardware(NvJpeg):
    """Decodes by the hardware's engines alone."""

    kind = "HW_GPU_ONLY"


class NvJpegBoth(NvJpeg):
    """Decodes by all backends, between which the library shares the work."""

    def _backends(self) -> Any:
        kinds = self.codec.BackendKind
        policy = self.codec.LoadHintPolicy.ADAPTIVE_MINIMIZE_IDLE_TIME
        return [
            self.codec.Backend(kinds.HW_GPU_ONLY, 0.7, policy),
            self.codec.Backend(kinds.GPU_ONLY),
            self.codec.Backend(kinds.HYBRID_CPU_GPU),
        ]


class Torchvision(_Decoder):
    """Calls decode_jpeg with a list; the crops are views of whole images."""

    def __init__(self, device: torch.device, batches: Sequence[Sequence[Photo]]) -> None:
        super().__init__(device, batches)
        self.files = {
            id(photo): torch.frombuffer(bytearray(photo.file), dtype=torch.uint8)
            for photos in batches
            for photo in photos
        }

    def decode(self, photos: Sequence[Photo]) -> Any:
        """Begins a list of images from tensors that were made before."""
        from torchvision.io import ImageReadMode, decode_jpeg

        files = [self.files[id(photo)] for photo in photos]
        return decode_jpeg(files, mode=ImageReadMode.RGB, device=self.device)

    def result(self, begun: Any, photos: Sequence[Photo]) -> list[np.ndarray]:
        """The crops' own pixels."""
        made = []
        for image, photo in zip(begun.images, photos, strict=True):
            x, y, width, height = photo.box
            made.append(_numpy(image[:, y : y + height, x : x + width].permute(1, 2, 0)))
        return made


CROPS: dict[str, type[Side]] = {
    "forebay": Forebay,
    "dali": Dali,
    "nvjpeg_hybrid": NvJpeg,
    "nvjpeg_hardware": NvJpegHardware,
    "nvjpeg_both": NvJpegBoth,
    "torchvision": Torchvision,
}


class ForebayWhole(Side):
    """Calls forebay.decode."""

    resized = False
    differences_max = (0.0, 0.0)

    def begin(self, photos: Sequence[Photo]) -> Any:
        """Decodes a batch, and waits for it."""
        import forebay

        device = self.device if self.device.type == "cuda" else None
        return forebay.decode([photo.packed for photo in photos], threads=THREADS, device=device)

    def wait(self, begun: Any) -> None:
        """Does nothing, because begin() has waited."""

    def result(self, begun: Any, photos: Sequence[Photo]) -> list[np.ndarray]:
        """Returns the whole images."""
        return [_numpy(image) for image in begun]


class DaliWhole(Dali):
    """Runs decoders.image."""

    resized = False

    def _graph(self) -> Any:
        from nvidia.dali import fn

        files, _, _ = self._inputs()
        return fn.decoders.image(
            files, device="mixed" if self.gpu else "cpu", adjust_orientation=False
        )

    def result(self, begun: Any, photos: Sequence[Photo]) -> list[np.ndarray]:
        """Returns the whole images of the batch that was waited for last."""
        images = self.outputs.as_cpu() if self.gpu else self.outputs
        return [np.array(images.at(i)) for i in range(len(photos))]


class _Whole:
    """Makes a peer decode whole images instead of regions."""

    def _stream(self, photo: Photo) -> Any:
        return self.codec.CodeStream(photo.file)  # type: ignore[attr-defined]


class NvJpegWhole(_Whole, NvJpeg):
    """The whole image."""


class NvJpegHardwareWhole(_Whole, NvJpegHardware):
    """The whole image."""


class NvJpegBothWhole(_Whole, NvJpegBoth):
    """The whole image."""


class TorchvisionWhole(Torchvision):
    """The whole image."""

    def result(self, begun: Any, photos: Sequence[Photo]) -> list[np.ndarray]:
        """Returns the whole images."""
        return [_numpy(image.permute(1, 2, 0)) for image in begun.images]


WHOLE: dict[str, type[Side]] = {
    "forebay": ForebayWhole,
    "dali": DaliWhole,
    "nvjpeg_hybrid": NvJpegWhole,
    "nvjpeg_hardware": NvJpegHardwareWhole,
    "nvjpeg_both": NvJpegBothWhole,
    "torchvision": TorchvisionWhole,
}
