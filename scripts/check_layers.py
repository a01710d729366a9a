"""Checks what each source file includes or imports.

In src/:
- A file may include its own folder and the folders before it in LAYERS (HACKING.md), and inside its
  folder its own room and the rooms before it in ROOMS.
- Only the folders and rooms of WITH_TORCH may include libtorch.
- Only io/ and apps/ may include headers of the operating system, with the exceptions below.
- Production code may not include helpers of tests.

In python/forebay/:
- A module may import the modules of its own room and of the rooms before it in PYTHON_ROOMS.
- Nobody imports the package's own face, `forebay`, except the programs of PYTHON_FACE.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = [
    *("base", "io", "sim", "plan", "jpeg", "image", "store", "explore", "cache", "feed", "prep"),
    *("train", "offload", "apps", "bind"),
]
# "." is the place of the files in the folder itself. Every folder may have a room testing/ as well.
ROOMS = {
    "io": [".", "http", "s3", "remote", "serve"],
    "jpeg": ["format", "kernels", ".", "rewrite"],
    "image": ["codec", "transform", "augment", "gpu", "."],
    "store": ["format", "source", ".", "pack", "copy", "check"],
    "cache": ["members", "held", "peers", "."],
    "feed": ["order", "batch", "read", "make", "."],
    "prep": ["policy", "wire", "server", "host"],
    "plan": [".", "dag", "placement", "hop"],
    "train": [
        *("format", "sync", "model", "learner"),
        *("learners", "pipeline", "hop", "policy", "run"),
    ],
    "bind": [".", "torch"],
}
# The rooms, as (folder, room), that may include libtorch; "*" stands for all rooms of a folder.
WITH_TORCH = {
    *(("train", room) for room in ROOMS["train"][2:]),
    ("train", "testing"),
    *(("offload", "*"), ("apps", "*"), ("bind", "torch")),
}
# The rooms of python/forebay; "." stands for the root's modules that have no room.
PYTHON_ROOMS = [
    *(".", "data", "transforms", "loading", "preview", "sync"),
    *("learners", "explore", "offload", "placement", "spark"),
]
# The root's modules above all rooms: the face, and what scripts import or run by these names.
PYTHON_FACE = {"__init__", "bench", "mixing"}
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
    ("train/sync/links.h", "thread"): "the threads of a job's connections",
    ("train/run/log.cc", "cstdio"): "prints progress",
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
    is_test = path.name.endswith("_test.cc") or "testing" in path.parts
    other = Path(name)
    if other.parts[0] in LAYERS:
        if LAYERS.index(other.parts[0]) > LAYERS.index(layer):
            return f"{layer}/ comes before {other.parts[0]}/ in the order of folders"
        if "testing" in other.parts and not is_test:
            return "testing/ is for tests"
        if other.parts[0] == "sim" and layer != "sim" and not is_test:
            return "sim/ is for tests"
        rooms = ROOMS.get(layer, ["."])
        same_layer = other.parts[0] == layer and not is_test
        if same_layer and rooms.index(room_of(other)) > rooms.index(room):
            return f"the room {room} of {layer}/ comes before the room {room_of(other)}"
    elif other.parts[0] in ("torch", "ATen", "c10") and (
        not {(layer, "*"), (layer, room)} & WITH_TORCH
    ):
        return "only the rooms of WITH_TORCH may use libtorch"
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


def python_room(module: tuple[str, ...]) -> int:
    """Returns the height of a module, given as the parts of its name after "forebay"."""
    if module[0] in PYTHON_ROOMS:
        return PYTHON_ROOMS.index(module[0])
    return len(PYTHON_ROOMS) if module[0] in PYTHON_FACE else 0


def python_imports(tree: ast.AST) -> Iterator[tuple[str, ...]]:
    """Yields the modules of forebay that a source imports, each as the parts of its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "forebay":
            names = [f"forebay.{name.name}" for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for parts in (tuple(name.split(".")) for name in names):
            if parts[0] == "forebay":
                yield parts[1:] or ("__init__",)


def python_problems_of(path: Path) -> list[str]:
    """Returns a line for each import of one module that goes up."""
    own = path.relative_to(ROOT / "python/forebay").with_suffix("").parts
    if len(own) > 1 and own[0] not in PYTHON_ROOMS:
        return [f"{path}: the room {own[0]} is not in the list of Python's rooms"]
    height = python_room(own)
    return [
        f"{path}: may not import forebay.{'.'.join(name)}: {own[0]} comes before {name[0]}"
        for name in python_imports(ast.parse(path.read_text()))
        if python_room(name) > height
    ]


def main() -> int:
    """Prints every broken rule; returns 1 if there is one."""
    files = sorted(p for p in (ROOT / "src").rglob("*") if p.suffix in {".h", ".cc", ".cu"})
    modules = sorted((ROOT / "python/forebay").rglob("*.py"))
    problems = [problem for path in files for problem in problems_of(path)]
    problems += [problem for path in modules for problem in python_problems_of(path)]
    problems += stale_exceptions()
    count = len(files) + len(modules)
    print("\n".join(problems) if problems else f"layers: {count} files, all in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
