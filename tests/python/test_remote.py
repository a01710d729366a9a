"""Datasets on real servers: nginx, and Ceph's S3 gateway. The samples are those of a local disk."""

import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import forebay
from conftest import FOREBAY, make_jpeg, pack, run_forebay
from places import (
    CROP,
    EPOCHS,
    PHOTOS,
    Place,
    begin_epochs,
    environment,
    epoch,
    epoch_around,
    on_web,
    s3_options,
    through,
)
from servers.chaos import ChaosProxy, Fault
from servers.nginx import Nginx
from servers.processes import wait_for
from servers.s3 import S3


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
    # S3 gives one range at a time, so what lies between two parts of a crop comes too. How much
    # that is depends on how fast the link was found to be.
    share = 0.6 if place.options is None else 1
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
        code = 2
        try:
            code = 0 if dataset.read(11) == expected else 1
        finally:
            os._exit(code)
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
    "storm of 503 with Retry-After": [
        Fault(match="chunks", status=503, headers={"Retry-After": "1"}, times=20)
    ],
    "storm of 500 with Retry-After": [
        Fault(match="chunks", status=500, headers={"Retry-After": "1"}, times=20)
    ],
    "429": [Fault(match="chunks", status=429, headers={"Retry-After": "1"}, times=3)],
    "dropped connections": [Fault(match="chunks", action="drop", at=900, times=9)],
    "reset connections": [Fault(match="chunks", action="reset", at=50, times=9)],
    "truncated bodies": [Fault(match="chunks", skip=2, action="truncate", at=99, times=4)],
    "wrong ranges": [
        Fault(match="chunks", skip=1, headers={"Content-Range": "bytes 7-16/*"}, times=2)
    ],
    "slow answers": [Fault(match="chunks", delay_s=0.5, times=4)],
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_change_no_batch(name: str, behind: tuple[Place, ChaosProxy], photos: Path) -> None:
    place, proxy = behind
    # One request may meet many of the faults.
    dataset = forebay.Dataset(place.url, {**(place.options or {}), "max_attempts": 30})
    proxy.program(*FAULTS[name])
    assert epoch(dataset) == epoch(photos)
    met = {request.fault for request in proxy.requests()}
    assert met >= set(range(len(FAULTS[name])))


def test_corrupted_bodies_change_no_batch(behind: tuple[Place, ChaosProxy], photos: Path) -> None:
    place, proxy = behind
    dataset = forebay.Dataset(place.url, place.options)
    chunks = sorted(path.name for path in (photos / "chunks").iterdir())
    # One fault for each chunk, so that what is read again is whole.
    faults = [Fault(match=name, skip=1, action="corrupt", at=1500) for name in chunks]
    proxy.program(*faults)
    assert epoch(dataset) == epoch(photos)
    assert {request.fault for request in proxy.requests()} >= set(range(len(faults)))


def test_stats_count_what_is_asked_for_again(behind: tuple[Place, ChaosProxy]) -> None:
    place, proxy = behind
    options = {**(place.options or {}), "max_attempts": 30}
    proxy.program(Fault(match="chunks", status=503, times=3))
    with forebay.Loader(place.url, 8, transform=CROP, storage_options=options) as loader:
        for _ in loader:
            pass
        assert loader.stats()["retries"] == 3


def test_what_never_works_ends_with_an_error(behind: tuple[Place, ChaosProxy]) -> None:
    place, proxy = behind
    dataset = forebay.Dataset(place.url, place.options)
    proxy.program(Fault(match="chunks", status=404, times=-1))
    with pytest.raises(OSError, match="nothing is there: the server answered 404"):
        epoch(dataset)


INVERTED = bytes(range(255, -1, -1))  # the table of bytes.translate


def test_chunks_that_change_within_an_epoch_end_it(
    place: Place,
    s3: S3,
    nginx: Nginx,
    photos: Path,
    tmp_path: Path,
    chaos: Callable[..., ChaosProxy],
) -> None:
    """The others have the same names and sizes. A chunk's name is its hash, so this is damage."""
    shutil.copytree(photos, tmp_path / "set")
    proxy = chaos(place.server)
    own, replace = own_place(place, s3, nginx, tmp_path / "set")
    behind = through(own, proxy)
    dataset = forebay.Dataset(behind.url, {**(behind.options or {}), "max_attempts": 30})

    def change() -> None:
        for chunk in (photos / "chunks").iterdir():
            replace(f"chunks/{chunk.name}", chunk.read_bytes().translate(INVERTED))

    with pytest.raises(forebay.DataError, match="do not have the checksum that was stored"):
        epoch_around(proxy, dataset, change)


