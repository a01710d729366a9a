"""Copies batches into page-locked memory and to GPUs, ahead of the loop."""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from forebay import _core
from forebay.devices import open_device
from forebay.loading.tv_types import with_type_of
from forebay.pytorch import load_torch
from forebay.transforms.kinds import Normalize
from forebay.transforms.recipes import tensor_options

_DECODE = {"auto": _core.Decode.AUTO, "cpu": _core.Decode.HOST, "gpu": _core.Decode.GPU}
# The warning if page-locked memory is asked for, but can_pin() is false.
NO_GPU_TO_PIN_FOR = (
    "forebay: pin_memory is set, but PyTorch sees no GPU: batches stay in ordinary memory"
)


class Normalizing:
    """Normalises images on the device, from bytes: (pixel / 255 - mean) / std.

    Args:
        mean, std: For red, green and blue, for pixels from 0 to 1.
        dtype: The result's type: "float32", "bfloat16" or "float16".
        channels_last: Whether images are [samples, height, width, 3].
        fields: Which fields of a batch are images: indexes of a tuple, or names of a dict.
    """

    def __init__(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        dtype: str,
        channels_last: bool,
        fields: Sequence[Any],
    ) -> None:
        self._channel = 3 if channels_last else 1
        self._fields = fields
        self._dtype = dtype
        tensor = tensor_options(Normalize(mean, std), dtype, channels_last=channels_last)
        self._values = _core.normalized_values(tensor)
        self._tables: dict[Any, Any] = {}  # by device

    def __call__(self, batch: Any) -> Any:
        """The batch with its images normalised to the same numbers that the core makes."""
        made = dict(batch) if isinstance(batch, Mapping) else list(batch)
        for field in self._fields:
            made[field] = with_type_of(made[field], self._normalized(made[field]))
        return made if isinstance(made, dict) else tuple(made)

    def _normalized(self, pixels: Any) -> Any:
        import torch

        if pixels.device not in self._tables:
            values = torch.from_numpy(self._values).view(getattr(torch, self._dtype))
            self._tables[pixels.device] = values.to(pixels.device)
        table = self._tables[pixels.device]
        out = torch.empty(pixels.shape, dtype=table.dtype, device=pixels.device)
        for channel in range(3):
            plane = pixels.select(self._channel, channel)
            looked_up = table[channel].index_select(0, plane.reshape(-1).int())
            out.select(self._channel, channel).copy_(looked_up.view(plane.shape))
        return out


@dataclasses.dataclass(frozen=True)
class _Sent:
    """A batch that is being copied; work that waits for `event` may use it."""

    batch: Any
    event: Any


class Mover:
    """Copies batches to page-locked memory, or through it to a device, in parallel to the loop.

    Copying and normalising have a stream of their own, so that they and the loop's work on the
    device do not wait for each other.

    Args:
        device: The torch.device that batches go to; None: they only go into page-locked memory.
        normalizing: Normalises the images there; None: nothing does.
    """

    def __init__(self, device: Any, normalizing: Normalizing | None = None) -> None:
        import torch

        self._cuda = torch.cuda
        self._normalizing = normalizing
        # Threads ahead of the loop have their own current device.
        self._device = device or torch.device("cuda", torch.cuda.current_device())
        self._stream = None if device is None else torch.cuda.Stream(self._device)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Work on the device inside the `with` is done before the batch is sent."""
        with self._cuda.device(self._device), self._cuda.stream(self._stream):
            yield

    def send(self, batch: Any) -> Any:
        """Begins the copy, in a thread ahead of the loop; receive() takes the result."""
        with self.working():
            sent = _map(batch, self._pinned if self._stream is None else self._copied)
            if self._stream is None:
                return sent
            if self._normalizing is not None:
                sent = self._normalizing(sent)
            event = self._stream.record_event()
            if any(tensor.is_cuda for tensor in _tensors(batch)):
                event.synchronize()  # the core will use this memory again
            return _Sent(sent, event)

    def receive(self, sent: Any) -> Any:
        """The batch, ready for what the calling thread does next on its own current stream."""
        if self._stream is None:
            return sent
        stream = self._cuda.current_stream(self._device)
        stream.wait_event(sent.event)
        for tensor in _tensors(sent.batch):
            tensor.record_stream(stream)
        return sent.batch

    def _copied(self, tensor: Any) -> Any:
        if tensor.is_cuda:
            return tensor.clone()
        return self._pinned(tensor).to(self._device, non_blocking=True)

    def _pinned(self, tensor: Any) -> Any:
        return tensor if tensor.is_cuda else tensor.pin_memory()


def check_decode(decode: Any, device: Any) -> str:
    """Checks Loader's `decode`.

    Args:
        decode: What the user gave.
        device: The torch.device on which the core may put its images directly; None: none.

    Raises:
        ValueError: `decode` is none of "auto", "cpu" and "gpu", or is "gpu" without a device.
    """
    if decode not in _DECODE:
        raise ValueError(f"decode is {decode!r}, but must be 'auto', 'cpu' or 'gpu'")
    if device is None and decode == "gpu":
        raise ValueError(
            "decode is 'gpu', which needs device='cuda', a transform, and no function of yours "
            "(transform, collate_fn, batch_transform)"
        )
    return decode


def open_decoder(decode: str, device: Any) -> tuple[_core.Device, _core.Decode] | None:
    """Opens the GPU if the core makes images there; None: the CPU makes them, in ordinary memory.

    Args:
        decode: What check_decode() returned.
        device: The torch.device on which the core may put its images directly; None: none.

    Raises:
        ValueError: `decode` is "gpu", but the device cannot be used.
    """
    if device is None or decode == "cpu":
        return None
    try:
        return open_device(device), _DECODE[decode]
    except (OSError, ValueError, RuntimeError) as error:
        if decode == "gpu":
            raise ValueError(f"decode is 'gpu', but {error}") from error
        return None


def can_pin() -> bool:
    """Whether PyTorch sees a GPU; page-locked memory is of use only for a GPU."""
    torch = load_torch()
    return torch is not None and torch.cuda.is_available()


def _map(batch: Any, function: Callable[[Any], Any]) -> Any:
    """The batch with `function` applied to its tensors, in tuples, lists, mappings at any depth."""
    import torch

    if isinstance(batch, torch.Tensor):
        return with_type_of(batch, function(batch))
    if isinstance(batch, Mapping):
        made = {name: _map(value, function) for name, value in batch.items()}
        if not isinstance(batch, MutableMapping) or type(batch) is dict:
            return made
        own = copy.copy(batch)  # a copy keeps the mapping's type and attributes
        own.update(made)
        return own
    if isinstance(batch, tuple | list):
        values = [_map(value, function) for value in batch]
        return type(batch)(*values) if hasattr(batch, "_fields") else type(batch)(values)
    return batch


def _tensors(batch: Any) -> Iterator[Any]:
    import torch

    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from _tensors(value)
    elif isinstance(batch, tuple | list):
        for value in batch:
            yield from _tensors(value)
