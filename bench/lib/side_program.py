"""Runs one side of bench/peers.py in a process of its own, which side_process.py starts.

usage: python -m lib.side_program SIDE WORK DATA THREADS pack | run | crops | loss | reference
pack makes what the side reads. run takes turns: for each number on its standard input it runs that
many epochs, one after another, and answers with a line of JSON. The others answer with one such
line.
"""

import json
import math
import os
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

from lib.crop_check import SAMPLES, fit_crops, reference
from lib.sides import SIDES
from lib.sides.side import WORKS, Data, Epoch, LoaderSide, Work


def crops(epoch: Epoch, work: Work) -> list[list[float]]:
    """What at least SAMPLES crops of crop_check.py's images show (fit_crops)."""
    fits: list[list[float]] = []
    number = 0
    while len(fits) < SAMPLES:
        for batch in epoch(number):
            fits += fit_crops(batch, work).tolist()
        number += 1
    return fits


def loss(side: LoaderSide, data: Data) -> dict[str, float]:
    """The peak signal-to-noise ratio of stored pixels, in dB; none where all are the originals."""
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
    """Runs the command."""
    name, work_name, root, threads, what = sys.argv[1:]
    # Standard output is for the answers alone; what the side's library prints goes elsewhere.
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
        side.start(data, work, int(threads))
        for line in sys.stdin:
            side.epochs = int(line)
            answer(side.turn())


if __name__ == "__main__":
    main()
