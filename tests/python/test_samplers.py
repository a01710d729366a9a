"""Tests samplers: which samples come, and resuming in the middle of what they chose."""

import itertools
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DistributedSampler, RandomSampler, SubsetRandomSampler

import forebay
from forebay import transforms as T


def load(packed: Path, sampler: Any, **options: Any) -> forebay.Loader:
    return forebay.Loader(
        packed, 8, sampler=sampler, transform=T.train(16), fields=("index", "image"), **options
    )


def indices(loader: forebay.Loader) -> list[int]:
    return [i for index, _ in loader for i in index.tolist()]


def test_samples_are_the_samplers(packed: Path):
    wanted = [9, 9, 3, 69, 0, 9, 12, 40, 41, 5]
    loader = load(packed, wanted)
    assert len(loader) == 2
    assert indices(loader) == indices(loader) == wanted
    assert [len(index) for index, _ in loader] == [8, 2]
    assert [len(index) for index, _ in load(packed, wanted, drop_last=True)] == [8]
    # Each occurrence has a crop of its own.
    images = torch.cat([image for _, image in loader])
    assert not torch.equal(images[0], images[1])
    assert indices(load(packed, SubsetRandomSampler(range(20)))) != list(range(20))
    replaced = RandomSampler(range(70), replacement=True, num_samples=90)
    assert len(indices(load(packed, replaced))) == 90
    assert indices(load(packed, [])) == []


def test_distributed_samplers_share_an_epoch(packed: Path):
    dataset: Any = forebay.Dataset(packed)
    seen = []
    for rank in range(3):
        sampler: DistributedSampler[Any] = DistributedSampler(dataset, 3, rank, seed=4)
        loader = load(packed, sampler)
        loader.set_epoch(5)
        sampler_alone: DistributedSampler[Any] = DistributedSampler(dataset, 3, rank, seed=4)
        sampler_alone.set_epoch(5)
        own = indices(loader)
        assert own == list(sampler_alone)
        seen += own
    assert set(seen) == set(range(70))
    # The user's own set_epoch() on the sampler counts too, like with DataLoader. Otherwise the next
    # epoch follows.
    for epoch in (7, 8):
        sampler_alone.set_epoch(epoch)
        if epoch == 7:
            sampler.set_epoch(7)
        assert indices(loader) == list(sampler_alone)
        assert loader.state_dict()["epoch"] == epoch


def test_crops_belong_to_the_sample_not_to_its_place(packed: Path):
    def images(order: list[int]) -> dict[int, torch.Tensor]:
        batches = list(load(packed, order))
        numbers = torch.cat([index for index, _ in batches]).tolist()
        return dict(zip(numbers, torch.cat([image for _, image in batches]), strict=True))

    forward, backward = images(list(range(70))), images(list(range(60, -1, -2)))
    assert all(torch.equal(image, forward[number]) for number, image in backward.items())
    # Without a sampler, a sample gets the same crop.
    plain = forebay.Loader(packed, 8, transform=T.train(16), fields=("index", "image"))
    for index, image in plain:
        assert all(torch.equal(forward[int(i)], one) for i, one in zip(index, image, strict=True))


def test_an_epoch_that_was_set_on_the_sampler_is_taken(packed: Path):
    sampler: DistributedSampler[Any] = DistributedSampler(range(70), 1, 0, seed=4)  # type: ignore[arg-type]
    alone: DistributedSampler[Any] = DistributedSampler(range(70), 1, 0, seed=4)  # type: ignore[arg-type]
    loader = load(packed, sampler)
    next(iter(loader))  # looks at one batch
    for epoch in (0, 1, 2, 5, 5):
        sampler.set_epoch(epoch)
        alone.set_epoch(epoch)
        assert indices(loader) == list(alone)


def chosen(packed: Path, how: str, samples: int) -> dict[str, Any]:
    """Returns a Loader's arguments: a sampler or weights, and what goes with them."""
    if how == "sampler":
        drawn = np.random.default_rng(3).integers(0, 70, samples).tolist()
        return {"dataset": packed, "sampler": drawn}
    weighted = forebay.Dataset(packed).weighted(np.arange(70) + 1.0)
    return {"dataset": weighted, "shuffle": True, "samples_per_epoch": samples}


