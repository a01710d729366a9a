"""Stages that come with Forebay."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forebay.explore.stages import Report, report, stage
from forebay.explore.worker_processes import ending_with_this
from forebay.loading.loader import Loader
from forebay.pytorch import load_torch

# These are ImageNet's, for pixels from 0 to 1. Weights of torchvision and timm expect them.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass
class Images:
    """Decoded images: uint8 [samples, 3, size, size] and labels, int64 [samples]."""

    images: Any
    labels: Any


@dataclass
class Features:
    """What a frozen model makes of images: float32 [samples, …] and labels, int64 [samples]."""

    features: Any
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
def features(
    images: Images,
    model: Callable[[], Any],
    *,
    weights: Mapping[str, Any] | None = None,
    mean: Sequence[float] = MEAN,
    std: Sequence[float] = STD,
    batch_size: int = 256,
) -> Features:
    """What a frozen model makes of images, such as the input of a head.

    Args:
        images: What flow.images() returns.
        model: Makes the module, whose output is taken: `lambda: timm.create_model("resnet18",
            pretrained=True, num_classes=0)`. The stage's identity has its code and the versions
            of packages, but not what it reads from elsewhere.
        weights: A state_dict that the module then loads, such as what another stage returns.
        mean: Subtracted from each channel of the pixels, which are from 0 to 1.
        std: By which each channel is then divided.
        batch_size: How many images go through the model together.

    Raises:
        RuntimeError: The weights do not fit the module.
    """
    torch = load_torch()
    module = _frozen(model, weights)
    parts = list(_outputs(module, images.images, mean, std, batch_size))
    return Features(torch.cat(parts), images.labels)


@stage(version="1")
def evaluate(
    state: Mapping[str, Any],
    data: Images | Features,
    model: Callable[[], Any],
    *,
    mean: Sequence[float] = MEAN,
    std: Sequence[float] = STD,
    batch_size: int = 256,
) -> Report:
    """Measures a trained classifier on other data: it reports `accuracy` and `loss`.

    Its state is that of the training, so that a choose keeps the model.

    Args:
        state: What the training reports, with its module under "model", or a state_dict.
        data: Images, or the features that the classifier was trained on.
        model: Makes the module whose weights the training reports.
        mean: For images, as in features().
        std: For images, as in features().
        batch_size: How many samples go through the model together.

    Raises:
        RuntimeError: The weights do not fit the module.
    """
    torch = load_torch()
    module = _frozen(model, state.get("model", state))
    inputs = data.images if isinstance(data, Images) else data.features
    correct, loss = 0, 0.0
    for logits, labels in zip(
        _outputs(module, inputs, mean, std, batch_size), data.labels.split(batch_size), strict=True
    ):
        correct += int((logits.argmax(1) == labels).sum())
        loss += float(torch.nn.functional.cross_entropy(logits, labels, reduction="sum"))
    count = len(data.labels)
    return report(state, accuracy=correct / count, loss=loss / count)


def _frozen(model: Callable[[], Any], weights: Mapping[str, Any] | None) -> Any:
    module = model().eval()
    if weights is not None:
        module.load_state_dict(weights)
    return module


def _outputs(
    module: Any, inputs: Any, mean: Sequence[float], std: Sequence[float], batch_size: int
) -> Iterator[Any]:
    """What the module makes of one batch after the other; uint8 pixels are normalized."""
    torch = load_torch()
    shift, scale = (torch.tensor(one).reshape(1, -1, 1, 1) for one in (mean, std))
    for batch in inputs.split(batch_size):
        if batch.dtype == torch.uint8:
            batch = (batch.float() / 255 - shift) / scale
        with torch.no_grad():
            yield module(batch)


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
        FileNotFoundError: The program `forebay` is not there.
        RuntimeError: The training failed; the message has what it said.
    """
    import json

    from safetensors.torch import load_file

    program = os.environ.get("FOREBAY_BIN", "forebay")
    if shutil.which(program) is None:
        raise FileNotFoundError(f"there is no program {program}, which fx.train runs")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        command = [program, "train", source.path]
        command += ["--out", folder, "--log", str(log), "--threads", str(threads)]
        command += ["--feed-threads", "1"]
        if val is not None:
            command += ["--val", val.path]
        for name, value in options.items():
            command += ["--" + name.replace("_", "-"), *([] if value is True else [str(value)])]
        done = subprocess.run(ending_with_this(command), capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"forebay train failed: {done.stderr.strip()[-2000:]}")
        events = [json.loads(line) for line in log.read_text().splitlines()]
        last = [event for event in events if event["event"] == "epoch"][-1]
        metrics = {"loss": last["loss"], "train_accuracy": last["accuracy"]}
        if val is not None:
            metrics |= {"accuracy": last["val_accuracy"], "val_loss": last["val_loss"]}
        return report(load_file(Path(folder) / "model.safetensors"), **metrics)
