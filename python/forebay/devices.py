"""The GPUs that PyTorch and the core share: the user's device, PyTorch's streams and events."""

from typing import Any

from forebay import _core
from forebay.pytorch import load_torch


def check_device(device: Any) -> Any:
    """Loader's `device` as a torch.device; None: batches stay in host memory.

    "cuda" means the device that is current now, even if another one becomes current later.

    Raises:
        ValueError: There is no such device on this machine, or PyTorch is missing.
    """
    if device is None:
        return None
    torch = load_torch()
    if torch is None:
        raise ValueError(f"device is {device!r}, which needs PyTorch: pip install torch")
    try:
        asked = torch.device(device)
    except (RuntimeError, TypeError, ValueError):
        asked = None
    if asked is None or asked.type not in ("cuda", "cpu"):
        raise ValueError(f"device is {str(device)!r}, but must be 'cuda', 'cuda:0' … or 'cpu'")
    if asked.type == "cpu":
        return None
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        build = "was built without CUDA" if torch.version.cuda is None else "finds no GPU"
        raise ValueError(f"device is '{asked}', but PyTorch {torch.__version__} {build}")
    if asked.index is not None and asked.index >= count:
        raise ValueError(f"device is '{asked}', but PyTorch sees {count} GPU(s), numbered from 0")
    return asked if asked.index is not None else torch.device("cuda", torch.cuda.current_device())


def open_device(device: Any) -> _core.Device:
    """The core's device for a torch.device.

    Raises:
        OSError, FileNotFoundError, DataError: The device cannot be used, or the package was built
            without CUDA.
    """
    return _core.Device.open(device.index)


def current_stream(device: Any) -> int:
    """PyTorch's current stream of a torch.device, as a cudaStream_t."""
    import torch

    return int(torch.cuda.current_stream(device).cuda_stream)


def event_now(device: Any) -> Any:
    """Records a torch.cuda.Event after the work queued so far on a device's current stream."""
    import torch

    return torch.cuda.current_stream(device).record_event()
