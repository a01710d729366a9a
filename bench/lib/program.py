"""The `forebay` program that benchmarks measure and prepare their data with."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOREBAY = Path(os.environ.get("FOREBAY_BIN") or ROOT / "build/release/src/apps/forebay")


def forebay(*arguments: object, variables: Mapping[str, str] | None = None) -> str:
    """Runs one command of `forebay`; returns what it prints to standard output.

    Args:
        arguments: The command's.
        variables: Added to its environment.

    Raises:
        RuntimeError: It failed; the message is what it printed.
    """
    command = [str(FOREBAY), *map(str, arguments)]
    environment = os.environ | (variables or {})
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout
