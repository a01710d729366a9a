"""What earlier runs of a study have left: the numbers of its journal, and results in files."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any


class Earlier:
    """What earlier runs of a study have computed."""

    def __init__(self, events: Iterable[dict[str, Any]], folder: Path) -> None:
        self._folder = folder
        self._done: dict[str, dict[str, Any]] = {}
        self._reports: dict[str, dict[int, dict[str, float]]] = {}  # of trainings, by step
        self.codes: dict[str, dict[str, str]] = {}  # of each stage, the newest
        self.proposed: dict[str, list[dict[str, Any]]] = {}  # the trials of samplers, by their key
        for event in events:
            if event["kind"] == "done":
                self._done[event["id"]] = event
            elif event["kind"] == "code":
                self.codes[event["stage"]] = event["parts"]
            elif event["kind"] == "reported":
                self._reports.setdefault(event["id"], {})[event["step"]] = event["metrics"]
            elif event["kind"] == "proposed":
                self.proposed.setdefault(event["key"], []).append(event["params"])

    def of(self, identity: str) -> dict[str, Any]:
        """What the engine must know of a result of an earlier run; empty if there is none."""
        event = self._done.get(identity)
        if event is None:
            return {}
        return {
            "is_done": True,
            "on_disk": result_path(self._folder, identity).exists(),
            "bytes": event["bytes"],
            "seconds": event["seconds"],
        }

    def metrics(self, identity: str) -> dict[str, float] | None:
        """The metrics of an earlier run's result."""
        event = self._done.get(identity)
        return None if event is None else event["metrics"]

    def reports(self, identity: str) -> dict[int, dict[str, float]]:
        """The reports of a training on its way in earlier runs, by their numbers."""
        return self._reports.get(identity, {})

    def seconds(self, identity: str) -> float:
        """How long a result took; 0 if it is not known."""
        event = self._done.get(identity)
        return 0.0 if event is None else float(event["seconds"])

    def add(self, event: dict[str, Any]) -> None:
        """Adds a result of this run."""
        self._done[event["id"]] = event


def result_path(folder: Path, identity: str) -> Path:
    """The file of a result."""
    return folder / "results" / identity[:2] / identity[2:]
