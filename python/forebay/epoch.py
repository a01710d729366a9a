"""One epoch on its way from the feed to the loop."""

import dataclasses
import json
import math
import threading
from collections.abc import Callable
from typing import Any

from forebay import _core
from forebay.ahead import Ahead, Deadline, InTurn, Ready
from forebay.batches import Assembler
from forebay.choosing import Chosen
from forebay.devices import Mover
from forebay.states import POSITION

_MS_MAX = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Stand:
    """Where an epoch stands, after one of its batches or at its beginning."""

    state: str  # the feed's
    bad: int  # bad samples that it lists
    chosen: Chosen | None  # the samples that the feed has, where they are not the dataset's own
    bad_before: list[dict[str, Any]]  # those listed when that feed began

    def place(self) -> dict[str, Any]:
        """The same as in a Loader's state."""
        now = json.loads(self.state)
        if self.chosen is not None:
            for bad in now["bad"][len(self.bad_before) :]:
                bad["sample"] = int(self.chosen.samples[bad["sample"]])
            now["bad"][: len(self.bad_before)] = [dict(bad) for bad in self.bad_before]
            now |= self.chosen.identity()
        return now


class Epoch:
    """What one iter() of a Loader gives, until something newer ends it.

    Args:
        feed: Holds its samples; begins here.
        begun: Where it begins, like a Loader's state.
        chosen: The samples, where they are not the dataset's, each once.
        is_empty: Whether there is no batch in it.
    """

    def __init__(
        self,
        feed: _core.Feed,
        begun: dict[str, Any],
        chosen: Chosen | None,
        *,
        is_empty: bool,
    ) -> None:
        state = json.dumps({name: begun[name] for name in POSITION})
        self.begun = begun
        self.is_taken = False  # whether the loop got a batch, or saw that there is none
        self.stand = Stand(
            state, len(begun["bad"]), chosen, begun["bad"]
        )  # after the loop's last batch
        self.feed: _core.Feed | None = feed  # None when the epoch was ended
        self._turn = feed.start(state)
        self._chosen = chosen
        self._bad_before = begun["bad"]
        self._is_empty = is_empty

    def end(self) -> None:
        """There are no further batches; a thread that waits for one gets the error at once."""
        feed, self.feed = self.feed, None
        if feed is not None and feed.is_here:
            feed.end(self._turn)

    def current_feed(self) -> _core.Feed:
        """The feed.

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

    def now(self) -> dict[str, Any]:
        """Where the loop is, like a Loader's state."""
        if self._is_empty and self.is_taken:  # its end, which no position tells
            bad = [dict(bad) for bad in self.begun["bad"]]
            return {"epoch": self.begun["epoch"] + 1, "position": 0, "bad": bad}
        return self.stand.place()

    def batches(
        self,
        assemble: Assembler,
        mover: Mover | None,
        depth: int,
        open_feed: Callable[["Epoch", Chosen], _core.Feed],
    ) -> Ahead | InTurn:
        """In their order; what takes time in Python is done in threads ahead of the loop.

        Args:
            assemble: Makes the user's batches of the core's.
            mover: Takes them to where they shall be; its receive() is left to the loop.
            depth: Further ones in work or ready after each.
            open_feed: Makes the feed of the samples that follow those chosen so far, sets it as
                `feed`, and gives it; raises RuntimeError where the epoch was ended.
        """

        def finish(pulled: Ready, stop: threading.Event | None) -> Any:
            if mover is None:
                return assemble(pulled.batch, pulled.stand.chosen, stop)
            with mover.working():
                made = assemble(pulled.batch, pulled.stand.chosen, stop)
            return mover.send(made)

        def pull(deadline: Deadline) -> Ready | None:
            return self._pull(deadline, open_feed)

        if mover is None and not assemble.runs_python:
            return InTurn(pull, finish)
        return Ahead(pull, self._is_ready, finish, depth)

    def _pull(
        self, deadline: Deadline, open_feed: Callable[["Epoch", Chosen], _core.Feed]
    ) -> Ready | None:
        """The feed's next batch; None at the epoch's end."""
        while True:
            feed, turn = self.current_feed(), self._turn
            try:
                while not feed.wait_ms(turn, _milliseconds(deadline)):
                    if deadline.is_over:
                        raise TimeoutError
                batch, state, bad = feed.next(turn)
            except RuntimeError:
                self.current_feed()  # tells it where the epoch was ended meanwhile
                raise
            stand = Stand(state, bad, self._chosen, self._bad_before)
            if batch is not None:
                return Ready(batch, stand)
            if self._chosen is None or not self._chosen.has_following:
                return None
            place, following = stand.place(), self._chosen.following()
            feed = open_feed(self, following)
            self._chosen, self._bad_before = following, place["bad"]
            self._turn = feed.start(json.dumps({**place, "position": 0}))

    def _is_ready(self) -> bool:
        try:
            return self.current_feed().wait_ms(self._turn, 0)
        except RuntimeError:  # the epoch was ended, which the next pull tells
            return True


def _milliseconds(deadline: Deadline) -> int:
    left = deadline.left()
    return _MS_MAX if left is None else min(_MS_MAX, math.ceil(left * 1000))
