"""What a process does after each of its steps when strategies change automatically. Plain logic.

A process is in one of three phases. It *measures* for some steps, and then chooses together with
all others. It *goes on* with a strategy. Or there is a *plan* to change: the process pauses at a
step that it has named, until the processes have agreed on the step of the change or called it off.
"""

from enum import Enum

from forebay.sync.policy import ALONE
from forebay.sync.strategies import Strategy

# The number of steps that are timed before a choice. One slower step before them is not timed.
MEASURED_STEPS = 6


class Due(Enum):
    """What is due after a step, before the next one."""

    NOTHING = "nothing"
    PAUSE = "pause"  # until agree(), call_off() or forget_plan()
    TIME = "time"  # the timed steps begin now
    CHOOSE = "choose"
    CHANGE = "change"


class Schedule:
    """One process's steps. The caller ensures that one thread at a time uses it.

    Attributes:
        number: The number of choices and plans so far.
        steps: The number of steps that the process has made.
        present: The strategy in use.
        chosen: The strategy that was chosen last; None before the first choice.
        planned: The strategy of the plan, or None without a plan.
        is_over: Whether the process makes no further step. Then nothing new is planned.
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
        """Whether a choice is still to come, so that no change may be planned."""
        return self.chosen is None or self._choose_at is not None

    @property
    def must_measure(self) -> bool:
        """Whether the links must be measured for the first time."""
        return self.chosen is None and self._choose_at is None

    def step(self) -> Due:
        """Counts a step of the process, and returns what is due."""
        self.steps += 1
        return self.due()

    def due(self) -> Due:
        """Returns what is due now; a process that paused asks again."""
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
        """The links were measured: all processes choose some steps later."""
        self._choose_at = self.steps + 1 + MEASURED_STEPS

    def choose(self) -> None:
        """The processes have chosen `present`, or have failed to choose and keep it."""
        self.chosen, self._choose_at = self.present, None
        self.number += 1

    def plan(self, strategy: Strategy, steps_more: int) -> int:
        """Begins a plan to change to `strategy`; the process pauses after `steps_more` steps.

        Returns:
            The number of the step after which it pauses.
        """
        self.planned, self._change_at = strategy, None
        self._pause_at = self.steps + steps_more
        return self._pause_at

    def agree(self, step: int) -> None:
        """All processes change after this step."""
        self.number += 1
        self._change_at = step

    def call_off(self) -> None:
        """No process changes."""
        self.number += 1
        self.planned = None

    def change(self) -> None:
        """The change has been made, or has failed."""
        self.planned = None

    def end(self) -> None:
        """This process makes no further step."""
        self.is_over = True

    def forget_plan(self) -> None:
        """Drops a plan that has no agreed step, because no other process answers any more."""
        if self._change_at is None:
            self.planned = None

    @property
    def owes_change(self) -> bool:
        """Whether other processes count on a change that this process has not made yet."""
        return self.planned is not None and self._change_at is not None

    @property
    def owes_choice(self) -> bool:
        """Whether other processes count on a choice that this process has not made yet."""
        return self._choose_at is not None
