"""From the start of `forebay train` to its first batch, PyTorch's own start apart.

The clock runs from outside: from starting the process to its line about the first batch. Taken off
are PyTorch's own parts: loading its libraries (timed as `forebay train --help`, which loads them
and ends) and making the model (as the program logs it). The dataset's files are dropped from the
page cache before each cold round; PyTorch's stay.
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

from lib.machine import machine

FOREBAY = Path(os.environ["FOREBAY_BIN"])
ROUNDS = 5


def drop_from_cache(dataset: Path) -> None:
    """Asks the kernel to forget the dataset's pages, which are clean."""
    for path in dataset.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def load_ms() -> float:
    """What loading the program and PyTorch's libraries takes."""
    start = time.monotonic()
    subprocess.run([FOREBAY, "train", "--help"], check=True, stdout=subprocess.DEVNULL)
    return (time.monotonic() - start) * 1e3


def first_batch_ms(dataset: Path, options: list[str]) -> tuple[float, float]:
    """Milliseconds from the start to the first batch, and PyTorch's own after loading."""
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
            # The line comes before its record.
            while "first_batch" not in log.read_text():
                time.sleep(0.01)
            run.kill()
        records = [json.loads(line) for line in log.read_text().splitlines()]
        return passed, next(r["pytorch_start_ms"] for r in records if r["event"] == "first_batch")


def main() -> None:
    """Prints a table and, last, one JSON object."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    dataset, options = Path(sys.argv[1]), sys.argv[2:]
    load_ms()
    loads = [load_ms() for _ in range(ROUNDS)]
    result: dict[str, object] = {
        "machine": machine(),
        "pytorch_load_ms": statistics.median(loads),
    }
    for name in ("first_batch_ms", "warm_first_batch_ms"):
        net = []
        for _ in range(ROUNDS):
            if name == "first_batch_ms":
                drop_from_cache(dataset)
            passed, own = first_batch_ms(dataset, options)
            net.append(passed - own - statistics.median(loads))
            print(f"{name}: {passed:.0f} ms, of them PyTorch's own {own:.0f} + "
                  f"{statistics.median(loads):.0f}", flush=True)  # fmt: skip
        result[name] = statistics.median(net)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
