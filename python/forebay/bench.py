"""Measures how fast Forebay loads your own data, and what limits it: `forebay bench PATH`.

It runs the usual training epochs (random resized crop, flip, normalise, batches of float32) over
some of the images, in turn with a Loader on the images in place, with a Loader on the same images
packed, and with torch.utils.data.DataLoader and torchvision (Pillow if torchvision cannot be
imported; left out without PyTorch). All images are in the page cache by then; the speed of reading
them from storage is measured separately. It takes about a minute.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from errno import ENOSPC
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from forebay import _core
from forebay import transforms as T
from forebay.data.dataset import Dataset
from forebay.data.storage import add_storage_option
from forebay.loading.loader import Loader

_SAMPLES_MAX = 1000
_BYTES_MAX = 500_000_000
_BATCH = 32
_MEAN = np.array(T.IMAGENET_MEAN, np.float32)
_STD = np.array(T.IMAGENET_STD, np.float32)
_STOPPED = 130  # docs/errors.md
_NO_ROOM = (
    f" in {tempfile.gettempdir()}, to which some of the images are copied; make room, or set "
    "TMPDIR to a folder with more"
)
_SUFFIXES = {b"\xff\xd8": ".jpg", b"\x89P": ".png", b"RI": ".webp"}

# Runs an epoch to its end and returns the number of images.
Epoch = Callable[[], int]


def choose(dataset: Dataset) -> Dataset:
    """A random part of the dataset, small enough for a minute's work."""
    drawn = np.argsort(np.random.PCG64(0).random_raw(len(dataset)), kind="stable")[:_SAMPLES_MAX]
    fits = np.cumsum(dataset.column("bytes")[drawn]) <= _BYTES_MAX
    fits[:1] = True
    return dataset.subset(np.sort(drawn[fits]))


def copy_to(folder: Path, dataset: Dataset) -> float:
    """Writes the images into files by class; returns how many seconds reading them took."""
    seconds = 0.0
    for i, label in enumerate(dataset.core.labels()):
        begin = time.perf_counter()
        file = dataset.read(i)
        seconds += time.perf_counter() - begin
        suffix = _SUFFIXES.get(file[:2], ".jpg")
        path = folder / f"class{label}" / f"{i:06}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file)
    return seconds


def pack(folder: Path, out: Path) -> float:
    """Packs a folder by the program `forebay`; returns how many seconds it took."""
    program = os.environ.get("FOREBAY_BIN") or shutil.which("forebay")
    if program is None:
        sys.exit("forebay bench: the program forebay is not on PATH; run `forebay bench` instead")
    begin = time.perf_counter()
    command = [program, "pack", "--skip-max", "100%", str(folder), str(out)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode != 0:
        sys.exit(f"forebay bench: packing failed: {made.stderr.strip()}")
    return time.perf_counter() - begin


def forebay_epoch(dataset: Dataset, size: int, threads: int) -> tuple[Epoch, Loader]:
    """A function that runs an epoch with a Loader, and the Loader."""
    loader = Loader(dataset, _BATCH, True, transform=T.train(size), num_workers=threads)
    return lambda: sum(len(images) for images, _ in loader), loader


def torch_epoch(folder: Path, size: int, workers: int) -> tuple[Epoch, str] | None:
    """A function that runs an epoch with DataLoader, and the side's name; None without PyTorch."""
    if find_spec("torch") is None:
        return None
    from torch.utils.data import DataLoader

    try:
        dataset: Any = _with_torchvision(folder, size)
        what = "DataLoader, torchvision"
    except Exception:  # torchvision is missing, or installed for another PyTorch
        dataset = _Pillow(folder, size)
        what = "DataLoader, Pillow"
    loader: Any = DataLoader(
        dataset, _BATCH, shuffle=True, num_workers=workers, persistent_workers=True
    )
    return lambda: sum(len(images) for images, _ in loader), what


def _with_torchvision(folder: Path, size: int) -> Any:
    import torch
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    steps = [
        v2.RandomResizedCrop(size),
        v2.RandomHorizontalFlip(),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD),
    ]
    return ImageFolder(str(folder), v2.Compose(steps))


class _Pillow:
    """Does the same as ImageFolder with torchvision's transforms, using only Pillow."""

    def __init__(self, folder: Path, size: int) -> None:
        from PIL import Image

        self._open: Any = Image.open
        self._files = sorted(path for path in folder.rglob("*") if path.is_file())
        self._size = size

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        import torch

        random = np.random.default_rng()
        with self._open(self._files[index]) as image:
            image = image.convert("RGB")
        width, height = image.size
        for _ in range(10):
            area = width * height * random.uniform(0.08, 1)
            ratio = np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
            w, h = round(np.sqrt(area * ratio)), round(np.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                break
        else:
            w = h = min(width, height)
        x, y = random.integers(width - w + 1), random.integers(height - h + 1)
        crop = image.resize((self._size,) * 2, 2, (x, y, x + w, y + h))  # 2: bilinear
        pixels = np.asarray(crop, np.float32)[:, :: random.choice([-1, 1])] / 255
        pixels = (pixels - _MEAN) / _STD
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1))), 0


