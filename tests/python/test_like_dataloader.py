"""The Loader meets the expectations of DataLoader's users: arguments, last batches, errors."""

import inspect
import itertools
import pickle
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

import forebay
from forebay import transforms as T
from forebay.loading import compatibility


def numbers(loader: Any) -> list[list[int]]:
    """Returns the samples of each batch."""
    return [index.tolist() for (index,) in loader]


def indexes(packed: Path, *args: Any, **options: Any) -> forebay.Loader:
    return forebay.Loader(packed, *args, fields=["index"], **options)


class Indexes(torch.utils.data.Dataset[int]):
    """A dataset for DataLoader that gives each sample its number."""

    def __len__(self) -> int:
        return 70

    def __getitem__(self, index: int) -> int:
        return index


@pytest.mark.parametrize("world_size", [2, 3, 8])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_rank_has_as_many_in_the_last_batch(packed: Path, world_size: int, weighted: bool):
    dataset = forebay.Dataset(packed)
    if weighted:
        dataset = dataset.weighted(np.arange(70) + 1.0)
    options: dict[str, Any] = {"shuffle": True, "fields": ["index"], "seed": 3}
    every = [n for (index,) in forebay.Loader(dataset, 24, **options) for n in index.tolist()]
    ranks = [
        forebay.Loader(dataset, 24 // world_size, rank=rank, world_size=world_size, **options)
        for rank in range(world_size)
    ]
    shares = [numbers(rank) for rank in ranks]
    lengths = {tuple(map(len, share)) for share in shares}
    assert len(lengths) == 1 and all(lengths.pop())
    given = [n for step in zip(*shares, strict=True) for n in interleaved(step)]
    assert given[:70] == every
    assert len(given) == -(-70 // world_size) * world_size
    assert set(given[70:]) <= set(every[: 8 * world_size])  # each lane's first samples


def interleaved(step: tuple[list[int], ...]) -> list[int]:
    return [n for row in itertools.zip_longest(*step) for n in row if n is not None]


def test_in_order_every_sample_comes_once_unless_told(packed: Path):
    def last(even: bool | None) -> list[list[int]]:
        ranks = [
            indexes(packed, 12, rank=rank, world_size=3, even_batches=even) for rank in range(3)
        ]
        return [numbers(rank)[-1] for rank in ranks]

    assert last(None) == last(False) == [list(range(36 + r, 70, 3)) for r in range(3)]
    assert last(True) == [[*range(36, 70, 3)], [*range(37, 70, 3), 0], [*range(38, 70, 3), 1]]
    shuffled = [
        indexes(packed, 8, True, rank=rank, world_size=3, even_batches=False) for rank in range(3)
    ]
    assert sorted(n for rank in shuffled for batch in numbers(rank) for n in batch) == [*range(70)]


def test_an_epoch_that_was_evened_out_is_over_at_any_world_size(packed: Path):
    ranks = indexes(packed, 8, True, rank=2, world_size=3)
    assert len(numbers(ranks)) == 3
    state = ranks.state_dict()
    assert state["position"] == 72
    for world_size, batch in ((1, 24), (2, 12), (8, 3)):
        other = indexes(packed, batch, True, rank=0, world_size=world_size)
        other.load_state_dict(state)
        assert other.epoch == 1 and len(numbers(other)) == 3


def test_too_few_samples_are_no_batch(packed: Path):
    with pytest.warns(UserWarning, match="70 samples, fewer than one batch of all ranks .100.*no"):
        loader = indexes(packed, 100, drop_last=True)
    assert len(loader) == 0 == len(DataLoader(Indexes(), 100, drop_last=True))
    assert numbers(loader) == [] and numbers(loader) == []


@pytest.mark.parametrize("where", ["transform", "collate_fn", "batch_transform"])
def test_an_error_of_a_function_costs_its_batch_alone(packed: Path, where: str):
    def fail(given: Any) -> Any:
        labels = given if where == "transform" else given[0]
        if where == "transform" and given[0, 0, 0] == wrong:
            raise KeyError("this one")
        if where != "transform" and 17 in [int(n) for n in np.ravel(labels)]:
            raise KeyError("this one")
        return given

    first = forebay.Loader(packed, 8, transform=T.CenterCrop(8))
    wrong = next(itertools.islice(first, 2, None))[0][1, 0, 0, 0]
    options: dict[str, Any] = {"fields": ["index", "label"], "collate_fn": None}
    if where == "transform":
        options = {"transform": [T.CenterCrop(8), fail], "fields": ["index", "image"]}
    elif where == "collate_fn":
        options["collate_fn"] = lambda samples: fail(([int(n) for n, _ in samples],))
    else:
        options["batch_transform"] = fail
    loader = forebay.Loader(packed, 8, num_workers=1, **options)
    batches = iter(loader)
    came, failed = 0, 0
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            break
        except KeyError:
            failed += 1
            continue
        came += 1
        assert 17 not in np.ravel(batch[0]).tolist() or where == "transform"
    assert failed >= 1 and came + failed == 9
    assert next(batches, None) is None and loader.epoch == 1


def test_a_function_that_raises_stop_iteration_does_not_end_the_epoch(packed: Path):
    def stop(batch: Any) -> Any:
        raise StopIteration

    with pytest.raises(RuntimeError, match="a function raised StopIteration"):
        next(iter(indexes(packed, 8, batch_transform=stop)))


@pytest.mark.parametrize("drop_last", [False, True])
def test_a_batch_sampler_chooses_the_batches(packed: Path, drop_last: bool):
    sampler = BatchSampler(SequentialSampler(range(70)), 16, drop_last)
    loader = indexes(packed, batch_sampler=sampler)
    expected = [batch.tolist() for batch in DataLoader(Indexes(), batch_sampler=sampler)]
    assert len(loader) == len(expected) and loader.batch_size is None
    assert numbers(loader) == numbers(loader) == expected


class Sized:
    """A batch sampler whose batches have many sizes and differ from epoch to epoch."""

    def __init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return 12

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng(self.epoch)
        for _ in range(12):
            yield rng.integers(0, 70, rng.integers(1, 20)).tolist()


def test_batches_of_many_sizes_resume_and_have_their_samples_pixels(packed: Path):
    def make() -> forebay.Loader:
        return forebay.Loader(
            packed, batch_sampler=Sized(), transform=T.train(16), fields=["index", "image"]
        )

    loader = make()
    epochs = [list(loader), list(loader)]
    sampler = Sized()
    for epoch, batches in enumerate(epochs):
        sampler.set_epoch(epoch)
        assert [index.tolist() for index, _ in batches] == list(sampler)
        assert all(len(index) == len(image) for index, image in batches)
    one: dict[int, Any] = {}
    for index, image in epochs[0]:
        for number, pixels in zip(index.tolist(), image, strict=True):
            one.setdefault(number, pixels)  # the first occurrence has the plain epoch's crop
    plain = forebay.Loader(packed, 8, transform=T.train(16), fields=["index", "image"])
    for index, image in plain:
        for number, pixels in zip(index.tolist(), image, strict=True):
            assert number not in one or torch.equal(one[number], pixels)
    for taken in (1, 5, 12):
        loader.set_epoch(0)
        given = iter(loader)
        for _ in range(taken):
            next(given)
        again = make()
        again.load_state_dict(loader.state_dict())
        rest = epochs[0][taken:] or epochs[1]
        for (index, image), (own_index, own_image) in zip(rest, again, strict=True):
            assert torch.equal(index, own_index) and torch.equal(image, own_image)


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([3, 4], "gives 3, but must give lists"),
        ([[1], []], "a batch of 0 samples"),
        ([[1], [70]], "70"),
        ([["a"]], "must give whole numbers"),
    ],
)
def test_wrong_batches_are_told(packed: Path, batches: list[Any], message: str):
    with pytest.raises((ValueError, IndexError), match=message):
        list(indexes(packed, batch_sampler=batches))


