"""The record of a study on disk: what was computed, with which scores, and what failed.

One line for each event: the CRC-32 of the event, and the event as JSON. A line that is damaged, or
cut off at the end, counts as not written.
"""

import fcntl
import json
import os
import pwd
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VERSION = 0


class Journal:
    """The journal of a study that this process runs. Only one process at a time has it."""

    def __init__(self, folder: Path) -> None:
        """Opens or begins the journal in `folder`, and cuts off an incomplete last line.

        Raises:
            BlockingIOError: Another process runs this study.
            PermissionError: This user cannot write the folder, or the study is another user's.
            ValueError: The folder holds something else.
        """
        check_owner(folder)
        path = folder / "journal"
        if not path.exists() and any(
            one.name not in ("lock", "results", "flow.pkl") for one in folder.iterdir()
        ):
            raise ValueError(f"{folder}: this folder is not a study, and it is not empty")
        self._lock = open(folder / "lock", "ab")  # noqa: SIM115
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise BlockingIOError(
                f"{folder}: another process runs this study; wait until it ends, or give out= "
                "another folder"
            ) from None
        content = path.read_bytes() if path.exists() else b""
        self.events = list(_events(content))
        self._file = open(path, "ab")  # noqa: SIM115
        if content and not content.endswith(b"\n"):
            self._file.truncate(content.rfind(b"\n") + 1)
        if not self.events:
            self.add("study", version=VERSION)

    def add(self, kind: str, *, durable: bool = False, **values: Any) -> None:
        """Appends an event.

        Args:
            kind: What happened.
            durable: Whether to return only when the event is on the disk.
            values: Anything that JSON has.

        Raises:
            OSError: The disk is full, or cannot be written.
        """
        content = json.dumps({"kind": kind, **values}, default=str).encode()
        self._file.write(b"%08x %s\n" % (zlib.crc32(content), content))
        self._file.flush()
        if durable:
            os.fdatasync(self._file.fileno())

    def close(self) -> None:
        """Ends writing, and lets other processes run the study."""
        self._file.close()
        self._lock.close()


def read_journal(folder: Path) -> list[dict[str, Any]]:
    """The events of a study that may be running.

    Raises:
        FileNotFoundError: The folder is not a study.
        ValueError: The study was made by another version.
    """
    path = folder / "journal"
    if not path.exists():
        raise FileNotFoundError(f"{folder}: this is not a study; it has no file journal")
    return list(_events(path.read_bytes()))


def check_owner(folder: Path) -> None:
    """Makes the study's folder, and refuses one that belongs to another user.

    The pickles of another user's study would run that user's code with this user's rights.

    Raises:
        PermissionError: The study is another user's, or this user cannot write its folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as mine:
            own = os.fstat(mine.fileno()).st_uid  # some file systems give all files to one user
    except PermissionError as error:
        raise PermissionError(
            f"{folder}: {_name_of(os.geteuid())} cannot write here ({error.strerror}); give out= "
            "a folder of your own"
        ) from None
    for name in ("journal", "flow.pkl", "results"):
        path = folder / name
        if path.exists() and (owner := path.stat().st_uid) != own:
            raise PermissionError(
                f"{folder}: this study belongs to {_name_of(owner)}, and {_name_of(own)} cannot go "
                "on with it, because reading results runs code that is stored with them; give "
                "out= a folder of your own"
            )


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _events(content: bytes) -> Iterator[dict[str, Any]]:
    for line in content.split(b"\n"):
        crc, _, text = line.partition(b" ")
        try:
            if int(crc, 16) != zlib.crc32(text):
                continue
            event = json.loads(text)
        except ValueError:
            continue
        if event["kind"] == "study" and event["version"] != VERSION:
            raise ValueError(
                f"the study was written by another version of forebay.explore (its journal has "
                f"version {event['version']}, this one reads {VERSION}); begin in another folder"
            )
        yield event
