"""A dataset on real servers, and the epochs that tests of remote data compare."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import forebay
from forebay import transforms
from servers.chaos import ChaosProxy, Fault
from servers.nginx import Nginx
from servers.processes import wait_for
from servers.s3 import S3

PHOTOS = 48
# Short waits, for what does not get better.
HASTY = {"connect_timeout": 1, "read_timeout": 1, "max_attempts": 2}
CROP = [transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip()]


def make_photo(seed: int) -> Image.Image:
    """Makes an image with much detail, whose file is as large as that of a photograph."""
    random = np.random.default_rng(seed)
    noise = random.integers(0, 256, (90, 120, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((480, 360), Image.Resampling.BICUBIC)


@dataclass(frozen=True)
class Place:
    """A server that has the photographs."""

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


def environment(s3: S3, endpoint: str | None = None) -> dict[str, str]:
    """Returns the variables by which a command finds the store."""
    return {
        **os.environ,
        "AWS_ACCESS_KEY_ID": s3.key.access,
        "AWS_SECRET_ACCESS_KEY": s3.key.secret,
        "AWS_ENDPOINT_URL": endpoint or s3.endpoint,
        "AWS_REGION": "default",
    }


def through(place: Place, proxy: ChaosProxy) -> Place:
    """Returns the same place behind a proxy."""
    if place.options is None:
        return Place(place.url.replace(place.server, proxy.url), None, proxy.url)
    kwargs = {**place.options["client_kwargs"], "endpoint_url": proxy.url}
    return Place(place.url, {**place.options, "client_kwargs": kwargs}, proxy.url)


def epoch(
    path: Any,
    options: dict[str, Any] | None = None,
    *,
    count: int = 1,
    after_first: Callable[[], object] = lambda: None,
    **more: Any,
) -> list[str]:
    """Returns a hash of each batch of an epoch, or of several; calls a function after the first."""
    loader = forebay.Loader(
        path, 8, True, transform=CROP, seed=5, storage_options=options, num_workers=2, **more
    )
    hashes: list[str] = []
    with loader:
        for _ in range(count):
            for x, y in loader:
                content = x.numpy().tobytes() + y.numpy().tobytes()
                hashes.append(hashlib.sha256(content).hexdigest())
                if len(hashes) == 1:
                    after_first()
            assert loader.bad_samples == []
    return hashes


EPOCHS = 3  # are not read ahead as a whole


def begin_epochs(
    pool: Executor, path: Any, fault: Callable[[], object] = lambda: None
) -> Future[list[str]]:
    """Begins EPOCHS epochs in another thread; returns when it has called `fault`.

    It does so after the first batch, while the next ones are on their way.
    """
    begun = threading.Event()

    def after_first() -> None:
        fault()
        begun.set()

    running = pool.submit(epoch, path, count=EPOCHS, after_first=after_first)
    wait_for(lambda: begun.is_set() or running.done())
    return running


def epoch_around(
    proxy: ChaosProxy, dataset: forebay.Dataset, change: Callable[[], None], match: str = "chunks"
) -> list[str]:
    """Returns the batches of an epoch; calls `change` after three requests for what has images."""
    proxy.program(Fault(match=match, skip=3, status=503, times=-1))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(epoch, dataset)
        wait_for(lambda: any(request.fault == 0 for request in proxy.requests()))
        change()
        proxy.program()
        return running.result()


def on_web(nginx: Nginx, folder: Path) -> str:
    """Returns a name below nginx's URLs by which it has this folder of this process."""
    digest = hashlib.sha256(str(folder).encode()).hexdigest()
    name = f"folder-{os.getpid()}-{digest[:16]}"
    if not (nginx.folder / name).exists():
        (nginx.folder / name).symlink_to(folder)
    return name


def error_of(path: Any, options: dict[str, Any] | None = None) -> str:
    """Returns the message of the error that ends an epoch of whole images."""
    with pytest.raises(OSError) as error:
        epoch(path, options, regions="never")
    return str(error.value)


def error_in(running: Future[list[str]]) -> str:
    """Returns the message of the error that ends epochs which another thread has begun."""
    with pytest.raises(OSError) as error:
        running.result()
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
        timeout=300,
        env=env,
    )
    assert done.stdout == f"{60 * PHOTOS}\n", done.stderr


def interrupted(command: list[str], env: dict[str, str], proxy: ChaosProxy, file: str) -> str:
    """Interrupts a command while it reads such a file, which must end it; returns what it says."""
    stopped = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: any(file in request.line for request in proxy.requests()))
    stopped.send_signal(signal.SIGINT)
    _, said = stopped.communicate(timeout=10)
    assert stopped.returncode == 130
    return said
