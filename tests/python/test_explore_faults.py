"""forebay.explore when workers, the driver or the disk fail, and when another user comes along."""

import importlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forebay
from conftest import run_forebay
from forebay import explore as fx
from forebay.explore.journal import Journal, read_journal
from servers.processes import wait_for

KILLS = 20 if os.environ.get("FOREBAY_TEST_ALL") else 4
STAGES = 12  # of the script below
SCRIPT = """
import signal, sys, time
import numpy as np
import forebay
from forebay import explore as fx
from shifting import shifted

signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run in the background

class Judge:
    factor = 1.0
    def total(self, values):
        return float(values.sum()) * self.factor

class Doubling(Judge):
    factor = 2.0

@fx.stage
def slow(x):
    time.sleep(0.03)
    return shifted(np.random.rand(100), int(open("shift.txt").read())) + x

@fx.stage
def judged(values, y, judge):
    time.sleep(0.03)
    return fx.report(values * y, total=judge().total(values * y))

y = fx.explore("y", [1.0, 2.0, 3.0])
made = judged(slow(fx.explore("x", [1, 2, 3])), y, Doubling)
flow = fx.choose(made, by="total", keep=fx.top(2))
study = fx.run(flow, out=sys.argv[1], workers=2, quiet=True)
for branch in study.kept:
    print(branch.config, branch.value, branch.state.tobytes().hex())
print(*study.summary["notes"], sep="\\n", file=sys.stderr)
"""


def with_python() -> dict[str, str]:
    packages = str(Path(forebay.__file__).absolute().parents[1])
    return {**os.environ, "FOREBAY_PYTHON": sys.executable, "PYTHONPATH": packages}


