"""A cache is filled ahead of a slow consumer, from real servers, and each byte comes once."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import forebay
from conftest import pack
from places import Place, epoch, on_web, through
from servers.chaos import ChaosProxy, Fault
from servers.nginx import Nginx
from servers.processes import wait_for

IMAGES = 160
MORE: dict[str, Any] = {"regions": "never", "memory_bytes_max": 12_000_000}


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a packed set that is several times as large as what a loader reads ahead."""
    root = tmp_path_factory.mktemp("large")
    random = np.random.default_rng(1)
    for number in range(IMAGES):
        path = root / f"images/class{number % 3}/{number:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 256, (360, 480, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path, quality=95)
    return pack({}, root, "--chunk-bytes", "4000000")


@pytest.fixture
def far(nginx: Nginx, large: Path, chaos: Callable[[str], ChaosProxy]) -> tuple[str, ChaosProxy]:
    """Returns the set's URL behind a proxy, and the proxy, which lists what it is asked for."""
    proxy = chaos(nginx.url)
    return through(Place(f"{nginx.url}/{on_web(nginx, large)}", None, nginx.url), proxy).url, proxy


def sample_bytes(large: Path) -> int:
    """Returns the bytes of all images of the packed set."""
    dataset = forebay.Dataset(large)
    return sum(len(dataset.read(number)) for number in range(len(dataset)))


def asked(proxy: ChaosProxy) -> list[tuple[str, int, int]]:
    """Returns the ranges of chunks that were asked for: the chunk, the first and the last byte."""
    ranges = []
    for request in proxy.requests():
        if "/chunks/" not in request.line or request.fault >= 0:
            continue
        for part in request.range.removeprefix("bytes=").split(","):
            first, last = part.split("-")
            ranges.append((request.line, int(first), int(last)))
    return ranges


def test_what_a_slow_consumer_needs_later_comes_ahead_and_once(
    far: tuple[str, ChaosProxy], large: Path, tmp_path: Path
) -> None:
    url, proxy = far
    needed = sample_bytes(large)
    cache = forebay.Cache(tmp_path, disk_bytes="1GB")
    alone: list[int] = []

    def wait_until_all_is_held() -> None:
        wait_for(lambda: cache.stats()["origin_bytes"] >= needed)
        alone.append(len(asked(proxy)))

    hashes = epoch(url, cache=cache, after_first=wait_until_all_is_held, **MORE)
    assert hashes == epoch(large, regions="never")
    assert cache.stats()["ahead_bytes"] > needed / 4
    ranges = asked(proxy)
    assert len(ranges) == alone[0]
    for (chunk, _, last), (after, first, _) in zip(
        sorted(ranges), sorted(ranges)[1:], strict=False
    ):
        assert chunk != after or last < first


def test_a_cache_that_is_too_small_is_filled_ahead_and_no_further(
    far: tuple[str, ChaosProxy], large: Path, tmp_path: Path
) -> None:
    url, _ = far
    room = sample_bytes(large) // 2
    cache = forebay.Cache(tmp_path, disk_bytes=room)
    hashes = epoch(
        url,
        cache=cache,
        after_first=lambda: wait_for(lambda: cache.stats()["disk_held_bytes"] > 0.9 * room),
        **MORE,
    )
    assert hashes == epoch(large, regions="never")
    stats = cache.stats()
    assert stats["ahead_bytes"] <= room
    assert stats["dropped_bytes"] == 0
    # What was fetched ahead is used: nothing came twice, but for what was read of the next epoch.
    read_ahead = 1.5 * MORE["memory_bytes_max"]
    assert stats["origin_bytes"] <= 1.01 * sample_bytes(large) + read_ahead


def test_a_loader_is_closed_and_a_process_forks_while_a_cache_is_filled(
    far: tuple[str, ChaosProxy], large: Path, tmp_path: Path
) -> None:
    url, proxy = far
    cache = forebay.Cache(tmp_path, disk_bytes="1GB")
    with forebay.Loader(url, 8, True, cache=cache, **MORE) as loader:
        next(iter(loader))
        proxy.program(Fault(match="chunks", action="stall", at=1000, times=-1))
        wait_for(lambda: any(request.fault == 0 for request in proxy.requests()))
        child = os.fork()
        if not child:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    proxy.program()
    assert epoch(url, cache=cache, **MORE) == epoch(large, regions="never")