def own_place(
    place: Place, s3: S3, nginx: Nginx, folder: Path
) -> tuple[Place, Callable[[str, bytes], object]]:
    """Puts a folder on the server of a place; returns it, and what replaces a file of it."""
    if place.options is None:

        def write(name: str, content: bytes) -> None:
            (folder / name).write_bytes(content)
            # The server's ETag is made of the size and the second of the last change.
            os.utime(folder / name, (1e9, 1e9))

        return Place(f"{place.server}/{on_web(nginx, folder)}", None, place.server), write
    bucket = s3.make_bucket()
    s3.upload(folder, bucket, "set/")

    def put(name: str, content: bytes) -> None:
        assert s3.request("PUT", f"/{bucket}/set/{name}", body=content).status == 200

    return Place(f"s3://{bucket}/set", place.options, place.server), put


def test_certificates_are_verified(nginx: Nginx, photos: Path) -> None:
    name = on_web(nginx, photos)
    good = epoch(f"{nginx.tls_url}/{name}", {"verify": str(nginx.ca_file)})
    assert good == epoch(photos)
    with pytest.raises(OSError, match="certificate"):
        forebay.Dataset(f"{nginx.tls_url}/{name}")
    with pytest.raises(OSError, match="certificate"):
        forebay.Dataset(f"{nginx.expired_url}/{name}", {"verify": str(nginx.ca_file)})
    with pytest.raises(ValueError, match="always verified"):
        forebay.Dataset(f"{nginx.tls_url}/{name}", {"verify": False})


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
    with pytest.raises(ValueError, match="the scheme ftp:// is not known"):
        forebay.Dataset("ftp://host/set")
    with pytest.raises(ValueError, match="storage_options: give it with a path"):
        forebay.Loader(forebay.Dataset(f"s3://{bucket}/set", options), storage_options=options)


SECRET_ADDRESSES = [
    "https://me:hush@127.0.0.1:1/x",
    "https://127.0.0.1:1/x?sig=hush",
    "s3://KEY:hush@bucket/x",
    "HTTPS://me:hush@127.0.0.1:1/x",
    "ftp://me:hush@127.0.0.1:1/x",
]


@pytest.mark.parametrize("address", SECRET_ADDRESSES)
def test_no_command_shows_a_secret_of_an_address(
    address: str, photos: Path, tmp_path: Path
) -> None:
    new = str(tmp_path / "new")
    commands = [["ls", address], ["inspect", address], ["verify", address], ["index", address]]
    for name, source in (("pack", tmp_path), ("cp", photos), ("export", photos)):
        commands += [[name, address, new], [name, str(source), address]]
    for command in commands:
        refused = subprocess.run([FOREBAY, *command], capture_output=True, text=True)
        assert refused.returncode != 0 and refused.stderr, command
        assert "hush" not in refused.stderr + refused.stdout, command
    with pytest.raises((ValueError, OSError)) as error:
        forebay.Dataset(address)
    assert "hush" not in str(error.value)


def test_dots_in_a_key_are_not_resolved(s3: S3, photos: Path) -> None:
    target = s3.make_bucket()
    place = f"s3://{target}/a/../set"
    run_forebay("cp", photos, place, env=environment(s3))
    assert epoch(place, s3_options(s3)) == epoch(photos)
    with pytest.raises(FileNotFoundError):
        forebay.Dataset(f"s3://{target}/set", s3_options(s3))


def test_a_key_that_fits_into_no_folder_is_named(s3: S3, tmp_path: Path) -> None:
    source = s3.make_bucket()
    for key in ("cat/a.jpg", "cat//b.jpg"):
        answer = s3.request("PUT", f"/{source}/{key}", body=make_jpeg(1))
        assert answer.status == 200
    refused = run_forebay("pack", f"s3://{source}", tmp_path / "new", env=environment(s3), code=1)
    assert "the key cat//, which has an empty name between two slashes" in refused.stderr


def test_commands_work_on_urls(s3: S3, nginx: Nginx, bucket: str, photos: Path) -> None:
    env = environment(s3)
    listed = run_forebay("ls", photos).stdout
    web = f"{nginx.url}/{on_web(nginx, photos)}"
    for url in (f"s3://{bucket}/set", web, f"file://{photos}"):
        assert run_forebay("ls", url, env=env).stdout == listed
        run_forebay("verify", url, env=env)
        assert f"{PHOTOS} samples" in run_forebay("inspect", url, env=env).stdout


