"""What strategy="auto" chooses and when, from made-up measurements."""

from dataclasses import replace
from unittest import mock

import pytest

from forebay.sync import Ako, AllReduce, LocalSteps, Strategy, auto
from forebay.sync.cost_model import Conditions, cheapest, estimates
from forebay.sync.guide import Guide
from forebay.sync.policy import ALONE, Policy, Seen
from forebay.sync.probe import Probe
from forebay.sync.window import Rates, Window

MODEL_BYTES = 17_000_000
FAST, THIN, THINNEST = 1e9, 1e6, 1e5
CALM = Seen(
    changes=0, steps=50, steps_per_s=3, bytes_per_s=FAST, lately=3, held_up=False, sums_per_s=0,
    lost=False,
)  # fmt: skip


def conditions(bytes_per_s: float, processes: int = 4, steps_per_s: float = 3) -> Conditions:
    return Conditions(processes, MODEL_BYTES, steps_per_s, bytes_per_s)


@pytest.mark.parametrize("processes", [2, 4, 64])
def test_fast_links_get_exact_means(processes: int):
    assert cheapest(conditions(1e12, processes)) == AllReduce()


@pytest.mark.parametrize("processes", [2, 4, 64])
def test_thin_links_get_what_does_not_wait(processes: int):
    assert cheapest(conditions(THIN, processes)) != AllReduce()


def test_all_reduce_takes_as_long_as_the_wire():
    found = {one.strategy.name: one for one in estimates(conditions(THIN))}
    # A ring sends 6/4 of the model, and overlaps with half of a step's computation of 1/3 s.
    assert found["allreduce"].step_s == pytest.approx(1 / 6 + 25.5)
    assert found["ako"].step_s == pytest.approx(1 / 3)


@pytest.mark.parametrize("rate", [THIN, 1e7, FAST])
@pytest.mark.parametrize("latency_s", [0, 0.3])
def test_exchanges_of_streaming_local_steps_fit_the_link(rate: float, latency_s: float):
    of_link = replace(conditions(rate, steps_per_s=20), latency_s=latency_s)
    found = {one.label: one.strategy for one in estimates(of_link)}
    local = found["local, streaming"]
    assert isinstance(local, LocalSteps)
    local.options(4)  # is valid
    fragment_s = latency_s + (of_link.sum_s - latency_s) / local.fragments
    assert 0 < fragment_s < (local.delay + 1) / 20


def test_local_steps_wait_for_exchanges_that_are_short():
    # A sum of 17 MB takes 0.24 s for 4 processes on the first links and 3.1 s for 64 on the second.
    short = cheapest(conditions(107e6, steps_per_s=5))
    long = cheapest(conditions(10.7e6, processes=64, steps_per_s=5))
    assert isinstance(short, LocalSteps) and isinstance(long, LocalSteps)
    assert short.delay == 0 and long.delay > 0


def test_ako_is_for_few_processes_or_very_thin_links():
    # What Ako sends grows with the number of processes, and what a ring sends does not.
    assert cheapest(conditions(10.7e6, processes=4, steps_per_s=5)) == Ako()
    assert cheapest(conditions(10.7e6, processes=64, steps_per_s=5)) != Ako()
    assert cheapest(conditions(THIN, processes=64, steps_per_s=5)) == Ako()


def test_a_choice_stays_where_another_is_hardly_better():
    # Neighbouring rates of the link that have different best strategies.
    rate, changes = 1e5, 0
    while rate < 1e12:
        before, after = cheapest(conditions(rate, 64)), cheapest(conditions(rate * 1.01, 64))
        if before != after:
            changes += 1
            assert cheapest(conditions(rate * 1.01, 64), present=before) == before
            assert cheapest(conditions(rate, 64), present=after) == after
        rate *= 1.01
    assert changes > 3


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def windows(policy: Policy, seen: Seen, count: int) -> list[Strategy | None]:
    """The decisions while two processes report the same figures, slightly other in each window."""
    found = []
    for number in range(count):
        one = replace(seen, lately=seen.lately * (1 + 0.001 * number))
        found.append(policy.next([one, one]))
    return found


