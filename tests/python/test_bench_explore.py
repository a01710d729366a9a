"""What the peers of bench/explore.py compute, and when they have reached a score."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import make_jpeg, pack
from forebay import explore as fx

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

torch = pytest.importorskip("torch")

from lib import explore_flows  # noqa: E402
from lib.comparison import DisagreementError  # noqa: E402
from lib.explore_peers import Run, first_reached, key_of  # noqa: E402
from lib.explore_trials import Task, Trials  # noqa: E402


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """The task with heads, on noise with the classes of CIFAR-10."""
    names = [f"{name}/{number}.jpg" for name in explore_flows.CLASSES for number in range(4)]
    train = pack({name: make_jpeg(seed) for seed, name in enumerate(names)}, tmp_path)
    torch.manual_seed(0)
    torch.save(explore_flows.backbone().state_dict(), tmp_path / "weights.pt")
    weights = str(tmp_path / "weights.pt")
    return Task("head", str(train), 50_000, weights, 0, 1.0, 60.0, str(tmp_path), is_cached=False)


def config_of(flow: Any) -> dict[str, Any]:
    return {one.name: one.labels[-1] for one in flow.over}


@pytest.mark.parametrize("is_cached", [False, True])
def test_a_trial_has_the_score_of_the_branch(task: Task, is_cached: bool):
    seen: list[int] = []
    for _ in range(2):  # with a cache, the second one reads the file that the first one wrote
        trials = Trials(task._replace(is_cached=is_cached))
        score = trials.run(config_of(trials.flow), lambda epoch, _: seen.append(epoch))
        assert score == fx.alone(trials.flow, config_of(trials.flow))[0]
    assert seen == [*range(1, 1 + explore_flows.HEAD_EPOCHS)] * 2
    assert len(list(Path(task.folder).glob("*-4-40.pt"))) == is_cached


def test_a_trial_can_be_ended(task: Task):
    trials = Trials(task)

    def stop(epoch: int, _: float) -> None:
        if epoch == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        trials.run(config_of(trials.flow), stop)
    lines = (Path(task.folder) / "events").read_text().splitlines()
    assert [json.loads(line).get("epoch") for line in lines] == [None, 1, 2]


def event(at: float, lr: int, epoch: int | None = None, score: float = 0) -> dict[str, Any]:
    reported = {} if epoch is None else {"epoch": epoch, "score": score}
    return {"at": at, "config": {"lr": lr}, **reported}


def test_only_a_complete_training_reaches_a_score():
    scores = {key_of({"lr": 1}): 0.5, key_of({"lr": 2}): 0.75}
    events = [event(10, 1), event(11, 2), event(12, 1, 1, 0.9), event(13, 1, 2, 0.5)]
    assert first_reached(events, 2, 0.75, scores) is None
    events += [event(14, 2, 1, 0.1), event(16, 2, 2, 0.75), event(17, 2, 2, 0.75)]
    assert first_reached(events, 2, 0.75, scores) == 6
    assert first_reached(events, 2, 0.5, scores) == 3


def test_another_score_than_that_of_the_branch_is_told():
    with pytest.raises(DisagreementError, match="0.5"):
        first_reached([event(0, 1), event(1, 1, 1, 0.4)], 1, 0.4, {key_of({"lr": 1}): 0.5})


def test_the_journal_tells_when_a_score_was_known():
    run = Run(explore_flows.start_flow())
    assert run.study.best.value == 1
    first, best = (run.seconds_until("value", score) for score in (0, 1))
    assert 0 < first <= best <= run.seconds
