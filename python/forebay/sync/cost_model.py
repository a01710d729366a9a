"""Which strategy suits a job's links: what `attach(strategy="auto")` computes from measurements.

The model estimates for each strategy how long a step takes, and how many steps bring as much as one
step of all-reduce, which uses exact means of all gradients. The product of both is compared. The
time of a step follows from sizes and rates. The number of steps grows with the age of what arrives;
its constants were fitted to jobs of `./dev bench sync` (docs/decisions/0016-sync.md).
"""

import math
from dataclasses import dataclass

from forebay.sync.strategies import Ako, AllReduce, LocalSteps, Strategy

# The part of a step's time in which gradients are sent while others are still computed.
_OVERLAP = 0.5
# The largest part of the time in which exchanges of streaming local steps may use the link.
_LINK_SHARE = 0.8
_FRAGMENTS = 4
_LOCAL_STEPS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
# A strategy needs 1 + MORE * delay**GROWTH steps for one step of all-reduce. The delay, in steps,
# is that of float32 numbers, even if Ako sends fewer bytes. Ako's steps take a little longer than
# local steps; its constants contain that, too.
_AKO_MORE, _AKO_GROWTH = 0.45, 0.15
_STREAMING_MORE, _LOCAL_MORE, _LOCAL_GROWTH = 0.19, 0.11, 0.5
# Another strategy is taken only if it needs less than this part of the present one's time.
_WORTH = 0.95


@dataclass(frozen=True)
class Conditions:
    """What the choice depends on.

    Attributes:
        processes: The number of processes.
        model_bytes: The size of all learned numbers.
        steps_per_s: Steps per second of the slowest process, without the time spent waiting.
        bytes_per_s: What a process can send to all others together; the least of all processes.
        latency_s: How long the sum of a few numbers over all processes takes.
    """

    processes: int
    model_bytes: int
    steps_per_s: float
    bytes_per_s: float
    latency_s: float = 0

    @property
    def sum_s(self) -> float:
        """How long a ring takes for the sum of the whole model over all processes."""
        sent = ring_share(self.processes) * self.model_bytes
        return self.latency_s + sent / self.bytes_per_s


@dataclass(frozen=True)
class Estimate:
    """The expected cost of a strategy.

    Attributes:
        strategy: The strategy, with its options.
        step_s: The time of a step.
        more: How many steps bring as much as one step of all-reduce.
    """

    strategy: Strategy
    step_s: float
    more: float

    @property
    def seconds(self) -> float:
        """The time in which the model learns as much as in one step of all-reduce."""
        return self.step_s * self.more

    @property
    def label(self) -> str:
        """The strategy in a word or two."""
        streams = isinstance(self.strategy, LocalSteps) and self.strategy.delay > 0
        return f"{self.strategy.name}, streaming" if streams else self.strategy.name


def ring_share(processes: int) -> float:
    """How many bytes each process sends for each byte of numbers that a ring sums."""
    return 2 * (processes - 1) / processes


def estimates(conditions: Conditions, present: Strategy | None = None) -> list[Estimate]:
    """The expected costs of all strategies, the best strategy first."""
    found = [
        _all_reduce(conditions),
        _ako(conditions),
        _local_steps(conditions, present),
        _streaming(conditions, present),
    ]
    return sorted(found, key=lambda estimate: estimate.seconds)


def cheapest(conditions: Conditions, present: Strategy | None = None) -> Strategy:
    """The best strategy, or the present strategy if it is nearly as good."""
    found = estimates(conditions, present)
    for estimate in found:
        if estimate.strategy == present and estimate.seconds * _WORTH <= found[0].seconds:
            return estimate.strategy
    return found[0].strategy


def _all_reduce(conditions: Conditions) -> Estimate:
    compute_s = 1 / conditions.steps_per_s
    return Estimate(
        AllReduce(), max(compute_s, compute_s * (1 - _OVERLAP) + conditions.sum_s), more=1
    )


def _ako(conditions: Conditions) -> Estimate:
    sent_s = (conditions.processes - 1) * conditions.model_bytes / conditions.bytes_per_s
    strategy = Ako()
    late = max(strategy.parts, sent_s * conditions.steps_per_s)
    return Estimate(strategy, 1 / conditions.steps_per_s, more=1 + _AKO_MORE * late**_AKO_GROWTH)


def _local_steps(conditions: Conditions, present: Strategy | None) -> Estimate:
    """Local steps that wait for each exchange, so that nothing arrives late."""

    def estimate(steps: int) -> Estimate:
        step_s = 1 / conditions.steps_per_s + conditions.sum_s / steps
        return Estimate(
            LocalSteps(steps=steps), step_s, more=1 + _LOCAL_MORE * steps**_LOCAL_GROWTH
        )

    found = [estimate(steps) for steps in _LOCAL_STEPS]
    best = min(found, key=lambda one: one.seconds)
    # The present number of steps stays if it is nearly as good, so that noise does not change it.
    for one in found:
        if one.strategy == present and one.seconds * _WORTH <= best.seconds:
            return one
    return best


def _streaming(conditions: Conditions, present: Strategy | None) -> Estimate:
    """Local steps whose exchanges take place during the next steps."""
    # Each fragment needs a separate sum.
    sums_s = conditions.sum_s + (_FRAGMENTS - 1) * conditions.latency_s
    exact = sums_s * conditions.steps_per_s / _LINK_SHARE
    best = max(_LOCAL_STEPS[0], _FRAGMENTS * math.ceil(exact / _FRAGMENTS))

    def estimate(steps: int) -> Estimate:
        strategy = LocalSteps(steps=steps, fragments=_FRAGMENTS, delay=steps // _FRAGMENTS - 1)
        step_s = max(1 / conditions.steps_per_s, sums_s / steps)
        return Estimate(strategy, step_s, more=1 + _STREAMING_MORE * steps**_LOCAL_GROWTH)

    # The present number of steps stays if it is nearly as good, so that noise does not change it.
    if isinstance(present, LocalSteps) and present.fragments == _FRAGMENTS:
        found = estimate(present.steps)
        if found.seconds * _WORTH <= estimate(best).seconds:
            return found
    return estimate(best)
