"""forebay cp between disks, Ceph's S3 gateway and nginx: the copy has the same files."""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conftest import FOREBAY, leave_out, run_forebay
from places import interrupted, on_web
from servers.chaos import ChaosProxy, Fault
from servers.nginx import Nginx
from servers.processes import wait_for
from servers.s3 import S3

IMAGES = 40


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a packed dataset of some 40 chunks, each with one image."""
    root = tmp_path_factory.mktemp("cp")
    random = np.random.default_rng(8)
    (root / "images/a").mkdir(parents=True)
    for number in range(IMAGES):
        noise = random.integers(0, 256, (160, 160, 3), dtype=np.uint8)
        Image.fromarray(noise).save(root / f"images/a/{number:02}.png")
    run_forebay("pack", root / "images", root / "set", "--chunk-bytes", "65536")
    assert len(list((root / "set/chunks").iterdir())) == IMAGES
    return root / "set"


@pytest.fixture
def env(s3: S3, tmp_path: Path) -> dict[str, str]:
    """Returns the environment of the owner of all buckets."""
    return {**s3.write_profiles(tmp_path), "AWS_PROFILE": "owner"}


def copy_of(
    source: object, target: object, env: dict[str, str] | None = None, *options: str
) -> dict:
    """Copies, and returns the last line of the JSON output."""
    done = run_forebay("cp", source, target, "--json", *options, env=env)
    return json.loads(done.stdout.splitlines()[-1])


def files(folder: Path) -> dict[str, bytes]:
    """Returns the content of each file of a dataset, except the lock."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "LOCK"
    }


def names(dataset: Path, prefix: str) -> set[str]:
    """Returns the keys that a dataset has in a bucket below this prefix."""
    return {f"{prefix}/{name}" for name in files(dataset)}


def test_from_disk_to_disk(dataset: Path, tmp_path: Path) -> None:
    said = run_forebay("cp", dataset, tmp_path / "copy").stdout
    assert f"{IMAGES} samples in {IMAGES} chunks" in said and "copied and compared" in said
    assert files(tmp_path / "copy") == files(dataset)
    assert "already complete" in run_forebay("cp", dataset, tmp_path / "copy").stdout
    # A repeated pack takes the copy for its own work.
    images = dataset.parent / "images"
    again = run_forebay("pack", images, tmp_path / "copy", "--chunk-bytes", "65536")
    assert "already complete" in again.stdout


def test_through_two_buckets_and_back(
    s3: S3, env: dict[str, str], dataset: Path, tmp_path: Path
) -> None:
    places = [f"s3://{s3.make_bucket()}/set", f"s3://{s3.make_bucket()}/other/name"]
    source: object = dataset
    for target in [*places, tmp_path / "back"]:
        copied = copy_of(source, target, env)
        assert copied["event"] == "complete"
        assert copied["chunks_copied"] == copied["chunks"] == IMAGES
        assert copied["bytes_copied"] == copied["bytes"]
        source = target
    assert files(tmp_path / "back") == files(dataset)
    assert copy_of(places[0], places[1], env)["event"] == "already complete"
    run_forebay("verify", places[1], env=env)


def test_from_a_web_server(
    nginx: Nginx, s3: S3, env: dict[str, str], dataset: Path, tmp_path: Path
) -> None:
    url = f"{nginx.url}/{on_web(nginx, dataset)}"
    assert copy_of(url, tmp_path / "copy")["chunks_copied"] == IMAGES
    assert files(tmp_path / "copy") == files(dataset)
    bucket = s3.make_bucket()
    copy_of(url, f"s3://{bucket}/set", env)
    assert s3.keys(bucket) == names(dataset, "set")


def test_to_a_store_of_somebody_else(
    s3: S3, env: dict[str, str], dataset: Path, tmp_path: Path
) -> None:
    """The source's keys do not open the target, and the target's do not open the source."""
    mine, theirs = s3.make_bucket(), s3.make_bucket(s3.stranger_key)
    copy_of(dataset, f"s3://{mine}/set", env)
    command = ["cp", f"s3://{mine}/set", f"s3://{theirs}/set"]
    refused = run_forebay(*command, env=env, code=1)
    assert "403" in refused.stderr and s3.key.secret not in refused.stderr
    del env["AWS_PROFILE"]
    options = ["--storage-option", "profile=owner", "--target-storage-option", "profile=stranger"]
    run_forebay(*command, *options, env=env)
    back = ["--storage-option", "profile=stranger", "--storage-option", "region=default"]
    copy_of(f"s3://{theirs}/set", tmp_path / "back", env, *back)
    assert files(tmp_path / "back") == files(dataset)


def chunks_put(proxy: ChaosProxy) -> list[str]:
    """Returns the names of the chunks that went through a proxy into the store."""
    lines = [request.line for request in proxy.requests()]
    return re.findall(r"PUT \S*/([0-9a-f]{64}\.tar) ", "\n".join(lines))


def holds(proxy: ChaosProxy, requests: int) -> bool:
    """Returns whether this many requests have met the proxy's first fault, which holds them."""
    return sum(request.fault == 0 for request in proxy.requests()) >= requests


