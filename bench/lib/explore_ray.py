"""Ray Tune on a task of lib/explore_trials.py: two trials at a time, with a core each.

ASHA with its defaults, and a grid search, each configuration once, in an order that the seed draws.
Trials use the processes of earlier ones (reuse_actors), because starting processes would take
longer than the trials.
"""

import functools
import itertools
import random
from typing import Any

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler

from lib.explore_trials import Task, Trials


class AtTarget(tune.Stopper):
    """Stops everything when a trial has ended with the target or more."""

    def __init__(self, target: float, epochs: int) -> None:
        self._target, self._epochs = target, epochs
        self._has_reached = False

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Looks at a report; no trial is stopped for it alone."""
        if result["training_iteration"] == self._epochs and result["score"] >= self._target:
            self._has_reached = True
        return False

    def stop_all(self) -> bool:
        """Whether everything stops."""
        return self._has_reached


@functools.cache
def trials_of(task: Task) -> Trials:
    """The trials of a process, which many trials use."""
    return Trials(task)


def trial(config: dict[str, Any], task: Task) -> None:
    """One trial, in a process of Ray's."""
    trials_of(task).run(config["settings"], lambda _, score: tune.report({"score": score}))


def fit(task: Task) -> None:
    """Runs until the target is reached, the grid is done, or the time is over."""
    trials = trials_of(task)
    flow, epochs = trials.flow, trials.epochs
    names = [one.name for one in flow.over]
    grid = [
        dict(zip(names, labels, strict=True))
        for labels in itertools.product(*(one.labels for one in flow.over))
    ]
    random.Random(task.seed).shuffle(grid)
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
        _temp_dir=task.folder,
    )
    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(trial, task=task), {"cpu": 1}),
        param_space={"settings": tune.grid_search(grid)},
        tune_config=tune.TuneConfig(
            metric="score",
            mode="max",
            scheduler=ASHAScheduler(max_t=epochs),
            time_budget_s=task.seconds_max,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(
            storage_path=f"{task.folder}/results", stop=AtTarget(task.target, epochs), verbose=0
        ),
    )
    tuner.fit()
    ray.shutdown()
