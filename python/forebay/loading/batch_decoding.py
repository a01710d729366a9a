"""Makes batches, on a GPU or in host memory, from encoded images that are in memory."""

import os
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay import _core
from forebay._core import StoredFile
from forebay.checks import flag, whole
from forebay.data.decoding import (
    as_core_file,
    begin_batch,
    check_damaged,
    check_orientation,
    check_threads,
    event_of,
    view_of,
)
from forebay.devices import check_device, current_stream, event_now, open_device
from forebay.pytorch import load_torch
from forebay.transforms.core.transform import is_cut
from forebay.transforms.kinds import Transforms
from forebay.transforms.pipelines import only_in_python, split
from forebay.transforms.recipes import recipe_of


class DecodedBatch:
    """A batch that a BatchDecoder began.

    It keeps the memory that a GPU works with until errors() returns or the object is gone.
    """

    def __init__(self, images: Any, pending: _core.PendingBatch) -> None:
        self._images = images
        self._pending: _core.PendingBatch | None = pending  # None: it is over
        # The memory is freed in the order of this stream.
        self._stream = current_stream(images.device) if images.is_cuda else 0
        self._errors: dict[int, str] | None = None
        self._lock = threading.Lock()

    @property
    def images(self) -> Any:
        """The batch; on a GPU, ready for later work on the current stream. Bad samples are zeros.

        Raises:
            OSError, MemoryError: The GPU failed, or there was not enough memory.
            ValueError: The batch was begun in another process, from which this one forked.
        """
        return self._ordered()._images

    def _ordered(self) -> "DecodedBatch":
        """Makes later work on the current stream wait for the batch."""
        with self._lock:
            if self._pending is not None:
                self._pending.order_before(self._stream)
                if self._images.is_cuda and self._stream != current_stream(self._images.device):
                    self._pending.order_before(current_stream(self._images.device))
        return self

    def errors(self) -> dict[int, str]:
        """Waits for the batch; returns its bad samples' errors, by their indexes in the batch.

        A few files need the CPU although the GPU took them for good ones, such as files with stray
        bytes. They are in the batch after this call, and zeros before it.

        Raises:
            OSError, MemoryError: The GPU failed, or there was not enough memory.
            ValueError: The batch was begun in another process, from which this one forked.
        """
        with self._lock:
            if self._errors is None:
                assert self._pending is not None
                # Late writes come after the caller's work on the images.
                after = event_now(self._images.device) if self._images.is_cuda else None
                self._errors = dict(self._pending.finish(event_of(after)))
                self._pending = None
            return dict(self._errors)


