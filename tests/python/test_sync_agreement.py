"""How processes agree on a step, in any order of messages, and if some do not answer."""

import random

import pytest

from forebay.sync import LocalSteps, Pairs
from forebay.sync.agreement import CALLED_OFF, Agreement, Await, Propose, Write
from forebay.sync.schedule import MEASURED_STEPS, Due, Schedule

PAIRS = Pairs()


class Round:
    """Processes over one store, whose actions are done one by one in a random order.

    Args:
        silent: The ranks of processes that do not answer at all.
    """

    def __init__(self, seed: int, pause_at: list[int], silent: set[int]) -> None:
        self._random = random.Random(seed)
        self._store: dict[str, str] = {}
        count = len(pause_at)
        self.members = {rank: Agreement(7, rank, count) for rank in range(count)}
        self._todo = {
            rank: one.begin(pause_at[rank])
            for rank, one in self.members.items()
            if rank not in silent
        }

    def run(self) -> list[int | None]:
        """The verdicts of the processes that answer."""
        while waiting := [rank for rank, actions in self._todo.items() if actions]:
            able = [rank for rank in waiting if self._may_go_on(rank)]
            # A wait times out only when no process can do anything else.
            self._do(self._random.choice(able or waiting))
        return [self.members[rank].verdict for rank in self._todo]

    def _may_go_on(self, rank: int) -> bool:
        action = self._todo[rank][0]
        return not isinstance(action, Await) or all(key in self._store for key in action.keys)

    def _do(self, rank: int) -> None:
        member, actions = self.members[rank], self._todo[rank]
        action = actions.pop(0)
        if isinstance(action, Write):
            self._store[action.key] = action.value
        elif isinstance(action, Await):
            there = all(key in self._store for key in action.keys)
            actions += member.found([self._store[key] for key in action.keys] if there else None)
        else:
            assert isinstance(action, Propose)
            member.settled(self._store.setdefault(action.key, action.value))


@pytest.mark.parametrize("seed", range(200))
def test_all_act_at_the_latest_step_that_one_named(seed: int):
    count = random.Random(seed).randint(1, 6)
    pause_at = [random.Random(seed + rank).randint(3, 90) for rank in range(count)]
    assert Round(seed, pause_at, set()).run() == [max(pause_at)] * count


@pytest.mark.parametrize("seed", range(200))
def test_all_or_none_act_whoever_does_not_answer(seed: int):
    draw = random.Random(seed)
    count = draw.randint(2, 6)
    silent = set(draw.sample(range(count), draw.randint(1, count - 1)))
    verdicts = Round(seed, [5] * count, silent).run()
    assert verdicts == [CALLED_OFF] * (count - len(silent))


def test_a_verdict_that_is_there_counts_for_those_who_call_off():
    late = Agreement(0, 1, 2)
    late.begin(4)
    assert late.found(None) == [Propose("verdict 0", str(CALLED_OFF))]
    late.settled("9")  # rank 0 was faster
    assert late.verdict == 9


def measured() -> Schedule:
    """A process that has chosen for the first time."""
    schedule = Schedule()
    assert schedule.must_measure
    schedule.begin_measuring()
    due = [schedule.step() for _ in range(1 + MEASURED_STEPS)]
    assert due == [Due.TIME, *[Due.NOTHING] * (MEASURED_STEPS - 1), Due.CHOOSE]
    schedule.present = PAIRS
    schedule.choose()
    return schedule


def test_a_job_is_measured_before_it_chooses():
    schedule = measured()
    assert schedule.chosen == PAIRS and schedule.number == 1 and not schedule.measures
    assert [schedule.step() for _ in range(20)] == [Due.NOTHING] * 20


def test_a_process_pauses_until_the_step_is_known_and_changes_there():
    schedule = measured()
    steps = schedule.steps
    assert schedule.plan(LocalSteps(), 3) == steps + 3
    assert [schedule.step() for _ in range(3)] == [Due.NOTHING, Due.NOTHING, Due.PAUSE]
    schedule.agree(steps + 5)
    assert schedule.due() is Due.NOTHING and schedule.owes_change
    assert [schedule.step() for _ in range(2)] == [Due.NOTHING, Due.CHANGE]
    schedule.change()
    assert schedule.step() is Due.NOTHING and not schedule.owes_change


def test_a_plan_that_is_called_off_changes_nothing():
    schedule = measured()
    schedule.plan(LocalSteps(), 1)
    assert schedule.step() is Due.PAUSE
    schedule.call_off()
    assert schedule.due() is Due.NOTHING and schedule.number == 2
    assert schedule.plan(LocalSteps(), 1) == schedule.steps + 1  # a new plan may follow


def test_a_process_that_nobody_answers_goes_on():
    schedule = measured()
    schedule.plan(LocalSteps(), 1)
    assert schedule.step() is Due.PAUSE
    schedule.forget_plan()
    assert schedule.due() is Due.NOTHING


def test_a_step_that_all_agreed_on_is_kept_when_the_store_is_gone():
    schedule = measured()
    schedule.plan(LocalSteps(), 1)
    schedule.agree(schedule.steps + 1)
    schedule.forget_plan()
    assert schedule.owes_change and schedule.step() is Due.CHANGE


def test_a_process_that_ends_before_the_choice_owes_it_to_the_others():
    schedule = Schedule()
    schedule.begin_measuring()
    schedule.step()
    schedule.end()
    assert schedule.is_over and schedule.owes_choice and not schedule.owes_change
