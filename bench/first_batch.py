"""From the start of `forebay train` to its first batch, PyTorch's own start apart.

Counted are starting `forebay` itself (timed as `forebay --version`) and, as the trainer logs it,
the time from its main() to the first batch but for making the model. Not counted are PyTorch's own
parts: loading its libraries, which comes before main(), and making the model. The whole from
outside is reported too. The dataset's files are dropped from the page cache before each cold
round; PyTorch's stay.
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


def start_ms() -> float:
    """What starting `forebay` takes."""
    start = time.monotonic()
    subprocess.run([FOREBAY, "--version"], check=True, stdout=subprocess.DEVNULL)
    return (time.monotonic() - start) * 1e3


def first_batch_ms(dataset: Path, options: list[str]) -> tuple[float, float]:
    """Milliseconds to the first batch, seen from outside, and as the trainer logs them."""
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
        return passed, next(r["first_batch_ms"] for r in records if r["event"] == "first_batch")


def main() -> None:
    """Prints a table and, last, one JSON object."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    dataset, options = Path(sys.argv[1]), sys.argv[2:]
    start = statistics.median(start_ms() for _ in range(ROUNDS))
    result: dict[str, object] = {"machine": machine(), "start_ms": start}
    for prefix in ("", "warm_"):
        rounds = []
        for _ in range(ROUNDS):
            if prefix == "":
                drop_from_cache(dataset)
            whole, own = first_batch_ms(dataset, options)
            rounds.append((whole, own))
            name = "warm" if prefix else "cold"
            print(f"{name}: {start + own:.0f} ms of {whole:.0f} ms in all", flush=True)
        result[f"{prefix}first_batch_ms"] = start + statistics.median(r[1] for r in rounds)
        result[f"{prefix}whole_ms"] = statistics.median(r[0] for r in rounds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
