"""One epoch on its way from the feed to the loop."""

import dataclasses
import json
import threading
from collections.abc import Generator
from functools import partial
from typing import Any

from forebay import _core
from forebay.ahead import Ready, ahead
from forebay.batches import Assembler
from forebay.choosing import Chosen
from forebay.devices import Mover
from forebay.states import POSITION


class Epoch:
    """What one iter() of a Loader gives, until something newer ends it.

    Args:
        feed: Of its samples; begins here.
        begun: Where, as in a Loader's state.
        chosen: The samples, where they are not the dataset's, each once.
        is_empty: Whether there is no batch in it.
    """

    def __init__(
        self, feed: _core.Feed, begun: dict[str, Any], chosen: Chosen | None, *, is_empty: bool
    ) -> None:
        feed.start(json.dumps({name: begun[name] for name in POSITION}))
        self.begun = begun
        self._chosen = chosen
        self._samples = None if chosen is None else chosen.samples
        self.is_taken = False  # whether the loop got a batch, or saw that there is none
        self.behind = feed.state()  # the feed's, behind the batch that the loop got last
        self._feed: _core.Feed | None = feed
        self._is_empty = is_empty

    def end(self) -> None:
        """There are no further batches; the feed is somebody else's."""
        self._feed = None

    def now(self) -> dict[str, Any]:
        """Where the loop is, as in a Loader's state."""
        if self._is_empty and self.is_taken:  # its end, which no position tells
            bad = [dict(bad) for bad in self.begun["bad"]]
            return {"epoch": self.begun["epoch"] + 1, "position": 0, "bad": bad}
        return self.place_of(self.behind)

    def place_of(self, state: str) -> dict[str, Any]:
        """Of the feed's state, as in a Loader's."""
        now = json.loads(state)
        if self._chosen is not None:
            for bad in now["bad"][len(self.begun["bad"]) :]:
                bad["sample"] = int(self._chosen.samples[bad["sample"]])
            now |= {"sampled": self._chosen.digest, "samples": len(self._chosen.samples)}
        return now

    def batches(
        self, assemble: Assembler, mover: Mover | None, depth: int
    ) -> Generator[Ready, None, None]:
        """In their order; what takes time in Python is done in threads ahead of the loop.

        Args:
            assemble: Makes the user's of the core's.
            mover: Takes them to where they shall be; its receive() is left to the loop.
            depth: Further ones in work or ready behind each.
        """
        if mover is None and not assemble.runs_python:
            return self._in_turn(assemble)
        finish = partial(self._finish, assemble, mover)
        return ahead(self._pull, self._is_ready, finish, depth)

    def current_feed(self) -> _core.Feed:
        """The feed.

        Raises:
            RuntimeError: This epoch was ended.
        """
        if self._feed is None or not self._feed.is_here:
            raise RuntimeError(
                "forebay.Loader: this epoch was ended by a newer iter(), set_epoch(), "
                "load_state_dict() or close(), or by a fork; call iter() again"
            )
        return self._feed

    def _in_turn(self, assemble: Assembler) -> Generator[Ready, None, None]:
        while (pulled := self._pull()) is not None:
            made = [dataclasses.replace(pulled, batch=assemble(pulled.batch, self._samples))]
            del pulled
            yield made.pop()

    def _finish(
        self, assemble: Assembler, mover: Mover | None, batch: Any, stop: threading.Event
    ) -> Any:
        """With the user's functions applied, and on its way; in a thread of Python."""
        if mover is None:
            return assemble(batch, self._samples, stop)
        with mover.working():
            made = assemble(batch, self._samples, stop)
        return mover.send(made)

    def _pull(self) -> Ready | None:
        """The feed's next batch; None at the epoch's end."""
        feed = self.current_feed()
        batch = feed.next()
        if batch is None:
            return None
        return Ready(batch, feed.state(), feed.bad_samples)

    def _is_ready(self) -> bool:
        return self.current_feed().is_ready()