def files(dataset: Path) -> set[str]:
    """Returns the paths of the files of a dataset, except the lock."""
    paths = (path for path in dataset.rglob("*") if path.is_file() and path.name != "LOCK")
    return {path.relative_to(dataset).as_posix() for path in paths}


def assert_holds(s3: S3, bucket: str, dataset: Path) -> None:
    """Compares "set" in a bucket that has nothing else with a dataset on the disk."""
    assert s3.keys(bucket) == {f"set/{name}" for name in files(dataset)}
    head = s3.request("GET", f"/{bucket}/set/HEAD").body
    assert head == (dataset / "HEAD").read_bytes()
    assert s3.uploads(bucket) == []
    run_forebay("verify", f"s3://{bucket}/set", env=environment(s3))


def test_pack_goes_from_store_to_store(s3: S3, bucket: str, photos: Path) -> None:
    target, env = s3.make_bucket(), environment(s3)
    command = ["pack", f"s3://{bucket}/images", f"s3://{target}/set"]
    run_forebay(*command, "--chunk-bytes", "1000000", env=env)
    assert_holds(s3, target, photos)
    assert epoch(f"s3://{target}/set", s3_options(s3)) == epoch(photos)
    run_forebay(*command, "--chunk-bytes", "1000000", env=env)
    other = run_forebay(*command, "--chunk-bytes", "2000000", env=env, code=1)
    assert "complete dataset already" in other.stderr


def test_a_killed_pack_goes_on(
    s3: S3, bucket: str, photos: Path, chaos: Callable[..., ChaosProxy]
) -> None:
    target = s3.make_bucket()
    command = [FOREBAY, "pack", f"s3://{bucket}/images", f"s3://{target}/set"]
    command += ["--chunk-bytes", "1000000", "--threads", "1"]
    # Each pack stands still in the middle of another write, and is killed there.
    for line in (".*", ".*/chunks/", ".*/journal/", ".*/chunks/", ".*/snapshots/", ".*/HEAD "):
        proxy = chaos(s3.endpoint)
        skip = 1 if line == ".*/chunks/" else 0
        stall = Fault(match=f"^PUT {line}", skip=skip, times=-1, action="stall", upload=True)
        proxy.program(stall)
        environ = environment(s3, proxy.url)
        process = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)
        wait_for(partial(meets_fault, proxy))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert "set/HEAD" not in s3.keys(target)
    run_forebay(*command[1:], env=environment(s3))
    assert_holds(s3, target, photos)


def meets_fault(proxy: ChaosProxy) -> bool:
    """Returns whether a request has met one of the proxy's faults."""
    return any(request.fault >= 0 for request in proxy.requests())


def test_large_chunks_go_in_parts(s3: S3, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    folder = tmp_path / "images" / "a"
    folder.mkdir(parents=True)
    for number in range(5):
        noise = random.integers(0, 256, (1700, 2600, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"{number}.jpg", quality=95)
    bucket = s3.make_bucket()
    run_forebay("pack", folder.parent, f"s3://{bucket}/set", env=environment(s3))
    assert_holds(s3, bucket, pack({}, tmp_path))


def test_data_in_place_works_in_a_store(
    s3: S3, bucket: str, photos: Path, nginx: Nginx, tmp_path: Path
) -> None:
    folder = photos.parent / "images"
    assert epoch(f"s3://{bucket}/images", s3_options(s3)) == epoch(folder)
    for number in range(6):
        (tmp_path / f"{number}.jpg").write_bytes(make_jpeg(number))
    images = [f"{number}.jpg" for number in range(6)]
    subprocess.run(["tar", "cf", "shard-0.tar", *images], cwd=tmp_path, check=True)
    remote = forebay.Dataset(f"{nginx.url}/{on_web(nginx, tmp_path)}/shard-{{0..0}}.tar")
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


def test_a_folder_that_vanishes_within_an_epoch(place: Place, photos: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    dataset = forebay.Dataset(place.url, place.options, cache)
    with ThreadPoolExecutor(1) as pool:
        running = begin_epochs(pool, dataset, lambda: shutil.rmtree(cache))
        assert running.result() == epoch(photos, count=EPOCHS)
    assert epoch(place.url, place.options, index_cache=cache) == epoch(photos)


def test_a_folder_that_cannot_be_written_is_said(
    place: Place, photos: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.warns(UserWarning, match="FOREBAY_INDEX_CACHE"):
        dataset = forebay.Dataset(place.url, place.options, tmp_path / "file" / "cache")
    assert epoch(dataset) == epoch(photos)
    with pytest.raises(ValueError, match="index_cache: give it with a path"):
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
