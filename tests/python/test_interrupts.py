"""Exceptions that come from outside while next() works, such as those of signals' handlers.

They pass, and the next next() gives the batch that was due, so that no batch is lost or doubled.
"""

import contextlib
import itertools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import forebay
from forebay import transforms as T
from forebay.loading import loader as loader_module
from forebay.loading.iteration import Batches
from servers.prep_server import PrepServer

LOADING = str(Path(loader_module.__file__).parent)
NEXT = Batches.__next__.__code__
# The first of the last three lines of __next__. They have no calls, so no handler can run there.
LAST_LINES = sorted({line for _, _, line in NEXT.co_lines() if line is not None})[-3]


class StoppedError(Exception):
    """What the handlers of these tests raise."""


class HostMover:
    """Takes the way of batches to a GPU, through threads ahead of the loop, without one."""

    def __init__(self, *_: Any) -> None: ...

    def working(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def send(self, batch: Any) -> tuple[Any]:
        return (batch,)

    def receive(self, sent: tuple[Any]) -> Any:
        return sent[0]


def same(batch: Any) -> Any:
    return batch


class Endless:
    """A sampler without end."""

    def __iter__(self) -> Iterator[int]:
        return itertools.cycle(range(7))


WAYS: dict[str, dict[str, Any]] = {
    "core": {},
    "python": {"batch_transform": same},
    "mover": {"pin_memory": True},
    "sampler": {"sampler": [*range(30, 70), *range(30)]},
    "blocks": {"sampler": Endless(), "batch_transform": same},
    "progress": {"progress": True},
}


@pytest.fixture
def make(packed: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., forebay.Loader]:
    """Returns a function that makes a Loader whose batches go one of the WAYS."""

    def made(way: str, **more: Any) -> forebay.Loader:
        if way == "mover":
            monkeypatch.setattr(loader_module, "Mover", HostMover)
            monkeypatch.setattr("forebay.loading.options.can_pin", lambda: True)
        if way == "blocks":
            monkeypatch.setattr("forebay.loading.samplers._BLOCK_SAMPLES", 20)
        options: dict[str, Any] = {"fields": ["index"], "num_workers": 1, **WAYS[way], **more}
        return forebay.Loader(packed, 10, **options)

    return made


class RaiseAt:
    """Raises in the main thread at the n-th line that the package's loading runs in next().

    It leaves out the lines that read a sampler, whose iterator nobody can read again.
    """

    def __init__(self, number: int, error: type[BaseException]) -> None:
        self._left = number
        self._error = error
        self.has_raised = False

    def __enter__(self) -> "RaiseAt":
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        is_ours = name.startswith(LOADING) and not name.endswith("samplers.py")
        return self._line if is_ours else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        is_at_end = frame.f_code is NEXT and frame.f_lineno >= LAST_LINES
        if event == "line" and not is_at_end and not self.has_raised:
            self._left -= 1
            if self._left < 0:
                self.has_raised = True
                raise self._error
        return self._line


def taken(loader: forebay.Loader) -> int:
    """How many batches the Loader's state says that the loop has got."""
    state = loader.state_dict()
    return state["position"] // 10 + state.get("before", 0) // 10


@pytest.mark.parametrize("error", [KeyboardInterrupt, StoppedError, TimeoutError, RuntimeError])
@pytest.mark.parametrize("way", WAYS)
def test_an_exception_at_any_line_costs_no_batch(
    make: Callable[..., forebay.Loader], way: str, error: type[BaseException]
):
    loader = make(way)
    expected = [index.tolist() for (index,) in itertools.islice(loader, 6)]
    for number in itertools.count(
        step=1 if error is StoppedError and way in ("core", "python") else 7
    ):
        loader.set_epoch(0)
        batches = iter(loader)
        got = [next(batches)[0].tolist()]
        with RaiseAt(number, error) as raises:
            while not raises.has_raised and len(got) < len(expected):
                with contextlib.suppress(error):
                    got.append(next(batches)[0].tolist())
        assert taken(loader) == len(got), number
        got += [index.tolist() for (index,) in itertools.islice(batches, 6 - len(got))]
        assert got == expected, number
        if not raises.has_raised:
            break
    assert number > 100


def test_an_exception_at_any_line_of_the_end_passes(make: Callable[..., forebay.Loader]):
    for number in itertools.count():
        loader = make("core")
        batches = iter(loader)
        assert len(list(itertools.islice(batches, 7))) == 7
        with RaiseAt(number, StoppedError) as raises:
            try:
                assert next(batches, None) is None
            except StoppedError:
                assert next(batches, None) is None
        assert loader.epoch == 1
        assert len(list(loader)) == 7
        if not raises.has_raised:
            break
    assert number > 20


def test_the_first_next_may_be_interrupted_anywhere(make: Callable[..., forebay.Loader]):
    for way in ("core", "python"):
        loader = make(way)
        expected = [index.tolist() for (index,) in loader]
        for number in itertools.count(step=3):
            loader.set_epoch(0)
            batches = iter(loader)
            got = []
            with RaiseAt(number, StoppedError) as raises, contextlib.suppress(StoppedError):
                got.append(next(batches)[0].tolist())
            assert got + [index.tolist() for (index,) in batches] == expected, number
            if not raises.has_raised:
                break


@contextlib.contextmanager
def alarms(seconds: float, error: type[BaseException]) -> Iterator[None]:
    """While next() runs, a handler of SIGALRM raises at this interval."""

    def handle(_: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code is NEXT:
                raise error
            frame = frame.f_back

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def slow(image: Any) -> Any:
    for _ in range(3):
        torch.randn(100_000).sort()
    return image


def run_with_alarms(loader: forebay.Loader, error: type[BaseException]) -> list[list[list[int]]]:
    """The samples of all batches of some epochs, in which next() raised five times or more."""
    epochs, raised = [], 0
    with alarms(0.005, error):
        while raised < 5:
            batches, got = iter(loader), []
            while True:
                try:
                    batch = next(batches)
                except error:
                    raised += 1
                except StopIteration:
                    break
                else:
                    got.append(batch[0].tolist())
            epochs.append(got)
    return epochs


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError, RuntimeError])
@pytest.mark.parametrize("way", ["core", "python", "mover"])
def test_handlers_of_signals_may_raise(
    make: Callable[..., forebay.Loader], way: str, error: type[BaseException]
):
    options = {"fields": ["index", "image"], "transform": [T.Resize((600, 600))]}
    if way != "core":
        options["transform"] = [T.Resize((64, 64)), slow]
    expected = [batch[0].tolist() for batch in make(way, **options)]
    for epoch in run_with_alarms(make(way, **options), error):
        assert epoch == expected


