"""The time from the start of `forebay train` to its first batch, without PyTorch's own start.

Counted are the start of `forebay` itself (timed by `forebay --version`) and, as the trainer logs
it, the time from its main() to the first batch without making the model. Not counted are PyTorch's
own parts: loading its libraries, which comes before main(), and making the model. The whole time,
seen from outside, is reported too. Cold and warm rounds alternate: the dataset's files are dropped
from the page cache before each cold round; PyTorch's stay.
usage: ./dev bench first_batch DATASET [OPTION OF forebay train ...]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lib.comparison import Comparison, Side, report
from lib.program import FOREBAY

ROUNDS = 5


def drop_from_cache(dataset: Path) -> None:
    """Asks the kernel to forget the dataset's pages, which are clean."""
    for path in dataset.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def start_ms() -> float:
    """Returns how many milliseconds `forebay` takes to start."""
    start = time.monotonic()
    subprocess.run([FOREBAY, "--version"], check=True, stdout=subprocess.DEVNULL)
    return (time.monotonic() - start) * 1e3


def first_batch_ms(dataset: Path, options: list[str]) -> tuple[float, float]:
    """Milliseconds to the first batch, as seen from outside and as the trainer logs them."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [FOREBAY, "train", dataset, "--log", log, *options]
        start = time.monotonic()
        with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) as run:
            assert run.stderr
            said = ""
            for line in run.stderr:
                said += line
                if line.startswith("first batch"):
                    break
            else:
                sys.exit(said)
            passed = (time.monotonic() - start) * 1e3
            # The trainer prints the line before it writes the record.
            while "first_batch" not in log.read_text():
                time.sleep(0.01)
            run.kill()
        records = [json.loads(line) for line in log.read_text().splitlines()]
        return passed, next(r["first_batch_ms"] for r in records if r["event"] == "first_batch")


class FirstBatch(Side):
    """Trains until the first batch.

    Args:
        dataset: What is trained on.
        options: Further options of `forebay train`.
        is_cold: Whether the dataset's files are dropped from the page cache before each turn.
        start: How long `forebay` takes to start, in milliseconds.
    """

    def __init__(self, dataset: Path, options: list[str], *, is_cold: bool, start: float) -> None:
        self.dataset, self.options, self.is_cold, self.start = dataset, options, is_cold, start

    def turn(self) -> tuple[float, float]:
        """Milliseconds to the first batch, as a whole and without PyTorch's own start."""
        if self.is_cold:
            drop_from_cache(self.dataset)
        whole, own = first_batch_ms(self.dataset, self.options)
        name = "cold" if self.is_cold else "warm"
        print(f"{name}: {self.start + own:.0f} ms of {whole:.0f} ms in all", flush=True)
        return whole, self.start + own


def main() -> None:
    """Prints a table and, last, one JSON object."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    dataset, options = Path(sys.argv[1]), sys.argv[2:]
    start = statistics.median(start_ms() for _ in range(ROUNDS))
    prefixes = {"cold": "", "warm": "warm_"}
    comparison = Comparison("first_batch", prefixes, needed=prefixes)
    comparison.open(lambda name: FirstBatch(dataset, options, is_cold=name == "cold", start=start))
    result: dict[str, object] = {"start_ms": start}
    for name, rounds in comparison.rounds(ROUNDS).items():
        wholes, owns = zip(*rounds, strict=True)
        result[f"{prefixes[name]}first_batch_ms"] = statistics.median(owns)
        result[f"{prefixes[name]}whole_ms"] = statistics.median(wholes)
    report(result)


if __name__ == "__main__":
    main()
