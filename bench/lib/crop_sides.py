"""The sides of bench/crop.py: photographs' crops as normalised float32 NCHW tensors.

Each peer works like a program that its users would write by hand for one thread: with its own
decoder and resize, the fastest of its calls that give these pixels, and buffers that are kept where
the library allows it. No peer shrinks images while decoding (OpenCV's IMREAD_REDUCED, Pillow's
draft, TurboLoader's scaled decoding), as that gives other pixels.
"""

import ctypes
import io
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lib import comparison
from lib.photo import Photo
from lib.sides.side import MEAN, STD

SIZE = 224
GROUP = 32  # photographs that are timed together: DALI's batch
# A byte times SCALE plus OFFSET is normalised.
SCALE = 1 / (255 * np.array(STD))
OFFSET = -np.array(MEAN) / np.array(STD)


class Side(comparison.Side):
    """One way to make the crops of at most GROUP photographs.

    Its differences from Forebay's results are the mean absolute difference over all photographs and
    the largest one of a photograph. A grey level is 0.017; a crop one pixel off differs by 0.12,
    and one that is flipped by mistake by 0.9.
    """

    differences_max: tuple[float, ...] = (0.06, 0.35)

    def __init__(self) -> None:
        # The room begins at a multiple of 64 bytes, like a batch.
        room = np.zeros(GROUP * 3 * SIZE * SIZE + 16, np.float32)
        first = -room.ctypes.data % 64 // 4
        self.out = room[first : first + room.size - 16].reshape(GROUP, 3, SIZE, SIZE)

    def begin(self, photos: Sequence[Photo], is_quiet: Callable[[], bool]) -> None:
        """Begins a group of photographs.

        Args:
            photos: At most GROUP.
            is_quiet: Whether nobody else has used the core since it was called last.
        """
        self.photos, self.is_quiet = photos, is_quiet
        # CPU seconds of each photograph, or of whatever `run` does at once: the best of the rounds.
        self.best: Any = math.inf
        self.undisturbed: Any = 0  # how many rounds of each nobody disturbed

    def turn(self) -> None:
        """Does another round over the group; `best` and `undisturbed` count it."""
        self.prepare()
        seconds, quiet = [], [self.is_quiet()]
        start = time.process_time()
        for _ in self.run(self.photos):
            seconds.append(time.process_time() - start)
            quiet.append(self.is_quiet())
            start = time.process_time()
        self.best = np.minimum(self.best, seconds)
        self.undisturbed += np.logical_and(quiet[:-1], quiet[1:])

    def prepare(self) -> None:
        """Does what is not timed, before `run`."""

    def run(self, photos: Sequence[Photo]) -> Iterator[None]:
        """Does what is timed; yields after each photograph, or whatever the side does at once."""
        raise NotImplementedError

    def result(self) -> np.ndarray:
        """The crops of the last run, in its order."""
        return self.out


class Forebay(Side):
    """Takes the packed files, by lib/crop_c.cc. The calls through ctypes are timed too."""

    differences_max = (0.0, 0.0)

    def __init__(self, library: Path, avx2: bool) -> None:
        super().__init__()
        self.avx2 = avx2
        self.library = load_forebay(library)
        self.library.bench_crop_restrict(avx2)
        self.cropper = self.library.bench_crop_new()

    def prepare(self) -> None:
        """Chooses the instructions for all of Forebay's code."""
        self.library.bench_crop_restrict(self.avx2)

    def run(self, photos: Sequence[Photo]) -> Iterator[None]:
        """Makes the crops of one image at a time."""
        crop = self.library.bench_crop_run
        out, step = self.out.ctypes.data, self.out[0].nbytes
        for i, photo in enumerate(photos):
            if not crop(self.cropper, photo.packed, len(photo.packed), *photo.box, photo.flip,
                        out + i * step):  # fmt: skip
                raise RuntimeError("Forebay could not decode a photograph")
            yield


