"""The part of making a batch that runs in Python, in threads ahead of the loop."""

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
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
        pull: Returns the feed's next batch, or None at the end.
        finish: Makes the user's batch from it.
    """

    def __init__(
        self, pull: Callable[[Deadline], Ready | None], finish: Callable[[Ready, Any], Any]
    ) -> None:
        self._pull = pull
        self._finish = finish

    def next(self, deadline: Deadline) -> Ready | None:
        """The next batch; None at the end.

        Raises:
            LateError: It did not come in time; a later call may give it.
        """
        pulled = self._pull(deadline)
        if pulled is None:
            return None
        return dataclasses.replace(pulled, batch=self._finish(pulled, None))

    def close(self) -> None:
        """Does nothing, because there are no threads to end."""


class Prefetcher:
    """Batches in the feed's order; up to `depth` batches after the loop's are in work or ready.

    Args:
        pull: Returns the feed's next batch, or None at the end; called by the loop's thread.
        is_ready: Whether pull() would not wait.
        finish: Makes the user's batch from it, in another thread; the event is set when nobody
            waits for the batch any more.
        depth: At least 1.
    """

    def __init__(
        self,
        pull: Callable[[Deadline], Ready | None],
        is_ready: Callable[[], bool],
        finish: Callable[[Ready, threading.Event], Any],
        depth: int,
    ) -> None:
        self._pull = pull
        self._is_ready = is_ready
        self._finish = finish
        self._depth = depth
        self._stop = threading.Event()
        self._threads = threads = set[threading.Thread]()
        self._pool = ThreadPoolExecutor(
            depth, "forebay", initializer=lambda: threads.add(threading.current_thread())
        )
        self._coming: deque[tuple[Ready, Future[Any]]] = deque()
        self._failed: Exception | None = None  # the feed's error, until its turn comes
        self._ended = False

    def next(self, deadline: Deadline) -> Ready | None:
        """The next batch; None at the end.

        Raises:
            LateError: It did not come in time; a later call may give it.
        """
        self._fill(deadline)
        if not self._coming:
            if self._failed is not None:
                failed, self._failed = self._failed, None
                raise failed
            return None
        pulled, made = self._coming[0]
        wait([made], deadline.left())
        if not made.done():
            raise LateError
        self._coming.popleft()
        error = made.exception()
        return dataclasses.replace(pulled, batch=None if error else made.result(), error=error)

    def close(self) -> None:
        """Ends the threads; the user's functions finish the image that they are working on.

        Waits for the threads, unless it is called in one of them: Python may collect the last owner
        there.
        """
        self._stop.set()
        is_own = threading.current_thread() in self._threads
        self._pool.shutdown(wait=not is_own, cancel_futures=True)

    def _fill(self, deadline: Deadline) -> None:
        """Begins as many batches as there is room for.

        The loop waits only for its own batch and for the next one, which is made while the loop
        uses its own.
        """
        while self._failed is None and not self._ended and len(self._coming) <= self._depth:
            if len(self._coming) > 1 and not self._is_ready():
                first = self._coming[0][1]
                if first.done() or deadline.is_over:
                    return
                wait([first], _LOOK_SECONDS)
                continue
            try:
                pulled = self._pull(deadline)
            except (MemoryError, LateError):
                if self._coming:  # the loop gets these first, and may release others
                    return
                raise
            except Exception as error:
                self._failed = error
                return
            if pulled is None:
                self._ended = True
                return
            made = self._pool.submit(self._finish, pulled, self._stop)
            self._coming.append((dataclasses.replace(pulled, batch=None), made))
