"""How bench/sync.py measures the time to an accuracy, what its search takes, and what ends it."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from lib.sync_job import check_workers
from lib.sync_points import Point, best_mean, reach
from lib.sync_trials import Record, Trial, Trials


def points(*accuracies: float) -> list[Point]:
    return [(2.0 * number, 10 * number, what) for number, what in enumerate(accuracies, start=1)]


def test_one_high_snapshot_reaches_nothing():
    found = points(0.1, 0.2, 0.5, 0.2, 0.3)
    assert [reach(found[:end], 0.4) for end in range(1 + len(found))] == [None] * 6
    assert best_mean(found) == pytest.approx((0.5 + 0.2 + 0.3) / 3)


def test_the_time_lies_on_a_line_between_two_means():
    # Means of 0.2 at 4 s and of 0.4 at 6 s.
    assert reach(points(0.1, 0.2, 0.3, 0.7), 0.3) == pytest.approx(5)


def test_the_first_mean_counts_at_its_time():
    assert reach(points(0.4, 0.4, 0.4), 0.4) == pytest.approx(4)
    assert reach(points(0.4, 0.4), 0.4) is None
    assert reach([], 0.4) is None
    assert best_mean([]) == 0


def searched(side: str, seconds_of: Callable[[Trial], float | None]) -> tuple[Trial, list[Trial]]:
    """What the search takes, and what it has run, where a job takes so long."""
    run: list[Trial] = []

    def outcome(trial: Trial, seconds_max: float) -> Record:
        run.append(trial)
        seconds = seconds_of(trial)
        return Record(seconds if seconds and seconds <= seconds_max else None, [])

    return Trials(None, outcome).searched("cifar", 100, side), run


def test_the_search_climbs_to_the_best_learning_rate():
    best, run = searched(
        "alone", lambda trial: {0.01: 60.0, 0.02: 50.0, 0.04: 30.0}.get(trial.rate)
    )
    assert best.rate == 0.04
    assert [trial.rate for trial in run][:3] == [0.01, 0.02, 0.04]
    assert 0.005 not in {trial.rate for trial in run}
    best, _ = searched("alone", lambda trial: {0.01: 60.0, 0.005: 50.0}.get(trial.rate))
    assert best.rate == 0.005


def test_what_is_hardly_faster_is_luck():
    best, _ = searched("alone", lambda trial: 55.0 if trial.rate == 0.02 else 60.0)
    assert best.rate == 0.01


def test_parameter_servers_are_searched_further():
    def seconds(trial: Trial) -> float:
        fits = trial.options.get("staleness") == 16 and trial.options.get("servers") == [1, 3]
        return 40.0 if fits else 50.0 if trial.options.get("staleness") == 16 else 60.0

    best, run = searched("ps", seconds)
    assert best.options == {"staleness": 16, "servers": [1, 3]}
    assert {trial.options.get("staleness") for trial in run} >= {0, 4, 16, 64}


def test_what_failed_with_wider_links_is_not_run_with_thinner_ones(tmp_path: Path):
    run: list[Trial] = []

    def fails(trial: Trial, seconds_max: float) -> Record:
        run.append(trial)
        return Record(None, [])

    Trials(tmp_path / "kept", fails).searched("cifar", 100, "alone")
    ran = len(run)
    assert ran > 0
    again = Trials(tmp_path / "kept", fails)
    assert again.searched("cifar", 10, "alone").mbit == 100
    assert len(run) == ran  # all of it is kept


def test_a_worker_that_fails_ends_the_search_unless_a_model_has_diverged(tmp_path: Path):
    (tmp_path / "log0").write_text("Traceback: Connection closed by peer")
    (tmp_path / "log1").write_text("all is well")
    with pytest.raises(RuntimeError, match="rank 0 has failed.*\n.*Connection closed"):
        check_workers(tmp_path)
    (tmp_path / "log1").write_text("Traceback: the gradient of step 3 is not finite")
    check_workers(tmp_path)