def measure(epochs: dict[str, Epoch], seconds: float) -> dict[str, float]:
    """Images per second of each epoch: the best of as many rounds as there is time for."""
    for epoch in epochs.values():
        epoch()  # this starts workers and fills caches
    best = dict.fromkeys(epochs, 0.0)
    end = time.perf_counter() + seconds
    while True:
        for name, epoch in epochs.items():
            begin = time.perf_counter()
            images = epoch()
            best[name] = max(best[name], images / (time.perf_counter() - begin))
        if time.perf_counter() >= end:
            return best


def held_back(loader: Loader, threads: int) -> str:
    """Returns what limited the Loader's threads: decoding, or waiting for a disk or a link."""
    stats = loader.stats()
    busy = stats["prepare_cpu_seconds"]
    starved = stats["starved_seconds"]
    if starved > busy / 2:
        source = "the link" if stats["http_requests"] > 0 else "reading"
        return f"{source} (decoding threads waited {starved / (starved + busy):.0%} of their time)"
    each = stats["samples"] / busy
    return f"decoding ({threads} threads, {each:.0f} images a second each)"


def run(
    path: str, size: int, seconds: float, threads: int, storage_options: dict[str, str]
) -> dict[str, Any]:
    """Measures all figures.

    Args:
        path: A folder of images by class, tar shards, or a dataset.
        size: The side of a crop in pixels.
        seconds: How long to measure.
        threads: How many threads, or worker processes, each side has.
        storage_options: The same as Dataset's.
    """
    dataset = Dataset(path, storage_options=storage_options)
    if len(dataset) == 0:
        sys.exit(f"forebay bench: {path} has no images")
    some = choose(dataset)
    result: dict[str, Any] = {"path": path, "images": len(dataset), "measured": len(some)}
    result["bytes_each"] = float(some.column("bytes").mean())
    in_place = not dataset.core.has_indexes
    with tempfile.TemporaryDirectory(prefix="forebay-bench-") as temporary:
        folder = Path(temporary) / "folder"
        result["read_per_second"] = len(some) / copy_to(folder, some)
        epochs: dict[str, Epoch] = {}
        loaders: dict[str, Loader] = {}
        if in_place:
            result["pack_per_second"] = len(some) / pack(folder, Path(temporary) / "packed")
            epochs["in_place"], loaders["in_place"] = forebay_epoch(some, size, threads)
            some = Dataset(Path(temporary) / "packed")
        epochs["packed"], loaders["packed"] = forebay_epoch(some, size, threads)
        peer = torch_epoch(folder, size, threads)
        if peer is not None:
            epochs["peer"], result["peer"] = peer
        best = measure(epochs, seconds)
        result |= {f"{name}_per_second": speed for name, speed in best.items()}
        result |= {f"{name}_limit": held_back(one, threads) for name, one in loaders.items()}
        for loader in loaders.values():
            loader.close()
    return result


def show(result: dict[str, Any], threads: int) -> None:
    """Prints the figures for people."""
    print(
        f"{result['path']}: {result['images']} images, {result['bytes_each'] / 1000:.0f} kB each; "
        f"{result['measured']} of them measured, {threads} threads"
    )
    names = {
        "in_place": "Forebay, in place",
        "packed": "Forebay, packed",
        "peer": result.get("peer", ""),
    }
    slowest = min(result[f"{n}_per_second"] for n in names if f"{n}_per_second" in result)
    print(f"\n{'':28}{'images/s':>10}{'x':>7}   held back by")
    for name, title in names.items():
        speed = result.get(f"{name}_per_second")
        if speed is not None:
            limit = result.get(f"{name}_limit", "")
            print(f"{title:28}{speed:10.0f}{speed / slowest:7.2f}   {limit}")
    if "peer" not in result:
        print(
            f"DataLoader was not measured: {sys.executable} has no PyTorch (FOREBAY_PYTHON names "
            "the Python that `forebay bench` uses)"
        )
    print(
        f"\nOne thread reads {result['read_per_second']:.0f} images a second from storage "
        f"({result['read_per_second'] * result['bytes_each'] / 1e6:.0f} MB/s, perhaps partly from "
        "the page cache)."
    )
    if "pack_per_second" in result:
        minutes = result["images"] / result["pack_per_second"] / 60
        print(f"Packing all of them takes about {minutes:.1f} minutes: forebay pack SOURCE DATASET")


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser("forebay bench", description=__doc__)
    parser.add_argument(
        "path", help="a folder with a subfolder of images for each class, tar shards, or a dataset"
    )
    parser.add_argument("--size", type=int, default=224, help="side of a crop in pixels (224)")
    parser.add_argument("--seconds", type=float, default=45, help="seconds of measuring (45)")
    parser.add_argument("--threads", type=int, help="number of threads (one for each usable core)")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    add_storage_option(parser)
    args = parser.parse_args()
    threads = args.threads or _core.usable_cores()
    try:
        result = run(args.path, args.size, args.seconds, threads, dict(args.storage_options))
    except KeyboardInterrupt:
        sys.exit(_STOPPED)
    except OSError as error:
        where = "" if error.filename or error.errno != ENOSPC else _NO_ROOM
        sys.exit(f"forebay bench: {error}{where}")
    except ValueError as error:
        sys.exit(f"forebay bench: {error}")
    if args.json:
        print(json.dumps(result))
    else:
        show(result, threads)


if __name__ == "__main__":
    main()
