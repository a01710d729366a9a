"""What strategy="auto" decides by."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from forebay.sync.cost_model import Conditions, cheapest
from forebay.sync.policy import Policy
from forebay.sync.strategies import STRATEGIES, Strategy

AUTO = "auto"


@dataclass(frozen=True)
class Guide:
    """Stands in the place of a strategy: the job's links decide, and may decide anew.

    Attributes:
        choose: Gives the strategy for measured conditions, the same in all processes; its second
            argument is the strategy of the last choice.
        policy: Makes what decides on rank 0 when the job is measured again, from a clock.
        look_seconds: How often each process looks at its counters.
        clock: Seconds since any moment.
    """

    choose: Callable[[Conditions, Strategy | None], Strategy] = cheapest
    policy: Callable[[Callable[[], float]], Policy] = Policy
    look_seconds: float = 0.5
    clock: Callable[[], float] = time.monotonic

    def __str__(self) -> str:
        return AUTO  # the same in all processes


def strategy_of(given: str | Strategy | Guide) -> Strategy | Guide:
    """The strategy of a name, or the one that is given; a Guide for "auto".

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
