"""`forebay pack --resize` stores what torchvision's Resize gives as JPEGs, with their metadata."""

import hashlib
import io
import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageCms
from PIL.PngImagePlugin import PngInfo
from torchvision.transforms import v2

import forebay
from conftest import run_forebay

SHORT = 100
XMP = b"<x:xmpmeta xmlns:x='adobe:ns:meta/'/>"
ORIENTATION = 274


def photo(width: int, height: int, seed: int = 0) -> Image.Image:
    """Returns a picture of smooth colours with some noise."""
    random = np.random.default_rng(seed)
    small = Image.fromarray(random.integers(0, 256, (7, 9, 3), dtype=np.uint8))
    smooth = np.asarray(small.resize((width, height), Image.Resampling.BICUBIC)).astype(int)
    noise = random.integers(-5, 6, smooth.shape)
    return Image.fromarray((smooth + noise).clip(0, 255).astype(np.uint8))


def exif(orientation: int) -> bytes:
    tags = Image.Exif()
    tags[ORIENTATION] = orientation
    return tags.tobytes()


def profile() -> bytes:
    """Returns a colour profile that is longer than a segment of a JPEG."""
    plain = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    length = 70_000
    return struct.pack(">I", length) + plain[4:] + bytes(length - len(plain))


def save(image: Image.Image, path: Path, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)


