"""Decodes images that are in memory."""

import io
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache, partial
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from forebay import _core
from forebay.checks import whole
from forebay.devices import check_device, event_now, open_device

Pixels = NDArray[np.uint8]
File = bytes | bytearray | memoryview | NDArray[np.uint8]
Files = Sequence[File] | Iterator[File]

# How many small images one call of the core decodes side by side; more would not be faster.
_TOGETHER = 16
_local = threading.local()


_DAMAGED = {"refuse": _core.Damaged.REFUSE, "decode": _core.Damaged.DECODE}


def check_damaged(damaged: str) -> _core.Damaged:
    """The core's value for `damaged`.

    Raises:
        ValueError: `damaged` is neither "refuse" nor "decode".
    """
    if damaged not in _DAMAGED:
        raise ValueError(f"damaged is {damaged!r}, but must be one of {list(_DAMAGED)}")
    return _DAMAGED[damaged]


def check_orientation(orientation: str) -> bool:
    """Whether images are mirrored and turned by their orientation tags.

    Raises:
        ValueError: `orientation` is neither "ignore" nor "apply".
    """
    if orientation not in ("ignore", "apply"):
        raise ValueError(f"orientation is {orientation!r}, but must be 'ignore' or 'apply'")
    return orientation == "apply"


def _decode(
    damaged: _core.Damaged, oriented: bool, files: list[bytes], first: int = 0
) -> list[Pixels]:
    if not hasattr(_local, "decoders"):
        _local.decoders = {way: _core.Decoder(way) for way in _DAMAGED.values()}
    return _local.decoders[damaged].decode(files, first, oriented)


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """The pool of this process: its parent's threads do not exist in a forked child."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"forebay-decode-{process}")


def check_threads(name: str, threads: int | None) -> int:
    """How many threads work at the same time; None: one for each core that this process may use.

    Raises:
        ValueError: `threads` is not a whole number above 0, or too large.
    """
    return (
        _core.usable_cores()
        if threads is None
        else whole(f"{name}: threads", threads, 1, _core.THREADS_MAX)
    )


@overload
def decode(
    data: File,
    *,
    threads: int | None = None,
    device: None = None,
    damaged: str = "refuse",
    orientation: str = "ignore",
) -> Pixels: ...
@overload
def decode(
    data: Files,
    *,
    threads: int | None = None,
    device: None = None,
    damaged: str = "refuse",
    orientation: str = "ignore",
) -> list[Pixels]: ...
@overload
def decode(
    data: File | Files,
    *,
    threads: int | None = None,
    device: Any,
    damaged: str = "refuse",
    orientation: str = "ignore",
) -> Any: ...
def decode(
    data: File | Files,
    *,
    threads: int | None = None,
    device: Any = None,
    damaged: str = "refuse",
    orientation: str = "ignore",
) -> Any:
    """Decodes the bytes of a JPEG, PNG or WebP file, or of several files.

    The pixels of a JPEG are exactly those of libjpeg-turbo with its accurate inverse DCT.
    Transparency is dropped.

    Args:
        data: A file's bytes (also a uint8 array or CPU tensor of one dimension), or a sequence of
            such files.
        threads: How many threads decode several files at the same time; None: one for each core
            that this process may use. No more threads are started than there is work for.
        device: "cuda", "cuda:1" or a torch.device: this GPU decodes the JPEGs that it can (packed
            ones, and others with restart markers) after the work queued so far on PyTorch's current
            stream; the CPU decodes the other files. None: the CPU decodes all files.
        damaged: "refuse" raises DataError if a file's pixel data is damaged or incomplete. "decode"
            gives the pixels that libjpeg-turbo makes of a damaged JPEG, with grey for missing rows.
            docs/images.md says what counts as damage.
        orientation: "ignore" gives the pixels as they are stored. "apply" mirrors and turns them by
            the image's orientation tag, like Pillow's ImageOps.exif_transpose.

    Returns:
        RGB pixels, uint8 [height, width, 3], or a list of these in the order of `data`: arrays, or
        with a GPU as `device` tensors on it.

    Raises:
        DataError: A file is not a complete image of these formats; the message says which file.
        ValueError: There is no such device, or another argument is invalid.
    """
    torch_device = check_device(device)
    way, oriented = check_damaged(damaged), check_orientation(orientation)
    threads = check_threads("decode", threads)
    is_one = _is_one(data)
    views = [data] if is_one else list(data)
    if torch_device is not None:
        there = _decode_there(views, torch_device, threads, way, oriented)
        return there[0] if is_one else there
    files = [
        one if isinstance(one, bytes) else view_of(one, place).tobytes()
        for place, one in enumerate(views)
    ]
    if is_one:
        return _decode(way, oriented, files)[0]
    firsts = range(0, len(files), _TOGETHER)
    groups = [files[first : first + _TOGETHER] for first in firsts]
    run = map if min(threads, len(groups)) <= 1 else _pool(threads, os.getpid()).map
    made = run(partial(_decode, way, oriented), groups, firsts)
    return [pixels for group in made for pixels in group]


def _is_one(data: Any) -> bool:
    """Whether the data is one file's bytes, rather than several files."""
    if isinstance(data, np.ndarray):
        return data.dtype != object
    return (
        isinstance(data, bytes | bytearray | memoryview | str | io.IOBase)
        or hasattr(data, "numpy")
        or not isinstance(data, Iterable)
    )


