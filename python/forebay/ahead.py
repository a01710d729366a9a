"""Python's part of a batch, in threads ahead of the loop."""

import dataclasses
import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


@dataclasses.dataclass(frozen=True)
class Ready:
    """A batch, and where the feed stood behind it; bad samples so far."""

    batch: Any
    state: str
    bad: int


def ahead(
    pull: Callable[[], Ready | None], finish: Callable[[Any, threading.Event], Any], depth: int
) -> Generator[Ready, None, None]:
    """Batches in the feed's order, the next `depth` in work or ready while the loop has one.

    Args:
        pull: Gives the feed's next batch, None at the end; called by the loop's thread.
        finish: Makes the user's batch of it, in a thread of its own; the event is set when nobody
            waits for it any more.
        depth: At least 1.
    """
    stop = threading.Event()
    pool = ThreadPoolExecutor(depth, thread_name_prefix="forebay")
    coming: deque[tuple[Ready, Future[Any]]] = deque()
    failed: Exception | None = None
    ended = False
    try:
        while True:
            # What goes wrong ahead is told when its turn comes.
            while failed is None and not ended and len(coming) <= depth:
                try:
                    pulled = pull()
                except Exception as error:
                    failed = error
                    break
                if pulled is None:
                    ended = True
                    break
                made = pool.submit(finish, pulled.batch, stop)
                coming.append((dataclasses.replace(pulled, batch=None), made))
                del pulled, made  # what the loop lets go of shall go
            if not coming:
                break
            yield _made(*coming.popleft())
        if failed is not None:
            raise failed
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _made(pulled: Ready, batch: Future[Any]) -> Ready:
    return dataclasses.replace(pulled, batch=batch.result())