def test_a_killed_copy_goes_on(
    s3: S3, env: dict[str, str], dataset: Path, chaos: Callable[..., ChaosProxy]
) -> None:
    bucket = s3.make_bucket()
    command = [FOREBAY, "cp", str(dataset), f"s3://{bucket}/set", "--threads", "2"]
    stored: set[str] = set()
    for number in (0, 1, 5, 9):
        proxy = chaos(s3.endpoint)
        hold = Fault(match=r"PUT .*tar ", skip=number, times=-1, action="stall", upload=True)
        proxy.program(hold)
        killed = subprocess.Popen(
            command, env={**env, "AWS_ENDPOINT_URL": proxy.url}, stderr=subprocess.DEVNULL
        )
        # Both threads send a chunk that does not arrive, so all others have been stored.
        wait_for(partial(holds, proxy, 2))
        killed.send_signal(signal.SIGKILL)
        assert killed.wait() == -signal.SIGKILL
        # What was stored before is not sent again.
        assert not stored & set(chunks_put(proxy))
        there = s3.keys(bucket)
        assert "set/HEAD" not in there
        now = {key.rsplit("/", 1)[-1] for key in there if key.endswith(".tar")}
        assert len(now) == len(stored) + number
        stored = now
    left = copy_of(dataset, f"s3://{bucket}/set", env)
    assert left["chunks_copied"] == IMAGES - len(stored)
    assert s3.keys(bucket) == names(dataset, "set")
    run_forebay("verify", f"s3://{bucket}/set", env=env)


def test_a_killed_copy_to_a_disk_goes_on(
    nginx: Nginx, dataset: Path, tmp_path: Path, chaos: Callable[..., ChaosProxy]
) -> None:
    """The source is a server, since a copy between disks is too quick to be met half-way."""
    target = tmp_path / "copy"
    for number in (0, 1, 5, 9):
        proxy = chaos(nginx.url)
        source = f"{proxy.url}/{on_web(nginx, dataset)}"
        proxy.program(Fault(match="GET .*tar ", skip=number, times=-1, action="stall", at=1000))
        killed = subprocess.Popen([FOREBAY, "cp", source, str(target), "--threads", "2"])
        wait_for(partial(holds, proxy, 2))
        killed.send_signal(signal.SIGKILL)
        assert killed.wait() == -signal.SIGKILL
        assert not (target / "HEAD").exists()
    assert 0 < len(list((target / "chunks").iterdir())) < IMAGES
    copy_of(dataset, target)
    assert files(target) == files(dataset)


def test_an_interrupt_stops_cleanly(
    s3: S3, env: dict[str, str], dataset: Path, chaos: Callable[..., ChaosProxy]
) -> None:
    proxy = chaos(s3.endpoint)
    proxy.program(Fault(match=r"PUT .*tar ", delay_s=0.1, times=-1))
    bucket = s3.make_bucket()
    command = [FOREBAY, "cp", str(dataset), f"s3://{bucket}/set", "--threads", "1"]
    behind = {**env, "AWS_ENDPOINT_URL": proxy.url}
    stopped = subprocess.Popen(command, env=behind, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: len(chunks_put(proxy)) >= 2)
    stopped.send_signal(signal.SIGINT)
    _, said = stopped.communicate(timeout=30)
    assert stopped.returncode == 130
    assert "stopped on request" in said and "run the same command again to go on" in said
    copy_of(dataset, f"s3://{bucket}/set", env)
    assert s3.keys(bucket) == names(dataset, "set")


def test_an_interrupt_ends_reads_of_a_server_that_stands_still(
    s3: S3, env: dict[str, str], dataset: Path, tmp_path: Path, chaos: Callable[..., ChaosProxy]
) -> None:
    bucket = s3.make_bucket()
    copy_of(dataset, f"s3://{bucket}/set", env)
    proxy = chaos(s3.endpoint)
    proxy.program(Fault(match=r"GET .*tar", action="stall", at=100, times=-1))
    command = [FOREBAY, "cp", f"s3://{bucket}/set", str(tmp_path / "copy")]
    said = interrupted(command, {**env, "AWS_ENDPOINT_URL": proxy.url}, proxy, ".tar")
    assert "stopped on request; 0 of 40 chunks are copied" in said


def test_faults_of_the_network_change_nothing(
    nginx: Nginx, dataset: Path, tmp_path: Path, chaos: Callable[..., ChaosProxy]
) -> None:
    """Bytes that were corrupted on their way have another hash, and are read again."""
    proxy = chaos(nginx.url)
    chunks = sorted(path.name for path in (dataset / "chunks").iterdir())
    faults = [
        *(Fault(match=name, action="corrupt", at=5000) for name in chunks[3::9]),
        Fault(match="chunks", status=503, times=5),
        Fault(match="chunks", action="drop", at=900, times=5),
    ]
    proxy.program(*faults)
    copy_of(f"{proxy.url}/{on_web(nginx, dataset)}", tmp_path / "copy")
    assert {request.fault for request in proxy.requests()} >= set(range(len(faults)))
    assert files(tmp_path / "copy") == files(dataset)


