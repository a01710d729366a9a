"""A process keeps nothing of a closed loader: no object, memory, thread, file or shared memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import ctypes, gc, os, sys, time
import numpy as np
import forebay
from forebay import transforms as T

forebay._core.tell_leaks()
path = sys.argv[1]
TRANSFORM = [T.RandomResizedCrop(64), T.RandomHorizontalFlip(), T.Normalize()]

def make(**options):
    return forebay.Loader(path, 8, shuffle=True, num_workers=2, transform=TRANSFORM, **options)
"""

ROUNDS = """
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info

def allocated():
    gc.collect()
    info = libc.mallinfo2()
    return info.uordblks + info.hblkhd

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

def held():
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

def one_round():
    dataset = forebay.Dataset(path)
    files = [dataset.read(i) for i in range(20)]
    pixels, label = dataset[3]
    dataset.keys(), dataset.find(dataset.key(5)), dataset.targets
    forebay.decode(files, threads=2)
    try:
        forebay.decode([files[0], b"no image"])
    except forebay.DataError:
        pass
    loader = make()
    for batch in loader:  # a whole epoch
        pass
    for step, batch in enumerate(loader):  # left early
        if step == 2:
            with open("/proc/self/maps") as maps:
                assert "/dev/shm" not in maps.read()
            break
    state = loader.state_dict()
    steps = iter(loader)
    next(steps)
    loader.set_epoch(7)
    try:
        next(steps)  # ended by set_epoch()
    except RuntimeError:
        pass
    again = make()
    again.load_state_dict(state)
    steps = iter(again)
    images, labels = next(steps)
    del again, loader, dataset  # the iterator and its batch outlive them
    next(steps)
    return float(images[0, 0, 0, 0])

WARM_UP, ROUNDS, TAIL = 40, 40, 10
for _ in range(WARM_UP):
    one_round()
before = held()
memory = np.zeros((ROUNDS, 2), np.int64)  # made now, since the measurements include it
for i in range(ROUNDS):
    one_round()
    memory[i] = allocated(), resident()
until = time.monotonic() + 60
while any(now > then for now, then in zip(held(), before)):
    assert time.monotonic() < until, f"files and threads: {before} before, {held()} after"
    time.sleep(0.01)  # a joined thread may stay listed for a moment

# The least of several rounds counts, because the threads' memory varies by about 10 kB. The
# interpreter's own memory grows more and more slowly, by up to 1 kB in each early round.
malloc, rss = (int(n) for n in memory[-TAIL:].min(axis=0) - memory[:TAIL].min(axis=0))
told = f"{malloc} bytes more are allocated, {rss} more are resident after {ROUNDS - TAIL} rounds"
assert malloc < 2000 * (ROUNDS - TAIL), told
assert rss < 8 << 20, told
print(told)
"""

STILL_USED = """
loader = make()
steps = iter(loader)
images, labels = next(steps)
dataset = forebay.Dataset(path)
pixels = forebay.decode([dataset.read(0), dataset.read(1)], threads=2)
"""

LEAK = """
dataset = forebay.Dataset(path)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(dataset.core))
"""


def run(script: str, packed: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a script in a process that allocates by malloc only and has its own folder for files."""
    folder.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", BEGIN + script, str(packed)],
        env={**os.environ, "PYTHONMALLOC": "malloc", "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("script", [ROUNDS, STILL_USED], ids=["many rounds", "still used at exit"])
def test_nothing_stays_behind(script: str, packed: Path, tmp_path: Path):
    done = run(script, packed, tmp_path / "files")
    assert done.returncode == 0, done.stderr
    # nanobind prints to stderr which objects are still alive when the interpreter ends.
    assert done.stderr == ""
    assert list((tmp_path / "files").iterdir()) == []


def test_a_leaked_object_would_be_told(packed: Path, tmp_path: Path):
    assert "nanobind: leaked 1 instances" in run(LEAK, packed, tmp_path / "files").stderr
