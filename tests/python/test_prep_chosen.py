"""Prep servers with samplers, weights, repeats and annotations: the host sends them the tables."""

import hashlib
import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DistributedSampler, RandomSampler

import forebay
from conftest import IMAGES
from forebay import transforms
from servers.prep_server import PrepServer

BATCH = 4
# This takes long, so that a prep server has time to help in epochs of a few batches.
TRANSFORM = [transforms.RandomResizedCrop(256), transforms.AugMix()]


def digest(batch: Any) -> str:
    """A batch as a short text."""
    if isinstance(batch, torch.Tensor | np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(batch).tobytes()).hexdigest()
    parts = batch.values() if isinstance(batch, dict) else batch
    if isinstance(parts, Iterable) and not isinstance(parts, str):
        return hashlib.sha256("".join(map(digest, parts)).encode()).hexdigest()
    return repr(parts)


def batches(one: forebay.Loader, epochs: int) -> list[str]:
    """All batches of some epochs."""
    return [digest(batch) for _ in range(epochs) for batch in one]


def check_shared(dataset: Any, server: PrepServer, make: Any, **options: Any) -> None:
    """A prep server must make some batches, and all must be the same as without it.

    Args:
        dataset: The loader's dataset.
        server: A prep server for the same data.
        make: Returns options that two loaders must not share, such as a sampler.
        options: Further options of the loader.
    """
    given = {"transform": TRANSFORM, "num_workers": 1, "seed": 5, **options}
    plain = forebay.Loader(dataset, BATCH, **given, **make())
    one = forebay.Loader(dataset, BATCH, **given, **make(), prep=server.url)
    for turn in itertools.count():
        assert batches(one, 1) == batches(plain, 1)
        figures = one.prep_servers()[0]
        assert figures["trouble"] == ""
        if figures["batches"] > 3 and turn > 3:
            break
        assert turn < 300, figures
    assert figures["is_up"], figures


def sampler_of(dataset: Any) -> RandomSampler:
    generator = torch.Generator().manual_seed(3)
    return RandomSampler(dataset, replacement=True, num_samples=150, generator=generator)


def test_samplers_weights_and_repeats(packed: Path):
    server = PrepServer(packed)
    try:
        data: Any = forebay.Dataset(packed)
        check_shared(packed, server, lambda: {"sampler": sampler_of(data)})
        check_shared(packed, server, lambda: {"sampler": DistributedSampler(data, 1, 0)})
        weights = [float(number % 3) for number in range(IMAGES)]
        check_shared(data.weighted(weights), server, dict, shuffle=True, samples_per_epoch=50)
        check_shared(packed, server, dict, shuffle=True, repeats=3)
    finally:
        server.kill()


def test_selections(packed: Path):
    server = PrepServer(packed)
    try:
        some = forebay.Dataset(packed).subset(list(range(60, 10, -1)))
        check_shared(some, server, dict, shuffle=True)
        again = some.subset([*range(40), 3, 3]).weighted([1.0, *[2.0] * 41])
        check_shared(again, server, dict, shuffle=True)
        both = forebay.concat([some, some])
        with pytest.raises(ValueError, match="another dataset"):
            batches(forebay.Loader(both, BATCH, transform=TRANSFORM, prep=server.url), 1)
    finally:
        server.kill()


def test_a_sampler_resumes_inside_of_its_epoch(packed: Path):
    server = PrepServer(packed)
    try:
        data: Any = forebay.Dataset(packed)
        options: dict[str, Any] = {"transform": TRANSFORM, "num_workers": 1, "seed": 5}
        make = lambda **more: forebay.Loader(  # noqa: E731
            data, BATCH, sampler=DistributedSampler(data, 1, 0), **options, **more
        )
        expected = batches(make(), 2)
        first = make(prep=server.url)
        begun = list(itertools.islice(first, 5))
        second = make(prep=server.url)
        second.load_state_dict(first.state_dict())
        assert [digest(batch) for batch in begun] + batches(second, 2) == expected
        third = make()
        third.load_state_dict(first.state_dict())
        assert batches(third, 2) == expected[5:]
    finally:
        server.kill()


@pytest.fixture(scope="module")
def annotated(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> forebay.Dataset:
    """The folder, with up to two boxes and outlines for each image."""
    random = np.random.default_rng(1)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    for number, path in enumerate(paths):
        with Image.open(path) as image:
            width, height = image.size
        name = path.relative_to(folder).as_posix()
        images.append({"id": number, "file_name": name, "width": width, "height": height})
        for _ in range(number % 3):
            left, top = (random.uniform(0, side / 2) for side in (width, height))
            right, bottom = left + width / 3, top + height / 3
            annotations.append(
                {
                    "id": len(annotations), "image_id": number, "category_id": 1, "iscrowd": 0,
                    "bbox": [left, top, width / 3, height / 3], "area": width * height / 9,
                    "segmentation": [[left, top, right, top, right, bottom]],
                }
            )  # fmt: skip
    document = tmp_path_factory.mktemp("annotated") / "all.json"
    categories = [{"id": 1, "name": "thing"}]
    document.write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": categories})
    )
    return forebay.Dataset(folder, annotations=document)


def test_boxes_and_masks(annotated: forebay.Dataset, folder: Path):
    server = PrepServer(folder)
    try:
        fields = ["image", "boxes", "labels", "masks", "index"]
        without_blends = [transforms.RandomResizedCrop(256), transforms.RandomHorizontalFlip()]
        given = {"shuffle": True, "fields": fields, "transform": without_blends}
        check_shared(annotated, server, dict, **given)
    finally:
        server.kill()


def test_boxes_and_masks_in_fractions(folder: Path, tmp_path: Path):
    random = np.random.default_rng(2)
    for number, path in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        name = path.relative_to(folder).with_suffix(".txt")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        places = random.uniform(0.3, 0.5, (number % 3, 4)).round(6).tolist()
        boxes = [f"0 {x} {y} {width} {height}" for x, y, width, height in places]
        (tmp_path / name).write_text("\n".join([*boxes, "1 0.1 0.1 0.9 0.1 0.5 0.8"]))
    server = PrepServer(folder)
    try:
        fields = ["image", "boxes", "area", "masks", "index"]
        without_blends = [transforms.RandomResizedCrop(256), transforms.RandomHorizontalFlip()]
        given = {"shuffle": True, "fields": fields, "transform": without_blends}
        check_shared(forebay.Dataset(folder, annotations=tmp_path), server, dict, **given)
    finally:
        server.kill()


def test_weights_come_in_their_order(packed: Path):
    data = forebay.Dataset(packed).weighted([1.0] * IMAGES)
    prep = forebay.Prep("http://127.0.0.1:9", policy="wrr")
    with pytest.raises(ValueError, match="drawn by weights"):
        forebay.Loader(data, BATCH, shuffle=True, transform=TRANSFORM, prep=prep)
