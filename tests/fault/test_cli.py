"""What the command line says, and how it ends, when a call or its surroundings are wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
FOREBAY = os.environ.get("FOREBAY_BIN", str(ROOT / "build/release/src/apps/forebay"))


def forebay(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [FOREBAY, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Packs two classes of three PNGs, one of which has the longest name that a file can have."""
    for number in range(6):
        folder = tmp_path / "images" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        name = "x" * 251 if number == 5 else f"{number}"
        Image.new("RGB", (9, 9), (40 * number, 9, 5)).save(folder / f"{name}.png")
    assert forebay("pack", tmp_path / "images", tmp_path / "set").returncode == 0
    return tmp_path / "set"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bogus"], "no command bogus"),
        ([], "subcommand is required"),
        (["pack", "a", "b", "--limit", "-1"], "-1 is not a whole number"),
        (["pack", "a", "b", "--threads", "-1"], "-1 not in range"),
        (["pack", "a", "b", "--skip-max", "101%"], "101% is neither a number of samples"),
        (["train", "set", "--batch", "4294967296"], "4294967296"),
        (["train", "set", "--nonsense"], "--nonsense"),
        (["train"], "dataset is required"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], said: str) -> None:
    done = forebay(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("forebay: ") and said in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--epochs", "0"], "nothing to do"),
        (["--resume"], "--resume needs the folder --out"),
        (["--target-accuracy", "0.5"], "needs --val"),
        (["--lr", "nan"], "not a finite number"),
        (["--std", "0", "1", "1"], "--std: must be above 0"),
        (["--model", "vgg"], "use resnet9 or resnet18"),
        (["--batch", "7"], "fewer samples than one batch"),
    ],
)
def test_options_that_make_no_sense(dataset: Path, options: list[str], said: str) -> None:
    batch = [] if "--batch" in options else ["--batch", "2"]
    done = forebay("train", dataset, *batch, *options)
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]


def test_validation_with_other_classes_is_refused(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "other/b").mkdir(parents=True)
    Image.new("RGB", (9, 7)).save(tmp_path / "other/b/1.png")
    assert forebay("pack", tmp_path / "other", tmp_path / "val").returncode == 0
    done = forebay("train", dataset, "--batch", 2, "--size", 8, "--val", tmp_path / "val")
    assert done.returncode == 1
    assert 'class 0 is "a"' in done.stderr and '"b"' in done.stderr


@pytest.mark.parametrize("command", ["ls", "inspect", "verify"])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_full_standard_output_is_an_error(dataset: Path, command: str, options: list[str]) -> None:
    if command == "inspect" and options:
        options = ["0"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [FOREBAY, command, str(dataset), *options], stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"forebay: cannot write")


def test_export_gives_back_what_is_not_damaged(dataset: Path, tmp_path: Path) -> None:
    done = forebay("export", dataset, tmp_path / "whole")
    assert done.returncode == 0, done.stderr
    source = {p.relative_to(tmp_path / "images") for p in (tmp_path / "images").rglob("*.png")}
    assert {p.relative_to(tmp_path / "whole") for p in (tmp_path / "whole").rglob("*.*")} == source
    (chunk,) = (dataset / "chunks").iterdir()
    content = bytearray(chunk.read_bytes())
    content[content.index(b"IDAT")] ^= 1
    chunk.write_bytes(content)
    done = forebay("export", dataset, tmp_path / "rest")
    assert done.returncode == 1
    assert done.stderr.count("left out, damaged") == 1 and "checksum" in done.stderr
    assert len(list((tmp_path / "rest").rglob("*.png"))) == 5


def test_a_class_without_images_keeps_its_number(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / "images" / name).mkdir(parents=True)
    for name in ("a", "c"):
        Image.new("RGB", (9, 9)).save(tmp_path / "images" / name / "1.png")
    assert forebay("pack", tmp_path / "images", tmp_path / "set").returncode == 0
    done = forebay("export", tmp_path / "set", tmp_path / "back")
    assert done.returncode == 0, done.stderr
    names = {
        path.relative_to(tmp_path / "back").as_posix() for path in (tmp_path / "back").rglob("*")
    }
    assert names == {"a", "a/1.png", "b", "c", "c/1.png"}
    assert forebay("pack", tmp_path / "back", tmp_path / "again").returncode == 0
    assert forebay("ls", tmp_path / "again").stdout == forebay("ls", tmp_path / "set").stdout