def pack(
    source: Path, dataset: Path, *options: object, env: dict[str, str] | None = None
) -> forebay.Dataset:
    run_forebay("pack", source, dataset, *options, env=env)
    return forebay.Dataset(str(dataset))


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    squares = np.square(a.astype(float) - b).mean()
    return float(10 * np.log10(255**2 / max(squares, 1e-9)))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Returns a folder of photographs of several kinds, one of which is small enough."""
    folder = tmp_path / "photos"
    save(photo(320, 240), folder / "a/444.jpg", quality=96, subsampling=0)
    save(photo(200, 333, 1), folder / "a/422.jpg", quality=96, subsampling=1)
    save(photo(301, 202, 2), folder / "a/420.jpg", quality=96, subsampling=2, progressive=True)
    save(photo(150, 150, 3).convert("L"), folder / "a/grey.jpg", quality=96)
    save(photo(250, 180, 4), folder / "b/png.png")
    save(photo(250, 180, 5), folder / "b/webp.webp", quality=96)
    save(photo(140, 400, 6).convert("CMYK"), folder / "b/inks.jpg", quality=96)
    save(photo(99, 300, 7), folder / "b/small.jpg", quality=96)
    return folder


def test_pixels_are_torchvisions(photos: Path, tmp_path: Path) -> None:
    dataset = pack(photos, tmp_path / "set", "--resize", SHORT, "--quality", 97)
    for number in range(len(dataset)):
        key = dataset.key(number)
        (path,) = (path for path in photos.rglob("*.*") if path.with_suffix("").match(f"*/{key}"))
        with Image.open(path) as image:
            original = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)
        wanted = original if key == "b/small" else v2.Resize(SHORT, antialias=True)(original)
        pixels, _ = dataset[number]
        assert pixels.shape == (*wanted.shape[1:], 3), key
        # Colours of half the resolution cost more than coding does.
        assert psnr(np.asarray(pixels), wanted.permute(1, 2, 0).numpy()) > 36, key


def test_the_stored_files_say_what_they_are(photos: Path, tmp_path: Path) -> None:
    dataset = pack(photos, tmp_path / "set", "--resize", SHORT)
    modes = {}
    for number in range(len(dataset)):
        file = dataset.read(number)
        with Image.open(io.BytesIO(file)) as image:
            assert image.format == "JPEG"
            layers = getattr(image, "layer", [])
            modes[dataset.key(number)] = (image.mode, [tuple(layer[1:3]) for layer in layers][:1])
    assert modes["a/444"] == ("RGB", [(1, 1)])
    assert modes["a/422"] == ("RGB", [(2, 1)])
    for key in ("a/420", "b/png", "b/webp", "b/inks"):
        assert modes[key] == ("RGB", [(2, 2)]), key
    assert modes["a/grey"] == ("L", [(1, 1)])
    described = run_forebay("inspect", tmp_path / "set", "b/png").stdout
    assert '.jpg (field "image")' in described and "138 x 100 pixels, JPEG 4:2:0" in described


def test_metadata_go_along(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    icc = profile()
    xmp_of_png = PngInfo()
    xmp_of_png.add_itxt("XML:com.adobe.xmp", XMP.decode(), zip=True)
    for orientation, kind in enumerate(("jpg", "png", "webp"), start=3):
        xmp = {"pnginfo": xmp_of_png} if kind == "png" else {"xmp": XMP}
        known = {"exif": exif(orientation), "icc_profile": icc, **xmp}
        save(photo(200, 150), folder / "a" / f"{kind}.{kind}", **known)
    dataset = pack(folder, tmp_path / "set", "--resize", SHORT)
    for number in range(len(dataset)):
        key = dataset.key(number)
        with Image.open(io.BytesIO(dataset.read(number))) as image:
            assert image.format == "JPEG" and image.size == (133, 100), key
            orientation = {"a/jpg": 3, "a/png": 4, "a/webp": 5}[key]
            assert image.getexif()[ORIENTATION] == orientation, key
            assert image.info["icc_profile"] == icc, key
            assert image.info["xmp"] == XMP, key


def animated_png(image: Image.Image) -> bytes:
    """Returns a PNG that says that it is an animation."""
    out = io.BytesIO()
    image.save(out, "PNG")
    plain = out.getvalue()
    chunk = b"acTL" + struct.pack(">II", 1, 0)
    whole = struct.pack(">I", 8) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return plain[:33] + whole + plain[33:]


def test_what_a_jpeg_cannot_hold_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    image = photo(200, 150)
    transparent = image.copy()
    transparent.putalpha(128)
    save(transparent, folder / "a/alpha.png")
    save(transparent, folder / "a/alpha.webp")
    save(image.convert("1"), folder / "a/bits.png")
    save(
        Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) << 8), folder / "a/16.png"
    )
    frames = [photo(200, 150, seed) for seed in range(3)]
    save(frames[0], folder / "a/film.webp", save_all=True, append_images=frames[1:])
    (folder / "a/film.png").write_bytes(animated_png(image))
    dataset = pack(folder, tmp_path / "set", "--resize", SHORT)
    stored = {hashlib.sha256(dataset.read(number)).digest() for number in range(len(dataset))}
    assert stored == {hashlib.sha256(path.read_bytes()).digest() for path in folder.rglob("*.*")}
    (report,) = (tmp_path / "set/snapshots").glob("*.report.json")
    assert json.loads(report.read_text())["kept"] == {
        "PNG: transparent, animated or not 8 bits a channel": 4,
        "WebP: transparent, animated or not 8 bits a channel": 2,
    }


def test_bytes_do_not_depend_on_threads_and_simd(photos: Path, tmp_path: Path) -> None:
    options = ("--resize", SHORT, "--chunk-bytes", 65536)
    digests = []
    for number, (threads, plain) in enumerate([(1, False), (4, False), (2, True)]):
        # Without SIMD, libjpeg-turbo encodes with its plain C code.
        env = os.environ | ({"JSIMD_FORCENONE": "1"} if plain else {})
        where = tmp_path / f"set{number}"
        dataset = pack(photos, where, *options, "--threads", threads, env=env)
        digests.append([hashlib.sha256(dataset.read(i)).hexdigest() for i in range(len(dataset))])
    assert digests[0] == digests[1] == digests[2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--quality", 80], "--quality 80 without --resize"),
        (["--resize", 0], "--resize 0: the short side of resized images has 1 to 16384 pixels"),
        (["--resize", 16385], "--resize 16385: the short side"),
        (["--resize", 10, "--quality", 0], "--quality 0: resized images are encoded with quality"),
        (["--resize", 10, "--quality", 101], "--quality 101: resized images"),
    ],
)
def test_options_that_make_no_sense(options: list[object], said: str, tmp_path: Path) -> None:
    save(photo(20, 20), tmp_path / "images/a/1.jpg")
    done = run_forebay("pack", tmp_path / "images", tmp_path / "set", *options, code=1)
    assert said in done.stderr
    assert not (tmp_path / "set").exists()


def test_the_summary_says_that_it_is_lossy(photos: Path, tmp_path: Path) -> None:
    done = run_forebay("pack", photos, tmp_path / "set", "--resize", SHORT)
    assert "made smaller and encoded again (lossy): 7 images" in done.stdout
    described = run_forebay("inspect", tmp_path / "set").stdout
    assert "(lossy): 7 images, by --resize 100 --quality 90" in described
    again = run_forebay("pack", photos, tmp_path / "set", "--resize", SHORT, "--json")
    assert json.loads(again.stdout.splitlines()[-1])["resized"] == 7
    other = run_forebay("pack", photos, tmp_path / "set", code=1)
    assert "--resize 100 --quality 90, now without --resize" in other.stderr
    run_forebay("verify", "--pixels", tmp_path / "set")
