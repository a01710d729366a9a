"""Settings that Optuna's samplers propose, by ask and tell, in place of a list of all values."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forebay.explore.identity import digest
from forebay.explore.settings import Explore, Sampler


def sampler(of: Any, *, trials: int) -> Sampler:
    """A sampler for explores: fx.explore("lr", FloatDistribution(1e-4, 1, log=True), sampler=…).

    All explores that get the same one are sampled together, and are judged by one choose. For each
    value of what stays open there, it begins anew.

    Args:
        of: One of Optuna's samplers, such as optuna.samplers.TPESampler(seed=0).
        trials: How many branches are run.

    Raises:
        ModuleNotFoundError: Optuna is not installed.
        TypeError: `of` is not a sampler.
    """
    try:
        import optuna
    except ImportError:
        raise ModuleNotFoundError("fx.sampler needs Optuna: pip install optuna") from None
    if not isinstance(of, optuna.samplers.BaseSampler):
        raise TypeError(
            f"fx.sampler takes one of Optuna's samplers, such as optuna.samplers.TPESampler(), not "
            f"{of!r}"
        )
    if isinstance(trials, bool) or not isinstance(trials, int) or trials < 1:
        raise ValueError(f"fx.sampler: trials is {trials!r}, but must be an int of at least 1")
    return Sampler(of, trials)


@dataclass
class Proposal:
    """One trial: what each explore gets, by its name: a value, or the place of one in its list."""

    params: dict[str, Any]
    trial: Any = None  # Optuna's; None if an earlier run proposed it
    reports: dict[int, float] = field(default_factory=dict)
    is_open: bool = True


class Proposals:
    """The trials of one choice. Those of earlier runs of the study come first."""

    def __init__(
        self,
        explores: Sequence[Explore],
        *,
        is_highest_best: bool,
        outer: Mapping[str, Any],
        earlier: Mapping[str, list[dict[str, Any]]],
    ) -> None:
        """`outer` are the settings that stay open; `earlier` has the params of trials by key."""
        import optuna

        sampling = explores[0].sampler
        assert sampling is not None
        self._optuna = optuna
        self._distributions = {one.name: _distribution(one) for one in explores}
        shown = optuna.distributions.distribution_to_json
        self.key = digest(
            sorted((name, shown(one)) for name, one in self._distributions.items()),
            sorted((name, str(value)) for name, value in outer.items()),
            is_highest_best,
        )
        self._earlier = list(earlier.get(self.key, []))[: sampling.trials]
        self._left = sampling.trials
        self.asked: list[Proposal] = []
        before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(
            direction="maximize" if is_highest_best else "minimize",
            sampler=copy.deepcopy(sampling.of),  # so that each run begins with the same numbers
        )
        optuna.logging.set_verbosity(before)
        # Samplers that have proposed all there is stop the study.
        setattr(self._study, "stop", self._stop)  # noqa: B010

    def _stop(self) -> None:
        self._left = 0

    @property
    def is_complete(self) -> bool:
        """Whether all trials have ended."""
        return self._left == 0 and self.open_trials == 0

    @property
    def open_trials(self) -> int:
        """How many trials have not ended."""
        return sum(one.is_open for one in self.asked)

    def is_new(self, number: int) -> bool:
        """Whether this run has proposed a trial, not an earlier one."""
        return self.asked[number].trial is not None

    def ask(self) -> Proposal | None:
        """The next trial; None if there were enough."""
        if self._left == 0:
            return None
        self._left -= 1
        if self._earlier:
            proposal = Proposal(self._earlier.pop(0))
        else:
            trial = self._study.ask(self._distributions)
            proposal = Proposal(dict(trial.params), trial)
        self.asked.append(proposal)
        return proposal

    def report(self, number: int, step: int, score: float) -> None:
        """Takes the score of a trial on its way."""
        self.asked[number].reports[step] = score

    def tell(self, number: int, state: str, score: float | None = None) -> None:
        """Takes the end of a trial: "complete" with its score, "pruned" or "fail"."""
        proposal = self.asked[number]
        if not proposal.is_open:
            return
        proposal.is_open = False
        states = self._optuna.trial.TrialState
        end = {"complete": states.COMPLETE, "pruned": states.PRUNED, "fail": states.FAIL}[state]
        if proposal.trial is None:
            self._study.add_trial(
                self._optuna.trial.create_trial(
                    state=end,
                    value=score,
                    params=proposal.params,
                    distributions=self._distributions,
                    intermediate_values=proposal.reports,
                )
            )
            return
        for step, reported in proposal.reports.items():
            proposal.trial.report(reported, step)
        self._study.tell(proposal.trial, score, state=end)


class ValuesOf:
    """The values of explores by their places: those listed, or those that a sampler has drawn."""

    def __init__(self) -> None:
        self._drawn: dict[Explore, list[Any]] = {}

    def of(self, explore: Explore) -> list[Any]:
        """What the explore stands for at each place."""
        return explore.values if explore.distribution is None else self._drawn[explore]

    def labels(self, explore: Explore) -> list[Any]:
        """What configurations show for each place."""
        return explore.labels if explore.distribution is None else self._drawn[explore]

    def index(self, explore: Explore, proposed: Any) -> int:
        """The place of what a sampler proposes: a place already, or a value of a distribution."""
        if explore.distribution is None:
            return int(proposed)
        drawn = self._drawn.setdefault(explore, [])
        if proposed not in drawn:
            drawn.append(proposed)
        return drawn.index(proposed)

    def index_of_label(self, explore: Explore, label: Any) -> int:
        """The place of a label that a user gives.

        Raises:
            ValueError: There is no such label.
        """
        if explore.distribution is not None:
            return self.index(explore, label)
        if label not in explore.labels:
            raise ValueError(f"{label!r} is not a value of {explore!r}")
        return explore.labels.index(label)


def _distribution(explore: Explore) -> Any:
    """What Optuna draws from: the explore's own distribution, or places in its list of values."""
    import optuna

    if explore.distribution is not None:
        return explore.distribution
    last = len(explore.values) - 1
    if explore.is_ordered:
        return optuna.distributions.IntDistribution(0, last)
    return optuna.distributions.CategoricalDistribution(range(last + 1))