def view_of(file: Any, place: int) -> NDArray[np.uint8]:
    """A file's bytes as an array, uint8 [bytes], without a copy.

    Args:
        file: Bytes, or a uint8 array or CPU tensor of one dimension.
        place: The file's index among several, for messages.

    Raises:
        ValueError: The file is of another type.
    """
    try:
        array = file.numpy() if hasattr(file, "numpy") else file
        view = array if isinstance(array, np.ndarray) else np.asarray(memoryview(array))
    except (TypeError, ValueError, BufferError, RuntimeError):
        view = None
    if view is None or view.dtype != np.uint8 or view.ndim != 1:
        raise ValueError(
            f"file {place} is {type(file).__name__}{'' if view is None else f' of {view.dtype}'}, "
            "but must be bytes, or a uint8 array or CPU tensor of one dimension"
        )
    return np.ascontiguousarray(view)


def as_core_file(file: Any, place: int) -> Any:
    """The file in a form that the core takes: bytes as they are (the fastest), or a view."""
    return file if isinstance(file, bytes) else view_of(file, place)


def begin_batch(
    core: _core.BatchDecoder,
    files: list[Any],
    outs: NDArray[np.uint64],
    images: Any,
    *,
    drawn_for: NDArray[np.uint64],
    crops: NDArray[np.uint32] | None,
    seed: int,
    epoch: int,
    device: Any,
) -> _core.PendingBatch:
    """Begins a batch; on a GPU after the work queued so far on the device's current stream.

    Args:
        core: The decoder.
        files: Bytes, arrays or stored files, as the core's decoder takes them.
        outs: Addresses of the samples in `images`.
        images: The memory of the batch, which is kept alive until the batch is complete.
        drawn_for: The number that each file's augmentation is drawn for, [files].
        crops: [files, 6]: left, top, width and height of the crop, width and height of the sample,
            in pixels; None: the transform draws the crops.
        seed: From 0 to 2^64 - 1.
        epoch: From 0 to 2^32 - 1.
        device: A torch.device; None: the CPU.

    Returns:
        The pending batch.
    """
    after = None if device is None else event_now(device)
    room = (images, after)
    return core.begin(files, outs, drawn_for, crops, seed, epoch, room, event_of(after))


def event_of(event: Any) -> int:
    """The cudaEvent_t of a torch.cuda.Event; 0 for None."""
    return 0 if event is None else int(event.cuda_event)


def _decode_there(
    data: Sequence[Any], device: Any, threads: int, damaged: _core.Damaged, oriented: bool
) -> list[Any]:
    import torch

    files = [as_core_file(file, place) for place, file in enumerate(data)]
    sizes = [_size_of(file, number, oriented) for number, file in enumerate(files)]
    images = [
        torch.empty((height, width, 3), dtype=torch.uint8, device=device) for width, height in sizes
    ]
    crops = [(0, 0, width, height, width, height) for width, height in sizes]
    pending = begin_batch(
        _whole_images(device, damaged, oriented, threads, os.getpid()),
        files,
        np.array([image.data_ptr() for image in images], np.uint64),
        images,
        drawn_for=np.zeros(len(files), np.uint64),
        crops=np.array(crops, np.uint32).reshape(-1, 6),
        seed=0,
        epoch=0,
        device=device,
    )
    for place, message in pending.finish():
        raise _core.DataError(f"decode: image {place}: {message}")
    return images


def _size_of(file: Any, number: int, oriented: bool) -> tuple[int, int]:
    try:
        return _core.read_size(file, oriented)
    except _core.DataError as error:
        raise _core.DataError(f"decode: image {number}: {error}") from None


@lru_cache(maxsize=8)
def _whole_images(
    device: Any, damaged: _core.Damaged, oriented: bool, threads: int, process: int
) -> _core.BatchDecoder:
    """A decoder of whole images at their own sizes. Each process has its own, like _pool."""
    transform, tensor = _core.Transform(), _core.TensorOptions()
    transform.flip, transform.oriented = 0, oriented
    tensor.dtype, tensor.layout = _core.DType.UINT8, _core.Layout.NHWC
    return _core.BatchDecoder.open(transform, tensor, open_device(device), threads, damaged)
