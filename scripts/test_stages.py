"""Runs the stages of ./dev test and ./dev nightly one after the other, and prints their times.

Each stage is a ./dev command. After it has passed, a stamp in build/stamps holds a hash of what the
stage reads: files that git tracks or would track, and the versions of compilers and packages.
A stage whose stamp still holds is not run again. Options: --all runs every stage but the
nightly ones, whatever its stamp says; --nightly runs all of them with FOREBAY_TEST_ALL=1, which
makes the stages do everything.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMPS = ROOT / "build/stamps"
# Every stage depends on these files, which say how to build and with which packages and tools.
TOOLS = ("dev", "packages.txt", "requirements.txt", "pyproject.toml")
BUILD = ("CMakeLists.txt", "CMakePresets.json", "cmake", "src")
PACKAGE = (*BUILD, "python")
PAGES = ("docs", "README.md", "CHANGELOG.md", "HACKING.md")
VERSIONS = (("g++", "--version"), ("clang++-19", "--version"), ("nvcc", "--version"))


@dataclass(frozen=True)
class Stage:
    """One ./dev command, and the files and folders whose content its outcome depends on."""

    command: str
    reads: tuple[str, ...]
    nightly: bool = False  # left out of ./dev test


STAGES = (
    Stage("lint", (".",)),
    Stage("build", PACKAGE),
    Stage("tidy", (*BUILD, ".clang-tidy", "bench")),
    Stage("unit", (*BUILD, "tests/golden", "tests/fuzz/corpus")),
    Stage("python", (*PACKAGE, "tests", "examples", "bench", "scripts")),
    Stage("docs", (*PACKAGE, "tests/python", *PAGES)),
    Stage("wheel", (*PACKAGE, "tests/python", "scripts", "README.md", "LICENSE")),
    Stage("asan", (*PACKAGE, "tests/golden", "tests/fuzz", "tests/python"), nightly=True),
    Stage("aarch64", (*BUILD, "scripts", "tests/golden", "tests/fuzz/corpus"), nightly=True),
    Stage("tsan", (*PACKAGE, "tests/golden", "tests/python"), nightly=True),
    Stage("fuzz", (*BUILD, "tests/fuzz"), nightly=True),
)


def file_hashes() -> dict[str, str]:
    """Returns the SHA-256 of each file that git tracks or would track, by its path."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    hashes = {}
    for name in sorted(set(listed.stdout.split("\0")) - {""}):
        path = ROOT / name
        if path.is_file():
            mode = "x" if os.access(path, os.X_OK) else "-"
            hashes[name] = mode + hashlib.sha256(path.read_bytes()).hexdigest()
    return hashes


def tool_versions() -> str:
    """Returns the versions of the compilers, of Python and of all Debian packages."""
    said = [sys.version]
    for command in (*VERSIONS, ("dpkg-query", "-W")):
        try:
            said.append(subprocess.run(command, capture_output=True, text=True).stdout)
        except FileNotFoundError:
            said.append(f"no {command[0]}")
    return "\n".join(said)


def is_below(name: str, folder: str) -> bool:
    """Returns whether a path is the given one or lies in that folder; "." holds everything."""
    return folder == "." or name == folder or name.startswith(f"{folder}/")


def stamp_of(stage: Stage, hashes: dict[str, str], versions: str) -> str:
    """Returns the hash of what the stage depends on."""
    reads = (*TOOLS, *stage.reads)
    files = [
        f"{name} {sha}" for name, sha in hashes.items() if any(is_below(name, r) for r in reads)
    ]
    variables = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith("FOREBAY_"))
    text = "\n".join([stage.command, *files, *variables, versions])
    return hashlib.sha256(text.encode()).hexdigest()


def run(stage: Stage, use_stamps: bool) -> str:
    """Runs a stage unless its stamp holds; exits if it fails. Returns its entry in the table."""
    stamp = STAMPS / stage.command
    wanted = stamp_of(stage, file_hashes(), tool_versions())
    if use_stamps and stamp.exists() and stamp.read_text() == wanted:
        return "unchanged"
    stamp.unlink(missing_ok=True)
    started = time.monotonic()
    status = subprocess.run(["./dev", stage.command], cwd=ROOT).returncode
    seconds = time.monotonic() - started
    print(f"== {stage.command}: {seconds:.0f} s", file=sys.stderr, flush=True)
    if status != 0:
        print(f"== failed: ./dev {stage.command}", file=sys.stderr)
        sys.exit(1)
    STAMPS.mkdir(parents=True, exist_ok=True)
    stamp.write_text(wanted)
    return f"{seconds:.0f} s"


def main() -> None:
    """Runs all stages, and prints a table of their times."""
    parser = argparse.ArgumentParser(prog="./dev test", description=__doc__)
    parser.add_argument("--all", action="store_true", help="also run unchanged stages")
    parser.add_argument("--nightly", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.nightly:
        os.environ["FOREBAY_TEST_ALL"] = "1"
    use_stamps = not (arguments.all or arguments.nightly)
    started = time.monotonic()
    setup = subprocess.run(["./dev", "setup"], cwd=ROOT)
    if setup.returncode != 0:
        sys.exit(setup.returncode)
    rows = [("setup", f"{time.monotonic() - started:.0f} s")]
    stages = [stage for stage in STAGES if arguments.nightly or not stage.nightly]
    rows += [(stage.command, run(stage, use_stamps)) for stage in stages]
    rows.append(("all", f"{time.monotonic() - started:.0f} s"))
    print("\n".join(f"{name:10}{took:>12}" for name, took in rows))
    print("all tests passed")


if __name__ == "__main__":
    main()