def test_a_refused_pack_leaves_nothing_in_a_folder_of_others(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    done = forebay("pack", tmp_path / "images", tmp_path / "mine")
    assert done.returncode == 1 and "holds other files (notes.txt)" in done.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_ls_shows_control_characters_as_escapes(tmp_path: Path) -> None:
    (tmp_path / "images/c").mkdir(parents=True)
    Image.new("RGB", (9, 9)).save(tmp_path / "images/c/a\t\x1b[2Jb.png")
    assert forebay("pack", tmp_path / "images", tmp_path / "set").returncode == 0
    assert forebay("ls", tmp_path / "set").stdout.startswith("c/a\\x09\\x1b[2Jb\tc\t")


def test_verify_decodes_a_folder_and_lists_what_is_no_image(tmp_path: Path) -> None:
    """Verify once found "no damage" in empty, truncated and text files named .png."""
    folder = tmp_path / "images" / "a"
    folder.mkdir(parents=True)
    Image.new("RGB", (9, 9)).save(folder / "good.png")
    clean = forebay("verify", tmp_path / "images")
    assert clean.returncode == 0 and clean.stdout.startswith("1 chunk, 1 sample, "), clean.stdout
    assert clean.stdout.rstrip().endswith(": no damage")
    (folder / "empty.png").write_bytes(b"")
    one = forebay("verify", tmp_path / "images")
    assert one.returncode == 1 and one.stdout.rstrip().endswith(": 1 damage"), one.stdout
    (folder / "cut.png").write_bytes((folder / "good.png").read_bytes()[:40])
    (folder / "text.jpg").write_text("no image")
    (folder / "nowhere.jpg").symlink_to("missing")
    (folder / "notes.txt").write_text("no image by its name")
    for options in ([], ["--pixels"], ["--json"]):
        found = forebay("verify", tmp_path / "images", *options)
        assert found.returncode == 1
        for name in ("cut.png", "empty.png", "nowhere.jpg", "text.jpg"):
            assert name in found.stdout
        assert "good.png" not in found.stdout
        assert "not that of an image: 1 file" in found.stderr
    report = json.loads(found.stdout)
    assert (report["samples"], report["images_decoded"], len(report["damages"])) == (4, 4, 4)


def test_verify_goes_on_after_a_shard_that_is_cut(tmp_path: Path) -> None:
    for number in range(3):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        for name in ("a", "b"):
            Image.new("RGB", (200, 200), (number, 0, 0)).save(folder / f"{name}{number}.jpg")
        names = [f"a{number}.jpg", f"b{number}.jpg"]
        tar = ["tar", "cf", f"{tmp_path}/x-{number}.tar", "-C", str(folder), *names]
        subprocess.run(tar, check=True)
    os.truncate(tmp_path / "x-0.tar", 1000)
    found = forebay("verify", f"{tmp_path}/x-{{0..3}}.tar", "--json")
    assert found.returncode == 1
    report = json.loads(found.stdout)
    assert report["samples"] == report["images_decoded"] == 4
    assert [Path(one["file"]).name for one in report["damages"]] == ["x-0.tar", "x-3.tar"]


def test_a_folder_that_cannot_be_written_is_left_without_an_index(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    (folder / "a").mkdir(parents=True)
    Image.new("RGB", (9, 9)).save(folder / "a" / "1.png")
    folder.chmod(0o555)
    # Root may write everywhere, so another user runs a copy of the program.
    program = shutil.copy(FOREBAY, tmp_path)
    somebody: dict[str, Any] = {}
    if os.getuid() == 0:
        somebody = {"user": 65534, "group": 65534, "extra_groups": []}
        for parent in tmp_path.parents:
            if parent.name.startswith(("pytest-", "popen-")):  # made by pytest or xdist
                parent.chmod(0o755)
        tmp_path.chmod(0o755)
    command = [program, "index", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **somebody)
    assert done.returncode == 1
    assert (
        "Permission denied" in done.stderr
        and "run this where that folder can be written" in done.stderr
    )
    assert [path.name for path in folder.iterdir()] == ["a"]


def test_too_few_descriptors_are_named(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"images/{number}").mkdir(parents=True)
        Image.new("RGB", (9, 9)).save(tmp_path / f"images/{number}/1.png")
    few = f'ulimit -n 4 && exec "{FOREBAY}" pack "{tmp_path}/images" "{tmp_path}/set"'
    done = subprocess.run(["bash", "-c", few], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Too many open files; raise the limit" in done.stderr
