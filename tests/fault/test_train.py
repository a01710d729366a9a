"""Interrupts and resumes forebay train: the weights equal those of an uninterrupted run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
FOREBAY = os.environ.get("FOREBAY_BIN", str(ROOT / "build/release/src/apps/forebay"))
IMAGES = 192
SIDE = 16
STOPPED = 130


def train_command(dataset: Path, out: Path, *options: str) -> list[str]:
    command = [FOREBAY, "train", str(dataset), "--width", "2", "--batch", "16", "--epochs", "3"]
    return [*command, "--log-steps", "1", "--out", str(out), *options]


def train(dataset: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = train_command(dataset, out, *options)
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("train")
    random = np.random.default_rng(3)
    for i in range(IMAGES):
        folder = root / "images" / f"class{i % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i:03}.jpg")
    subprocess.run([FOREBAY, "pack", root / "images", root / "set"], check=True)
    return root / "set"


@pytest.fixture(scope="module")
def expected(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Returns the weights of an uninterrupted run."""
    out = tmp_path_factory.mktemp("expected")
    done = train(dataset, out)
    assert done.returncode == 0, done.stderr
    return (out / "model.safetensors").read_bytes()


def send_after_steps(command: list[str], steps: int, number: signal.Signals) -> tuple[int, str]:
    """Starts a run and sends it a signal once it has reported this number of steps."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr
        said = ""
        for line in run.stderr:
            said += line
            steps -= " step " in line
            if steps == 0:
                run.send_signal(number)
                break
        said += run.stderr.read()
    return run.returncode, said


def test_same_weights_twice(dataset: Path, expected: bytes, tmp_path: Path) -> None:
    assert train(dataset, tmp_path).returncode == 0
    assert (tmp_path / "model.safetensors").read_bytes() == expected


@pytest.mark.parametrize("steps", [1, 11, 17])
def test_interrupted_run_goes_on_to_the_same_weights(
    dataset: Path, expected: bytes, tmp_path: Path, steps: int
) -> None:
    code, said = send_after_steps(train_command(dataset, tmp_path), steps, signal.SIGINT)
    assert code == STOPPED, said
    assert "to continue, run it again with --resume" in said
    assert not (tmp_path / "model.safetensors").exists()
    done = train(dataset, tmp_path, "--resume")
    assert done.returncode == 0, done.stderr
    assert re.search(r"resumed .* at step \d+", done.stderr)
    assert (tmp_path / "model.safetensors").read_bytes() == expected


def test_killed_run_goes_on_to_the_same_weights(
    dataset: Path, expected: bytes, tmp_path: Path
) -> None:
    command = train_command(dataset, tmp_path, "--checkpoint-steps", "5")
    code, said = send_after_steps(command, 14, signal.SIGKILL)
    assert code == -signal.SIGKILL, said
    done = train(dataset, tmp_path, "--resume")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "model.safetensors").read_bytes() == expected


def test_torn_checkpoint_gives_way_to_the_one_before(
    dataset: Path, expected: bytes, tmp_path: Path
) -> None:
    command = train_command(dataset, tmp_path, "--checkpoint-steps", "5")
    send_after_steps(command, 14, signal.SIGKILL)
    newest = max(tmp_path.glob("checkpoint-*.safetensors"))
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    done = train(dataset, tmp_path, "--resume")
    assert done.returncode == 0, done.stderr
    assert f"warning: {newest}" in done.stderr
    assert (tmp_path / "model.safetensors").read_bytes() == expected


def test_other_options_are_refused_and_nothing_is_lost(dataset: Path, tmp_path: Path) -> None:
    assert train(dataset, tmp_path).returncode == 0
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.safetensors")}
    for options, reason in (((), "--resume"), (("--resume", "--seed", "1"), "seed 0 (now 1)")):
        done = train(dataset, tmp_path, *options)
        assert done.returncode == 1
        assert reason in done.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.safetensors")} == before


def test_damaged_sample_is_named_and_replaced(dataset: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", dataset, copy], check=True)
    (chunk,) = (copy / "chunks").iterdir()
    content = bytearray(chunk.read_bytes())
    content[content.rindex(b"\xff\xd9") - 9] ^= 0xFF  # damages the last image's pixels
    chunk.write_bytes(content)
    done = train(copy, tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert re.search(
        r'warning: sample "class\d/\d+" of chunk .* is replaced by another', done.stderr
    )
    assert "; 1 bad samples" in done.stderr
    done = train(copy, tmp_path / "strict", "--bad-samples-max", "0")
    assert done.returncode == 1
    assert re.search(r"class\d/\d+ in chunk .*: its bytes do not have the checksum", done.stderr)


def test_data_without_classes_is_an_error(dataset: Path, tmp_path: Path) -> None:
    images = sorted((dataset.parent / "images" / "class0").glob("*.jpg"))[:32]
    names = [image.name for image in images]
    tar = ["tar", "cf", str(tmp_path / "x.tar"), "-C", str(images[0].parent), *names]
    subprocess.run(tar, check=True)
    subprocess.run([FOREBAY, "pack", tmp_path / "x.tar", tmp_path / "set"], check=True)
    done = train(tmp_path / "set", tmp_path / "out")
    assert done.returncode == 1
    assert "no sample has a class to learn" in done.stderr and ".cls" in done.stderr


@pytest.mark.parametrize("averaging", ["sma", "sgd", "local"])
def test_several_learners_go_on_to_the_same_weights(
    dataset: Path, tmp_path: Path, averaging: str
) -> None:
    learners = ("--learners", "2", "--averaging", averaging, "--threads", "2")
    assert train(dataset, tmp_path / "whole", *learners).returncode == 0
    out = tmp_path / "killed"
    command = train_command(dataset, out, *learners, "--checkpoint-steps", "5")
    code, said = send_after_steps(command, 8, signal.SIGKILL)
    assert code == -signal.SIGKILL, said
    code, said = send_after_steps([*command, "--resume"], 5, signal.SIGINT)
    assert code == STOPPED, said
    done = train(dataset, out, *learners, "--resume")
    assert done.returncode == 0, done.stderr
    assert "resumed" in done.stderr
    expected = (tmp_path / "whole" / "model.safetensors").read_bytes()
    assert (out / "model.safetensors").read_bytes() == expected
    done = train(dataset, out, "--resume")
    assert done.returncode == 1
    assert "learners 2 (now null)" in done.stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--averaging-rate", "1.5"), "are stable with rates above 0 and below 0.7755"),
        (("--averaging", "sgd", "--averaging-steps", "2"), "use --averaging local"),
        (("--lr", "1e30"), "learner [123] of 3: the loss is .* training diverged"),
    ],
)
def test_several_learners_refuse_by_name(
    dataset: Path, tmp_path: Path, options: tuple[str, ...], reason: str
) -> None:
    done = train(dataset, tmp_path, "--learners", "3", *options)
    assert done.returncode == 1
    assert re.search(reason, done.stderr), done.stderr
    assert not list(tmp_path.glob("*.safetensors"))


def test_more_learners_than_cores_take_turns(dataset: Path, tmp_path: Path) -> None:
    done = train(dataset, tmp_path, "--learners", "4", "--threads", "2")
    assert done.returncode == 0, done.stderr
    assert "warning: --learners 4: PyTorch has 2 threads" in done.stderr
    assert (tmp_path / "model.safetensors").exists()
