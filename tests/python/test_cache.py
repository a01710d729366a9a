"""A job's cache in front of real servers: every byte comes once, and the batches stay the same."""

import gc
import io
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import forebay
from places import Place, epoch, on_web, s3_options, through
from servers.chaos import ChaosProxy, Fault
from servers.nginx import Nginx
from servers.processes import wait_for
from servers.s3 import S3


@pytest.fixture
def web(nginx: Nginx, photos: Path) -> str:
    """Returns the URL of the photographs on nginx."""
    return f"{nginx.url}/{on_web(nginx, photos)}"


def stored_bytes(photos: Path) -> int:
    """Returns the bytes of all chunks."""
    return sum(path.stat().st_size for path in (photos / "chunks").iterdir())


def whole_epochs(cache: forebay.Cache, place: Place, photos: Path) -> None:
    """Reads three epochs of whole images through the cache, and compares them with the disk's."""
    more: dict[str, Any] = {"regions": "never", "count": 3}
    assert epoch(place.url, place.options, cache=cache, **more) == epoch(photos, **more)


def test_whole_images_come_once(place: Place, photos: Path, tmp_path: Path) -> None:
    cache = forebay.Cache(tmp_path, disk_bytes="1GB")
    whole_epochs(cache, place, photos)
    stats = cache.stats()
    assert stats["serves"]
    assert 0 < stats["origin_bytes"] <= stored_bytes(photos)
    assert stats["disk_hit_bytes"] > 1.9 * stats["origin_bytes"]
    assert stats["trouble"] == ""
    before = stats["origin_bytes"]
    whole_epochs(cache, place, photos)
    assert cache.stats()["origin_bytes"] == before


def test_of_crops_only_what_was_not_asked_for_before_comes(
    place: Place, photos: Path, tmp_path: Path
) -> None:
    cache = forebay.Cache(tmp_path, disk_bytes="1GB", memory_bytes="1MB")
    assert epoch(place.url, place.options, cache=cache, count=4) == epoch(photos, count=4)
    stats = cache.stats()
    assert stats["origin_bytes"] <= 1.01 * stored_bytes(photos)
    assert stats["memory_hit_bytes"] > 0
    assert stats["disk_hit_bytes"] > 0
    assert stats["memory_held_bytes"] <= 1_000_000


def test_data_in_place_comes_once(s3: S3, bucket: str, photos: Path, tmp_path: Path) -> None:
    cache = forebay.Cache(tmp_path, disk_bytes="1GB")
    images = photos.parent / "images"
    more: dict[str, Any] = {"count": 3}
    remote = epoch(f"s3://{bucket}/images", s3_options(s3), cache=cache, **more)
    assert remote == epoch(images, **more)
    stored = sum(path.stat().st_size for path in images.glob("*/*"))
    assert 0 < cache.stats()["origin_bytes"] <= stored
    # A shared file system is an origin like others.
    assert epoch(images, cache=cache, **more) == remote
    assert cache.stats()["origin_bytes"] <= 2 * stored


def test_a_small_cache_holds_what_it_may(place: Place, photos: Path, tmp_path: Path) -> None:
    half = stored_bytes(photos) // 2
    cache = forebay.Cache(tmp_path, disk_bytes=half)
    whole_epochs(cache, place, photos)
    stats = cache.stats()
    assert 0.9 * half < stats["disk_held_bytes"] <= half
    # What is held is read from there in each epoch after the first, also in the one that was
    # prepared and not used any more.
    epochs = (stats["origin_bytes"] + stats["disk_hit_bytes"]) / stored_bytes(photos)
    assert epochs > 2.8
    assert stats["disk_hit_bytes"] > 0.9 * (epochs - 1) * stats["disk_held_bytes"]


def test_damage_on_the_disk_is_found_and_read_again(web: str, photos: Path, tmp_path: Path) -> None:
    cache = forebay.Cache(tmp_path, disk_bytes="1GB")
    whole_epochs(cache, Place(web, None, ""), photos)
    for file in (tmp_path / "forebay-cache/held").iterdir():
        content = bytearray(file.read_bytes())
        for at in range(0, len(content), 50_000):
            content[at] ^= 255
        file.write_bytes(content)
    whole_epochs(cache, Place(web, None, ""), photos)
    assert cache.stats()["damaged"] > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_makes_the_cache_smaller(web: str, photos: Path, tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path], check=True)
    try:
        cache = forebay.Cache(tmp_path, disk_bytes="1GB")
        whole_epochs(cache, Place(web, None, ""), photos)
        stats = cache.stats()
        assert "No space left" in stats["trouble"]
        assert 0 < stats["disk_held_bytes"] <= 1 << 20
        del cache
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


