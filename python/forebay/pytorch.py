"""Imports PyTorch when it is first needed, either completely or not at all."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any


def load_torch() -> Any:
    """The module torch, or None if PyTorch is not installed. Any thread may call this.

    A Ctrl-C during the import takes effect after it, because a half-imported PyTorch cannot be
    imported again.
    """
    found = sys.modules.get("torch")
    if found is not None and not getattr(found.__spec__, "_initializing", False):
        return found
    if find_spec("torch") is None:
        return None
    with _interrupts_later():
        import torch
    return torch


@contextmanager
def _interrupts_later() -> Iterator[None]:
    handler = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not callable(handler):  # only the main thread gets a Ctrl-C
        yield
        return
    came: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])
