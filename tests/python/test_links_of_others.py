"""No command writes through a symbolic link that another user made."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import FOREBAY, skip_without

OTHER = 65534  # the number of another user, nobody
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT")
# A call of strace -y, whose paths are relative to a folder that is shown, too: openat(5</a>, "b".
_CALLS = re.compile(r"(openat|mkdirat?|renameat2?|unlinkat|rename|open)\((.*)")
_AT = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"([^"]*)"')

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's links")

# Commands, with the folder in which another user may write as the last argument.
Command = Callable[[Path, Path], list[str]]
COMMANDS: dict[str, Command] = {
    "pack": lambda packed, theirs: [FOREBAY, "pack", f"{packed.parent}/images", f"{theirs}/set"],
    "pack again": lambda packed, theirs: [FOREBAY, "pack", f"{packed.parent}/images", str(theirs)],
    "index": lambda packed, theirs: [FOREBAY, "index", str(theirs)],
    "cp": lambda packed, theirs: [FOREBAY, "cp", str(packed), f"{theirs}/copy"],
    "export": lambda packed, theirs: [FOREBAY, "export", str(packed), f"{theirs}/out"],
    "cache": lambda packed, theirs: [
        *(FOREBAY, "cache", "--serve", str(packed), "--folder", f"{theirs}/cache"),
        *("--disk-bytes", "50MB"),
    ],
    "prep": lambda packed, theirs: [
        *(FOREBAY, "prep", str(packed), "--serve", "--listen", "127.0.0.1:0"),
        *("--folder", str(theirs)),
    ],
}  # fmt: skip
SERVERS = {"cache", "prep"}


def run(name: str, packed: Path, theirs: Path, *before: str) -> None:
    """Runs a command to its end; a server for as long as it takes to start."""
    process = subprocess.Popen(
        [*before, *COMMANDS[name](packed, theirs)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    if name in SERVERS:
        time.sleep(1.5)
        os.killpg(process.pid, signal.SIGINT)
    process.wait(timeout=120)


def prepare(root: Path, images: dict[str, bytes], name: str) -> Path:
    """The other user's folder, which everybody may write to, like one of a team."""
    theirs = root / "theirs"
    theirs.mkdir()
    if name == "index":
        for image, content in list(images.items())[:9]:
            path = theirs / image
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
    if name == "prep":
        (theirs / ".keep").write_text("")
    theirs.chmod(0o777)
    return theirs


def written(log: Path, theirs: Path) -> set[Path]:
    """The paths below the folder that the strace log shows as written, made, renamed or removed."""
    found = set()
    for line in log.read_text(errors="replace").splitlines():
        call = _CALLS.search(line)
        if call is None or (call[1].startswith("open") and not _WRITES.search(line)):
            continue
        for folder, name in _AT.findall(call[2]):
            path = Path(os.path.normpath(os.path.join(folder, name)))
            if path != theirs and path.is_relative_to(theirs):
                found.add(path.relative_to(theirs))
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_writes_through_them(
    name: str, packed: Path, images: dict[str, bytes], tmp_path: Path
) -> None:
    skip_without({"strace": "strace"})
    log = tmp_path / "strace.log"
    theirs = prepare(tmp_path, images, name)
    run(name, packed, theirs, "strace", "-f", "-y", "-s", "4096", "-o", str(log))
    folders = {path for path in theirs.rglob("*") if path.is_dir()}
    paths = written(log, theirs)
    assert len(paths) >= 2, paths
    for path in sorted(paths):
        root = tmp_path / "again"
        root.mkdir()
        decoys = root / "decoys"
        decoys.mkdir()
        (decoys / "file").write_text("precious")
        (decoys / "folder").mkdir()
        again = prepare(root, images, name)
        is_folder = theirs / path in folders
        link = again / path
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_dir():
            shutil.rmtree(link)
        for folder in (again, *link.parents):
            if folder.is_relative_to(again):
                os.chown(folder, OTHER, OTHER)
        link.unlink(missing_ok=True)
        link.symlink_to(decoys / ("folder" if is_folder else "file"))
        os.lchown(link, OTHER, OTHER)
        run(name, packed, again)
        assert (decoys / "file").read_text() == "precious", path
        assert sorted(os.listdir(decoys)) == ["file", "folder"], path
        assert os.listdir(decoys / "folder") == [], path
        shutil.rmtree(root)
