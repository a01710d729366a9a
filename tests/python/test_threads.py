"""Calls from several threads at once never crash or hang and raise only documented errors."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import forebay
from forebay import transforms as T
from places import on_web
from servers.nginx import Nginx
from thread_stress import Everything, in_threads

SECONDS = float(
    os.environ.get("FOREBAY_TEST_SECONDS", "60" if os.environ.get("FOREBAY_TEST_ALL") else "20")
)


@pytest.mark.parametrize("kind", ["plain", "functions", "sampler"])
def test_two_threads_list_one_loader(packed: Path, kind: str):
    options: dict[str, Any] = {"shuffle": True, "transform": T.train(32)}
    if kind == "functions":
        options["transform"] = [*T.train(32), torch.neg]
    elif kind == "sampler":
        options = {"sampler": range(70), "fields": ["index"]}
    loader = forebay.Loader(packed, 8, num_workers=2, **options)
    whole = threading.Event()

    def work(_: int) -> None:
        for _ in range(100):
            try:
                assert len(list(loader)) == 9
                whole.set()
            except RuntimeError as error:
                assert "ended by a newer iter()" in str(error)

    in_threads(work, SECONDS, 2)
    assert whole.is_set()
    assert len(list(loader)) == 9


REFUSED = """
import os, sys
import forebay
from forebay import transforms as T

def read():
    loader = forebay.Loader(sys.argv[1], 8, transform=T.evaluate(32, 32), cache=cache)
    return sum(len(images) for images, _ in loader)

cache, limit = None, os.environ["FEW_THREADS"]
good = 0
for most in range(200):
    with open(limit + ".new", "w") as file:
        file.write(str(most))
    os.rename(limit + ".new", limit)
    try:
        cache = forebay.Cache(memory_bytes="10MB") if sys.argv[2] == "cache" else None
        print("all" if read() == 48 else "some")
        good += 1
    except (MemoryError, OSError, RuntimeError) as error:
        print(f"refused: {error}")
        good = 0
    os.remove(limit)
    assert read() == 48
    if good == 3:
        break
"""


def few_threads(folder: Path) -> Path:
    """A library that makes pthread_create() fail (few_threads.c)."""
    shim = folder / "few_threads.so"
    source = Path(__file__).with_name("few_threads.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
    return shim


@pytest.mark.parametrize("kind", ["plain", "cache"])
def test_a_system_without_threads_is_an_error(
    nginx: Nginx, photos: Path, kind: str, tmp_path: Path
):
    shim = few_threads(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", REFUSED, f"{nginx.url}/{on_web(nginx, photos)}", kind],
        env={**os.environ, "LD_PRELOAD": str(shim), "FEW_THREADS": str(tmp_path / "limit")},
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = done.stdout.split("\n")[:-1]
    assert said[0].startswith("refused: ") and said[-1] == "all"
    assert all(line == "all" or "thread" in line for line in said), said


ATTACHED = """
import os, sys
import torch
import forebay.sync

rank, folder, most = int(sys.argv[1]), sys.argv[2], sys.argv[3]
store = torch.distributed.FileStore(folder + "/store", 2)
torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if rank == 0:
    with open(os.environ["FEW_THREADS"], "w") as file:
        file.write(most)
try:
    sync = forebay.sync.attach(model, optimizer, sys.argv[4])
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    sync.close(20)
    print("attached")
except (MemoryError, RuntimeError) as error:
    print(f"{type(error).__name__}: {error}")
if rank == 0:
    os.remove(os.environ["FEW_THREADS"])
