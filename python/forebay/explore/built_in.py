"""Stages that come with Forebay."""

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forebay.explore.stages import Report, report, stage
from forebay.loading.loader import Loader
from forebay.pytorch import load_torch


@dataclass
class Images:
    """Decoded images: uint8 [samples, 3, size, size] and labels, int64 [samples]."""

    images: Any
    labels: Any


@stage(version="1")
def images(source: Any, size: int, classes: Any, samples: Any) -> Images:
    """Decodes the images of a dataset; see forebay.explore.Flow.images."""
    from forebay import transforms

    dataset = source.open()
    if classes is not None:
        unknown = [name for name in classes if name not in dataset.classes]
        if unknown:
            raise ValueError(f"images: there is no class {unknown[0]!r} in {source.path}")
        numbers = [dataset.classes.index(name) for name in classes]
        dataset = dataset.subset(np.flatnonzero(np.isin(dataset.core.labels(), numbers)))
    if samples is not None:
        dataset = dataset.subset(np.arange(len(dataset))[samples])
    torch = load_torch()
    pixels = torch.empty(len(dataset), 3, size, size, dtype=torch.uint8)
    labels = torch.empty(len(dataset), dtype=torch.int64)
    resize = [transforms.Resize(size), transforms.CenterCrop(size)]
    done = 0
    for batch, batch_labels in Loader(dataset, batch_size=256, num_workers=1, transform=resize):
        pixels[done : done + len(batch)] = batch
        labels[done : done + len(batch)] = batch_labels
        done += len(batch)
    return Images(pixels, labels)


@stage(version="1")
def train(source: Any, val: Any = None, threads: int = 1, **options: Any) -> Report:
    """Trains a model with `forebay train`; its state is the model's weights.

    It reports `loss` and `train_accuracy`, and with `val` also `accuracy` and `val_loss`, all of
    the last epoch.

    Args:
        source: The dataset to learn from: `flow.dataset`.
        val: The dataset to measure on.
        threads: PyTorch's threads.
        options: Further options of `forebay train`, with underscores: `lr=0.1`, `epochs=4`.

    Raises:
        RuntimeError: The training failed; the message has what it said.
    """
    import json

    from safetensors.torch import load_file

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        command = [os.environ.get("FOREBAY_BIN", "forebay"), "train", source.path]
        command += ["--out", folder, "--log", str(log), "--threads", str(threads)]
        command += ["--feed-threads", "1"]
        if val is not None:
            command += ["--val", val.path]
        for name, value in options.items():
            command += ["--" + name.replace("_", "-"), *([] if value is True else [str(value)])]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"forebay train failed: {done.stderr.strip()[-2000:]}")
        events = [json.loads(line) for line in log.read_text().splitlines()]
        last = [event for event in events if event["event"] == "epoch"][-1]
        metrics = {"loss": last["loss"], "train_accuracy": last["accuracy"]}
        if val is not None:
            metrics |= {"accuracy": last["val_accuracy"], "val_loss": last["val_loss"]}
        return report(load_file(Path(folder) / "model.safetensors"), **metrics)