# A process of a job: opens the cache, says so, waits for a line, reads epochs, and prints the
# hashes of their batches and what the cache did.
MEMBER = """
import json, os, pathlib, sys, time
import forebay
from places import epoch
path, options, folder, rank, world, epochs = json.loads(sys.argv[1])
cache = forebay.Cache(folder, disk_bytes="1GB")
path = forebay.Dataset(path, options, cache=cache)
child = os.fork()  # as a DataLoader's workers are
if not child:
    os.close(0), os.close(1)
    time.sleep(120)
    os._exit(0)
print(child, flush=True)
sys.stdin.readline()
def begun():
    print("begun", flush=True)
hashes = epoch(path, rank=rank, world_size=world, count=epochs,
               regions="never", after_first=begun)
print(json.dumps([hashes, cache.stats()]), flush=True)
sys.stdin.readline()
"""


class Member:
    """A process of a job with a cache."""

    def __init__(self, place: Place, folder: Path, rank: int, world: int, epochs: int = 3) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                MEMBER,
                json.dumps([place.url, place.options, str(folder), rank, world, epochs]),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self.child = int(self.line())

    def line(self) -> str:
        """Returns the next line that the process prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        """Lets the process go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def result(self) -> tuple[list[str], dict[str, Any]]:
        """Returns the hashes of the batches, and the cache's figures."""
        hashes, stats = json.loads(self.line())
        return hashes, stats


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """Returns a list for processes, which are killed at the end."""
    started: list[Member] = []
    yield started
    for member in started:
        os.kill(member.child, signal.SIGKILL)
        member.process.kill()
        member.process.communicate(timeout=60)


# Only nightly over both kinds of origin.
with_many_processes = pytest.mark.parametrize(
    "place", ["s3", pytest.param("web", marks=pytest.mark.nightly)], indirect=True
)


def hashes_of_rank(photos: Path, rank: int, world: int, epochs: int = 3) -> list[str]:
    """Returns the hashes of the batches of one rank of a job that reads from the disk."""
    return epoch(photos, rank=rank, world_size=world, count=epochs, regions="never")


@with_many_processes
def test_the_processes_of_a_machine_share_what_they_read(
    place: Place, photos: Path, tmp_path: Path, members: list[Member]
) -> None:
    for rank in range(4):
        members.append(Member(place, tmp_path, rank, 4))
    for member in members:
        member.go_on()
    assert [member.line() for member in members] == ["begun"] * 4
    results = [member.result() for member in members]
    for rank, (hashes, _) in enumerate(results):
        assert hashes == hashes_of_rank(photos, rank, 4)
    stats = [stats for _, stats in results]
    assert [one["serves"] for one in stats].count(True) == 1
    assert sum(one["peer_failures"] for one in stats) == 0
    assert sum(one["origin_bytes"] for one in stats) <= 1.01 * stored_bytes(photos)
    for member in members:
        member.go_on()
        assert member.process.wait(timeout=60) == 0
    assert not (tmp_path / "forebay-cache").exists()


@with_many_processes
def test_another_process_takes_over_from_one_that_was_killed(
    place: Place, photos: Path, tmp_path: Path, members: list[Member]
) -> None:
    for rank in range(3):
        members.append(Member(place, tmp_path, rank, 3, epochs=6))
    for member in members:
        member.go_on()
    assert members[0].line() == "begun"
    members[0].process.send_signal(signal.SIGKILL)
    results = []
    for rank in (1, 2):
        assert members[rank].line() == "begun"
        hashes, stats = members[rank].result()
        assert hashes == hashes_of_rank(photos, rank, 3, epochs=6)
        results.append(stats)
    # What is held is used again. Only what was asked for meanwhile came from the origin.
    cache = forebay.Cache(tmp_path, disk_bytes="1GB")
    assert not cache.stats()["serves"]
    whole_epochs(cache, place, photos)
    assert cache.stats()["origin_bytes"] == 0
    del cache
    for rank in (1, 2):
        members[rank].go_on()
        assert members[rank].process.wait(timeout=60) == 0
    assert not (tmp_path / "forebay-cache").exists()


