"""Servers that a test starts: whether they are installed, their ports, their start and end."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

# Debian puts servers where the PATH of ordinary users does not lead.
PROGRAM_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
LOOPBACK = "127.0.0.1"
# The kernel takes ports of outgoing connections from above these.
PORTS = range(20000, 32000)
# Ceph's programs read variables of their own, which may name another cluster.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("CEPH_")},
    "PATH": PROGRAM_PATH,
}


class StartError(RuntimeError):
    """A server did not start; the message says which, why, and shows the end of its log."""


def missing_packages(packages_by_program: dict[str, str]) -> list[str]:
    """Returns the Debian packages of those programs that are not installed."""
    absent = {
        package
        for program, package in packages_by_program.items()
        if shutil.which(program, path=PROGRAM_PATH) is None
    }
    return sorted(absent)


def free_port(host: str = LOOPBACK) -> int:
    """Returns a port of an address of this machine that nobody listens on."""
    for port in random.SystemRandom().sample(PORTS, 100):
        with socket.socket() as probe:
            # A port whose last connections have just ended is free, as it is for the servers.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise StartError(f"none of 100 ports from {PORTS.start} to {PORTS.stop - 1} is free")


def run(command: Sequence[str | Path], **options) -> str:
    """Runs a program to its end and returns its output; raises StartError if it fails."""
    words = " ".join(map(str, command))
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=ENVIRONMENT,
            timeout=60,
            **options,
        )
    except subprocess.TimeoutExpired:
        raise StartError(f"not done after a minute: {words}") from None
    if done.returncode != 0:
        raise StartError(f"failed: {words}\n{done.stdout[-2000:]}")
    return done.stdout


def start(command: Sequence[str | Path], log: Path) -> subprocess.Popen:
    """Starts a server in a process group of its own, with its output in `log`.

    The kernel ends the server when the thread that called this ends, however that happens.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=ENVIRONMENT,
        )


def wait_until(ready: Callable[[], bool], server: subprocess.Popen, log: Path) -> None:
    """Waits until a server is ready; raises StartError if it ends or needs more than a minute."""
    name = log.stem
    deadline = time.monotonic() + 60
    while not ready():
        if server.poll() is not None:
            raise StartError(f"{name} ended with status {server.returncode}:\n{end_of(log)}")
        if time.monotonic() > deadline:
            raise StartError(f"{name} is not ready after a minute:\n{end_of(log)}")
        time.sleep(0.02)


def end_of(log: Path) -> str:
    """Returns the last lines of a server's log."""
    return log.read_text(errors="replace")[-2000:] if log.exists() else "(there is no log)"


def listens(port: int, host: str = LOOPBACK) -> bool:
    """Returns whether a server accepts connections on this port of an address."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0


def kill(server: subprocess.Popen) -> None:
    """Ends a server and what it started at once, like a machine that loses its power."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def wait_for(condition: Callable[[], bool]) -> None:
    """Waits until a condition holds; fails after 20 s."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
