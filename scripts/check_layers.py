"""Checks what each source file includes.

- A file may include its own folder and the folders before it in LAYERS (HACKING.md), and inside its
  folder its own room and the rooms before it in ROOMS.
- Only train/ and apps/ may include libtorch.
- Only io/ and apps/ may include headers of the operating system, with the exceptions below.
- Production code may not include helpers of tests.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = [
    *("base", "io", "sim", "plan", "jpeg", "image", "store", "cache", "feed", "prep", "train"),
    *("bind", "apps"),
]
# "." is the place of the files in the folder itself. Every folder may have a room testing/ as well.
ROOMS = {
    "io": [".", "http", "s3", "remote", "serve"],
    "jpeg": ["format", "kernels", ".", "rewrite"],
    "image": ["codec", "transform", "augment", "gpu", "."],
    "store": ["format", "source", ".", "pack", "copy", "check"],
    "train": ["format", "sync", "."],
}
WITH_TORCH = {"train", "apps"}
# Headers that ask the operating system for files, sockets, time, processes, memory or randomness.
SYSTEM_HEADERS = {
    *(
        "chrono",
        "cerrno",
        "condition_variable",
        "csignal",
        "cstdio",
        "ctime",
        "filesystem",
        "fstream",
    ),
    *("future", "iostream", "mutex", "random", "semaphore", "shared_mutex", "sstream", "thread"),
    *(
        "aio.h",
        "dirent.h",
        "dlfcn.h",
        "errno.h",
        "fcntl.h",
        "grp.h",
        "ifaddrs.h",
        "malloc.h",
        "netdb.h",
    ),
    *("poll.h", "pthread.h", "pwd.h", "sched.h", "signal.h", "spawn.h", "stdio.h", "syslog.h"),
    *("termios.h", "time.h", "unistd.h", "utime.h", "curl/curl.h"),
}
SYSTEM_FOLDERS = ("sys/", "linux/", "arpa/", "net/", "netinet/", "boost/")
# Programs may ask the system about processes and signals; only io/ reads files, sockets, clocks.
SYSTEM_ALLOWED = {"io", "apps"}
# The system headers that other files may include, and why.
EXCEPTIONS = {
    ("base/mutex.h", "pthread.h"): "its condition variables",
    ("base/mutex.h", "ctime"): "the type of a deadline",
    ("base/mutex.h", "mutex"): "the mutex that base::Mutex is made of",
    ("base/crew.h", "thread"): "the threads of a crew",
    ("base/status.cc", "cstdio"): "die() prints",
    ("jpeg/turbo.h", "cstdio"): "jpeglib.h needs it to be included first",
    ("store/in_place_dataset.cc", "mutex"): "std::call_once",
    ("bind/without_interpreter.cc", "thread"): "which thread ends the interpreter",
    ("train/log.cc", "cstdio"): "prints progress",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def room_of(path: Path) -> str:
    """Returns the room of a path like jpeg/format/header.h, or "." for a file outside of rooms."""
    return path.parts[1] if len(path.parts) > 2 else "."


def asks_system(name: str) -> bool:
    """Returns whether a header asks the operating system for something."""
    return name in SYSTEM_HEADERS or name.startswith(SYSTEM_FOLDERS)


def problem_of(path: Path, name: str) -> str | None:
    """Returns why the file at `path` below src/ may not include `name`; None if it may."""
    layer, room = path.parts[0], room_of(path)
    is_test = path.name.endswith("_test.cc") or room == "testing"
    other = Path(name)
    if other.parts[0] in LAYERS:
        if LAYERS.index(other.parts[0]) > LAYERS.index(layer):
            return f"{layer}/ comes before {other.parts[0]}/ in the order of folders"
        if room_of(other) == "testing" and not is_test:
            return "testing/ is for tests"
        if other.parts[0] == "sim" and layer != "sim" and not is_test:
            return "sim/ is for tests"
        rooms = ROOMS.get(layer, ["."])
        same_layer = other.parts[0] == layer and not is_test
        if same_layer and rooms.index(room_of(other)) > rooms.index(room):
            return f"the room {room} of {layer}/ comes before the room {room_of(other)}"
    elif other.parts[0] in ("torch", "ATen", "c10") and (
        layer not in WITH_TORCH or room in ("format", "sync")
    ):
        return "only train/ and apps/ may use libtorch, and not the rooms format/ and sync/"
    elif (
        asks_system(name)
        and layer not in SYSTEM_ALLOWED
        and not is_test
        and (str(path), name) not in EXCEPTIONS
    ):
        return "only io/ talks to the operating system"
    return None


def problems_of(path: Path) -> list[str]:
    """Returns a line for each rule that the includes of one source file break."""
    below = path.relative_to(ROOT / "src")
    if below.parts[0] not in LAYERS:
        return [f"{path}: the folder {below.parts[0]} is not in the list of layers"]
    if room_of(below) not in [*ROOMS.get(below.parts[0], ["."]), "testing"]:
        return [f"{path}: the room {room_of(below)} is not in the list of rooms"]
    found = ((name, problem_of(below, name)) for name in INCLUDE.findall(path.read_text()))
    return [f"{path}: may not include {name}: {why}" for name, why in found if why]


def stale_exceptions() -> list[str]:
    """Returns a line for each exception that no file needs any more."""
    return [
        f"scripts/check_layers.py: {path} no longer includes {name}: remove its exception"
        for path, name in EXCEPTIONS
        if not (ROOT / "src" / path).is_file()
        or name not in INCLUDE.findall((ROOT / "src" / path).read_text())
    ]


def main() -> int:
    """Prints every broken rule; returns 1 if there is one."""
    files = sorted(p for p in (ROOT / "src").rglob("*") if p.suffix in {".h", ".cc", ".cu"})
    problems = [problem for path in files for problem in problems_of(path)]
    problems += stale_exceptions()
    print("\n".join(problems) if problems else f"layers: {len(files)} files, all in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
