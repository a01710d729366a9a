"""Every page's Python blocks run as printed, and the shell blocks that are marked to be run.

A page's blocks share their names, in the page's order, in a folder with photos/train and
train.forebay. `<!-- not run: REASON -->` before a Python block leaves it out.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from conftest import FOREBAY, ROOT

pytest.importorskip("torch")  # the pages are for PyTorch's users

BLOCK = re.compile(r"(?:^<!-- ([^\n]*) -->\n)?^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHELLS = ("bash", "console")
PAGES = sorted(
    str(page.relative_to(ROOT)) for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
)


def blocks_to_run(page: str) -> list[tuple[str, str, int]]:
    """Language, text and the number of the line before its first one."""
    text = (ROOT / page).read_text()
    found = []
    for block in BLOCK.finditer(text):
        mark, language, code = block.groups()
        line = text.count("\n", 0, block.start(3))
        if language == "python":
            left_out = mark is not None and mark.startswith("not run")
            assert not left_out or len(mark) > len("not run: "), f"{page}:{line}: not run, but why?"
            if not left_out:
                found.append((language, code, line))
        elif language in SHELLS and mark == "run":
            found.append((language, code, line))
    return found


def commands(language: str, code: str) -> str:
    """Of a console block what follows a prompt; the rest is output."""
    if language == "bash":
        return code
    return "".join(line[2:] for line in code.splitlines(True) if line.startswith("$ "))


@pytest.fixture
def data(packed: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with what the pages name, and `forebay` in the PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/forebay").symlink_to(Path(FOREBAY).absolute())
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/train").symlink_to(folder)
    (tmp_path / "train.forebay").symlink_to(packed)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_to_run(page)])
def test_blocks_run(page: str, data: Path):
    names: dict[str, object] = {"__name__": page}
    for language, code, line in blocks_to_run(page):
        if language == "python":
            # As many lines ahead as the page has: errors then name its own.
            exec(compile("\n" * line + code, ROOT / page, "exec"), names)
            continue
        if re.search(r"\bpack \S+ train\.forebay", code):  # the page makes it itself
            (data / "train.forebay").unlink()
        script = commands(language, code)
        assert script, f"{page}:{line}: no command in the block"
        done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True)
        assert done.returncode == 0, f"{page}:{line}: {done.stderr}"


def test_pages_are_found():
    assert {"README.md", "docs/index.md", "docs/loading.md"} <= set(PAGES)
    assert [language for language, _, _ in blocks_to_run("docs/index.md")] == [
        "bash",
        "python",
        "python",
    ]
