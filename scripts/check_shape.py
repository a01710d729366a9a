"""Checks the shape of the code: lengths of functions and files, places of limits and test helpers.

- A production function has fewer than 70 lines, and a file fewer than 450 (LONG_FILES lists the
  files that may be longer, and why).
- A constant named k…Max is a limit on what comes from outside, and is defined in src/base/limits.h.
  A bound on something that Forebay itself makes has another name.
- Files that only help tests are in a folder testing/.
- A folder has at most 30 files of code beside their tests, unless its README says why it has more.
"""

import ast
import bisect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FUNCTION_LINES = 70
FILE_LINES = 450
LIMITS = "src/base/limits.h"
PRODUCTION = ("src/", "python/", "scripts/", "bench/")
CPP = (".h", ".cc", ".cu")
# Files that may be long, each with its reason.
LONG_FILES = {
    "src/jpeg/format/huffman_sets_data.cc": "the tables of the built-in Huffman sets",
    "src/cache/members/membership.cc": "one state machine, whose steps are read together",
    "src/cache/cache.cc": "one class: all begins with who owns a piece",
    "src/prep/host/epoch_share.cc": "one lock: the policy meets the servers here",
    "src/prep/policy/step_policy.cc": "one state machine: events, late and lost steps",
    "python/forebay/loading/loader.py": "the face of loading: more than half is its documentation",
}

FOLDER_FILES = 30
# What the README of a larger folder, or of the folder above it, must say.
LARGE_FOLDER = "more than 30 files"

Problem = tuple[str, str]

# Matches comments, literals and preprocessor lines, where a brace is not the end of a block.
NOISE = re.compile(
    r'R"(\w*)\(.*?\)\1"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"
    r"|//[^\n]*|/\*.*?\*/"
    r"|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
# Matches the head of a block that holds declarations instead of statements.
SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum)\b|\bextern\s*$")
MAX_CONSTANT = re.compile(r"\bconstexpr\s+[\w:<>, ]+\b(k\w*Max)\b")
TEST_HELPER = re.compile(r"(?:\w+_samples|fake_\w+|test_\w+)\.(?:h|cc)")


def without_noise(text: str) -> str:
    """Blanks comments, literals and preprocessor lines in a text; every line stays in place."""
    return NOISE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def cpp_functions(text: str) -> Iterator[tuple[str, int]]:
    """Yields the name and the length in lines of each function that a C++ source defines."""
    text = without_noise(text)
    ends = [place for place, letter in enumerate(text) if letter == "\n"]
    function: tuple[str, int] | None = None  # the function around this place: name and beginning
    function_depth = 0
    scopes: list[bool] = []  # for each open block, whether it holds declarations
    head_begin = 0
    for found in re.finditer(r"[{};]", text):
        head = text[head_begin : found.start()]
        if found[0] == "{":
            name = re.search(r"([\w:~]+|operator\W+)\s*\(", head)
            is_scope = bool(SCOPE.search(head)) and not (name and head.rstrip().endswith(")"))
            if function is None and all(scopes) and name and not is_scope:
                function = (name[1], head_begin + len(head) - len(head.lstrip()))
                function_depth = len(scopes)
            scopes.append(is_scope)
        elif found[0] == "}" and scopes:
            scopes.pop()
            if function is not None and len(scopes) == function_depth:
                first, last = (bisect.bisect(ends, place) for place in (function[1], found.start()))
                yield function[0], last - first + 1
                function = None
        head_begin = found.end()


def python_functions(text: str) -> Iterator[tuple[str, int]]:
    """Yields the name and the length in lines of each function of a Python source."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def is_test(path: Path) -> bool:
    """Returns whether only tests use this file."""
    return path.stem.endswith("_test") or "testing" in path.parts


def problems_of(name: str) -> Iterator[Problem]:
    """Yields each rule that one file breaks, as (file, what is wrong)."""
    path = Path(name)
    text = (ROOT / path).read_text()
    lines = text.count("\n")
    if lines >= FILE_LINES and name not in LONG_FILES:
        yield name, f"has {FILE_LINES} lines or more; split it"
    if not is_test(path):
        functions = python_functions if path.suffix == ".py" else cpp_functions
        for function, length in functions(text):
            if length >= FUNCTION_LINES:
                yield name, f"{function} has {FUNCTION_LINES} lines or more; split it"
    if name.startswith("src/") and path.suffix in CPP:
        if name != LIMITS and not is_test(path):
            for constant in MAX_CONSTANT.findall(text):
                yield name, f"{constant} belongs in {LIMITS}"
        if TEST_HELPER.fullmatch(path.name) and not is_test(path):
            yield name, "a helper of tests belongs in a folder testing/"


def sources() -> list[str]:
    """Returns the production sources that git tracks or would track, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *PRODUCTION],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    names = (name for name in listed.stdout.splitlines() if (ROOT / name).exists())
    return [name for name in names if name.endswith((".py", *CPP))]


def large_folders(names: list[str]) -> Iterator[Problem]:
    """Yields each folder that has too many files of code and does not say why."""
    counts = Counter(Path(name).parent for name in names if not is_test(Path(name)))
    for folder, count in counts.items():
        readmes = [ROOT / place / "README.md" for place in (folder, folder.parent)]
        says_why = any(LARGE_FOLDER in path.read_text() for path in readmes if path.exists())
        if count > FOLDER_FILES and not says_why:
            yield str(folder), f"has {count} files; split it, or say why in its README"


def main() -> int:
    """Prints every broken rule; returns 1 if there is one."""
    names = sources()
    found = {problem for name in names for problem in problems_of(name)}
    found |= set(large_folders(names))
    complaints = [f"{name}: {what}" for name, what in sorted(found)]
    complaints += [
        f"{name} no longer exists; remove it from LONG_FILES"
        for name in sorted(set(LONG_FILES) - set(names))
    ]
    print("\n".join(complaints) or f"shape: {len(names)} files, all in order")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
