"""Masks whose colours stand for classes, like those of CamVid."""

import itertools
import pickle
import struct
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import forebay
from conftest import run_forebay
from forebay import transforms as T
from test_targets import NOTHING, same

SKY, BUILDING, VOID = (128, 128, 128), (128, 0, 0), (0, 0, 0)
PALETTE: dict[Any, int] = {SKY: 0, BUILDING: 1, VOID: 11}
COUNT = 5
WIDTH, HEIGHT = 40, 30


def save(path: Path, image: Image.Image, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)


def colours_of(labels: np.ndarray) -> Image.Image:
    out = np.zeros((*labels.shape, 3), np.uint8)
    for colour, number in PALETTE.items():
        out[labels == number] = colour
    return Image.fromarray(out)


def chunk(name: bytes, content: bytes) -> bytes:
    """A chunk of a PNG."""
    crc = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", crc)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Images, their masks in colours and the same masks with numbers."""
    random = np.random.default_rng(5)
    for i in range(COUNT):
        pixels = random.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
        save(tmp_path / f"images/{i}.png", Image.fromarray(pixels))
        labels = random.choice(list(PALETTE.values()), (HEIGHT, WIDTH)).astype(np.uint8)
        save(tmp_path / f"colours/{i}.png", colours_of(labels))
        save(tmp_path / f"numbers/{i}.png", Image.fromarray(labels))
    return tmp_path


def masks_of(dataset: forebay.Dataset, transform: Any = NOTHING, **options: Any) -> list[Any]:
    loader = forebay.Loader(dataset, 2, transform=[transform], seed=3,
                            fields=["image", "mask", "index"], **options)  # fmt: skip
    return list(loader)


@pytest.mark.parametrize("transform", [NOTHING, T.RandomResizedCrop(16), T.RandomRotation(40)])
@pytest.mark.parametrize("palette", [PALETTE, {**PALETTE, None: 7}], ids=["all", "others"])
def test_colours_give_their_numbers(place: Path, transform: Any, palette: Any):
    expected = masks_of(forebay.Dataset(place / "images", masks=place / "numbers"), transform)
    dataset = forebay.Dataset(place / "images", masks=place / "colours", palette=palette)
    assert same(masks_of(dataset, transform), expected)
    assert same(masks_of(pickle.loads(pickle.dumps(dataset)), transform), expected)


def test_a_list_numbers_its_colours(place: Path):
    for colours in ([VOID, BUILDING, SKY], np.array([VOID, BUILDING, SKY])):
        dataset = forebay.Dataset(place / "images", masks=place / "colours", palette=colours)
        masks = torch.stack([mask for _, masks, _ in masks_of(dataset) for mask in masks])
        assert masks.dtype == torch.uint8
        expected = np.stack(
            [np.array(Image.open(place / f"numbers/{i}.png")) for i in range(COUNT)]
        )
        renumbered = np.select([expected == 0, expected == 1, expected == 11], [2, 1, 0])
        assert np.array_equal(masks.numpy(), renumbered)


def test_it_does_not_matter_how_a_file_stores_its_colours(place: Path):
    for i, to in itertools.product(range(COUNT), ("RGBA", "P")):
        with Image.open(place / f"colours/{i}.png") as image:
            other = image.convert(to, palette=Image.Palette.ADAPTIVE)
        if to == "RGBA":
            other.putalpha(i)
        save(place / f"{to}/{i}.png", other)
    for i in range(COUNT):
        save(place / f"grey/{i}.png", Image.new("L", (WIDTH, HEIGHT), (0, 128)[i % 2]))
    expected = masks_of(forebay.Dataset(place / "images", masks=place / "numbers"))
    for to in ("RGBA", "P"):
        dataset = forebay.Dataset(place / "images", masks=place / to, palette=PALETTE)
        assert same(masks_of(dataset), expected), to
    grey = forebay.Dataset(place / "images", masks=place / "grey", palette=PALETTE)
    found = [int(mask.unique().item()) for _, masks, _ in masks_of(grey) for mask in masks]
    assert found == [(11, 0)[i % 2] for i in range(COUNT)]