class BatchDecoder:
    """Makes batches of encoded images that are in memory, for loaders of your own.

    A call returns at once, except for small batches, and threads continue with it. On a GPU the
    part of each JPEG that its crop needs is sent, decoded, resized and normalised there, after the
    work queued so far on PyTorch's current stream, and in parallel to later work. The pixels are
    the same as Loader's, wherever they are made.

    Args:
        transform: Forebay's transforms, or torchvision's as far as the core runs them; at least
            one. Because the files of a call may differ in size, the transforms must bring them to
            one size: by a crop, or by a Resize to (height, width).
        device: "cuda", "cuda:1" or a torch.device; None: the CPU, into this machine's memory.
        dtype: Like Loader's.
        channels_last: Whether images are [height, width, 3].
        seed: The augmentation depends on it; from 0 to 2^64 - 1.
        threads: How many threads prepare or decode the files of a call; None: one for each core
            that this process may use.
        damaged: The same as for decode(); with "refuse" a damaged image is a bad sample.
        orientation: The same as for decode(). The CPU makes the samples of images that are mirrored
            or turned.

    Raises:
        ValueError: An option is invalid, there is no such device, or PyTorch is missing.
    """

    def __init__(
        self,
        transform: Transforms,
        *,
        device: Any = None,
        dtype: str | None = None,
        channels_last: bool = False,
        seed: int = 0,
        threads: int | None = None,
        damaged: str = "refuse",
        orientation: str = "ignore",
    ) -> None:
        self._arguments = {name: value for name, value in locals().items() if name != "self"}
        pipeline = split(transform, channels_last=False)
        if pipeline.functions:
            raise ValueError(
                f"BatchDecoder: transform must be what the core runs; {only_in_python(pipeline)}"
            )
        if not pipeline.core or not is_cut(pipeline.core):
            raise ValueError(
                "BatchDecoder: transform must cut images to one size: give a crop, or Resize with "
                "both sides"
            )
        recipe = recipe_of(pipeline.core, dtype, channels_last=flag("channels_last", channels_last))
        assert recipe is not None  # because there is a transform
        recipe.transform.oriented = check_orientation(orientation)
        self._recipe = recipe
        self._seed = whole("seed", seed, 0, 2**64 - 1)
        self._threads = check_threads("BatchDecoder", threads)
        self._damaged = check_damaged(damaged)
        if load_torch() is None:
            raise ValueError("BatchDecoder needs PyTorch: pip install torch")
        self._device = check_device(device)
        self._open()
        size = recipe.transform.size
        self._size = (size.width, size.height)
        image = (size.height, size.width)
        self._shape = (*image, 3) if channels_last else (3, *image)
        self._dtype = recipe.dtype
        self._files = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the arguments alone, from which another process makes its own decoder."""
        return partial(BatchDecoder, **self._arguments), ()

    def _open(self) -> None:
        device = None if self._device is None else open_device(self._device)
        self._core = _core.BatchDecoder.open(
            self._recipe.transform, self._recipe.tensor, device, self._threads, self._damaged
        )
        self._process = os.getpid()

    def _core_here(self) -> _core.BatchDecoder:
        """The core's decoder. A forked child opens its own, because the parent's may be in use."""
        if self._process != os.getpid():
            if self._device is not None:
                raise RuntimeError(
                    "BatchDecoder: the process was forked, but CUDA works only in the process that "
                    "started it; start processes by spawn"
                )
            self._open()
        return self._core

    def store(self, files: Sequence[Any]) -> list[StoredFile]:
        """Copies files to where they are decoded, so that later calls need not send them.

        A JPEG that the GPU decodes takes about its own size of the GPU's memory, until none of the
        files that were stored in the same call is used any more; other files stay in host memory.
        Errors in a file show when it is decoded.

        Args:
            files: The same as a call takes.

        Returns:
            Objects that calls take in place of the files.

        Raises:
            OSError, MemoryError: The GPU failed, or its memory was not enough.
        """
        return self._core_here().store([view_of(file, place) for place, file in enumerate(files)])

    def __call__(
        self,
        files: Sequence[Any],
        *,
        boxes: Any = None,
        drawn_for: Any = None,
        epoch: int = 0,
        out: Any = None,
    ) -> DecodedBatch:
        """Begins a batch; on a GPU in parallel to the later work of PyTorch's current stream.

        That work waits for the batch once `images` of the returned object is read; with `out` it
        waits from this call on.

        Args:
            files: JPEG, PNG or WebP files' bytes: bytes, or uint8 arrays or CPU tensors of one
                dimension. They must not change before errors() has returned or the batch is gone,
                or the process may crash. Or objects that store() of this decoder returned.
            boxes: Whole numbers [files, 4]: the left, top, width and height of the part that is cut
                from each image, in pixels (after `orientation`), in place of the transform's crop.
                Flips, steps and erasing stay.
            drawn_for: The number that each file's augmentation is drawn for, besides seed and
                epoch: whole numbers [files] from 0 to 2^48 - 1. The numbers of samples give a
                Loader's augmentation. None: files are counted from the decoder's first file on.
            epoch: From 0 to 2^32 - 1.
            out: A tensor of the batch's shape, type and device that gets the batch; None: a new
                one.

        Returns:
            The batch, [files, 3, height, width] or, with channels_last, [files, height, width, 3].

        Raises:
            ValueError: The arguments do not fit together. errors() says what is wrong with a file.
        """
        core = self._core_here()
        views = [
            file if isinstance(file, StoredFile) else as_core_file(file, place)
            for place, file in enumerate(files)
        ]
        count = len(views)
        epoch = whole("epoch", epoch, 0, _core.EPOCH_MAX)
        crops = None if boxes is None else self._crops(boxes, count)
        numbers = None
        if drawn_for is not None:
            numbers = _numbers("drawn_for", drawn_for, (count,), _core.DRAWN_FOR_MAX + 1)
        images = self._room(count, out)
        if numbers is None:
            with self._lock:
                numbers = np.arange(self._files, self._files + count, dtype=np.uint64)
                self._files += count
        step = images.nbytes // max(1, count)
        pending = begin_batch(
            core,
            views,
            np.uint64(images.data_ptr()) + np.arange(count, dtype=np.uint64) * np.uint64(step),
            images,
            drawn_for=numbers.astype(np.uint64),
            crops=crops,
            seed=self._seed,
            epoch=epoch,
            device=self._device,
        )
        batch = DecodedBatch(images, pending)
        return batch if out is None else batch._ordered()

    def _room(self, count: int, out: Any) -> Any:
        import torch

        dtype = getattr(torch, self._dtype)
        shape = (count, *self._shape)
        device = self._device or torch.device("cpu")
        if out is None:
            return torch.empty(shape, dtype=dtype, device=device)
        if not isinstance(out, torch.Tensor):
            raise ValueError(f"out is {type(out).__name__}, but must be a tensor")
        if (tuple(out.shape), out.dtype, out.device) != (shape, dtype, device):
            raise ValueError(
                f"out is {tuple(out.shape)}, {out.dtype}, on {out.device}, but the batch is "
                f"{shape}, {dtype}, on {device}"
            )
        if not out.is_contiguous() or out.is_neg() or out.requires_grad:
            raise ValueError("out must be contiguous, not a negated view, and need no gradient")
        torch.autograd.graph.increment_version(out)
        if out.is_cuda:  # another stream may have made the tensor
            out.record_stream(torch.cuda.current_stream(device))
        return out

    def _crops(self, boxes: Any, count: int) -> NDArray[np.uint32]:
        given = _numbers("boxes", boxes, (count, 4), 2**32)
        crop = self._recipe.transform.crop_size or self._recipe.transform.size
        if crop.width == 0:
            raise ValueError(
                "boxes replace the transform's crop, but the transform does not begin with one"
            )
        sizes = np.broadcast_to(np.array((crop.width, crop.height), np.uint32), (count, 2))
        return np.concatenate([given.astype(np.uint32), sizes], axis=1)


def _numbers(name: str, values: Any, shape: tuple[int, ...], end: int) -> NDArray[Any]:
    """Whole numbers of this shape, each at least 0 and below `end`.

    Raises:
        ValueError: The values are not such numbers.
    """
    try:
        given = np.asarray(values if hasattr(values, "__array__") else list(values))
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise ValueError(f"{name} must be whole numbers {list(shape)}: {error}") from None
    if given.size == 0:
        given = given.astype(np.int64).reshape(shape) if 0 in shape else given
    if given.shape != shape or given.dtype.kind not in "iu":
        raise ValueError(
            f"{name}: {given.dtype} {list(given.shape)}, but must be whole numbers {list(shape)}"
        )
    if given.size > 0 and (given.min() < 0 or given.max() >= end):
        raise ValueError(
            f"{name}: {given.min()} to {given.max()}, but must be at least 0 and below {end}"
        )
    return given
