"""show(): pictures of samples before and after a transform, to be looked at before training.

The pictures come from Loaders, so a draw is exactly the sample that training gets in that epoch
with that seed.
"""

import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay import _core
from forebay.checks import whole
from forebay.data.dataset import Dataset
from forebay.files import replacing
from forebay.loading.loader import Loader
from forebay.loading.monitor import BottleneckWarning
from forebay.preview.page import Drawer, Picture, no_picture, page, section
from forebay.transforms import train
from forebay.transforms.core.transform import to_core
from forebay.transforms.kinds import Normalize, RandomHorizontalFlip, Transforms
from forebay.transforms.pipelines import Pipeline, split
from forebay.transforms.torchvision_transforms import is_torchvision

# Nobody looks at more pictures than these.
_SAMPLES_MAX, _DRAWS_MAX = 1000, 100
# Boxes and masks come only with a transform; this one changes nothing.
_AS_STORED = [RandomHorizontalFlip(0)]


def show(
    dataset: Dataset | str | os.PathLike[str],
    transform: Transforms | None = None,
    *,
    out: str | os.PathLike[str],
    samples: int = 12,
    draws: int = 4,
    seed: int = 0,
    annotations: str | os.PathLike[str] | None = None,
    masks: Dataset | str | os.PathLike[str] | None = None,
) -> None:
    """Writes a page of HTML that shows samples as they are stored, and as training gets them.

    Boxes, masks and keypoints are drawn where the transform moved them. Normalize is undone for the
    page; floating-point pixels of other transforms are taken to be from 0 to 1. If a sample cannot
    be used, the page says why. The page is one file that any browser opens; it loads nothing.

    Args:
        dataset: Like Loader's.
        transform: Like Loader's; None: forebay.transforms.train().
        out: The page's file, which is replaced once the new page is complete.
        samples: How many samples are shown, up to 1000. They come from all over the dataset, and
            depend on the seed.
        draws: How many epochs of each sample are shown, up to 100, from epoch 0 on.
        seed: Like Loader's. Draws are what a Loader of the whole dataset gives with this seed.
        annotations, masks: If the dataset is a path: the same as Dataset's.

    Raises:
        ValueError: An argument is invalid, or the transform gives no pictures; the message says
            which.
        OSError: The page cannot be written, or the dataset cannot be opened (FileNotFoundError).
        DataError: The dataset is damaged.
    """
    samples = whole("show: samples", samples, 1, _SAMPLES_MAX)
    draws = whole("show: draws", draws, 1, _DRAWS_MAX)
    seed = whole("show: seed", seed, 0, 2**64 - 1)
    transform = train() if transform is None else transform
    with replacing(out, "show") as write, warnings.catch_warnings():
        # The page itself says which samples are bad, and nobody waits for batches here.
        warnings.filterwarnings("ignore", "forebay: .* cannot be used")
        warnings.filterwarnings("ignore", category=BottleneckWarning)
        opened = _opened(dataset, annotations, masks)
        numbers = _chosen(len(opened), samples, seed)
        drawer = Drawer({} if opened.objects is None else opened.objects.categories)
        sections = list(_sections(opened, transform, numbers, draws, seed, drawer))
        epochs = "epoch 0" if draws == 1 else f"epochs 0 to {draws - 1}"
        facts = {
            "Dataset": opened.path,
            "Samples": f"{len(numbers)} of {len(opened)}, each as it is stored and in {epochs}",
            "Seed": str(seed),
            "Forebay": _core.VERSION,
        }
        name = Path(opened.path).name or opened.path
        write(list(page(f"Samples of {name}", facts, _steps(transform), drawer, sections)))


def _opened(dataset: Any, annotations: Any, masks: Any) -> Dataset:
    if not isinstance(dataset, Dataset):
        opened = Dataset(dataset, annotations=annotations, masks=masks)
    elif annotations is not None or masks is not None:
        raise ValueError("show: give annotations and masks with a path, or to the Dataset itself")
    else:
        opened = dataset
    if len(opened) == 0:
        raise ValueError(f"show: {opened.path} has no samples")
    return opened


def _chosen(count: int, samples: int, seed: int) -> NDArray[np.int64]:
    """One random sample of each of `samples` equal parts of the dataset."""
    samples = min(samples, count)
    ends = np.arange(samples + 1) * count // samples
    drawn = np.random.PCG64(seed).random_raw(samples)
    return ends[:-1] + (drawn % np.diff(ends).astype(np.uint64)).astype(np.int64)


