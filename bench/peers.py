"""Whole loaders in Python, side by side: Forebay's and those of other libraries (lib/sides).

Of PHOTOS they make random resized crops of 224 pixels, and of CIFAR (its first 300 images of each
class) crops of 32 out of a border of 4. Samples are flipped half of the time, normalised, and come
as float32 NCHW in batches of 32, from files in the page cache. Each side lives in processes of its
own, first on one core, then on two; the sides take turns of about a second, and the best of the
rounds counts. A check before that makes sure that all do the same work (lib/crop_check.py).
docs/benchmarks.md says what is counted. The figures, for CIFAR with the prefix cifar_:
vs_PEER_x: images per CPU second on one core, Forebay's, packed, over the peer's
vs_ffcv_resized_x: the same where both store smaller images of JPEG quality 90
vs_PEER_avx2_x: the same with Forebay kept to AVX2
in_place_vs_best_x: the same for Forebay on the folder as it is, over the fastest peer that reads
  the files as they are or a tar of them
two_threads_x: Forebay's images per wall second, packed, with two threads over those with one, the
  median of the rounds
two_processes_x: the same with two processes of one thread each, which is what the machine gives
usage: ./dev bench peers PHOTOS CIFAR [ROUNDS] [--plot FILE.svg]
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lib.comparison import Comparison, DisagreementError, report, show_table
from lib.crop_check import complaint, describe, make_images
from lib.machine import machine
from lib.peers_environment import PYTHON, install_peers
from lib.program import ROOT
from lib.side_process import RunningSide, SidePair, SideProcess, environment, run_once
from lib.sides import PEERS, SIDES
from lib.sides.side import WORKS, Data

CIFAR_IMAGES = 300  # of each class; a turn takes the slowest side some seconds
TURN_SECONDS = 1.0
ONE_THREAD, TWO_PROCESSES = "forebay_one_thread", "forebay_two_processes"
NEEDED = ("forebay", ONE_THREAD, TWO_PROCESSES)
Figures = dict[str, dict[str, Any]]


def prepare(source: Path, data: Data, images_max: int | None) -> None:
    """Copies the images into a folder of their own, by class.

    Args:
        source: Has a subfolder for each class.
        data: Gets the images.
        images_max: How many of each class are copied at most; None: all.
    """
    files = sorted(path for path in source.rglob("*") if path.is_file())
    taken: dict[str, int] = {}
    for path in files:
        count = taken[path.parent.name] = taken.get(path.parent.name, 0) + 1
        if images_max is None or count <= images_max:
            name = "_".join(path.relative_to(source).with_suffix(".jpg").parts)
            target = data.folder / path.parent.name / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


def stored_bytes(path: Path) -> int:
    """The size of a file, or of all files below a folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def pack(comparison: Comparison, work: str, data: Data, cores: set[int]) -> Figures:
    """What each side's packing took, what it stored, and what it lost."""

    def pack_one(name: str) -> dict[str, Any]:
        side = SIDES[name]()
        took = {"wall_seconds": 0.0, "cpu_seconds": 0.0}
        if not side.stored(data).exists():
            _, took = run_once(name, work, data.root, cores, "pack")
        loss: dict[str, float] = {}
        if side.resized:
            loss = {"resized": True}
        elif not side.verbatim:
            loss, _ = run_once(name, work, data.root, cores, "loss")
        stored = {"stored_bytes": stored_bytes(side.stored(data))}
        return took | stored | {f"loss_{key}": value for key, value in loss.items()}

    return comparison.each(pack_one)


def check_crops(comparison: Comparison, work: str, root: Path, cores: set[int]) -> None:
    """Stops where a side's crops are not of the same distribution."""
    data = Data(root)
    make_images(data.folder, WORKS[work])
    if "torchvision" not in comparison.names:
        print("CROPS NOT CHECKED: torchvision, which they are compared with, is missing")
        return
    expected, _ = run_once("torchvision", work, root, cores, "reference")
    print(f"\n{work}: crops, against torchvision's draws (docs/benchmarks.md)")

    def fits(name: str) -> Any:
        if not SIDES[name]().stored(data).exists():
            run_once(name, work, root, cores, "pack")
        return run_once(name, work, root, cores, "crops")[0]

    for name, made in comparison.each(fits).items():
        said = describe(made, expected, WORKS[work])
        print(f"{name:18}" + "".join(f"{key:>10} {value:5.3f}" for key, value in said.items()),
              flush=True)  # fmt: skip
        if wrong := complaint(said, SIDES[name]().antialiased):
            sys.exit(f"bench peers: {name} does different work from the others: {wrong}")


