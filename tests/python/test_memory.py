"""Whole images and files count towards memory_bytes_max."""

import io
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import forebay
from forebay import transforms as T
from servers.prep_server import PrepServer

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


@pytest.mark.parametrize("batch", [2048, 2**20])
@pytest.mark.parametrize("drop_last", [False, True])
def test_slots_that_no_sample_fills_take_no_memory(
    packed: Path, batch: int, drop_last: bool
) -> None:
    """2048 slots of 224 x 224 x 3 numbers, four times, are 5 GB; 70 samples are 170 MB."""
    dataset = forebay.Dataset(packed)
    options: dict[str, Any] = {"transform": T.evaluate(224, 224), "fields": ["image", "index"]}
    ways: dict[str, tuple[forebay.Dataset, dict[str, Any]]] = {
        "in order": (dataset, {"drop_last": drop_last}),
        "shuffled": (dataset, {"shuffle": True, "drop_last": drop_last}),
        "weights": (dataset.weighted(np.ones(70)), {"shuffle": True, "drop_last": drop_last}),
        "sampler": (dataset, {"sampler": range(70), "drop_last": drop_last}),
        "repeats": (dataset, {"repeats": 2, "drop_last": drop_last}),
        "bucket": (dataset, {"batch_sampler": [list(range(70))]}),
    }
    for way, (given, more) in ways.items():
        size: Any = {} if way == "bucket" else {"batch_size": batch}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*epochs have no batches")
            loader = forebay.Loader(given, **size, **options, **more)
        epochs = [[len(index) for _, index in loader] for _ in range(2)]
        expected = [] if drop_last and way != "bucket" else [70]
        assert epochs == [expected, expected], way
        assert loader.stats()["batch_bytes_peak"] < 1_000_000_000, way
    if not drop_last:
        ranks = [
            forebay.Loader(dataset, batch // 4, rank=rank, world_size=3, **options)
            for rank in range(3)
        ]
        shares = [index.tolist() for loader in ranks for _, index in loader]
        assert sorted(n for share in shares for n in share) == list(range(70))


def test_prep_servers_prepare_batches_that_are_not_full(packed: Path) -> None:
    options: dict[str, Any] = {"transform": T.train(96), "shuffle": True, "num_workers": 1}
    plain = forebay.Loader(packed, 2**20, **options)
    server = PrepServer(packed)
    try:
        loader = forebay.Loader(packed, 2**20, prep=server.url, **options)
        for _ in range(12):
            ((images, labels),) = loader
            ((own_images, own_labels),) = plain
            assert images.equal(own_images) and labels.equal(own_labels)
        figures = loader.prep_servers()[0]
        assert figures["trouble"] == "" and figures["batches"] > 0
    finally:
        server.kill()
