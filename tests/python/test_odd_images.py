"""Forebay decodes odd and damaged images whenever Pillow takes them and their pixels are whole."""

import io
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import forebay
from conftest import FOREBAY
from forebay import transforms as T

SIZE = (97, 61)
WRONG = b"\1\2\3\4"  # a wrong checksum


def photo(seed: int = 0, size: tuple[int, int] = SIZE) -> Image.Image:
    width, height = size
    y, x = np.mgrid[:height, :width]
    noise = np.random.default_rng(seed).integers(0, 20, (height, width, 3))
    pixels = np.stack([x * 2 % 256, y * 3 % 256, (x + y) % 256], -1) + noise
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def encoded(kind: str, image: Image.Image | None = None, **options: object) -> bytes:
    file = io.BytesIO()
    (image or photo()).save(file, kind, **options)
    return file.getvalue()


def by_pillow(file: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))


JPEG = encoded("JPEG", quality=80)
PROGRESSIVE = encoded("JPEG", quality=80, progressive=True)
JFIF_END = 20
BARE = JPEG[:2] + JPEG[JFIF_END:]


def segment(code: int, payload: bytes, length: int | None = None) -> bytes:
    """Returns a marker segment, whose given length may be wrong."""
    length = len(payload) + 2 if length is None else length
    return b"\xff" + bytes([code]) + struct.pack(">H", length) + payload


def with_segment(more: bytes, file: bytes = JPEG, at: int = JFIF_END) -> bytes:
    return file[:at] + more + file[at:]


def before_end(more: bytes, file: bytes = JPEG) -> bytes:
    return file[:-2] + more + file[-2:]


def adobe(transform: int) -> bytes:
    return segment(0xEE, b"Adobe\0d\0\0\0\0" + bytes([transform]))


SCAN = JPEG.index(b"\xff\xda")
ODD_JPEGS = {
    "EXIF of noise": with_segment(segment(0xE1, b"Exif\0\0" + bytes(range(200)))),
    "EXIF longer than it says": with_segment(segment(0xE1, b"Exif\0\0" + bytes(range(40)), 20)),
    "EXIF without a length": with_segment(segment(0xE1, b"", 0)),
    "APP1 of length 1": with_segment(segment(0xE1, b"", 1)),
    "COM without a length": with_segment(segment(0xFE, b"", 0)),
    "APP14 that is cut": with_segment(segment(0xEE, b"Adobe\0d")),
    "APP14 longer than it says": with_segment(segment(0xEE, b"Adobe\0d\0\0\0\0\0\1", 10), BARE, 2),
    "APP14 transform 0": with_segment(adobe(0), BARE, 2),
    "APP14 transform 1": with_segment(adobe(1), BARE, 2),
    "APP14 transform 7": with_segment(adobe(7), BARE, 2),
    "JFIF 9.9": JPEG.replace(b"JFIF\0\1\1", b"JFIF\0\x09\x09"),
    "JFIF that is cut": with_segment(segment(0xE0, b"JFIF\0\1\1"), BARE, 2),
    "no JFIF": BARE,
    "text between segments": with_segment(b"hello there"),
    "zeros between segments": with_segment(bytes(9)),
    "restart marker in the header": with_segment(b"\xff\xd3"),
    "trailing text": JPEG + b"something after" * 10,
    "trailing JPEG": JPEG + PROGRESSIVE,
    "text before the end marker": before_end(b"left by someone, no part of the image"),
    "zeros before the end marker": before_end(bytes(30)),
    "fill bytes before the end marker": before_end(b"\xff" * 30),
    "zeros before the end marker, progressive": before_end(bytes(30), PROGRESSIVE),
    "scan header of DC alone": JPEG[:SCAN] + JPEG[SCAN:].replace(b"\0\x3f\0", bytes(3), 1),
}


@pytest.mark.parametrize("name", ODD_JPEGS)
def test_jpegs_whose_pixels_are_whole_are_taken(name: str) -> None:
    assert (forebay.decode(ODD_JPEGS[name]) == by_pillow(ODD_JPEGS[name])).all()


def test_a_missing_end_marker_costs_nothing() -> None:
    # Pillow refuses such a file, but libjpeg-turbo takes it.
    for cut in (1, 2):
        assert (forebay.decode(JPEG[:-cut]) == by_pillow(JPEG)).all()
    broken = before_end(segment(0xDB, b"\7\7", 9))
    assert (forebay.decode(broken) == by_pillow(JPEG)).all()
    with pytest.raises(forebay.DataError, match="Premature end"):
        forebay.decode(PROGRESSIVE[:-2])  # scans may be missing


Chunk = tuple[bytes, bytes, bytes | None]


