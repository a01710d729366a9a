"""Python's part of a batch, in threads ahead of the loop."""

import dataclasses
import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

# How often the loop, while it waits for a batch in work, looks for further ones.
_LOOK_SECONDS = 0.005


@dataclasses.dataclass(frozen=True)
class Ready:
    """A batch, and where the feed stood behind it; bad samples so far."""

    batch: Any
    state: str
    bad: int


def ahead(
    pull: Callable[[], Ready | None],
    is_ready: Callable[[], bool],
    finish: Callable[[Any, threading.Event], Any],
    depth: int,
) -> Generator[Ready, None, None]:
    """Batches in the feed's order, up to `depth` further ones in work or ready behind each.

    Args:
        pull: Gives the feed's next batch, None at the end; called by the loop's thread.
        is_ready: Whether pull() would not wait.
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
            # The loop waits for its own batch, and for the next one, which is made while the loop
            # has its own; for no other. What goes wrong ahead is told in its turn.
            while failed is None and not ended and len(coming) <= depth:
                if len(coming) > 1 and not is_ready():
                    if coming[0][1].done():
                        break
                    wait([coming[0][1]], _LOOK_SECONDS)
                    continue
                try:
                    pulled = pull()
                except MemoryError as error:
                    if not coming:  # none to be let go of
                        failed = error
                    break
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
