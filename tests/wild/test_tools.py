"""Tests the tools of the wild trial themselves over a few files that are made here."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import compare
import decoders
import gather


def encode(kind: str, side: int = 40, **options: object) -> bytes:
    small = np.random.default_rng(side).integers(0, 256, (5, 5, 3), dtype=np.uint8)
    out = io.BytesIO()
    image = Image.fromarray(small).resize((side, side), Image.Resampling.BICUBIC)
    image.save(out, kind, **options)
    return out.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Makes a repository of whole, damaged and unsupported images and files that are no images."""
    root = tmp_path / "wild"
    content = {
        "a.jpg": encode("JPEG"),
        "cut.jpg": encode("JPEG")[:-100],
        "b.png": encode("PNG"),
        "c.webp": encode("WEBP"),
        "empty.jpg": b"",
        "deep/text.png": b"no image",
        "deep/gif.jpg": encode("GIF"),
        "deep/cmyk.jpg": cmyk(),
        "deep/not_adobe.jpg": without_adobe(cmyk()),
    }
    for name, data in content.items():
        path = root / "owner+name" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (root / "NOTES").write_text("Files at the top belong to no repository.")
    return root


def cmyk() -> bytes:
    out = io.BytesIO()
    Image.open(io.BytesIO(encode("PNG"))).convert("CMYK").save(out, "JPEG")
    return out.getvalue()


def without_adobe(jpeg: bytes) -> bytes:
    begin = jpeg.index(b"\xff\xee")
    return jpeg[:begin] + jpeg[begin + 2 + int.from_bytes(jpeg[begin + 2 : begin + 4], "big") :]


def test_categories(folder: Path) -> None:
    worker = decoders.Worker()
    records = {record["path"]: record for record in compare.compare(folder, worker)}
    worker.close()
    got = {path.removeprefix("owner+name/"): r["category"] for path, r in records.items()}
    assert got == {
        "a.jpg": "equal",
        "b.png": "equal",
        "c.webp": "equal",
        "cut.jpg": "neither",
        "deep/cmyk.jpg": "equal",
        "deep/gif.jpg": "pillow only",
        "deep/not_adobe.jpg": "equal",
        "deep/text.png": "neither",
        "empty.jpg": "neither",
    }
    jpeg = records["owner+name/a.jpg"]
    assert jpeg["libjpeg"] == {"size": [40, 40], "warnings": []}
    assert not any(jpeg["differences"].values()) and len(jpeg["differences"]) == 4
    assert not any(records["owner+name/deep/cmyk.jpg"]["differences"].values())
    assert not any(records["owner+name/deep/not_adobe.jpg"]["differences"].values())
    cut = records["owner+name/cut.jpg"]
    assert cut["damaged"] == {"size": [40, 40]} and cut["differences"] == {"damaged-libjpeg": None}


def test_libjpeg_tells_warnings_and_errors(tmp_path: Path) -> None:
    library = decoders.build_libjpeg()
    whole = encode("JPEG")
    pixels, told = decoders.decode_with_libjpeg(whole[:-200], library)
    assert pixels.shape == (40, 40, 3) and "Premature end of JPEG file" in told
    with pytest.raises(decoders.RefusedError, match="starts with"):
        decoders.decode_with_libjpeg(b"no image", library)


def test_differences_are_told() -> None:
    one = np.zeros((2, 2, 3), np.uint8)
    other = one.copy()
    other[0, 0] = 255, 0, 0
    assert decoders.difference(one, one) is None
    assert decoders.difference(one, other) == {"max": 255, "mean": 21.25}
    assert decoders.difference(one, one[:1]) == {"max": -1, "mean": -1}


def test_crash_and_hang_are_outcomes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = decoders.Worker()
    gone = worker.decode(tmp_path / "gone.jpg")  # the process ends with a traceback
    assert gone == {"pillow": {"error": "crashes: exit code 1"}}
    whole = folder / "owner+name" / "a.jpg"
    assert worker.decode(whole)["forebay"] == {"size": [40, 40]}
    pipe = tmp_path / "pipe.jpg"  # nobody writes to it
    subprocess.run(["mkfifo", str(pipe)], check=True)
    monkeypatch.setattr(decoders, "SECONDS_MAX", 0.2)
    assert worker.decode(pipe) == {"pillow": {"error": "hangs: more than 0.2 s"}}
    monkeypatch.undo()
    assert worker.decode(whole)["forebay"] == {"size": [40, 40]}
    worker.close()


def test_tables_and_last_line(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, compare.__file__, str(folder), "--records", str(tmp_path / "all")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "| owner/name | 9 | 5 | 0 | 1 | 0 | 3 |" in done.stdout
    assert "## Pillow only: other: " in done.stdout and "- owner+name/deep/gif.jpg" in done.stdout
    assert '"files": 9, "equal": 5' in done.stdout.splitlines()[-1]
    assert len((tmp_path / "all").read_text().splitlines()) == 9


def test_reasons_leave_out_numbers_and_names() -> None:
    record = {
        "category": "pillow only",
        "format": "JPEG",
        "forebay": {"error": "decode: image 0: JPEG: byte 64: 0x30 where a marker is due"},
    }
    assert compare.reason_of(record) == "JPEG: byte N: … where a marker is due"


def commit(clone: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_bytes(content)
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "files"]):
        subprocess.run(["git", "-C", str(clone), *command], check=True)


def test_gather(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gather, "LIST", tmp_path / "files.txt")
    image = encode("PNG")
    first, second = tmp_path / "clones" / "a+one", tmp_path / "clones" / "b+two"
    commit(first, {"x y/é.png": image, "code.c": b"int x;", "corpus/1": b"\xff\xd8\xff\xe0"})
    pointer = b"version https://git-lfs.github.com/spec/v1\n"
    commit(second, {"again.png": image, "large.png": pointer, "text.jpg": b"text"})
    gather.relist(tmp_path / "clones")
    listed = {r.name: [name for _, _, name in r.files] for r in gather.read_list()}
    assert listed == {"a/one": ["corpus/1", "x y/é.png"], "b/two": ["text.jpg"]}
    out = tmp_path / "wild"
    assert gather.gather(tmp_path / "clones", out) == 0
    assert (out / "a+one" / "x y" / "é.png").read_bytes() == image
    assert sorted(path.name for path in out.rglob("*") if path.is_file()) == [
        "1", "text.jpg", "é.png",
    ]  # fmt: skip

    lines = gather.LIST.read_text().replace(gather.blob_name(b"text"), "0" * 40)
    gather.LIST.write_text(f"{lines}repository c/three {'1' * 40}\n{'2' * 40} 5 gone.png\n")
    assert gather.gather(tmp_path / "clones", out) == 2
    told = capsys.readouterr().err
    assert "text.jpg" in told and "not in the clone" in told and "no clone, 1 files" in told
