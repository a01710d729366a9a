"""Finds out where a loader's time goes, and when to warn about it."""

import contextlib
import time
from collections.abc import Iterator, Mapping

from forebay import _core

# A warning is given if the loop has waited for at least this time and this share of its time.
_LOST_SECONDS_MIN = 10.0
_LOST_SHARE_MIN = 0.2
# Python is the bottleneck if the user's functions and copies take this share of the wait or more.
_PYTHON_SHARE_MIN = 0.5
# Reading is the bottleneck where the decoding threads waited for it this share of their time.
_STARVED_SHARE_MIN = 0.3


class BottleneckWarning(UserWarning):
    """The training loop waits for batches; the message says what holds them back."""


class Monitor:
    """Counts how long the loop waits, and warns at most once of what holds batches back.

    Args:
        threads: How many threads decode.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._told = False
        self._wait_seconds = 0.0

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts the time inside the `with`, where the loop waits for a batch."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._wait_seconds += time.perf_counter() - begin

    def stats(self, feed: _core.Feed) -> dict[str, float]:
        """The figures that Loader.stats() describes."""
        core = feed.stats()
        return {
            "wait_seconds": self._wait_seconds,
            "core_wait_seconds": core.wait_ns * 1e-9,
            "samples": core.samples,
            "bytes_read": core.bytes_read,
            "whole_bytes": core.whole_bytes,
            "requests": core.requests,
            "ranges": core.ranges,
            "made_on_gpu": core.made_on_gpu,
            "prepare_cpu_seconds": core.prepare_ns * 1e-9,
            "starved_seconds": core.starved_ns * 1e-9,
            "idle_seconds": core.idle_ns * 1e-9,
            "read_cpu_seconds": core.read_ns * 1e-9,
            "reading_seconds": core.reading_ns * 1e-9,
            "batch_bytes_peak": core.batch_bytes_peak,
        }

    def begin(self, feed: _core.Feed) -> None:
        """Watches the epoch that begins now."""
        self._began = time.monotonic()
        self._before = self.stats(feed)

    def bottleneck(self, feed: _core.Feed) -> str | None:
        """The warning that is due now, or None."""
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
        stats: The figures of Loader.stats(), counted over `seconds` alone.
        seconds: How long the epoch has run.
        threads: How many threads decode.
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
