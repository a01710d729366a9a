"""Encoded images to pixels."""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import overload

import numpy as np
from numpy.typing import NDArray

from forebay import _core

Pixels = NDArray[np.uint8]

# Small images are decoded side by side; more at once gain nothing.
_TOGETHER = 16
_local = threading.local()


def _decode(files: list[bytes], first: int = 0) -> list[Pixels]:
    if not hasattr(_local, "decoder"):
        _local.decoder = _core.Decoder()
    return _local.decoder.decode(files, first)


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """For this process: a child that was forked has none of its parent's threads."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"forebay-decode-{process}")


@overload
def decode(data: bytes | bytearray | memoryview, *, threads: int | None = None) -> Pixels: ...
@overload
def decode(
    data: Sequence[bytes | bytearray | memoryview], *, threads: int | None = None
) -> list[Pixels]: ...
def decode(
    data: bytes | bytearray | memoryview | Sequence[bytes | bytearray | memoryview],
    *,
    threads: int | None = None,
) -> Pixels | list[Pixels]:
    """Decodes a JPEG, PNG or WebP file's bytes, or several files'.

    JPEGs become exactly what libjpeg-turbo makes of them with its accurate inverse DCT;
    transparency is dropped, orientation tags are not applied.

    Args:
        data: A file's bytes, or a sequence of them.
        threads: For a sequence: how many work at the same time; None: as many as this process may
            run at once. No more are started than there is work for.

    Returns:
        RGB pixels, uint8 [height, width, 3], or a list of such arrays in the order of `data`.

    Raises:
        DataError: Not a whole image of these formats; the message names which.
    """
    if isinstance(data, bytes | bytearray | memoryview):
        return _decode([bytes(data)])[0]
    threads = _core.usable_cores() if threads is None else threads
    if threads < 1:
        raise ValueError(f"decode: threads is {threads}, but must be at least 1")
    files = [one if isinstance(one, bytes) else bytes(memoryview(one)) for one in data]
    firsts = range(0, len(files), _TOGETHER)
    groups = [files[first : first + _TOGETHER] for first in firsts]
    run = map if min(threads, len(groups)) <= 1 else _pool(threads, os.getpid()).map
    made = run(_decode, groups, firsts)
    return [pixels for group in made for pixels in group]
