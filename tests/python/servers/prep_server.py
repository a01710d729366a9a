"""`forebay prep --serve` as a process of a test."""

import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from conftest import FOREBAY


class PrepServer:
    """A prep server that serves a dataset; `url` is what a loader is given."""

    def __init__(
        self,
        dataset: Path | str,
        *options: str,
        port: int = 0,
        address: str = "127.0.0.1",
        prefix: Sequence[str] = (),
    ) -> None:
        """Starts it, with the programs of `prefix` before it, and waits until it serves."""
        listen = ["--listen", f"{address}:{port}"]
        self.process = subprocess.Popen(
            [*prefix, FOREBAY, "prep", str(dataset), "--serve", *listen, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        self.said = self.process.stdout.readline()
        second = self.process.stdout.readline()
        found = re.fullmatch(r"serving at (https://127\.0\.0\.[12]:(\d+))\n", second)
        assert found, (self.said, second, self.process.stderr.read())
        self.url, self.port = found[1], int(found[2])

    def stop(self) -> str:
        """Asks it to end, which it must do in time and in order; returns what it said last."""
        self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=20)
        assert self.process.returncode == 0
        return said

    def kill(self) -> None:
        """Ends it at once, as often as one likes."""
        self.process.kill()
        self.process.communicate(timeout=20)

    def pause(self) -> None:
        """Makes it stand still, as a machine does that hangs."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Ends the pause."""
        self.process.send_signal(signal.SIGCONT)
