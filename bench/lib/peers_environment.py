"""The virtual environment with the peers of bench/peers.txt."""

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PEERS_TXT = ROOT / "bench/peers.txt"
ENVIRONMENT = ROOT / "build/peers"
PYTHON = ENVIRONMENT / "bin/python"


def install_peers() -> None:
    """Makes the environment; says which of the peers cannot be installed."""
    wanted = PEERS_TXT.read_text()
    stamp = ENVIRONMENT / "peers.sha256"
    checksum = hashlib.sha256(wanted.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == checksum:
        return
    print("installing the peers into build/peers", file=sys.stderr, flush=True)
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    pip = [str(PYTHON), "-m", "pip", "install", "-qq"]
    if subprocess.run([*pip, "-r", str(PEERS_TXT)], stdout=sys.stderr).returncode == 0:
        stamp.write_text(checksum)
        return
    for line in wanted.splitlines():
        if line.startswith("#"):
            continue
        if subprocess.run([*pip, line], stdout=sys.stderr).returncode != 0:
            print(f"CANNOT BE INSTALLED: {line}", file=sys.stderr, flush=True)
