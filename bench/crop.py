"""Random resized crops of photographs: Forebay against OpenCV, Pillow, TurboLoader and DALI.

Each side makes crops of 224 x 224 from bytes in memory, flips every second one, and normalises them
to float32 NCHW, in one process on one core. Forebay takes its packed files; the peers
(bench/peers.txt, installed into build/peers) take the originals, each by hand in its own fastest
way (lib/crop_sides.py). The sides take turns over groups of 32 photographs. Counted is the CPU time
of the whole process, the best of the rounds for each photograph (for DALI, for each group, which is
its batch); there are more rounds while a neighbour uses the core too. The figures are a peer's time
over ours. "others" is the least of them, and missing where a peer is missing. For "_avx2" all of
our code is kept to AVX2. The results are compared; those of resizers that are not antialiased
differ.
usage: ./dev bench crop PHOTOS [ROUNDS]
"""

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lib.comparison import Comparison, DisagreementError, report, show_table
from lib.crop_sides import GROUP, PEERS, Forebay, Photo, Side, load_forebay, pack
from lib.peers_environment import run_among_peers
from lib.program import ROOT

LIBRARY = ROOT / "build/release/bench/libbench_crop_c.so"
# For each round that is asked for, at most this many are run to find an undisturbed one
# (lib/clock.h).
PATIENCE = 6
OURS: dict[str, Callable[[], Side]] = {
    "forebay": lambda: Forebay(LIBRARY, avx2=False),
    "forebay_avx2": lambda: Forebay(LIBRARY, avx2=True),
}


def compare(
    comparison: Comparison, photos: list[Photo], rounds: int, is_quiet: Callable[[], bool]
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Each side's CPU microseconds a photograph, and how far its results are from Forebay's.

    The differences are [photographs]: the mean absolute difference of each photograph.
    """
    sides: dict[str, Side] = comparison.sides  # type: ignore[assignment]

    def is_enough() -> bool:
        return min(np.median(side.undisturbed) for side in sides.values()) >= rounds

    times = dict.fromkeys(sides, 0.0)
    differences: dict[str, list[float]] = {name: [] for name in sides}
    for first in range(0, len(photos), GROUP):
        group = photos[first : first + GROUP]
        for side in sides.values():
            side.begin(group, is_quiet)
        comparison.rounds(rounds * PATIENCE, is_enough)
        expected = sides["forebay"].result()[: len(group)]
        for name, side in sides.items():
            times[name] += side.best.sum() / len(photos) * 1e6
            difference = abs(side.result()[: len(group)] - expected)
            differences[name] += difference.mean(axis=(1, 2, 3)).tolist()
    return (
        {name: times[name] for name in sides},
        {name: np.array(differences[name]) for name in sides},
    )


def figures(
    comparison: Comparison, times: dict[str, float], differences: dict[str, np.ndarray]
) -> dict[str, object]:
    """The ratios that the benchmark is for, and the differences."""
    result: dict[str, object] = {}
    peers = [name for name in comparison.names if name not in OURS]
    for suffix, side in (("", "forebay"), ("_avx2", "forebay_avx2")):
        ratios = {name: times[name] / times[side] for name in peers}
        result |= {f"crop_{name}_x{suffix}": ratio for name, ratio in ratios.items()}
        if not comparison.missing:
            result[f"crop_others_x{suffix}"] = min(ratios.values())
    result |= {f"difference_{name}": differences[name].mean() for name in peers}
    return result | {
        "difference_max": Side.differences_max[0],
        "missing": list(comparison.missing),
    }


def main() -> None:
    """Prints a table and, last, one JSON object."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    os.environ["OMP_NUM_THREADS"] = "1"
    run_among_peers()

    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    gc.disable()
    rounds = max(1, int(sys.argv[2])) if len(sys.argv) == 3 else 5
    paths = sorted(path for path in Path(sys.argv[1]).rglob("*") if path.is_file())
    photos = [pack(LIBRARY, path, i) for i, path in enumerate(paths)]
    kinds = {**OURS, **PEERS}
    comparison = Comparison("crop", kinds, needed=OURS, to=sys.stderr)
    comparison.open(lambda name: kinds[name]())
    is_quiet = load_forebay(LIBRARY).bench_crop_is_quiet
    times, differences = compare(comparison, photos, rounds, is_quiet)

    show_table(
        "",
        {"us": "8.1f", "ratio": "8.2f", "avx2": "8.2f", "difference": "12.4f", "largest": "10.4f"},
        {
            name: (
                times[name],
                *(times[name] / times[side] for side in OURS),
                off.mean(),
                off.max(),
            )
            for name, off in differences.items()
        },
        width=14,
    )
    for name, off in differences.items():
        try:
            comparison.sides[name].check(off.mean(), off.max())
        except DisagreementError as error:
            sys.exit(f"bench crop: {name}: {error}")
    os.sched_setaffinity(0, cores)  # the report counts the cores
    report(figures(comparison, times, differences))


if __name__ == "__main__":
    main()
