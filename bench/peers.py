"""Whole loaders in Python, side by side: Forebay's and those of other libraries (lib/sides).

PHOTOS: random resized crops of 224 pixels; CIFAR (its first 300 images of each class): crops of 32
out of a border of 4. Flipped half of the time, normalised, float32 NCHW in batches of 32, from
files in the page cache. Each side lives in processes of its own, first on one core, then on two;
turns of about a second in turn, the best of the rounds. That all do the same work is checked first
(lib/crop_check.py). docs/benchmarks.md says what is counted.
Figures, for CIFAR with the prefix cifar_: vs_PEER_x, Forebay's images per CPU second, packed, on
one core over the peer's; vs_PEER_avx2_x, with Forebay kept to AVX2; in_place_vs_best_x, on the
folder as it is over the fastest peer that reads the files as they are or a tar of them;
two_threads_x, Forebay's images per wall second, packed, with two threads over those with one, the
median of the rounds; two_processes_x, the same of two processes of one thread each, which is what
the machine gives.
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

from lib.crop_check import complaint, describe, make_images
from lib.machine import machine
from lib.peers_environment import PYTHON, install_peers
from lib.side_process import SideError, SidePair, SideProcess, environment, run_once
from lib.sides import PEERS, SIDES
from lib.sides.side import WORKS, Data

ROOT = Path(__file__).resolve().parent.parent
CIFAR_IMAGES = 300  # of each class: a turn of some seconds for the slowest
TURN_SECONDS = 1.0
ONE_THREAD, TWO_PROCESSES = "forebay_one_thread", "forebay_two_processes"
# Between sides, of all pixels of an epoch of normalised photographs.
MEAN_DIFFERENCE_MAX, STD_DIFFERENCE_MAX = 0.1, 0.1
Figures = dict[str, dict[str, Any]]
Running = dict[str, SideProcess | SidePair]


class Sides:
    """Those that are still in the comparison, and why the others are not."""

    def __init__(self, work: str) -> None:
        self.work = work
        self.names = [name for name, side in SIDES.items() if work in side.works]
        self.missing: dict[str, str] = {}

    def leave_out(self, name: str, why: object) -> None:
        """Says so; without Forebay there is nothing to compare."""
        print(f"NOT COMPARED: {name}: {why}", flush=True)
        if name in ("forebay", ONE_THREAD, TWO_PROCESSES):
            sys.exit("bench peers: Forebay itself failed")
        self.names.remove(name)
        self.missing[name] = str(why)


def prepare(source: Path, data: Data, images_max: int | None) -> None:
    """The images in a folder of their own, by class."""
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
    """Of a file, or of all files below a folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def pack(sides: Sides, data: Data, cores: set[int]) -> Figures:
    """What each side's packing took, what it stored, and what it lost."""
    packed: Figures = {}
    for name in list(sides.names):
        side = SIDES[name]()
        try:
            took = {"wall_seconds": 0.0, "cpu_seconds": 0.0}
            if not side.stored(data).exists():
                _, took = run_once(name, sides.work, data.root, cores, "pack")
            loss: dict[str, float] = {}
            if not side.verbatim:
                loss, _ = run_once(name, sides.work, data.root, cores, "loss")
        except SideError as error:
            sides.leave_out(name, error)
            continue
        packed[name] = took | {"stored_bytes": stored_bytes(side.stored(data))}
        packed[name] |= {f"loss_{key}": value for key, value in loss.items()}
    return packed


def check_crops(sides: Sides, root: Path, cores: set[int]) -> None:
    """Stops where a side's crops are not of the same distribution."""
    data, work = Data(root), WORKS[sides.work]
    make_images(data.folder, work)
    if "torchvision" not in sides.names:
        print("CROPS NOT CHECKED: torchvision, which they are compared with, is missing")
        return
    expected, _ = run_once("torchvision", sides.work, root, cores, "reference")
    print(f"\n{sides.work}: crops, against torchvision's draws (docs/benchmarks.md)")
    for name in list(sides.names):
        side = SIDES[name]()
        try:
            if not side.stored(data).exists():
                run_once(name, sides.work, root, cores, "pack")
            fits, _ = run_once(name, sides.work, root, cores, "crops")
        except SideError as error:
            sides.leave_out(name, error)
            continue
        said = describe(fits, expected, work)
        print(f"{name:18}" + "".join(f"{key:>10} {value:5.3f}" for key, value in said.items()),
              flush=True)  # fmt: skip
        if wrong := complaint(said, side.antialiased):
            sys.exit(f"bench peers: {name} does another work than the others: {wrong}")


def start(sides: Sides, root: Path, cores: set[int], running: Running) -> Figures:
    """What is known of each side's first epochs; its processes go into `running`.

    On several cores Forebay is there as ONE_THREAD and as TWO_PROCESSES too, right behind itself.
    """
    figures: Figures = {}
    names = list(sides.names)
    if len(cores) > 1:
        behind = names.index("forebay") + 1
        names[behind:behind] = [ONE_THREAD, TWO_PROCESSES]
    for name in names:
        process: SideProcess | SidePair
        if name == ONE_THREAD:
            process = SideProcess("forebay", sides.work, root, {max(cores)})
        elif name == TWO_PROCESSES:
            process = SidePair("forebay", sides.work, root, cores)
        else:
            process = SideProcess(name, sides.work, root, cores)
        running[name] = process
        try:
            made = process.turn(2, watch_memory=True)
        except SideError as error:
            running.pop(name).end()
            sides.leave_out(name, error)
            continue
        figures[name] = {
            "first_batch_seconds": made["first_batch_at"] - process.started,
            "epochs": max(2, math.ceil(TURN_SECONDS / made["epoch_seconds"])),
            "mean": made["mean"],
            "std": made["std"],
            "per_cpu_second": 0,
            "per_second": 0,
            "per_second_of_rounds": [],
            "first_of_epoch_seconds": math.inf,
            "pause_seconds": math.inf,
        }
    return figures


