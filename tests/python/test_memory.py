"""Whole images and files count towards memory_bytes_max."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import forebay

IMAGES = 40
SIZE = (1500, 1000)
IMAGE_BYTES = SIZE[0] * SIZE[1] * 3


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a folder of images that are small files but large when they are decoded."""
    folder = tmp_path_factory.mktemp("large")
    for number in range(IMAGES):
        file = io.BytesIO()
        Image.new("RGB", SIZE, (number, 2 * number, 90)).save(file, "JPEG")
        path = folder / "ab"[number % 2] / f"{number:02}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(file.getvalue())
    return folder


@pytest.mark.parametrize("batch_transform", [None, lambda batch: batch])
def test_whole_images_are_counted(large: Path, batch_transform: Any) -> None:
    limit = 8 * IMAGE_BYTES
    loader = forebay.Loader(
        large,
        2,
        fields=("image", "index"),
        prefetch_factor=16,
        memory_bytes_max=limit,
        batch_transform=batch_transform,
    )
    seen = []
    for images, indexes in loader:
        assert [tuple(image.shape) for image in images] == [(3, SIZE[1], SIZE[0])] * 2
        seen += np.asarray(indexes).tolist()
        del images  # the next batch needs the memory
    assert seen == list(range(IMAGES))
    assert 2 * IMAGE_BYTES <= loader.stats()["batch_bytes_peak"] <= limit


def test_who_holds_too_many_is_told(large: Path) -> None:
    loader = forebay.Loader(large, 2, prefetch_factor=16, memory_bytes_max=6 * IMAGE_BYTES)
    batches = iter(loader)
    held = [next(batches), next(batches)]
    with pytest.raises(MemoryError, match="memory_bytes_max"):
        while True:
            held.append(next(batches))
    assert 2 <= len(held) <= 3
    loader = forebay.Loader(large, 8, memory_bytes_max=6 * IMAGE_BYTES)
    with pytest.raises(MemoryError, match="memory_bytes_max"):
        next(iter(loader))


RSS = """
import resource, sys, time
import forebay
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
loader = forebay.Loader(sys.argv[1], 2, prefetch_factor=32, memory_bytes_max=40_000_000)
before = peak()
for step, (images, labels) in enumerate(loader):
    time.sleep(2 if step == 0 else 0)  # time to make all batches ahead
    del images
print(peak() - before)
"""


def test_the_process_keeps_to_it(large: Path) -> None:
    """All decoded images together take 180 MB, and the threads need scratch memory besides."""
    command = [sys.executable, "-c", RSS, str(large)]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert grown < 120_000_000
