"""Weights that forebay train writes load in PyTorch, with torchvision's names and shapes."""

import os
import subprocess
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[2]
FOREBAY = Path(os.environ.get("FOREBAY_BIN", ROOT / "build/release/src/apps/forebay"))


def resnet18_shapes(classes: int) -> dict[str, tuple[int, ...]]:
    """The state dict of torchvision's resnet18, from the published architecture."""
    shapes: dict[str, tuple[int, ...]] = {}

    def norm(name: str, channels: int) -> None:
        for part in ("weight", "bias", "running_mean", "running_var"):
            shapes[f"{name}.{part}"] = (channels,)
        shapes[f"{name}.num_batches_tracked"] = ()

    shapes["conv1.weight"] = (64, 3, 7, 7)
    norm("bn1", 64)
    before = 64
    for layer, channels in enumerate((64, 128, 256, 512), start=1):
        for block in range(2):
            name = f"layer{layer}.{block}"
            shapes[f"{name}.conv1.weight"] = (channels, before, 3, 3)
            norm(f"{name}.bn1", channels)
            shapes[f"{name}.conv2.weight"] = (channels, channels, 3, 3)
            norm(f"{name}.bn2", channels)
            if before != channels:
                shapes[f"{name}.downsample.0.weight"] = (channels, before, 1, 1)
                norm(f"{name}.downsample.1", channels)
            before = channels
    shapes["fc.weight"] = (classes, 512)
    shapes["fc.bias"] = (classes,)
    return shapes


def test_resnet18_weights_load_in_pytorch(tmp_path: Path) -> None:
    """One short run from a folder of JPEGs; its model.safetensors has torchvision's keys."""
    random = np.random.default_rng(0)
    for name in ("a", "b", "c"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(8):
            pixels = random.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number}.jpg")
    subprocess.run([FOREBAY, "pack", tmp_path / "images", tmp_path / "set"], check=True)
    command = [FOREBAY, "train", tmp_path / "set", "--model", "resnet18", "--epochs", "1"]
    command += ["--batch", "8", "--out", tmp_path / "run"]
    subprocess.run([str(part) for part in command], check=True)
    state = load_file(tmp_path / "run/model.safetensors")
    assert {name: tuple(value.shape) for name, value in state.items()} == resnet18_shapes(3)
    assert all(value.isfinite().all() for value in state.values())