def begun(clock: Clock, bytes_per_s: float, steps_per_s: float = 3) -> Policy:
    """A policy after the first choice of two processes with links of this rate."""
    policy = Policy(clock)
    measured = conditions(bytes_per_s, 2, steps_per_s)
    policy.chosen(measured, cheapest(measured))
    return policy


def under_all_reduce(clock: Clock) -> Policy:
    return begun(clock, 1e12)


def test_what_was_chosen_is_said(clock: Clock):
    assert under_all_reduce(clock).said.startswith(
        "forebay.sync: AllReduce() for 2 processes, a model of 17.0 MB, 3.00 steps/s"
    )


def test_nothing_changes_while_processes_are_far_apart(clock: Clock):
    policy = under_all_reduce(clock)
    clock.now += 100
    windows(policy, CALM, 2)
    slow = [replace(CALM, lately=1, held_up=True, steps=steps) for steps in (50, 80)]
    assert policy.next(slow) is None  # they are 10 s apart
    slow = [replace(one, lately=1.1, steps=80) for one in slow]
    assert policy.next(slow) == ALONE


def test_links_are_measured_again_when_the_job_slows_down(clock: Clock):
    policy = under_all_reduce(clock)
    clock.now += 100
    assert windows(policy, CALM, 5) == [None] * 5
    # One bad window is not enough.
    assert windows(policy, replace(CALM, lately=1.0), 1) == [None]
    assert windows(policy, CALM, 2) == [None] * 2
    assert windows(policy, replace(CALM, lately=1.0), 2) == [None, ALONE]


def test_one_window_is_enough_where_all_wait_for_each_other(clock: Clock):
    policy = under_all_reduce(clock)
    clock.now += 100
    assert windows(policy, CALM, 2) == [None] * 2
    assert policy.next([replace(CALM, lately=1.1, held_up=True), replace(CALM, lately=1)]) is None
    assert windows(policy, CALM, 2) == [None] * 2
    assert windows(policy, replace(CALM, lately=1, held_up=True), 1) == [ALONE]


THIN_LINKS = replace(CALM, bytes_per_s=THINNEST)


def under_ako(clock: Clock) -> Policy:
    policy = begun(clock, THINNEST)
    assert windows(policy, THIN_LINKS, 4) == [None] * 4
    clock.now += 100
    return policy


