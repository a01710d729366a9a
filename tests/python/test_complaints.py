"""The most frequent complaints about other loaders, each with a test that would show it here.

docs/features.md names further tests that answer a complaint.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import forebay
from conftest import make_jpeg
from forebay import transforms as T

DEADLINE_S = 120  # ends a program that hangs; all programs here take far less
TORCHRUN = ["-m", "torch.distributed.run", "--standalone"]


def start(code: str, path: Path, *launcher: str) -> subprocess.Popen[str]:
    """Starts a program, in a session of its own, in which `path` is defined."""
    program = f"import os, signal, sys, time, torch, forebay\npath = {str(path)!r}\n"
    program += "from forebay import transforms as T\n" + textwrap.dedent(code)
    if launcher:
        file = Path(os.environ["PYTEST_PROGRAMS"]) / "program.py"
        file.write_text(program)
        command = [sys.executable, *launcher, str(file)]
    else:
        command = [sys.executable, "-c", program]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def session_of(process: str) -> int:
    """Returns the session of a process, given by its folder in /proc, or 0 when it has ended."""
    try:
        state, _, _, session = Path(process, "stat").read_text().rpartition(")")[2].split()[:4]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if state == "Z" else int(session)


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Waits for the process to end and returns its exit code and output.

    No other process of its session may be left.
    """
    try:
        out, err = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    left = [path for path in Path("/proc").glob("[0-9]*") if session_of(str(path)) == process.pid]
    assert not left, [Path(path, "cmdline").read_text() for path in left]
    return process.returncode, out, err


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_PROGRAMS", str(tmp_path))


# "DataLoader hangs when I break", "never exits after an exception", "deadlock at exit"
HANGS = {
    "break": (
        0,
        """
        loader = forebay.Loader(path, 4, shuffle=True, transform=T.train(64), num_workers=3)
        for _ in range(50):
            for batch in loader: break
        """,
    ),
    "exception": (
        1,
        """
        for batch in forebay.Loader(path, 4, transform=T.train(64), num_workers=3):
            raise RuntimeError("the consumer's")
        """,
    ),
    "exit": (
        3,
        """
        loader = forebay.Loader(path, 4, transform=T.train(64), num_workers=3)
        for batch in loader: sys.exit(3)
        """,
    ),
    "terminated": (
        -signal.SIGTERM,
        """
        for batch in forebay.Loader(path, 4, transform=T.train(64), num_workers=3):
            os.kill(os.getpid(), signal.SIGTERM)
        """,
    ),
    "waiting thread at exit": (
        0,
        """
        import threading
        loader = forebay.Loader(path, 4, transform=T.train(64), num_workers=3)
        begun = threading.Event()
        def consume():
            while True:
                for batch in loader: begun.set()
        threading.Thread(target=consume, daemon=True).start()
        begun.wait()
        """,
    ),
    "forked while threads begin": (
        0,
        """
        loader = forebay.Loader(path, 4, transform=T.train(64), num_workers=3)
        batches = iter(loader)
        for delay in range(10):
            child = os.fork()
            if child == 0:
                for batch in loader: os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            if delay == 0: next(batches)
        """,
    ),
    "child killed": (
        0,
        """
        loader = forebay.Loader(path, 4, transform=T.train(64), num_workers=3)
        batches = iter(loader)
        next(batches)
        child = os.fork()
        if child == 0:
            for batch in loader: os.kill(os.getpid(), signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        assert len(list(batches)) == len(loader) - 1
        """,
    ),
}


@pytest.mark.parametrize("how", HANGS)
def test_hangs(how: str, packed: Path):
    expected, code = HANGS[how]
    returned, _, err = end(start(code, packed))
    assert returned == expected, err
    assert ("the consumer's" in err) if how == "exception" else err == ""


# "one rank died and the others wait for ever"
def test_hang_after_a_rank_was_killed(packed: Path):
    code = """
        torch.distributed.init_process_group("gloo")
        loader = forebay.Loader(path, 4, shuffle=True, drop_last=True, transform=T.train(64))
        for epoch in range(1000):
            for images, labels in loader:
                torch.distributed.all_reduce(images.mean())
                if loader.rank == 1 and epoch == 2:
                    os.kill(os.getpid(), signal.SIGKILL)
        """
    returned, _, err = end(start(code, packed, *TORCHRUN, "--nproc-per-node=2"))
    assert returned == 1
    assert "Signal 9 (SIGKILL)" in err


