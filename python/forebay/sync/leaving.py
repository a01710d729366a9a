"""Whether a script ends because it has failed, which functions of atexit are not told."""

import sys
from typing import Any, NoReturn

_exit: Any = None  # Python's own sys.exit(), once this module stands in for it
_status: Any = None  # what the script has passed to it last


def watch_exits() -> None:
    """Notes from now on with which status the script calls sys.exit().

    A process of torch.multiprocessing.spawn() calls it, too, after its function has raised.
    """
    global _exit
    if _exit is None:
        _exit, sys.exit = sys.exit, _exit_and_note


def has_failed() -> bool:
    """Whether an exception, or sys.exit() with a status other than 0, ends the process."""
    return hasattr(sys, "last_value") or _status not in (None, 0)


def _exit_and_note(status: Any = None, /) -> NoReturn:
    global _status
    _status = status
    _exit(status)
    raise AssertionError  # sys.exit() does not return
