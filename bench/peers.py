"""Whole loaders in Python: Forebay's, packed and in place, against TurboLoader's and DALI's.

Random resized crops of 224 pixels, flipped half of the time, normalised, float32 NCHW in batches
of 32, from files in the page cache (lib/loader_sides.py). Each side lives in a process of its own,
first on one core with one thread, then on two with two; epochs in turn, the best of the rounds.
Figures: vs_PEER_x, Forebay's images per CPU second, packed, over the peer's; in_place_vs_best_x, in
place over the fastest peer's; two_threads_x, Forebay's images
per wall second with two threads over those with one. The crops are drawn by each side for itself;
their numbers' mean and deviation are compared.
usage: ./dev bench peers PHOTOS [ROUNDS]
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from lib.loader_sides import OURS, PEERS, Data
from lib.machine import machine
from lib.peers_environment import PYTHON, install_peers

ROOT = Path(__file__).resolve().parent.parent
# Between sides, of all pixels of a batch of 32 normalised crops.
MEAN_DIFFERENCE_MAX = 0.5
STD_DIFFERENCE_MAX = 0.4


def prepare(photos: Path, root: Path) -> Data:
    """The photographs for every side; all become one class."""
    data = Data(root)
    files = sorted(path for path in photos.rglob("*") if path.is_file())
    (data.folder / "photo").mkdir(parents=True)
    with tarfile.open(data.tar, "w") as tar:
        for path in files:
            shutil.copy(path, data.folder / "photo")
            tar.add(path, path.name)
    command = [os.environ["FOREBAY_BIN"], "pack", str(data.folder), str(data.packed)]
    subprocess.run(command, check=True, capture_output=True)
    return data


class Process:
    """One side at work."""

    def __init__(self, side: str, root: Path, cores: set[int]) -> None:
        program = str(ROOT / "bench/lib/loader_sides.py")
        command = [str(PYTHON), program, side, str(root), str(len(cores))]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "build/release/python")}
        self.side = side
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )  # fmt: skip

    def run_epoch(self) -> dict[str, float]:
        """What it took."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("epoch\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"bench peers: {self.side} ended")
        return json.loads(answer)

    def end(self) -> None:
        """Waits for it."""
        self.process.communicate()


def compare(root: Path, cores: set[int], rounds: int) -> dict[str, dict[str, float]]:
    """Each side's images per CPU and per wall second, its memory, its numbers' mean and std."""
    processes = {name: Process(name, root, cores) for name in (*OURS, *PEERS)}
    first = {name: process.run_epoch() for name, process in processes.items()}
    best: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for name, process in processes.items():
            made = process.run_epoch()
            speed = {
                "per_cpu_second": made["images"] / made["cpu_seconds"],
                "per_second": made["images"] / made["wall_seconds"],
            }
            old = best.get(name, speed)
            best[name] = {key: max(value, old[key]) for key, value in speed.items()}
            best[name] |= {key: made[key] for key in ("memory_mb", "mean", "std")}
    for name, process in processes.items():
        best[name]["first_batch_seconds"] = first[name]["first_batch_seconds"]
        process.end()
    return best


def check(sides: dict[str, dict[str, float]]) -> None:
    """Stops where a side's numbers are not like ours."""
    for name, side in sides.items():
        mean = abs(side["mean"] - sides["forebay"]["mean"])
        std = abs(side["std"] - sides["forebay"]["std"])
        if not (mean <= MEAN_DIFFERENCE_MAX and std <= STD_DIFFERENCE_MAX):
            sys.exit(f"bench peers: {name}'s numbers differ: mean by {mean:.3f}, std by {std:.3f}")


def show(title: str, sides: dict[str, dict[str, float]]) -> None:
    """A table."""
    print(f"{title:16}{'/ CPU s':>10}{'/ s':>10}{'ours x':>8}{'MB':>8}{'first s':>9}"
          f"{'mean':>8}{'std':>8}")  # fmt: skip
    for name, side in sides.items():
        ratio = sides["forebay"]["per_cpu_second"] / side["per_cpu_second"]
        print(f"{name:16}{side['per_cpu_second']:10.0f}{side['per_second']:10.0f}{ratio:8.2f}"
              f"{side['memory_mb']:8.0f}{side['first_batch_seconds']:9.3f}"
              f"{side['mean']:8.3f}{side['std']:8.3f}")  # fmt: skip


def main() -> None:
    """Prints tables and, last, one JSON object."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    rounds = max(1, int(sys.argv[2])) if len(sys.argv) == 3 else 5
    install_peers()
    cores = sorted(os.sched_getaffinity(0))
    result: dict[str, Any] = {"machine": machine()}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        prepare(Path(sys.argv[1]), root)
        one = compare(root, {cores[-1]}, rounds)
        check(one)
        show("one thread", one)
        speeds = {name: side["per_cpu_second"] for name, side in one.items()}
        result |= {f"{name}_per_cpu_second": speed for name, speed in speeds.items()}
        result |= {f"vs_{name}_x": speeds["forebay"] / speeds[name] for name in PEERS}
        best_peer = max(speeds[name] for name in PEERS)
        result["in_place_vs_best_x"] = speeds["forebay_in_place"] / best_peer
        if len(cores) > 1:
            two = compare(root, set(cores[-2:]), rounds)
            show("two threads", two)
            result["two_threads_x"] = two["forebay"]["per_second"] / one["forebay"]["per_second"]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
