"""Options for remote data, in the form that fsspec's users know."""

import argparse
import os
from collections.abc import Iterator, Mapping
from typing import Any

from forebay import _core
from forebay.data.sources import rooted


def flat(options: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Options as pairs of texts: a mapping inside another one gives names with dots.

    Raises:
        ValueError: The options are not a mapping of names to texts, numbers, bools, None or such
            mappings.
    """
    if options is None:
        return []
    if not isinstance(options, Mapping):
        raise ValueError(
            f"storage_options is a {type(options).__name__}, but must be a dict of options"
        )
    return list(_pairs(options, ""))


def add_storage_option(parser: argparse.ArgumentParser) -> None:
    """Adds --storage-option NAME=VALUE, like the other commands have it."""
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        type=_argument,
        metavar="NAME=VALUE",
        dest="storage_options",
        help="how to reach a store (docs/remote.md); may be given several times",
    )


def _argument(text: str) -> tuple[str, str]:
    try:
        return _core.storage_argument(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def index_cache_folder(folder: str | os.PathLike[str] | None) -> str:
    """Returns the folder for the core: absolute, "off", or "" for the environment's.

    Raises:
        ValueError: `folder` is not a path, or is empty.
    """
    if folder is None:
        return ""
    try:
        name = os.fsdecode(folder)
    except TypeError:
        raise ValueError(f'index_cache is {folder!r}, but must be a folder or "off"') from None
    if not name:
        raise ValueError('index_cache is empty, but must be a folder or "off"')
    return name if name == "off" else rooted(name)


def _pairs(options: Mapping[str, Any], before: str) -> Iterator[tuple[str, str]]:
    for key, value in options.items():
        name = f"{before}{key}"
        if value is None:
            continue
        if isinstance(value, Mapping):
            yield from _pairs(value, name + ".")
        elif isinstance(value, bool):
            yield name, str(value).lower()
        elif isinstance(value, str | int | float):
            yield name, str(value)
        else:
            # The value may be a secret, so the message does not show it.
            raise ValueError(
                f"storage_options: {name} is a {type(value).__name__}, but must be text"
            )