@with_many_processes
def test_when_all_were_killed_the_next_job_begins_anew(
    place: Place, tmp_path: Path, members: list[Member]
) -> None:
    members.append(Member(place, tmp_path, 0, 1, epochs=1))
    members[0].go_on()
    assert members[0].line() == "begun"
    members[0].process.kill()
    members[0].process.wait(timeout=60)
    assert len(list((tmp_path / "forebay-cache/held").iterdir())) > 2
    cache = forebay.Cache(tmp_path, disk_bytes="1GB")
    assert cache.stats()["serves"]
    assert cache.stats()["found_bytes"] == 0
    names = {path.name for path in (tmp_path / "forebay-cache/held").iterdir()}
    assert names == {"lock", "list"}


def test_what_shall_be_kept_is_there_for_the_next_job(
    place: Place, photos: Path, tmp_path: Path
) -> None:
    cache = forebay.Cache(tmp_path, disk_bytes="1GB", keep=True)
    whole_epochs(cache, place, photos)
    held = cache.stats()["disk_held_bytes"]
    del cache
    cache = forebay.Cache(tmp_path, disk_bytes="1GB", keep=True)
    assert cache.stats()["disk_held_bytes"] == held
    whole_epochs(cache, place, photos)
    assert cache.stats()["origin_bytes"] == 0
    assert cache.stats()["found_bytes"] > 0
    del cache
    # Whoever does not ask for it finds nothing, and leaves nothing.
    cache = forebay.Cache(tmp_path, disk_bytes="1GB")
    assert cache.stats()["disk_held_bytes"] == 0
    del cache
    assert not (tmp_path / "forebay-cache").exists()


def test_a_server_that_answers_nothing_is_bypassed(
    web: str, photos: Path, tmp_path: Path, members: list[Member]
) -> None:
    members.append(Member(Place(web, None, ""), tmp_path, 0, 2))
    members[0].process.send_signal(signal.SIGSTOP)
    cache = forebay.Cache(tmp_path, disk_bytes="1GB")
    hashes = epoch(web, cache=cache, rank=1, world_size=2, regions="never")
    members[0].process.send_signal(signal.SIGCONT)
    assert hashes == hashes_of_rank(photos, 1, 2, epochs=1)
    stats = cache.stats()
    assert stats["peer_failures"] > 0
    assert stats["origin_bytes"] > 0


def test_an_origin_that_is_away_matters_not_where_the_cache_holds_all(
    place: Place, photos: Path, tmp_path: Path, chaos: Callable[..., ChaosProxy]
) -> None:
    proxy = chaos(place.server)
    behind = through(place, proxy)
    dataset = forebay.Dataset(behind.url, behind.options, cache=tmp_path, cache_bytes="1GB")
    more: dict[str, Any] = {"regions": "never", "count": 2}
    expected = epoch(photos, **more)
    assert epoch(dataset, **more) == expected
    proxy.program(Fault(match="chunks", status=503, times=-1))
    assert epoch(dataset, **more) == expected


