"""Pickles functions and values of the user's, so that other processes can use them."""

import io
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

import cloudpickle

from forebay.pytorch import load_torch


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Takes the bytes of tensors out of the pickle, like those of arrays."""

    take_file: Callable[[str], object] | None = None

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.CodeType):
            if self.take_file is not None:
                self.take_file(value.co_filename)
            # cloudpickle leaves out the file's name, which tracebacks need.
            make, fields = self.dispatch_table[types.CodeType](value)
            is_code = [field == "<dynamic-code>" for field in fields]
            names = zip(fields, is_code, strict=True)
            return make, tuple(value.co_filename if is_name else one for one, is_name in names)
        torch = sys.modules.get("torch")
        if torch is not None and type(value) is torch.Tensor and _is_plain(torch, value):
            flat = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
            buffer = pickle.PickleBuffer(flat)
            return _tensor, (buffer, str(value.dtype)[6:], tuple(value.shape), value.requires_grad)
        return super().reducer_override(value)


def pickled(
    value: Any,
    take_buffer: Callable[[pickle.PickleBuffer], object] | None = None,
    take_file: Callable[[str], object] | None = None,
) -> Any:
    """The pickle of a value as bytes, or as a memoryview.

    Args:
        value: Anything that cloudpickle takes.
        take_buffer: Called with the bytes of each array and tensor; None: they stay in the pickle.
        take_file: Called with the name of the file that each function in the pickle is from.
    """
    file = io.BytesIO()
    pickler = _Pickler(file, protocol=5, buffer_callback=take_buffer)
    pickler.take_file = take_file
    pickler.dump(value)
    return file.getvalue() if take_buffer is None else file.getbuffer()


def _is_plain(torch: Any, value: Any) -> bool:
    return bool(
        value.device.type == "cpu"
        and value.layout is torch.strided
        and value.is_leaf
        and not value.is_quantized
        and not value.is_conj()
        and not value.is_neg()
        and value.numel() > 0
    )


def _tensor(buffer: Any, dtype: str, shape: tuple[int, ...], requires_grad: bool) -> Any:
    torch = load_torch()
    # In-band bytes cannot be written to, and out-of-band bytes are the reader's own copy.
    content = buffer if not isinstance(buffer, bytes) else bytearray(buffer)
    flat = torch.frombuffer(content, dtype=getattr(torch, dtype))
    return flat.reshape(shape).requires_grad_(requires_grad)