class OpenCv(Side):
    """Calls imdecode, resize of a view (INTER_LINEAR, not antialiased), flip, addWeighted.

    addWeighted makes each plane float32 and normalises it. It is faster than blobFromImage, LUT,
    and multiply with add.
    """

    def __init__(self) -> None:
        super().__init__()
        import cv2

        cv2.setNumThreads(1)
        self.cv2 = cv2
        self.flags = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
        self.resized = np.empty((SIZE, SIZE, 3), np.uint8)
        self.flipped = np.empty_like(self.resized)
        self.planes = [np.empty((SIZE, SIZE), np.uint8) for _ in range(3)]

    def run(self, photos: Sequence[Photo]) -> Iterator[None]:
        """Makes the crops of one image at a time."""
        cv2 = self.cv2
        for i, photo in enumerate(photos):
            whole = cv2.imdecode(np.frombuffer(photo.file, np.uint8), self.flags)
            x, y, width, height = photo.box
            pixels = cv2.resize(whole[y : y + height, x : x + width], (SIZE, SIZE), self.resized,
                                interpolation=cv2.INTER_LINEAR)  # fmt: skip
            if photo.flip:
                pixels = cv2.flip(pixels, 1, self.flipped)
            cv2.split(pixels, self.planes)
            for plane, scale, offset, to in zip(
                self.planes, SCALE, OFFSET, self.out[i], strict=True
            ):
                cv2.addWeighted(plane, scale, plane, 0, offset, to, cv2.CV_32F)
            yield


class Pillow(Side):
    """Calls resize(box=crop, BILINEAR), antialiased, and transpose; NumPy normalises the planes."""

    def __init__(self) -> None:
        super().__init__()
        from PIL import Image

        self.image = Image

    def run(self, photos: Sequence[Photo]) -> Iterator[None]:
        """Makes the crops of one image at a time."""
        image = self.image
        scales, offsets = SCALE.astype(np.float32), OFFSET.astype(np.float32)
        for i, photo in enumerate(photos):
            x, y, width, height = photo.box
            pixels = image.open(io.BytesIO(photo.file)).resize(
                (SIZE, SIZE), image.Resampling.BILINEAR, (x, y, x + width, y + height)
            )
            if pixels.mode != "RGB":
                pixels = pixels.convert("RGB")
            if photo.flip:
                pixels = pixels.transpose(image.Transpose.FLIP_LEFT_RIGHT)
            for plane, scale, offset, to in zip(
                pixels.split(), scales, offsets, self.out[i], strict=True
            ):
                np.multiply(np.asarray(plane), scale, out=to)
                np.add(to, offset, out=to)
            yield


class TurboLoader(Side):
    """Calls decode_jpeg_region, then its fused crop, resize (not antialiased), flip and normalise.

    This is faster than its DataLoader with train_aug, which also decodes at a smaller scale. The
    image's own size as the target means full scale. Its decoder uses the fast, less exact IDCT.
    """

    def __init__(self) -> None:
        super().__init__()
        import turboloader

        self.decode = turboloader.decode_jpeg_region
        self.finish = turboloader.crop_resize_normalize_u8_gather
        self.first = np.zeros(1, np.int64)
        self.crop = np.zeros((1, 4), np.float32)
        self.flip = np.zeros(1, np.uint8)
        self.mean, self.std = list(MEAN), list(STD)

    def run(self, photos: Sequence[Photo]) -> Iterator[None]:
        """Makes the crops of one image at a time."""
        for i, photo in enumerate(photos):
            strip, left, _, _ = self.decode(photo.file, photo.width, photo.height, *photo.box)
            x, _, width, height = photo.box
            self.crop[0] = x - left, 0, width, height
            self.flip[0] = photo.flip
            self.finish(strip[None], self.first, self.crop, self.flip, self.out[i : i + 1],
                        self.mean, self.std)  # fmt: skip
            yield


