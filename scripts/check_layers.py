"""Checks that a source file includes only what stands above it, and asks no system that it may not.

The folders of src/ stand in the order of HACKING.md, the rooms of a folder in the order of ROOMS.
Also keeps libtorch out of the data wing, system calls inside io/, and test helpers out of
production code.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ["base", "io", "sim", "jpeg", "image", "store", "feed", "train", "bind", "apps"]
# The folder's own files stand where "." does. testing/ stands below everything.
ROOMS = {
    "jpeg": ["format", "kernels", ".", "rewrite"],
    "image": ["codec", "transform", "gpu", "."],
    "store": ["format", "source", ".", "pack", "check"],
    "train": ["format", "."],
}
WITH_TORCH = {"train", "apps"}
# Headers that ask the system: for files, sockets, time, processes, signals, memory, randomness.
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
SYSTEM_FOLDERS = ("sys/", "linux/", "arpa/", "net/", "netinet/", "boost/asio")
# Programs may ask the system about processes and signals; only io/ reads files, sockets, clocks.
SYSTEM_ALLOWED = {"io", "apps"}
# What a file elsewhere needs, and why.
EXCEPTIONS = {
    ("base/mutex.h", "pthread.h"): "waits",
    ("base/mutex.h", "ctime"): "the type of a deadline",
    ("base/mutex.h", "mutex"): "the mutex that base::Mutex is made of",
    ("base/crew.h", "thread"): "the threads of a crew",
    ("base/status.cc", "cstdio"): "die() prints",
    ("jpeg/turbo.h", "cstdio"): "jpeglib.h needs it before",
    ("store/in_place_dataset.cc", "mutex"): "std::call_once",
    ("bind/without_interpreter.cc", "thread"): "which thread ends the interpreter",
    ("train/log.cc", "cstdio"): "prints progress",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def room_of(path: Path) -> str:
    """The room of a path like jpeg/format/header.h; "." outside of any."""
    return path.parts[1] if len(path.parts) > 2 else "."


def asks_system(name: str) -> bool:
    """Whether a header asks the operating system for something."""
    return name in SYSTEM_HEADERS or name.startswith(SYSTEM_FOLDERS)


def problem_of(path: Path, name: str) -> str | None:
    """Why the file at `path` below src/ may not include `name`."""
    layer, room = path.parts[0], room_of(path)
    is_test = path.name.endswith("_test.cc") or room == "testing"
    other = Path(name)
    if other.parts[0] in LAYERS:
        if LAYERS.index(other.parts[0]) > LAYERS.index(layer):
            return f"{layer}/ stands above {other.parts[0]}/"
        if room_of(other) == "testing" and not is_test:
            return "testing/ is for tests"
        if other.parts[0] == "sim" and layer != "sim" and not is_test:
            return "sim/ is for tests"
        rooms = ROOMS.get(layer, ["."])
        same_layer = other.parts[0] == layer and not is_test
        if same_layer and rooms.index(room_of(other)) > rooms.index(room):
            return f"the room {room} of {layer}/ stands above {room_of(other)}"
    elif other.parts[0] in ("torch", "ATen", "c10") and (
        layer not in WITH_TORCH or room == "format"
    ):
        return f"{layer}/ knows nothing of libtorch"
    elif (
        asks_system(name)
        and layer not in SYSTEM_ALLOWED
        and not is_test
        and (str(path), name) not in EXCEPTIONS
    ):
        return "only io/ talks to the operating system"
    return None


def problems_of(path: Path) -> list[str]:
    """The rules that the includes of one source file break."""
    below = path.relative_to(ROOT / "src")
    if below.parts[0] not in LAYERS:
        return [f"{path}: the folder {below.parts[0]} is not in the list of layers"]
    if room_of(below) not in [*ROOMS.get(below.parts[0], ["."]), "testing"]:
        return [f"{path}: the room {room_of(below)} is not in the list of rooms"]
    found = ((name, problem_of(below, name)) for name in INCLUDE.findall(path.read_text()))
    return [f"{path}: may not include {name}: {why}" for name, why in found if why]


def stale_exceptions() -> list[str]:
    """Exceptions that no file needs any more."""
    return [
        f"scripts/check_layers.py: {path} no longer includes {name}: remove its exception"
        for path, name in EXCEPTIONS
        if not (ROOT / "src" / path).is_file()
        or name not in INCLUDE.findall((ROOT / "src" / path).read_text())
    ]


def main() -> int:
    """Prints every broken rule; 1 when there is one."""
    files = sorted(p for p in (ROOT / "src").rglob("*") if p.suffix in {".h", ".cc", ".cu"})
    problems = [problem for path in files for problem in problems_of(path)]
    problems += stale_exceptions()
    print("\n".join(problems) if problems else f"layers: {len(files)} files, all in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
