"""Finds where a Loader's time goes, and when to warn about it."""

import contextlib
import math
import time
from collections.abc import Iterator, Mapping

from forebay import _core

# A warning is given if the loop has waited for at least this long and this share of its time.
_LOST_SECONDS_MIN = 10.0
_LOST_SHARE_MIN = 0.2
# Python is the bottleneck if the user's functions and copies take this share of the wait or more.
_PYTHON_SHARE_MIN = 0.5
# Reading is the bottleneck if the decoding threads waited for it this share of their time.
_STARVED_SHARE_MIN = 0.3

# If the loader reads less than this share of the files' bytes, it reads parts of images.
_PARTS_SHARE_MAX = 0.95
# Figures that are current values, and not sums.
_NOW = ("batch_bytes_peak", "link_latency_seconds", "link_bytes_per_second")


class BottleneckWarning(UserWarning):
    """The training loop waits for batches; the message says what holds them back."""


class Monitor:
    """Counts how long the loop waits, and warns at most once about what holds batches back.

    Args:
        threads: How many threads decode.
        needs_servers: Whether prep servers can prepare batches, so that missing ones are told.
    """

    def __init__(self, threads: int, *, needs_servers: bool = True) -> None:
        self._threads = threads
        self._told = False
        self._has_looked_at_servers = not needs_servers
        self._wait_seconds = 0.0

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts the time inside the `with`, where the loop waits for a batch."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._wait_seconds += time.perf_counter() - begin

    def stats(
        self,
        feed: _core.Feed,
        price_per_1000_requests: float | None = None,
        price_per_gb: float | None = None,
    ) -> dict[str, float]:
        """The figures that Loader.stats() describes."""
        core = feed.stats()
        link = core.link
        stats = {
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
            "http_requests": link.requests,
            "retries": link.retries,
            "hedges": link.hedges,
            "wire_bytes_received": link.bytes_received,
            "wire_bytes_sent": link.bytes_sent,
            "link_latency_seconds": link.latency_s,
            "link_bytes_per_second": link.bytes_per_s,
        }
        if price_per_1000_requests is not None or price_per_gb is not None:
            stats["cost"] = core.cost(
                price("price_per_1000_requests", price_per_1000_requests),
                price("price_per_gb", price_per_gb),
            )
        return stats

    def missing_servers(self, feed: _core.Feed) -> str | None:
        """A message about prep servers that did not answer when the first epoch began.

        None if there are none, and at each later call: a server that goes away later may come back.
        """
        if self._has_looked_at_servers:
            return None
        self._has_looked_at_servers = True
        prep = feed.prep_stats()
        missing = [] if prep is None else [one for one in prep.servers if not one.is_up]
        if not missing:
            return None
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        return (
            f"forebay: the prep server {missing[0].name}{more} does not help: "
            f"{missing[0].trouble or 'it has not answered yet'}; until it answers, this machine "
            "prepares all batches by itself"
        )

    def begin(self, feed: _core.Feed) -> None:
        """Watches the epoch that begins now."""
        self._began = time.monotonic()
        self._before = self.stats(feed)

    def bottleneck(self, feed: _core.Feed) -> str | None:
        """The warning that is due now, or None."""
        if self._told:
            return None
        now = self.stats(feed)
        since = {
            name: value - self._before[name] if name not in _NOW else value
            for name, value in now.items()
        }
        message = describe(since, time.monotonic() - self._began, self._threads)
        self._told = message is not None
        return message


def describe(stats: Mapping[str, float], seconds: float, threads: int) -> str | None:
    """What holds batches back; None if nothing does, or if it is too early to say.

    Args:
        stats: The figures of Loader.stats(), counted over `seconds` alone.
        seconds: How long the epoch has run.
        threads: How many threads decode.
    """
    lost = stats["wait_seconds"]
    if lost < _LOST_SECONDS_MIN or lost < _LOST_SHARE_MIN * seconds:
        return None
    head = f"forebay: the loop waited {lost / seconds:.0%} of the last {seconds:.0f} s for batches"
    python = (lost - stats["core_wait_seconds"]) / lost
    if python >= _PYTHON_SHARE_MIN:
        return (
            f"{head}: Python is the bottleneck ({python:.0%} of the wait was for functions of "
            "yours, collate_fn, batch_transform or copies). forebay.transforms run without Python"
        )
    starved = stats["starved_seconds"] / (threads * seconds)
    if starved >= _STARVED_SHARE_MIN:
        speed = stats["bytes_read"] / 1e6 / seconds
        if stats["http_requests"] > 0:
            return f"{head}: {_link(stats, seconds, starved)}"
        return (
            f"{head}: reading is the bottleneck ({speed:.0f} MB/s; decoding threads waited "
            f"{starved:.0%} of their time for it). A packed dataset (forebay pack), a faster disk "
            "or more memory for the page cache would help"
        )
    return (
        f"{head}: decoding is the bottleneck ({stats['samples'] / seconds:.0f} images/s on "
        f"{threads} threads). More cores (num_workers), or packing the images smaller, would help"
    )


def _link(stats: Mapping[str, float], seconds: float, starved: float) -> str:
    """What the link did while the decoding threads waited for it, and what would help."""
    speed = stats["wire_bytes_received"] / 1e6 / seconds
    facts = [f"{speed:.0f} MB/s", f"{stats['http_requests'] / seconds:.0f} requests/s"]
    if stats["link_latency_seconds"] > 0:
        facts.append(f"{stats['link_latency_seconds'] * 1e3:.0f} ms to an answer's first byte")
    facts += [f"{stats[name]:.0f} {name}" for name in ("retries", "hedges") if stats[name] > 0]
    if stats["bytes_read"] < _PARTS_SHARE_MAX * stats["whole_bytes"]:
        advice = "Only the parts that crops need are read already; smaller"
    else:
        advice = (
            "From a packed dataset (forebay pack) only the parts that random crops need are read; "
            "else smaller"
        )
    return (
        f"the link is the bottleneck ({', '.join(facts)}; decoding threads waited "
        f"{starved:.0%} of their time for it). {advice} images, a faster or nearer server, or a "
        "local copy would help"
    )


def price(name: str, value: float | None) -> float:
    """Checks a price; None is 0.

    Raises:
        ValueError: It is negative or not a finite number.
    """
    if value is None:
        return 0.0
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"stats: {name} is {value}, but must be a finite number, at least 0")
    return float(value)
