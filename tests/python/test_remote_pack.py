"""Packing, indexing and exporting from and to a store (Ceph's S3 gateway), also after a kill."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

import forebay
from conftest import FOREBAY, make_jpeg, pack, run_forebay
from places import environment, interrupted
from servers.chaos import ChaosProxy, Fault
from servers.processes import wait_for
from servers.s3 import S3

LARGE = 5  # images, which make a chunk that is sent in several parts


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
    wait_for(lambda: any(request.fault == 0 for request in proxy.requests()))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(s3.uploads(bucket)) == 1
    run_forebay(*command, env=environment(s3))
    assert s3.uploads(bucket) == []
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
    run_forebay(
        "pack", str(large.parent / "images"), f"s3://{bucket}/set", env=environment(s3, proxy.url)
    )
    assert s3.uploads(bucket) == []
    run_forebay("verify", f"s3://{bucket}/set", env=environment(s3))


def test_a_pack_that_fails_leaves_no_parts(
    s3: S3, large: Path, chaos: Callable[..., ChaosProxy]
) -> None:
    bucket = s3.make_bucket()
    proxy = chaos(s3.endpoint)
    proxy.program(Fault(match="PUT .*partNumber=2&", status=403, times=-1))
    command = ["pack", str(large.parent / "images"), f"s3://{bucket}/set"]
    failed = run_forebay(*command, env=environment(s3, proxy.url), code=1)
    assert "403" in failed.stderr
    assert s3.uploads(bucket) == []


def test_an_interrupt_ends_reads_of_a_server_that_stands_still(
    s3: S3, folder: Path, tmp_path: Path, chaos: Callable[..., ChaosProxy]
) -> None:
    bucket = s3.make_bucket()
    s3.upload(folder, bucket, "images/")
    proxy = chaos(s3.endpoint)
    proxy.program(Fault(match=r"GET .*jpg", action="stall", at=100, times=-1))
    command = [FOREBAY, "pack", f"s3://{bucket}/images", str(tmp_path / "set")]
    said = interrupted(command, environment(s3, proxy.url), proxy, ".jpg")
    assert "stopped on request" in said


def test_an_image_that_is_replaced_while_it_is_packed_is_said(
    s3: S3, folder: Path, tmp_path: Path, chaos: Callable[..., ChaosProxy]
) -> None:
    bucket = s3.make_bucket()
    s3.upload(folder, bucket, "images/")
    proxy = chaos(s3.endpoint)
    proxy.program(Fault(match=r"GET .*jpg", delay_s=1.0, times=-1))
    command = [FOREBAY, "pack", f"s3://{bucket}/images", str(tmp_path / "set")]
    env = environment(s3, proxy.url)
    packing = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: any(".jpg" in request.line for request in proxy.requests()))
    for image in folder.rglob("*.jpg"):
        key = f"images/{image.relative_to(folder).as_posix()}"
        s3.request("PUT", f"/{bucket}/{quote(key)}", body=b"another image")
    _, said = packing.communicate(timeout=60)
    assert packing.returncode == 1
    assert "the source changed while it was packed: " in said
    assert "13 now" in said and "open the dataset again" not in said


def test_export_goes_from_store_to_store(s3: S3, packed: Path, tmp_path: Path) -> None:
    bucket = s3.make_bucket()
    s3.upload(packed, bucket, "set/")
    env = environment(s3)
    run_forebay("export", str(packed), str(tmp_path / "local"), env=env)
    expected = contents(tmp_path / "local")
    run_forebay("export", f"s3://{bucket}/set", str(tmp_path / "from"), env=env)
    assert contents(tmp_path / "from") == expected
    run_forebay("export", f"s3://{bucket}/set", f"s3://{bucket}/back", env=env)
    assert s3.objects(bucket, "back/") == expected
    again = run_forebay("export", f"s3://{bucket}/set", f"s3://{bucket}/back", env=env, code=1)
    assert "not empty" in again.stderr


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
    run_forebay("index", url, env=env)
    assert len(proxy.requests()) < 40  # there are 180 members
    options = {"key": s3.key.access, "secret": s3.key.secret, "endpoint_url": s3.endpoint}
    remote = forebay.Dataset(url, {**options, "region": "default"})
    local = forebay.Dataset(tmp_path / "shards")
    assert remote.fingerprint == local.fingerprint
    assert remote.read(77) == local.read(77)
    before = len(proxy.requests())
    run_forebay("pack", url, f"s3://{bucket}/set", "--order", "listed", env=env)
    assert len(proxy.requests()) - before < 80
    run_forebay(
        "pack", str(tmp_path / "shards"), str(tmp_path / "set"), "--order", "listed", env=env
    )
    (chunk,) = (tmp_path / "set" / "chunks").iterdir()
    assert s3.request("GET", f"/{bucket}/set/chunks/{chunk.name}").body == chunk.read_bytes()


def test_an_index_with_checksums_is_made_in_a_store(s3: S3, folder: Path) -> None:
    bucket = s3.make_bucket()
    s3.upload(folder, bucket, "images/")
    indexed = run_forebay("index", "--checksums", f"s3://{bucket}/images", env=environment(s3))
    assert "files that are added or removed later are not noticed" in indexed.stderr
    run_forebay("verify", f"s3://{bucket}/images", env=environment(s3))
