"""The worker processes of a run, as the driver sees them."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from forebay.explore import messages

# Where this package lies, whatever the working directory is by then.
_PACKAGES = str(Path(__file__).absolute().parents[2])
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def end_with_parent() -> None:
    """Lets the kernel kill this process when the one that started it ends, however that ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


# A preexec_fn of subprocess would do the same, but may hang where other threads run.
_END_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""


def ending_with_this(command: list[str]) -> list[str]:
    """A command that runs `command`, and that the kernel kills when this process ends."""
    return [sys.executable, "-I", "-S", "-c", _END_WITH_PARENT, str(os.getpid()), *command]


@dataclass
class WorkerProcess:
    """One worker process. `task` is what it runs, None if it is idle."""

    number: int
    process: subprocess.Popen[bytes]
    connection: Connection
    task: int | None = None
    began_at: float = 0
    deadline: float | None = None
    made: messages.Made | None = None

    @classmethod
    def begin(cls, number: int, threads: int, output: int | None = None) -> "WorkerProcess":
        """Starts a worker process.

        Args:
            number: Of the worker.
            threads: How many threads its stages compute with.
            output: A descriptor that gets what it would write to a terminal; None: the terminal.
        """
        own, others = socket.socketpair()
        environment = {**os.environ}
        paths = [_PACKAGES, *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            environment[name] = str(threads)
        # Threads that wait for each other by spinning take the cores of other workers.
        environment.setdefault("OMP_WAIT_POLICY", "passive")
        command = [sys.executable, "-m", "forebay.explore.worker"]
        process = subprocess.Popen(
            [*command, str(others.fileno()), str(os.getpid())],
            pass_fds=[others.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,  # a stage that asks for input must fail, not wait
            stdout=output if os.isatty(1) else None,
            stderr=output if os.isatty(2) else None,
            start_new_session=True,  # end() ends what stages have started too
        )
        others.close()
        connection = Connection(own.detach())
        has_torch = "torch" in sys.modules
        connection.send({"path": sys.path, "threads": threads, "torch": has_torch})
        return cls(number, process, connection)

    def send(self, message: messages.Message) -> None:
        """Sends a message; that the process has ended is seen when its answer is awaited."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(message)

    def take(self, descriptor: int) -> int:
        """Takes over a descriptor of the worker's; returns this process's own."""
        own = os.open(f"/proc/{self.process.pid}/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        self.send(messages.Taken())
        return own

    def end(self) -> str:
        """Ends the process and the processes that its stages have started and left running.

        Returns how the process ended, for people; it may have ended before.
        """
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        self.connection.close()
        if code == -signal.SIGKILL:
            return f"by signal {-code} (memory may have run out)"
        return f"by signal {-code}" if code < 0 else f"with exit code {code}"
