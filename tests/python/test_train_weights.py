"""Weights that forebay-train writes load in PyTorch, with torchvision's names and shapes.

Needs FOREBAY_TRAIN (the program) and FOREBAY_TRAIN_DATASET (a packed dataset of small images).
"""

import os
import subprocess
from pathlib import Path

import pytest

safetensors_torch = pytest.importorskip("safetensors.torch")

PROGRAM = os.environ.get("FOREBAY_TRAIN")
DATASET = os.environ.get("FOREBAY_TRAIN_DATASET")


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


@pytest.mark.skipif(not (PROGRAM and DATASET), reason="no FOREBAY_TRAIN, FOREBAY_TRAIN_DATASET")
def test_resnet18_weights_load_in_pytorch(tmp_path: Path) -> None:
    command = [PROGRAM, DATASET, "--model", "resnet18", "--epochs", "1", "--size", "32"]
    command += ["--batch", "64", "--out", str(tmp_path)]
    subprocess.run([str(part) for part in command], check=True)
    state = safetensors_torch.load_file(tmp_path / "model.safetensors")
    classes = state["fc.bias"].shape[0]
    assert {name: tuple(value.shape) for name, value in state.items()} == resnet18_shapes(classes)