def test_handlers_may_raise_with_prep_servers(packed: Path):
    options: dict[str, Any] = {"fields": ["index", "image"], "shuffle": True, "num_workers": 1}
    options["transform"] = [T.RandomResizedCrop(400), T.Normalize()]
    server = PrepServer(packed)
    try:
        loader = forebay.Loader(packed, 5, prep=server.url, **options)
        epochs = run_with_alarms(loader, TimeoutError)
        while loader.prep_servers()[0]["batches"] == 0:
            epochs += run_with_alarms(loader, TimeoutError)
    finally:
        server.kill()
    plain = forebay.Loader(packed, 5, **options)
    for epoch in epochs:
        assert epoch == [batch[0].tolist() for batch in plain]


def test_a_sampler_that_was_interrupted_is_told(make: Callable[..., forebay.Loader]):
    class Breaks:
        """Raises once, in the middle of a block of samples."""

        def __init__(self) -> None:
            self.is_broken = False

        def __iter__(self) -> Iterator[int]:
            for number in itertools.count():
                if number == 50 and not self.is_broken:
                    self.is_broken = True
                    raise KeyboardInterrupt
                yield number % 70

    loader = make("blocks", sampler=Breaks())
    batches = iter(loader)
    got: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        while True:
            got.append(next(batches))
    with pytest.raises(RuntimeError, match="an exception came while the sampler was read"):
        while True:
            got.append(next(batches))
    assert [n for (index,) in got for n in index.tolist()] == list(range(40))
    assert next(batches, None) is None


def test_a_checkpoint_in_a_handler_resumes_exactly(make: Callable[..., forebay.Loader]):
    """SIGTERM comes between two batches, as when a job is taken off its machine."""
    loader = make("python")
    expected = [index.tolist() for (index,) in loader]
    got: list[list[int]] = []

    def handle(*_: Any) -> None:
        raise StoppedError

    before = signal.signal(signal.SIGTERM, handle)
    try:
        with pytest.raises(StoppedError):
            for (index,) in loader:
                got.append(index.tolist())
                if len(got) == 3:
                    os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    again = make("python")
    again.load_state_dict(loader.state_dict())
    assert got + [index.tolist() for (index,) in again] == expected