def open_side(name: str, work: str, root: Path, cores: set[int]) -> RunningSide:
    """A side in processes of its own; ONE_THREAD and TWO_PROCESSES are Forebay's."""
    if name == TWO_PROCESSES:
        return SidePair("forebay", work, root, cores)
    if name == ONE_THREAD:
        return SideProcess("forebay", work, root, {max(cores)})
    return SideProcess(name, work, root, cores)


def compare(sides: Comparison, work: str, root: Path, cores: set[int], rounds: int) -> Figures:
    """Each side's images per CPU and per wall second, its memory, its first batches and pauses.

    On several cores Forebay is there as ONE_THREAD and as TWO_PROCESSES too, right after itself.
    """
    names = list(sides.names)
    if len(cores) > 1:
        after = names.index("forebay") + 1
        names[after:after] = [ONE_THREAD, TWO_PROCESSES]
    comparison = Comparison("peers", names, NEEDED)
    figures: Figures = {}

    def make(name: str) -> RunningSide:
        side = open_side(name, work, root, cores)
        try:
            figures[name] = first_epochs(side)
        except Exception:
            side.end()
            raise
        return side

    try:
        comparison.open(make)
        taken = comparison.rounds(rounds)
        figures = {name: figures[name] | best_of(turns) for name, turns in taken.items()}
        for name, side in comparison.sides.items():
            figures[name]["memory_mb"] = side.memory_bytes / 1e6  # type: ignore[attr-defined]
        if not WORKS[work].padding:
            check_numbers(comparison, figures)
    finally:
        comparison.end()
    for name, why in comparison.missing.items():
        sides.names.remove(name)
        sides.missing[name] = why
    return figures


def first_epochs(side: RunningSide) -> dict[str, Any]:
    """Runs a side's first epochs; sets how many epochs each of its later turns has."""
    made = side.turn()
    side.watches_memory = False
    side.epochs = max(2, math.ceil(TURN_SECONDS / made["epoch_seconds"]))
    return {
        "first_batch_seconds": made["first_batch_at"] - side.started,
        "epochs": side.epochs,
        "mean": made["mean"],
        "std": made["std"],
    }


def best_of(turns: list[dict[str, float]]) -> dict[str, Any]:
    """The best figures of a side's rounds."""
    per_second = [made["images"] / made["wall_seconds"] for made in turns]
    return {
        "per_cpu_second": max(made["images"] / made["cpu_seconds"] for made in turns),
        "per_second": max(per_second),
        "per_second_of_rounds": per_second,
        "first_of_epoch_seconds": min(made["first_of_epoch_seconds"] for made in turns),
        "pause_seconds": min(made["pause_seconds"] for made in turns),
    }


def check_numbers(comparison: Comparison, figures: Figures) -> None:
    """Stops where a side's pixels are not like ours."""
    ours = figures["forebay"]
    for name, side in comparison.sides.items():
        made = figures[name]
        try:
            side.check(abs(made["mean"] - ours["mean"]), abs(made["std"] - ours["std"]))
        except DisagreementError as error:
            sys.exit(f"bench peers: {name}: mean and deviation of its numbers: {error}")


def described_loss(packed: dict[str, Any]) -> str:
    """Describes for people how a side changed the pixels that it stored."""
    if "loss_resized" in packed:
        return "  LOST: smaller images"
    if "loss_psnr_db" in packed:
        mean, worst = packed["loss_psnr_db"], packed["loss_psnr_db_min"]
        return f"  LOST: PSNR {mean:.1f} dB, {worst:.1f} dB for the worst image"
    if "loss_images" not in packed:
        return "  the files' own bytes"
    count = packed["loss_images"]
    return f"  equal ({count} images compared)" if count else "  pixels as they are"


def show_packed(work: str, packed: Figures) -> None:
    """Prints what is stored and what making it took."""
    print()
    show_table(
        work,
        {"packing s": "10.2f", "CPU s": "8.2f", "MB": "8.1f", "  pixels": ""},
        {
            name: (side["wall_seconds"], side["cpu_seconds"], side["stored_bytes"] / 1e6,
                   described_loss(side))
            for name, side in packed.items()
        },
    )  # fmt: skip


