"""The measurements of one round of bench/prep.py at a point, and the figures made from them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

BATCH = 256
BATCH_BYTES = BATCH * 3 * 224 * 224
HOST_WATTS, NEAR_WATTS = 10, 1  # of a busy core, in the model


class Point(NamedTuple):
    """One round's measurements: seconds of the fastest epoch, and sums over all but the first."""

    a: float  # the host's seconds for a batch
    b: float  # the prep server's
    alone: float
    ours: float
    mte: float
    wrr: float
    alone_cpu: float  # CPU seconds of all epochs but the first, like the next two
    ours_cpu: float
    near_cpu: float
    batches: int  # of an epoch
    measured: int  # batches of all epochs but the first
    share: float  # the prep server's, of these batches
    late: float
    stored_bytes: float  # of a batch


def figures_of(point: Point, quota: float, pace: str, is_file: bool) -> dict[str, float | None]:
    """A round's figures."""
    a, b, batches = point.a, point.b, point.batches
    bound = batches / (1 / a + 1 / b)
    received = 0 if pace == "net" else point.share * point.measured  # training takes CPU time too
    made_cpu = (1 - point.share) * point.alone_cpu
    receive = (point.ours_cpu - made_cpu) / received if received else None
    form = 0.0
    if pace != "net":
        g = float(pace) * a
        bound = max(bound, batches * g)
        form = batches * (g if g >= a else max(g, a * b / (a + b - g)))
    made_bytes = 2 * point.stored_bytes + BATCH_BYTES
    return {
        "of_bound": None if pace == "net" else point.ours / bound,
        "gain": point.alone / point.ours - 1,
        "of_bound_mte": None if pace == "net" else point.mte / bound,
        "of_bound_wrr": None if pace == "net" else point.wrr / bound,
        "gain_mte": point.alone / point.mte - 1,
        "gain_wrr": point.alone / point.wrr - 1,
        "mte_of_form": None if pace == "net" else point.mte / form,
        "vs_best_policy": min(point.mte, point.wrr) / point.ours,
        "share": point.share,
        "cpu_saving": 1 - point.ours_cpu / point.alone_cpu,
        "energy_saving": 1
        - (point.ours_cpu * HOST_WATTS + point.near_cpu / quota * NEAR_WATTS)
        / (point.alone_cpu * HOST_WATTS),
        "memory_saving": point.share * (1 - 2 * BATCH_BYTES / made_bytes) if is_file else None,
        "receive": receive,
    }


class Points:
    """Measures points, each only once.

    Args:
        path: A file of JSON lines with earlier points, which is extended; None: none is kept.
        data: The dataset's fingerprint; points of other datasets are not used.
        measure: Measures a point.
    """

    def __init__(
        self, path: Path | None, data: str, measure: Callable[[float, str, int], Point]
    ) -> None:
        self._path, self._data, self._measure = path, data, measure
        self._points: dict[tuple[float, str, int], Point] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                of, quota, pace, number, point = json.loads(line)
                if of == data:
                    self._points[quota, pace, number] = Point(**point)

    def of(self, quota: float, pace: str, number: int) -> Point:
        """The point with this part of a core, this pace of the consumer and this round."""
        key = (quota, pace, number)
        if key not in self._points:
            self._points[key] = self._measure(*key)
            if self._path is not None:
                self._path.parent.mkdir(exist_ok=True)
                point = {
                    name: round(value, 4) for name, value in self._points[key]._asdict().items()
                }
                with self._path.open("a") as out:
                    out.write(json.dumps([self._data, *key, point]) + "\n")
        return self._points[key]