def compare(sides: Sides, root: Path, cores: set[int], rounds: int) -> Figures:
    """Each side's images per CPU and per wall second, its memory, its first batches and pauses."""
    running: Running = {}
    try:
        figures = start(sides, root, cores, running)
        for _ in range(rounds):
            for name in list(running):
                best = figures[name]
                try:
                    made = running[name].turn(int(best["epochs"]))
                except SideError as error:
                    running.pop(name).end()
                    sides.leave_out(name, error)
                    figures.pop(name)
                    continue
                for per in ("cpu_seconds", "wall_seconds"):
                    key = "per_cpu_second" if per == "cpu_seconds" else "per_second"
                    best[key] = max(best[key], made["images"] / made[per])
                best["per_second_of_rounds"].append(made["images"] / made["wall_seconds"])
                for key in ("first_of_epoch_seconds", "pause_seconds"):
                    best[key] = min(best[key], made[key])
                best["memory_mb"] = running[name].memory_bytes / 1e6
    finally:
        for process in running.values():
            process.end()
    return figures


def check_numbers(figures: Figures) -> None:
    """Stops where a side's pixels are not like ours."""
    for name, side in figures.items():
        mean = abs(side["mean"] - figures["forebay"]["mean"])
        std = abs(side["std"] - figures["forebay"]["std"])
        if not (mean <= MEAN_DIFFERENCE_MAX and std <= STD_DIFFERENCE_MAX):
            sys.exit(f"bench peers: {name}'s numbers differ: mean by {mean:.3f}, std by {std:.3f}")


def show_packed(work: str, packed: Figures) -> None:
    """What is stored and what making it took."""
    print(f"\n{work:18}{'packing s':>10}{'CPU s':>8}{'MB':>8}  pixels")
    for name, side in packed.items():
        pixels = "the files' own bytes"
        if "loss_images" in side:
            count = side["loss_images"]
            pixels = f"equal ({count} images compared)" if count else "pixels as they are"
        if "loss_psnr_db" in side:
            pixels = f"LOST: PSNR {side['loss_psnr_db']:.1f} dB, {side['loss_psnr_db_min']:.1f} dB"
            pixels += " for the worst image"
        took = (side["wall_seconds"], side["cpu_seconds"], side["stored_bytes"] / 1e6)
        print(f"{name:18}{took[0]:10.2f}{took[1]:8.2f}{took[2]:8.1f}  {pixels}")


def show(title: str, figures: Figures) -> None:
    """Speeds and times."""
    print(f"\n{title:18}{'/ CPU s':>10}{'/ s':>10}{'ours x':>8}{'MB':>8}"
          f"{'first s':>9}{'epoch 1st':>11}{'pause s':>9}")  # fmt: skip
    ours = figures["forebay"]["per_cpu_second"]
    for name, side in figures.items():
        print(f"{name:18}{side['per_cpu_second']:10.0f}{side['per_second']:10.0f}"
              f"{ours / side['per_cpu_second']:8.2f}{side['memory_mb']:8.0f}"
              f"{side['first_batch_seconds']:9.3f}{side['first_of_epoch_seconds']:11.4f}"
              f"{side['pause_seconds']:9.4f}", flush=True)  # fmt: skip


def ratios(one: Figures, two: Figures) -> dict[str, float]:
    """The figures that the benchmark is for."""
    speed = {name: side["per_cpu_second"] for name, side in one.items()}
    result = {f"vs_{name}_x": speed["forebay"] / speed[name] for name in PEERS if name in speed}
    if "forebay_avx2" in speed:
        avx2 = speed["forebay_avx2"]
        result |= {f"vs_{name}_avx2_x": avx2 / speed[name] for name in PEERS if name in speed}
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
    """All of one set of images."""
    sides, data = Sides(work), Data(root / work)
    prepare(source, data, CIFAR_IMAGES if WORKS[work].padding else None)
    packed = pack(sides, data, set(cores[-2:]))
    check_crops(sides, root / f"{work}_made", set(cores[-2:]))
    show_packed(work, packed)
    one = compare(sides, data.root, {cores[-1]}, rounds)
    if not WORKS[work].padding:
        check_numbers(one)
    show(f"{work}, one thread", one)
    two: Figures = {}
    if len(cores) > 1:
        two = compare(sides, data.root, set(cores[-2:]), rounds)
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
    result: dict[str, Any] = {"machine": machine()}
    # Away from the core that one thread is measured on.
    os.sched_setaffinity(0, {cores[0]})
    with tempfile.TemporaryDirectory() as folder:
        for work, prefix in (("photos", ""), ("cifar", "cifar_")):
            made = run_work(work, getattr(given, work), max(1, given.rounds), Path(folder), cores)
            result |= {prefix + key: value for key, value in made.pop("ratios").items()}
            result[work] = made
    command = [str(PYTHON), "-m", "lib.peers_plot", str(given.plot.resolve())]
    drawn = subprocess.run(command, input=json.dumps(result), text=True, env=environment())
    print(f"the plot: {given.plot}" if drawn.returncode == 0 else "NO PLOT", flush=True)
    print(json.dumps(result, default=str))


if __name__ == "__main__":
    main()
