"""The virtual environment with the peers of bench/peers.txt, and the Debian packages they need."""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PEERS_TXT = ROOT / "bench/peers.txt"
ALONE_TXT = ROOT / "bench/peers_alone.txt"
PACKAGES_TXT = ROOT / "bench/peers_packages.txt"
TORCHVISION_ON_CPU = ROOT / "scripts/torchvision_on_cpu.py"
ENVIRONMENT = ROOT / "build/peers"
PYTHON = ENVIRONMENT / "bin/python"


def _names(path: Path) -> list[str]:
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def install_packages() -> None:
    """Installs the Debian packages, where that is allowed; else says how to."""
    if not shutil.which("dpkg-query"):
        print(f"not a Debian system: {PACKAGES_TXT} lists what peers need", file=sys.stderr)
        return
    query = ["dpkg-query", "-W", "-f", "${db:Status-Status}"]
    missing = [
        name
        for name in _names(PACKAGES_TXT)
        if subprocess.run([*query, name], capture_output=True, text=True).stdout != "installed"
    ]
    if not missing:
        return
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
    if os.geteuid() != 0:
        print(f"peers need these Debian packages: sudo {' '.join(install)}", file=sys.stderr)
        return
    print(f"installing {len(missing)} Debian packages", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-qq"], install):
        subprocess.run(command, stdout=subprocess.DEVNULL, env=environment)


def run_among_peers() -> None:
    """Starts this program again in the peers' environment, installing it, unless it runs there."""
    if Path(sys.prefix) != ENVIRONMENT:
        install_peers()
        os.execv(PYTHON, [str(PYTHON), *sys.argv])


def install_peers() -> None:
    """Makes the environment; says which of the peers cannot be installed."""
    lists = [PEERS_TXT, ALONE_TXT, PACKAGES_TXT, TORCHVISION_ON_CPU]
    stamp = ENVIRONMENT / "peers.sha256"
    checksum = hashlib.sha256(b"".join(path.read_bytes() for path in lists)).hexdigest()
    if stamp.exists() and stamp.read_text() == checksum:
        return
    install_packages()
    print("installing the peers into build/peers", file=sys.stderr, flush=True)
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    pip = [str(PYTHON), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    complete = True

    def install(*what: str) -> bool:
        return subprocess.run([*pip, *what], stdout=sys.stderr).returncode == 0

    if not install("-r", str(PEERS_TXT)):
        for name in _names(PEERS_TXT):
            if not install(name):
                print(f"CANNOT BE INSTALLED: {name}", file=sys.stderr, flush=True)
                complete = False
    for name in _names(ALONE_TXT):
        if not install("--no-deps", "--no-build-isolation", name):
            print(f"CANNOT BE INSTALLED: {name}", file=sys.stderr, flush=True)
            complete = False
    subprocess.run([PYTHON, TORCHVISION_ON_CPU], check=True)
    if complete:
        stamp.write_text(checksum)
