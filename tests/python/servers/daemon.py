"""`forebay cache --serve` as a process of a test, and what its status server says."""

import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conftest import FOREBAY

from .processes import wait_for


class Daemon:
    """A daemon that serves a folder; `url` is that of its page."""

    def __init__(
        self,
        datasets: Sequence[str],
        folder: Path,
        *options: str,
        env: dict[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        """Starts it, with the programs of `prefix` before it, and waits until it serves."""
        self.folder = folder
        self.process = subprocess.Popen(
            [*prefix, FOREBAY, "cache", *datasets, "--serve", "--folder", folder, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        self.said = self.process.stdout.readline()
        second = self.process.stdout.readline()
        found = re.fullmatch(r"status: (http://\S+/)\?token=([0-9a-f]{64})\n", second)
        assert found, (self.said, second, self.process.stderr.read())
        self.url, self.token = found[1], found[2]

    def page(self, path: str = "") -> str:
        """Returns the address of a page of its status server, with the token."""
        return f"{self.url}{path}?token={self.token}"

    def get(self, path: str) -> str:
        """Returns what its status server answers."""
        with urllib.request.urlopen(self.page(path), timeout=10) as answer:
            return answer.read().decode()

    def machines(self) -> list[dict[str, Any]]:
        """Returns the figures of all machines that it knows, its own first."""
        return json.loads(self.get("status.json"))["machines"]

    def figures(self) -> dict[str, Any]:
        """Returns its machine's figures."""
        return self.machines()[0]

    def sees(self, machines: int) -> None:
        """Waits until it knows so many machines by what they say of themselves."""
        wait_for(lambda: [m.get("members") for m in self.machines()] == [machines] * machines)

    def stop(self) -> None:
        """Asks it to end, which it must do in time and in order."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=20) == 0

    def kill(self) -> None:
        """Ends it at once, as often as one likes."""
        self.process.kill()
        self.process.communicate(timeout=20)
