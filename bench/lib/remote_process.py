"""A side of bench/remote.py in a process of its own, and what it takes, measured from outside."""

import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lib.comparison import Side
from lib.peers_environment import PYTHON
from lib.remote_servers import Link
from lib.side_process import ANSWER_SECONDS_MAX, SideError, cpu_seconds, environment, last_line


class RemoteProcess(Side):
    """A loader of lib/remote_program.py, which waits for its turns.

    Args:
        name: Names it in messages and in its log.
        side: One of lib.remote_program.SIDES.
        url: What it reads.
        folder: For its log and its caches.
        link: What it reads through; None: loopback, without a limit.
        variables: Added to its environment.
        epochs: How many a turn has: first those that warm up, and then those that count.
    """

    # The mean and the deviation of all numbers of an epoch may differ by so much from Forebay's.
    differences_max = (0.1, 0.1)

    def __init__(
        self,
        name: str,
        side: str,
        url: str,
        folder: Path,
        link: Link | None,
        variables: Mapping[str, str],
        epochs: tuple[int, int] = (0, 1),
    ) -> None:
        self.name, self.link = name, link
        self.warm_up, self.epochs = epochs
        self.log = folder / f"{name}.log"
        before: Sequence[str] = link.command() if link else []
        command = [*before, str(PYTHON), "-m", "lib.remote_program", side, url, str(folder)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log.open("a"),
            env={**environment(), **variables}, text=True, start_new_session=True,
        )  # fmt: skip

    def turn(self) -> list[dict[str, Any]]:
        """Runs `warm_up` epochs and then `epochs` more; returns what was counted of each.

        Those of run() in lib/remote_program.py, "cpu_seconds", and over a link "received" and
        "sent" in bytes of its interface.
        """
        return self.run(self.warm_up + self.epochs, check=False)

    def run(
        self, epochs: int, *, check: bool, seconds_max: float = ANSWER_SECONDS_MAX
    ) -> list[dict[str, Any]]:
        """Like turn(), with so many epochs; `check` also gives "hash", "mean" and "std".

        The loader ends after its first batch where `epochs` is 0.
        """
        assert self._process.stdin
        counts = self._counts()
        try:
            self._process.stdin.write(json.dumps({"epochs": epochs, "check": check}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise SideError(f"{self.name}: {last_line(self.log)}") from error
        taken = []
        for _ in range(max(epochs, 1)):
            said = self._answer(seconds_max)
            now = self._counts()
            taken.append(said | {key: now[key] - counts[key] for key in now})
            counts = now
        return taken

    def first_batch(self, seconds_max: float) -> dict[str, Any]:
        """How long the first batch takes from opening on, and the counts until then.

        One that takes longer than `seconds_max` counts as taking so long.
        """
        counts = self._counts()
        try:
            return self.run(0, check=False, seconds_max=seconds_max)[0]
        except TimeoutError:
            now = self._counts()
            return {"first_batch_seconds": seconds_max} | {
                key: now[key] - counts[key] for key in now
            }

    def _answer(self, seconds_max: float) -> dict[str, Any]:
        assert self._process.stdout
        if not select.select([self._process.stdout], [], [], seconds_max)[0]:
            raise TimeoutError(f"{self.name}: no answer for {seconds_max} s")
        if not (answer := self._process.stdout.readline()):
            raise SideError(f"{self.name}: {last_line(self.log)}")
        return json.loads(answer)

    def _counts(self) -> dict[str, float]:
        counts = {"cpu_seconds": cpu_seconds(self._process.pid)}
        if self.link:
            counts["received"], counts["sent"] = self.link.bytes()
        return counts

    def end(self) -> None:
        """Ends the process and those that it started."""
        with contextlib.suppress(subprocess.TimeoutExpired, BrokenPipeError):
            self._process.communicate(timeout=20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
