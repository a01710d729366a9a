"""How strategy="auto" decides: the rules for choices, and the clock."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from forebay.sync.cost_model import Conditions, cheapest
from forebay.sync.policy import Policy
from forebay.sync.strategies import STRATEGIES, Strategy

AUTO = "auto"


@dataclass(frozen=True)
class Guide:
    """Takes the place of a strategy: the measured links decide which strategy is used.

    Attributes:
        choose: Returns the strategy for measured conditions; all processes must get the same one.
            Its second argument is the strategy of the last choice.
        policy: Makes, from a clock, the Policy by which rank 0 decides when the job is measured
            again.
        look_seconds: The time from one look of a process at its counters to the next.
        clock: Returns the seconds since some fixed moment.
    """

    choose: Callable[[Conditions, Strategy | None], Strategy] = cheapest
    policy: Callable[[Callable[[], float]], Policy] = Policy
    look_seconds: float = 0.5
    clock: Callable[[], float] = time.monotonic

    def __str__(self) -> str:
        return AUTO  # the same in all processes


def strategy_of(given: str | Strategy | Guide) -> Strategy | Guide:
    """Returns the strategy with the given name, or a Guide for "auto"; objects stay as they are.

    Raises:
        ValueError: There is no strategy of this name.
    """
    if not isinstance(given, str):
        return given
    if given == AUTO:
        return Guide()
    if given not in STRATEGIES:
        raise ValueError(
            f"sync: strategy is {given!r}, but must be one of {', '.join((AUTO, *STRATEGIES))}"
        )
    return STRATEGIES[given]()