class Process:
    """A window over the made-up counters of a process."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._window = clock, Window(clock)
        self._stats = {"steps": 0.0, "waited_s": 0.0, "reduced_bytes": 0.0, "reducing_s": 0.0}
        self._window.rates(dict(self._stats))

    def goes_on(self, seconds: float, **grown: float) -> Rates:
        self._clock.now += seconds
        for name, value in grown.items():
            self._stats[name] += value
        return self._window.rates(dict(self._stats))


def test_a_window_has_enough_steps(clock: Clock):
    process = Process(clock)
    assert process.goes_on(5, steps=9) == Rates()
    assert process.goes_on(1, steps=3).steps_per_s == pytest.approx(2)
    assert process.goes_on(3.9, steps=100).steps_per_s == pytest.approx(2)


def test_a_window_ends_without_steps_where_the_process_waits_for_others(clock: Clock):
    process = Process(clock)
    process.goes_on(6, steps=18)
    found = process.goes_on(5, waited_s=4)
    assert found.held_up and found.steps_per_s == pytest.approx(0.2)


def test_a_script_that_pauses_is_one_window(clock: Clock):
    process = Process(clock)
    usual = process.goes_on(6, steps=18)
    assert process.goes_on(60) == usual
    assert process.goes_on(4, steps=12).steps_per_s == pytest.approx(12 / 64)
    assert process.goes_on(6, steps=18) == usual


def test_a_window_has_the_rate_of_sums(clock: Clock):
    found = Process(clock).goes_on(5, steps=10, reduced_bytes=1e6, reducing_s=0.5)
    assert found.sums_per_s == pytest.approx(2e6)


def test_a_measurement_that_was_called_off_is_tried_again(clock: Clock):
    policy = under_ako(clock)
    wider = replace(THIN_LINKS, bytes_per_s=3 * THINNEST)
    assert windows(policy, wider, 2) == [None, Ako()]
    policy.called_off()
    assert windows(policy, wider, 4) == [None] * 4  # not at once, and not with the former probe
    clock.now += 100
    assert windows(policy, wider, 1) == [Ako()]


def test_a_choice_is_looked_at_once_more_when_steps_are_faster_than_the_first_ones(clock: Clock):
    policy = begun(clock, THIN, steps_per_s=0.01)
    assert "AllReduce()" in policy.said
    assert windows(policy, CALM, 1) == [Ako()]
    policy.changed(Ako())
    assert windows(policy, CALM, 2) == [None] * 2


def test_links_are_probed_again_when_ako_finds_them_wider(clock: Clock):
    policy = under_ako(clock)
    assert windows(policy, replace(THIN_LINKS, bytes_per_s=10 * THINNEST), 1) == [Ako()]


def test_noise_of_sums_is_no_change_of_links(clock: Clock):
    policy = under_all_reduce(clock)
    clock.now += 100
    summing = replace(CALM, sums_per_s=1e9)
    assert windows(policy, summing, 3) == [None] * 3
    assert windows(policy, replace(summing, sums_per_s=1.7e9), 5) == [None] * 5
    assert windows(policy, replace(summing, sums_per_s=3e9), 2)[-1] == ALONE


def test_nothing_changes_soon_after_a_choice_or_without_all_processes(clock: Clock):
    policy = under_all_reduce(clock)
    windows(policy, CALM, 2)
    assert windows(policy, replace(CALM, lately=1.0), 5) == [None] * 5
    clock.now += 100
    assert windows(policy, replace(CALM, lately=0.9, lost=True), 5) == [None] * 5


def test_a_change_that_was_called_off_is_not_tried_at_once(clock: Clock):
    policy = under_all_reduce(clock)
    clock.now += 100
    windows(policy, CALM, 2)
    slow = replace(CALM, lately=1, held_up=True)
    assert windows(policy, slow, 1) == [ALONE]
    policy.called_off()
    assert windows(policy, slow, 5) == [None] * 5
    clock.now += 100
    assert windows(policy, slow, 1) == [ALONE]


class Measured:
    """One of the two processes of a job; the other process's answers are made up."""

    def __init__(self, least: float | Exception) -> None:
        self.least = mock.Mock(side_effect=[least])
        self.change = mock.Mock()
        store = mock.Mock(check=lambda keys: False)
        stats = {"steps": 0, "waited_s": 0, "reduced_bytes": 0, "reducing_s": 0,
                 "steps_per_s": 0.0, "links": []}  # fmt: skip
        self.auto = auto.Auto(
            store, 0, 2, MODEL_BYTES, lambda: stats, self.change, lambda _: Probe(THIN, 0),
            self.least, Guide(),
        )  # fmt: skip

    def goes_on(self, steps: int) -> None:
        for _ in range(steps):
            self.auto.before_step()
            self.auto.after_step()


def test_all_choose_by_the_slowest_process(capsys: pytest.CaptureFixture[str]):
    one = Measured(least=0.01)
    one.goes_on(6)
    one.least.assert_not_called()
    one.goes_on(20)
    one.auto.close(1)
    one.least.assert_called_once()
    assert one.least.call_args.args[0] > 1  # this process is faster
    one.change.assert_called_once_with(AllReduce(), mock.ANY)
    assert "0.01 steps/s" in capsys.readouterr().err


def test_a_choice_that_failed_is_not_made_again():
    one = Measured(least=TimeoutError("late"))
    with pytest.raises(TimeoutError, match="late"):
        one.goes_on(7)
    one.goes_on(20)
    one.auto.close(1)
    one.least.assert_called_once()
    one.change.assert_not_called()


def test_a_process_that_ends_before_the_choice_says_so_to_the_others():
    one = Measured(least=0)
    one.goes_on(3)
    one.auto.close(1)
    assert one.least.call_args.args[0] == 0
    one.change.assert_not_called()


def test_nothing_is_chosen_when_another_process_has_ended(capsys: pytest.CaptureFixture[str]):
    one = Measured(least=0)
    one.goes_on(20)
    one.auto.close(1)
    one.change.assert_not_called()
    assert "rank 0 goes on without exchanging anything" in capsys.readouterr().err
