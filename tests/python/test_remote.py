"""Datasets on real servers: nginx, and Ceph's S3 gateway. The samples are those of a local disk."""

import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import forebay
from conftest import FOREBAY, make_jpeg, pack
from places import CROP, PHOTOS, Place, environment, epoch, s3_options, through
from servers.chaos import ChaosProxy, Fault
from servers.nginx import Nginx
from servers.s3 import S3


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


def test_stats_say_what_the_link_did_and_what_that_costs(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    loader = forebay.Loader(
        place.url, 8, True, transform=CROP, storage_options=place.options, progress=True
    )
    with loader:
        for _ in loader:
            pass
        stats = loader.stats(price_per_1000_requests=0.0004, price_per_gb=0.09)
    shown = capsys.readouterr().err
    assert re.search(r"[1-9][0-9]* requests?, .* retr.*, [0-9]+ hedge", shown)
    assert stats["wire_bytes_received"] > stats["bytes_read"]
    assert stats["wire_bytes_sent"] > 50 * stats["http_requests"]
    assert 0 < stats["http_requests"] < 6 * PHOTOS
    expected = stats["http_requests"] * 0.0004 / 1e3 + stats["wire_bytes_received"] * 0.09 / 1e9
    assert stats["cost"] == pytest.approx(expected)


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
        Fault(match="chunks", skip=1, headers={"Content-Range": "bytes 7-16/*"}, times=2)
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


ANOTHER_PROCESS = """
import sys
import test_remote
print(" ".join(test_remote.epoch(*eval(sys.stdin.read()), index_cache=sys.argv[1])))
"""


def epoch_elsewhere(place: Place, cache: Path) -> list[str]:
    """Returns what `epoch` does in a process of its own, which keeps what it reads in `cache`."""
    done = subprocess.run(
        [sys.executable, "-c", ANOTHER_PROCESS, str(cache)],
        input=repr((place.url, place.options)),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def index_requests(proxy: ChaosProxy) -> int:
    """Returns how many requests so far were for beginnings of chunks, where indexes are."""
    return sum(
        "/chunks/" in request.line and request.range.startswith("bytes=0-")
        for request in proxy.requests()
    )


def test_the_next_process_reads_no_index(
    behind: tuple[Place, ChaosProxy], photos: Path, tmp_path: Path
) -> None:
    place, proxy = behind
    cache = tmp_path / "cache"
    expected = epoch(photos)
    assert epoch(place.url, place.options, index_cache="off") == expected
    indexes = index_requests(proxy)
    assert indexes == len(list((photos / "chunks").iterdir()))
    assert epoch_elsewhere(place, cache) == expected
    assert index_requests(proxy) == 2 * indexes
    assert epoch_elsewhere(place, cache) == expected
    assert index_requests(proxy) == 2 * indexes
    snapshots = [request for request in proxy.requests() if "/snapshots/" in request.line]
    assert len(snapshots) == 4  # a root and a part, by the two that had not kept them yet
    for number, file in enumerate(sorted(cache.iterdir())):
        content = bytearray(file.read_bytes())
        content[number * 1000 % len(content)] ^= 0xFF
        file.write_bytes(content)
    assert epoch_elsewhere(place, cache) == expected
    assert index_requests(proxy) > 2 * indexes


def test_a_folder_that_cannot_be_written_is_said(
    place: Place, photos: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.warns(UserWarning, match="FOREBAY_INDEX_CACHE"):
        dataset = forebay.Dataset(place.url, place.options, tmp_path / "file" / "cache")
    assert epoch(dataset) == epoch(photos)
    with pytest.raises(ValueError, match="index_cache goes with a path"):
        forebay.Loader(dataset, index_cache="off")
    with pytest.raises(ValueError, match="index_cache is 3"):
        forebay.Dataset(photos, index_cache=3)  # type: ignore[arg-type]


def test_opening_asks_three_things(behind: tuple[Place, ChaosProxy]) -> None:
    place, proxy = behind
    dataset = forebay.Dataset(place.url, place.options)
    lines = [request.line.split()[1].rsplit("/", 1)[-1] for request in proxy.requests()]
    assert [name.split(".")[-1] for name in lines] == ["HEAD", "root", "part"]
    loader = forebay.Loader(dataset, 8, True, transform=CROP)
    assert len(proxy.requests()) == 3  # labels are known to be there
    loader.close()
    assert len(dataset.targets) == PHOTOS
    assert len(proxy.requests()) > 3
