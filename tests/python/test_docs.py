"""The pages' Python blocks that are marked to be run do run, as printed."""

import re
from pathlib import Path

import pytest

from conftest import ROOT

MARKED = re.compile(r"<!-- run -->\n```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_marked_blocks_run(page: str, packed: Path, tmp_path: Path, monkeypatch):
    (tmp_path / "train.forebay").symlink_to(packed)
    monkeypatch.chdir(tmp_path)
    blocks = MARKED.findall((ROOT / page).read_text())
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