class Dali(Side):
    """Runs a CPU pipeline of one thread: decoders.image_slice, resize, crop_mirror_normalize.

    The resize is linear and antialiased, which is the default. The images of a group are one batch,
    without copies, prefetching or a second stage.
    """

    def __init__(self) -> None:
        super().__init__()
        from nvidia import dali
        from nvidia.dali import fn, types

        def source(name: str, kind: Any, dimensions: int) -> Any:
            return fn.external_source(name=name, dtype=kind, ndim=dimensions, no_copy=True)

        pipeline = dali.Pipeline(GROUP, num_threads=1, device_id=None, prefetch_queue_depth=1,
                                 exec_async=False, exec_pipelined=False,
                                 exec_dynamic=False)  # fmt: skip
        with pipeline:
            pixels = fn.decoders.image_slice(
                source("file", types.UINT8, 1),
                source("start", types.INT32, 1),
                source("shape", types.INT32, 1),
                adjust_orientation=False,
            )
            pixels = fn.resize(pixels, size=(SIZE, SIZE), interp_type=types.INTERP_LINEAR)
            tensor = fn.crop_mirror_normalize(
                pixels,
                mirror=source("mirror", types.INT32, 0),
                mean=[255 * mean for mean in MEAN],
                std=[255 * std for std in STD],
                output_layout="CHW",
            )
            pipeline.set_outputs(tensor)
        pipeline.build()
        self.pipeline = pipeline
        self.batch: Any = None

    def run(self, photos: Sequence[Photo]) -> Iterator[None]:
        """Makes the crops as one batch."""
        feed = self.pipeline.feed_input
        crops = np.array([photo.box for photo in photos], np.int32)
        feed("file", [np.frombuffer(photo.file, np.uint8) for photo in photos])
        feed("start", np.ascontiguousarray(crops[:, :2]))
        feed("shape", np.ascontiguousarray(crops[:, 2:]))
        feed("mirror", np.array([photo.flip for photo in photos], np.int32))
        (self.batch,) = self.pipeline.run()
        yield

    def result(self) -> np.ndarray:
        """The batch as one array."""
        return np.asarray(self.batch.as_array())


PEERS: dict[str, Callable[[], Side]] = {
    "opencv": OpenCv,
    "pillow": Pillow,
    "turboloader": TurboLoader,
    "dali": Dali,
}


def load_forebay(path: Path) -> ctypes.CDLL:
    """Loads the functions of lib/crop_c.cc."""
    library = ctypes.CDLL(str(path))
    number, pointer, size = ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t
    library.bench_crop_restrict.argtypes = [ctypes.c_bool]
    library.bench_crop_restrict.restype = None
    library.bench_crop_is_quiet.argtypes = []
    library.bench_crop_is_quiet.restype = ctypes.c_bool
    library.bench_crop_new.argtypes = []
    library.bench_crop_new.restype = pointer
    library.bench_crop_pack.argtypes = [ctypes.c_char_p, size, ctypes.c_uint64, pointer, size,
                                        ctypes.POINTER(number)]  # fmt: skip
    library.bench_crop_pack.restype = size
    library.bench_crop_run.argtypes = [pointer, ctypes.c_char_p, size, number, number, number,
                                       number, ctypes.c_bool, pointer]  # fmt: skip
    library.bench_crop_run.restype = ctypes.c_bool
    return library


def pack(library: Path, path: Path, index: int) -> Photo:
    """Packs a photograph; every second one is to be flipped."""
    file = path.read_bytes()
    room = ctypes.create_string_buffer(2 * len(file) + 65536)
    geometry = (ctypes.c_uint32 * 6)()
    size = load_forebay(library).bench_crop_pack(file, len(file), index, room, len(room), geometry)
    if size == 0:
        raise RuntimeError(f"{path} is no JPEG that Forebay reads")
    width, height, x, y, crop_width, crop_height = geometry
    crop = (x, y, crop_width, crop_height)
    return Photo(file, room.raw[:size], width, height, crop, index % 2 == 1)
