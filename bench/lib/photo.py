"""A photograph for the benchmarks that decode from memory, and what is cropped from it."""

from typing import NamedTuple


class Photo(NamedTuple):
    """A photograph as the peers have it and as Forebay packed it.

    Attributes:
        file: The original JPEG.
        packed: The JPEG that Forebay made of it.
        width, height: In pixels.
        box: The left, top, width and height of the crop, in pixels.
        flip: Whether the crop is to be mirrored left to right.
    """

    file: bytes
    packed: bytes
    width: int
    height: int
    box: tuple[int, int, int, int]
    flip: bool = False
