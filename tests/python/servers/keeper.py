"""Keeps a run's servers: the process between pytest's workers and a server that they share.

The first worker that asks for a server starts a keeper. The keeper starts the server, and when the
run's main process has ended, however that happened, it ends the server and deletes its data. A
keeper that is killed takes its server with it.
"""

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from . import ceph, nginx
from .processes import StartError

HERE = Path(__file__).resolve().parent


def shared(kind: str, folder: Path) -> dict[str, Any]:
    """Returns the description of the run's server of this kind, and starts it if nobody has yet.

    All workers of a run pass the same folder. A server that could not be started is not tried
    again: each call raises the StartError of the first.
    """
    folder.mkdir(exist_ok=True)
    with (folder / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = folder / f"{kind}.json"
        if not state.exists():
            state.write_text(start_keeper(kind, folder / kind))
    description = json.loads(state.read_text())
    if "error" in description:
        raise StartError(description["error"])
    return description


def start_keeper(kind: str, folder: Path) -> str:
    """Starts a keeper and returns the line that it prints when its server is ready or failed."""
    # A worker of pytest-xdist is a child of the run's main process.
    main = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    folder.mkdir()
    keeper = subprocess.Popen(
        [sys.executable, "-m", "servers.keeper", kind, folder, str(main)],
        cwd=HERE.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert keeper.stdout is not None
    with keeper.stdout:
        line = keeper.stdout.readline()
    # The keeper outlives this call on purpose, so Popen must not warn about that.
    keeper.returncode = 0
    return line or json.dumps({"error": f"the keeper of {kind} ended before the server was ready"})


def server_of(kind: str, folder: Path) -> AbstractContextManager[nginx.Nginx | ceph.S3]:
    """Returns the context in which a server of this kind runs."""
    return nginx.run_nginx(folder) if kind == "nginx" else ceph.run_ceph(folder)


def end_with(main: int) -> None:
    """Ends this process when the process of the file descriptor `main` has ended."""
    select.select([main], [], [])
    os.kill(os.getpid(), signal.SIGTERM)


def keep(kind: str, folder: Path, main: int) -> None:
    """Runs a server until the process `main` has ended; prints its description when it is ready."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    threading.Thread(target=end_with, args=(os.pidfd_open(main),), daemon=True).start()
    try:
        with server_of(kind, folder) as server:
            print(json.dumps(server.describe()), flush=True)
            signal.pause()
    except StartError as error:
        print(json.dumps({"error": str(error)}), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    keep(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
