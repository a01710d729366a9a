"""A Loader's `sampler` and `batch_sampler`: what other frameworks ask a loader for."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DistributedSampler, Sampler, SequentialSampler, Subset

import forebay
from forebay import transforms as T


def indexes(packed: Any, *args: Any, **options: Any) -> forebay.Loader:
    return forebay.Loader(packed, *args, fields=["index"], **options)


def batches_of(loader: forebay.Loader) -> list[list[int]]:
    return [index.tolist() for (index,) in loader]


OPTIONS: dict[str, dict[str, Any]] = {
    "in order": {},
    "shuffled": {"shuffle": True},
    "drop_last": {"shuffle": True, "drop_last": True},
    "uneven": {"shuffle": True, "even_batches": False},
    "evened": {"even_batches": True},
    "repeats": {"shuffle": True, "repeats": 3},
    "repeats in order": {"repeats": 2},
    "weights": {"shuffle": True, "samples_per_epoch": 53},
}


@pytest.mark.parametrize("world_size", [1, 3])
@pytest.mark.parametrize("how", OPTIONS)
def test_they_give_what_the_loader_gives(packed: Path, how: str, world_size: int):
    dataset = forebay.Dataset(packed)
    if how == "weights":
        dataset = dataset.weighted(np.arange(70.0))
    lengths = set()
    for rank in range(world_size):
        loader = indexes(dataset, 8, rank=rank, world_size=world_size, **OPTIONS[how])
        for epoch in (0, 1, 7):
            loader.set_epoch(epoch)
            shown, numbers = list(loader.batch_sampler), list(loader.sampler)
            given = batches_of(loader)
            assert shown == given
            assert numbers == [n for batch in given for n in batch]
            assert len(loader.batch_sampler) == len(given)
            assert len(loader.sampler) - len(numbers) in (0, 1)
        lengths.add(len(loader.sampler))
    assert len(lengths) == 1  # like DistributedSampler's


def test_they_show_the_running_epoch_and_then_the_next(packed: Path):
    loader = indexes(packed, 8, True)
    first = batches_of(indexes(packed, 8, True))
    batches = iter(loader)
    next(batches)
    assert list(loader.batch_sampler) == first
    list(batches)
    assert list(loader.batch_sampler) == batches_of(loader) != first


def test_set_epoch_is_the_loaders(packed: Path):
    loader, other = indexes(packed, 8, True), indexes(packed, 8, True)
    loader.sampler.set_epoch(5)
    other.set_epoch(5)
    assert loader.epoch == 5 and batches_of(loader) == batches_of(other)
    loader.batch_sampler.sampler.set_epoch(2)
    assert loader.epoch == 2


def test_they_are_pytorchs_kinds(packed: Path):
    in_order, shuffled = indexes(packed, 8), indexes(packed, 8, True)
    assert isinstance(in_order.sampler, SequentialSampler)
    assert isinstance(shuffled.sampler, Sampler)
    assert not isinstance(shuffled.sampler, SequentialSampler)
    for loader in (in_order, shuffled):
        batches = loader.batch_sampler
        assert isinstance(batches, BatchSampler)
        assert (batches.batch_size, batches.drop_last) == (8, False)
        for one in (loader.sampler, batches):
            with pytest.raises(AttributeError, match="cannot be set"):
                one.batch_size = 4


def test_those_that_were_given_stay(packed: Path):
    sampler: Any = DistributedSampler(range(70), 2, 1, shuffle=False)  # type: ignore[arg-type]
    loader = indexes(packed, 8, sampler=sampler)
    assert loader.sampler is sampler
    assert list(loader.batch_sampler) == batches_of(loader)
    assert len(loader.batch_sampler) == len(loader)
    dropping = indexes(packed, 8, sampler=sampler, drop_last=True)
    assert list(dropping.batch_sampler) == batches_of(dropping)
    endless = indexes(packed, 8, sampler=itertools.cycle(range(70)))
    assert next(iter(endless.batch_sampler)) == [*range(8)]
    buckets = [[0, 1, 2], [3, 4, 5, 6, 7]]
    loader = indexes(packed, batch_sampler=buckets)
    assert loader.batch_sampler is buckets and loader.sampler is None


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_pytorchs_imagenet_example_validates_each_sample_once(
    packed: Path, world_size: int, drop_last: bool
):
    """Every rank validates what the sampler leaves out, like examples/imagenet/main.py."""
    seen = []
    for rank in range(world_size):
        val_loader = indexes(packed, 8, rank=rank, world_size=world_size, drop_last=drop_last)
        seen += [n for batch in batches_of(val_loader) for n in batch]
    if len(val_loader.sampler) * world_size < len(val_loader.dataset):
        aux: Subset[Any] = Subset(
            val_loader.dataset,  # type: ignore[arg-type]
            range(len(val_loader.sampler) * world_size, len(val_loader.dataset)),
        )
        seen += list(aux.indices)
    assert sorted(seen) == list(range(70))


def test_accelerate_tells_how_to_skip_batches(packed: Path):
    accelerate: Any = pytest.importorskip("accelerate")
    loader = forebay.Loader(packed, 8, transform=T.train(32), num_workers=1, shuffle=True)
    skipped = accelerate.skip_first_batches(loader, 3)
    assert len(skipped) == len(loader) - 3
    assert list(skipped.batch_sampler) == list(loader.batch_sampler)[3:]
    with pytest.raises(TypeError, match=r"without the Loader's transform.*load_state_dict"):
        next(iter(skipped))


def test_lightning_overfits_batches(packed: Path, tmp_path: Path):
    lightning: Any = pytest.importorskip("lightning")

    class Model(lightning.LightningModule):  # type: ignore[misc,name-defined]
        """Notes the samples that it is trained with."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen: list[list[int]] = []

        def training_step(self, batch: Any, _: int) -> Any:
            self.seen.append(batch[0].tolist())
            return self.layer(torch.ones(1, 1)).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    model = Model()
    trainer = lightning.Trainer(
        overfit_batches=2, max_epochs=3, accelerator="cpu", logger=False, devices=1,
        enable_progress_bar=False, enable_checkpointing=False, default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(model, indexes(packed, 8))
    assert model.seen == [[*range(8)], [*range(8, 16)]] * 3


def test_without_pytorch_they_are_plain_objects(packed: Path, monkeypatch: pytest.MonkeyPatch):
    loader = indexes(packed, 8, True)
    expected = list(loader.batch_sampler)
    monkeypatch.setattr("forebay.loading.epoch_order.load_torch", lambda: None)
    assert not isinstance(loader.sampler, Sampler)
    assert list(loader.batch_sampler) == expected
    assert list(loader.sampler) == [n for batch in expected for n in batch]