def test_without_a_palette_a_paletted_file_gives_its_indexes(place: Path):
    for i in range(COUNT):
        labels = np.array(Image.open(place / f"numbers/{i}.png"))
        mask = Image.fromarray(labels, "P")
        mask.putpalette([channel for i in range(256) for channel in (i // 2, 255 - i, 3)])
        save(place / f"voc/{i}.png", mask)
    expected = masks_of(forebay.Dataset(place / "images", masks=place / "numbers"))
    assert same(masks_of(forebay.Dataset(place / "images", masks=place / "voc")), expected)


def test_an_unknown_colour_names_file_and_pixel(place: Path):
    with Image.open(place / "colours/3.png") as image:
        image.putpixel((7, 2), (9, 8, 200))
        image.save(place / "colours/3.png")
    dataset = forebay.Dataset(place / "images", masks=place / "colours", palette=PALETTE)
    message = (
        r"the sample's mask: 3.png: the pixel in column 7, row 2 \(counted from 0\) has the colour "
        r"\(9, 8, 200\), which is not in the palette"
    )
    with pytest.warns(UserWarning, match=message):
        loaded = masks_of(dataset, on_bad="skip")
    assert [i for _, _, index in loaded for i in index.tolist()] == [0, 1, 2, 4]
    others = forebay.Dataset(
        place / "images", masks=place / "colours", palette={**PALETTE, None: 255}
    )
    (mask,) = [masks[i] for _, masks, index in masks_of(others) for i in range(len(index))
               if index[i] == 3]  # fmt: skip
    assert (mask == 255).nonzero().tolist() == [[2, 7]]


def test_colours_without_a_palette_say_what_to_do(place: Path):
    dataset = forebay.Dataset(place / "images", masks=place / "colours")
    with pytest.warns(UserWarning, match=r"or an alpha channel; Dataset\(…, palette=…\)"):
        assert sum(len(index) for _, _, index in masks_of(dataset, on_bad="skip")) == 0


def test_wide_and_damaged_masks_are_bad_samples(place: Path):
    wide = np.zeros((HEIGHT, WIDTH), np.uint16)
    Image.fromarray(wide).save(place / "colours/0.png")
    whole = (place / "colours/1.png").read_bytes()
    (place / "colours/1.png").write_bytes(whole[:-30])
    save(place / "colours/2.png", Image.new("RGB", (3, 4)))
    (place / "colours/4.png").write_bytes(b"GIF89a")
    dataset = forebay.Dataset(place / "images", masks=place / "colours", palette=PALETTE)
    with pytest.warns(UserWarning) as told:
        loaded = masks_of(dataset, on_bad="skip")
    assert [i for _, _, index in loaded for i in index.tolist()] == [3]
    messages = " ".join(str(one.message) for one in told)
    for part in ("must have 8 bits a channel, not 16", "1.png: PNG", "has 3 x 4 pixels",
                 "4.png: a map of labels must be a PNG"):  # fmt: skip
        assert part in messages


def test_shards_with_colours_are_packed_and_opened_with_a_palette(place: Path, tmp_path: Path):
    with tarfile.open(tmp_path / "all.tar", "w") as shard:
        for i in range(COUNT):
            shard.add(place / f"images/{i}.png", f"{i}.png")
            shard.add(place / f"colours/{i}.png", f"{i}.seg.png")
    run_forebay("pack", tmp_path / "all.tar", tmp_path / "set", "--order", "listed")
    expected = masks_of(forebay.Dataset(place / "images", masks=place / "numbers"))
    assert same(masks_of(forebay.Dataset(tmp_path / "set", palette=PALETTE)), expected)


def test_colours_are_packed_and_opened_with_a_palette(place: Path, tmp_path: Path):
    wide = np.zeros((HEIGHT, WIDTH), np.uint8)
    Image.fromarray(wide).save(place / "colours/2.png")
    options = ("--masks", place / "colours", "--order", "listed")
    done = run_forebay("pack", place / "images", tmp_path / "set", *options)
    assert "kept as they were: 4 (masks in colours: give Dataset a palette)" in done.stdout
    packed = forebay.Dataset(tmp_path / "set", palette=PALETTE)
    expected = forebay.Dataset(place / "images", masks=place / "colours", palette=PALETTE)
    assert same(masks_of(packed), masks_of(expected))
    with pytest.warns(UserWarning, match=r"or an alpha channel; Dataset\(…, palette=…\)"):
        found = masks_of(forebay.Dataset(tmp_path / "set"), on_bad="skip")
    assert [i for _, _, index in found for i in index.tolist()] == [2]


def test_colours_with_16_bits_are_not_packed(place: Path, tmp_path: Path):
    """Pillow cannot write such a file."""
    rows = b"".join(b"\0" + b"\0\1" * 3 * WIDTH for _ in range(HEIGHT))
    (place / "colours/2.png").write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 16, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )
    options = ("--masks", place / "colours", "--skip-max", "1")
    done = run_forebay("pack", place / "images", tmp_path / "set", *options)
    assert "must have 8 bits a channel, not 16" in done.stdout
    assert len(forebay.Dataset(tmp_path / "set")) == COUNT - 1


@pytest.mark.parametrize(
    ("palette", "message"),
    [
        ("camvid", "palette is 'camvid', but must be a mapping"),
        (7, "palette is 7, but must be"),
        ({}, "there are no colours"),
        ([], "there are no colours"),
        ({None: 3}, "there are no colours"),
        ({(1, 2): 0}, r"\(1, 2\) is no colour"),
        ({"red": 0}, "'red' is no colour"),
        ([(1, 2, 3, 4)], "is no colour"),
        ([(1, 2, 256)], "must be from 0 to 255"),
        ([(1, 2, -1)], "must be from 0 to 255"),
        ([(1, 2, 0.5)], "must be a whole number"),
        ([(1, 2, 3), (3, 2, 1), (1, 2, 3)], r"\(1, 2, 3\) comes more than once"),
        ({(1, 2, 3): 256}, r"class number of \(1, 2, 3\) is 256, but must be from 0 to 255"),
        ({(1, 2, 3): "sky"}, "class number of .* must be a whole number"),
        ({(1, 2, 3): 0, None: -1}, "class number of all other colours is -1"),
        ([(i, 0, j) for i in range(256) for j in (0, 1)], "must be from 0 to 255"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_palette_is_refused(palette: Any, message: str, place: Path):
    with pytest.raises(ValueError, match=message):
        forebay.Dataset(place / "images", masks=place / "colours", palette=palette)


def test_a_palette_needs_masks(place: Path):
    with pytest.raises(ValueError, match="palette: there are no masks"):
        forebay.Dataset(place / "images", palette=PALETTE)


def test_sums_have_one_palette(place: Path):
    one = forebay.Dataset(place / "images", masks=place / "colours", palette=PALETTE)
    both = forebay.concat([one.subset([0, 1]), one.subset([2])])
    expected = forebay.Dataset(place / "images", masks=place / "numbers").subset([0, 1, 2])
    assert same(masks_of(both), masks_of(expected))
    numbers = forebay.Dataset(place / "images", masks=place / "numbers")
    with pytest.raises(ValueError, match="different kinds of annotations or palettes"):
        _ = forebay.concat([one, numbers]).objects
