"""Where a Loader stands between and during its epochs."""

from typing import Any

from forebay import states
from forebay.choosing import Chosen
from forebay.epoch import Epoch


def beginning(epoch: int, bad: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """The place at which an epoch begins.

    Args:
        epoch: From 0.
        bad: The bad samples so far.
    """
    return {"epoch": epoch, "position": 0, "bad": bad or []}


class Place:
    """The epoch that runs, and the place at which the next iter() begins.

    Transitions: `begin` (an iter()), `go_to` (set_epoch()), `resume` (load_state_dict(), close()).
    One thread at a time.
    """

    def __init__(self) -> None:
        self.running: Epoch | None = None
        # Whether the next iter() goes on where load_state_dict() or close() left off.
        self.resumes = False
        # What was chosen for it: by an iter() of which nothing was taken, or before close().
        self.kept: Chosen | None = None
        self._next = beginning(0)

    def now(self) -> dict[str, Any]:
        """Epoch, position and bad samples after the batch that was given last."""
        if self.running is not None:
            return self.running.now()
        return {**self._next, "bad": [dict(bad) for bad in self._next["bad"]]}

    def next(self) -> dict[str, Any]:
        """Where the next iter() begins: anew where nothing was taken of the last one."""
        begins = self._next
        if self.running is not None and not self.running.is_taken:
            begins = self.running.begun
        return {**begins, "bad": self.now()["bad"]}  # also those of an epoch that was left

    @property
    def is_begun(self) -> bool:
        """Whether a batch was taken of the epoch that runs."""
        return self.running is not None and self.running.is_taken

    def begin(self, epoch: Epoch, chosen: Chosen | None) -> None:
        """Makes an epoch the one that runs."""
        if self.is_begun:
            self.resumes = False
        if self.running is not None:
            self.running.end()
        self.running, self.kept = epoch, chosen
        self._next = beginning(epoch.begun["epoch"] + 1, epoch.begun["bad"])

    def go_to(self, place: dict[str, Any]) -> None:
        """Ends what runs; the next iter() begins there."""
        self.end()
        self._next = place
        self.resumes, self.kept = False, None

    def resume(self, state: dict[str, Any], *, is_over: bool, kept: Chosen | None = None) -> None:
        """Ends what runs; the next iter() goes on there, or at the next epoch's beginning.

        Args:
            state: Like a Loader's.
            is_over: Whether it is an epoch's end.
            kept: The samples that were chosen for its epoch, where they are known.
        """
        place = {name: state[name] for name in (*states.POSITION, *states.CHOSEN) if name in state}
        self.go_to(beginning(state["epoch"] + 1, state["bad"]) if is_over else place)
        self.resumes = True
        self.kept = None if is_over else kept

    def end(self) -> None:
        """There are no further batches of the epoch that runs."""
        if self.running is not None:
            self.running.end()
        self.running = None