def chunks_of(file: bytes) -> list[Chunk]:
    chunks: list[Chunk] = []
    at = 8
    while at < len(file):
        (length,) = struct.unpack(">I", file[at : at + 4])
        chunks.append((file[at + 4 : at + 8], file[at + 8 : at + 8 + length], None))
        at += 12 + length
    return chunks


def png_of(chunks: list[Chunk]) -> bytes:
    """Returns a PNG of (name, content, checksum) chunks; None stands for the right checksum."""
    file = b"\x89PNG\r\n\x1a\n"
    for name, content, crc in chunks:
        right = struct.pack(">I", zlib.crc32(name + content))
        file += struct.pack(">I", len(content)) + name + content + (crc or right)
    return file


PNG = encoded("PNG")
HEAD, DATA, END = chunks_of(PNG)
ROWS = zlib.decompress(DATA[1])
GREY_HEAD, *GREY_REST = chunks_of(encoded("PNG", photo().convert("L")))
INDEXED = chunks_of(encoded("PNG", photo().convert("P")))


def with_chunk(name: bytes, content: bytes, crc: bytes | None = None) -> bytes:
    return png_of([HEAD, (name, content, crc), DATA, END])


ODD_PNGS = {
    "text with a wrong checksum": png_of([HEAD, DATA, (b"tEXt", b"a\0b", WRONG), END]),
    "sRGB of five bytes": with_chunk(b"sRGB", b"12345"),
    "text of 3 MB": with_chunk(b"tEXt", b"a\0" + b"x" * 3_000_000),
    "a private chunk": with_chunk(b"prVt", b"anything"),
    "transparency that is too long": with_chunk(b"tRNS", b"12345678"),
    "palette of colours that is malformed": with_chunk(b"PLTE", b"12345"),
    "palette of a grey image": png_of([GREY_HEAD, (b"PLTE", b"123456", None), *GREY_REST]),
    "transparency of 300 colours": png_of(
        [*INDEXED[:2], (b"tRNS", bytes(300), None), *INDEXED[2:]]
    ),
    "padding after the pixels": png_of([HEAD, (b"IDAT", DATA[1] + bytes(20), None), END]),
    "more rows than it has": png_of([HEAD, (b"IDAT", zlib.compress(ROWS + bytes(500)), None), END]),
    "more pixels' data after them": png_of([HEAD, DATA, (b"IDAT", b"anything", None), END]),
    "no end": png_of([HEAD, DATA]),
    "an end with a wrong checksum": png_of([HEAD, DATA, (b"IEND", b"", WRONG)]),
    "trailing text": PNG + b"something after",
}
# Pillow refuses these for what it would read besides the pixels.
ODD_PNGS_THAT_PILLOW_REFUSES = {
    "text with a wrong checksum, early": with_chunk(b"tEXt", b"a\0b", WRONG),
    "no colour profile": with_chunk(b"iCCP", b"nothing"),
    "gamma of one byte": with_chunk(b"gAMA", b"1"),
    "size of two bytes": with_chunk(b"pHYs", b"12"),
}


@pytest.mark.parametrize("name", ODD_PNGS)
def test_pngs_whose_pixels_are_whole_are_taken(name: str) -> None:
    assert (forebay.decode(ODD_PNGS[name]) == by_pillow(ODD_PNGS[name])).all()


@pytest.mark.parametrize("name", ODD_PNGS_THAT_PILLOW_REFUSES)
def test_pngs_that_pillow_refuses_for_their_text_are_taken(name: str) -> None:
    file = ODD_PNGS_THAT_PILLOW_REFUSES[name]
    with pytest.raises((OSError, ValueError)):
        by_pillow(file)
    assert (forebay.decode(file) == by_pillow(PNG)).all()


