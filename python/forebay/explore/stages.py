"""Stages: functions that a flow calls, and what they may call while they run."""

import contextlib
import functools
import inspect
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forebay.explore.identity import code_parts, digest
from forebay.explore.settings import Schedule


class Stage:
    """A function whose calls are stages of a flow; made by `stage`."""

    def __init__(self, function: Callable[..., Any], timeout: float | None, version: str) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.timeout = timeout
        self.version = version
        self.name = getattr(function, "__name__", type(function).__name__)
        self.is_generator = inspect.isgeneratorfunction(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from forebay.explore.flow import Call

        return Call(self, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<stage {self.name}>"

    @functools.cached_property
    def code(self) -> dict[str, str]:
        """The digest of each part of the stage's code."""
        if self.version:
            return {f"{self.function.__module__}.{self.name}": digest(self.version)}
        return code_parts(self.function)

    def __forebay_identity__(self) -> Any:
        return sorted(self.code.items())

    def __getstate__(self) -> dict[str, Any]:
        # A process that goes on with a flow gets the user's modules as they are by then.
        return {name: value for name, value in vars(self).items() if name != "code"}


def stage(
    function: Callable[..., Any] | None = None, *, timeout: float | None = None, version: str = ""
) -> Any:
    """Makes a function a stage: a call in a flow is put off until the flow runs.

    The function must be pure: its result depends on its arguments and on fx.seed() alone. Before it
    begins, the generators of Python, NumPy and PyTorch are seeded with fx.seed().

    Args:
        function: The function. A generator function yields fx.report(…) after each epoch; its
            last report is its result.
        timeout: Seconds after which a call fails; None means no limit.
        version: Takes the place of the function's code in the stage's identity. With it, results
            of earlier runs stay valid when the code changes, until the version changes.

    Raises:
        TypeError: It is no function, or an async one.
        ValueError: The timeout is not a positive number.
    """
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout is {timeout!r}, but must be a positive number of seconds")
    if function is None:
        return lambda found: Stage(found, timeout, version)
    if isinstance(function, Stage) or not callable(function):
        raise TypeError(f"a stage is made from a function, not from {function!r}")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{function.__qualname__} is async, but a stage is a plain function; it may call "
            "asyncio.run(…)"
        )
    return Stage(function, timeout, version)


@dataclass
class Report:
    """The state of a stage, and numbers about it."""

    state: Any
    metrics: dict[str, float] = field(default_factory=dict)


def report(state: Any = None, /, **metrics: float) -> Report:
    """What a stage yields after each epoch, or returns: its state, and numbers to choose by.

    Where `state` is a dict, list or tuple, values in it that have a state_dict (models, optimizers)
    are replaced by it. The report is complete when it is yielded: what changes later does not
    change it.

    Raises:
        TypeError: A metric is not a number.
    """
    numbers = {}
    for name, value in metrics.items():
        try:
            numbers[name] = float(value)
        except (TypeError, ValueError):
            raise TypeError(f"report: {name} is {value!r}, but must be a number") from None
    return Report(_saved(state), numbers)


def seed() -> int:
    """The seed of the stage that is running, in [0, 2**63); it belongs to the stage's identity.

    Raises:
        RuntimeError: No stage is running.
    """
    return _present().seed


def epochs(count: "int | Schedule", state: Any) -> Iterator[int]:
    """The numbers of the epochs that a stage makes: 0, 1, … count - 1.

    If the stage goes on from a report, the epochs of this report are left out, and `state` is first
    brought to the report's state: load_state_dict() for what has it, a copy for tensors and
    arrays; other values are replaced in their dict or list. Without this loop, a stage cannot go
    on from a report, and begins anew instead.

    Args:
        count: How many epochs, or a schedule, which has a value for each.
        state: What is passed to fx.report(): a dict or list.
    """
    running = _present()
    running.can_resume = True
    if running.resumed is not None:
        _restore(state, running.resumed.state)
    total = len(count) if isinstance(count, Schedule) else count
    for epoch in range(running.first_epoch, total):
        running.begin_epoch(epoch)
        yield epoch


class Running:
    """A stage that is running in this process."""

    def __init__(self, identity: str, first_epoch: int = 0, resumed: Report | None = None) -> None:
        self._identity = identity
        self.first_epoch = first_epoch
        self.resumed = resumed
        self.can_resume = False
        self.seed = 0
        self.begin_epoch(first_epoch)

    def begin_epoch(self, epoch: int) -> None:
        """Seeds everything for an epoch, so that a resumed stage draws the same numbers."""
        self.seed = int(digest(self._identity, epoch)[:16], 16) >> 1
        random.seed(self.seed)
        np.random.seed(self.seed % 2**32)
        if (torch := sys.modules.get("torch")) is not None:
            torch.manual_seed(self.seed)


_running: ContextVar[Running | None] = ContextVar("running", default=None)


@contextlib.contextmanager
def running(one: Running) -> Iterator[Running]:
    """Makes `one` the running stage of this thread."""
    token = _running.set(one)
    try:
        yield one
    finally:
        _running.reset(token)


def _present() -> Running:
    present = _running.get()
    if present is None:
        raise RuntimeError(
            "no stage is running here: fx.seed() and fx.epochs() work in functions with @fx.stage "
            "that a flow runs, and there in the thread that began them"
        )
    return present


def _saved(state: Any) -> Any:
    if isinstance(state, Mapping):
        return {key: _saved_value(value) for key, value in state.items()}
    if type(state) in (list, tuple):
        return type(state)(_saved_value(value) for value in state)
    return _copied(state)


def _saved_value(value: Any) -> Any:
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return _copied(value.state_dict())
    return _copied(value)


def _copied(value: Any) -> Any:
    """A copy of all tensors and arrays in dicts, lists and tuples; other values stay."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_copied(item) for item in value)
    return value


def _restore(state: Any, saved: Any) -> None:
    keys: Any
    if isinstance(state, Mapping) and isinstance(saved, Mapping):
        keys = list(state)
    elif isinstance(state, Sequence) and isinstance(saved, Sequence) and len(state) == len(saved):
        keys = range(len(state))
    else:
        raise TypeError(
            f"fx.epochs() gets {type(state).__name__}, but the stage reports "
            f"{type(saved).__name__}; pass the dict or list that fx.report() gets"
        )
    torch = sys.modules.get("torch")
    for key in keys:
        value, old = state[key], saved[key]
        if hasattr(value, "load_state_dict"):
            value.load_state_dict(old)
        elif torch is not None and isinstance(value, torch.Tensor):
            with torch.no_grad():
                value.copy_(old)
        elif isinstance(value, np.ndarray):
            value[...] = old
        elif isinstance(state, (dict, list)):
            state[key] = _copied(old)
        else:
            raise TypeError(f"fx.epochs() cannot replace {key!r} in a {type(state).__name__}")
