"""When a job of bench/sync.py has reached an accuracy, from the snapshots of its model."""

import statistics

Point = tuple[float, int, float]  # seconds of training, steps of rank 0, accuracy
# A single snapshot is some percentage points off, so the first high accuracy is a matter of luck.
MEAN_OF = 3


def mean_of_last(points: list[Point]) -> tuple[float, float]:
    """The mean time and accuracy of the last snapshots."""
    last = points[-MEAN_OF:]
    return statistics.mean(p[0] for p in last), statistics.mean(p[2] for p in last)


def best_mean(points: list[Point]) -> float:
    """The highest mean accuracy of MEAN_OF snapshots in a row, or of all if fewer; 0 for none."""
    ends = range(min(MEAN_OF, len(points)), 1 + len(points)) if points else ()
    return max((mean_of_last(points[:end])[1] for end in ends), default=0.0)


def reach(points: list[Point], target: float) -> float | None:
    """When the mean of the last snapshots reached `target`, interpolated from the mean before."""
    if len(points) < MEAN_OF:
        return None
    before_s, before = mean_of_last(points[:-1])
    seconds, accuracy = mean_of_last(points)
    if accuracy < target:
        return None
    part = (target - before) / (accuracy - before) if before < target else 1.0
    return before_s + part * (seconds - before_s)
