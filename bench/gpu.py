"""Decoding on a GPU, side by side: Forebay's kernels, nvJPEG, DALI and torchvision.

The sides take the same photographs and the same random crops from this machine's memory to the
GPU's, with all cores, in turns; the best of the rounds counts, and the results are compared. Then
follow the share of a GPU that decoding takes from other work, and the training of ResNets in mixed
precision, fed by PyTorch's DataLoader, DALI and Forebay's Loader. docs/benchmarks.md says what is
done and counted.
usage: ./dev bench gpu PHOTOS [--rounds N] [--rehearse]
--rehearse: runs briefly on the CPU, as far as that goes, to see that all sides do the same work.
"""

import os
import subprocess
import sys
from pathlib import Path

from lib.peers_environment import PYTHON, install_peers

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Runs lib/gpu_program.py in the environment of the peers."""
    install_peers()
    paths = [ROOT / "bench", ROOT / "build/release/python"]
    environment = {**os.environ, "PYTHONPATH": ":".join(map(str, paths))}
    command = [str(PYTHON), "-m", "lib.gpu_program", *sys.argv[1:]]
    sys.exit(subprocess.run(command, env=environment).returncode)


if __name__ == "__main__":
    main()
