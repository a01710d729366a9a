"""How a choose selects among the scores of its branches."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class EarlyStop:
    """By which rule branches are ended before their trainings are complete."""

    kind: str = "none"
    grace: int = 1
    factor: int = 4
    startup: int = 5


@dataclass(frozen=True)
class Selector:
    """Which branches are kept; made by the functions below."""

    kind: str
    count: int = 1
    low: float = 0.0
    high: float = 0.0
    function: Callable[[Mapping[int, float]], object] | None = None
    early_stop: EarlyStop = EarlyStop()

    @property
    def keeps_one(self) -> bool:
        """Whether at most one branch is kept, whatever the scores."""
        return self.kind in ("top", "bottom", "first") and self.count == 1

    def __str__(self) -> str:
        texts = {
            "top": f"top({self.count})",
            "bottom": f"bottom({self.count})",
            "above": f"above({self.low:g})",
            "first": f"first({self.count}, above={self.low:g})",
            "within": f"within({self.low:g}, {self.high:g})",
            "all": getattr(self.function, "__name__", "all"),
        }
        text, early = texts[self.kind], self.early_stop
        if early.kind == "asha":
            return f"asha({text}, grace={early.grace}, factor={early.factor})"
        if early.kind == "median":
            return f"median({text}, grace={early.grace}, startup={early.startup})"
        return text


def top(count: int) -> Selector:
    """Keeps the `count` branches with the highest scores; of equal ones, the first listed."""
    return Selector("top", count=_counted("top", count))


def bottom(count: int) -> Selector:
    """Keeps the `count` branches with the lowest scores; of equal ones, the first listed."""
    return Selector("bottom", count=_counted("bottom", count))


def above(threshold: float) -> Selector:
    """Keeps all branches with scores greater than the threshold."""
    return Selector("above", low=_finite("above", threshold))


def first(count: int, *, above: float) -> Selector:
    """Keeps the first `count` branches, in listed order, with scores greater than `above`.

    Branches that come after them in listed order are not run.
    """
    return Selector("first", count=_counted("first", count), low=_finite("first", above))


def within(low: float, high: float) -> Selector:
    """Keeps all branches with scores from `low` to `high`, both included."""
    low, high = _finite("within", low), _finite("within", high)
    if low > high:
        raise ValueError(
            f"within({low:g}, {high:g}): no score is within; the lower end comes first"
        )
    return Selector("within", low=low, high=high)


def asha(keep: Selector, *, grace: int = 1, factor: int = 4) -> Selector:
    """Selects like `keep`, and ends most trainings early: asynchronous successive halving (ASHA).

    At the reports grace, grace x factor, grace x factor^2 and so on, a training goes on if its
    score is among the best 1/factor of those that have come to this report. The rule is that of
    Optuna's SuccessiveHalvingPruner. A training that would have become the best may be ended, so it
    needs fx.run(…, mode="heuristic").

    Args:
        keep: fx.top(k) or fx.bottom(k).
        grace: The first report at which a training may end, from 1.
        factor: From 2.
    """
    stop = EarlyStop(
        "asha", grace=_counted("asha: grace=", grace), factor=_counted("asha: factor=", factor)
    )
    if factor < 2:
        raise ValueError(f"asha: factor is {factor}, but must be at least 2")
    return _stopping("asha", keep, stop)


def median(keep: Selector, *, grace: int = 1, startup: int = 5) -> Selector:
    """Selects like `keep`, and ends trainings early that are worse than the median.

    A training ends when its best score so far is worse than the median of the complete trainings at
    the same report. The rule is that of Optuna's MedianPruner. It needs
    fx.run(…, mode="heuristic").

    Args:
        keep: fx.top(k) or fx.bottom(k).
        grace: The first report at which a training may end, from 1.
        startup: How many trainings must be complete before others are ended, from 1.
    """
    stop = EarlyStop(
        "median",
        grace=_counted("median: grace=", grace),
        startup=_counted("median: startup=", startup),
    )
    return _stopping("median", keep, stop)


def _stopping(name: str, keep: Selector, stop: EarlyStop) -> Selector:
    if not isinstance(keep, Selector) or keep.kind not in ("top", "bottom"):
        raise TypeError(f"{name} takes fx.top(k) or fx.bottom(k), not {keep}")
    if keep.early_stop.kind != "none":
        raise ValueError(f"{name}: {keep} ends trainings by itself already")
    return replace(keep, early_stop=stop)


def selector_of(keep: Any) -> Selector:
    """The selector that a user gave as `keep`: one of these, or a function.

    A function gets the scores by listed number, and returns the numbers to keep.
    """
    if isinstance(keep, Selector):
        return keep
    if callable(keep):
        return Selector("all", function=keep)
    raise TypeError(
        f"keep is {keep!r}, but must be a selector such as fx.top(1), or a function that gets the "
        "scores by number and returns the numbers to keep"
    )


def _counted(name: str, count: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count < 2**31:
        raise ValueError(f"{name}({count!r}): the number of branches must be an int of at least 1")
    return count


def _finite(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{name}: {value!r} is not a finite number")
    return float(value)
