"""What the terminal shows while a flow runs."""

import contextlib
import fcntl
import os
import sys
import time
from collections import Counter
from types import TracebackType
from typing import Any

from forebay.explore.driver import Driver
from forebay.explore.judging import describe
from forebay.explore.plan import Choice, Plan

_LINE_EVERY_S = 10
_ROWS_MAX = 24
_ERRORS_MAX = 10
_ERROR_CHARACTERS_MAX = 500
_PIPE_BYTES = 1 << 20
_MARKS = {"open": "·", "kept": "✔", "dropped": "-", "skipped": "~", "stopped": "x", "failed": "✘"}


class Screen:
    """Shows the tree of branches on a terminal, and else a line from time to time."""

    def __init__(
        self,
        plan: Plan,
        driver: Driver,
        branches: int,
        mode: str,
        quiet: bool,
    ) -> None:
        self._plan = plan
        self._driver = driver
        self._engine = plan.engine
        self._branches = branches
        self.mode = mode
        self._quiet = quiet
        self._began_at = time.monotonic()
        self._next_line_at = 0.0
        self._notes_shown = 0
        self._errors_shown: set[str] = set()
        self._live: Any = None
        self._output: _Output | None = None

    def __enter__(self) -> "Screen":
        if self._quiet:
            return self
        self._say(self._before())
        if sys.stderr.isatty():
            try:
                from rich.console import Console
                from rich.live import Live
            except ImportError:
                return self
            self._live = Live(
                console=Console(stderr=True), auto_refresh=False, transient=True
            ).__enter__()
            self._output = _Output()
            self._driver.output = self._output.write_end
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._show_output(is_last=True)
            self._live.__exit__(kind, error, trace)
            self._live = None
        if self._output is not None:
            self._output.close()
            self._output = self._driver.output = None
        if not self._quiet and error is None:
            self._say(self._line())

    def note(self, text: str) -> None:
        """Says something that stays on the screen."""
        if not self._quiet:
            self._say(text)

    def show(self) -> None:
        """Shows the present state; called a few times a second."""
        for text in self._driver.progress.notes[self._notes_shown :]:
            self.note(text)
        self._notes_shown = len(self._driver.progress.notes)
        if self._quiet:
            return
        self._show_failures()
        self._show_output()
        now = time.monotonic()
        if self._live is not None:
            self._live.update(self._tree(), refresh=True)
        elif now >= self._next_line_at:
            if self._next_line_at > 0:
                self._say(self._line())
            self._next_line_at = now + _LINE_EVERY_S

    def _show_failures(self) -> None:
        """Shows each error once, where it came first."""
        for task, (error, _) in list(self._driver.judging.failures.items()):
            if error not in self._errors_shown and len(self._errors_shown) < _ERRORS_MAX:
                self._errors_shown.add(error)
                text = error.partition("\n")[0][:_ERROR_CHARACTERS_MAX]
                self.note(f"{describe(self._plan.tasks[task])} failed: {text}")

    def _show_output(self, *, is_last: bool = False) -> None:
        """Shows above the tree what stages have written."""
        if self._output is not None:
            from rich.text import Text

            for line in self._output.lines(is_last=is_last):
                self._live.console.print(Text.from_ansi(line))

    def _say(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        else:
            print(f"explore: {text}", file=sys.stderr, flush=True)

    def _before(self) -> str:
        """How much there is to do, said before it starts."""
        tasks = len(self._plan.tasks)
        forecast = self._engine.forecast("depth", 0)
        text = f"{self._branches:,} branches, {tasks:,} distinct stages, "
        text += f"{self._driver.workers} workers"
        if any(self._driver.is_known(planned) for planned in self._plan.tasks):
            left = forecast["tasks"]
            text += (
                f"; {left:,} stages are left, which take about {_time(forecast['seconds'])} and "
                f"{forecast['memory_peak_bytes'] / 1e6:,.0f} MB, as far as stages of their kind "
                "have run before"
            )
        else:
            text += "; how long they take is known when one of each kind has run"
        return text

    def _line(self) -> str:
        progress = self._driver.progress
        spent = time.monotonic() - self._began_at
        text = f"{progress.finished:,} stages done in {_time(spent)}"
        if progress.failed:
            text += f", {progress.failed:,} failed"
        states: Counter[str] = Counter()
        for choice in self._plan.choices:
            states.update(member.state for member in choice.members.values())
        text += "; branches: " + ", ".join(f"{n:,} {state}" for state, n in states.items())
        best = self._best(self._plan.choices[0])
        name = "best" if self.mode == "exact" else "best found (heuristic)"
        return text + (f"; {name} {best}" if best else "")

    def _best(self, choice: Choice) -> str:
        scored = [m for m in choice.members.values() if m.score is not None]
        kind = choice.choose.selector.kind
        if not scored or kind not in ("top", "bottom"):
            return ""
        sign = 1 if kind == "top" else -1
        best = max(scored, key=lambda m: (sign * (m.score or 0), -m.listed))
        return f"{best.score:.4g} with {best.config}"

    def _tree(self) -> Any:
        from rich.tree import Tree

        expected = self._engine.forecast("depth", 0)["seconds"]
        root = Tree(f"{self._line()}; about {_time(expected)} left")
        for worker, text in sorted(self._driver.progress.current.items()):
            root.add(f"worker {worker}: {text}", style="dim")
        for choice in self._plan.choices[:_ROWS_MAX]:
            self._add(root, choice)
        return root

    def _add(self, root: Any, choice: Choice) -> None:
        members = [one for _, one in sorted(choice.members.items())]
        chosen = f" for {choice.outer}" if choice.outer else ""
        branch = root.add(f"choose {choice.choose.selector} by {_by(choice)}{chosen}")
        groups: dict[str, list[Any]] = {}
        for member in members:
            name = next((f"{k}={v}" for k, v in member.config.items()), "branch")
            groups.setdefault(name[:60], []).append(member)
        for name, group in list(groups.items())[:_ROWS_MAX]:
            marks = "".join(_MARKS[member.state] for member in group[:100])
            branch.add(f"{name}  {marks}")


class _Output:
    """What workers write to a terminal, which would tear up the tree there."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        with contextlib.suppress(OSError):  # this user has many large pipes
            fcntl.fcntl(self._read_end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._begun = b""  # a line without its end

    def lines(self, *, is_last: bool = False) -> list[str]:
        """The lines since the last call; of a line that overwrites itself, what it was last.

        Args:
            is_last: Takes a line without an end too.
        """
        content = self._begun
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._read_end, _PIPE_BYTES):
                content += piece
        *lines, begun = content.split(b"\n")
        if is_last and begun:
            lines, begun = [*lines, begun], b""
        # A carriage return at its end may be followed by the line's end.
        self._begun = (begun[:-1].rpartition(b"\r")[2] + begun[-1:])[-_PIPE_BYTES:]
        return [line.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace") for line in lines]

    def close(self) -> None:
        """Ends it, when no worker is left."""
        os.close(self._read_end)
        os.close(self.write_end)


def _by(choice: Choice) -> str:
    by = choice.choose.by
    return by if isinstance(by, str) else by.stage.name


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
