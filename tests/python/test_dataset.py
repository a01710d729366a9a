"""Compares forebay.Dataset and forebay.decode with the packed files and with Pillow's pixels."""

import io
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import forebay
from conftest import pack


def pillow_pixels(file: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))


def file_of(images: dict[str, bytes], key: str) -> bytes:
    return images[f"{key}.jpg"]


def test_samples_are_the_packed_files(packed: Path, images: dict[str, bytes]):
    dataset = forebay.Dataset(packed)
    keys = dataset.keys()
    assert len(dataset) == len(images)
    assert sorted(f"{key}.jpg" for key in keys) == sorted(images)
    assert dataset.classes == ["class0", "class1", "class2"]
    assert dataset.class_to_idx["class2"] == 2
    for i in (0, 7, len(dataset) - 1, -1):
        key = dataset.key(i)
        assert key == keys[i]
        assert dataset.find(key) == i % len(dataset)
        pixels, label = dataset[i]
        assert label == dataset.targets[i] == int(key[5])
        # The rewrite loses nothing, and the decoder is exact.
        assert np.array_equal(pixels, pillow_pixels(file_of(images, key)))
        assert np.array_equal(pixels, pillow_pixels(dataset.read(i)))
    assert [label for _, label in dataset[2:9:3]] == dataset.targets[2:9:3].tolist()
    assert dataset.find("no such key") is None


def test_a_folder_in_place_is_its_files(folder: Path, images: dict[str, bytes]):
    dataset = forebay.Dataset(folder)
    names = sorted(images)
    keys = dataset.keys()
    assert [f"{key}.jpg" for key in keys] == names
    assert dataset.targets.tolist() == [int(name[5]) for name in names]
    assert dataset.read(3) == images[names[3]]
    assert np.array_equal(dataset[-1][0], pillow_pixels(images[names[-1]]))
    assert dataset.find("class1/001") == names.index("class1/001.jpg")


def test_a_copy_in_another_process_is_the_same(packed: Path):
    dataset = forebay.Dataset(packed)
    assert pickle.loads(pickle.dumps(dataset)).fingerprint == dataset.fingerprint


def test_errors_are_pythons(packed: Path, tmp_path: Path):
    dataset = forebay.Dataset(packed)
    for index in (len(dataset), -len(dataset) - 1):
        with pytest.raises(IndexError, match="no sample"):
            dataset[index]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        forebay.Dataset(tmp_path / "nowhere")
    with pytest.raises(forebay.DataError, match="image 1"):
        forebay.decode([dataset.read(0), b"no image"])
    many = [dataset.read(0)] * 40
    many[37] = b"no image"
    for threads in (1, 2):
        with pytest.raises(forebay.DataError, match="image 37"):
            forebay.decode(many, threads=threads)
    (tmp_path / "HEAD").write_text("nothing")
    with pytest.raises(forebay.DataError, match="HEAD"):
        forebay.Dataset(tmp_path)


def test_damaged_bytes_are_told(images: dict[str, bytes], tmp_path: Path):
    path = pack(dict(list(images.items())[:4]), tmp_path)
    dataset = forebay.Dataset(path)
    file = dataset.read(1)
    (chunk,) = (path / "chunks").iterdir()
    content = bytearray(chunk.read_bytes())
    content[content.index(file) + len(file) // 2] ^= 1
    os.chmod(chunk, 0o644)
    chunk.write_bytes(content)
    with pytest.raises(forebay.DataError, match="sample 1: .*checksum"):
        dataset[1]
    assert dataset[0][0].ndim == 3


@pytest.mark.parametrize("threads", [1, 3, None])
def test_decode_equals_pillow(images: dict[str, bytes], threads: int | None):
    files = list(images.values())
    made = forebay.decode(files, threads=threads)
    assert len(made) == len(files)
    for file, pixels in zip(files, made, strict=True):
        assert np.array_equal(pixels, pillow_pixels(file))
    for kind in (bytes, bytearray, memoryview):
        assert np.array_equal(forebay.decode(kind(files[5])), made[5])
    assert forebay.decode([], threads=threads) == []


def test_a_path_is_of_the_folder_in_which_it_was_opened(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(packed.parent)
    dataset = forebay.Dataset(packed.name)
    expected = dataset[0][0]
    monkeypatch.chdir(tmp_path)
    assert np.array_equal(dataset[0][0], expected)
    assert np.array_equal(pickle.loads(pickle.dumps(dataset))[0][0], expected)
    for wrong in (None, 3, {"path": 1}):
        with pytest.raises(ValueError, match="dataset is .*, but must be a path"):
            forebay.Dataset(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="set: not a regular file.*opened by its path alone"):
        forebay.Dataset([str(packed)])


def test_decode_takes_arrays_and_tells_what_is_no_file(images: dict[str, bytes]):
    file = next(iter(images.values()))
    expected = forebay.decode(file)
    spread = memoryview(b"".join(bytes([byte, 0]) for byte in file))[::2]
    for one in (np.frombuffer(file, np.uint8), spread):
        assert np.array_equal(forebay.decode(one), expected)
    column = np.array([file, file, None], object)[:2]
    several: Any
    for several in ([bytearray(file), spread], column, (one for one in (file, file))):
        assert np.array_equal(forebay.decode(several)[1], expected)
    wrong: list[Any] = [None, "path.jpg", Path("path.jpg"), io.BytesIO(file), np.zeros(9, np.int64)]
    for other in wrong:
        for data in (other, [other]):
            with pytest.raises(ValueError, match="file 0 is .*, but must be bytes"):
                forebay.decode(data)


def test_decode_keeps_no_more_threads_than_asked_for(images: dict[str, bytes]):
    file = next(iter(images.values()))
    expected = forebay.decode(file)
    for count in range(17, 200, 16):
        many = forebay.decode([bytearray(file), *[file] * count], threads=3)
        assert np.array_equal(many[0], expected)
    names = [thread.name for thread in threading.enumerate()]
    assert sum(name.startswith("forebay-decode") for name in names) <= 3 + 2


def test_decoded_pixels_outlive_their_decoder(images: dict[str, bytes]):
    file = next(iter(images.values()))
    pixels = forebay.decode(file)
    kept = pixels.copy()
    forebay.decode(list(images.values()), threads=1)
    assert np.array_equal(pixels, kept)
    pixels[0, 0] = 7  # the pixels belong to the caller alone
    with pytest.raises(ValueError, match="threads is 0"):
        forebay.decode([file], threads=0)


def test_a_path_may_begin_with_the_home_folder(packed: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(packed.parent))
    assert forebay.Dataset(f"~/{packed.name}").path == str(packed)
