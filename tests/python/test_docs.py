"""The pages' Python blocks that are marked to be run do run, as printed; all others are Python."""

import io
import re
import runpy
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from conftest import ROOT

MARKED = re.compile(r"<!-- run -->\n```python\n(.*?)```", re.DOTALL)
ALL = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.fixture
def data(packed: Path, folder: Path, images: dict[str, bytes], tmp_path: Path, monkeypatch) -> Path:
    """A working directory with what the pages name."""
    (tmp_path / "train.forebay").symlink_to(packed)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/train").symlink_to(folder)
    for split in ("train", "test"):
        for name, content in list(images.items())[:20]:
            file = tmp_path / "cifar" / split / name
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.open(io.BytesIO(content)).resize((32, 32)).save(file, quality=95)
    (tmp_path / "shards").mkdir()
    for shard in range(4):
        with tarfile.open(tmp_path / f"shards/train-{shard:06}.tar", "w") as tar:
            for name, content in list(images.items())[shard::4]:
                label = name[5].encode()  # class0/000.jpg
                for field, value in ((".jpg", content), (".cls", label)):
                    member = tarfile.TarInfo(name.replace("/", "_").removesuffix(".jpg") + field)
                    member.size = len(value)
                    tar.addfile(member, io.BytesIO(value))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_blocks(page: str) -> dict[str, Any]:
    """What they define."""
    blocks = MARKED.findall((ROOT / page).read_text())
    assert blocks
    names: dict[str, Any] = {"__name__": page}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    return names


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_marked_blocks_run(page: str, data: Path):
    run_blocks(page)


def test_the_migration_pages_loaders_give_the_same(data: Path):
    runpy.run_path(str(ROOT / "scripts/torchvision_on_cpu/sitecustomize.py"))
    names = run_blocks("docs/migrating.md")
    (_, theirs), (train, ours) = (
        names[f"{which}_loaders"]("cifar", 8, 0) for which in ("torchvision", "forebay")
    )
    assert len(theirs) == len(ours)
    for (images, labels), (expected, expected_labels) in zip(ours, theirs, strict=True):
        assert torch.equal(labels, expected_labels)
        torch.testing.assert_close(images, expected, rtol=0, atol=1e-5)
    assert [len(labels) for _, labels in train] == [8, 8]
    accuracy = names["train"](names["forebay_loaders"], "cifar", 1, batch_size=16)
    assert 0 <= accuracy <= 1


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in ROOT.glob("docs/*.md")])
def test_all_blocks_are_python(page: str):
    for block in ALL.findall((ROOT / page).read_text()):
        compile(block, page, "exec")
