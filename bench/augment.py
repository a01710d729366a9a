"""Augmentations of photographs: Forebay against torchvision v2, Albumentations, DALI and Kornia.

Each side makes batches of normalised float32 images [32, 3, 224, 224] from JPEG files in memory, by
the same recipe (lib/augment/side.py lists them), in one process, with one thread on one core.
Forebay takes its packed files ("forebay_files": the originals); the peers (bench/peers.txt,
installed into build/peers) take the originals, each in its own fastest documented way
(lib/augment). The sides take turns over groups of 32 photographs. What they draw is random, so that
all their turns count, not the best ones: the CPU time of the whole process, after a turn of each
that makes it ready. The figures:
vs_SIDE_RECIPE_x: the side's time over Forebay's; "torchvision" is the faster of tensors and Pillow
cost_over_plain_RECIPE: Forebay's time over its time for the recipe "plain"
tables: for each recipe and side the microseconds of an image, images per CPU second, the ratio to
  Forebay and its standard error in percent, the cost over plain, the share of turns that nobody
  disturbed in percent, and the largest difference from Forebay of what is compared (numbers_of() in
  lib/augment/side.py), with its standard error
The program ends with an error where Forebay's images are not distributed like torchvision's. The
other libraries define some steps in other ways (lib/augment says how), so that theirs may differ.
usage: ./dev bench augment PHOTOS [ROUNDS]
"""

import gc
import os
import random
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from lib.augment import FOREBAY, KINDS, TORCHVISION
from lib.augment.side import GROUP, RECIPES, SEED, Side
from lib.comparison import Comparison, DisagreementError, report, show_table
from lib.crop_sides import load_forebay, pack
from lib.peers_environment import run_among_peers
from lib.photo import Photo
from lib.program import ROOT

# Packs the photographs, and tells whether a neighbour uses the core.
LIBRARY = ROOT / "build/release/bench/libbench_crop_c.so"
ROUNDS = 4
# How many standard errors a mean of Forebay's may be from torchvision's. Draws differ, so that some
# difference is chance: one so large comes by chance in one of 16,000 comparisons. With the usual
# rounds and 500 photographs this finds that blur or erasing is left out, and RandAugment of
# magnitude 12 instead of 9, but not always a jitter of 0.6 instead of 0.8, nor interpolation in a
# policy; tests/python/test_augmentations.py compares pixels.
ERRORS_MAX = 4.0
# torchvision's side is timm's there, whose warps and blurs of Pillow's images are other ones.
OTHER_PIXELS = ("deit",)
# Added to that: by how much the two may differ beyond chance. A level of 255 is 0.017.
DIFFERENCE_MAX = 0.002


class Measured(NamedTuple):
    """What a side did with a recipe.

    Attributes:
        seconds: CPU seconds of each turn, [turns].
        quiet: The share of turns that nobody disturbed.
        numbers: Of each photograph, the means over the rounds of what lib/augment/side.py's
            numbers_of() gives: [photographs, numbers].
    """

    seconds: np.ndarray
    quiet: float
    numbers: np.ndarray


def measure(
    recipe: str, photos: list[Photo], rounds: int
) -> tuple[dict[str, Measured], dict[str, str]]:
    """What each side that has the recipe did, and why others could not."""
    names = [name for name, kind in KINDS.items() if recipe not in kind.without]
    comparison = Comparison("augment", names, needed=[FOREBAY], to=sys.stderr)
    comparison.open(lambda name: KINDS[name].make(recipe))
    gc.freeze()  # what the libraries hold need not be collected
    is_quiet = load_forebay(LIBRARY).bench_crop_is_quiet
    groups = range(0, len(photos), GROUP)

    def turns(first: int, round_number: int) -> None:
        for side in sides.values():
            side.begin(photos[first : first + GROUP], first, round_number, is_quiet)
        comparison.rounds(1)
        gc.collect()

    sides: dict[str, Side] = comparison.sides  # type: ignore[assignment]
    turns(0, 0)
    for side in sides.values():
        side.forget()
    for round_number in range(rounds):
        for first in groups:
            turns(first, round_number)
    measured = {}
    for name, side in sides.items():
        numbers = np.concatenate(side.numbers).reshape(rounds, len(photos), -1)
        quiet = float(np.mean(side.quiet))
        measured[name] = Measured(np.array(side.seconds), quiet, numbers.mean(axis=0))
    comparison.end()
    return measured, comparison.missing


def differences(ours: Measured, theirs: Measured) -> tuple[np.ndarray, np.ndarray]:
    """By how much each number's mean differs, and the standard error of that.

    Both sides made each photograph, so that only the draws of both are chance, not the choice of
    photographs.
    """
    each = ours.numbers - theirs.numbers
    return each.mean(axis=0), each.std(axis=0, ddof=1) / len(each) ** 0.5


