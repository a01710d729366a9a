"""How all processes of a job agree on the step after which they act together. Plain logic.

In each round rank 0 publishes a plan, and each process answers with the step at which it pauses at
the latest ("ready"). Rank 0 answers with the latest of these steps, at which all processes act, or
calls the plan off if a process does not answer in time ("verdict"). If rank 0 does not answer
either, the first process that has waited long enough calls the plan off. The verdict is set only
once, so either all processes act or none does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# How long rank 0 waits for all answers before it calls a plan off. The other processes wait twice
# as long for rank 0's verdict.
READY_SECONDS = 10.0
CALLED_OFF = -1


@dataclass(frozen=True)
class Write:
    """Set this key of the store that all processes share."""

    key: str
    value: str


@dataclass(frozen=True)
class Await:
    """Wait at most this long until all keys are set; `Agreement.found` gets their values."""

    keys: Sequence[str]
    seconds: float


@dataclass(frozen=True)
class Propose:
    """Set this key unless it is set; `Agreement.settled` gets the value that it has afterwards."""

    key: str
    value: str


Action = Write | Await | Propose


class Agreement:
    """One process's part in one round; begin() and found() return the actions to do next, in order.

    Args:
        number: The number of the round, the same in all processes.
        rank: This process's rank.
        world_size: The number of processes.

    Attributes:
        verdict: The step at which all processes act, or CALLED_OFF; None while it is not known.
    """

    def __init__(self, number: int, rank: int, world_size: int) -> None:
        self._number, self._rank, self._world_size = number, rank, world_size
        self.verdict: int | None = None

    @property
    def _verdict_key(self) -> str:
        return f"verdict {self._number}"

    def begin(self, pause_at: int) -> list[Action]:
        """This process has seen the plan, and will pause after step `pause_at` at the latest."""
        ready = [f"ready {self._number} {rank}" for rank in range(self._world_size)]
        answer = Write(ready[self._rank], str(pause_at))
        if self._rank == 0:
            return [answer, Await(ready, READY_SECONDS)]
        return [answer, Await([self._verdict_key], 2 * READY_SECONDS)]

    def found(self, values: Sequence[str] | None) -> list[Action]:
        """An Await is done: the keys have these values, or were not all set in time (None)."""
        steps = CALLED_OFF if values is None else max(int(value) for value in values)
        if values is not None and self._rank != 0:
            self.verdict = steps
            return []
        return [Propose(self._verdict_key, str(steps))]

    def settled(self, value: str) -> None:
        """A Propose is done: the key has this value now."""
        self.verdict = int(value)
