"""Runs a plan: carries out what the engine decides, with worker processes and a study on disk."""

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from forebay import _core
from forebay.explore import messages, results
from forebay.explore.earlier import Earlier, result_path
from forebay.explore.journal import Journal
from forebay.explore.judging import Judging, Progress, describe
from forebay.explore.pickling import pickled
from forebay.explore.plan import Choice, Member, Plan, Planned
from forebay.explore.worker_processes import WorkerProcess

_ATTEMPTS = 2  # a stage during which its worker process ends so often has failed
_TICK_S = 0.25


class StageError(RuntimeError):
    """A stage failed, in a run with errors="stop"."""


class NoRoomError(MemoryError):
    """A result fits neither in the memory nor on the disk that a run may use."""


@dataclass
class Limits:
    """What a run may use, and how it treats errors."""

    workers: int
    threads: int
    stops_on_error: bool
    timeout: float | None
    check_pure: float


class Driver:
    """A run of a plan, in one thread."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        journal: Journal,
        earlier: Earlier,
        limits: Limits,
        order: str | None,
    ) -> None:
        self.plan = plan
        self.progress = Progress()
        self.workers = limits.workers
        self.judging = Judging(plan, journal, earlier, self.progress)
        self._engine: _core.ExploreEngine = plan.engine
        self.folder = folder
        self._journal = journal
        self.earlier = earlier
        self._limits = limits
        self._order = order
        self._workers: list[WorkerProcess] = []
        self._memory: dict[int, int] = {}  # by task: the descriptor of its result
        self._loads: dict[int, set[int]] = {}  # by worker: what it loads before its next task
        self._attempts: dict[int, int] = {}
        self._damages: dict[int, int] = {}  # by task: how often its result could not be read
        self._functions: dict[int, bytes] = {}
        self._kinds_seen: set[tuple[str, bool]] = set()
        self._actions: deque[_core.ExploreAction] = deque()  # to carry out
        self._is_taking = False
        self.output: int | None = None  # where workers write; None: where this process does

    def run(self, final: Choice, on_tick: Callable[[], None]) -> None:
        """Runs until the final choice is decided and the results of its branches exist.

        Raises:
            StageError: A stage failed, with errors="stop".
            NoRoomError: A result fits nowhere.
            OSError: The study cannot be written.
        """
        try:
            self._plan_order()
            self._take(self.judging.known_scores())
            self._take(self._engine.start())
            self._until(lambda: final.kept is not None, on_tick)
            for member in final.kept or []:
                self._engine.fetch(member.result)
            self._take(self._engine.start())
            self._until(lambda: all(map(self._exists, final.kept or [])), on_tick)
            self._until(lambda: not any(worker.made for worker in self._workers), on_tick)
            self._keep_files(final.kept or [])
        finally:
            for worker in self._workers:
                worker.end()
            for descriptor in self._memory.values():
                os.close(descriptor)
        on_tick()

    def _exists(self, member: Member) -> bool:
        task = member.result
        is_failed = self.judging.failed_before(task) is not None
        return is_failed or task in self._memory or self.path(task).exists()

    def _until(self, is_done: Callable[[], bool], on_tick: Callable[[], None]) -> None:
        next_tick = 0.0
        while not is_done():
            if time.monotonic() >= next_tick:
                on_tick()
                next_tick = time.monotonic() + _TICK_S
            busy = [worker for worker in self._workers if worker.task is not None]
            if not busy:
                raise RuntimeError("explore: nothing is running, but the study is not complete")
            ready = wait([worker.connection for worker in busy], _TICK_S)
            for worker in busy:
                if worker.connection in ready:
                    self._receive(worker)
                elif worker.deadline is not None and time.monotonic() > worker.deadline:
                    self._time_out(worker)

    def is_known(self, planned: Planned) -> bool:
        """Whether the result of a task has been computed, in this run or an earlier one."""
        return self.earlier.metrics(planned.identity) is not None

    def path(self, task: int) -> Path:
        """The file of a task's result."""
        return result_path(self.folder, self.plan.tasks[task].identity)

    # What the engine decides

    def _take(self, actions: Iterable[_core.ExploreAction]) -> None:
        self._actions.extend(actions)
        if self._is_taking:
            return  # the loop below, further up the stack, comes to them
        self._is_taking = True
        while self._actions:
            self._carry_out(self._actions.popleft())
        self._is_taking = False

    def _carry_out(self, action: _core.ExploreAction) -> None:
        kind = action.kind
        if kind == "run":
            self._begin(action.task, self._worker(action.worker))
        elif kind == "load":
            self._loads.setdefault(action.worker, set()).add(action.task)
        elif kind == "place":
            path = str(self.path(action.task)) if action.on_disk else None
            self._worker(action.worker).send(messages.Place(action.in_memory, path))
        elif kind == "no room":
            raise NoRoomError(self._no_room(action))
        elif kind == "spill":
            self._spill(action.task)
        elif kind == "forget":
            self._forget(action)
        elif kind == "cancel":
            self._worker(action.worker).send(messages.Cancel())
        elif kind == "chosen":
            self._take(self.judging.chosen(self.plan.choices[action.choice]))
        else:
            choice = self.plan.choices[action.choice]
            self.judging.settle(kind, choice, action.listed)
            self._take(self.judging.propose(choice))

    def _worker(self, number: int) -> WorkerProcess:
        while len(self._workers) <= number:
            self._workers.append(self._begin_worker(len(self._workers)))
        return self._workers[number]

    def _begin(self, task: int, worker: WorkerProcess) -> None:
        planned = self.plan.tasks[task]
        loads = self._loads.pop(worker.number, set())
        inputs = [self._input(one, one in loads) for one in dict.fromkeys(planned.inputs)]
        work = messages.Work(
            task,
            planned.identity,
            planned.seed_identity,
            self._function(planned),
            pickled((planned.args, planned.kwargs)),
            inputs,
            planned.epoch,
            planned.resumes,
            int(planned.identity[:8], 16) < self._limits.check_pure * 2**32,
            self.judging.awaits(task),
        )
        worker.task, worker.made = task, None
        worker.deadline = None
        self.progress.current[worker.number] = describe(planned)
        worker.send(work)

    def _input(self, task: int, load: bool) -> messages.Input:
        descriptor = self._memory.get(task)
        if descriptor is not None:
            return messages.Input(task, f"/proc/{os.getpid()}/fd/{descriptor}", is_file=False)
        return messages.Input(task, str(self.path(task)), is_file=True, load=load)

    def _function(self, planned: Planned) -> bytes:
        stage = planned.stage
        found = self._functions.get(id(stage))
        if found is None:
            found = self._functions[id(stage)] = pickled(stage.function)
            if self.earlier.codes.get(stage.name) != stage.code:
                self.earlier.codes[stage.name] = dict(stage.code)
                self._journal.add("code", stage=stage.name, parts=stage.code)
        return found

    def _no_room(self, action: _core.ExploreAction) -> str:
        planned = self.plan.tasks[action.task]
        made = self._worker(action.worker).made
        size = made.bytes if made is not None else 0
        return (
            f"explore: the result of {describe(planned)} has {size / 1e6:.1f} MB, which fits "
            "neither in memory nor on disk within the limits; give a larger memory= or disk="
        )

    def _forget(self, action: _core.ExploreAction) -> None:
        if action.in_memory and action.task in self._memory:
            os.close(self._memory.pop(action.task))
        if action.on_disk:
            with contextlib.suppress(FileNotFoundError):
                self.path(action.task).unlink()

    def _plan_order(self) -> None:
        self._engine.set_order(self._order or self._engine.best_order(0))

    # What the workers say

    def _receive(self, worker: WorkerProcess) -> None:
        task = worker.task
        assert task is not None
        try:
            message = worker.connection.recv()
        except (EOFError, ConnectionResetError):
            self._lost(worker, task)
            return
        if isinstance(message, messages.Began):
            timeout = self.plan.tasks[task].stage.timeout or self._limits.timeout
            worker.began_at = time.monotonic()
            worker.deadline = None if timeout is None else worker.began_at + timeout
        elif isinstance(message, messages.Reported):
            self.progress.current[worker.number] = (
                f"{describe(self.plan.tasks[task])}, report {message.step}"
            )
            self._take(self.judging.reported(task, message.step, message.metrics))
            if self.judging.awaits(task):
                worker.send(messages.GoOn())
        elif isinstance(message, messages.Made):
            self._made(worker, task, message)
        elif isinstance(message, messages.Stored):
            self._stored(worker, task, message)
        elif isinstance(message, messages.Loaded):
            if self._has_taken(worker, task, message.task, message.descriptor):
                self._take(self._engine.loaded(message.task, message.seconds))
        elif isinstance(message, messages.Failed):
            self._fail(worker, task, message.error, message.traceback)
        elif isinstance(message, messages.Damaged):
            self._damaged(worker, task, message)
        else:
            assert isinstance(message, messages.Stopped)
            self._idle(worker)
            self._take(self._engine.stopped(task, worker.number))

    def _idle(self, worker: WorkerProcess) -> None:
        self.progress.current.pop(worker.number, None)
        worker.task = worker.made = None

    def _made(self, worker: WorkerProcess, task: int, made: messages.Made) -> None:
        worker.made, worker.deadline = made, None
        self._take(self.judging.made(task, made.metrics))
        for number, _ in self._engine.judged_by(task):
            self._take(self.judging.propose(self.plan.choices[number]))
        self._take(self._engine.made(task, worker.number, made.seconds, made.bytes))

    def _stored(self, worker: WorkerProcess, task: int, stored: messages.Stored) -> None:
        if stored.failure:
            raise self._cannot_write(stored.failure)
        descriptor = stored.descriptor
        if descriptor is not None and not self._has_taken(worker, task, task, descriptor):
            return
        made, planned = worker.made, self.plan.tasks[task]
        assert made is not None
        event = {
            "id": planned.identity,
            "stage": planned.stage.name,
            "metrics": made.metrics,
            "seconds": made.seconds,
            "bytes": made.bytes,
        }
        self._journal.add("done", durable=True, **event)
        self.earlier.add(event)
        self.progress.finished += 1
        self.progress.spent_s += made.seconds
        kind = (planned.stage.name, planned.epoch is None)
        if kind not in self._kinds_seen:
            self._kinds_seen.add(kind)
            self._plan_order()
        self._idle(worker)
        self._take(self._engine.finished(task, worker.number))

    def _has_taken(self, worker: WorkerProcess, task: int, made: int, descriptor: int) -> bool:
        """Takes over the memory of a result from a worker; False if the worker is gone."""
        try:
            self._memory[made] = worker.take(descriptor)
        except FileNotFoundError:
            self._lost(worker, task)
            return False
        return True

    def _spill(self, task: int) -> None:
        try:
            results.memory_to_file(f"/proc/self/fd/{self._memory[task]}", self.path(task))
        except OSError as error:
            raise self._cannot_write(str(error)) from error

    def _cannot_write(self, why: str) -> OSError:
        return OSError(
            f"explore: cannot write a result into {self.folder}: {why}; "
            f"{self.progress.finished} stages are complete and safe: make room and run again"
        )

    def _fail(self, worker: WorkerProcess, task: int, error: str, traceback: str) -> None:
        planned = self.plan.tasks[task]
        self.judging.failures[task] = (error, traceback)
        self.progress.failed += 1
        self._journal.add(
            "failed",
            id=planned.identity,
            stage=planned.stage.name,
            error=error,
            traceback=traceback,
        )
        if self._limits.stops_on_error:
            raise StageError(f"{describe(planned)} failed: {error}\n{traceback}")
        self._idle(worker)
        self._take(self._engine.failed(task, worker.number))

    def _damaged(self, worker: WorkerProcess, task: int, damaged: messages.Damaged) -> None:
        self._damages[damaged.input] = self._damages.get(damaged.input, 0) + 1
        if self._damages[damaged.input] >= _ATTEMPTS:
            text = f"an input cannot be read, also when computed again: {damaged.error}"
            self._fail(worker, task, text, text + "\n")
            return
        self.judging.note(f"a result is damaged and is computed again: {damaged.error}")
        self._idle(worker)
        self._take(self._engine.damaged(damaged.input))
        self._take(self._engine.stopped(task, worker.number))

    def _lost(self, worker: WorkerProcess, task: int) -> None:
        how = worker.end()
        self._replace(worker)
        self._attempts[task] = self._attempts.get(task, 0) + 1
        if self._attempts[task] >= _ATTEMPTS:
            text = f"its worker process ended {how}, {_ATTEMPTS} times"
            self._fail(self._workers[worker.number], task, text, text + "\n")
            return
        what = describe(self.plan.tasks[task])
        self.judging.note(f"a worker process ended {how} during {what}; it runs again")
        self._take(self._engine.stopped(task, worker.number))

    def _time_out(self, worker: WorkerProcess) -> None:
        task = worker.task
        assert task is not None and worker.deadline is not None
        seconds = worker.deadline - worker.began_at
        worker.end()
        self._replace(worker)
        text = f"TimeoutError: it did not end within {seconds:g} s (timeout)"
        self._fail(self._workers[worker.number], task, text, text + "\n")

    def _replace(self, worker: WorkerProcess) -> None:
        self._idle(worker)
        number = worker.number
        self._workers[number] = self._begin_worker(number)

    def _begin_worker(self, number: int) -> WorkerProcess:
        return WorkerProcess.begin(number, self._limits.threads, self.output)

    def _keep_files(self, kept: Iterable[Member]) -> None:
        for member in kept:
            if member.result in self._memory and not self.path(member.result).exists():
                self._spill(member.result)
