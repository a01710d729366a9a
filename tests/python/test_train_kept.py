"""What `forebay train` saves, continues and refuses, so that no hours are lost."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors import safe_open

FOREBAY = os.environ["FOREBAY_BIN"]
OPTIONS = ("--width", 2, "--batch", 8, "--lr", 0.05, "--warmup", 0.5, "--precision", "fp32",
           "--threads", 1, "--feed-threads", 1)  # fmt: skip


def pack(folder: Path, classes: int) -> Path:
    """Packs 24 noisy images of a colour for each class."""
    rng = np.random.default_rng(4)
    for label in range(classes):
        (folder / f"images/{label}").mkdir(parents=True)
        for i in range(24):
            pixels = rng.integers(0, 120, (32, 32, 3)) + np.array([60 * label % 130, 40 * label, 0])
            image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
            image.save(folder / f"images/{label}/{i}.jpg")
    subprocess.run([FOREBAY, "pack", folder / "images", folder / "set"], check=True)
    return folder / "set"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack(tmp_path_factory.mktemp("three"), 3)


def train(dataset: Path, *options: object, **variables: str) -> subprocess.CompletedProcess[str]:
    words = [FOREBAY, "train", dataset, *OPTIONS, *options]
    return subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=120,
        env={**os.environ, **variables},
    )  # fmt: skip


def accuracy_in(path: Path) -> float:
    with safe_open(path, "np") as file:
        return float(file.metadata()["val_accuracy"])


def measured(dataset: Path, model: Path) -> float:
    """The accuracy of a saved model, measured by a run of its own."""
    log = model.with_suffix(".jsonl")
    done = train(dataset, "--epochs", 0, "--val", dataset, "--init", model, "--log", log)
    assert done.returncode == 0, done.stderr
    return float(json.loads(log.read_text().splitlines()[-1])["top1"])


def test_a_run_that_saves_nothing_says_so(dataset: Path):
    done = train(dataset, "--epochs", 1)
    assert done.returncode == 0, done.stderr
    assert "warning: without --out, no model and no checkpoint will be saved" in done.stderr


def test_a_launcher_without_sync_is_refused(dataset: Path):
    done = train(dataset, "--epochs", 1, WORLD_SIZE="2", RANK="0")
    assert done.returncode == 2
    assert "each would train the same model by itself; add --sync auto" in done.stderr


def test_a_model_is_not_overwritten(dataset: Path, tmp_path: Path):
    (tmp_path / "model.safetensors").write_bytes(b"precious")
    done = train(dataset, "--epochs", 1, "--out", tmp_path)
    assert done.returncode == 1
    assert "model.safetensors already exists: continue with --resume, or give" in done.stderr
    assert (tmp_path / "model.safetensors").read_bytes() == b"precious"


def test_a_log_that_cannot_be_written_ends_no_run(dataset: Path, tmp_path: Path):
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 22, 1 << 22));"
    ignore = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    log = tmp_path / "log.jsonl"
    log.write_bytes(bytes(1 << 22))  # at the limit, like on a full disk
    words = [FOREBAY, "train", dataset, *OPTIONS, "--epochs", 1, "--out", tmp_path, "--log", log]
    code = f"import os; {full} {ignore} os.execv({FOREBAY!r}, {[str(w) for w in words]!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("the run goes on without its log") == 1
    assert (tmp_path / "model.safetensors").exists()


def test_the_best_model_is_kept(dataset: Path, tmp_path: Path):
    done = train(dataset, "--epochs", 5, "--out", tmp_path, "--val", dataset)
    assert done.returncode == 0, done.stderr
    best = accuracy_in(tmp_path / "best.safetensors")
    assert measured(dataset, tmp_path / "best.safetensors") == pytest.approx(best, abs=1e-4)
    assert measured(dataset, tmp_path / "model.safetensors") <= best + 1e-4


def test_a_run_continues_for_more_epochs(dataset: Path, tmp_path: Path):
    first = train(dataset, "--epochs", 1, "--out", tmp_path, "--val", dataset)
    assert first.returncode == 0, first.stderr
    more = train(dataset, "--epochs", 3, "--out", tmp_path, "--val", dataset, "--resume")
    assert more.returncode == 0, more.stderr
    assert "epoch 3/3" in more.stderr
    fewer = train(dataset, "--epochs", 2, "--out", tmp_path, "--resume")
    assert fewer.returncode == 1
    assert "epochs 3 (now 2)" in fewer.stderr


@pytest.mark.parametrize("model", ["resnet9", pytest.param("resnet18", marks=pytest.mark.nightly)])
def test_weights_of_other_classes_begin_with_a_new_head(dataset: Path, tmp_path: Path, model: str):
    words = ("--epochs", 1, "--model", model)
    first = train(pack(tmp_path / "two", 2), *words, "--out", tmp_path / "first")
    assert first.returncode == 0, first.stderr
    path = tmp_path / "first/model.safetensors"
    other = train(dataset, *words, "--out", tmp_path / "other", "--init", path)
    assert other.returncode == 0, other.stderr
    assert "was trained for another number of classes, so " in other.stderr


def test_what_makes_no_sense_is_refused(dataset: Path, tmp_path: Path):
    one = train(pack(tmp_path, 1), "--epochs", 1)
    assert one.returncode == 1
    assert "all samples have the same class, so there is nothing to learn" in one.stderr
    none = train(dataset, "--batch", 0)
    assert none.returncode == 2
    assert "--batch" in none.stderr
    shown = train(dataset, "--help")
    assert "forebay train" in shown.stdout
    assert "forebay-train" not in shown.stdout


def test_a_job_saves_the_model_that_reached_the_target(dataset: Path, tmp_path: Path):
    words: list[Any] = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
        "--no-python", "--", FOREBAY, "train", dataset, "--sync", "ako", *OPTIONS, "--epochs", 20,
        "--val", dataset, "--target-accuracy", 0.5, "--out", tmp_path,
    ]  # fmt: skip
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "model.safetensors"
    said = accuracy_in(path)
    assert said >= 0.5
    shutil.copy(path, tmp_path / "copy.safetensors")
    assert measured(dataset, tmp_path / "copy.safetensors") == pytest.approx(said, abs=1e-4)
