"""Kills and interrupts the real binary and fills its disk: resumed packs have the same bytes.

Run: FOREBAY_BIN=build/release/src/apps/forebay .venv/bin/python -m pytest tests/fault
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
FOREBAY = str(
    Path(os.environ.get("FOREBAY_BIN", ROOT / "build/release/src/apps/forebay")).resolve()
)
OPTIONS = ["--chunk-bytes", "200000", "--threads", "2"]
IMAGES = 400
SEED = 20261121


def forebay(*args: object, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    command = [FOREBAY, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **kwargs)


def digest(dataset: Path) -> dict[str, str]:
    """Returns the hash of each file of a dataset, except the lock."""
    return {
        str(path.relative_to(dataset)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(dataset.rglob("*"))
        if path.is_file() and path.name != "LOCK"
    }


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source")
    rng = np.random.default_rng(SEED)
    for i in range(IMAGES):
        folder = root / f"class{i % 7}"
        folder.mkdir(exist_ok=True)
        small = rng.integers(0, 255, (12, 16, 3), dtype=np.uint8)
        image = Image.fromarray(small).resize((320, 240), Image.Resampling.BICUBIC)
        kind = "JPEG" if i % 20 else "PNG"
        image.save(folder / f"{i:04}.{kind.lower()}", kind, progressive=i % 3 == 0)
    (root / "class0" / "broken.jpg").write_bytes((root / "class1" / "0001.jpeg").read_bytes()[:900])
    return root


@pytest.fixture(scope="session")
def expected(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    dataset = tmp_path_factory.mktemp("expected") / "dataset"
    done = forebay("pack", source, dataset, *OPTIONS)
    assert done.returncode == 0, done.stderr
    assert forebay("verify", dataset, "--pixels").returncode == 0
    return digest(dataset)


def test_same_bytes_after_20_kills(source: Path, expected: dict[str, str], tmp_path: Path) -> None:
    print("seed", SEED)
    rng = random.Random(SEED)
    start = time.monotonic()
    assert forebay("pack", source, tmp_path / "timed", *OPTIONS).returncode == 0
    whole = time.monotonic() - start
    for point in range(20):
        dataset = tmp_path / f"killed{point}"
        # The machine may be faster now than when it was timed, so this repeats with a shorter time
        # until a kill arrives before the end.
        window = whole
        while not kill_after(rng.uniform(0, window), source, dataset):
            shutil.rmtree(dataset, ignore_errors=True)
            window *= 0.7
        kill_after(rng.uniform(0, whole), source, dataset)
        done = forebay("pack", source, dataset, *OPTIONS)
        assert done.returncode == 0, done.stderr
        assert digest(dataset) == expected
        assert not (dataset / "journal").exists()
    assert forebay("verify", dataset).returncode == 0


def kill_after(seconds: float, source: Path, dataset: Path) -> bool:
    """Returns whether the pack still ran when it was killed."""
    process = subprocess.Popen(
        [FOREBAY, "pack", str(source), str(dataset), *OPTIONS],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(seconds)
    process.kill()
    return process.wait() == -signal.SIGKILL


def test_interrupt_stops_cleanly(source: Path, expected: dict[str, str], tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    process = subprocess.Popen(
        [FOREBAY, "pack", str(source), str(dataset), "--chunk-bytes", "200000", "--threads", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (dataset / "journal/identity").exists() and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "stopped on request" in errors and "run the same command again" in errors
    assert not list((dataset / "chunks").glob("*.tmp"))
    assert forebay("pack", source, dataset, *OPTIONS).returncode == 0
    assert digest(dataset) == expected


def test_two_at_once(source: Path, tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    first = subprocess.Popen([FOREBAY, "pack", str(source), str(dataset), *OPTIONS])
    while not (dataset / "journal/identity").exists() and first.poll() is None:
        time.sleep(0.001)
    second = forebay("pack", source, dataset, *OPTIONS)
    assert second.returncode == 1 and "is held by process" in second.stderr
    assert first.wait(60) == 0


def test_a_pack_that_an_earlier_version_began_is_named(source: Path, tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    (dataset / "chunks").mkdir(parents=True)
    (dataset / "journal").write_text("00000000 {}\n")
    refused = forebay("pack", source, dataset, *OPTIONS)
    assert refused.returncode == 1
    assert "an earlier version of Forebay began this pack" in refused.stderr


# Packs onto a full disk, then makes room and packs again.
# Arguments: DISK SOURCE RESULTS FOREBAY OPTION...
FULL_DISK = """
mount -t tmpfs -o size=64m tmpfs "$1" || { echo "mount refused" >&2; exit 77; }
disk=$1 source=$2 results=$3 forebay=$4; shift 4
fallocate -l $((64 * 1024 - 1500))k "$disk/filler" || exit 1
"$forebay" pack "$source" "$disk/dataset" "$@" 2>"$results/full"; echo $? >"$results/full_code"
rm "$disk/filler" && "$forebay" pack "$source" "$disk/dataset" "$@" &&
cp -r "$disk/dataset" "$results/dataset"
"""


def test_full_disk(source: Path, expected: dict[str, str], tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    # The mount lives in a namespace of its own and ends with the shell. A user who is not root
    # becomes root in a user namespace.
    own = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    arguments = [str(disk), str(source), str(tmp_path), FOREBAY, *OPTIONS]
    command = [*own, "sh", "-c", FULL_DISK, "sh", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode == 77 or done.stderr.startswith("unshare: unshare failed"):
        pytest.skip(
            "mounting a small tmpfs needs root or user namespaces; pack_job_test.cc fills a disk "
            f"in memory at every write, here too ({done.stderr.strip()})"
        )
    assert (tmp_path / "full_code").read_text() == "1\n"
    said = (tmp_path / "full").read_text()
    for part in ("No space left on device", "more);", "run the same command again"):
        assert part.lower() in said.lower(), said
    assert done.returncode == 0, done.stderr
    assert digest(tmp_path / "dataset") == expected


def test_hostile_folder_never_blocks(source: Path, tmp_path: Path) -> None:
    root = tmp_path / "hostile"
    (root / "a").mkdir(parents=True)
    (root / "a" / "good.jpeg").write_bytes((source / "class1" / "0001.jpeg").read_bytes())
    os.mkfifo(root / "a" / "pipe.jpg")
    (root / "a" / "nowhere.jpg").symlink_to("missing")
    done = forebay("pack", root, tmp_path / "out", "--json", "--skip-max", "2")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["samples"] == 1 and len(report["refused"]) == 2
    (root / "a" / "loop").symlink_to("..")
    looped = forebay("pack", root, tmp_path / "out2")
    assert looped.returncode == 1 and "symbolic link" in looped.stderr
    os.mkfifo(tmp_path / "fifo.tar")
    assert forebay("pack", tmp_path / "fifo.tar", tmp_path / "out3").returncode == 1


def test_refusing_half_of_a_folder_is_an_error(source: Path, tmp_path: Path) -> None:
    """Pack once ended with 0 here, and the dataset looked complete."""
    root = tmp_path / "half"
    shutil.copytree(source / "class1", root / "a")
    for path in sorted((root / "a").iterdir())[::2]:
        path.write_bytes(path.read_bytes()[:500])
    damaged = (len(list((root / "a").iterdir())) + 1) // 2
    dataset = tmp_path / "dataset"
    refused = forebay("pack", root, dataset, *OPTIONS)
    assert refused.returncode == 1
    for part in (f"refused {damaged} of ", "more than --skip-max 1% allows; the first, a/",
                 f"the same command with --skip-max {damaged} completes"):  # fmt: skip
        assert part in refused.stderr
    assert not (dataset / "HEAD").exists() and list((dataset / "chunks").glob("*.tar"))
    assert forebay("ls", dataset).returncode == 1
    still = forebay("pack", root, dataset, *OPTIONS, "--skip-max", "40%")
    assert still.returncode == 1 and "--skip-max 40% allows" in still.stderr
    done = forebay("pack", root, dataset, *OPTIONS, "--skip-max", str(damaged), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert len(report["refused"]) == damaged
    assert forebay("verify", dataset).returncode == 0
    at_once = forebay("pack", root, tmp_path / "other", *OPTIONS, "--skip-max", "60%")
    assert at_once.returncode == 0
    assert digest(tmp_path / "other") == digest(dataset)


def test_a_limited_pack_does_not_count_what_the_whole_source_refuses(
    source: Path, tmp_path: Path
) -> None:
    shutil.copytree(source / "class1", tmp_path / "some/a")
    os.mkfifo(tmp_path / "some/a/odd.jpg")
    dataset = tmp_path / "out"
    done = forebay("pack", tmp_path / "some", dataset, "--limit", "3", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout.splitlines()[-1])["refused"]) == 1
    assert forebay("pack", tmp_path / "some", tmp_path / "all").returncode == 1


def test_exit_codes(source: Path, tmp_path: Path) -> None:
    assert forebay("pack").returncode == 2
    assert forebay("nonsense").returncode == 2
    assert forebay("--help").returncode == 0
    missing = forebay("ls", tmp_path / "missing")
    assert missing.returncode == 1 and missing.stderr.startswith("forebay: ")


def test_tar_lists_a_chunk(expected: dict[str, str], source: Path, tmp_path: Path) -> None:
    """GNU tar is the independent reader, and Pillow decodes the images for the comparison."""
    dataset = tmp_path / "dataset"
    assert forebay("pack", source, dataset, *OPTIONS).returncode == 0
    seen = 0
    for chunk in sorted((dataset / "chunks").glob("*.tar")):
        out = tmp_path / chunk.stem
        out.mkdir()
        subprocess.run(["tar", "xf", str(chunk), "-C", str(out)], check=True)
        for file in out.rglob("*.jpeg"):
            original = (source / file.relative_to(out)).read_bytes()
            a = np.asarray(Image.open(io.BytesIO(original)))
            assert (a == np.asarray(Image.open(file))).all()
            seen += 1
    assert seen == IMAGES - IMAGES // 20


def test_dataset_inside_its_source_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "images" / "cat"
    folder.mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    (tmp_path / "link").symlink_to(tmp_path / "images")
    for source, dataset in (("images", "images/out"), ("images", "images"), ("link", "images/out"),
                            ("images/", "link/new/out")):  # fmt: skip
        done = forebay("pack", source, dataset, cwd=tmp_path)
        assert done.returncode == 1
        assert "is inside its source" in done.stderr
    assert sorted(path.name for path in (tmp_path / "images").iterdir()) == ["cat"]
    # A folder whose name merely begins like the source's is allowed.
    assert forebay("pack", "images", "images.forebay", cwd=tmp_path).returncode == 0


def test_sources_and_lost_datasets_are_never_deleted(source: Path, tmp_path: Path) -> None:
    """Pack once deleted every *.tar in chunks/ when there was neither a HEAD nor a journal."""
    dataset = tmp_path / "dataset"
    assert forebay("pack", source, dataset, *OPTIONS).returncode == 0
    (dataset / "HEAD").unlink()
    before = digest(dataset)
    (tmp_path / "link").symlink_to(dataset / "chunks")
    chunks = dataset / "chunks"
    for inside in (chunks, sorted(chunks.iterdir())[0], tmp_path / "link"):
        refused = forebay("pack", inside, dataset)
        assert refused.returncode == 1 and "is inside the dataset" in refused.stderr
    lost = forebay("pack", source, dataset, *OPTIONS)
    assert lost.returncode == 1 and "chunks is not empty" in lost.stderr
    assert digest(dataset) == before
    # The remedy that the message names works.
    (root,) = (dataset / "snapshots").glob("*.root")
    (dataset / "HEAD").write_text(f"forebay 0 {root.stem}\n")
    assert forebay("verify", dataset).returncode == 0


def test_a_fifo_in_the_place_of_a_file_never_blocks(source: Path, tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    assert forebay("pack", source, dataset, *OPTIONS, "--limit", "30").returncode == 0
    for path in sorted(path for path in dataset.rglob("*") if path.is_file()):
        if path.name == "LOCK":
            continue
        content = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        done = forebay("verify", dataset)
        assert done.returncode == 1, path
        assert "not a regular file" in done.stdout + done.stderr, path
        if path.suffix != ".json":
            assert forebay("ls", dataset).returncode == 1, path
        path.unlink()
        path.write_bytes(content)
    assert forebay("verify", dataset).returncode == 0


def test_a_file_that_cannot_be_read_stops_with_advice(tmp_path: Path) -> None:
    folder = tmp_path / "images" / "cat"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        Image.new("RGB", (8, 8)).save(folder / f"{name}.png")
    (folder / "b.png").chmod(0)
    # Root may read everything, so another user runs a copy of the program.
    program = shutil.copy(FOREBAY, tmp_path)
    somebody: dict[str, Any] = {}
    if os.getuid() == 0:
        somebody = {"user": 65534, "group": 65534, "extra_groups": []}
        for parent in tmp_path.parents:
            if parent.name.startswith(("pytest-", "popen-")):  # made by pytest or xdist
                parent.chmod(0o755)
        tmp_path.chmod(0o777)
    command = [program, "pack", tmp_path / "images", tmp_path / "dataset"]
    stopped = subprocess.run(command, capture_output=True, text=True, timeout=120, **somebody)
    assert stopped.returncode == 1
    for part in ("b.png", "Permission denied", "chmod", "run the same command again"):
        assert part in stopped.stderr
    (folder / "b.png").chmod(0o600)
    assert forebay("pack", tmp_path / "images", tmp_path / "dataset").returncode == 0


def test_a_dataset_that_lost_a_chunk_is_not_complete(source: Path, tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    assert forebay("pack", source, dataset, *OPTIONS).returncode == 0
    again = forebay("pack", source, dataset, *OPTIONS)
    assert again.returncode == 0 and "already complete" in again.stdout
    chunk = min((dataset / "chunks").iterdir())
    content = chunk.read_bytes()
    for kept, said in ((content[:-512], "not as long"), (None, "missing")):
        chunk.unlink()
        if kept is not None:
            chunk.write_bytes(kept)
        again = forebay("pack", source, dataset, *OPTIONS)
        assert again.returncode == 1
        assert chunk.name in again.stderr and said in again.stderr
