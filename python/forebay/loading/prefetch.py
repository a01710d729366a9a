"""The part of making a batch that runs in Python, in threads ahead of the loop."""

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

from forebay.loading.position import EpochPosition

# While the loop waits for a batch in work, it looks for further ones at this interval.
_LOOK_SECONDS = 0.005


@dataclasses.dataclass(frozen=True)
class Ready:
    """A batch, and the position of its epoch after it."""

    batch: Any
    epoch_position: EpochPosition
    # What one of the user's functions raised instead of making the batch.
    error: BaseException | None = None


@dataclasses.dataclass(frozen=True)
class End:
    """Comes instead of a batch if there is no further one."""

    # Why the epoch ends early; None: it is complete.
    error: Exception | None = None


class BatchError(ValueError):
    """One batch cannot be made of its samples; the others can."""


class LateError(Exception):
    """No batch came within the Loader's timeout. (An origin's timeout is another error.)"""


class Deadline:
    """When a wait must end.

    Args:
        seconds: How long the wait may take from now on; 0: without limit.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds if seconds > 0 else None

    def left(self) -> float | None:
        """How many seconds are left, at least 0; None: there is no limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.left() == 0.0


class InTurn:
    """Batches in the feed's order, each made when the loop asks for it.

    Args:
        pull: Returns the feed's next batch, the same one until drop(); or the end.
        drop: Lets go of the pulled batch with this position; a second call does nothing.
        finish: Makes the user's batch from it.
    """

    def __init__(
        self,
        pull: Callable[[Deadline], Ready | End],
        drop: Callable[[EpochPosition], None],
        finish: Callable[[Ready, Any], Any],
    ) -> None:
        self._pull = pull
        self._drop = drop
        self._finish = finish
        self._made: Ready | None = None

    def next(self, deadline: Deadline) -> Ready | End:
        """The next batch, the same one until drop() is called for it; or the end.

        A signal's handler may raise between any two operations; a later call then goes on.

        Raises:
            LateError: It did not come in time; a later call may give it.
        """
        if self._made is None:
            pulled = self._pull(deadline)
            if isinstance(pulled, End):
                return pulled
            try:
                self._made = dataclasses.replace(pulled, batch=self._finish(pulled, None))
            except BatchError as error:
                self._made = dataclasses.replace(pulled, batch=None, error=error)
        return self._made

    def drop(self, epoch_position: EpochPosition) -> None:
        """The loop has the batch with this position; a second call does nothing."""
        if self._made is not None and self._made.epoch_position is epoch_position:
            self._drop(epoch_position)
            self._made = None

    def close(self) -> None:
        """Does nothing, because there are no threads to end."""


class _Work:
    """A batch that another thread makes.

    Futures would do the same, but a signal's handler that raises in the middle of their waits can
    leave them locked. Here the loop's thread waits for a lock alone, which Python never leaves so.

    Args:
        pulled: The feed's batch, which is freed once the user's is made.
        finish: Makes the user's batch.
    """

    def __init__(self, pulled: Ready, finish: Callable[[Ready], Any]) -> None:
        self.epoch_position = pulled.epoch_position
        self.made: Ready | None = None
        self._pulled: Ready | None = pulled
        self._finish = finish
        self._begun = threading.Lock()  # held once the work has begun, or never will
        self._done = threading.Lock()  # held until `made` is set
        self._done.acquire()

    def run(self) -> None:
        """Makes the batch, unless another call did or does."""
        if not self._begun.acquire(blocking=False):
            return
        pulled, self._pulled = self._pulled, None
        assert pulled is not None
        try:
            self._end(self._finish(pulled), None)
        except BaseException as error:
            self._end(None, error)

    def cancel(self) -> None:
        """Ends the work with CancelledError, unless it has begun."""
        if self._begun.acquire(blocking=False):
            self._end(None, CancelledError())

    def wait(self, seconds: float | None) -> bool:
        """Waits at most this time (None: without limit) until `made` is set; whether it is."""
        if self.made is None and self._done.acquire(timeout=-1 if seconds is None else seconds):
            self._done.release()  # for other threads that wait
        return self.made is not None

    def _end(self, batch: Any, error: BaseException | None) -> None:
        self.made = Ready(batch, self.epoch_position, error)
        self._done.release()


