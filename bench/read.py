"""Reading a shuffled epoch: chunks against the file tree, on the same file system.

Both sides read CIFAR-10 (50,000 small files) and photographs, repeated to at least 4 GB, with 1, 4
and 16 reader threads, after the page cache was dropped (checked with mincore) and when it is warm.
Cold reading is measured twice: around the page cache, like the feed reads a dataset that the cache
cannot hold ("cold"), and through it ("cold_cached"). Dropping the cache needs root.
usage: ./dev bench read PHOTOS CIFAR_TRAIN [WORK_FOLDER]
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from lib.comparison import report
from lib.program import FOREBAY, ROOT

READER = ROOT / "build/release/bench/bench_read_epoch"
PHOTO_BYTES = 4_000_000_000


def repeat_photos(source: Path, target: Path) -> None:
    """Copies the photographs of `source`, renamed, until they fill PHOTO_BYTES."""
    photos = sorted(p for p in source.rglob("*") if p.is_file())
    written = turn = 0
    while written < PHOTO_BYTES:
        for photo in photos:
            folder = target / photo.parent.name
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(photo, folder / f"{photo.stem}_{turn:03}{photo.suffix}")
            written += photo.stat().st_size
        turn += 1


def pack(source: Path, dataset: Path) -> None:
    """Packs a folder; a dataset that is already there is used again."""
    subprocess.run([FOREBAY, "pack", source, dataset], check=True, stdout=sys.stderr)


def measure(tree: Path, dataset: Path, threads: int, rounds: int) -> dict:
    """The tree's seconds over the chunks' in each way, the median of the rounds, and the machine.

    The program takes the sides' turns itself, as the page cache must be dropped between them.
    """
    run = subprocess.run(
        [READER, tree, dataset, str(threads), str(rounds)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(run.stdout)


def main() -> None:
    """Prints a table and, last, one JSON object."""
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    work = Path(sys.argv[3]) if len(sys.argv) == 4 else ROOT / ".bench/read"
    work.mkdir(parents=True, exist_ok=True)
    if not (work / "photos").exists():
        repeat_photos(Path(sys.argv[1]), work / "photos")
    trees = {"photos": work / "photos", "small": Path(sys.argv[2])}
    figures: dict[str, object] = {}
    for name, tree in trees.items():
        dataset = work / f"{name}.forebay"
        pack(tree, dataset)
        for threads in (1, 4, 16):
            print(f"{name}, {threads} reader threads", file=sys.stderr, flush=True)
            ratios = measure(tree, dataset, threads, rounds=3 if threads == 1 else 1)
            figures["machine"] = ratios["machine"]
            suffix = "" if threads == 1 else f"_{threads}_threads"
            for kind in ("cold", "cold_cached", "warm"):
                figures[f"{name}_{kind}_x{suffix}"] = ratios[f"{kind}_x"]
                print(f"{name:7} {threads:2} threads {kind}: {ratios[f'{kind}_x']:.2f}x")
    report(figures)


if __name__ == "__main__":
    main()