def test_a_damaged_chunk_is_named(
    s3: S3, env: dict[str, str], dataset: Path, tmp_path: Path
) -> None:
    bucket = s3.make_bucket()
    source = f"s3://{bucket}/set"
    copy_of(dataset, source, env)
    chunk = sorted((dataset / "chunks").iterdir())[7]
    content = bytearray(chunk.read_bytes())
    content[9000] ^= 1
    key = f"set/chunks/{chunk.name}"
    s3.request("PUT", f"/{bucket}/{key}", body=bytes(content))
    refused = run_forebay("cp", source, tmp_path / "copy", env=env, code=1)
    assert f"s3://{bucket}/{key}: damaged" in refused.stderr
    assert not (tmp_path / "copy/HEAD").exists()
    assert "a copy that is not complete" in run_forebay("ls", tmp_path / "copy", code=1).stderr
    s3.request("PUT", f"/{bucket}/{key}", body=chunk.read_bytes())
    copy_of(source, tmp_path / "copy", env)
    assert files(tmp_path / "copy") == files(dataset)


def test_another_head_that_appeared_meanwhile_is_kept(
    s3: S3, env: dict[str, str], dataset: Path, chaos: Callable[..., ChaosProxy]
) -> None:
    proxy = chaos(s3.endpoint)
    proxy.program(Fault(match="PUT .*/HEAD ", status=503, times=-1))
    bucket = s3.make_bucket()
    command = [FOREBAY, "cp", str(dataset), f"s3://{bucket}/set"]
    behind = {**env, "AWS_ENDPOINT_URL": proxy.url, "AWS_MAX_ATTEMPTS": "30"}
    copying = subprocess.Popen(command, env=behind, stderr=subprocess.PIPE, text=True)
    wait_for(partial(holds, proxy, 1))
    other = b"forebay 0 " + b"0" * 64 + b"\n"
    assert s3.request("PUT", f"/{bucket}/set/HEAD", body=other).status == 200
    proxy.program()
    _, said = copying.communicate(timeout=60)
    assert copying.returncode == 1
    assert "another process made another snapshot current" in said
    assert s3.request("GET", f"/{bucket}/set/HEAD").body == other
    refused = run_forebay("cp", dataset, f"s3://{bucket}/set", env=env, code=1)
    assert "holds a dataset already" in refused.stderr


def test_wrong_places(dataset: Path, nginx: Nginx, tmp_path: Path) -> None:
    for source, target, said in (
        (dataset.parent / "images", tmp_path / "x", "cp copies packed datasets"),
        (tmp_path / "nothing", tmp_path / "x", "no dataset there"),
        (dataset, f"{nginx.url}/x", "a web server can only be read"),
        (dataset, dataset, "are the same place"),
        (dataset, dataset / "copy", "is inside the source"),
        (dataset, dataset.parent, "holds other files"),
    ):
        assert said in run_forebay("cp", source, target, code=1).stderr
    assert not (tmp_path / "x").exists()
    assert "target is required" in run_forebay("cp", dataset, code=2).stderr


# Copies onto a full disk, then makes room and copies again.
# Arguments: DISK SOURCE RESULTS FOREBAY
FULL_DISK = """
mount -t tmpfs -o size=64m tmpfs "$1" || { echo "mount refused" >&2; exit 77; }
disk=$1 source=$2 results=$3 forebay=$4
fallocate -l $((64 * 1024 - 1500))k "$disk/filler" || exit 1
"$forebay" cp "$source" "$disk/copy" 2>"$results/full"; echo $? >"$results/full_code"
rm "$disk/filler" && "$forebay" cp "$source" "$disk/copy" && cp -r "$disk/copy" "$results/copy"
"""


def test_a_full_disk(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    own = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    arguments = [str(tmp_path / "disk"), str(dataset), str(tmp_path), FOREBAY]
    command = [*own, "sh", "-c", FULL_DISK, "sh", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode == 77 or done.stderr.startswith("unshare: unshare failed"):
        leave_out(f"mounting a small tmpfs needs root or user namespaces ({done.stderr.strip()})")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "full_code").read_text() == "1\n"
    said = (tmp_path / "full").read_text()
    for part in ("No space left on device", "more);", "run the same command again"):
        assert part in said
    assert files(tmp_path / "copy") == files(dataset)


def test_large_chunks_go_in_parts(s3: S3, env: dict[str, str], tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    (tmp_path / "images/a").mkdir(parents=True)
    for number in range(3):
        noise = random.integers(0, 256, (1800, 1800, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / f"images/a/{number}.png", compress_level=0)
    run_forebay("pack", tmp_path / "images", tmp_path / "set")
    place = f"s3://{s3.make_bucket()}/set"
    copy_of(tmp_path / "set", place, env)
    shutil.rmtree(tmp_path / "images")
    copy_of(place, tmp_path / "back", env)
    assert files(tmp_path / "back") == files(tmp_path / "set")