# "/dev/shm is full of files after Ctrl-C", "/tmp/streaming belongs to another user"
def test_leftovers_in_shared_memory(packed: Path, tmp_path: Path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    process = start(
        """
        loader = forebay.Loader(path, 4, shuffle=True, transform=T.train(64), num_workers=3)
        batches = iter(loader)
        next(batches)
        opened = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                  if os.path.exists(f"/proc/self/fd/{fd}")]
        mapped = [line.split()[-1] for line in open("/proc/self/maps")]
        shared = ("/dev/shm", "/memfd")
        print([name for name in opened + mapped if name.startswith(shared)], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        packed,
    )
    returned, out, err = end(process)
    assert returned == -signal.SIGKILL, err
    assert out == "[]\n"
    assert list(temporary.iterdir()) == []


# "can't start new thread", "too many open files"
def test_leftovers_of_loaders_that_are_gone(packed: Path, folder: Path):
    code = """
        def count():
            return [len(os.listdir(f"/proc/self/{kind}")) for kind in ("task", "fd")]
        def use(path):
            loader = forebay.Loader(path, 4, shuffle=True, transform=T.train(64), num_workers=4)
            for batch in loader: break
            return loader
        folder = os.path.join(os.path.dirname(path), "images")
        use(path)
        before = count()
        one = use(path)
        within = count()
        assert within[0] >= before[0] + 4, (before, within)
        del one
        for _ in range(30):
            use(path)
            use(folder)
        until = time.monotonic() + 60
        while any(now > then for now, then in zip(count(), before)):
            assert time.monotonic() < until, (before, count())
            time.sleep(0.01)  # a joined thread may stay listed for a moment
        """
    returned, _, err = end(start(code, packed))
    assert returned == 0, err


# "memory grows with every epoch and every worker until the job is killed"
@pytest.mark.parametrize("where", ["packed", "folder"])
def test_memory_growth_with_workers(where: str, request):
    code = """
        import ctypes
        class Malloc(ctypes.Structure):  # struct mallinfo2 of glibc
            _fields_ = [(name, ctypes.c_size_t) for name in (
                "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
                "fordblks", "keepcost")]
        mallinfo2 = ctypes.CDLL(None).mallinfo2
        mallinfo2.restype = Malloc
        def in_use():
            now = mallinfo2()
            return now.uordblks + now.hblkhd
        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        loader = forebay.Loader(path, 8, shuffle=True, transform=T.train(64), num_workers=4)
        kept = None
        for epoch in range(450):
            for batch in loader: kept = batch
            loader.state_dict()
            if epoch == 149: before = in_use(), resident()
        print(in_use() - before[0], resident() - before[1])
        """
    returned, out, err = end(start(code, request.getfixturevalue(where)))
    assert returned == 0, err
    allocated, resident = (int(number) for number in out.split())
    # Keeping one batch of each epoch would take 118 MB, and keeping one file of each epoch 4 MB.
    # What the process occupies also grows by what the allocator has not given back.
    assert allocated < 1_000_000
    assert resident < 30_000_000


# "ranks got unequal numbers of batches: DDP hangs at the end of the epoch"
def test_unequal_steps(packed: Path):
    """With 70 samples on three ranks, some ranks have fewer samples at an epoch's end, or none."""
    code = """
        torch.distributed.init_process_group("gloo")
        for batch_size, shuffle, drop_last in [
            (4, False, False), (4, True, False), (4, True, True), (23, False, False),
            (23, True, True),
        ]:
            loader = forebay.Loader(path, batch_size, shuffle=shuffle, drop_last=drop_last,
                                    transform=T.train(32) if shuffle else T.evaluate(32, 36))
            for epoch in range(2):
                steps, samples = 0, torch.zeros(1)
                for images, labels in loader:
                    assert images.shape[1:] == (3, 32, 32) and len(images) == len(labels)
                    count = torch.full((1,), float(len(labels)))
                    torch.distributed.all_reduce(count)  # hangs if a rank has no step
                    steps, samples = steps + 1, samples + count
                assert steps == len(loader)
                if loader.rank == 0: print(steps, int(samples.item()), flush=True)
        torch.distributed.destroy_process_group()
        """
    returned, out, err = end(start(code, packed, *TORCHRUN, "--nproc-per-node=3"))
    assert returned == 0, err
    expected = ["6 70", "6 72", "5 60", "2 70", "1 69"]
    assert out.splitlines() == [line for line in expected for _ in range(2)]


# "after a restart samples come twice", "an epoch is skipped", "prefetched data is lost"
@pytest.mark.parametrize("killed_after", [[3, 6, 2], [9, 9]])
def test_wrong_resume(killed_after: list[int], packed: Path, tmp_path: Path):
    """Two epochs of 9 batches run in processes that are killed within an epoch and at its end."""
    code = """
        import json
        folder, batches_max = sys.argv[1], int(sys.argv[2])
        loader = forebay.Loader(path, 8, shuffle=True, transform=T.train(32), prefetch_factor=4)
        if os.path.exists(f"{folder}/state"):
            loader.load_state_dict(torch.load(f"{folder}/state"))
        given = 0
        while True:
            for images, labels in loader:
                epoch = loader.state_dict()["epoch"]
                if epoch == 2: sys.exit()
                with open(f"{folder}/log", "a") as log:
                    print(json.dumps([epoch, images.double().sum().item(), labels.tolist()]),
                          file=log)
                torch.save(loader.state_dict(), f"{folder}/state")
                given += 1
                if given == batches_max: os.kill(os.getpid(), signal.SIGKILL)
        """
    program = tmp_path / "train.py"
    heading = f"import os, signal, sys, torch, forebay\npath = {str(packed)!r}\n"
    program.write_text(heading + "from forebay import transforms as T\n" + textwrap.dedent(code))

    def train(name: str, *killed: int) -> list[str]:
        (tmp_path / name).mkdir()
        for batches in (*killed, 0):
            command = [sys.executable, str(program), str(tmp_path / name), str(batches)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
            assert done.returncode == (-signal.SIGKILL if batches else 0), done.stderr
        return (tmp_path / name / "log").read_text().splitlines()

    expected = train("whole")
    assert [json.loads(line)[0] for line in expected] == [0] * 9 + [1] * 9
    assert train("parts", *killed_after) == expected


def broken(kind: str, good: bytes) -> bytes:
    """Returns an image file that cannot be used."""
    match kind:
        case "empty":
            return b""
        case "half":
            return good[: len(good) // 2]
        case "header only":
            return good[: good.index(b"\xff\xda")]
        case "text":
            return b"<html>404 Not Found</html>" * 40
        case "zeros":
            return bytes(len(good))
        case "no tables":
            return good.replace(b"\xff\xdb", b"\xff\xfe")
        case "too large":  # 65,535 x 65,535 pixels
            frame = good.index(b"\xff\xc0") + 5
            return good[:frame] + b"\xff\xff\xff\xff" + good[frame + 4 :]
        case "noise":
            begin = good.index(b"\xff\xda") + 14
            return good[:begin] + b"\xa5\xff\xd9" * ((len(good) - begin) // 3)
    raise ValueError(kind)


# "one corrupt image killed the run after two days, and nothing says which one it was"
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(
    "kind",
    ["empty", "half", "header only", "text", "zeros", "no tables", "too large", "noise"],
)
def test_one_bad_image_ends_the_run(kind: str, shuffle: bool, images: dict[str, bytes], tmp_path):
    for name, content in images.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(broken(kind, content) if name == "class1/031.jpg" else content)
    transform = T.train(32) if shuffle else T.evaluate(32, 36)
    loader = forebay.Loader(tmp_path, 8, shuffle=shuffle, transform=transform)
    with pytest.warns(UserWarning, match="class1/031 cannot be used: ."):
        first = sum(len(labels) for _, labels in loader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the bad sample was named in the first epoch
        second = sum(len(labels) for _, labels in loader)
    assert first == second == len(images) - (not shuffle)
    (bad,) = loader.bad_samples
    assert bad["key"] == "class1/031"
    assert bad["reason"]


@pytest.fixture
def numbered(tmp_path: Path) -> Iterator[Path]:
    """Returns 60 images, each in a class of its own, so that a label says which image it is."""
    for i in range(60):
        (tmp_path / "numbered" / f"{i:02}").mkdir(parents=True)
        (tmp_path / "numbered" / f"{i:02}" / "image.jpg").write_bytes(make_jpeg(i))
    yield tmp_path / "numbered"


# "three minutes between epochs, while the workers start again"
def test_stall_at_the_epochs_border(numbered: Path):
    """The next epoch is read before anybody asks for it, so that iter() needs no file."""
    options: dict[str, Any] = {"shuffle": True, "transform": T.train(64)}
    expected = forebay.Loader(numbered, 4, **options)
    list(expected)
    loader = forebay.Loader(numbered, 4, **options)
    epoch = sum(file.stat().st_size for file in numbered.rglob("*.jpg"))
    assert len(list(loader)) == 15
    until = time.monotonic() + DEADLINE_S
    while loader.stats()["bytes_read"] < 2 * epoch:
        assert time.monotonic() < until
        time.sleep(0.1)
    for file in numbered.rglob("*.jpg"):
        file.unlink()
    for (images, labels), (got_images, got_labels) in zip(expected, loader, strict=True):
        assert torch.equal(got_images, images)
        assert torch.equal(got_labels, labels)
