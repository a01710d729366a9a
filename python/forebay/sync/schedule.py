"""What a process does after which of its steps, when strategies change by themselves; plain logic.

A process is in one of three phases. It *measures* for some steps, and then chooses together with
all others. It *goes on* with a strategy. Or there is a *plan* to change: the process pauses at a
step that it has named, until all have agreed on the step of the change or called it off.
"""

from enum import Enum

from forebay.sync.policy import ALONE
from forebay.sync.strategies import Strategy

# Steps that are timed before a choice. The one before them is slower and does not count.
MEASURED_STEPS = 6


class Due(Enum):
    """What comes after a step, before the next one."""

    NOTHING = "nothing"
    PAUSE = "pause"  # until agree() or call_off()
    TIME = "time"  # the steps that are timed begin now
    CHOOSE = "choose"
    CHANGE = "change"


class Schedule:
    """One process's steps. The caller sees to it that one thread at a time uses it.

    Attributes:
        number: How many choices and plans there were.
        steps: How many steps the process has made.
        present: The strategy in use.
        chosen: The strategy after the last choice; None before the first one.
        planned: The strategy of the plan, or None.
        is_over: Whether the process ends: nothing is planned any more.
    """

    def __init__(self) -> None:
        self.number = self.steps = 0
        self.present: Strategy = ALONE
        self.chosen: Strategy | None = None
        self.planned: Strategy | None = None
        self.is_over = False
        self._pause_at = 0
        self._change_at: int | None = None
        self._choose_at: int | None = None

    @property
    def measures(self) -> bool:
        """Whether a choice is to come, so that nothing else may be planned."""
        return self.chosen is None or self._choose_at is not None

    @property
    def must_measure(self) -> bool:
        """Whether the job has not been measured yet."""
        return self.chosen is None and self._choose_at is None

    def step(self) -> Due:
        """The process has made a step."""
        self.steps += 1
        return self.due()

    def due(self) -> Due:
        """What comes now; for a process that paused, again."""
        if self._choose_at is not None:
            if self.steps == self._choose_at - MEASURED_STEPS:
                return Due.TIME
            return Due.CHOOSE if self.steps == self._choose_at else Due.NOTHING
        if self.planned is None:
            return Due.NOTHING
        if self._change_at is None:
            return Due.PAUSE if self.steps >= self._pause_at else Due.NOTHING
        return Due.CHANGE if self.steps >= self._change_at else Due.NOTHING

    def begin_measuring(self) -> None:
        """The links have been measured; some steps later all choose."""
        self._choose_at = self.steps + 1 + MEASURED_STEPS

    def choose(self) -> None:
        """All have chosen, or have failed to, and `present` is in use."""
        self.chosen, self._choose_at = self.present, None
        self.number += 1

    def plan(self, strategy: Strategy, steps_more: int) -> int:
        """There is a plan; the process pauses after so many further steps.

        Returns:
            The step after which it pauses.
        """
        self.planned, self._change_at = strategy, None
        self._pause_at = self.steps + steps_more
        return self._pause_at

    def agree(self, step: int) -> None:
        """All change after this step."""
        self.number += 1
        self._change_at = step

    def call_off(self) -> None:
        """Nobody changes."""
        self.number += 1
        self.planned = None

    def change(self) -> None:
        """The change has been made, or has failed."""
        self.planned = None

    def end(self) -> None:
        """The process makes no further step."""
        self.is_over = True

    def forget_plan(self) -> None:
        """Nobody answers any more: a plan without a step is dropped, and nobody waits for it."""
        if self._change_at is None:
            self.planned = None

    @property
    def owes_change(self) -> bool:
        """Whether the others count on a change that this process has not made."""
        return self.planned is not None and self._change_at is not None

    @property
    def owes_choice(self) -> bool:
        """Whether the others count on a choice that this process has not made."""
        return self._choose_at is not None
