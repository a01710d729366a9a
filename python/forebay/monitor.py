"""What a loader's time goes into, and when to say so."""

import contextlib
import time
from collections.abc import Iterator, Mapping

from forebay import _core

# A warning is worth it when the loop lost that much, and that share of its time, to waiting.
_LOST_SECONDS_MIN = 10.0
_LOST_SHARE_MIN = 0.2
# Of the wait: for the user's functions, rather than for what is decoded.
_PYTHON_SHARE_MIN = 0.5
# Of the decoding threads' time: waiting for what is read, rather than decoding.
_STARVED_SHARE_MIN = 0.3


class BottleneckWarning(UserWarning):
    """The training loop waits for batches; the message says what holds them back."""


class Monitor:
    """Counts the loop's wait, and watches an epoch's stats; one warning at most."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._told = False
        self._wait_seconds = 0.0

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """The loop waits for a batch inside."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._wait_seconds += time.perf_counter() - begin

    def stats(self, feed: _core.Feed) -> dict[str, float]:
        """As Loader.stats() says."""
        core = feed.stats()
        return {
            "wait_seconds": self._wait_seconds,
            "core_wait_seconds": core.wait_ns * 1e-9,
            "samples": core.samples,
            "bytes_read": core.bytes_read,
            "made_on_gpu": core.made_on_gpu,
            "prepare_cpu_seconds": core.prepare_ns * 1e-9,
            "starved_seconds": core.starved_ns * 1e-9,
            "idle_seconds": core.idle_ns * 1e-9,
            "read_cpu_seconds": core.read_ns * 1e-9,
            "reading_seconds": core.reading_ns * 1e-9,
            "batch_bytes_peak": core.batch_bytes_peak,
        }

    def begin(self, feed: _core.Feed) -> None:
        """An epoch begins."""
        self._began = time.monotonic()
        self._before = self.stats(feed)

    def bottleneck(self, feed: _core.Feed) -> str | None:
        """What to warn of now, if anything."""
        if self._told:
            return None
        now = self.stats(feed)
        since = {name: now[name] - before for name, before in self._before.items()}
        message = describe(since, time.monotonic() - self._began, self._threads)
        self._told = message is not None
        return message


def describe(stats: Mapping[str, float], seconds: float, threads: int) -> str | None:
    """What holds batches back; None when nothing does, or it is too early to say.

    Args:
        stats: As Loader.stats(), of these seconds alone.
        seconds: How long.
        threads: That decode.
    """
    lost = stats["wait_seconds"]
    if lost < _LOST_SECONDS_MIN or lost < _LOST_SHARE_MIN * seconds:
        return None
    told = f"forebay: the loop waited {lost / seconds:.0%} of the last {seconds:.0f} s for batches"
    python = (lost - stats["core_wait_seconds"]) / lost
    if python >= _PYTHON_SHARE_MIN:
        return (
            f"{told}: Python is the bottleneck ({python:.0%} of the wait was for functions of "
            "yours, collate_fn, batch_transform or copies). forebay.transforms run without Python"
        )
    starved = stats["starved_seconds"] / (threads * seconds)
    if starved >= _STARVED_SHARE_MIN:
        speed = stats["bytes_read"] / 1e6 / seconds
        return (
            f"{told}: reading is the bottleneck ({speed:.0f} MB/s; the threads that decode waited "
            f"{starved:.0%} of their time for it). A packed dataset (forebay pack), a faster disk "
            "or more memory for the page cache would help"
        )
    return (
        f"{told}: decoding is the bottleneck ({stats['samples'] / seconds:.0f} images/s on "
        f"{threads} threads). More cores (num_workers), or packing the images smaller, would help"
    )