class Endless:
    """A sampler without end."""

    def __iter__(self) -> Iterator[int]:
        rng = np.random.default_rng(5)
        while True:
            yield int(rng.integers(70))


@pytest.mark.parametrize("in_batches", [False, True])
def test_a_sampler_may_have_no_end(packed: Path, in_batches: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("forebay.loading.samplers._BLOCK_SAMPLES", 40)

    def make() -> forebay.Loader:
        options: dict[str, Any] = {"sampler": Endless(), "batch_size": 8}
        if in_batches:
            options = {"batch_sampler": BatchSampler(Endless(), 8, False)}  # type: ignore[arg-type]
        return forebay.Loader(
            packed, **options, transform=T.train(16), fields=["index", "image"], num_workers=2
        )

    loader = make()
    expected = list(itertools.islice(iter(Endless()), 400))
    batches = list(itertools.islice(iter(loader), 50))
    assert [n for index, _ in batches for n in index.tolist()] == expected
    # A sample that comes again in another block has another crop.
    first, second = (
        next(image[i] for index, image in part for i in range(8) if index[i] == expected[0])
        for part in (batches[:5], batches[20:])
    )
    assert not torch.equal(first, second)
    for taken in (1, 4, 5, 6, 23):
        loader.set_epoch(0)
        given = iter(loader)
        for _ in range(taken):
            next(given)
        again = make()
        again.load_state_dict(loader.state_dict())
        loader.close()
        for goes_on in (again, loader):
            for (index, image), (own_index, own_image) in zip(
                batches[taken : taken + 12], goes_on, strict=False
            ):
                assert torch.equal(index, own_index) and torch.equal(image, own_image)


def test_a_sampler_that_gives_more_than_it_says(packed: Path):
    class Says(Endless):
        def __len__(self) -> int:
            return 20

    loader = indexes(packed, 7, sampler=Says())
    assert len(loader) == 3
    got = [n for batch in itertools.islice(numbers_of(loader), 12_000) for n in batch]
    assert got == list(itertools.islice(iter(Says()), len(got)))


def numbers_of(loader: forebay.Loader) -> Iterator[list[int]]:
    return (index.tolist() for (index,) in loader)


def test_a_generators_seed_is_the_order(packed: Path):
    def make(by: int, **options: Any) -> list[list[int]]:
        return numbers(
            indexes(packed, 8, True, generator=torch.Generator().manual_seed(by), **options)
        )

    assert make(7) == make(7) == numbers(indexes(packed, 8, True, seed=7)) != make(8)
    assert make(7, seed=9) == numbers(indexes(packed, 8, True, seed=9))


def test_a_batch_that_does_not_come_in_time_is_told(packed: Path):
    def slow(batch: Any) -> Any:
        if 0 in batch[0]:
            time.sleep(1.0)
        return batch

    loader = indexes(packed, 8, batch_transform=slow, timeout=0.1)
    batches = iter(loader)
    with pytest.raises(RuntimeError, match="no batch came within 0.1 s"):
        next(batches)
    late = None
    while late is None:  # each try waits for the same batch
        try:
            late = next(batches)
        except RuntimeError:
            continue
    assert late[0].tolist() == list(range(8))
    assert len(list(batches)) == 8


def test_a_dictionary_of_dataloaders_arguments_works(packed: Path):
    arguments: dict[str, Any] = {
        "batch_size": 8, "shuffle": None, "sampler": None, "batch_sampler": None,
        "num_workers": 2, "collate_fn": None, "pin_memory": False, "drop_last": False,
        "timeout": 0, "worker_init_fn": lambda number: None,
        "multiprocessing_context": "spawn", "generator": torch.Generator(), "prefetch_factor": 2,
        "persistent_workers": True, "pin_memory_device": "cuda", "in_order": False,
    }  # fmt: skip
    DataLoader(Indexes(), **arguments)
    compatibility._told.clear()
    with pytest.warns(UserWarning) as told:
        loader = indexes(packed, **arguments)
    named = {str(one.message).split(" is not used")[0].split()[-1] for one in told}
    assert named == {
        "worker_init_fn", "persistent_workers", "multiprocessing_context", "pin_memory_device",
        "in_order",
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        indexes(packed, **arguments)  # the warning came before
    assert numbers(loader) == [batch.tolist() for batch in DataLoader(Indexes(), 8)]
    indexes(packed, prefetch_factor=None)  # DataLoader's default


def test_attributes_are_dataloaders(packed: Path):
    theirs, ours = DataLoader(Indexes(), 8, drop_last=True), indexes(packed, 8, drop_last=True)
    for name in ("batch_size", "drop_last", "timeout", "persistent_workers", "in_order"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.worker_init_fn is ours.multiprocessing_context is None
    assert len(iter(ours)) == len(iter(theirs)) == 8
    for name in ("batch_size", "drop_last", "transform", "shuffle"):
        with pytest.raises(
            ValueError, match=f"Loader: {name} cannot be changed once the Loader is"
        ):
            setattr(ours, name, 4)
    ours.mine = 4  # type: ignore[attr-defined]
    assert len(next(iter(ours))[0]) == 8


def test_random_samplers_of_pytorch(packed: Path):
    for sampler in (RandomSampler(range(70)), BatchSampler(RandomSampler(range(70)), 9, False)):
        name = "batch_sampler" if isinstance(sampler, BatchSampler) else "sampler"
        options: dict[str, Any] = {name: sampler}
        given = [n for batch in numbers(indexes(packed, **options)) for n in batch]
        assert sorted(given) == list(range(70))


def test_a_long_batch_sampler_costs_no_stack(packed: Path):
    """The look ahead once nested calls as deep as the number of batches."""
    count = 300_000
    loader = indexes(packed, batch_sampler=[[number % 70] for number in range(count)])
    assert numbers(itertools.islice(iter(loader), 3)) == [[0], [1], [2]]


def test_batches_that_fail_at_the_end_are_over_with_the_epoch(packed: Path):
    def fail(batch: Any) -> Any:
        if 69 in batch[0]:
            raise KeyError("the last one")
        return batch

    loader = indexes(packed, 35, batch_transform=fail)
    batches = iter(loader)
    next(batches)
    with pytest.raises(KeyError):
        next(batches)
    assert loader.epoch == 0 and loader.state_dict()["position"] == 35
    assert next(batches, None) is None
    assert loader.epoch == 1


def test_mixing_differs_in_each_block_of_a_sampler(packed: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("forebay.loading.samplers._BLOCK_SAMPLES", 16)
    targets = forebay.Dataset(packed).targets.tolist()
    pair = [targets.index(0), targets.index(1)]
    loader = forebay.Loader(
        packed,
        2,
        sampler=itertools.cycle(pair),
        transform=[T.Resize((8, 8)), T.Normalize()],
        batch_transform=T.MixUp(num_classes=3),
    )
    weights = [float(labels[0, 0]) for _, labels in itertools.islice(iter(loader), 24)]
    assert len(set(weights)) == 24  # no block of eight batches restarts the weights


class Counting(forebay.Loader):
    """A subclass with a signature of its own."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, 8, fields=["index"], worker_init_fn=lambda number: None)
        self.counted = 3


def test_a_copy_of_a_subclass_has_its_attributes(packed: Path):
    loader = Counting(packed)
    copied = pickle.loads(pickle.dumps(loader))
    assert isinstance(copied, Counting) and copied.counted == 3
    assert numbers(copied) == numbers(loader)


def test_every_argument_of_dataloader_is_one_of_the_loaders():
    theirs, ours = (
        set(inspect.signature(one.__init__).parameters) for one in (DataLoader, forebay.Loader)
    )
    assert theirs <= ours
