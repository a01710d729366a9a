"""`forebay train --sync` in two processes of torchrun."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
FOREBAY = Path(os.environ.get("FOREBAY_BIN", ROOT / "build/release/src/apps/forebay"))
STEPS, EPOCHS = 10, 4  # steps of an epoch, with 2 processes and batches of 6


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packs 120 small JPEGs, whose class is their colour."""
    root = tmp_path_factory.mktemp("images")
    random = np.random.default_rng(0)
    for channel, name in enumerate("rgb"):
        (root / "folder" / name).mkdir(parents=True)
        for number in range(40):
            pixels = random.integers(0, 160, (8, 8, 3), dtype=np.uint8)
            pixels[..., channel] += 90
            image = Image.fromarray(pixels).resize((32, 32), Image.Resampling.BICUBIC)
            image.save(root / "folder" / name / f"{number}.jpg")
    subprocess.run([FOREBAY, "pack", root / "folder", root / "set"], check=True)
    return root / "set"


def command(
    dataset: Path, strategy: str, *options: object, processes: int = 2, in_shell: bool = False
) -> list[str]:
    run = [
        FOREBAY, "train", dataset, "--sync", strategy, "--width", 2, "--batch", 6, "--warmup", 0.5,
        "--epochs", EPOCHS, "--lr", 0.1, "--precision", "fp32", "--threads", 1,
        "--feed-threads", 1, "--log-steps", 1, *options,
    ]  # fmt: skip
    launcher = ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    if in_shell:  # which expands variables such as $RANK in each process
        run = ["sh", "-c", " ".join(map(str, run))]
    return [str(word) for word in (sys.executable, "-m", *launcher, "--no-python", "--", *run)]


def train(dataset: Path, strategy: str, *options: object, **how: Any) -> str:
    """Runs a job to its end; returns its standard error."""
    words = command(dataset, strategy, *options, **how)
    done = subprocess.run(words, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stderr


NIGHTLY = [pytest.param(name, marks=pytest.mark.nightly) for name in ("auto", "pairs", "local")]


@pytest.mark.parametrize("strategy", ["ako", *NIGHTLY])
def test_two_processes_learn(dataset: Path, tmp_path: Path, strategy: str):
    log = tmp_path / "log.jsonl"
    said = train(dataset, strategy, "--val", dataset, "--out", tmp_path / "out", "--log", log)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [event["event"] for event in events].count("summary") == 1  # rank 0 alone writes
    assert said.count("done: ") == 1
    summary = events[-1]
    assert summary["steps"] == STEPS * EPOCHS
    assert summary["top1"] > 0.6
    sync = next(event["sync"] for event in reversed(events) if event["event"] == "epoch")
    assert sync["steps"] == STEPS * EPOCHS
    assert sync["trouble"] == ""
    assert (tmp_path / "out/model.safetensors").exists()


def stopped_job(dataset: Path, out: Path, *options: object) -> None:
    """A job of two processes that was stopped in its first epoch."""
    words = command(dataset, "allreduce", "--out", out, *options)
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as job:
        assert job.stderr is not None
        for line in job.stderr:
            if f"step 5/{STEPS}" in line:
                job.send_signal(signal.SIGTERM)
                break
        said = job.stderr.read()
        job.wait(60)
    assert list(out.glob("checkpoint-*")), said
    assert not (out / "model.safetensors").exists()


def test_a_stopped_job_goes_on_with_the_same_bits(dataset: Path, tmp_path: Path):
    train(dataset, "allreduce", "--out", tmp_path / "whole")
    out = tmp_path / "parts"
    stopped_job(dataset, out)
    assert "resumed" in train(dataset, "allreduce", "--out", out, "--resume")
    parts, whole = (folder / "model.safetensors" for folder in (out, tmp_path / "whole"))
    assert parts.read_bytes() == whole.read_bytes()


def test_a_job_goes_on_where_another_machine_has_the_checkpoint(dataset: Path, tmp_path: Path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(dataset, "allreduce", "--out", whole)
    stopped_job(dataset, parts / "1")
    # Each process has its own folder, as if it were on another machine.
    out = ["--out", parts / "$RANK", "--resume"]
    assert "resumed from rank 1's checkpoint at step " in train(
        dataset, "allreduce", *out, in_shell=True
    )
    models = [folder / "model.safetensors" for folder in (whole, parts / "0")]
    assert models[0].read_bytes() == models[1].read_bytes()


def test_checkpoints_of_another_job_are_refused_on_each_machine(dataset: Path, tmp_path: Path):
    stopped_job(dataset, tmp_path / "1")
    words = command(dataset, "allreduce", "--out", tmp_path / "$RANK", in_shell=True)
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert done.returncode != 0
    assert "already exists: continue with --resume" in done.stderr


def test_warnings_of_all_processes_are_shown(dataset: Path, tmp_path: Path):
    # Each process has its own folder, and rank 1's newest checkpoint is damaged.
    stopped_job(dataset, tmp_path / "1", "--checkpoint-steps", 2)
    newest = max((tmp_path / "1").glob("checkpoint-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    damaged = tmp_path / "set"
    shutil.copytree(dataset, damaged)
    (chunk,) = (damaged / "chunks").glob("*.tar")
    stored = bytearray(chunk.read_bytes())
    scans = [at.end() for at in re.finditer(b"\xff\xda", stored)]
    for scan in scans[::10]:
        stored[scan + 40] ^= 0xFF
    chunk.write_bytes(stored)
    out = ["--out", tmp_path / "$RANK", "--resume"]
    said = train(damaged, "allreduce", *out, in_shell=True)
    assert re.search(
        f"^warning: rank 1: .*{newest.name}.* an older checkpoint is used$", said, re.M
    )
    assert re.search('^warning: rank 1: sample "[rgb]/.*" of chunk .* cannot be used', said, re.M)
    assert re.search('^warning: sample "[rgb]/.*" of chunk .* cannot be used', said, re.M)


@pytest.mark.nightly
def test_a_stopped_job_goes_on_with_another_number_of_processes(dataset: Path, tmp_path: Path):
    stopped_job(dataset, tmp_path / "out")
    log = tmp_path / "log.jsonl"
    options = ["--out", tmp_path / "out", "--resume", "--log", log, "--val", dataset]
    train(dataset, "ako", *options, processes=1)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    rates = [event["lr"] for event in events if event["event"] == "step"]
    assert 0 < rates[-1] < 0.01 < max(rates)  # the schedule is that of one process's steps
    assert events[-1]["top1"] > 0.6


def test_the_target_ends_all_processes(dataset: Path, tmp_path: Path):
    said = train(dataset, "allreduce", "--val", dataset, "--target-accuracy", 0.1)
    assert f"done: 1 epochs, {STEPS} steps" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--sync", "gossip"], "strategy is 'gossip', but must be one of auto, allreduce"),
        (["--sync=ps"], "--sync ps is for forebay.sync.attach() alone"),
        (["--sync", "ako"], "--sync needs a job: torchrun --no-python"),
    ],
)
def test_what_makes_no_sense_is_refused(dataset: Path, options: list[str], said: str):
    words = [str(FOREBAY), "train", str(dataset), *options]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--device", "cuda"), "--sync trains on the processor only"),
        (("--learners", 2), "--learners 2: several learners train in one process"),
    ],
)
def test_what_processes_cannot_do_together_is_refused(
    dataset: Path, options: tuple[object, ...], said: str
):
    words = command(dataset, "ako", *options, processes=1)
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert done.returncode != 0
    assert said in done.stderr
