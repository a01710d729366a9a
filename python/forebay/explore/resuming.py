"""A study's flow on disk, with what its script's process had, so that another process can go on.

The functions and classes of a script are in the flow itself. Their digests are made from their
source, so that is kept too: the script may have changed by the time the study goes on.
"""

import contextlib
import linecache
import os
import pickle
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forebay.explore.journal import check_owner
from forebay.explore.pickling import pickled

_NAME = "flow.pkl"


@dataclass
class _Origin:
    """The process that wrote a flow."""

    script: str | None  # its file; None for an interpreter or a notebook
    folder: str  # the working directory; "" if it was removed
    path: list[str]  # of modules
    sources: dict[str, list[str]]  # the lines of the script, by the file's name in its code


def write_flow(folder: Path, flow: Any, arguments: dict[str, Any]) -> None:
    """Writes the flow of a study and the arguments of fx.run(), completely or not at all.

    Raises:
        OSError: The disk is full, or cannot be written.
    """
    script = getattr(sys.modules["__main__"], "__file__", None)
    files: set[str] = set()
    content = pickled((flow, arguments), take_file=files.add)
    sources = {name: linecache.getlines(name) for name in sorted({*files, *filter(None, [script])})}
    origin = _Origin(script, _working_folder(), sys.path, sources)
    made = folder / f"{_NAME}.new"
    made.write_bytes(pickle.dumps((origin, content)))
    os.replace(made, folder / _NAME)


@contextlib.contextmanager
def as_written(folder: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The flow of a study and the arguments of its last run, while this process stands in for the
    one that wrote them: with its working directory, its sys.path and its `__main__`.

    Raises:
        FileNotFoundError: The flow was never written.
        PermissionError: The study is another user's.
        ValueError: The flow cannot be read, such as when a module that it needs is gone.
    """
    path = folder / _NAME
    if not path.exists():
        raise FileNotFoundError(
            f"{folder}: the study's flow was never written; run its script again"
        )
    check_owner(folder)
    before = _working_folder(), list(sys.path), sys.modules["__main__"]
    try:
        try:
            origin, content = pickle.loads(path.read_bytes())
            _stand_in(origin)
            flow = pickle.loads(content)
        except OSError:
            raise
        except Exception as error:
            raise ValueError(
                f"{path}: the flow cannot be read ({type(error).__name__}: {error}); run the "
                "study's script again, which goes on like `resume`"
            ) from error
        yield flow
    finally:
        _go_to(before[0])
        sys.path[:] = before[1]
        sys.modules["__main__"] = before[2]


def _working_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _go_to(folder: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # only stages that need it fail without it
        os.chdir(folder)


def _stand_in(origin: _Origin) -> None:
    _go_to(origin.folder)
    sys.path[:] = origin.path
    main = types.ModuleType("__main__")
    if origin.script is not None:
        main.__file__ = origin.script
    sys.modules["__main__"] = main
    for name, lines in origin.sources.items():
        # Without a time, inspect takes these lines and does not look at the file.
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
