"""How a choose selects among the scores of its branches."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Selector:
    """Which branches are kept; made by the functions below."""

    kind: str
    count: int = 1
    low: float = 0.0
    high: float = 0.0
    function: Callable[[Mapping[int, float]], object] | None = None

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
        return texts[self.kind]


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
