"""Datasets on real servers: nginx, and Ceph's S3 gateway. The samples are those of a local disk."""

import hashlib
import os
import pickle
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import forebay
from conftest import FOREBAY, make_jpeg, pack
from forebay import transforms
from servers.chaos import ChaosProxy, Fault
from servers.nginx import Nginx
from servers.s3 import S3

PHOTOS = 48
CROP = [transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip()]


def make_photo(seed: int) -> Image.Image:
    """Makes an image with much detail, whose file is as large as that of a photograph."""
    random = np.random.default_rng(seed)
    noise = random.integers(0, 256, (90, 120, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((480, 360), Image.Resampling.BICUBIC)


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a packed dataset of images that are large enough to read only parts of them."""
    root = tmp_path_factory.mktemp("photos")
    for number in range(PHOTOS):
        path = root / "images" / f"class{number % 3}" / f"{number:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        make_photo(number).save(path, quality=90)
    return pack({}, root, "--chunk-bytes", "1000000")


@dataclass(frozen=True)
class Place:
    """Where the photographs lie, too."""

    url: str
    options: dict[str, Any] | None
    server: str  # http://127.0.0.1:PORT


@pytest.fixture(scope="session")
def bucket(s3: S3, photos: Path) -> str:
    """Returns a bucket with the photographs as "set" and their images as "images"."""
    name = s3.make_bucket()
    s3.upload(photos, name, "set/")
    s3.upload(photos.parent / "images", name, "images/")
    return name


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


@pytest.fixture(params=["web", "s3"])
def place(request: pytest.FixtureRequest, photos: Path) -> Place:
    """Returns the photographs on each of the servers."""
    if request.param == "web":
        nginx: Nginx = request.getfixturevalue("nginx")
        if not (nginx.folder / "photos").exists():
            (nginx.folder / "photos").symlink_to(photos)
        return Place(f"{nginx.url}/photos", None, nginx.url)
    s3: S3 = request.getfixturevalue("s3")
    bucket: str = request.getfixturevalue("bucket")
    return Place(f"s3://{bucket}/set", s3_options(s3), s3.endpoint)


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


def forebay_command(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([FOREBAY, *words], capture_output=True, text=True, env=env, timeout=120)


def test_batches_are_those_of_a_local_disk(place: Place, photos: Path) -> None:
    assert epoch(place.url, place.options) == epoch(photos)
    assert epoch(place.url, place.options, regions="never") == epoch(photos)


def test_a_dataset_reads_like_a_local_one(place: Place, photos: Path) -> None:
    local, remote = forebay.Dataset(photos), forebay.Dataset(place.url, place.options)
    assert remote.fingerprint == local.fingerprint
    assert remote.keys() == local.keys()
    assert remote.read(7) == local.read(7)
    assert np.array_equal(remote.column("width"), local.column("width"))
    assert np.array_equal(remote[3][0], local[3][0])
    copy = pickle.loads(pickle.dumps(remote))
    assert copy.read(9) == local.read(9)


def test_only_what_crops_need_is_read(place: Place) -> None:
    loader = forebay.Loader(place.url, 8, True, transform=CROP, storage_options=place.options)
    with loader:
        for _ in range(3):
            for _ in loader:
                pass
        stats = loader.stats()
    # S3 gives one range at a time, so what lies between two parts of a crop comes too.
    share = 0.6 if place.options is None else 0.95
    assert stats["bytes_read"] < share * stats["whole_bytes"]


def test_a_copy_in_a_forked_process_reads_on_its_own(place: Place, photos: Path) -> None:
    dataset = forebay.Dataset(place.url, place.options)
    expected = forebay.Dataset(photos).read(11)
    assert dataset.read(11) == expected
    child = os.fork()
    if child == 0:
        os._exit(0 if dataset.read(11) == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert dataset.read(11) == expected


@pytest.fixture
def behind(place: Place, chaos: Callable[..., ChaosProxy]) -> Iterator[tuple[Place, ChaosProxy]]:
    """Returns the place behind a proxy, and the proxy."""
    proxy = chaos(place.server)
    yield through(place, proxy), proxy


FAULTS = {
    "storm of 503": [Fault(match="chunks", status=503, times=20)],
    "storm of 500": [Fault(match="chunks", status=500, times=20)],
    "503 with Retry-After": [Fault(match="chunks", status=503, headers={"Retry-After": "1"})],
    "429": [Fault(match="chunks", status=429, headers={"Retry-After": "1"}, times=3)],
    "dropped connections": [Fault(match="chunks", skip=i, action="drop", at=900) for i in range(9)],
    "reset connections": [Fault(match="chunks", skip=i, action="reset", at=50) for i in range(9)],
    "truncated bodies": [Fault(match="chunks", skip=2, action="truncate", at=99, times=4)],
    "corrupted bodies": [Fault(match="chunks", skip=3, action="corrupt", at=1500, times=5)],
    "wrong ranges": [
        Fault(match="chunks", skip=1, headers={"Content-Range": "bytes 0-9/10"}, times=2)
    ],
    "slow answers": [Fault(match="chunks", delay_s=0.5, times=4)],
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_change_no_batch(name: str, behind: tuple[Place, ChaosProxy], photos: Path) -> None:
    place, proxy = behind
    dataset = forebay.Dataset(place.url, place.options)
    proxy.program(*FAULTS[name])
    assert epoch(dataset) == epoch(photos)


def test_what_never_works_ends_with_an_error(behind: tuple[Place, ChaosProxy]) -> None:
    place, proxy = behind
    dataset = forebay.Dataset(place.url, place.options)
    proxy.program(Fault(match="chunks", status=404, times=-1))
    with pytest.raises(OSError, match="nothing is there: the server answered 404"):
        epoch(dataset)


def test_an_object_that_changed_is_noticed(nginx: Nginx, photos: Path, tmp_path: Path) -> None:
    folder = nginx.folder / "changing"
    shutil.copytree(photos, folder)
    dataset = forebay.Dataset(f"{nginx.url}/changing")
    for chunk in (folder / "chunks").iterdir():
        chunk.write_bytes(chunk.read_bytes() + b"more")
    with pytest.raises(OSError, match="another one than was listed"):
        epoch(dataset)


def test_certificates_are_verified(nginx: Nginx, photos: Path) -> None:
    if not (nginx.folder / "tls").exists():
        (nginx.folder / "tls").symlink_to(photos)
    good = epoch(f"{nginx.tls_url}/tls", {"verify": str(nginx.ca_file)})
    assert good == epoch(photos)
    with pytest.raises(OSError, match="certificate"):
        forebay.Dataset(f"{nginx.tls_url}/tls")
    with pytest.raises(OSError, match="certificate"):
        forebay.Dataset(f"{nginx.expired_url}/tls", {"verify": str(nginx.ca_file)})
    with pytest.raises(ValueError, match="always verified"):
        forebay.Dataset(f"{nginx.tls_url}/tls", {"verify": False})


def test_messages_say_what_is_wrong_and_no_secret(s3: S3, bucket: str) -> None:
    options = s3_options(s3)
    wrong = {**options, "secret": "a-wrong-secret-" * 3}
    with pytest.raises(OSError, match="403.*credentials") as refused:
        forebay.Dataset(f"s3://{bucket}/set", wrong)
    assert "wrong-secret" not in str(refused.value)
    with pytest.raises(FileNotFoundError, match="nothing is there"):
        forebay.Dataset(f"s3://{bucket}/none", options)
    with pytest.raises(ValueError, match="secrte"):
        forebay.Dataset(f"s3://{bucket}/set", {**options, "secrte": "x"})
    with pytest.raises(ValueError, match="there is nothing for ftp://"):
        forebay.Dataset("ftp://host/set")
    with pytest.raises(ValueError, match="go with a path"):
        forebay.Loader(forebay.Dataset(f"s3://{bucket}/set", options), storage_options=options)


def test_commands_work_on_urls(s3: S3, nginx: Nginx, bucket: str, photos: Path) -> None:
    listed = forebay_command("ls", str(photos)).stdout
    if not (nginx.folder / "photos").exists():
        (nginx.folder / "photos").symlink_to(photos)
    for url in (f"s3://{bucket}/set", f"{nginx.url}/photos", f"file://{photos}"):
        assert forebay_command("ls", url, env=environment(s3)).stdout == listed
        verified = forebay_command("verify", url, env=environment(s3))
        assert verified.returncode == 0, verified.stderr
        described = forebay_command("inspect", url, env=environment(s3)).stdout
        assert f"{PHOTOS} samples" in described


def chunks_of(s3: S3, bucket: str, prefix: str) -> str:
    """Returns what a listing of the chunks says: keys and ETags."""
    answer = s3.request("GET", f"/{bucket}?list-type=2&prefix={prefix}%2Fchunks%2F")
    return "\n".join(sorted(part.split("<")[0] for part in answer.body.decode().split("<Key>")[1:]))


def names(listing: str) -> list[str]:
    return [line.rsplit("/", 1)[-1] for line in listing.splitlines()]


def test_pack_goes_from_store_to_store(s3: S3, bucket: str, photos: Path) -> None:
    target = s3.make_bucket()
    command = ["pack", f"s3://{bucket}/images", f"s3://{target}/set", "--chunk-bytes", "1000000"]
    packed = forebay_command(*command, env=environment(s3))
    assert packed.returncode == 0, packed.stderr
    local = sorted(path.name for path in (photos / "chunks").iterdir())
    assert names(chunks_of(s3, target, "set")) == local
    assert epoch(f"s3://{target}/set", s3_options(s3)) == epoch(photos)
    again = forebay_command(*command, env=environment(s3))
    assert again.returncode == 0
    other = forebay_command(*command[:3], "--chunk-bytes", "2000000", env=environment(s3))
    assert other.returncode == 1 and "complete dataset already" in other.stderr


def test_a_killed_pack_goes_on(s3: S3, bucket: str, photos: Path) -> None:
    target = s3.make_bucket()
    command = [FOREBAY, "pack", f"s3://{bucket}/images", f"s3://{target}/set"]
    command += ["--chunk-bytes", "1000000", "--threads", "1"]
    for milliseconds in (60, 150, 250, 400, 700):
        process = subprocess.Popen(command, env=environment(s3), stderr=subprocess.DEVNULL)
        time.sleep(milliseconds / 1000)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = subprocess.run(command, env=environment(s3), capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    local = sorted(path.name for path in (photos / "chunks").iterdir())
    assert names(chunks_of(s3, target, "set")) == local


def test_large_chunks_go_in_parts(s3: S3, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    folder = tmp_path / "images" / "a"
    folder.mkdir(parents=True)
    for number in range(5):
        noise = random.integers(0, 256, (1700, 2600, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"{number}.jpg", quality=95)
    bucket = s3.make_bucket()
    url = f"s3://{bucket}/large"
    packed = forebay_command("pack", str(tmp_path / "images"), url, env=environment(s3))
    assert packed.returncode == 0, packed.stderr
    pack({}, tmp_path)
    local = sorted(path.name for path in (tmp_path / "set" / "chunks").iterdir())
    assert names(chunks_of(s3, bucket, "large")) == local
    assert forebay_command("verify", url, env=environment(s3)).returncode == 0


def test_data_in_place_works_in_a_store(s3: S3, bucket: str, photos: Path, nginx: Nginx) -> None:
    folder = photos.parent / "images"
    assert epoch(f"s3://{bucket}/images", s3_options(s3)) == epoch(folder)
    shard = nginx.folder / "shard-0.tar"
    if not shard.exists():
        for number in range(6):
            (nginx.folder / f"{number}.jpg").write_bytes(make_jpeg(number))
        files = [f"{number}.jpg" for number in range(6)]
        subprocess.run(["tar", "cf", shard.name, *files], cwd=nginx.folder, check=True)
    remote = forebay.Dataset(f"{nginx.url}/shard-{{0..0}}.tar")
    assert len(remote) == 6
    assert remote.read(2) == make_jpeg(2)
