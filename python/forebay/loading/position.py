"""A Loader's position as one value: between its epochs and during one."""

from dataclasses import dataclass, field, replace
from typing import Any

from forebay import _core
from forebay.loading import states
from forebay.loading.samplers import EpochSamples


def beginning(epoch: int, bad: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """The state at which an epoch begins.

    Args:
        epoch: Its number, from 0.
        bad: The bad samples so far.
    """
    return {"epoch": epoch, "position": 0, "bad": bad or []}


@dataclass(frozen=True)
class EpochPosition:
    """The position of a running epoch: at its beginning, or after one of its batches.

    Attributes:
        state: The feed's state.
        selected: The samples that the feed goes through; None: each of the dataset's once.
    """

    state: _core.FeedState
    selected: EpochSamples | None

    @staticmethod
    def at(begun: dict[str, Any], selected: EpochSamples | None) -> "EpochPosition":
        """The position of an epoch that begins at a state, before its first batch."""
        return EpochPosition(states.to_core(begun), selected)

    def as_state(self) -> dict[str, Any]:
        """The position in the form of a Loader's state."""
        now = states.from_core(self.state)
        return now if self.selected is None else now | self.selected.identity()


@dataclass(frozen=True)
class Position:
    """A Loader's position. Each transition returns a new Position and changes nothing.

    There are three kinds: no epoch runs (`epoch_position` is None); an epoch runs, but the loop has
    taken no batch, so the next iter() begins it again; an epoch runs, and the loop has taken a
    batch.

    Attributes:
        begin: The state at which the running epoch began; if no epoch runs, at which the next one
            will.
        selected: The samples of that epoch, if Python has chosen them.
        epoch_position: The running epoch's position, after the last batch that the loop got.
        is_taken: Whether the loop got a batch of the running epoch, or saw its end.
        before: The Position before the last take(), for give_back().
    """

    begin: dict[str, Any] = field(default_factory=lambda: beginning(0))
    selected: EpochSamples | None = None
    epoch_position: EpochPosition | None = None
    is_taken: bool = False
    before: "Position | None" = field(default=None, compare=False, repr=False)

    def now(self) -> dict[str, Any]:
        """The state after the last batch that the loop got; the caller may change it."""
        if self.epoch_position is not None:
            return self.epoch_position.as_state()
        return {**self.begin, "bad": [dict(bad) for bad in self.begin["bad"]]}

    def next(self) -> dict[str, Any]:
        """The state at which the next iter() begins an epoch."""
        bad = self.now()["bad"]  # also those of an epoch that was not finished
        if self.is_taken:
            return beginning(self.begin["epoch"] + 1, bad)
        return {**self.begin, "bad": bad}

    def iterate(self, begun: dict[str, Any], selected: EpochSamples | None) -> "Position":
        """iter() began an epoch at this state, with these samples."""
        return Position(begun, selected, EpochPosition.at(begun, selected))

    def take(self, epoch_position: EpochPosition) -> "Position":
        """The loop got a batch of the running epoch, which is now at `epoch_position`."""
        assert self.epoch_position is not None, "no epoch runs"
        before = replace(self, before=None)
        return replace(self, epoch_position=epoch_position, is_taken=True, before=before)

    def give_back(self) -> "Position":
        """The loop did not get the last batch after all, because an exception came in between."""
        return self if self.before is None else self.before

    def finish(self, epoch_position: EpochPosition | None, *, is_empty: bool) -> "Position":
        """The loop saw the end of the running epoch.

        Args:
            epoch_position: The position after the epoch's last batches, if they failed and the loop
                did not get them.
            is_empty: Whether the epoch has no batches: then no position marks its end.
        """
        assert self.epoch_position is not None, "no epoch runs"
        if is_empty:
            return Position(beginning(self.begin["epoch"] + 1, self.now()["bad"]))
        return self.take(epoch_position or self.epoch_position)

    def set_epoch(self, epoch: int) -> "Position":
        """The user set the epoch; if the next batch would be one of this epoch, nothing changes.

        An iterator that has given no batch stays valid, because Lightning sets the epoch after
        iter().
        """
        if not self.is_taken and self.next()["epoch"] == epoch:
            return self
        return Position(beginning(epoch, self.now()["bad"]))

    def load(
        self, state: dict[str, Any], *, is_over: bool, selected: EpochSamples | None = None
    ) -> "Position":
        """The next iter() continues at a Loader's state, or with the next epoch after its end.

        Args:
            state: Checked (states.checked).
            is_over: Whether the state is its epoch's end.
            selected: The samples of its epoch, if they are known.
        """
        if is_over:
            return Position(beginning(state["epoch"] + 1, state["bad"]))
        names = (*states.POSITION, states.OVER, *states.CHOSEN)
        begin = {name: state[name] for name in names if name in state}
        return Position(begin, selected)

    def close(self, *, is_over: bool) -> "Position":
        """The Loader was closed: the next iter() continues after the last batch that the loop got.

        Args:
            is_over: Whether now() is its epoch's end.
        """
        selected = self.selected if self.epoch_position is None else self.epoch_position.selected
        return self.load(self.now(), is_over=is_over, selected=selected)
