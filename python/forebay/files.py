"""Files that users name, written as a whole or not at all."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def replacing(path: str | os.PathLike[str], what: str) -> Iterator[Callable[[Iterable[str]], None]]:
    """A function that makes texts the file's content, UTF-8; before that, the file stays as it is.

    The texts go to a new file beside it, which then takes its place. So a symbolic link with the
    file's name is replaced, and its target stays: in a folder that others may write to, such as
    /tmp, one of them may have made it.

    Args:
        path: The file.
        what: Who writes it, for messages.

    Raises:
        OSError: The file cannot be written: it is a folder (IsADirectoryError) or no file
            (FileExistsError), its folder is missing (FileNotFoundError), or for another reason.
    """
    folder, name = os.path.split(os.path.abspath(path))
    file = Path(os.path.realpath(folder)) / name
    if os.path.isdir(file):
        raise IsADirectoryError(f"{what}: {file} is a folder; name a file in it")
    if os.path.exists(file) and not os.path.isfile(file):
        raise FileExistsError(f"{what}: {file} is not a file; give another name")
    if not os.path.isdir(file.parent):
        raise FileNotFoundError(f"{what}: to write {file}, there is no folder {file.parent}")
    unfinished = file.parent / f".forebay-{uuid4().hex}"

    def write(texts: Iterable[str]) -> None:
        try:
            with open(unfinished, "w", encoding="utf-8", errors="backslashreplace") as out:
                out.writelines(texts)
                out.flush()
                os.fsync(out.fileno())
            os.replace(unfinished, file)
        except OSError as error:
            raise OSError(f"{what}: {file} cannot be written: {error.strerror}") from None

    try:
        unfinished.touch(exist_ok=False)
    except OSError as error:
        raise PermissionError(f"{what}: {file} cannot be written: {error.strerror}") from None
    try:
        yield write
    finally:
        unfinished.unlink(missing_ok=True)
