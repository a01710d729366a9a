"""A worker: a process that runs one stage after the other, as the driver tells it.

Started by drivers.py as `python -m forebay.explore.worker DESCRIPTOR PARENT`.
"""

import gc
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from forebay._core import DataError
from forebay.explore import messages, results
from forebay.explore.calling import call, filled
from forebay.explore.identity import digest
from forebay.explore.stages import Report, Running
from forebay.explore.worker_processes import end_with_parent
from forebay.pytorch import load_torch

_ERROR_CHARACTERS_MAX = 10_000


class _CancelledError(Exception):
    pass


class _ReadFailedError(Exception):
    def __init__(self, task: int, error: str) -> None:
        super().__init__(error)
        self.task = task


class _Worker:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._functions: dict[bytes, Callable[..., Any]] = {}
        self._modules = 0  # how many were imported at the last task's end

    def serve(self) -> None:
        while True:
            message = self._connection.recv()
            if isinstance(message, messages.Work):
                self._run(message)
                self._free()

    def _free(self) -> None:
        """Gives back the inputs' memory before the next task."""
        gc.collect()
        if len(sys.modules) != self._modules:
            # What belongs to modules stays; looking at it each time takes a tenth of a second.
            gc.freeze()
            self._modules = len(sys.modules)

    def _run(self, work: messages.Work) -> None:
        try:
            made, seconds = self._make(work)
            parts = results.encode(made)
        except _CancelledError:
            self._connection.send(messages.Stopped())
        except _ReadFailedError as error:
            self._connection.send(messages.Damaged(error.task, str(error)))
        except BaseException as error:  # also what a stage raises to end its process
            self._connection.send(_failed(error))
        else:
            self._store(made, seconds, parts)

    def _store(self, made: Report, seconds: float, parts: results.Parts) -> None:
        size = results.size_of(parts)
        self._connection.send(messages.Made(seconds, size, made.metrics))
        place = self._receive(messages.Place)
        descriptor, failure = None, ""
        if place.file is not None:
            try:
                results.to_file(parts, Path(place.file))
            except OSError as error:
                failure = str(error)
        if place.in_memory or (place.file is not None and failure):
            descriptor = results.to_memory(parts)
        self._connection.send(messages.Stored(descriptor, failure))
        if descriptor is not None:
            self._receive(messages.Taken)
            os.close(descriptor)

    def _receive(self, kind: type) -> Any:
        """The next message of this kind. A Cancel that comes too late is left out."""
        while True:
            message = self._connection.recv()
            if isinstance(message, kind):
                return message

    def _make(self, work: messages.Work) -> tuple[Report, float]:
        inputs = {one.task: self._read(one) for one in work.inputs}
        resumed = None if work.resumes is None else inputs[work.resumes]
        self._connection.send(messages.Began())
        begin = time.perf_counter()
        has_torch = "torch" in sys.modules
        made = self._call(work, inputs, resumed)
        if not has_torch and "torch" in sys.modules:
            made = self._call(work, inputs, resumed)  # PyTorch's generator was not seeded before
        seconds = time.perf_counter() - begin
        if work.twice:
            inputs = {one.task: self._read(one) for one in work.inputs}  # it may have changed them
            resumed = None if work.resumes is None else inputs[work.resumes]
            again = self._call(work, inputs, resumed)
            if digest(made.state, made.metrics) != digest(again.state, again.metrics):
                raise ValueError(
                    "the stage is not pure: run twice with equal arguments and equal seeds, it "
                    "made different results; draw random numbers from the global generators or "
                    "from fx.seed(), and do not use the time, the environment or globals"
                )
        return made, seconds

    def _call(
        self, work: messages.Work, inputs: dict[int, Report], resumed: Report | None
    ) -> Report:
        if work.stage not in self._functions:
            self._functions[work.stage] = pickle.loads(work.stage)
        args, kwargs = pickle.loads(work.arguments)
        states = {task: report.state for task, report in inputs.items()}
        epoch = work.epoch
        args, kwargs = filled(args, states, epoch), filled(kwargs, states, epoch)
        one = Running(work.seed_identity, epoch or 0, resumed)
        return call(
            self._functions[work.stage],
            args,
            kwargs,
            one,
            epoch=epoch,
            on_report=lambda step, reported: self._reported(step, reported, work.waits),
        )

    def _reported(self, step: int, reported: Report, waits: bool) -> None:
        self._connection.send(messages.Reported(step, reported.metrics))
        while waits or self._connection.poll():
            message = self._connection.recv()
            if isinstance(message, messages.Cancel):
                raise _CancelledError
            if isinstance(message, messages.GoOn):
                waits = False

    def _read(self, one: messages.Input) -> Report:
        try:
            if not one.is_file:
                report: Report = results.from_memory(one.place)
                return report
            if one.load:
                begin = time.perf_counter()
                descriptor = results.copy_to_memory(one.place)
                seconds = time.perf_counter() - begin
                self._connection.send(messages.Loaded(one.task, descriptor, seconds))
                self._receive(messages.Taken)
                report = results.from_memory(f"/proc/self/fd/{descriptor}")
                os.close(descriptor)
                return report
            report = results.from_file(one.place)
            return report
        except (DataError, OSError) as error:
            raise _ReadFailedError(one.task, str(error)) from error


def _failed(error: BaseException) -> messages.Failed:
    # The frames of this module and of the wrappers above say nothing to the user.
    frames = traceback.extract_tb(error.__traceback__)
    own = os.path.dirname(__file__)
    shown = [frame for frame in frames if not frame.filename.startswith(own)] or list(frames)
    # A message may hold a whole array.
    message = "".join(traceback.format_exception_only(type(error), error))[:_ERROR_CHARACTERS_MAX]
    text = "".join(["Traceback (most recent call last):\n", *traceback.format_list(shown), message])
    return messages.Failed(f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS_MAX], text)


def main() -> None:
    """Serves until the driver ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver gets the Ctrl-C and ends its workers
    end_with_parent()
    if os.getppid() != int(sys.argv[2]):
        return  # the driver was killed before that
    connection = Connection(int(sys.argv[1]))
    try:
        settings = connection.recv()
        sys.path[:] = settings["path"]
        if settings["torch"]:
            load_torch().set_num_threads(settings["threads"])
        _Worker(connection).serve()
    except (EOFError, ConnectionResetError, BrokenPipeError):
        os._exit(0)  # the driver is gone


if __name__ == "__main__":
    main()
