"""Weights go both ways between forebay train and PyTorch, and mean the same in both."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).parent))
from models import ResNet9, ResNet18

ROOT = Path(__file__).resolve().parents[2]
FOREBAY = Path(os.environ.get("FOREBAY_BIN", ROOT / "build/release/src/apps/forebay"))
CLASSES = ("a", "b", "c")
EACH = 8


def forebay(*arguments: object) -> None:
    subprocess.run([str(part) for part in (FOREBAY, *arguments)], check=True)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a folder of small random JPEGs by class and, beside it, the dataset made of it."""
    root = tmp_path_factory.mktemp("images")
    random = np.random.default_rng(0)
    for name in CLASSES:
        (root / "folder" / name).mkdir(parents=True)
        for number in range(EACH):
            coarse = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            image = Image.fromarray(coarse).resize((32, 32), Image.Resampling.BICUBIC)
            image.save(root / "folder" / name / f"{number}.jpg")
    forebay("pack", root / "folder", root / "set")
    return root


def model_of(name: str) -> torch.nn.Module:
    return ResNet9(4, len(CLASSES)) if name == "resnet9" else ResNet18(len(CLASSES))


def loss_in_pytorch(model: torch.nn.Module, folder: Path) -> float:
    """Returns the mean cross-entropy over all images, prepared like torchvision does."""
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    deviation = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    inputs, labels = [], []
    for label, name in enumerate(CLASSES):
        for path in sorted((folder / name).iterdir()):
            pixels = torch.from_numpy(np.asarray(Image.open(path).convert("RGB")).copy())
            inputs.append((pixels.permute(2, 0, 1) / 255 - mean) / deviation)
            labels.append(label)
    with torch.no_grad():
        logits = model.eval()(torch.stack(inputs))
    return torch.nn.functional.cross_entropy(logits, torch.tensor(labels)).item()


def train(images: Path, work: Path, name: str, *options: object) -> dict:
    """Runs forebay train once and returns its summary."""
    log = work / "log.jsonl"
    log.unlink(missing_ok=True)
    forebay("train", images / "set", "--val", images / "set", "--model", name, "--width", 4,
            "--batch", 8, "--precision", "fp32", "--log", log, *options)  # fmt: skip
    return json.loads(log.read_text().splitlines()[-1])


@pytest.mark.parametrize("name", ["resnet9", "resnet18"])
def test_pytorch_weights_give_the_same_loss_in_forebay(
    images: Path, tmp_path: Path, name: str
) -> None:
    torch.manual_seed(1)
    model = model_of(name)
    for part in model.modules():
        if isinstance(part, ResNet9.Whitening):
            part.get_buffer("weight").normal_()
        if isinstance(part, torch.nn.BatchNorm2d):
            part.get_buffer("running_mean").uniform_(-0.3, 0.3)
            part.get_buffer("running_var").uniform_(0.5, 1.5)
            torch.nn.init.uniform_(part.weight, 0.5, 1.5)
            torch.nn.init.uniform_(part.bias, -0.2, 0.2)
    save_file(model.state_dict(), tmp_path / "init.safetensors")
    summary = train(images, tmp_path, name, "--epochs", 0, "--init", tmp_path / "init.safetensors")
    assert summary["val_loss"] == pytest.approx(loss_in_pytorch(model, images / "folder"), rel=1e-4)


@pytest.mark.parametrize("name", ["resnet9", "resnet18"])
def test_trained_weights_give_the_same_loss_in_pytorch(
    images: Path, tmp_path: Path, name: str
) -> None:
    summary = train(images, tmp_path, name, "--epochs", 2, "--lr", 0.02, "--out", tmp_path / "run")
    model = model_of(name)
    before = loss_in_pytorch(model, images / "folder")
    model.load_state_dict(load_file(tmp_path / "run/model.safetensors"))  # needs the same keys
    assert summary["val_loss"] == pytest.approx(loss_in_pytorch(model, images / "folder"), rel=1e-4)
    assert summary["val_loss"] != pytest.approx(before, rel=1e-3)


def test_weights_of_another_model_are_refused(images: Path, tmp_path: Path) -> None:
    save_file(ResNet9(8, 3).state_dict(), tmp_path / "wide.safetensors")
    command = [FOREBAY, "train", images / "set", "--width", "4", "--batch", "8"]
    command += ["--init", tmp_path / "wide.safetensors"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 1
    assert "wide.safetensors: tensor " in done.stderr
    assert "in the file, expected F32 of [" in done.stderr