class Prefetcher:
    """Batches in the feed's order; up to `depth` batches after the loop's are in work or ready.

    Args:
        pull: Returns the feed's next batch, the same one until drop(), or the end; called by the
            loop's thread.
        drop: Lets go of the pulled batch with this position; a second call does nothing.
        is_ready: Whether pull() would not wait.
        finish: Makes the user's batch from it, in another thread; the event is set when nobody
            waits for the batch any more.
        depth: At least 1.
    """

    def __init__(
        self,
        pull: Callable[[Deadline], Ready | End],
        drop: Callable[[EpochPosition], None],
        is_ready: Callable[[], bool],
        finish: Callable[[Ready, threading.Event], Any],
        depth: int,
    ) -> None:
        self._pull = pull
        self._drop = drop
        self._is_ready = is_ready
        self._finish = finish
        self._depth = depth
        self._stop = threading.Event()
        self._threads = threads = set[threading.Thread]()
        self._pool = ThreadPoolExecutor(
            depth, "forebay", initializer=lambda: threads.add(threading.current_thread())
        )
        self._coming: deque[_Work] = deque()
        self._begun: EpochPosition | None = None  # of the last work that the threads got
        self._end: End | None = None  # comes after the batches in _coming

    def next(self, deadline: Deadline) -> Ready | End:
        """The next batch, the same one until drop() is called for it; or the end.

        A signal's handler may raise between any two operations; a later call then goes on.

        Raises:
            LateError: It did not come in time; a later call may give it.
        """
        self._fill(deadline)
        if not self._coming:
            assert self._end is not None
            return self._end
        work = self._coming[0]
        work.wait(deadline.left())
        if work.made is None:
            raise LateError
        return work.made

    def drop(self, epoch_position: EpochPosition) -> None:
        """The loop has the batch with this position; a second call does nothing."""
        if self._coming and self._coming[0].epoch_position is epoch_position:
            self._coming.popleft()

    def close(self) -> None:
        """Ends the threads; the user's functions finish the image that they are working on.

        Waits for the threads, unless it is called in one of them: Python may collect the last owner
        there.
        """
        self._stop.set()
        is_own = threading.current_thread() in self._threads
        self._pool.shutdown(wait=not is_own, cancel_futures=True)
        for work in list(self._coming):  # another thread may wait for it
            work.cancel()

    def _fill(self, deadline: Deadline) -> None:
        """Begins as many batches as there is room for.

        The loop waits only for its own batch and for the next one, which is made while the loop
        uses its own.
        """
        if self._coming:  # a signal's handler may have ended the last call in the middle
            self._begin(self._coming[-1])
        while self._end is None and len(self._coming) <= self._depth:
            if len(self._coming) > 1 and not self._is_ready():
                first = self._coming[0]
                if first.made is not None or deadline.is_over:
                    return
                first.wait(_LOOK_SECONDS)
                continue
            try:
                pulled = self._pull(deadline)
            except (MemoryError, LateError):
                if self._coming:  # the loop gets these first, and may release others
                    return
                raise
            if isinstance(pulled, End):
                self._end = pulled
                return
            self._coming.append(_Work(pulled, lambda given: self._finish(given, self._stop)))
            self._begin(self._coming[-1])

    def _begin(self, work: _Work) -> None:
        """Gives the newest work to the threads; a second call does nothing."""
        if self._begun is not work.epoch_position:
            self._drop(work.epoch_position)
            self._pool.submit(work.run)
            self._begun = work.epoch_position
