"""Pixels and masks as PNG files for the page of `forebay show`, and the colours of its classes."""

import colorsys
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

# How many colours there are. Class numbers that differ by this number have the same colour.
_COLOURS = 120
# Pictures with a longer side are shrunk for the page.
_SIDE_MAX = 800
_FILL, _EDGE = 100, 230  # opacities of masks, of 255
_RGB, _PALETTE = 2, 3  # the colour types of PNG


def _rgb(slot: int) -> tuple[int, int, int]:
    """The colour of a slot from 1 on. The golden angle keeps the first few far apart."""
    colour = colorsys.hls_to_rgb(slot * 137.508 % 360 / 360, 0.5 + slot % 3 / 10, 0.9)
    red, green, blue = (round(255 * part) for part in colour)
    return red, green, blue


# A clear entry, the colours of areas, and the same colours for the areas' edges.
_COLOURS_OF_MASKS = bytes([0] * 3) + 2 * bytes(
    part for slot in range(1, _COLOURS + 1) for part in _rgb(slot)
)
_OPACITIES = bytes([0] + [_FILL] * _COLOURS + [_EDGE] * _COLOURS)


def _slots(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    return 1 + (numbers - 1) % _COLOURS


def colour_of(number: int) -> str:
    """The colour of a class, for SVG."""
    return "#{:02x}{:02x}{:02x}".format(*_rgb(1 + (number - 1) % _COLOURS))


def step_of(height: int, width: int) -> int:
    """How many pixels of a picture one pixel on the page stands for, in each direction."""
    return -(-max(height, width) // _SIDE_MAX)


def png_of_picture(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG of a picture [height, width, 3]. Where step_of() is above 1, its pixels are means."""
    height, width = pixels.shape[:2]
    step = step_of(height, width)
    if step > 1:
        sides = ((0, -height % step), (0, -width % step), (0, 0))
        filled = np.pad(pixels, sides, "edge")
        blocks = filled.reshape(len(filled) // step, step, -1, step, 3)
        sums = blocks.sum(axis=(1, 3), dtype=np.uint32)
        pixels = ((sums + step * step // 2) // (step * step)).astype(np.uint8)
    left = np.pad(pixels[:, :-1], ((0, 0), (1, 0), (0, 0)))
    rows = (pixels - left).reshape(len(pixels), -1)  # modulo 256, as PNG's filter "Sub" does it
    return _png(rows, pixels.shape[1], colour_type=_RGB, row_filter=1)


def png_of_objects(masks: NDArray[np.uint8], labels: NDArray[np.int64]) -> bytes:
    """A translucent PNG of objects' masks [objects, height, width]; smaller masks lie on top."""
    owners = np.zeros(masks.shape[1:], np.int64)
    for number in np.argsort(-masks.sum(axis=(1, 2), dtype=np.int64), kind="stable"):
        owners[masks[number] != 0] = number + 1
    return _overlay(owners, np.concatenate([[0], _slots(labels)])[owners])


def png_of_map(labels: NDArray[np.int64]) -> bytes:
    """A translucent PNG of a map of labels [height, width]; 0 is clear."""
    return _overlay(labels, np.where(labels != 0, _slots(labels), 0))


def _overlay(owners: NDArray[np.int64], slots: NDArray[np.int64]) -> bytes:
    """A PNG of areas [height, width] with opaque borders between different owners."""
    height, width = owners.shape
    step = step_of(height, width)
    rows, columns = (
        np.minimum(np.arange(0, side, step) + step // 2, side - 1) for side in (height, width)
    )
    owners, slots = owners[rows][:, columns], slots[rows][:, columns]
    borders = np.zeros(owners.shape, bool)
    below, beside = owners[1:] != owners[:-1], owners[:, 1:] != owners[:, :-1]
    for part, differs in (
        (borders[1:], below), (borders[:-1], below), (borders[:, 1:], beside),
        (borders[:, :-1], beside),
    ):  # fmt: skip
        part |= differs
    slots = np.where(borders & (slots > 0), slots + _COLOURS, slots)
    return _png(slots.astype(np.uint8), slots.shape[1], colour_type=_PALETTE, row_filter=0)


def _png(rows: NDArray[np.uint8], width: int, *, colour_type: int, row_filter: int) -> bytes:
    """A PNG file of filtered rows [height, bytes]."""
    filters = np.full((len(rows), 1), row_filter, np.uint8)
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, len(rows), 8, colour_type, 0, 0, 0))]
    if colour_type == _PALETTE:
        chunks += [(b"PLTE", _COLOURS_OF_MASKS), (b"tRNS", _OPACITIES)]
    chunks += [(b"IDAT", zlib.compress(np.hstack([filters, rows]).tobytes())), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
