"""The `forebay` program that benchmarks measure and prepare their data with."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOREBAY = Path(os.environ.get("FOREBAY_BIN") or ROOT / "build/release/src/apps/forebay")


def forebay(*arguments: object) -> None:
    """Runs one command of `forebay`; what it prints is shown only where it fails.

    Raises:
        RuntimeError: It failed; the message is what it printed.
    """
    command = [str(FOREBAY), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