@pytest.mark.parametrize("how", ["sampler", "weights"])
def test_a_closed_loader_goes_on_with_what_was_chosen(packed: Path, how: str):
    options: dict[str, Any] = {**chosen(packed, how, 50), "batch_size": 8, "fields": ["index"]}
    expected = torch.cat([index for (index,) in forebay.Loader(**options)])
    with forebay.Loader(**options) as loader:
        given = iter(loader)
        first = [next(given)[0] for _ in range(3)]
    assert loader.stats()["samples"] == 0
    assert torch.equal(torch.cat([*first, *[index for (index,) in loader]]), expected)
    loader.close()
    assert len(list(loader)) == 7 and loader.state_dict()["epoch"] == 1


@pytest.mark.parametrize("how", ["sampler", "weights"])
def test_more_may_be_chosen_than_there_are(packed: Path, how: str):
    """A batch, and an epoch, may be larger than the dataset."""
    options: dict[str, Any] = {**chosen(packed, how, 250), "batch_size": 100, "fields": ["index"]}
    every = torch.cat([index for (index,) in forebay.Loader(**options)])
    loader = forebay.Loader(**options, drop_last=True)
    assert len(loader) == 2
    assert torch.equal(torch.cat([index for (index,) in loader]), every[:200])


@pytest.mark.parametrize("how", ["close", "pickle", "state"])
def test_an_epoch_set_on_the_sampler_counts_in_a_loader_that_goes_on(packed: Path, how: str):
    dataset: Any = forebay.Dataset(packed)
    loader = load(packed, DistributedSampler(dataset, 2, 0))
    indices(loader)
    if how == "close":
        loader.close()
    elif how == "pickle":
        loader = pickle.loads(pickle.dumps(loader))
    else:
        loader.load_state_dict(loader.state_dict())
    loader.sampler.set_epoch(9)
    alone: DistributedSampler[Any] = DistributedSampler(dataset, 2, 0)
    alone.set_epoch(9)
    assert indices(loader) == list(alone) and loader.epoch == 10


def test_an_iter_of_which_nothing_is_taken_chooses_nothing_anew(packed: Path):
    once = load(packed, iter(range(70)))
    iter(once)
    assert indices(once) == list(range(70))

    def seeded() -> RandomSampler:
        return RandomSampler(range(70), generator=torch.Generator().manual_seed(1))

    loader, resumed = load(packed, seeded()), load(packed, seeded())
    given = iter(loader)
    next(given)
    resumed.load_state_dict(loader.state_dict())
    iter(resumed)
    resumed.set_epoch(0)
    assert indices(resumed) == [i for index, _ in given for i in index.tolist()]


def test_a_closed_loader_goes_on_with_what_nothing_could_choose_again(packed: Path):
    loader = load(packed, RandomSampler(range(70)))
    first = next(iter(loader))[0].tolist()
    loader.close()
    loader.set_epoch(0)
    assert sorted(first + indices(loader)) == list(range(70))


def test_an_epoch_without_samples_ends(packed: Path):
    loader = load(packed, [])
    for epoch in range(3):
        assert loader.epoch == epoch and indices(loader) == []
        state = loader.state_dict()
        loader = load(packed, [])
        loader.load_state_dict(state)
        loader.close()


def test_too_few_samples_for_a_batch_are_an_epoch_without_batches(packed: Path):
    loader = load(packed, [1, 2, 3], drop_last=True)
    assert len(loader) == 0 and list(loader) == [] and list(loader) == []


def test_a_distributed_sampler_resumes_at_every_batch(packed: Path):
    def make() -> forebay.Loader:
        return load(packed, DistributedSampler(range(70), 2, 1, seed=1))  # type: ignore[arg-type]

    loader = make()
    batches, states = [], []
    for _ in range(3):
        for index, _ in loader:
            batches.append(index)
            states.append(loader.state_dict())
    assert len(batches) == 15 and not torch.equal(batches[0], batches[5])
    for k, state in enumerate(states[:-1]):
        again = make()
        again.load_state_dict(state)
        rest = [index for index, _ in again]
        assert rest
        for own, expected in zip(rest, batches[k + 1 :], strict=False):
            assert torch.equal(own, expected)


class Seeded:
    """A sampler whose order depends on the epoch."""

    def __init__(self, seed: int) -> None:
        self.seed, self.epoch = seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return 50

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        yield from torch.randint(70, (50,), generator=generator).tolist()


