"""How well chunk-wise shuffling shuffles, by the accuracy of a narrow resnet9 after a few epochs.

The same images come in three ways, each with several seeds: packed in shuffled order and fed
chunk-wise (at most 5 % of the set shuffled together), packed in shuffled order and fed fully
shuffled, and packed in the classes' order and fed chunk-wise. The first two should agree within the
spread of the seeds; the gap to the third shows what shuffling while packing is for.
usage: ./dev bench shuffle TRAIN_FOLDER VAL_FOLDER [options]
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from lib.comparison import Comparison, Side, report
from lib.program import forebay

SHARE_MAX = 0.05  # the largest share of the set that is shuffled together


class Way(Side):
    """Trains on the images as one way gives them, with the next seed in each turn.

    Args:
        name: The name that is printed.
        train, val: Packed datasets.
        options: Further options of `forebay train`.
    """

    def __init__(self, name: str, train: Path, val: Path, options: list[object]) -> None:
        self.name, self.train, self.val, self.options = name, train, val, options
        self.seed = 0

    def turn(self) -> float:
        """The accuracy on `val` at the end of a training with this turn's seed."""
        log = self.val.parent / "log"
        log.unlink(missing_ok=True)
        forebay("train", self.train, "--val", self.val, "--log", log, *self.options,
                "--seed", self.seed)  # fmt: skip
        top1 = json.loads(log.read_text().splitlines()[-1])["top1"]
        print(f"seed {self.seed}  {self.name:8}  {top1:.2%}", flush=True)
        self.seed += 1
        return top1


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
        # A group has at least one chunk; with a limit of one byte it has no more.
        chunk_wise = ["--lanes", arguments.lanes, "--group-bytes", 1]
        whole = ["--lanes", 1, "--group-bytes", 1 << 40]
        ways = {
            "shuffled": (work / "shuffled", chunk_wise),
            "full": (work / "shuffled", whole),
            "ordered": (work / "listed", chunk_wise),
        }
        options = ["--width", arguments.width, "--batch", arguments.batch]
        options += ["--epochs", arguments.epochs] + ["--no-flip"] * arguments.no_flip
        comparison = Comparison("shuffle", ways, needed=ways)
        comparison.open(
            lambda name: Way(name, ways[name][0], work / "val", [*options, *ways[name][1]])
        )
        found = comparison.rounds(arguments.seeds)

    means = {name: statistics.mean(values) for name, values in found.items()}
    spread = max(statistics.stdev(found[name]) for name in ("shuffled", "full"))
    for name, values in found.items():
        print(f"{name:8}  mean {means[name]:.2%}, spread {statistics.stdev(values):.2%}")
    report(
        {
            "chunks": chunks,
            "spread": spread,
            "shuffled_minus_full": means["shuffled"] - means["full"],
            "ordered_minus_full": means["ordered"] - means["full"],
            "ordered_minus_shuffled": means["ordered"] - means["shuffled"],
        }
    )


if __name__ == "__main__":
    main()
