"""What becomes of jobs in which something goes wrong, under each strategy (sync_cases.py)."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sync_cases import STRATEGIES

WORKER = Path(__file__).with_name("sync_cases.py")
# These strategies need all processes in each exchange.
NEED_ALL = ("allreduce", "ps", "auto")
# Under these strategies, the processes that are left after a loss connect anew, and end with the
# mean of their weights.
CONNECT_ANEW = ("local", "streaming")
# What does not depend on how a strategy ends runs once a night for those that are much alike.
OFTEN = ("allreduce", "ako", "local", "auto")
KEEPS_OWN = "keeps its own weights instead of the mean of all"


def strategies() -> list[Any]:
    return [
        name if name in OFTEN else pytest.param(name, marks=pytest.mark.nightly)
        for name in STRATEGIES
    ]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """By case and strategy: each process's exit status, standard error and result."""
    items: list[Any] = request.session.items
    wanted = [
        f"{item.callspec.params['case']}/{item.callspec.params['strategy']}"
        for item in items
        if item.path == request.path and not any(item.iter_markers("skip"))
    ]
    done = subprocess.run(
        [sys.executable, WORKER, tmp_path_factory.mktemp("cases"), *wanted],
        capture_output=True, text=True, timeout=30 * len(wanted) + 60,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = map(json.loads, done.stdout.splitlines())
    return {one["name"]: one["ranks"] for one in found}


def ended(outcomes: Any, case: str, strategy: str) -> list[dict[str, Any]]:
    ranks: list[dict[str, Any]] = outcomes[f"{case}/{strategy}"]
    for rank in ranks:
        assert "terminate called" not in rank["said"]
        assert rank["status"] != -signal.SIGABRT
    return ranks


@pytest.mark.parametrize("strategy", strategies())
@pytest.mark.parametrize(
    "case",
    [
        "unequal_machines",
        pytest.param("fewer_steps", marks=pytest.mark.nightly),
        "many_fewer_steps",
        "rank_0_validates",
        pytest.param("one_overflow", marks=pytest.mark.nightly),
    ],
)
def test_all_end_with_equal_weights(outcomes: Any, case: str, strategy: str):
    first, second = ended(outcomes, case, strategy)
    assert first["status"] == second["status"] == 0
    assert first["found"]["weights"] == second["found"]["weights"]
    assert first["found"]["loss"] < 0.7  # by chance: 1.1
    assert KEEPS_OWN not in first["said"] + second["said"]
    if case == "rank_0_validates":
        assert "rank 1 has waited" in second["said"]
        assert "s for rank 0 to " in second["said"]


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", strategies())
@pytest.mark.parametrize("case", ["no_close", "one_closes"])
def test_a_script_may_end_without_close(outcomes: Any, case: str, strategy: str):
    first, second = ended(outcomes, case, strategy)
    assert first["status"] == second["status"] == 0
    assert (KEEPS_OWN in first["said"]) == (case == "one_closes")


@pytest.mark.parametrize("strategy", strategies())
@pytest.mark.parametrize(
    "case",
    [
        "one_raises",
        "one_exits",
        "one_hangs",
        pytest.param("one_is_killed", marks=pytest.mark.nightly),
    ],
)
def test_a_lost_process_is_noticed(outcomes: Any, case: str, strategy: str):
    first, _ = ended(outcomes, case, strategy)
    if strategy in CONNECT_ANEW:
        assert first["status"] == 0
        assert "sync: rank 0 has lost rank 1, and goes on alone" in first["said"]
        assert first["found"]["loss"] < 0.9  # by chance: 1.1
    elif strategy in NEED_ALL:
        assert first["status"] == 1
        assert "SyncError: sync: " in first["said"]
        assert "rank 1" in first["said"]
    else:
        assert first["status"] == 0
        assert KEEPS_OWN in first["said"]
        assert first["found"]["loss"] < 0.7


@pytest.mark.parametrize(
    "strategy", ["local", pytest.param("streaming", marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize(
    "case",
    [
        "one_of_three_raises",
        "one_of_three_hangs",
        pytest.param("first_of_three_is_killed", marks=pytest.mark.nightly),
        "two_of_three_are_killed",
        "one_of_three_is_killed_at_the_end",
        pytest.param("one_of_three_hangs_at_the_end", marks=pytest.mark.nightly),
    ],
)
def test_those_left_go_on_together(outcomes: Any, case: str, strategy: str):
    ranks = ended(outcomes, case, strategy)
    lost = {"first_of_three_is_killed": [0], "two_of_three_are_killed": [1, 2]}.get(case, [1])
    left = [rank for number, rank in enumerate(ranks) if number not in lost]
    assert [rank["status"] for rank in left] == [0] * len(left)
    assert len({str(rank["found"]["weights"]) for rank in left}) == 1
    for place, rank in enumerate(left):
        assert KEEPS_OWN not in rank["said"]
        assert f"has lost rank {lost[0]}, and goes on as rank {place} of the 2" in rank["said"]
        assert rank["found"]["loss"] < 0.9  # by chance: 1.1
    if case == "two_of_three_are_killed":
        assert "sync: rank 0 has lost rank 2, and goes on alone" in left[0]["said"]


@pytest.mark.parametrize("strategy", ["local", "outer"])
@pytest.mark.parametrize("case", ["one_of_three_is_behind"])
def test_a_process_that_missed_the_last_sum_takes_it_from_another(
    outcomes: Any, case: str, strategy: str
):
    first, _, third = ended(outcomes, case, strategy)
    assert first["found"]["weights"] == third["found"]["weights"]
    assert first["found"]["kept"] == third["found"]["kept"]
    assert len(first["found"]["kept"]) >= 2  # the shared weights, and what the outer optimizer has


@pytest.mark.parametrize("strategy", ["local"])
@pytest.mark.parametrize("case", ["one_of_three_comes_back"])
def test_a_process_that_comes_back_is_told(outcomes: Any, case: str, strategy: str):
    first, second, third = ended(outcomes, case, strategy)
    assert [rank["status"] for rank in (first, second, third)] == [0, 0, 0]
    assert first["found"]["weights"] == third["found"]["weights"]
    said = "sync: the others went on without this process, rank 1, because it was silent for"
    assert second["said"].count(said) >= 1
    assert KEEPS_OWN in second["said"]


@pytest.mark.parametrize("strategy", ["local"])
@pytest.mark.parametrize("case", ["two_of_three_are_lost_at_once"])
def test_a_loss_while_those_left_connect_is_an_error(outcomes: Any, case: str, strategy: str):
    first, _, _ = ended(outcomes, case, strategy)
    assert first["status"] == 1
    assert "SyncError: sync: after a loss, those that were left could not connect" in first["said"]
