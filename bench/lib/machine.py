"""The machine that a benchmark's figures belong to."""

import os
from pathlib import Path


def machine() -> str:
    """Gives "AMD EPYC 9B45, 2 cores": the processor's own name and the cores that can be used."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else 'unknown processor'}, {len(os.sched_getaffinity(0))} cores"
