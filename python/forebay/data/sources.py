"""What to write instead of something that is not a path of data; paths in messages."""

import os
import re
from collections.abc import Iterable
from typing import Any

_PAIRS = "a list of (path, label) pairs for single files"


def absolute(path: Any) -> str:
    """The path or URL as a text that stays valid if the program changes its working directory.

    Raises:
        ValueError: It is not a path; the message says what to write instead.
    """
    try:
        name = os.fsdecode(path)
    except TypeError:
        raise ValueError(f"dataset is {_shown(path)}, but {_instead(path)}") from None
    if not name or "://" in name:
        return name
    return rooted(os.path.expanduser(name))


def rooted(path: str) -> str:
    """The path, from the root on.

    abspath() would drop ".." without following the links before it. An absolute path also works in
    a working directory that was deleted, which has no path.
    """
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


def with_hint(path: str, error: FileNotFoundError) -> FileNotFoundError:
    """The error of a path that does not exist, with a hint if the path is a pattern."""
    if not re.search(r"[*?]|\[.+\]", path.rpartition("://")[2]):
        return error
    return FileNotFoundError(
        f"{error}; patterns with * ? [ ] are not expanded: give the folder of the shards, or a "
        "range like train-{000..146}.tar, or forebay.concat([forebay.Dataset(path) for path in "
        "sorted(glob.glob(…))])"
    )


def without_secrets(path: str) -> str:
    """The path for people: a URL without the user's name, the password and the query."""
    path = re.sub(r"(\w://)[^/@\s]*@", r"\1…@", path)
    return re.sub(r"(\w://[^?\s]*)\?\S*", r"\1?…", path)


def _shown(given: Any) -> str:
    """A short text for messages."""
    kind = type(given)
    if kind.__module__ == "builtins":
        return f"a {kind.__name__}" if isinstance(given, Iterable) else repr(given)
    return f"a {kind.__module__}.{kind.__name__}"


def _instead(given: Any) -> str:
    """What to write instead of an object that is not a path."""
    kinds = {kind.__name__: kind.__module__ for kind in type(given).__mro__}
    torch = {name for name, module in kinds.items() if module.split(".")[0] in _TORCH}
    if "Subset" in torch:
        return "must be a path: write forebay.Dataset(path).subset(indices) instead"
    if "ConcatDataset" in torch:
        return "must be a path: write forebay.concat([forebay.Dataset(path), …]) instead"
    if "DatasetFolder" in torch:
        return (
            f"must be a path: write forebay.Dataset({getattr(given, 'root', 'path')!r}), and give "
            "the Loader its transform"
        )
    if "DataLoader" in torch or any(name == "Loader" for name in kinds):
        return "must be a path or a Dataset: give the loader's dataset, or the path of its data"
    if torch & {"Dataset", "IterableDataset"}:
        return (
            "must be a path: Forebay reads files itself. Give the folder of its images, or "
            f"{_PAIRS}, or pack it (docs/data.md)"
        )
    if "Dataset" in kinds and kinds["Dataset"].startswith("forebay."):
        return "is a Dataset already; use it as it is"
    if torch & {"Tensor"} or "ndarray" in kinds:
        return (
            "must be a path: for images in memory use forebay.BatchDecoder (of files' bytes) or "
            "torch.utils.data.TensorDataset"
        )
    if isinstance(given, Iterable):
        return (
            "must be a path or a Dataset: for several datasets write "
            f"forebay.concat([forebay.Dataset(path), …]); {_PAIRS} goes to forebay.Dataset"
        )
    return "must be a path or a Dataset"


_TORCH = ("torch", "torchvision")
