"""What a probe finds of links whose sums take a known time."""

import pytest
import torch

from forebay.sync import probe

MANY = 1 << 28


class Links:
    """Sums whose time is made up: `latency_s`, and then a rate once a burst is used up."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        bytes_per_s: float,
        latency_s: float = 0,
        burst: int = 0,
    ) -> None:
        self.now, self.summed, self.largest = 100.0, 0.0, 0
        self._rate, self._latency, self._burst = bytes_per_s, latency_s, burst
        monkeypatch.setattr(probe, "time", self)

    def perf_counter(self) -> float:
        return self.now

    def add(self, numbers: torch.Tensor) -> None:
        self.largest = max(self.largest, numbers.nbytes)
        self.now += self._latency + max(0, numbers.nbytes - self._burst) / self._rate

    def take(self, bytes_max: int = MANY) -> probe.Probe:
        return probe.take_probe(2, bytes_max, self.add, lambda numbers: None)


@pytest.mark.parametrize("rate", [1e6, 1e7, 1e8, 1e9, 1e10])
@pytest.mark.parametrize("latency_s", [0, 0.001, 0.05])
def test_rate_and_latency_are_found_soon(
    monkeypatch: pytest.MonkeyPatch, rate: float, latency_s: float
):
    links = Links(monkeypatch, rate, latency_s)
    found = links.take()
    assert found.bytes_per_s == pytest.approx(rate, rel=0.01)  # two processes send all of it once
    assert found.latency_s == pytest.approx(latency_s, abs=0.001)
    assert links.now - 100 < 5


def test_the_first_sum_is_enough_where_it_takes_long(monkeypatch: pytest.MonkeyPatch):
    links = Links(monkeypatch, 1e5)
    assert links.take().bytes_per_s == pytest.approx(1e5, rel=0.01)
    assert links.largest == 1 << 16


def test_what_passes_at_once_hides_little(monkeypatch: pytest.MonkeyPatch):
    found = Links(monkeypatch, 1.25e6, burst=1 << 17).take()
    assert 0.5 < found.bytes_per_s / 1.25e6 < 2


def test_no_more_is_summed_than_the_model_has(monkeypatch: pytest.MonkeyPatch):
    links = Links(monkeypatch, 1e9)
    assert links.take(3 << 18).bytes_per_s == pytest.approx(1e9, rel=0.01)
    assert links.largest <= 3 << 18


def test_sums_that_take_no_time_are_no_error(monkeypatch: pytest.MonkeyPatch):
    links = Links(monkeypatch, 1e30)
    assert links.take(1000).bytes_per_s > 1e9
    assert links.take().bytes_per_s > 1e9
