"""Writes a page that shows samples as they are stored, and as training gets them.

`forebay show photos/train --out page.html` shows the usual transform for training. With
`--transform recipe.py:train` it shows the transform `train` of recipe.py: a list of Forebay's
transforms, one of torchvision's, or a function without arguments that returns one of these.
"""

import argparse
import functools
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from forebay import _core
from forebay.data.dataset import Dataset
from forebay.data.storage import add_storage_option
from forebay.preview.sheet import show

# Files that are not the user's: this package, Python's own modules; and installed packages.
_NOT_THE_USERS = (str(Path(__file__).parents[1]), os.path.dirname(os.__file__), "<")
_FAILED, _WRONG_USAGE, _STOPPED = 1, 2, 130  # docs/errors.md


def transform_of(spec: str) -> Any:
    """The transform that FILE.py:NAME or MODULE:NAME names.

    Raises:
        ValueError: There is no such transform; the message says why.
    """
    where, _, name = spec.rpartition(":")
    if not where or not name:
        raise ValueError(f"--transform is {spec!r}, but must be FILE.py:NAME or MODULE:NAME")
    is_file = where.endswith(".py") or os.sep in where
    if is_file and not os.path.isfile(where):
        raise ValueError(f"--transform: there is no file {where}")
    load = _module_of_file if is_file else importlib.import_module
    module = _run(where, functools.partial(load, where))
    if not hasattr(module, name):
        raise ValueError(f"--transform: {where} has no {name!r}")
    value = getattr(module, name)
    made = _run(spec, value) if _returns_transform(value) else value
    if made is None:
        raise ValueError(f"--transform: {spec} is None, which is not a transform")
    return made


def _module_of_file(path: str) -> ModuleType:
    """Runs a file like `python FILE`, but with another __name__."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("forebay_shown", path)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file, whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _returns_transform(value: Any) -> bool:
    """Whether a value is called without arguments to get the transform."""
    if not (
        inspect.isroutine(value) or inspect.isclass(value) or isinstance(value, functools.partial)
    ):
        return False
    try:
        inspect.signature(value).bind()
    except (TypeError, ValueError):
        return False
    return True


def _run(what: str, function: Callable[[], Any]) -> Any:
    """Calls the user's code; whatever it raises becomes a ValueError."""
    try:
        return function()
    except (Exception, SystemExit) as error:
        raise ValueError(f"--transform: {what} failed: {_told(error)}") from None


def _told(error: BaseException) -> str:
    """An error's kind and message, and where in the user's code it came up."""
    return f"{type(error).__name__}: {error}{_place(error)}"


def _place(error: BaseException) -> str:
    """The last line of the user's code in an error's traceback; empty if there is none."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_THE_USERS) and "site-packages" not in frame.filename
    ]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("forebay show", description=__doc__, allow_abbrev=False)
    parser.add_argument("dataset", help="a packed dataset, a folder of images, or tar shards")
    parser.add_argument("--transform", metavar="FILE.py:NAME", help="the transform; or MODULE:NAME")
    parser.add_argument("--annotations", metavar="PATH", help="COCO's file or YOLO's folder")
    parser.add_argument("--masks", metavar="FOLDER", help="the images' masks")
    parser.add_argument(
        "--mask-names", nargs=2, metavar=("IMAGE", "MASK"), help="patterns of both names, with {}"
    )
    parser.add_argument("--samples", type=int, default=12, help="how many samples (12)")
    parser.add_argument("--draws", type=int, default=4, help="how many epochs of each (4)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the choice and the draws (0)")
    parser.add_argument("--out", required=True, metavar="PAGE.html", help="the page's file")
    add_storage_option(parser)
    return parser.parse_args()


def _judged(error: Exception) -> tuple[int, str]:
    """The exit status and the message for an error."""
    if _place(error):
        return _WRONG_USAGE, f"the transform failed: {_told(error)}"
    names = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
    is_argument = isinstance(error, ValueError) and not isinstance(error, _core.DataError)
    if is_argument or isinstance(error, names):
        return _WRONG_USAGE, str(error)
    is_known = isinstance(error, _core.DataError | OSError | MemoryError)
    return _FAILED, str(error) if is_known else _told(error)


def _say(message: object, *_: Any, **__: Any) -> None:
    text = str(message).removeprefix("show: ")
    print(f"forebay show: {text}", file=sys.stderr)


def main() -> None:
    """Runs the command line."""
    args = _arguments()
    warnings.showwarning = _say
    try:
        transform = None if args.transform is None else transform_of(args.transform)
        show(
            Dataset(
                args.dataset,
                annotations=args.annotations,
                masks=args.masks,
                mask_names=args.mask_names,
                storage_options=dict(args.storage_options),
            ),
            transform,
            out=args.out,
            samples=args.samples,
            draws=args.draws,
            seed=args.seed,
        )
    except KeyboardInterrupt:
        sys.exit(_STOPPED)
    except Exception as error:  # also from the user's functions
        status, message = _judged(error)
        _say(message)
        sys.exit(status)
    name = os.fsencode(args.out).decode(errors="backslashreplace")  # it may not be UTF-8
    print(f"{name}: {os.path.getsize(args.out) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
