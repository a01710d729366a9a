"""One epoch on its way from the feed to the loop."""

import math
import threading
from collections.abc import Callable
from typing import Any

from forebay import _core
from forebay.loading import states
from forebay.loading.assembler import Assembler
from forebay.loading.mover import Mover
from forebay.loading.position import EpochPosition
from forebay.loading.prefetch import Deadline, InTurn, LateError, Prefetcher, Ready
from forebay.loading.samplers import EpochSamples

_MS_MAX = 2**31 - 1


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
        self._turn = feed.start(EpochPosition.at(begun, selected).state, listed)
        self._selected = selected

    def end(self) -> None:
        """Ends the epoch; a thread that waits for a batch gets the error at once."""
        feed, self.feed = self.feed, None
        if feed is not None and feed.is_here:
            feed.end(self._turn)

    def go_on(
        self, state: dict[str, Any], following: EpochSamples, listed: _core.SampleList | None
    ) -> None:
        """Continues the feed at a state, with the samples that follow those chosen so far.

        Raises:
            RuntimeError: The epoch was ended.
        """
        self._turn = self.current_feed().start(states.to_core(state), listed)
        self._selected = following

    def current_feed(self) -> _core.Feed:
        """The feed that makes the epoch's batches.

        Raises:
            RuntimeError: The epoch was ended.
        """
        feed = self.feed
        if feed is None or feed.is_over(self._turn):
            raise RuntimeError(
                "forebay.Loader: this epoch was ended by a newer iter(), set_epoch(), "
                "load_state_dict() or close(), or by a fork; call iter() again"
            )
        return feed

    def batches(
        self,
        assemble: Assembler,
        mover: Mover | None,
        depth: int,
        go_on: Callable[["Epoch", dict[str, Any], EpochSamples], None],
    ) -> Prefetcher | InTurn:
        """The batches in their order; threads ahead of the loop do the work in Python.

        Args:
            assemble: Makes the user's batches from the core's.
            mover: Takes batches to page-locked memory or a device; the loop calls its receive().
            depth: How many further batches are in work or ready after each.
            go_on: Calls go_on() for a state and the samples that follow those chosen so far, while
                nothing can end the epoch; raises RuntimeError if the epoch was ended.
        """

        def finish(pulled: Ready, stop: threading.Event | None) -> Any:
            selected = pulled.epoch_position.selected
            steps_before = 0 if selected is None else selected.steps_before
            if mover is None:
                return assemble(pulled.batch, steps_before, stop)
            with mover.working():
                made = assemble(pulled.batch, steps_before, stop)
            return mover.send(made)

        def pull(deadline: Deadline) -> Ready | None:
            return self._pull(deadline, go_on)

        if mover is None and not assemble.runs_python:
            return InTurn(pull, finish)
        return Prefetcher(pull, self._is_ready, finish, depth)

    def _pull(
        self, deadline: Deadline, go_on: Callable[["Epoch", dict[str, Any], EpochSamples], None]
    ) -> Ready | None:
        """The feed's next batch; None at the epoch's end."""
        while True:
            feed, turn = self.current_feed(), self._turn
            try:
                while not feed.wait_ms(turn, _milliseconds(deadline)):
                    if deadline.is_over:
                        raise LateError
                batch, state = feed.next(turn)
            except RuntimeError:
                self.current_feed()  # raises if the epoch was ended meanwhile
                raise
            epoch_position = EpochPosition(state, self._selected)
            if batch is not None:
                return Ready(batch, epoch_position)
            if self._selected is None or not self._selected.has_following:
                return None
            go_on(self, {**states.from_core(state), "position": 0}, self._selected.following())

    def _is_ready(self) -> bool:
        try:
            return self.current_feed().wait_ms(self._turn, 0)
        except RuntimeError:  # the epoch was ended; the next pull will say so
            return True


def _milliseconds(deadline: Deadline) -> int:
    left = deadline.left()
    return _MS_MAX if left is None else min(_MS_MAX, math.ceil(left * 1000))
