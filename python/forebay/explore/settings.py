"""What a flow is unsure about: explores, lists of values, and schedules."""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Sampler:
    """Proposes values of explores; made by fx.sampler."""

    of: Any  # one of Optuna's
    trials: int


class Explore:
    """Stands for each of its values in turn, wherever a stage's argument may stand."""

    def __init__(
        self,
        name: str,
        values: Sequence[Any],
        labels: Sequence[Any],
        is_ordered: bool,
        sampler: Sampler | None = None,
        distribution: Any = None,
    ) -> None:
        self.name = name
        self.values = list(values)
        self.labels = list(labels)  # what configurations show for each value
        self.is_ordered = is_ordered
        self.sampler = sampler
        self.distribution = distribution  # one of Optuna's, in place of values

    def __repr__(self) -> str:
        if self.distribution is not None:
            return f"fx.explore({self.name!r}, {self.distribution!r})"
        return f"fx.explore({self.name!r}, {len(self.values)} values)"


class Values(list[Any]):
    """A list of values in a meaningful order, such as log() makes."""


class Schedule(Sequence[Any]):
    """A setting with one value for each epoch, such as the learning rate.

    Trainings whose schedules begin with the same values share these epochs. A stage that gets a
    schedule is a generator that reports after each epoch, and its loop is
    `for epoch in fx.epochs(schedule, state)`.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = list(values)
        self._known: int | None = None  # in a stage: how many values may be read
        if not self._values:
            raise ValueError("a schedule needs at least one value")

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, epoch: Any) -> Any:
        if self._known is not None:
            if isinstance(epoch, slice):
                raise IndexError("a stage reads a schedule's values one by one")
            if epoch < 0 or epoch >= self._known:
                raise IndexError(
                    f"epoch {self._known - 1} reads the schedule's value for epoch {epoch}; only "
                    "values up to the present epoch may be read, because trainings share epochs "
                    "with equal values"
                )
        return self._values[epoch]

    def __iter__(self) -> Iterator[Any]:
        return (self[epoch] for epoch in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and self._values == other._values

    def __hash__(self) -> int:
        return hash(len(self._values))

    def __repr__(self) -> str:
        runs: list[list[Any]] = []
        for value in self._values:
            if runs and runs[-1][0] == value:
                runs[-1][1] += 1
            else:
                runs.append([value, 1])
        return "schedule(" + ", ".join(f"{value!r} x {count}" for value, count in runs) + ")"

    def up_to(self, epoch: int) -> "Schedule":
        """This schedule as the given epoch may see it."""
        seen = Schedule(self._values)
        seen._known = epoch + 1
        return seen

    def value(self, epoch: int) -> Any:
        """The value of an epoch, for the engine."""
        return self._values[epoch]


def explore(
    name: str, values: "Sequence[Any] | Mapping[str, Any] | Any", *, sampler: Sampler | None = None
) -> Explore:
    """Explores a setting: each branch of the flow gets one of the values.

    Args:
        name: What the setting is called in configurations and tables; once in a flow.
        values: At least one value, such as a list, fx.log(…) or fx.linear(…). With a dict,
            configurations show its keys. Values may be what stages return, so that branches
            differ in their stages. With a sampler also one of Optuna's distributions.
        sampler: Proposes some of the values (fx.sampler), in place of running all.
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"an explore's name is a text, not {name!r}")
    if sampler is not None and not isinstance(sampler, Sampler):
        raise TypeError(
            f"explore {name!r}: the sampler is {sampler!r}, but must come from fx.sampler(…)"
        )
    optuna = sys.modules.get("optuna")
    if optuna is not None and isinstance(values, optuna.distributions.BaseDistribution):
        if sampler is None:
            raise ValueError(f"explore {name!r}: a distribution needs a sampler: sampler=…")
        return Explore(name, [], [], False, sampler, values)
    labels = list(values)
    if isinstance(values, Mapping):
        values = list(values.values())
    if isinstance(values, (str, bytes)) or not isinstance(values, (Sequence, range)):
        raise TypeError(f"explore {name!r}: the values must be a list, not {values!r}")
    if len(values) == 0:
        raise ValueError(f"explore {name!r} has no values")
    is_ordered = isinstance(values, (Values, range)) or _is_sorted(values)
    return Explore(name, values, labels, is_ordered, sampler)


def log(low: float, high: float, count: int) -> Values:
    """`count` numbers from `low` to `high`, each the same multiple of the one before."""
    if not (0 < low <= high and math.isfinite(high)) or count < 1:
        raise ValueError(f"log({low!r}, {high!r}, {count!r}): needs 0 < low <= high and count >= 1")
    if count == 1:
        return Values([float(low)])
    ratio = math.log(high / low) / (count - 1)
    return Values([_rounded(low * math.exp(ratio * i)) for i in range(count - 1)] + [float(high)])


def linear(low: float, high: float, count: int) -> Values:
    """`count` numbers from `low` to `high` with equal distances."""
    if not (low <= high and math.isfinite(high - low)) or count < 1:
        raise ValueError(f"linear({low!r}, {high!r}, {count!r}): needs low <= high and count >= 1")
    if count == 1:
        return Values([float(low)])
    step = (high - low) / (count - 1)
    return Values([_rounded(low + step * i) for i in range(count - 1)] + [float(high)])


def schedule(*values: Any) -> Schedule:
    """A schedule: schedule(0.1, 0.1, 0.01), or schedule([0.1] * 2 + [0.01])."""
    is_one_list = len(values) == 1 and isinstance(values[0], (list, tuple, Values))
    return Schedule(values[0] if is_one_list else values)


def _rounded(value: float) -> float:
    """Without the last digits, which are errors of rounding: 0.3 and not 0.30000000000000004."""
    return float(f"{value:.14g}")


def _is_sorted(values: Sequence[Any]) -> bool:
    try:
        pairs = list(zip(values, values[1:], strict=False))
        return all(a < b for a, b in pairs) or all(a > b for a, b in pairs)
    except TypeError:
        return False
