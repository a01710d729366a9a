"""The wild trial runs thousands of public image files, whole and damaged, through everything.

It needs the folder that gather.py makes (FOREBAY_WILD=FOLDER) and takes about five minutes.
"""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import compare
import forebay
from decoders import Worker
from forebay import transforms as T

FOLDER = Path(os.environ.get("FOREBAY_WILD", ""))
pytestmark = pytest.mark.skipif(
    "FOREBAY_WILD" not in os.environ,
    reason="FOREBAY_WILD names no folder of public image files; tests/wild/README.md says how to "
    "make one",
)
ROOT = Path(__file__).resolve().parents[2]
FOREBAY = str(
    Path(os.environ.get("FOREBAY_BIN", ROOT / "build/release/src/apps/forebay")).resolve()
)
PACK_OPTIONS = ["--chunk-bytes", "8000000", "--threads", "2", "--skip-max", "100%"]
IMAGE_NAMES = (".jpg", ".jpeg", ".png", ".webp")
SEED = 20261124
GROWTH_BYTES_MAX = 32 << 20

Records = dict[str, compare.Record]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs the command forebay for at most ten minutes."""
    command = [FOREBAY, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, errors="replace")


@pytest.fixture(scope="module")
def records() -> Records:
    """Returns the records of compare.py by path."""
    worker = Worker()
    found = {record["path"]: record for record in compare.compare(FOLDER, worker)}
    worker.close()
    assert found
    return found


@pytest.fixture(scope="module")
def named(records: Records) -> dict[str, bool]:
    """Returns, for each file whose name is an image's, whether Forebay takes it."""
    return {
        path: "size" in record["forebay"]
        for path, record in records.items()
        if path.lower().endswith(IMAGE_NAMES)
    }


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packs the folder into a dataset in which each repository is a class."""
    dataset = tmp_path_factory.mktemp("packed") / "dataset"
    done = run("pack", FOLDER, dataset, *PACK_OPTIONS)
    assert done.returncode == 0, done.stderr
    return dataset


def test_nothing_crashes_or_hangs(records: Records) -> None:
    assert not [path for path, record in records.items() if compare.breaks(record)]


def test_jpegs_equal_libjpeg(records: Records) -> None:
    taken = [r for r in records.values() if r["format"] == "JPEG" and "size" in r["forebay"]]
    compared = [r for r in taken if "forebay-libjpeg" in r["differences"]]
    assert compared
    assert not [r["path"] for r in compared if r["differences"]["forebay-libjpeg"]]


def test_damaged_jpegs_equal_libjpeg(records: Records) -> None:
    damaged = compare.damaged_of(records.values())
    assert damaged
    assert not [r["path"] for r in damaged if r["differences"]["damaged-libjpeg"]]


def test_other_formats_equal_pillow(records: Records) -> None:
    others = [r for r in records.values() if r["format"] != "JPEG"]
    assert not [r["path"] for r in others if r["category"] == "differs"]


DECODE_ALL = """
import ctypes, os, sys
from pathlib import Path
import forebay

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info

def allocated():
    info = libc.mallinfo2()
    return info.uordblks + info.hblkhd

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

def decode_all():
    for path in paths:
        try:
            forebay.decode(path.read_bytes())
        except forebay.DataError:
            pass
    return allocated(), resident()

