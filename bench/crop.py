"""Random resized crops of photographs: Forebay against OpenCV, Pillow, TurboLoader and DALI.

From bytes in memory to 224 x 224, flipped every second time, normalised, float32 NCHW, in a process
on one core: Forebay from its packed files, the peers (bench/peers.txt, installed into build/peers)
from the originals, each by hand in its own fastest way (lib/crop_sides.py). Groups of 32
photographs in turn, CPU time of the whole process, the best of the rounds for each photograph
(DALI: for each group, which is its batch), more rounds while a neighbour uses the core too.
Figures: a peer's time / ours; "others" is the least of them, and missing where a peer is; with
"_avx2", all of our code kept to AVX2. The results are compared; those of resizers that are not
antialiased differ.
usage: ./dev bench crop PHOTOS [ROUNDS]
"""

import gc
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lib.crop_sides import GROUP, PEERS, Forebay, Photo, Side, load_forebay, pack
from lib.machine import machine
from lib.peers_environment import ENVIRONMENT, PYTHON, install_peers

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "build/release/bench/libbench_crop_c.so"
# Bounds of the mean absolute difference from our result, over all photographs and for any one. A
# grey level is 0.017; a crop one pixel off differs by 0.12, one flipped by mistake by 0.9.
DIFFERENCE_MAX = 0.06
DIFFERENCE_MAX_ONE = 0.35
# Rounds at most, for each that is asked for, to find undisturbed ones (lib/clock.h).
PATIENCE = 6


def open_peers() -> tuple[dict[str, Side], list[str]]:
    """The peers that are there, and the names of those that are missing."""
    peers, missing = {}, []
    for name, make in PEERS.items():
        try:
            peers[name] = make()
        except (ImportError, OSError, RuntimeError) as error:
            print(f"NOT COMPARED: {name}: {error}", file=sys.stderr, flush=True)
            missing.append(name)
    return peers, missing


class Times:
    """A side's CPU seconds for each part of a group, as it yields them; the best of the rounds."""

    def __init__(self) -> None:
        self.best: Any = math.inf
        self.undisturbed: Any = 0  # rounds

    def add_round(self, parts: Iterator[None], is_quiet: Callable[[], bool]) -> None:
        """Another round."""
        seconds, quiet = [], [is_quiet()]
        start = time.process_time()
        for _ in parts:
            seconds.append(time.process_time() - start)
            quiet.append(is_quiet())
            start = time.process_time()
        self.best = np.minimum(self.best, seconds)
        self.undisturbed += np.logical_and(quiet[:-1], quiet[1:])


def best_times(
    sides: dict[str, Side], photos: list[Photo], rounds: int, is_quiet: Callable[[], bool]
) -> dict[str, float]:
    """CPU seconds that each side takes for a group, in turn, until most parts were undisturbed."""
    times = {name: Times() for name in sides}
    for _ in range(rounds * PATIENCE):
        for name, side in sides.items():
            side.prepare()
            times[name].add_round(side.run(photos), is_quiet)
        if min(np.median(side.undisturbed) for side in times.values()) >= rounds:
            break
    return {name: side.best.sum() for name, side in times.items()}


def compare(
    sides: dict[str, Side], photos: list[Photo], rounds: int, is_quiet: Callable[[], bool]
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Each side's CPU microseconds a photograph, and how far its results are from Forebay's."""
    times = dict.fromkeys(sides, 0.0)
    differences: dict[str, list[float]] = {name: [] for name in sides}
    for first in range(0, len(photos), GROUP):
        group = photos[first : first + GROUP]
        for name, seconds in best_times(sides, group, rounds, is_quiet).items():
            times[name] += seconds / len(photos) * 1e6
        expected = sides["forebay"].result()[: len(group)]
        for name, side in sides.items():
            difference = abs(side.result()[: len(group)] - expected)
            differences[name] += difference.mean(axis=(1, 2, 3)).tolist()
    return times, {name: np.array(values) for name, values in differences.items()}


def main() -> None:
    """Prints a table and, last, one JSON object."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    if Path(sys.prefix) != ENVIRONMENT:
        install_peers()
        os.environ["OMP_NUM_THREADS"] = "1"
        os.execv(PYTHON, [str(PYTHON), *sys.argv])

    result: dict[str, object] = {"machine": machine()}
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    gc.disable()
    rounds = max(1, int(sys.argv[2])) if len(sys.argv) == 3 else 5
    paths = sorted(path for path in Path(sys.argv[1]).rglob("*") if path.is_file())
    photos = [pack(LIBRARY, path, i) for i, path in enumerate(paths)]
    peers, missing = open_peers()
    ours = {"forebay": Forebay(LIBRARY, avx2=False), "forebay_avx2": Forebay(LIBRARY, avx2=True)}
    is_quiet = load_forebay(LIBRARY).bench_crop_is_quiet
    times, differences = compare({**ours, **peers}, photos, rounds, is_quiet)

    print(f"{'':14}{'us':>8}{'ratio':>8}{'avx2':>8}{'difference':>12}{'largest':>10}")
    for name, off in differences.items():
        ratio, ratio_avx2 = (times[name] / times[side] for side in ours)
        print(f"{name:14}{times[name]:8.1f}{ratio:8.2f}{ratio_avx2:8.2f}"
              f"{off.mean():12.4f}{off.max():10.4f}")  # fmt: skip
        bounds = (0, 0) if name in ours else (DIFFERENCE_MAX, DIFFERENCE_MAX_ONE)
        if not (off.mean() <= bounds[0] and off.max() <= bounds[1]):
            sys.exit(f"bench crop: the results of {name} differ by more than {bounds}")
    for suffix, side in (("", "forebay"), ("_avx2", "forebay_avx2")):
        ratios = {name: times[name] / times[side] for name in peers}
        result |= {f"crop_{name}_x{suffix}": ratio for name, ratio in ratios.items()}
        if not missing:
            result[f"crop_others_x{suffix}"] = min(ratios.values())
    result |= {f"difference_{name}": differences[name].mean() for name in peers}
    result |= {"difference_max": DIFFERENCE_MAX, "missing": missing}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