def show(title: str, figures: Figures) -> None:
    """Prints speeds and times."""
    ours = figures["forebay"]["per_cpu_second"]
    print()
    show_table(
        title,
        {"/ CPU s": "10.0f", "/ s": "10.0f", "ours x": "8.2f", "MB": "8.0f", "first s": "9.3f",
         "epoch 1st": "11.4f", "pause s": "9.4f"},
        {
            name: (side["per_cpu_second"], side["per_second"], ours / side["per_cpu_second"],
                   side["memory_mb"], side["first_batch_seconds"], side["first_of_epoch_seconds"],
                   side["pause_seconds"])
            for name, side in figures.items()
        },
    )  # fmt: skip


def ratios(one: Figures, two: Figures) -> dict[str, float]:
    """The figures that the benchmark is for."""
    speed = {name: side["per_cpu_second"] for name, side in one.items()}
    peers = [name for name, side in PEERS.items() if name in speed and not side.resized]
    result = {f"vs_{name}_x": speed["forebay"] / speed[name] for name in peers}
    if "forebay_avx2" in speed:
        avx2 = speed["forebay_avx2"]
        result |= {f"vs_{name}_avx2_x": avx2 / speed[name] for name in peers}
    if "forebay_resized" in speed and "ffcv_resized" in speed:
        result["vs_ffcv_resized_x"] = speed["forebay_resized"] / speed["ffcv_resized"]
    plain = [speed[name] for name, side in PEERS.items() if side.plain and name in speed]
    if plain and "forebay_in_place" in speed:
        result["in_place_vs_best_x"] = speed["forebay_in_place"] / max(plain)
    if two:
        alone = two[ONE_THREAD]["per_second_of_rounds"]
        for name, key in (("forebay", "two_threads_x"), (TWO_PROCESSES, "two_processes_x")):
            rounds = zip(two[name]["per_second_of_rounds"], alone, strict=True)
            result[key] = statistics.median(both / one for both, one in rounds)
    return result


def run_work(work: str, source: Path, rounds: int, root: Path, cores: list[int]) -> dict[str, Any]:
    """Compares all sides on one set of images."""
    data = Data(root / work)
    sides = Comparison("peers", (n for n, side in SIDES.items() if work in side.works), NEEDED)
    prepare(source, data, CIFAR_IMAGES if WORKS[work].padding else None)
    packed = pack(sides, work, data, set(cores[-2:]))
    check_crops(sides, work, root / f"{work}_made", set(cores[-2:]))
    show_packed(work, packed)
    one = compare(sides, work, data.root, {cores[-1]}, rounds)
    show(f"{work}, one thread", one)
    two: Figures = {}
    if len(cores) > 1:
        two = compare(sides, work, data.root, set(cores[-2:]), rounds)
        show(f"{work}, two", two)
    plain = [name for name, side in PEERS.items() if side.plain and name in one]
    print(f"in_place_vs_best_x counts: {', '.join(plain)}")
    return {
        "ratios": ratios(one, two), "packed": packed, "one": one, "two": two,
        "missing": sides.missing,
    }  # fmt: skip


def main() -> None:
    """Prints tables and, last, one JSON object."""
    arguments = argparse.ArgumentParser(
        usage="./dev bench peers PHOTOS CIFAR [ROUNDS] [--plot FILE.svg]", description=__doc__
    )
    arguments.add_argument("photos", type=Path)
    arguments.add_argument("cifar", type=Path)
    arguments.add_argument("rounds", type=int, nargs="?", default=5)
    arguments.add_argument("--plot", type=Path, default=ROOT / "build/peers/peers.svg")
    given = arguments.parse_args()
    install_peers()
    cores = sorted(os.sched_getaffinity(0))
    result: dict[str, Any] = {"machine": machine()}  # before this process keeps to one core
    # This process stays away from the core on which one thread is measured.
    os.sched_setaffinity(0, {cores[0]})
    with tempfile.TemporaryDirectory() as folder:
        for work, prefix in (("photos", ""), ("cifar", "cifar_")):
            made = run_work(work, getattr(given, work), max(1, given.rounds), Path(folder), cores)
            result |= {prefix + key: value for key, value in made.pop("ratios").items()}
            result[work] = made
    command = [str(PYTHON), "-m", "lib.peers_plot", str(given.plot.resolve())]
    drawn = subprocess.run(command, input=json.dumps(result), text=True, env=environment())
    print(f"the plot: {given.plot}" if drawn.returncode == 0 else "NO PLOT", flush=True)
    report(result)


if __name__ == "__main__":
    main()