def test_figures_and_the_progress_line_say_where_bytes_came_from(
    web: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loader = forebay.Loader(
        web, 8, regions="never", progress=True, cache=tmp_path, cache_bytes="1GB"
    )
    with loader:
        for _ in range(2):
            for _ in loader:
                pass
        stats = loader.stats()
    assert stats["cache_disk_hit_bytes"] > 0
    assert stats["cache_origin_bytes"] > 0
    assert re.search(r"requests.*; cache: [0-9]+% disk, [0-9]+% origin", capsys.readouterr().err)


def test_one_name_is_one_cache(web: str, tmp_path: Path) -> None:
    size: dict[str, Any] = {"cache": tmp_path, "cache_bytes": "1GB"}
    first = forebay.Loader(web, 8, **size)
    second = forebay.Dataset(web, **size)
    assert first.dataset.cache is second.cache
    assert second.cache is not None
    assert second.cache.stats()["serves"]
    copy = pickle.loads(pickle.dumps(second))
    assert copy.cache is second.cache
    assert forebay.concat([second, forebay.Dataset(web)]).cache is second.cache


def test_memory_alone_leaves_nothing(web: str, photos: Path, tmp_path: Path) -> None:
    before = set(os.listdir("/dev/shm"))
    dataset = forebay.Dataset(web, cache="memory", cache_bytes="50MB")
    assert epoch(dataset, regions="never", count=2) == epoch(photos, regions="never", count=2)
    assert dataset.cache is not None
    stats = dataset.cache.stats()
    assert stats["memory_hit_bytes"] > 0
    assert stats["disk_held_bytes"] == 0
    assert len(set(os.listdir("/dev/shm")) - before) == 1
    # One that was killed left this; nobody holds it any more.
    left = Path(f"/dev/shm/forebay-{os.getuid()}-of-a-test")
    left.mkdir()
    (left / ("0" * 64)).write_bytes(bytes(1000))
    other = forebay.Cache(tmp_path, memory_bytes="1MB")
    assert not left.exists()
    del dataset, other
    wait_for(lambda: set(os.listdir("/dev/shm")) <= before)


def test_a_forked_process_reads_around_the_cache(web: str, photos: Path, tmp_path: Path) -> None:
    dataset = forebay.Dataset(web, cache=tmp_path, cache_bytes="1GB")
    expected = epoch(photos, regions="never")
    assert epoch(dataset, regions="never") == expected
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = 0 if epoch(dataset, regions="never") == expected else 1
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert epoch(dataset, regions="never") == expected


def test_what_makes_no_sense_is_refused(web: str, tmp_path: Path) -> None:
    def message(**more: Any) -> str:
        with pytest.raises((ValueError, OSError)) as error:
            forebay.Dataset(web, **more)
        return str(error.value)

    assert "needs cache_bytes" in message(cache=tmp_path)
    assert "cache_bytes needs" in message(cache_bytes=5)
    assert "must be a size" in message(cache=tmp_path, cache_bytes="5 apples")
    assert "must be a size" in message(cache=tmp_path, cache_bytes="5i")
    assert "needs a size" in message(cache=tmp_path, cache_bytes=0)
    assert "must be at least 0" in message(cache=tmp_path, cache_bytes=-1)
    assert "must be a folder" in message(cache=5, cache_bytes=5)
    assert "/dev/shm has room" in message(cache="memory", cache_bytes="900TB")
    (tmp_path / "file").write_text("mine")
    assert "file" in message(cache=tmp_path / "file", cache_bytes="1GB")
    (tmp_path / "forebay-cache/held").mkdir(parents=True)
    (tmp_path / "forebay-cache/held/thesis.tex").write_text("precious")
    assert "thesis.tex" in message(cache=tmp_path, cache_bytes="1GB")
    shutil.rmtree(tmp_path / "forebay-cache")
    dataset = forebay.Dataset(web, cache=tmp_path, cache_bytes="1GB")
    with pytest.raises(ValueError, match="cache: give it with a path"):
        forebay.Loader(dataset, 8, cache=tmp_path)


def test_a_file_of_unknown_age_is_not_kept_for_the_next_job(
    nginx: Nginx, chaos: Callable[..., ChaosProxy], tmp_path: Path
) -> None:
    """The server sends neither ETag nor Last-Modified, and the new bytes have the same length."""
    folder = nginx.folder / f"unknown-{os.getpid()}"
    folder.mkdir()
    proxy = chaos(nginx.url)
    proxy.program(Fault(headers={"ETag": None, "Last-Modified": None}, times=-1))
    shades: list[int] = []
    for shade in (10, 200):
        with tarfile.open(folder / "a.tar", "w") as shard:
            image = io.BytesIO()
            Image.new("RGB", (8, 8), (shade, shade, shade)).save(image, "PNG", compress_level=0)
            member = tarfile.TarInfo("a.png")
            member.size = len(image.getvalue())
            image.seek(0)
            shard.addfile(member, image)
        cache = forebay.Cache(tmp_path, disk_bytes="10MB", keep=True)
        dataset = forebay.Dataset(f"{proxy.url}/{folder.name}/a.tar", cache=cache)
        with forebay.Loader(dataset, 1, transform=None, fields=["image"]) as loader:
            shades.extend(int(image[0][0, 0, 0]) for image in next(iter(loader)))
        del dataset, cache, loader
        gc.collect()
    assert shades == [10, 200]
