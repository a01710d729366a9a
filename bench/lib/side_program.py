"""One side of bench/peers.py in a process of its own, which is run by side_process.py.

usage: python -m lib.side_program SIDE WORK DATA THREADS pack | run | crops | loss
pack makes what the side reads. run: for each number on its standard input that many epochs, one
after another, answered by a line of JSON. crops and loss answer with one such line.
"""

import json
import math
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from lib.crop_check import SAMPLES, fit_crops, reference
from lib.sides import SIDES
from lib.sides.side import WORKS, Data, Epoch, Side, Work


class Numbers:
    """Sums over all that was given, for its mean and deviation."""

    def __init__(self) -> None:
        self.count, self.total, self.squares = 0, 0.0, 0.0

    def add(self, batch: np.ndarray) -> None:
        """A batch more."""
        self.count += batch.size
        self.total += float(batch.sum(dtype=np.float64))
        self.squares += float(np.square(batch, dtype=np.float64).sum())

    def result(self) -> dict[str, float]:
        """Both."""
        mean = self.total / self.count
        return {"mean": mean, "std": math.sqrt(self.squares / self.count - mean**2)}


def run_epochs(epoch: Epoch, work: Work, first: int, count: int) -> dict[str, Any]:
    """What `count` epochs took, for a consumer that only iterates; the very first is looked at."""
    images, numbers = 0, Numbers()
    epoch_seconds, to_first, pauses, first_batch_at = [], [], [], math.nan
    start = last = time.monotonic()
    for number in range(first, first + count):
        begin = time.monotonic()
        for i, batch in enumerate(epoch(number)):
            if i == 0:
                now = time.monotonic()
                to_first.append(now - begin)
                if number > first:
                    pauses.append(now - last)
                if math.isnan(first_batch_at):
                    first_batch_at = now
            assert batch.shape[1:] == (3, work.size, work.size), batch.shape
            assert batch.dtype == np.float32 and batch.flags.c_contiguous
            images += len(batch)
            if number == 0:
                numbers.add(batch)
            last = time.monotonic()
        epoch_seconds.append(time.monotonic() - begin)
    answer = {
        "images": images,
        "wall_seconds": last - start,
        "epoch_seconds": epoch_seconds[-1],
        "first_batch_at": first_batch_at,
        "first_of_epoch_seconds": statistics.median(to_first),
        "pause_seconds": max(pauses, default=math.nan),
    }
    return answer | (numbers.result() if first == 0 else {})


def crops(epoch: Epoch, work: Work) -> list[list[float]]:
    """What SAMPLES crops of crop_check.py's images are."""
    fits: list[list[float]] = []
    number = 0
    while len(fits) < SAMPLES:
        for batch in epoch(number):
            fits += fit_crops(batch, work).tolist()
        number += 1
    return fits


def loss(side: Side, data: Data) -> dict[str, float]:
    """Peak signal-to-noise ratio, dB, of stored to original pixels; none where all are equal."""
    errors = [
        float(np.square(stored.astype(np.float64) - original).mean())
        for original, stored in side.pixel_pairs(data)
    ]
    if not errors:
        return {"images": 0}
    worst, mean = max(errors), statistics.fmean(errors)
    said: dict[str, float] = {"images": len(errors)}
    if worst > 0:
        said |= {"psnr_db": 10 * math.log10(255**2 / mean)}
        said |= {"psnr_db_min": 10 * math.log10(255**2 / worst)}
    return said


def main() -> None:
    """Answers."""
    name, work_name, root, threads, what = sys.argv[1:]
    # What the side's library prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    side, work, data = SIDES[name](), WORKS[work_name], Data(Path(root))

    def answer(said: Any) -> None:
        print(json.dumps(said), file=answers, flush=True)

    if what == "pack":
        side.pack(data, work, int(threads))
    elif what == "loss":
        answer(loss(side, data))
    elif what == "reference":
        answer(reference(work))
    elif what == "crops":
        answer(crops(side.open(data, work, int(threads)), work))
    else:
        epoch, number = side.open(data, work, int(threads)), 0
        for line in sys.stdin:
            answer(run_epochs(epoch, work, number, int(line)))
            number += int(line)


if __name__ == "__main__":
    main()