@pytest.mark.parametrize("drop_last", [False, True])
def test_resumes_at_every_batch(packed: Path, drop_last: bool):
    loader = load(packed, Seeded(1), drop_last=drop_last)
    epochs: list[list[Any]] = []
    for epoch in range(2):
        loader.set_epoch(epoch)
        epochs.append(list(loader))
    for taken in range(len(loader) + 1):
        loader.set_epoch(0)
        given = iter(loader)
        for _ in range(taken):
            next(given)
        again = load(packed, Seeded(1), drop_last=drop_last)
        again.load_state_dict(loader.state_dict())
        rest = [*epochs[0][taken:]] or epochs[1]
        made = list(again)
        assert len(made) == len(rest)
        for (index, images), (own_index, own_images) in zip(rest, made, strict=True):
            assert torch.equal(index, own_index) and torch.equal(images, own_images)


def test_another_order_is_not_taken_for_the_same(packed: Path):
    loader = load(packed, Seeded(1))
    next(iter(loader))
    again = load(packed, Seeded(2))
    again.load_state_dict(loader.state_dict())
    with pytest.raises(ValueError, match="does not give the samples of epoch 0"):
        iter(again)


def test_weighted_epochs_resume_at_another_world_size(packed: Path):
    dataset = forebay.Dataset(packed).weighted(range(70))

    def make(rank: int, world_size: int) -> forebay.Loader:
        return forebay.Loader(
            dataset, 12 // world_size, True, transform=T.train(16), fields=["index"], rank=rank,
            world_size=world_size, drop_last=True, samples_per_epoch=60,
        )  # fmt: skip

    whole = make(0, 1)
    epoch = [index for (index,) in whole]
    assert len(epoch) == 5
    whole.set_epoch(0)
    given = iter(whole)
    next(given), next(given)
    state = whole.state_dict()
    for rank in range(3):
        part = make(rank, 3)
        part.load_state_dict(state)
        rest = [index for (index,) in part]
        assert len(rest) == 3
        for own, expected in zip(rest, epoch[2:], strict=True):
            assert torch.equal(own, expected[rank::3])


def test_bad_samples_are_named_by_their_numbers(packed: Path, images: dict[str, bytes],
                                                tmp_path: Path):  # fmt: skip
    some = {f"a/{i}.jpg": file for i, file in enumerate(list(images.values())[:6])}
    for name, file in some.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"no image" if name == "a/4.jpg" else file)
    loader = load(tmp_path, [4, 1, 4, 2, 5, 0])
    for _ in range(2):
        with pytest.warns(UserWarning, match="a/4") if not loader.bad_samples else no_warning():
            assert indices(loader) == [1, 2, 5, 0]
    assert [bad["sample"] for bad in loader.bad_samples] == [4]
    replaced = load(tmp_path, [4, 1, 2, 5], on_bad="replace")
    with pytest.warns(UserWarning, match="a/4"):
        assert indices(replaced) == [1, 1, 2, 5]
    with pytest.raises(ValueError, match="on_bad"):
        load(tmp_path, [1], on_bad="hide")


def no_warning() -> Any:
    import contextlib

    return contextlib.nullcontext()


class Endless:
    """A sampler whose iterators have no end."""

    def __iter__(self) -> Iterator[int]:
        return itertools.cycle(range(70))


@pytest.mark.parametrize("how", ["sampler", "weights", "batch_sampler", "endless"])
def test_one_feed_and_its_threads_serve_all_epochs(
    packed: Path, how: str, monkeypatch: pytest.MonkeyPatch
):
    opened = []
    make_feed = forebay._core.Feed

    def counting(*arguments: Any) -> Any:
        opened.append(arguments)
        return make_feed(*arguments)

    def threads() -> set[str]:
        return set(os.listdir("/proc/self/task"))

    monkeypatch.setattr(forebay._core, "Feed", counting)
    monkeypatch.setattr(forebay.loading.samplers, "_BLOCK_SAMPLES", 64)  # of a sampler without end
    options: dict[str, Any] = {"fields": ["index"], "num_workers": 3}
    if how == "batch_sampler":
        options |= {"dataset": packed, "batch_sampler": [[3, 4], [5], [69, 1, 2, 3]]}
    elif how == "endless":
        options |= {"dataset": packed, "batch_size": 8, "sampler": Endless()}
    else:
        options |= {"batch_size": 8, **chosen(packed, how, 50)}
    loader = forebay.Loader(**options)
    epoch = list(itertools.islice(loader, 7))
    before = threads()
    for number in range(10):
        epoch = list(itertools.islice(loader, 30))
        assert epoch
        if number == 5:
            loader.load_state_dict(loader.state_dict())
    assert threads() <= before
    assert len(opened) == 1


