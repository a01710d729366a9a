"""What no Loader would follow cannot be set, and what something is, is said."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import forebay
from forebay import transforms as T

THEIRS = ["transform", "target_transform", "transforms", "samples", "imgs", "loader", "labels"]
OURS = ["targets", "classes", "class_to_idx", "weights", "objects", "further_images", "columns"]
NEVER = ["core", "cache", "path", "fingerprint"]


def views(packed: Path, folder: Path) -> list[forebay.Dataset]:
    dataset = forebay.Dataset(packed)
    return [
        dataset,
        forebay.Dataset(folder),
        dataset.subset(range(5)),
        dataset.weighted(np.ones(70)),
        forebay.concat([dataset, dataset]),
        pickle.loads(pickle.dumps(dataset.subset(range(5)))),
    ]


@pytest.mark.parametrize("name", [*THEIRS, *OURS, *NEVER])
def test_attributes_of_datasets_that_loaders_do_not_follow_cannot_be_set(
    packed: Path, folder: Path, name: str
):
    for dataset in views(packed, folder):
        before: Any = getattr(dataset, name, None)
        with pytest.raises(AttributeError, match=f"Dataset: {name} cannot be set, because no Load"):
            setattr(dataset, name, [1] * len(dataset))
        after: Any = getattr(dataset, name, None)
        assert after is before or np.array_equal(after, before)


@pytest.mark.parametrize("name", ["targets", "classes", "samples"])
def test_the_error_names_the_right_way(packed: Path, name: str):
    with pytest.raises(AttributeError, match=r"Dataset\.with_labels\(table, classes=None\)"):
        setattr(forebay.Dataset(packed), name, [])
    with pytest.raises(AttributeError, match="give the Loader transform="):
        forebay.Loader(packed).dataset.transform = lambda image: image  # type: ignore[attr-defined]


def test_own_attributes_of_datasets_may_be_set(packed: Path):
    class Mine(forebay.Dataset):
        extra = 1

    for dataset in (forebay.Dataset(packed), Mine(packed)):
        dataset.extra = 2  # type: ignore[attr-defined]
        dataset.extra = 3  # type: ignore[attr-defined]
        assert dataset.extra == 3  # type: ignore[attr-defined]


def test_weights_cannot_change_under_a_loader(packed: Path):
    weighted = forebay.Dataset(packed).weighted(np.arange(70.0))
    for dataset in (weighted, weighted.subset(range(9)), pickle.loads(pickle.dumps(weighted))):
        assert dataset.weights is not None
        with pytest.raises(ValueError, match="read-only"):
            dataset.weights[0] = 1


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        *((name, "make another Loader") for name in ("dataset", "collate_fn", "sampler", "rank")),
        ("batch_sampler", "make another Loader"),
        ("epoch", r"call set_epoch\(epoch\)"),
        ("bad_samples", "load_state_dict"),
        ("mixup_enabled", "without batch_transform"),
    ],
)
def test_attributes_of_loaders_cannot_be_set(packed: Path, name: str, instead: str):
    loader = forebay.Loader(packed, 8)
    with pytest.raises(ValueError, match=f"Loader: {name} cannot be changed .*{instead}"):
        setattr(loader, name, 4)


def test_repr_says_what_they_are(packed: Path):
    dataset = forebay.Dataset(packed)
    assert repr(dataset) == f"forebay.Dataset({str(packed)!r}): 70 samples, 3 classes"
    assert repr(dataset.weighted(np.ones(70))).endswith(", drawn by weights")
    loader = forebay.Loader(
        dataset, 8, True, drop_last=True, transform=T.train(16), rank=1, world_size=2, num_workers=3
    )
    assert repr(loader) == (
        f"forebay.Loader({str(packed)!r}): 70 samples, 3 classes, 4 batches of 8, shuffled, "
        "drop_last, transform [RandomResizedCrop, RandomHorizontalFlip, Normalize], rank 1 of 2, "
        "3 threads, epoch 0"
    )
    endless = forebay.Loader(dataset, 8, sampler=iter(int, 1), transform=abs)
    assert "batches of 8, sampler given, transform abs" in repr(endless)


def test_repr_tells_no_secret(packed: Path, monkeypatch: pytest.MonkeyPatch):
    url = "https://mia:hunter2@example.com/set?X-Amz-Signature=abc"
    monkeypatch.setattr(forebay.Dataset, "path", property(lambda _: url))
    for text in map(repr, (forebay.Dataset(packed), forebay.Loader(packed))):
        assert "hunter2" not in text and "abc" not in text
        assert "https://…@example.com/set?…" in text


def test_an_absolute_path_needs_no_working_directory(packed: Path, folder: Path, tmp_path: Path):
    gone = tmp_path / "gone"
    gone.mkdir()
    program = f"""