class Script:
    """The script above, in a folder with a module and a file that it needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "script.py").write_text(SCRIPT)
        (folder / "shifting.py").write_text("def shifted(values, by):\n    return values + by\n")
        (folder / "shift.txt").write_text("7")
        self.expected, _ = self.start(folder / "whole").communicate()
        assert self.expected

    def start(self, study: Path) -> subprocess.Popen[str]:
        """Starts it as a process group of its own, like a terminal does."""
        return subprocess.Popen(
            [sys.executable, "script.py", str(study)],
            cwd=self.folder,
            env=with_python(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start_until(self, study: Path, done: int) -> subprocess.Popen[str]:
        """Starts it, and returns when so many of its stages are done."""
        process = self.start(study)
        journal = study / "journal"
        wait_for(lambda: journal.exists() and journal.read_text().count('"kind": "done"') >= done)
        return process


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Script:
    return Script(tmp_path_factory.mktemp("script"))


def run(flow: Any, folder: Path, **options: Any) -> fx.Study:
    return fx.run(flow, out=folder, quiet=True, **{"workers": 2, **options})


def computed(folder: Path) -> int:
    return sum(event["kind"] == "done" for event in read_journal(folder))


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(word) for word in text.split()]


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_a_killed_run_goes_on_with_the_same_bits(script, tmp_path):
    lost = 0
    for number in range(KILLS):
        study = tmp_path / f"killed{number}"
        process = script.start_until(study, 1 + number * (STAGES - 1) // KILLS)
        process.kill()
        process.communicate()
        assert computed(study) >= 1
        assert script.start(study).communicate()[0] == script.expected
        lost += computed(study) - STAGES
    # A stage in flight is lost with each worker, and a result that was too cheap to be kept.
    assert lost <= 3 * KILLS


def test_a_killed_worker_leaves_the_bits_as_they_are(script, tmp_path):
    for number in range(KILLS):
        study = tmp_path / f"killed{number}"
        process = script.start_until(study, number * (STAGES - 3) // KILLS)
        wait_for(lambda process=process: len(workers_of(process)) == 2)
        time.sleep(number % 5 * 0.007)  # so that the worker is at different points of a stage
        os.kill(workers_of(process)[number % 2], signal.SIGKILL)
        out, notes = process.communicate()
        assert out == script.expected
        assert "a worker process ended by signal 9 (memory may have run out) during" in notes
        assert computed(study) <= STAGES + 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_command_line_resumes_a_run_that_was_ended(script, tmp_path, number):
    study = tmp_path / "a study with ünïcode"
    process = script.start_until(study, 5)
    workers = workers_of(process)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # like Ctrl-C in a terminal
    else:
        process.send_signal(number)
    process.communicate()
    assert process.returncode == -number
    wait_for(lambda: not any(map(is_running, workers)))
    source = (script.folder / "script.py").read_text()
    try:  # it goes on with the code as it was, whatever becomes of the script
        (script.folder / "script.py").write_text("# begin\n" * 5 + source.replace("2.0", "9.0"))
        done = subprocess.run(
            [os.environ["FOREBAY_BIN"], "explore", "resume", study.name],
            cwd=tmp_path,
            env=with_python(),
            capture_output=True,
            text=True,
        )
    finally:
        (script.folder / "script.py").write_text(source)
    assert done.returncode == 0, done.stderr
    assert [line.split("  ")[1] for line in done.stdout.splitlines()] == ["x=3, y=3", "x=2, y=3"]
    count = computed(study)
    assert count <= STAGES + 2
    assert script.start(study).communicate()[0] == script.expected
    assert computed(study) == count


def test_a_run_that_is_resumed_sees_what_has_changed_in_modules(tmp_path):
    folder = tmp_path / "scripts"
    folder.mkdir()
    script = Script(folder)
    process = script.start_until(tmp_path / "s", 5)
    process.kill()
    process.communicate()
    (folder / "shifting.py").write_text("def shifted(values, by):\n    return values - by\n")
    done = run_forebay("explore", "resume", tmp_path / "s", env=with_python())
    assert done.stdout
    fresh, _ = script.start(tmp_path / "fresh").communicate()
    assert fresh != script.expected
    assert script.start(tmp_path / "s").communicate()[0] == fresh


def test_a_flow_that_cannot_be_read_is_named(script, tmp_path):
    script.start(tmp_path / "s").communicate()
    (script.folder / "shifting.py").rename(script.folder / "gone.py")
    try:
        done = run_forebay("explore", "resume", tmp_path / "s", env=with_python(), code=1)
    finally:
        (script.folder / "gone.py").rename(script.folder / "shifting.py")
    assert "flow.pkl: the flow cannot be read (ModuleNotFoundError" in done.stderr
    (tmp_path / "s" / "flow.pkl").write_bytes(b"")
    done = run_forebay("explore", "resume", tmp_path / "s", env=with_python(), code=1)
    assert "flow.pkl: the flow cannot be read (EOFError" in done.stderr


def test_a_stage_that_hangs_or_kills_its_process_loses(tmp_path):
    @fx.stage(timeout=2)
    def bad(x):
        if x == 1:
            time.sleep(60)
        if x == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    flow = fx.choose(bad(fx.explore("x", [0, 1, 2, 3])), by="value", keep=fx.top(1))
    study = run(flow, tmp_path / "s")
    why = [row["why"] for row in study.table()]
    assert "within 2 s" in why[1] and "signal 9" in why[2]
    assert study.best.config == {"x": 3}


def test_a_killed_worker_is_replaced(tmp_path):
    flag = tmp_path / "flag"

    @fx.stage
    def dies_once(x, path):
        if x == 1 and not os.path.exists(path):
            open(path, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    flow = fx.choose(dies_once(fx.explore("x", [0, 1]), str(flag)), by="value", keep=fx.top(1))
    study = run(flow, tmp_path / "s")
    assert study.best.config == {"x": 1}
    assert "signal 9" in study.summary["notes"][0]


def test_what_a_stage_has_started_ends_with_it(tmp_path):
    @fx.stage(timeout=1)
    def starts(path, hangs):
        started = subprocess.Popen(["sleep", "600"])
        Path(path).write_text(str(started.pid))
        if hangs:
            time.sleep(600)
        return started.pid

    hangs = fx.explore("hangs", [False, True])
    paths = [str(tmp_path / "first"), str(tmp_path / "second")]
    flow = fx.choose(starts(fx.explore("path", paths), hangs), by="value", keep=fx.top(1))
    study = run(flow, tmp_path / "s", workers=1)
    assert [row["state"] for row in study.table()].count("failed") == 2
    started = [int(Path(path).read_text()) for path in paths]
    wait_for(lambda: not any(map(is_running, started)))


@pytest.mark.nightly
def test_the_trainer_ends_with_the_driver(tmp_path, packed):
    pytest.importorskip("torch")
    text = """
        import sys
        from forebay import explore as fx
        flow = fx.Flow(sys.argv[1])
        made = fx.train(flow.dataset, epochs=100000, lr=fx.explore("lr", [0.01]), batch=8, width=4)
        fx.run(fx.choose(made, by="loss", keep=fx.bottom(1)), out=sys.argv[2], workers=1)
    """
    command = [sys.executable, "-c", textwrap.dedent(text), str(packed), str(tmp_path / "s")]

    def trainers() -> list[int]:
        found = subprocess.run(["pgrep", "-f", f"train {packed}"], capture_output=True, text=True)
        return [int(word) for word in found.stdout.split() if is_running(int(word))]

    driver = subprocess.Popen(command)
    wait_for((tmp_path / "s" / "flow.pkl").exists)
    wait_for(lambda: bool(trainers()))
    driver.kill()
    driver.wait()
    wait_for(lambda: not trainers())


def test_errors_of_any_kind_are_told(tmp_path):
    @fx.stage
    def odd(x):
        if x == 1:
            raise KeyboardInterrupt
        if x == 2:
            raise ValueError("long \ud800" + "!" * 10_000_000)
        return {3: None, 4: 4.0, 5: [threading.Lock()]}[x]

    flow = fx.choose(odd(fx.explore("x", range(1, 6))), by="value", keep=fx.top(1))
    study = run(flow, tmp_path / "s", workers=1)
    why = [row["why"] for row in study.table()]
    assert why[0] == "odd(x=1): KeyboardInterrupt: "
    assert "ValueError: long" in why[1] and len(why[1]) < 11_000
    assert why[2].startswith("it reports no value; it reports no numbers")
    assert "the result of type list cannot be pickled" in why[4]
    assert (tmp_path / "s" / "journal").stat().st_size < 300_000
    done = run_forebay("explore", "why", tmp_path / "s", "x=2", env=with_python())
    assert "long" in done.stdout and "Traceback" in done.stdout


class Stays:
    def __init__(self):
        self.content = bytearray(100_000)

    def __setstate__(self, state):
        raise ValueError("it stays away")


def test_a_result_that_can_never_be_read_is_computed_twice_and_no_more(tmp_path):
    @fx.stage
    def makes(x):
        return Stays()

    @fx.stage
    def reads(made, y):
        return float(y)

    made = reads(makes(fx.explore("x", [1])), fx.explore("y", [1, 2]))
    flow = fx.choose(made, by="value", keep=fx.top(1))
    study = run(flow, tmp_path / "s", memory="1KB", workers=1)
    why = [row["why"] for row in study.table()]
    assert all("cannot be read" in text and "it stays away" in text for text in why)
    assert computed(tmp_path / "s") == 2


def test_a_result_whose_class_is_gone_is_computed_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    classes = tmp_path / "classes_of_a_test.py"

    def flow_of(name: str, added: int) -> fx.flow.Choose:
        classes.write_text(f"class {name}:\n    x = 1\n")
        module = importlib.reload(importlib.import_module(classes.stem))
        function = getattr(module, name)

        @fx.stage(version="1")
        def makes(x):
            time.sleep(0.1)
            return function()

        @fx.stage
        def reads(made, added):
            return float(made.x + added)

        made = reads(makes(fx.explore("x", [1])), added)
        return fx.choose(made, by="value", keep=fx.top(1))

    assert run(flow_of("Old", 1), tmp_path / "s", workers=1).best.value == 2
    monkeypatch.delitem(sys.modules, classes.stem)
    study = run(flow_of("NewOne", 2), tmp_path / "s", workers=1)
    assert study.best.value == 3
    assert "AttributeError: Can't get attribute 'Old'" in study.summary["notes"][0]


def test_a_stage_that_asks_for_input_fails(tmp_path):
    @fx.stage(timeout=60)
    def asks(x):
        return float(input())

    flow = fx.choose(asks(fx.explore("x", [1])), by="value", keep=fx.top(1))
    text = run(flow, tmp_path / "s", workers=1).table()[0]["why"]
    assert "EOFError" in text


@contextmanager
def as_nobody() -> Iterator[None]:
    """Makes this process one of the user nobody, while the context lasts; needs root."""
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@fx.stage
def plain(x):
    return float(x)


def test_a_study_belongs_to_one_user(tmp_path):
    flow = fx.choose(plain(fx.explore("x", [1, 2])), by="value", keep=fx.top(1))
    folder = tmp_path / "s"
    run(flow, folder, workers=1)
    with as_nobody(), pytest.raises(PermissionError, match="nobody cannot write here"):
        Journal(folder)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, 65534, 65534)
    with pytest.raises(PermissionError, match="belongs to nobody, and root cannot go on"):
        run(flow, folder, workers=1)
    done = run_forebay("explore", "resume", folder, env=with_python(), code=1)
    assert "belongs to nobody" in done.stderr
    done = run_forebay("explore", "status", folder, env=with_python())
    assert "kept: 2  x=2" in done.stdout


@fx.stage
def big(number):
    return np.full(1_000_000, float(number))


@fx.stage
def scaled(values, factor):
    return fx.report(values * factor, total=float((values * factor).sum()))


def test_a_full_disk_ends_the_run_and_loses_nothing(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    with small_disk(folder, "4m"):
        made = big(fx.explore("x", [1, 2]))
        flow = fx.choose(scaled(made, 1.0), by="total", keep=fx.top(1))
        with pytest.raises(OSError, match="stages are complete and safe: make room"):
            run(flow, folder / "study", memory="1MB", disk="1GB", workers=1)
        assert (
            "2 branches"
            in subprocess.run(
                [os.environ["FOREBAY_BIN"], "explore", "status", str(folder / "study")],
                capture_output=True,
                text=True,
                env={**os.environ, "FOREBAY_PYTHON": sys.executable},
            ).stdout
        )


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A file system of this size in the folder, while the context lasts; needs root."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)
