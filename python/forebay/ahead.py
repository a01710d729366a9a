"""Python's part of a batch, in threads ahead of the loop."""

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

# How often the loop, while it waits for a batch in work, looks for further ones.
_LOOK_SECONDS = 0.005


@dataclasses.dataclass(frozen=True)
class Ready:
    """A batch, and what an epoch's place is after it."""

    batch: Any
    stand: Any  # epoch.Stand
    error: BaseException | None = None  # what a function of the user raised in place of a batch


class Deadline:
    """When a wait must end.

    Args:
        seconds: From now on; 0: never.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds if seconds > 0 else None

    def left(self) -> float | None:
        """Seconds until then, at least 0; None: there is no limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether it is too late."""
        return self.left() == 0.0


class InTurn:
    """Batches in the feed's order, each made when the loop asks for it.

    Args:
        pull: Gives the feed's next batch, None at the end.
        finish: Makes the user's batch of it.
    """

    def __init__(
        self, pull: Callable[[Deadline], Ready | None], finish: Callable[[Ready, Any], Any]
    ) -> None:
        self._pull = pull
        self._finish = finish

    def next(self, deadline: Deadline) -> Ready | None:
        """The next batch; None at the end.

        Raises:
            TimeoutError: It did not come in time; a later call may give it.
        """
        pulled = self._pull(deadline)
        if pulled is None:
            return None
        return dataclasses.replace(pulled, batch=self._finish(pulled, None))

    def close(self) -> None:
        """Gives back what it holds, which is nothing."""


class Ahead:
    """Batches in the feed's order, up to `depth` further ones in work or ready after each.

    Args:
        pull: Gives the feed's next batch, None at the end; called by the loop's thread.
        is_ready: Whether pull() would not wait.
        finish: Makes the user's batch of it, in a thread of its own; the event is set when nobody
            waits for it any more.
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
        self._pool = ThreadPoolExecutor(depth, thread_name_prefix="forebay")
        self._coming: deque[tuple[Ready, Future[Any]]] = deque()
        self._failed: Exception | None = None  # what the feed raised, told in its turn
        self._ended = False

    def next(self, deadline: Deadline) -> Ready | None:
        """The next batch; None at the end.

        Raises:
            TimeoutError: It did not come in time; a later call may give it.
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
            raise TimeoutError
        self._coming.popleft()
        error = made.exception()
        return dataclasses.replace(pulled, batch=None if error else made.result(), error=error)

    def close(self) -> None:
        """Ends the threads; a function of the user ends the image that it is at."""
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _fill(self, deadline: Deadline) -> None:
        """Begins what there is room for.

        The loop waits for its own batch, and for the next one, which is made while the loop has its
        own; for no other.
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
            except (MemoryError, TimeoutError):
                if self._coming:  # the loop may let go of one, and has one to wait for
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