import os, sys
import forebay, torch  # MKL cannot be loaded there
os.chdir({str(gone)!r})
os.rmdir({str(gone)!r})
for path in ({str(packed)!r}, {str(folder)!r}):
    dataset = forebay.Dataset(path, index_cache={str(tmp_path)!r}, cache={str(tmp_path / "c")!r},
                              cache_bytes="1GB")
    assert len(next(iter(forebay.Loader(dataset, 4)))[1]) == 4
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(forebay.__file__).absolute().parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


class Images(torch.utils.data.Dataset[int]):
    """A map-style dataset of PyTorch."""

    root = "photos"

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        return index


def test_what_is_not_a_path_is_told_what_to_write(packed: Path, folder: Path):
    from torch.utils.data import ConcatDataset, DataLoader, Subset
    from torchvision.datasets import ImageFolder

    images = Images()
    told: list[tuple[Any, str]] = [
        (Subset(images, [1]), r"forebay\.Dataset\(path\)\.subset\(indices\)"),
        (ConcatDataset([images]), r"forebay\.concat\(\[forebay\.Dataset\(path\), …\]\)"),
        (ImageFolder(str(folder)), rf"forebay\.Dataset\({str(folder)!r}\)"),
        (images, r"\(path, label\) pairs.*pack it"),
        (DataLoader(images), "the loader's dataset"),
        (forebay.Loader(packed), "the loader's dataset"),
        (torch.zeros(3), "BatchDecoder"),
        (np.zeros(3), "BatchDecoder"),
        ({"a": 1}, r"forebay\.concat"),
        (3, "dataset is 3, but must be a path or a Dataset"),
    ]
    for given, message in told:
        for opens in (forebay.Dataset, forebay.Loader):
            with pytest.raises(ValueError, match=message):
                opens(given)
    with pytest.raises(ValueError, match="is a Dataset already"):
        forebay.Dataset(forebay.Dataset(packed))  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", ["train-*.tar", "train-00?.tar", "train-[0-9].tar"])
def test_patterns_are_told_what_to_write(tmp_path: Path, pattern: str):
    for opens in (forebay.Dataset, forebay.Loader):
        with pytest.raises(FileNotFoundError, match=r"not expanded: .*train-\{000\.\.146\}\.tar"):
            opens(tmp_path / pattern)
    with pytest.raises(FileNotFoundError) as plain:
        forebay.Dataset(tmp_path / "train.tar")
    assert "expanded" not in str(plain.value)


def test_transforms_without_their_call_are_told(packed: Path):
    from torchvision.models import ResNet18_Weights
    from torchvision.transforms import v2

    told: list[tuple[Any, str]] = [
        (T.train, r"train is a function that gives transforms; call it: train\(…\)"),
        (T.evaluate, r"call it: evaluate\(…\)"),
        (v2.Resize, r"Resize is a class; call it to make a transform: Resize\(…\)"),
        (T.Resize, r"Resize is a class"),
        ([T.Resize((8, 8)), T.Normalize], "Normalize is a class"),
        (v2.Compose([v2.Resize(8), v2.ToImage]), "ToImage is a class"),
        (ResNet18_Weights.DEFAULT, r"\.transforms\(\)"),
        (ResNet18_Weights.DEFAULT.transforms, r"weights\.transforms\(\)"),
    ]
    for transform, message in told:
        with pytest.raises(ValueError, match=message):
            forebay.Loader(packed, transform=transform)
        with pytest.raises(ValueError, match=message):
            T.from_torchvision(transform)
    with pytest.raises(ValueError, match=r"the class MixUp, but must be a function: call it, MixU"):
        forebay.Loader(packed, batch_transform=T.MixUp)