def _sections(
    dataset: Dataset,
    transform: Transforms,
    numbers: NDArray[np.int64],
    draws: int,
    seed: int,
    drawer: Drawer,
) -> Iterator[str]:
    """The section of each sample."""
    moves = dataset.objects is not None
    options: dict[str, Any] = {
        "sampler": numbers.tolist(),
        "fields": {name: name for name in ("image", "index", *(["target"] if moves else []))},
        "seed": seed,
        "on_bad": "skip",
        "bad_samples_max": len(numbers) * draws,
    }
    # Batches have one sample, so that each sample may have its own size.
    with (
        Loader(dataset, transform=transform, **options) as drawing,
        Loader(dataset, transform=_AS_STORED if moves else None, **options) as storing,
    ):
        plain = _Shower(dataset, Pipeline(None, [], []), drawer)
        stored = plain.epoch(storing, "stored")
        shower = _Shower(dataset, split(transform, channels_last=False), drawer)
        drawn = [shower.epoch(drawing, f"epoch {epoch}") for epoch in range(draws)]
        unusable = {bad["sample"] for bad in storing.bad_samples}
    for number in numbers.tolist():
        figures = [stored[number]]
        if number not in unusable:
            figures += [epoch[number] for epoch in drawn]
        yield section(dataset.key(number), _label_of(dataset, number), figures)


def _label_of(dataset: Dataset, number: int) -> str:
    """A sample's label for people; "" if it has a class without a name, or none."""
    given = dataset.given_labels
    if given is not None:
        return given.text(number)
    label = int(dataset.targets[number])
    return dataset.classes[label] if 0 <= label < len(dataset.classes) else ""


class _Shower:
    """Draws the samples that a Loader gives.

    Args:
        dataset: The Loader's.
        pipeline: The Loader's transform, split.
        drawer: Draws the samples.
    """

    def __init__(self, dataset: Dataset, pipeline: Pipeline, drawer: Drawer) -> None:
        self._dataset = dataset
        self._drawer = drawer
        members: list[Any] = [*(pipeline.core or []), *(one.own for one in pipeline.functions)]
        self._normalize = [
            [np.reshape(values, (-1, 1, 1)) for values in (one.mean, one.std)]
            for one in members
            if isinstance(one, Normalize)
            or (is_torchvision(one) and type(one).__name__ == "Normalize")
        ]
        self._format = to_core(pipeline.core).boxes.format if pipeline.core else "XYXY"

    def epoch(self, loader: Loader, title: str) -> dict[int, str]:
        """The figures of an epoch's samples, by their numbers."""
        out: dict[int, str] = {}
        for batch in loader:
            for place, number in enumerate(batch["index"].tolist()):
                images = batch["image"]  # a dict if the transform gives dicts
                image = images if isinstance(images, Mapping) else images[place]
                pixels = self._pixels(image, number)
                target = self._target(batch["target"][place]) if "target" in batch else {}
                out[number] = self._drawer.figure(Picture(pixels, target), title)
        for bad in loader.bad_samples:
            out.setdefault(bad["sample"], no_picture(bad["reason"], title))
        return out

    def _pixels(self, image: Any, number: int) -> NDArray[np.uint8]:
        """The picture before Normalize, uint8 [height, width, 3]."""
        try:
            values = np.asarray(image)
        except (TypeError, ValueError, RuntimeError):  # of PyTorch: bfloat16, requires_grad
            values = np.zeros(0)
        is_picture = values.ndim == 3 and values.shape[0] in (1, 3) and values.size > 0
        if not is_picture or not (values.dtype == np.uint8 or values.dtype.kind == "f"):
            what = type(image).__name__
            if hasattr(image, "shape") and hasattr(image, "dtype"):
                what += f" of {image.dtype} {list(image.shape)}"
            raise ValueError(
                f"show: the transform makes {what} of sample {self._dataset.key(number)!r}, but a "
                "picture is uint8 or floating-point numbers [3, height, width]; show the transform "
                "without its last functions"
            )
        if values.dtype != np.uint8:
            values = values.astype(np.float64)
            for mean, std in reversed(self._normalize):
                values = values * std + mean
            values = np.clip(np.nan_to_num(values * 255), 0, 255).round().astype(np.uint8)
        return np.broadcast_to(values, (3, *values.shape[1:])).transpose(1, 2, 0)

    def _target(self, target: dict[str, Any]) -> dict[str, Any]:
        """A sample's target as arrays, with boxes as left, top, right and bottom."""
        out: dict[str, Any] = {
            name: value if isinstance(value, list) else np.asarray(value)
            for name, value in target.items()
        }
        if "boxes" in out and self._format != "XYXY":
            begins, sides = np.split(out["boxes"].astype(np.float64), 2, axis=1)
            begins = begins - sides / 2 if self._format == "CXCYWH" else begins
            out["boxes"] = np.concatenate([begins, begins + sides], axis=1)
        return out


def _steps(transform: Any) -> list[str]:
    """The members of a transform as texts that are the same in every process."""
    is_compose = is_torchvision(transform) and type(transform).__name__ == "Compose"
    inner = transform.transforms if is_compose else transform
    members: Iterable[Any] = inner if isinstance(inner, Sequence) else [inner]
    return [" ".join(re.sub(r" at 0x[0-9a-f]+", "", repr(one)).split()) for one in members]
