"""How well chunk-wise shuffling shuffles: accuracy of a narrow resnet9 after the same few epochs.

Three ways to the same images, each with several seeds: packed in shuffled order and fed chunk-wise
(at most 5 % of the set shuffled together), packed in shuffled order and fed fully shuffled, and
packed in the classes' order and fed chunk-wise. The first two should agree within the spread of
the seeds; the gap to the third is what shuffling at pack time is for.
usage: ./dev bench shuffle TRAIN_FOLDER VAL_FOLDER [options]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from lib.machine import machine

FOREBAY = Path(os.environ["FOREBAY_BIN"])
SHARE_MAX = 0.05  # of the set, shuffled together


def forebay(*arguments: object) -> None:
    """Runs one forebay command; its output is shown only when it fails."""
    done = subprocess.run([FOREBAY, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"forebay {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")


def accuracy(train: Path, val: Path, log: Path, *options: object) -> float:
    """Trains once; the accuracy on `val` at the end."""
    log.unlink(missing_ok=True)
    forebay("train", train, "--val", val, "--log", log, *options)
    return json.loads(log.read_text().splitlines()[-1])["top1"]


def main() -> None:
    """Prints a table and, last, one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("val", type=Path)
    parser.add_argument("--chunk-bytes", type=int, default=350_000)
    parser.add_argument("--chunks-min", type=int, default=200)
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--no-flip", action="store_true")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for order in ("shuffled", "listed"):
            forebay("pack", arguments.train, work / order, "--order", order,
                    "--chunk-bytes", arguments.chunk_bytes)  # fmt: skip
            chunks = len(list((work / order / "chunks").iterdir()))
            if chunks < arguments.chunks_min or arguments.lanes / chunks > SHARE_MAX:
                sys.exit(f"{chunks} chunks: give a smaller --chunk-bytes or fewer --lanes")
        forebay("pack", arguments.val, work / "val")
        # A group is one chunk at least: a byte asks for no more.
        chunk_wise = ["--lanes", arguments.lanes, "--group-bytes", 1]
        whole = ["--lanes", 1, "--group-bytes", 1 << 40]
        ways = {
            "shuffled": (work / "shuffled", chunk_wise),
            "full": (work / "shuffled", whole),
            "ordered": (work / "listed", chunk_wise),
        }
        options = ["--width", arguments.width, "--batch", arguments.batch]
        options += ["--epochs", arguments.epochs] + ["--no-flip"] * arguments.no_flip
        found: dict[str, list[float]] = {name: [] for name in ways}
        for seed in range(arguments.seeds):
            for name, (dataset, mixing) in ways.items():
                top1 = accuracy(dataset, work / "val", work / "log", *options, *mixing,
                                "--seed", seed)  # fmt: skip
                found[name].append(top1)
                print(f"seed {seed}  {name:8}  {top1:.2%}", flush=True)

    means = {name: statistics.mean(values) for name, values in found.items()}
    spread = max(statistics.stdev(found[name]) for name in ("shuffled", "full"))
    for name, values in found.items():
        print(f"{name:8}  mean {means[name]:.2%}, spread {statistics.stdev(values):.2%}")
    result = {
        "machine": machine(),
        "chunks": chunks,
        "spread": spread,
        "shuffled_minus_full": means["shuffled"] - means["full"],
        "ordered_minus_full": means["ordered"] - means["full"],
        "ordered_minus_shuffled": means["ordered"] - means["shuffled"],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
