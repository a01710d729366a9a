"""`forebay explore`: looks at a study, and goes on with one that was interrupted."""

import argparse
import io
import os
import sys
from pathlib import Path
from typing import Any

from forebay.explore.journal import read_journal
from forebay.explore.resuming import as_written
from forebay.explore.study import run

_FAILED, _WRONG_USAGE, _STOPPED = 1, 2, 130  # docs/errors.md


def main(words: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser("forebay explore", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("status", "what is done, and which branches are best"),
        ("why", "why a branch has its state, with the traceback if it failed"),
        ("resume", "goes on with a study that was interrupted"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("study", help="the study's folder")
        if name == "why":
            command.add_argument("branch", help='its settings: "lr=0.1,decay=0", or its number')
    args = parser.parse_args(words)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # labels and errors may hold anything
    folder = Path(args.study)
    try:
        if args.command == "resume":
            return _resume(folder)
        events = read_journal(folder)
        return _status(events) if args.command == "status" else _why(events, args.branch)
    except (OSError, ValueError, RuntimeError, MemoryError) as error:
        print(f"forebay explore: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        return _STOPPED


def _resume(folder: Path) -> int:
    read_journal(folder)  # says what is wrong with another folder
    folder = folder.absolute()
    with as_written(folder) as (flow, arguments):
        study = run(flow, out=folder, **arguments)
    for branch in study.kept:
        print(f"{branch.value:.6g}  {_config(branch.config)}")
    return 0 if study.kept else _FAILED


def _last_run(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    begins = [number for number, event in enumerate(events) if event["kind"] == "run"]
    return events[begins[-1] :] if begins else []


def _branches(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The newest event of each branch in the last run."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for event in _last_run(events):
        if event["kind"] == "branch":
            found[event["choice"], event["listed"]] = event
    return [found[key] for key in sorted(found)]


def _status(events: list[dict[str, Any]]) -> int:
    last = _last_run(events)
    if not last:
        print("the study has not begun to run")
        return 0
    done = [event for event in events if event["kind"] == "done"]
    ended = any(event["kind"] == "end" for event in last)
    branches = _branches(events)
    print(
        f"{last[0]['branches']} branches, mode {last[0]['mode']}; the last run "
        + ("is complete" if ended else "is not complete")
    )
    print(f"{len(done)} stages computed in {sum(event['seconds'] for event in done):.1f} s")
    for state in ("kept", "dropped", "skipped", "stopped", "failed"):
        count = sum(event["state"] == state for event in branches)
        if count:
            print(f"{count} {state}")
    for event in last:
        if event["kind"] == "note":
            print(f"note: {event['text']}")
    for event in branches:
        if event["state"] == "kept":
            print(f"kept: {event['score']:.6g}  {_config(event['config'])}")
    return 0


def _why(events: list[dict[str, Any]], name: str) -> int:
    branches = _branches(events)
    if name.isdigit():
        wanted = [event for event in branches if event["listed"] == int(name)]
    else:
        pairs = [part.partition("=") for part in name.split(",")]
        settings = {key.strip(): value.strip() for key, _, value in pairs}
        wanted = [event for event in branches if _has(event["config"], settings)]
    if not wanted:
        raise ValueError(f"no branch that has been judged has {name}; `status` counts the branches")
    texts = {
        "kept": "it was chosen",
        "dropped": "other branches score better",
        "skipped": "it was not run: it could not be chosen whatever its score",
        "stopped": "it was ended early",
        "failed": "it failed",
    }
    failed = {event["error"]: event["traceback"] for event in events if event["kind"] == "failed"}
    for event in wanted:
        score = "" if event["score"] is None else f" with score {event['score']:.6g}"
        print(
            f"{event['listed']}: {_config(event['config'])}: {event['state']}{score}: "
            f"{event['why'] or texts[event['state']]}"
        )
        for error, traceback in failed.items():
            if event["why"].endswith(error):
                print(traceback)
    return 0


def _has(config: dict[str, Any], settings: dict[str, str]) -> bool:
    def is_equal(value: Any, text: str) -> bool:
        try:
            return bool(str(value) == text or f"{float(value):g}" == f"{float(text):g}")
        except (TypeError, ValueError):
            return False

    return all(key in config and is_equal(config[key], text) for key, text in settings.items())


def _config(config: dict[str, Any]) -> str:
    return ", ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in config.items()
    )


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
