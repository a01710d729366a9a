"""Decoding on a GPU, side by side: Forebay's kernels, nvJPEG, DALI and torchvision.

The same photographs and the same random crops from this machine's memory to the GPU's, by all cores
and in turns, the best of the rounds; results compared. Then what decoding takes of a GPU that has
other work, and ResNets in mixed precision fed by PyTorch's DataLoader, DALI and Forebay's Loader.
What is done and counted: docs/benchmarks.md.
usage: ./dev bench gpu PHOTOS [--rounds N] [--rehearse]
--rehearse: on the CPU, as far as it goes and briefly, to see that all sides do the same work.
"""

import os
import subprocess
import sys
from pathlib import Path

from lib.peers_environment import PYTHON, install_peers

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """lib/gpu_program.py, where the peers are."""
    install_peers()
    paths = [ROOT / "bench", ROOT / "build/release/python"]
    environment = {**os.environ, "PYTHONPATH": ":".join(map(str, paths))}
    command = [str(PYTHON), "-m", "lib.gpu_program", *sys.argv[1:]]
    sys.exit(subprocess.run(command, env=environment).returncode)


if __name__ == "__main__":
    main()
