"""What a probe finds for links whose sums take a known time."""

import threading

import pytest
import torch

from forebay.sync import probe

MANY = 1 << 28


class Links:
    """Made-up times of sums: a latency, and the time of the bytes beyond a burst at a rate."""

    def __init__(
        self,
        bytes_per_s: float,
        latency_s: float = 0,
        burst: int = 0,
    ) -> None:
        self.now, self.largest = 100.0, 0
        self._rate, self._latency, self._burst = bytes_per_s, latency_s, burst

    def clock(self) -> float:
        return self.now

    def add(self, numbers: torch.Tensor) -> None:
        self.largest = max(self.largest, numbers.nbytes)
        self.now += self._latency + max(0, numbers.nbytes - self._burst) / self._rate

    def least(self, number: float) -> float:
        self.now += self._latency
        return number

    def take(self, bytes_max: int = MANY) -> probe.Probe:
        return probe.take_probe(2, bytes_max, self.add, self.least, self.clock)


@pytest.mark.parametrize("rate", [1e5, 1e6, 1e7, 1e8, 1e9])
@pytest.mark.parametrize("latency_s", [0, 0.001, 0.05, 0.3])
def test_rate_and_latency_are_found_soon(rate: float, latency_s: float):
    links = Links(rate, latency_s)
    found = links.take()
    sum_s = found.latency_s + 1e8 / found.bytes_per_s  # each of two processes sends every byte once
    # The probe stops before sums take long. So on thin links it may measure little but latency.
    assert sum_s == pytest.approx(latency_s + 1e8 / rate, rel=0.5 if rate < 1e6 else 0.05)
    assert links.now - 100 < 5


def test_what_passes_at_once_hides_little():
    found = Links(1.25e6, burst=1 << 17).take()
    assert 0.5 < found.bytes_per_s / 1.25e6 < 2


def test_no_more_is_summed_than_the_model_has():
    links = Links(1e9)
    assert links.take(3 << 18).bytes_per_s == pytest.approx(1e9, rel=0.01)
    assert links.largest == 1 << 19
    assert links.take(1000).bytes_per_s == pytest.approx(1e9, rel=0.01)


def test_a_rate_that_is_less_than_noise_is_no_error():
    assert Links(1e30).take().bytes_per_s > 1e9
    found = Links(1e30, latency_s=0.1).take()
    assert found.bytes_per_s > 1e8
    assert found.latency_s == pytest.approx(0.1, rel=0.1)


def test_a_first_sum_that_was_held_up_is_no_latency():
    links = Links(1.25e8)
    sums = 0

    def add(numbers: torch.Tensor) -> None:
        nonlocal sums
        sums += 1
        links.now += 0.02 if sums == 2 else 0
        links.add(numbers)

    found = probe.take_probe(2, 1 << 20, add, links.least, links.clock)
    sum_s = found.latency_s + (1 << 20) / found.bytes_per_s
    assert sum_s < 2 * (1 << 20) / 1.25e8


def test_all_processes_sum_the_same_and_find_the_same():
    """Two threads with different clocks, one of which comes late to each sum."""
    barrier = threading.Barrier(2)
    clocks = {"early": 0.0, "late": 1e6}
    sizes: dict[str, list[int]] = {"early": [], "late": []}
    said: dict[str, float] = {}
    found = {}

    def clock() -> float:
        return clocks[threading.current_thread().name]

    def add(numbers: torch.Tensor) -> None:
        name = threading.current_thread().name
        sizes[name].append(numbers.nbytes)
        barrier.wait(10)
        clocks[name] += numbers.nbytes / 1e7 + (0.4 if name == "early" else 0)

    def least(number: float) -> float:
        said[threading.current_thread().name] = number
        barrier.wait(10)
        found = min(said.values())
        barrier.wait(10)
        return found

    def take() -> None:
        found[threading.current_thread().name] = probe.take_probe(2, MANY, add, least, clock)

    threads = [threading.Thread(target=take, name=name) for name in clocks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sizes["early"] == sizes["late"]
    assert found["early"] == found["late"]
    assert found["late"].bytes_per_s == pytest.approx(1e7, rel=0.01)
