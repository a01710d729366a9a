"""A dataset on real servers, and the epochs that tests of remote data compare."""

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import forebay
from forebay import transforms
from servers.chaos import ChaosProxy
from servers.nginx import Nginx
from servers.s3 import S3

PHOTOS = 48
CROP = [transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip()]


def make_photo(seed: int) -> Image.Image:
    """Makes an image with much detail, whose file is as large as that of a photograph."""
    random = np.random.default_rng(seed)
    noise = random.integers(0, 256, (90, 120, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((480, 360), Image.Resampling.BICUBIC)


@dataclass(frozen=True)
class Place:
    """Where the photographs lie, too."""

    url: str
    options: dict[str, Any] | None
    server: str  # http://127.0.0.1:PORT


def s3_options(s3: S3, endpoint: str | None = None) -> dict[str, Any]:
    """Returns storage options as the users of fsspec write them."""
    return {
        "key": s3.key.access,
        "secret": s3.key.secret,
        "client_kwargs": {"endpoint_url": endpoint or s3.endpoint, "region_name": "default"},
    }


def environment(s3: S3) -> dict[str, str]:
    """Returns the variables by which a command finds the store."""
    return {
        **os.environ,
        "AWS_ACCESS_KEY_ID": s3.key.access,
        "AWS_SECRET_ACCESS_KEY": s3.key.secret,
        "AWS_ENDPOINT_URL": s3.endpoint,
        "AWS_REGION": "default",
    }


def through(place: Place, proxy: ChaosProxy) -> Place:
    """Returns the same place behind a proxy."""
    if place.options is None:
        return Place(place.url.replace(place.server, proxy.url), None, proxy.url)
    kwargs = {**place.options["client_kwargs"], "endpoint_url": proxy.url}
    return Place(place.url, {**place.options, "client_kwargs": kwargs}, proxy.url)


def epoch(path: Any, options: dict[str, Any] | None = None, **more: Any) -> list[str]:
    """Returns a hash of each batch of an epoch."""
    loader = forebay.Loader(
        path, 8, True, transform=CROP, seed=5, storage_options=options, num_workers=2, **more
    )
    with loader:
        hashes = [hashlib.sha256(x.numpy().tobytes() + y.numpy().tobytes()) for x, y in loader]
        assert loader.bad_samples == []
    return [one.hexdigest() for one in hashes]


def on_web(nginx: Nginx, photos: Path) -> str:
    """Returns a name below nginx's URLs by which it has the photographs of this process."""
    name = f"photos-{os.getpid()}"
    if not (nginx.folder / name).exists():
        (nginx.folder / name).symlink_to(photos)
    return name


def error_of(path: Any, options: dict[str, Any] | None = None) -> str:
    """Returns the message of the error that ends an epoch of whole images."""
    with pytest.raises(OSError) as error:
        epoch(path, options, regions="never")
    return str(error.value)


# Reads every sample sixty times, a thousand at a time, and says how many were right.
READS = """
import sys
from concurrent.futures import ThreadPoolExecutor
import forebay
remote, local = (forebay.Dataset(path) for path in sys.argv[1:])
expected = [local.read(i) for i in range(len(local))] * 60
with ThreadPoolExecutor(1000) as pool:
    read = list(pool.map(lambda i: remote.read(i % len(local)), range(len(expected))))
print(sum(a == b for a, b in zip(read, expected)))
"""


def read_a_thousand_at_once(url: str, photos: Path, env: dict[str, str] | None = None) -> None:
    """Reads samples in a process that may open 64 files and connections, and compares them."""
    done = subprocess.run(
        ["prlimit", "--nofile=64", sys.executable, "-c", READS, url, photos],
        capture_output=True,
        text=True,
        timeout=60,
        env=env,
    )
    assert done.stdout == f"{60 * PHOTOS}\n", done.stderr