torch.distributed.barrier()
"""


@pytest.mark.parametrize(("strategy", "most"), [("ako", 0), ("ako", 1), ("allreduce", 0)])
def test_an_exchange_without_threads_is_an_error(strategy: str, most: int, tmp_path: Path):
    shim = few_threads(tmp_path)
    jobs = [
        subprocess.Popen(
            [sys.executable, "-c", ATTACHED, str(rank), str(tmp_path), str(most), strategy],
            env={
                **os.environ, "LD_PRELOAD": str(shim), "FEW_THREADS": str(tmp_path / f"few{rank}"),
            },
            stdout=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        refused, other = (job.communicate(timeout=100)[0] for job in jobs)
    finally:
        for job in jobs:
            job.kill()
    assert [job.returncode for job in jobs] == [0, 0]
    assert refused.startswith("MemoryError: sync: cannot start a thread"), refused
    assert other.startswith("SyncError: "), other


def test_threads_may_share_an_iterator(packed: Path):
    loader = forebay.Loader(packed, 4, True, fields=["index"])
    batches = iter(loader)
    seen: list[int] = []

    def work(_: int) -> None:
        for (numbers,) in batches:
            seen.extend(numbers.tolist())

    in_threads(work, SECONDS)
    assert sorted(seen) == list(range(70))


def test_the_last_owner_of_an_iterator_may_be_its_own_thread(packed: Path, monkeypatch: Any):
    """Python collects garbage in any thread, also in one that makes the iterator's batches."""
    complaints: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    owned: list[Any] = []
    is_idle, dropped = threading.Event(), threading.Event()

    def collate(samples: list[Any]) -> list[Any]:
        if samples[0][1] > 0:  # not the first batch
            is_idle.wait(10)
            owned.clear()
            dropped.set()
        return samples

    loader = forebay.Loader(
        packed, 4, num_workers=2, transform=T.evaluate(16, 20), fields=["image", "index"],
        collate_fn=collate,
    )  # fmt: skip
    owned.append(iter(loader))
    next(owned[0])
    is_idle.set()
    assert dropped.wait(10)
    assert len(list(loader)) == 18
    assert complaints == []


def test_everything_from_several_threads(packed: Path, folder: Path, tmp_path: Path):
    Everything(packed, folder).run(SECONDS, tmp_path)


def test_batch_decoders_from_several_threads(packed: Path):
    dataset = forebay.Dataset(packed)
    files = [dataset.read(number) for number in range(8)]
    decoder = forebay.BatchDecoder(T.train(24), threads=2)
    expected = decoder(files, drawn_for=range(8)).images.clone()

    def work(_: int) -> None:
        for _ in range(30):
            batch = decoder(files, drawn_for=range(8))
            assert batch.errors() == {} and torch.equal(batch.images, expected)

    in_threads(work, SECONDS)


IMPORTING = """
import sys, threading
import forebay
loader = forebay.Loader(sys.argv[1], 8, fields=["index"])
assert "torch" in sys.modules  # the first loader imports it completely
failed = []
def look():
    try:
        for _ in range(2000): len(loader)
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=look) for _ in range(3)]
for thread in threads: thread.start()
list(loader)
for thread in threads: thread.join()
assert not failed, failed
"""
INTERRUPTED = """
import os, signal, sys, threading, time
sys.modules.pop("torch", None)
import forebay
def interrupt():
    while "torch" not in sys.modules: time.sleep(0.001)
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    forebay.Loader(sys.argv[1], 8)
    raise SystemExit("Ctrl-C was not told")
except KeyboardInterrupt:
    pass
import torch
assert torch.ones(2).sum() == 2 and len(list(forebay.Loader(sys.argv[1], 8))) == 9
"""
BESIDE = """
import sys, threading
import forebay
thread = threading.Thread(target=lambda: __import__("torch"))
thread.start()
while "torch.distributed" not in sys.modules and thread.is_alive(): pass
assert len(forebay.Loader(sys.argv[1], 8)) == 9
thread.join()
"""


@pytest.mark.parametrize("program", [IMPORTING, INTERRUPTED, BESIDE])
def test_pytorch_is_imported_whole(packed: Path, program: str):
    command = [sys.executable, "-c", program, str(packed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