paths = sorted(path for path in Path(sys.argv[1]).glob("*/**/*") if path.is_file())
before, after = decode_all(), decode_all()
print(after[0] - before[0], after[1] - before[1])
"""


def test_decoding_keeps_nothing() -> None:
    command = [sys.executable, "-c", DECODE_ALL, str(FOLDER)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    allocated, resident = map(int, done.stdout.split())
    assert allocated < 1 << 20 and resident < GROWTH_BYTES_MAX, done.stdout


def test_damaged_jpegs_are_kept_when_asked(records: Records, tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    done = run("pack", FOLDER, dataset, "--damaged", "keep", *PACK_OPTIONS)
    assert done.returncode == 0, done.stderr
    kept = {
        path
        for path, record in records.items()
        if path.lower().endswith(IMAGE_NAMES)
        and ("size" in record["forebay"] or compare.takes_damaged(record))
    }
    named = {path for path in records if path.lower().endswith(IMAGE_NAMES)}
    assert refused_of(dataset) == named - kept
    loader = forebay.Loader(
        dataset, 64, transform=[T.Resize((32, 32))], damaged="decode", bad_samples_max=0
    )
    assert sum(len(labels) for _, labels in loader) == len(kept)


def refused_of(dataset: Path) -> set[str]:
    """Returns the files that `pack` refused, from its report."""
    (report,) = dataset.glob("snapshots/*.report.json")
    return {path for path, _ in json.loads(report.read_text())["refused"]}


def test_pack_refuses_what_decode_refuses(named: dict[str, bool], packed: Path) -> None:
    assert refused_of(packed) == {path for path, taken in named.items() if not taken}
    assert len(forebay.Dataset(packed)) == sum(named.values())


def test_verify(named: dict[str, bool], packed: Path) -> None:
    assert run("verify", "--pixels", packed).returncode == 0
    in_place = run("verify", "--pixels", FOLDER)
    assert in_place.returncode == (0 if all(named.values()) else 1)
    told = {line.split(": ", 1)[0] for line in in_place.stdout.splitlines()[:-1]}
    assert told == {str(FOLDER / path) for path in refused_of(packed)}


def test_packed_pixels_are_the_files(named: dict[str, bool], packed: Path) -> None:
    dataset = forebay.Dataset(packed)
    in_place = Counter(hash_of(forebay.decode((FOLDER / p).read_bytes())) for p in taken_of(named))
    assert Counter(hash_of(dataset[i][0]) for i in range(len(dataset))) == in_place


def taken_of(named: dict[str, bool]) -> list[str]:
    return [path for path, taken in named.items() if taken]


def hash_of(pixels: Any) -> bytes:
    return hashlib.sha256(str(pixels.shape).encode() + pixels.tobytes()).digest()


def digest(dataset: Path) -> dict[str, str]:
    """Returns the hash of each file of a dataset, except the lock."""
    return {
        str(path.relative_to(dataset)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(dataset.rglob("*"))
        if path.is_file() and path.name != "LOCK"
    }


def test_killed_pack_goes_on(packed: Path, tmp_path: Path) -> None:
    print("seed", SEED)
    chance = random.Random(SEED)
    dataset = tmp_path / "dataset"
    for _ in range(3):
        process = subprocess.Popen(
            [FOREBAY, "pack", str(FOLDER), str(dataset), *PACK_OPTIONS],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for_chunks(dataset, chance.randint(3, 12), process)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    done = run("pack", FOLDER, dataset, *PACK_OPTIONS)
    assert done.returncode == 0, done.stderr
    assert digest(dataset) == digest(packed)


def wait_for_chunks(dataset: Path, more: int, process: subprocess.Popen[bytes]) -> None:
    """Waits until this many more chunks are complete."""
    wanted = len(list(dataset.glob("chunks/*.tar"))) + more
    while len(list(dataset.glob("chunks/*.tar"))) < wanted and process.poll() is None:
        time.sleep(0.01)


@pytest.mark.parametrize("crops", [False, True])
def test_loader_in_place(named: dict[str, bool], crops: bool) -> None:
    loader = forebay.Loader(
        FOLDER,
        64,
        shuffle=crops,
        transform=T.train(32) if crops else [T.Resize((32, 32)), T.Normalize()],
        num_workers=2,
        on_bad="skip",
        bad_samples_max=len(named),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # one warning for each bad sample
        samples = sum(len(labels) for _, labels in loader)
    bad = {sample["chunk"] for sample in loader.bad_samples}
    assert samples + len(bad) == len(named)
    refused = {path for path, taken in named.items() if not taken}
    # Damage outside of a crop is not noticed, because only the crop is decoded.
    assert bad <= refused if crops else bad == refused


def test_loader_on_the_packed(named: dict[str, bool], packed: Path) -> None:
    loader = forebay.Loader(packed, 64, shuffle=True, transform=T.train(32), bad_samples_max=0)
    assert sum(len(labels) for _, labels in loader) == sum(named.values())