DAMAGED_PNGS = {
    "header": png_of([(HEAD[0], HEAD[1], WRONG), DATA, END]),
    "palette": png_of([INDEXED[0], (b"PLTE", INDEXED[1][1], WRONG), *INDEXED[2:]]),
    "checksum of a chunk": png_of([HEAD, (b"IDAT", DATA[1], WRONG), END]),
    "checksum of the rows": png_of([HEAD, (b"IDAT", DATA[1][:-4] + WRONG, None), END]),
    "rows": png_of([HEAD, (b"IDAT", zlib.compress(ROWS[:5000]), None), END]),
    "half": PNG[: len(PNG) // 2],
}


@pytest.mark.parametrize("damaged", ["refuse", "decode"])
@pytest.mark.parametrize("name", DAMAGED_PNGS)
def test_damaged_pngs_are_refused(name: str, damaged: str) -> None:
    with pytest.raises(forebay.DataError, match="PNG"):
        forebay.decode(DAMAGED_PNGS[name], damaged=damaged)


def test_an_animated_webp_gives_its_first_frame() -> None:
    frames = [photo(seed) for seed in range(3)]
    file = encoded("WEBP", frames[0], save_all=True, append_images=frames[1:], duration=50)
    assert (forebay.decode(file) == by_pillow(file)).all()
    sprites = [Image.new("RGBA", SIZE) for _ in range(2)]
    sprites[0].paste(photo(3, (30, 20)), (10, 8))  # the rest of the canvas is transparent
    sprites[1].paste(photo(4, (30, 20)), (40, 30))
    file = encoded("WEBP", sprites[0], save_all=True, append_images=sprites[1:], lossless=True)
    assert (forebay.decode(file) == by_pillow(file)).all()
    with pytest.raises(forebay.DataError, match="WebP"):
        forebay.decode(file[: len(file) // 2])


def cut(file: bytes) -> bytes:
    return file[: len(file) * 2 // 3]


def flipped(file: bytes) -> bytes:
    damaged = bytearray(file)
    for at in range(len(file) * 2 // 3, len(file) - 2, 7):
        damaged[at] ^= 0x10
    return bytes(damaged)


@pytest.mark.parametrize("damage", [cut, flipped])
def test_damaged_jpegs_are_refused_unless_told(damage: Callable[[bytes], bytes]) -> None:
    file = damage(JPEG)
    with pytest.raises(forebay.DataError, match="image 1: JPEG"):
        forebay.decode([JPEG, file])
    good, made = forebay.decode([JPEG, file], damaged="decode")
    assert (good == by_pillow(JPEG)).all()
    assert made.shape == good.shape
    assert (made[:8] == good[:8]).all()
    assert (made[-8:] != good[-8:]).any()
    with pytest.raises(ValueError, match="damaged is 'keep'"):
        forebay.decode(file, damaged="keep")


def test_batches_have_damaged_jpegs_when_told() -> None:
    pytest.importorskip("torch")
    transform = T.CenterCrop((SIZE[1], SIZE[0]))
    files = [JPEG, cut(JPEG)]
    refused = forebay.BatchDecoder(transform)(files)
    assert list(refused.errors()) == [1]
    assert not refused.images[1].any()
    made = forebay.BatchDecoder(transform, damaged="decode")(files)
    assert made.errors() == {}
    expected = forebay.decode(files, damaged="decode")
    assert (made.images.numpy() == np.stack(expected).transpose(0, 3, 1, 2)).all()


def test_missing_rows_are_grey() -> None:
    grey = Image.new("L", (64, 64), 200)
    file = encoded("JPEG", grey, restart_marker_blocks=8)
    file = file[: file.index(b"\xff\xd3") + 2]  # four rows of blocks
    made = forebay.decode(file, damaged="decode")
    assert (made[:32] == 200).all()
    assert (made[40:] == 128).all()  # the block in which the data end may hold anything


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Makes a folder of ten good images and a damaged one."""
    for number in range(11):
        path = tmp_path / "photos" / "abc"[number % 3] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        file = encoded("JPEG", photo(number))
        path.write_bytes(cut(file) if number == 4 else file)
    return tmp_path / "photos"


@pytest.mark.parametrize("transform", [None, T.evaluate(32, 40)])
def test_a_loader_decodes_damaged_images_when_told(folder: Path, transform: Any) -> None:
    def images(**options: Any) -> dict[int, np.ndarray]:
        loader = forebay.Loader(
            folder, 4, fields=("image", "index"), transform=transform, **options
        )
        return {
            int(index): np.asarray(image)
            for images, indexes in loader
            for image, index in zip(images, indexes, strict=True)
        }

    with pytest.warns(UserWarning, match="premature end"):
        good = images()
    all_images = images(damaged="decode")
    assert len(good) == 10
    assert len(all_images) == 11
    assert all((image == all_images[index]).all() for index, image in good.items())
    if transform is None:
        file = (folder / "b" / "4.jpg").read_bytes()
        (index,) = all_images.keys() - good.keys()
        expected = forebay.decode(file, damaged="decode").transpose(2, 0, 1)
        assert (all_images[index] == expected).all()
    with pytest.raises(ValueError, match="damaged is 'keep'"):
        images(damaged="keep")


def test_pack_keeps_damaged_images_when_told(folder: Path) -> None:
    packed = folder.parent / "packed"
    command = [FOREBAY, "pack", "--damaged", "keep", str(folder), str(packed)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "JPEG: damaged" in told
    assert str(Path("b") / "4.jpg") in told
    damaged = forebay.Loader(packed, 4, transform=T.evaluate(32, 40), damaged="decode")
    assert sum(len(labels) for _, labels in damaged) == 11
    refusing = forebay.Loader(packed, 4, transform=T.evaluate(32, 40))
    with pytest.warns(UserWarning, match="premature end"):
        assert sum(len(labels) for _, labels in refusing) == 10
