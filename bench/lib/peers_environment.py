"""Virtual environments in build/ with the peers that benchmarks compare with.

Most benchmarks use the one with the peers of bench/peers.txt, and the Debian packages they need.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PEERS_TXT = ROOT / "bench/peers.txt"
ALONE_TXT = ROOT / "bench/peers_alone.txt"
PACKAGES_TXT = ROOT / "bench/peers_packages.txt"
TORCHVISION_ON_CPU = ROOT / "scripts/torchvision_on_cpu.py"
ENVIRONMENT = ROOT / "build/peers"
PYTHON = ENVIRONMENT / "bin/python"
EXPLORE_TXT = ROOT / "bench/explore_peers.txt"
EXPLORE_ENVIRONMENT = ROOT / "build/explore_peers"
EXPLORE_PYTHON = EXPLORE_ENVIRONMENT / "bin/python"


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
    if _is_installed(ENVIRONMENT, lists):
        return
    install_packages()
    complete = _install(ENVIRONMENT, PEERS_TXT)
    for name in _names(ALONE_TXT):
        if not _pip(ENVIRONMENT, "--no-deps", "--no-build-isolation", name):
            print(f"CANNOT BE INSTALLED: {name}", file=sys.stderr, flush=True)
            complete = False
    subprocess.run([PYTHON, TORCHVISION_ON_CPU], check=True)
    if complete:
        _stamp(ENVIRONMENT).write_text(_checksum(lists))


def install_explore_peers() -> None:
    """Makes the environment of bench/explore.py; says which of its peers cannot be installed."""
    lists = [EXPLORE_TXT]
    if not _is_installed(EXPLORE_ENVIRONMENT, lists) and _install(EXPLORE_ENVIRONMENT, EXPLORE_TXT):
        _stamp(EXPLORE_ENVIRONMENT).write_text(_checksum(lists))


def _stamp(environment: Path) -> Path:
    return environment / "peers.sha256"


def _checksum(lists: Sequence[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in lists)).hexdigest()


def _is_installed(environment: Path, lists: Sequence[Path]) -> bool:
    stamp = _stamp(environment)
    return stamp.exists() and stamp.read_text() == _checksum(lists)


def _install(environment: Path, peers: Path) -> bool:
    """Makes an environment with all peers that can be installed; returns whether all can be."""
    print(f"installing the peers into build/{environment.name}", file=sys.stderr, flush=True)
    venv.create(environment, clear=True, with_pip=True)
    if _pip(environment, "-r", str(peers)):
        return True
    complete = True
    for name in _names(peers):
        if not _pip(environment, name):
            print(f"CANNOT BE INSTALLED: {name}", file=sys.stderr, flush=True)
            complete = False
    return complete


def _pip(environment: Path, *what: str) -> bool:
    pip = [str(environment / "bin/python"), "-m", "pip", "install", "-qq"]
    command = [*pip, "--disable-pip-version-check", *what]
    return subprocess.run(command, stdout=sys.stderr).returncode == 0
