"""How all processes of a job agree on the step after which they do the same; plain logic.

In each round rank 0 plans something, and each process says up to which step it goes on at most
before it pauses ("ready"). Rank 0 answers with the latest of these steps, at which all act, or
calls the plan off when a process does not answer in time ("verdict"). If rank 0 does not answer
either, the first process that has waited long enough calls the plan off. The verdict is set once,
so that either all processes act or none does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# How long all processes have to answer before a plan is called off; the others wait twice as long
# for the verdict of rank 0.
READY_SECONDS = 10.0
CALLED_OFF = -1


@dataclass(frozen=True)
class Write:
    """Sets a key of the store that all processes share."""

    key: str
    value: str


@dataclass(frozen=True)
class Await:
    """Waits at most this long until all keys are set; `Agreement.found` gets their values."""

    keys: Sequence[str]
    seconds: float


@dataclass(frozen=True)
class Propose:
    """Sets a key unless it is set already; `Agreement.settled` gets the value that it has then."""

    key: str
    value: str


Action = Write | Await | Propose


class Agreement:
    """One process's part in one round.

    Args:
        number: Of the round; the same in all processes.
        rank: This process's number.
        world_size: How many processes there are.

    Attributes:
        verdict: The step at which all act, CALLED_OFF, or None while that is not known.
    """

    def __init__(self, number: int, rank: int, world_size: int) -> None:
        self._number, self._rank, self._world_size = number, rank, world_size
        self.verdict: int | None = None

    @property
    def _verdict_key(self) -> str:
        return f"verdict {self._number}"

    def begin(self, pause_at: int) -> list[Action]:
        """This process has seen the plan, and pauses after this step at the latest."""
        ready = [f"ready {self._number} {rank}" for rank in range(self._world_size)]
        answer = Write(ready[self._rank], str(pause_at))
        if self._rank == 0:
            return [answer, Await(ready, READY_SECONDS)]
        return [answer, Await([self._verdict_key], 2 * READY_SECONDS)]

    def found(self, values: Sequence[str] | None) -> list[Action]:
        """The keys of an Await have these values; None: they were not all set in time."""
        steps = CALLED_OFF if values is None else max(int(value) for value in values)
        if values is not None and self._rank != 0:
            self.verdict = steps
            return []
        return [Propose(self._verdict_key, str(steps))]

    def settled(self, value: str) -> None:
        """The key of a Propose has this value."""
        self.verdict = int(value)
