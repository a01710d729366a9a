"""Writes image_files.txt: small PNG and WebP files of every kind, and their pixels by Pillow.

Each line is "name width height sha256 hex": the digest of the pixels that Pillow's convert("RGB")
gives, and the file itself. Pillow cannot write interlaced PNGs, so `interlaced` writes them.
"""

import hashlib
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import PIL
from PIL import Image

WIDTH, HEIGHT = 13, 7
ADAM7 = [
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
]


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(colour: int, depth: int, interlace: int, rows: bytes, extra: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour, 0, 0, interlace)
    data = (
        chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )
    return b"\x89PNG\r\n\x1a\n" + data


def plain(pixels: np.ndarray) -> bytes:
    return b"".join(b"\0" + row.tobytes() for row in pixels)


def interlaced(pixels: np.ndarray) -> bytes:
    return b"".join(plain(pixels[y::dy, x::dx]) for x, y, dx, dy in ADAM7)


def saved(image: Image.Image, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, **options)
    return out.getvalue()


def files() -> dict[str, bytes]:
    rng = np.random.default_rng(11)
    noise = rng.integers(0, 256, (HEIGHT, WIDTH, 4), dtype=np.uint8)
    wide = rng.integers(0, 65536, (HEIGHT, WIDTH, 4), dtype=np.uint16).astype(">u2")
    wide[0, :, 0] = np.array([0, 1, 200, 255, 256, 257, 300, 32767, 32768, 65280, 65535, 254, 2])
    rgb, rgba = Image.fromarray(noise[..., :3]), Image.fromarray(noise)
    grey = Image.fromarray(noise[..., 0])
    smooth = np.add.outer(np.arange(HEIGHT) * 17, np.arange(WIDTH) * 9).astype(np.uint8)
    photo = Image.fromarray(
        np.stack([smooth, smooth.T[:1, :1] + smooth, 255 - smooth, noise[..., 3]], -1)
    )
    tags = chunk(b"gAMA", struct.pack(">I", 45455)) + chunk(b"iCCP", b"broken\0\0notzlib")
    out = {
        "rgb": saved(rgb, format="PNG"),
        "rgba": saved(rgba, format="PNG"),
        "grey": saved(grey, format="PNG"),
        "grey_alpha": saved(Image.merge("LA", (grey, rgba.getchannel(3))), format="PNG"),
        "palette": saved(rgb.quantize(11), format="PNG"),
        "palette_transparent": saved(rgb.quantize(11), format="PNG", transparency=bytes(range(11))),
        "rgb_transparent": saved(rgb, format="PNG", transparency=(1, 2, 3)),
        "bits": saved(grey.convert("1"), format="PNG"),
        "grey2": png(0, 2, 0, plain(noise[:, : (WIDTH + 3) // 4, 0])),
        "grey4": png(0, 4, 0, plain(noise[:, : (WIDTH + 1) // 2, 0])),
        "grey16": png(0, 16, 0, plain(wide[..., :1])),
        "grey_alpha16": png(4, 16, 0, plain(wide[..., :2])),
        "rgb16": png(2, 16, 0, plain(wide[..., :3])),
        "rgba16": png(6, 16, 0, plain(wide)),
        "rgb_interlaced": png(2, 8, 1, interlaced(noise[..., :3])),
        "grey16_interlaced": png(0, 16, 1, interlaced(wide[..., :1])),
        "rgb_described": png(2, 8, 0, plain(noise[..., :3]), tags),
        "webp_lossless": saved(rgb, format="WEBP", lossless=True),
        "webp_lossless_alpha": saved(rgba, format="WEBP", lossless=True, exact=True),
        "webp_lossy": saved(photo.convert("RGB"), format="WEBP", quality=80),
        "webp_lossy_alpha": saved(photo, format="WEBP", quality=80, exact=True),
    }
    return out


def main() -> None:
    lines = [f"# by image_files.py with Pillow {PIL.__version__}"]
    for name, data in files().items():
        image = Image.open(io.BytesIO(data))
        pixels = image.convert("RGB").tobytes()
        digest = hashlib.sha256(pixels).hexdigest()
        lines.append(f"{name} {image.width} {image.height} {digest} {data.hex()}")
    Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
