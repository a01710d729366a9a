"""The iterator that iter() of a Loader returns."""

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from forebay.data.cache import Cache
from forebay.loading import states
from forebay.loading.epoch import Epoch
from forebay.loading.monitor import BottleneckWarning, Monitor
from forebay.loading.mover import Mover
from forebay.loading.position import EpochPosition
from forebay.loading.prefetch import Deadline, End, InTurn, LateError, Prefetcher, Ready
from forebay.loading.samplers import EpochSamples
from forebay.locks import ProcessLock

# The stack level of warnings.warn() that names the line of the loop, seen from _tell().
_LOOP = 4


class Batches(Iterator[Any]):
    """One epoch's batches. Several threads may iterate: each batch goes to one of them.

    Args:
        epoch: Gives the batches.
        source: Calls `epoch.batches()`; called by the first next().
        take: Gets the epoch's position after each batch that the loop gets.
        give_back: Gets the position of a batch that the loop did not get after all, perhaps before
            `take` got it.
        finish: Called at the epoch's end, with the position after its last batches if these failed.
        mover: Takes batches to a device or into page-locked memory; None: they stay.
        bar: Makes the progress bar, or None; called by the first next().
        monitor: Counts the loop's waits.
        cache: The cache whose figures the progress bar shows; or None.
        timeout: Seconds that the loop waits for a batch; 0: no limit.
        length: Gives how many batches the whole epoch has; TypeError if that is unknown.
    """

    def __init__(
        self,
        epoch: Epoch,
        source: Callable[[], Prefetcher | InTurn],
        *,
        take: Callable[[EpochPosition], None],
        give_back: Callable[[EpochPosition], None],
        finish: Callable[[EpochPosition | None], None],
        mover: Mover | None,
        bar: Callable[[], Any],
        monitor: Monitor,
        cache: Cache | None,
        timeout: float,
        length: Callable[[], int],
    ) -> None:
        self._length = length
        self._epoch = epoch
        self._make_source = source
        self._take = take
        self._give_back = give_back
        self._finish = finish
        self._mover = mover
        self._make_bar = bar
        self._monitor = monitor
        self._cache = cache
        self._timeout = timeout
        self._lock = ProcessLock()
        self._source: Prefetcher | InTurn | None = None
        self._bar: Any = None
        self._told = len(epoch.begun["bad"])  # how many bad samples the user was warned of
        # What the loop gets next. It stays here if an exception comes in between: of a filter that
        # turned a warning into an error, or of a signal's handler.
        self._due: Ready | End | None = None
        self._shown: Ready | End | None = None  # the last one that the progress bar has counted
        # The epoch's position after a batch for which one of the user's functions failed.
        self._failed: EpochPosition | None = None
        self._is_done = False

    def __iter__(self) -> "Batches":
        return self

    def __len__(self) -> int:
        """Batches of the whole epoch, like DataLoader's iterators."""
        return self._length()

    def __next__(self) -> Any:
        """The next batch.

        An exception that a signal's handler raises here (KeyboardInterrupt, for example) passes,
        and the next call gives the batch that was due.

        Raises:
            RuntimeError: A newer iter() or another call ended the epoch, or no batch came within
                `timeout`.
            DataError, OSError: The core could not read or decode; the epoch is over.
            MemoryError: The caller holds too many batches; a later call tries the same batch again.
            Exception: One of the user's functions raised it for this batch; the next call continues
                with the batch after it.
        """
        due = None
        try:
            with self._lock.here():
                due = self._next_due()
                batch = due.batch
                if self._mover is not None and due.error is None:
                    batch = self._mover.receive(batch)
                self._hand_over(due)
        except BaseException:
            if due is not None:
                self._take_back(due)
            raise
        # Nothing below can be interrupted: Python runs signals' handlers only around calls.
        if due.error is not None:
            raise due.error
        return batch

    def close(self) -> None:
        """Ends the threads that are ahead of the loop. There are no further batches."""
        self._due, self._is_done = None, True
        self._stop()

    def _stop(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # if __init__ failed
            self.close()

    def _next_due(self) -> Ready:
        """What the loop gets next, the same until _hand_over()."""
        if self._due is None:
            if self._is_done:
                raise StopIteration
            self._due = self._pull()
        if isinstance(self._due, End):
            self._end(self._due)
        self._tell(self._due)
        if isinstance(self._due.error, StopIteration):  # which would end the loop silently
            error = RuntimeError("forebay.Loader: a function raised StopIteration")
            error.__cause__ = self._due.error
            self._due = dataclasses.replace(self._due, error=error)
        return self._due

    def _end(self, end: End) -> NoReturn:
        """Ends the epoch with its error, or with StopIteration."""
        if end.error is None:
            # Batches that failed after the last good one end with the epoch.
            self._finish(self._failed)
        self._stop()
        self._due, self._is_done = None, True
        if end.error is not None:
            raise end.error
        raise StopIteration

    def _hand_over(self, due: Ready) -> None:
        """Notes that the loop gets this batch."""
        assert self._source is not None
        if self._bar is not None and due.error is None and self._shown is not due:
            self._shown = due
            self._show_progress(self._bar)
        if due.error is None:
            self._take(due.epoch_position)
        self._failed = due.epoch_position if due.error is not None else None
        self._source.drop(due.epoch_position)
        self._due = None

    def _take_back(self, due: Ready) -> None:
        """Makes the batch the next one again, because an exception came during the handover."""
        with self._lock.here():
            self._give_back(due.epoch_position)
            self._due = due

    def _pull(self) -> Ready | End:
        if (ended := self._epoch.ended()) is not None:
            return End(ended)
        try:
            if self._source is None:
                if (feed := self._epoch.feed) is not None:
                    self._monitor.begin(feed)
                self._source, self._bar = self._make_source(), self._make_bar()
            with self._monitor.waiting():
                return self._source.next(Deadline(self._timeout))
        except LateError:
            raise RuntimeError(
                f"forebay.Loader: no batch came within {self._timeout} s, its timeout"
            ) from None

    def _show_progress(self, bar: Any) -> None:
        feed = self._epoch.feed
        if feed is not None:
            figures = (feed.stats().describe_link(), self._cache.describe() if self._cache else "")
            bar.set_postfix_str("; ".join(filter(None, figures)), refresh=False)
        bar.update()

    def _tell(self, one: Ready) -> None:
        """Warns of what came to light with this batch: bad samples, a bottleneck, lost servers."""
        feed = self._epoch.feed
        if feed is not None and (message := self._monitor.missing_servers(feed)) is not None:
            warnings.warn(message, stacklevel=_LOOP)
        if feed is not None and (message := self._monitor.bottleneck(feed)) is not None:
            warnings.warn(message, BottleneckWarning, stacklevel=_LOOP)
        if one.epoch_position.state.bad_count <= self._told:
            return
        for bad in one.epoch_position.as_state()["bad"][self._told :]:
            self._told += 1  # counted even if a filter turns the warning into an error
            warnings.warn(
                f"forebay: {bad['key']} cannot be used: {bad['reason']}", stacklevel=_LOOP
            )


def progress_bar(
    begun: dict[str, Any], selected: EpochSamples | None, length: Callable[[], int], batch: int
) -> Any:
    """A progress bar of the package tqdm that begins where the epoch does.

    Args:
        begun: The state at which the epoch begins.
        selected: Its samples; None: each of the dataset's once.
        length: Gives how many batches the whole epoch has; TypeError if that is unknown.
        batch: Samples of a batch over all ranks, if all batches have the same size.
    """
    from tqdm.auto import tqdm

    try:
        total = length()
    except TypeError:  # the sampler has no length
        total = None
    done = begun["position"] // batch
    done += sum(-(-(end - first) // batch) for first, end in begun.get(states.OVER, []))
    if selected is not None:
        if selected.ends is not None:
            done = int(np.searchsorted(selected.ends, begun["position"], side="right"))
        done += selected.steps_before
    return tqdm(total=total, initial=done, desc=f"epoch {begun['epoch']}", unit="batch")
