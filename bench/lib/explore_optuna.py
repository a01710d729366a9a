"""A worker of Optuna on a task of lib/explore_trials.py; the tool is two of them on one storage.

As Optuna's pages recommend for several processes: a journal in a file, and workers that run the
same program. Sampler and pruner have their defaults. Settings in order are suggested as the number
of their value, so that the sampler knows the order.
"""

from pathlib import Path
from typing import Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from lib.explore_trials import Task, Trials


def suggested(trial: Any, flow: Any) -> dict[str, Any]:
    """The labels of the values that a trial tries."""
    config = {}
    for one in flow.over:
        if one.is_ordered:
            config[one.name] = one.labels[trial.suggest_int(one.name, 0, len(one.labels) - 1)]
        else:
            config[one.name] = trial.suggest_categorical(one.name, one.labels)
    return config


def optimize(task: Task, worker: int) -> None:
    """Runs trials until one of either worker has reached the target, or until the time is over."""
    trials = Trials(task)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = JournalStorage(JournalFileBackend(str(Path(task.folder) / "journal")))
    study = optuna.create_study(
        study_name="explore",
        storage=storage,
        sampler=optuna.samplers.TPESampler(seed=2 * task.seed + worker),
        pruner=optuna.pruners.SuccessiveHalvingPruner(),
        direction="maximize",
        load_if_exists=True,
    )

    def objective(trial: Any) -> float:
        def report(epoch: int, score: float) -> None:
            trial.report(score, epoch)
            if epoch < trials.epochs and trial.should_prune():
                raise optuna.TrialPruned

        return trials.run(suggested(trial, trials.flow), report)

    def stop_at_target(study: Any, _: Any) -> None:
        finished = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
        if any(trial.value >= task.target for trial in finished):
            study.stop()

    study.optimize(objective, timeout=task.seconds_max, callbacks=[stop_at_target])
