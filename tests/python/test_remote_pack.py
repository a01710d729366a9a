"""Packing, indexing and exporting from and to a store (Ceph's S3 gateway), also after a kill."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

import forebay
from conftest import FOREBAY, make_jpeg, pack
from servers.chaos import ChaosProxy, Fault
from servers.s3 import S3

LARGE = 5  # images, which make a chunk that is sent in several parts


def environment(s3: S3, endpoint: str | None = None) -> dict[str, str]:
    """Returns the variables by which a command finds the store."""
    return {
        **os.environ,
        "AWS_ACCESS_KEY_ID": s3.key.access,
        "AWS_SECRET_ACCESS_KEY": s3.key.secret,
        "AWS_ENDPOINT_URL": endpoint or s3.endpoint,
        "AWS_REGION": "default",
    }


def run(*words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([FOREBAY, *words], capture_output=True, text=True, env=env, timeout=120)


def uploads(s3: S3, bucket: str) -> list[str]:
    """Returns the names of the uploads that were begun and have not ended."""
    answer = s3.request("GET", f"/{bucket}?uploads=")
    assert answer.status == 200
    return re.findall(r"<UploadId>([^<]*)</UploadId>", answer.body.decode())


def contents(folder: Path) -> dict[str, bytes]:
    """Returns the files below a folder, by their paths in it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a packed dataset whose only chunk has some 50 MB."""
    root = tmp_path_factory.mktemp("large")
    folder = root / "images" / "a"
    folder.mkdir(parents=True)
    random = np.random.default_rng(1)
    for number in range(LARGE):
        noise = random.integers(0, 256, (1900, 2900, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"{number}.jpg", quality=95)
    return pack({}, root)


def test_a_pack_killed_within_an_upload_leaves_no_parts(
    s3: S3, large: Path, chaos: Callable[..., ChaosProxy]
) -> None:
    bucket = s3.make_bucket()
    proxy = chaos(s3.endpoint)
    command = ["pack", str(large.parent / "images"), f"s3://{bucket}/set"]
    # One part stays on its way, so that the upload is not complete when the process dies.
    proxy.program(Fault(match="PUT .*partNumber=2&", action="stall", at=1000, upload=True))
    process = subprocess.Popen([FOREBAY, *command], env=environment(s3, proxy.url))
    deadline = time.monotonic() + 60
    while not uploads(s3, bucket) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(uploads(s3, bucket)) == 1
    done = run(*command, env=environment(s3))
    assert done.returncode == 0, done.stderr
    assert uploads(s3, bucket) == []
    (chunk,) = (large / "chunks").iterdir()
    stored = s3.request("GET", f"/{bucket}/set/chunks/{chunk.name}")
    assert stored.body == chunk.read_bytes()


def test_lost_answers_leave_no_parts(s3: S3, large: Path, chaos: Callable[..., ChaosProxy]) -> None:
    bucket = s3.make_bucket()
    proxy = chaos(s3.endpoint)
    proxy.program(
        Fault(match=r"POST .*\?uploads=", action="drop"),  # begun, but nobody knows its name
        Fault(match="PUT .*partNumber=1&", status=503),
        Fault(match=r"POST .*\?uploadId=", action="drop"),  # completed, but nobody knows
    )
    packed = run(
        "pack", str(large.parent / "images"), f"s3://{bucket}/set", env=environment(s3, proxy.url)
    )
    assert packed.returncode == 0, packed.stderr
    assert uploads(s3, bucket) == []
    assert run("verify", f"s3://{bucket}/set", env=environment(s3)).returncode == 0


def test_a_pack_that_fails_leaves_no_parts(
    s3: S3, large: Path, chaos: Callable[..., ChaosProxy]
) -> None:
    bucket = s3.make_bucket()
    proxy = chaos(s3.endpoint)
    proxy.program(Fault(match="PUT .*partNumber=2&", status=403, times=-1))
    command = ["pack", str(large.parent / "images"), f"s3://{bucket}/set"]
    failed = run(*command, env=environment(s3, proxy.url))
    assert failed.returncode == 1 and "403" in failed.stderr
    assert uploads(s3, bucket) == []


def test_export_goes_from_store_to_store(s3: S3, packed: Path, tmp_path: Path) -> None:
    bucket = s3.make_bucket()
    s3.upload(packed, bucket, "set/")
    env = environment(s3)
    exported = run("export", str(packed), str(tmp_path / "local"), env=env)
    assert exported.returncode == 0, exported.stderr
    expected = contents(tmp_path / "local")
    exported = run("export", f"s3://{bucket}/set", str(tmp_path / "from"), env=env)
    assert exported.returncode == 0, exported.stderr
    assert contents(tmp_path / "from") == expected
    exported = run("export", f"s3://{bucket}/set", f"s3://{bucket}/back", env=env)
    assert exported.returncode == 0, exported.stderr
    for name, content in expected.items():
        assert s3.request("GET", f"/{bucket}/back/{quote(name)}").body == content
    again = run("export", f"s3://{bucket}/set", f"s3://{bucket}/back", env=env)
    assert again.returncode == 1 and "not empty" in again.stderr


def shards(folder: Path, count: int, samples: int) -> None:
    """Makes tar shards of images with classes."""
    folder.mkdir(parents=True)
    for shard in range(count):
        names = []
        for number in range(shard * samples, (shard + 1) * samples):
            (folder / f"{number:03}.jpg").write_bytes(make_jpeg(number))
            (folder / f"{number:03}.cls").write_text(str(number % 5))
            names += [f"{number:03}.cls", f"{number:03}.jpg"]
        subprocess.run(["tar", "cf", f"{shard}.tar", *names], cwd=folder, check=True)
        for name in names:
            (folder / name).unlink()


def test_shards_in_a_store_take_few_requests(
    s3: S3, tmp_path: Path, chaos: Callable[..., ChaosProxy]
) -> None:
    shards(tmp_path / "shards", 3, 30)
    bucket = s3.make_bucket()
    s3.upload(tmp_path / "shards", bucket, "shards/")
    proxy = chaos(s3.endpoint)
    env = environment(s3, proxy.url)
    url = f"s3://{bucket}/shards"
    indexed = run("index", url, env=env)
    assert indexed.returncode == 0, indexed.stderr
    assert len(proxy.requests()) < 40  # there are 180 members
    options = {"key": s3.key.access, "secret": s3.key.secret, "endpoint_url": s3.endpoint}
    remote = forebay.Dataset(url, {**options, "region": "default"})
    local = forebay.Dataset(tmp_path / "shards")
    assert remote.fingerprint == local.fingerprint
    assert remote.read(77) == local.read(77)
    before = len(proxy.requests())
    packed = run("pack", url, f"s3://{bucket}/set", "--order", "listed", env=env)
    assert packed.returncode == 0, packed.stderr
    assert len(proxy.requests()) - before < 80
    run("pack", str(tmp_path / "shards"), str(tmp_path / "set"), "--order", "listed", env=env)
    (chunk,) = (tmp_path / "set" / "chunks").iterdir()
    assert s3.request("GET", f"/{bucket}/set/chunks/{chunk.name}").body == chunk.read_bytes()


def test_an_index_with_checksums_is_made_in_a_store(s3: S3, folder: Path) -> None:
    bucket = s3.make_bucket()
    s3.upload(folder, bucket, "images/")
    indexed = run("index", "--checksums", f"s3://{bucket}/images", env=environment(s3))
    assert indexed.returncode == 0, indexed.stderr
    verified = run("verify", f"s3://{bucket}/images", env=environment(s3))
    assert verified.returncode == 0, verified.stderr