def check(recipe: str, ours: Measured, theirs: Measured) -> None:
    """Compares the distribution of Forebay's images with torchvision's.

    Raises:
        DisagreementError: They differ by more than chance allows.
    """
    difference, error = differences(ours, theirs)
    bound = ERRORS_MAX * error + DIFFERENCE_MAX
    if not np.all(abs(difference) <= bound):
        raise DisagreementError(
            f"{recipe}: Forebay's images differ from torchvision's by {difference.round(3)}, "
            f"but may by {bound.round(3)} at most"
        )


def ratio(ours: Measured, theirs: Measured) -> tuple[float, float]:
    """Their time over ours, and the standard error of that as a share of it, from the turns."""
    times = theirs.seconds.sum() / ours.seconds.sum()
    scatter = theirs.seconds - times * ours.seconds
    count = len(scatter)
    error = scatter.std(ddof=1) / count**0.5 / theirs.seconds.mean() if count > 1 else np.nan
    return float(times), float(error)


class Row(NamedTuple):
    """A side's row of a recipe's table.

    Attributes:
        us: Microseconds of an image.
        rate: Images per CPU second.
        ratio: The side's time over Forebay's.
        error: The standard error of that, in percent.
        over_plain: The side's time over its time for the recipe "plain".
        quiet: The share of turns that nobody disturbed, in percent.
        difference: The largest difference from Forebay of what numbers_of() gives.
        chance: The standard error of that.
    """

    us: float
    rate: float
    ratio: float
    error: float
    over_plain: float
    quiet: float
    difference: float
    chance: float


COLUMNS = {
    "us": "9.0f",
    "/ CPU s": "10.0f",
    "ratio": "9.2f",
    "± %": "7.1f",
    "/ plain": "9.2f",
    "quiet": "7.0f",
    "difference": "12.3f",
    "±": "7.3f",
}


def table(measured: dict[str, Measured], plain: dict[str, Measured], images: int) -> dict[str, Row]:
    """Each side's row.

    Args:
        measured: What the sides did with the recipe.
        plain: What they did with the recipe "plain".
        images: How many each side made.
    """
    ours = measured[FOREBAY]
    rows = {}
    for name, one in measured.items():
        us = float(one.seconds.sum()) / images * 1e6
        times, error = ratio(ours, one)
        over_plain = ratio(plain[name], one)[0] if name in plain else np.nan
        difference, chance = differences(ours, one)
        most = abs(difference).argmax()
        rows[name] = Row(
            us, 1e6 / us, times, error * 100, over_plain, one.quiet * 100,
            float(abs(difference)[most]), float(chance[most]),
        )  # fmt: skip
    return rows


def figures(recipe: str, rows: dict[str, Row]) -> dict[str, float]:
    """The ratios that the benchmark is for."""
    ratios = {name: row.ratio for name, row in rows.items() if name != FOREBAY}
    theirs = [ratios[name] for name in TORCHVISION if name in ratios]
    if theirs:
        ratios["torchvision"] = min(theirs)
    return {
        **{f"vs_{name}_{recipe}_x": times for name, times in ratios.items()},
        f"cost_over_plain_{recipe}": rows[FOREBAY].over_plain,
    }


def run(photos: list[Photo], rounds: int) -> dict[str, Any]:
    """Measures all recipes; returns the figures."""
    result: dict[str, Any] = {}
    missing: dict[str, str] = {}
    plain: dict[str, Measured] = {}
    tables: dict[str, dict[str, dict[str, float]]] = {}
    for recipe in RECIPES:
        measured, left_out = measure(recipe, photos, rounds)
        plain = plain or measured
        missing |= {f"{name}, {recipe}": why for name, why in left_out.items()}
        rows = table(measured, plain, len(photos) * rounds)
        print(f"\n{recipe}: {RECIPES[recipe]}")
        show_table("", COLUMNS, rows, width=20)
        tables[recipe] = {name: row._asdict() for name, row in rows.items()}
        result |= figures(recipe, rows)
        reference = next((measured[name] for name in TORCHVISION if name in measured), None)
        if reference is not None and recipe not in OTHER_PIXELS:
            check(recipe, measured[FOREBAY], reference)
    return result | {"tables": tables, "missing": missing}


def main() -> None:
    """Prints a table for each recipe and, last, one JSON object."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    os.environ["OMP_NUM_THREADS"] = "1"
    run_among_peers()

    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    gc.disable()
    torch.set_num_threads(1)
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    rounds = max(1, int(sys.argv[2])) if len(sys.argv) == 3 else ROUNDS
    paths = sorted(path for path in Path(sys.argv[1]).rglob("*") if path.is_file())
    photos = [pack(LIBRARY, path, i) for i, path in enumerate(paths)]
    try:
        result = run(photos, rounds)
    except DisagreementError as error:
        sys.exit(f"bench augment: {error}")
    os.sched_setaffinity(0, cores)  # the report counts the cores
    report(result)


if __name__ == "__main__":
    main()
