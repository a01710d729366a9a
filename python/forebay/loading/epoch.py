"""One epoch on its way from the feed to the loop."""

import math
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from forebay import _core
from forebay.loading import states
from forebay.loading.assembler import Assembler
from forebay.loading.mover import Mover
from forebay.loading.position import EpochPosition
from forebay.loading.prefetch import Deadline, End, InTurn, LateError, Prefetcher, Ready
from forebay.loading.samplers import EpochSamples

_MS_MAX = 2**31 - 1


class _Run(NamedTuple):
    """Samples that the feed goes through in one turn.

    Attributes:
        turn: The feed's number of the turn.
        selected: The samples; None: each of the dataset's once.
        came: What the feed gave last, until drop(); empty, or one value.
    """

    turn: int
    selected: EpochSamples | None
    came: list[Any]


class Epoch:
    """The epoch of one iter() of a Loader, until a newer call ends it.

    Args:
        feed: Makes the batches. Its turn for this epoch begins here.
        begun: The state at which the epoch begins.
        selected: The samples; None: each of the dataset's once.
        listed: The same for the core; None: the core knows them.
        is_empty: Whether the epoch has no batches.
    """

    def __init__(
        self,
        feed: _core.Feed,
        begun: dict[str, Any],
        selected: EpochSamples | None,
        listed: _core.SampleList | None,
        *,
        is_empty: bool,
    ) -> None:
        self.begun = begun
        self.is_empty = is_empty
        self.feed: _core.Feed | None = feed  # None once the epoch was ended
        turn = _started(feed, EpochPosition.at(begun, selected).state, listed)
        if isinstance(turn, Exception):
            raise turn
        self._run = _Run(turn, selected, [])
        self._ready: Ready | None = None  # the batch in self._run.came
        # Whether go_on() began and did not end: then the feed's turn may be newer than self._run's.
        self._goes_on = False

    def end(self) -> None:
        """Ends the epoch; a thread that waits for a batch gets the error at once."""
        feed, self.feed = self.feed, None
        if feed is not None and feed.is_here:
            feed.end(self._run.turn)

    def go_on(
        self, state: dict[str, Any], following: EpochSamples, listed: _core.SampleList | None
    ) -> Exception | None:
        """Continues the feed at a state, with the samples that follow those chosen so far.

        Returns:
            Why the feed cannot continue, or None. An exception that is raised instead comes from
            outside (a signal's handler), and the call can be repeated.
        """
        feed = self.feed
        if feed is None or not feed.is_here:
            return self.ended()
        self._goes_on = True
        turn = _started(feed, states.to_core(state), listed)
        if isinstance(turn, Exception):
            return turn
        self._run = _Run(turn, following, [])
        self._goes_on = False
        return None

    def ended(self) -> RuntimeError | None:
        """The error that tells that a newer call or a fork has ended the epoch; None: none has."""
        feed = self.feed
        if feed is not None and feed.is_here and self._goes_on:
            return None
        if feed is not None and not feed.is_over(self._run.turn):
            return None
        return RuntimeError(
            "forebay.Loader: this epoch was ended by a newer iter(), set_epoch(), "
            "load_state_dict() or close(), or by a fork; call iter() again"
        )

    def batches(
        self,
        assemble: Assembler,
        mover: Mover | None,
        depth: int,
        go_on: Callable[["Epoch", dict[str, Any], EpochSamples], Exception | None],
    ) -> Prefetcher | InTurn:
        """The batches in their order; threads ahead of the loop do the work in Python.

        Args:
            assemble: Makes the user's batches from the core's.
            mover: Takes batches to page-locked memory or a device; the loop calls its receive().
            depth: How many further batches are in work or ready after each.
            go_on: Calls go_on() for a state and the samples that follow those chosen so far, while
                nothing can end the epoch.
        """

        def finish(pulled: Ready, stop: threading.Event | None) -> Any:
            selected = pulled.epoch_position.selected
            steps_before = 0 if selected is None else selected.steps_before
            if mover is None:
                return assemble(pulled.batch, steps_before, stop)
            with mover.working():
                made = assemble(pulled.batch, steps_before, stop)
            return mover.send(made)

        def pull(deadline: Deadline) -> Ready | End:
            return self._pull(deadline, go_on)

        if mover is None and not assemble.runs_python:
            return InTurn(pull, self._drop, finish)
        return Prefetcher(pull, self._drop, self._is_ready, finish, depth)

    def _pull(
        self,
        deadline: Deadline,
        go_on: Callable[["Epoch", dict[str, Any], EpochSamples], Exception | None],
    ) -> Ready | End:
        """The feed's next batch, the same one until _drop(); or the end.

        A signal's handler may raise between any two operations here. What the feed gave stays in
        `came` until the caller has it.
        """
        while self._ready is None:
            if (ended := self.ended()) is not None:
                return End(ended)
            turn, selected, came = self._run
            if not came and not self._wait(turn, came, deadline):
                continue
            if isinstance(came[0], Exception):
                return End(came[0])
            batch, state = came[0]
            if batch is not None:
                self._ready = Ready(batch, EpochPosition(state, selected))
            elif selected is None or not selected.has_following:
                return End()
            elif (error := self._follow(state, selected, go_on)) is not None:
                return End(error)
        return self._ready

    def _wait(self, turn: int, came: list[Any], deadline: Deadline) -> bool:
        """Waits until the feed's next value is in `came`; returns False if the epoch was ended.

        Raises:
            LateError, MemoryError: A later call may succeed.
        """
        feed = self.feed
        if feed is None:
            return False
        try:
            while not feed.wait_ms(turn, _milliseconds(deadline)):
                if deadline.is_over:
                    raise LateError
            feed.next(turn, came)
        except RuntimeError:
            if self.ended() is None:
                raise
            return False
        return True

    def _follow(
        self,
        state: _core.FeedState,
        selected: EpochSamples,
        go_on: Callable[["Epoch", dict[str, Any], EpochSamples], Exception | None],
    ) -> Exception | None:
        """Continues with the samples after `selected`; returns why this is impossible, or None."""
        following = selected.following()
        if isinstance(following, Exception):
            return following
        return go_on(self, {**states.from_core(state), "position": 0}, following)

    def _drop(self, epoch_position: EpochPosition) -> None:
        """Lets go of the batch with this position, which the caller has; a second call is idle."""
        if self._ready is not None and self._ready.epoch_position is epoch_position:
            self._run.came.clear()
            self._ready = None

    def _is_ready(self) -> bool:
        feed, turn = self.feed, self._run.turn
        if feed is None or self._run.came:
            return True
        try:
            return feed.wait_ms(turn, 0)
        except RuntimeError:
            if self.ended() is not None:  # the next pull will say so
                return True
            raise


def _started(
    feed: _core.Feed, state: _core.FeedState, listed: _core.SampleList | None
) -> int | Exception:
    """The number of a new turn of the feed; or the exception that says why it cannot begin."""
    into: list[int | Exception] = []
    feed.start(state, listed, into)
    return into[0]


def _milliseconds(deadline: Deadline) -> int:
    left = deadline.left()
    return _MS_MAX if left is None else min(_MS_MAX, math.ceil(left * 1000))
