"""Results as bytes: in memory that processes share, and in files under a checksum.

A result is a pickle whose tensors and arrays lie behind it, so that a reader maps them and copies
nothing. docs/explore.md has the format.
"""

import contextlib
import mmap
import os
import pickle
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from forebay._core import DataError
from forebay.explore.pickling import pickled

_MAGIC = b"fbresult"
_HEAD = struct.Struct("<8sQII")  # magic, number of parts, version, CRC-32 of all that follows
_ALIGNMENT = 64
_PIECE_BYTES = 1 << 24
_VERSION = 0
_PARTS_MAX = 1 << 24

Parts = list[memoryview]


def encode(value: Any) -> Parts:
    """The parts of a result: the pickle, then the bytes that it refers to.

    Raises:
        TypeError: The value cannot be pickled.
    """
    buffers: list[pickle.PickleBuffer] = []
    try:
        first = pickled(value, buffers.append)
    except Exception as error:
        raise TypeError(
            f"the result of type {type(getattr(value, 'state', value)).__name__} cannot be "
            f"pickled: {error}"
        ) from error
    return [first, *(buffer.raw() for buffer in buffers)]


def decode(content: memoryview) -> Any:
    """The value of encoded bytes. Its arrays and tensors share the memory of `content`."""
    _, count, _, _ = _HEAD.unpack_from(content)
    sizes = struct.unpack_from(f"<{count}Q", content, _HEAD.size)
    at = _HEAD.size + 8 * count
    parts = []
    for size in sizes:
        at = _aligned(at)
        parts.append(content[at : at + size])
        at += size
    return pickle.loads(parts[0], buffers=parts[1:])


def size_of(parts: Sequence[memoryview]) -> int:
    """How many bytes a result has in memory or in a file."""
    at = _HEAD.size + 8 * len(parts)
    for part in parts:
        at = _aligned(at) + part.nbytes
    return at


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT


def _content(parts: Parts) -> Iterator[Any]:
    """All bytes that follow the head, in pieces."""
    sizes = struct.pack(f"<{len(parts)}Q", *(part.nbytes for part in parts))
    yield sizes
    at = _HEAD.size + len(sizes)
    for part in parts:
        yield bytes(_aligned(at) - at)
        for begin in range(0, part.nbytes, _PIECE_BYTES):
            yield part[begin : begin + _PIECE_BYTES]
        at = _aligned(at) + part.nbytes


def to_memory(parts: Parts) -> int:
    """Writes a result into memory of its own; returns its descriptor."""
    descriptor = os.memfd_create("forebay-result")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(_HEAD.pack(_MAGIC, len(parts), _VERSION, 0))
            for piece in _content(parts):
                file.write(piece)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def to_file(parts: Parts, path: Path) -> None:
    """Writes a result into a file, completely or not at all.

    Raises:
        OSError: The disk is full, or cannot be written.
    """
    _to_file(len(parts), _content(parts), path)


def _to_file(count: int, pieces: Iterable[Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with open(made, "wb") as file:
            file.write(bytes(_HEAD.size))
            crc = 0
            for piece in pieces:
                crc = zlib.crc32(piece, crc)
                file.write(piece)
            file.seek(0)
            file.write(_HEAD.pack(_MAGIC, count, _VERSION, crc))
            file.flush()
            os.fdatasync(file.fileno())
        os.replace(made, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            made.unlink()
        raise


def from_memory(path: str) -> Any:
    """The value of a result in memory; `path` names its descriptor."""
    return decode(_mapped(path))


def from_file(path: str | Path) -> Any:
    """The value of a result in a file.

    Raises:
        DataError: The file is damaged.
        FileNotFoundError: There is no such file.
    """
    content = _checked(path)
    try:
        return decode(content)
    except MemoryError:
        raise
    except Exception as error:  # also when a class that it is made of is gone
        raise DataError(
            f"{path}: the result cannot be read: {type(error).__name__}: {error}"
        ) from error


def copy_to_memory(path: str | Path) -> int:
    """Copies a result from its file into memory of its own; returns its descriptor.

    Raises:
        DataError: The file is damaged.
    """
    content = _checked(path)
    descriptor = os.memfd_create("forebay-result")
    for begin in range(0, len(content), _PIECE_BYTES):
        os.write(descriptor, content[begin : begin + _PIECE_BYTES])
    return descriptor


def memory_to_file(place: str, path: Path) -> None:
    """Writes a result that is in memory into its file.

    Raises:
        OSError: The disk is full, or cannot be written.
    """
    content = _mapped(place)
    _, count, _, _ = _HEAD.unpack_from(content)
    _to_file(count, [content[_HEAD.size :]], path)


def _mapped(path: str | Path) -> memoryview:
    with open(path, "rb") as file:
        # Whoever changes what it gets changes a copy of its own.
        return memoryview(
            mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        )


def _checked(path: str | Path) -> memoryview:
    size = os.path.getsize(path)
    content = _mapped(path) if size > 0 else memoryview(b"")
    if size < _HEAD.size:
        raise DataError(f"{path}: {size} bytes are too few for a result")
    magic, count, version, expected = _HEAD.unpack_from(content)
    if magic != _MAGIC or version != _VERSION or count > _PARTS_MAX:
        raise DataError(f"{path}: this is not a result of this version of forebay.explore")
    crc = 0
    for begin in range(_HEAD.size, size, _PIECE_BYTES):
        crc = zlib.crc32(content[begin : begin + _PIECE_BYTES], crc)
    if crc != expected:
        raise DataError(f"{path}: the result does not match its checksum")
    return content