def test_weighted_draws_are_a_function_of_seed_and_epoch(packed: Path):
    weighted = forebay.Dataset(packed).weighted(np.arange(70) % 5)

    def epochs(seed: int) -> list[list[int]]:
        loader = forebay.Loader(weighted, 8, True, seed=seed, fields=["index"])
        return [[i for (index,) in loader for i in index.tolist()] for _ in range(3)]

    own = forebay._core.SampleWeights((np.arange(70) % 5).astype(np.float64))
    assert epochs(4) == [own.draw(4, epoch, 70).tolist() for epoch in range(3)]
    assert epochs(4) != epochs(5)


def test_a_state_of_other_draws_is_refused(packed: Path):
    options: dict[str, Any] = {**chosen(packed, "weights", 50), "batch_size": 8}
    loader = forebay.Loader(**options, fields=["index"])
    next(iter(loader))
    state = {**loader.state_dict(), "sampled": "0" * 64}
    loader.load_state_dict(state)
    with pytest.raises(ValueError, match="earlier version of Forebay"):
        iter(loader)


def test_wrong_samplers_are_told(packed: Path):
    with pytest.raises(ValueError, match="samples_per_epoch: it needs a dataset with weights"):
        load(packed, iter(range(70)), samples_per_epoch=10)
    for wrong in (np.ones(70, bool), torch.tensor([0.5]), "12", [[0, 1], [2]], [10**30], [None]):
        with pytest.raises(ValueError, match="sampler: it gives .* whole numbers"):
            iter(load(packed, wrong))
    for right in (np.arange(3), torch.arange(3), range(3), iter([0, 1, 2])):
        assert indices(load(packed, right)) == [0, 1, 2]
    with pytest.raises(IndexError, match="it gives 0 to 70"):
        next(iter(load(packed, [0, 70])))
    with pytest.raises(ValueError, match="leave out shuffle"):
        load(packed, [0], shuffle=True)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_repeats_are_other_augmentations_of_the_same_samples(packed: Path, world: int):
    count = len(forebay.Dataset(packed))
    options: dict[str, Any] = {
        "shuffle": True,
        "fields": ["index", "image"],
        "transform": [T.RandomCrop(8)],
    }
    seen: dict[int, list[Any]] = {}
    orders = []
    for rank in range(world):
        loader = forebay.Loader(
            packed, 6 // world, rank=rank, world_size=world, repeats=3, seed=5, **options
        )
        for epoch in range(2):
            batches = list(loader)
            orders.append(np.concatenate([index for index, _ in batches]))
            if epoch == 0:
                for index, images in batches:
                    for number, image in zip(index.tolist(), images, strict=True):
                        seen.setdefault(number, []).append(image)
    assert not np.array_equal(orders[0], orders[1])
    times = sorted(len(images) for images in seen.values())
    assert sum(times) in (count, -(-count // world) * world)  # the last batch is evened out
    assert times[len(times) // 2] == 3
    differing = [images for images in seen.values() if not torch.equal(images[0], images[-1])]
    assert len(differing) > len(seen) // 2
    if world == 1:
        assert (orders[0][: count // 3 * 3].reshape(-1, 3).std(1) == 0).all()


def test_repeats_go_on_where_they_were(packed: Path):
    def make() -> forebay.Loader:
        return forebay.Loader(packed, 4, True, transform=[T.RandomCrop(8)], repeats=2, seed=1)

    loader = make()
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    left = [images for images, _ in iterator]
    other = make()
    other.load_state_dict(state)
    assert all(torch.equal(a, b) for a, (b, _) in zip(left, other, strict=True))
    with pytest.raises(ValueError, match="repeats: it chooses"):
        forebay.Loader(packed, 4, sampler=range(3), repeats=2)
    with pytest.raises(ValueError, match="repeats is 0"):
        forebay.Loader(packed, 4, repeats=0)
    with pytest.raises(ValueError, match="order"):
        forebay.Loader(packed, 4, True, repeats=3, seed=1).load_state_dict(state)
