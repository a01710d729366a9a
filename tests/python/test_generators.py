"""The numbers of a user's function depend on seed, epoch and sample, not on threads or ranks."""

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import forebay
from forebay import transforms as T
from forebay.transforms.user_functions import DrawContext, UserFunction

CROP = T.RandomResizedCrop(8)


def noise(image: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(2, generator=generator, dtype=torch.float64)


def noise_of_numpy(image: torch.Tensor, *, rng: np.random.Generator) -> np.ndarray:
    return rng.random(2)


class Both(torch.nn.Module):
    """A module whose parameters are those of its forward()."""

    def forward(self, image: torch.Tensor, rng: Any = None, generator: Any = None) -> torch.Tensor:
        drawn = torch.rand(1, generator=generator, dtype=torch.float64)
        return torch.stack([drawn[0], torch.tensor(rng.random())])


FUNCTIONS = [noise, noise_of_numpy, Both()]


def drawn(dataset: Any, own: Any, epochs: int = 1, **options: Any) -> dict[Any, tuple]:
    """Returns what a function drew, by epoch and sample."""
    options = {"seed": 5, "shuffle": True, **options}
    fields = {"i": "index", "x": "image"}
    loader = forebay.Loader(dataset, 8, transform=[CROP, own], fields=fields, **options)
    out: dict[Any, tuple] = {}
    for epoch in range(epochs):
        for batch in loader:
            for index, x in zip(batch["i"].tolist(), batch["x"], strict=True):
                out.setdefault((epoch, index), ())
                out[epoch, index] += tuple(x.tolist())
    return out


@pytest.mark.parametrize("own", FUNCTIONS)
def test_random_numbers_are_the_samples_own(packed: Path, own: Any):
    expected = drawn(packed, own, epochs=2)
    assert len({value for pair in expected.values() for value in pair}) == 2 * 70 * 2
    for options in (
        {"num_workers": 1, "prefetch_factor": 1},
        {"num_workers": 4, "prefetch_factor": 5},
        {"shuffle": False},
    ):
        assert drawn(packed, own, epochs=2, **options) == expected
    ranks: dict[Any, tuple] = {}
    for rank in range(3):
        ranks |= drawn(packed, own, epochs=2, rank=rank, world_size=3)
    assert ranks == expected
    other = drawn(packed, own, epochs=2, seed=6)
    assert not {v for pair in other.values() for v in pair} & {
        v for pair in expected.values() for v in pair
    }


@pytest.mark.parametrize("own", FUNCTIONS)
def test_resuming_gives_the_same_numbers(packed: Path, own: Any):
    def batches(loader: forebay.Loader) -> list[torch.Tensor]:
        return [images for images, _ in loader]

    options: dict[str, Any] = {"transform": [CROP, own], "shuffle": True, "seed": 2}
    loader = forebay.Loader(packed, 8, **options)
    expected = batches(loader)
    first = forebay.Loader(packed, 8, **options)
    taken = iter(first)
    for _ in range(3):
        next(taken)
    again = forebay.Loader(packed, 8, **options)
    again.load_state_dict(first.state_dict())
    rest = batches(again)
    assert len(rest) == len(expected) - 3
    assert all(torch.equal(one, other) for one, other in zip(rest, expected[3:], strict=True))


def test_a_sample_that_comes_again_has_other_numbers(packed: Path):
    dataset = forebay.Dataset(packed)
    # The numbers depend on the sample and on how often it came before, not on its position.
    one = drawn(dataset, noise, sampler=[5, 6, 5, 7, 5], shuffle=False)
    assert len(set(one[0, 5])) == 6
    other = drawn(dataset, noise, sampler=[9, 5, 5, 5, 8, 6, 7], shuffle=False)
    assert all(other[key] == one[key] for key in one)
    # Batches of a batch_sampler, and a sampler without end, draw the same.
    batches = forebay.Loader(
        dataset, batch_sampler=[[5], [6, 5, 7], [5]], transform=[CROP, noise], seed=5,
        fields=["index", "image"],
    )  # fmt: skip
    endless = forebay.Loader(
        dataset, 5, sampler=itertools.cycle([5, 6, 5, 7, 5]), transform=[CROP, noise], seed=5,
        fields=["index", "image"],
    )  # fmt: skip
    for given in (batches, itertools.islice(endless, 1)):
        again: dict[int, tuple] = {}
        for numbers, x in given:
            for index, values in zip(numbers.tolist(), x.tolist(), strict=True):
                again[index] = (*again.get(index, ()), *values)
        assert {(0, index): values for index, values in again.items()} == one
    weighted = dataset.weighted(np.ones(len(dataset)))
    repeats = drawn(weighted, noise, samples_per_epoch=300)
    assert all(len(set(values)) == len(values) for values in repeats.values())
    assert any(len(values) > 2 for values in repeats.values())


def test_each_function_of_a_list_draws_its_own(packed: Path):
    seen: list[Any] = []

    def note(image: torch.Tensor, generator: torch.Generator, rng: Any) -> torch.Tensor:
        seen.append((generator.initial_seed(), rng.random()))
        return image

    def label(target: int, rng: np.random.Generator) -> float:
        seen.append((0, rng.random()))
        return rng.random()

    loader = forebay.Loader(
        forebay.Dataset(packed).subset([3]), transform=[CROP, note, note], target_transform=label
    )
    (_, labels) = next(iter(loader))
    assert len({seed for seed, _ in seen}) == 3 and len({value for _, value in seen}) == 3
    assert labels.dtype == torch.float64


def test_functions_of_batches_draw_by_step_and_samples(packed: Path):
    def collate(samples: list[Any], generator: torch.Generator) -> Any:
        return len(samples), torch.rand(2, generator=generator)

    def add(batch: Any, rng: np.random.Generator) -> Any:
        return batch[0], (*batch[1].tolist(), rng.random())

    def epochs(**options: Any) -> list[Any]:
        loader = forebay.Loader(
            packed, 8, shuffle=True, collate_fn=collate, batch_transform=add, **options
        )
        return [numbers for _ in range(2) for _, numbers in loader]

    expected = epochs(seed=1)
    assert len({value for one in expected for value in one}) == 3 * len(expected)
    assert epochs(seed=1, num_workers=1, prefetch_factor=6) == expected
    assert not {one[0] for one in epochs(seed=2)} & {one[0] for one in expected}
    ranks = [epochs(seed=1, rank=rank, world_size=2) for rank in range(2)]
    assert not {one[0] for one in ranks[0]} & {one[0] for one in ranks[1]}
    # The same holds for a sampler that gives each rank its own samples.
    halves = [
        forebay.Loader(packed, 8, sampler=range(first, 70, 2), collate_fn=collate)
        for first in range(2)
    ]
    numbers = [{value for _, one in half for value in one.tolist()} for half in halves]
    assert not numbers[0] & numbers[1]


def test_only_parameters_that_are_free_get_a_generator(packed: Path):
    own = torch.Generator().manual_seed(3)
    context = DrawContext(0, 0, np.zeros(1, np.uint64))

    def named(generator: Any) -> Any:  # its parameter happens to have this name
        return generator

    assert UserFunction(named, "transform")(7, context) == 7
    bound = functools.partial(lambda image, generator: generator, generator=own)
    assert UserFunction(bound, "transform")(7, context) is own
    keywords = UserFunction(lambda image, **more: more, "transform")
    assert keywords(7, context) == {}
    assert UserFunction(abs, "transform")(-7, context) == 7
    curried = functools.partial(lambda scale, image, rng: (scale, image, rng), 2)
    scale, image, rng = UserFunction(curried, "transform")(7, context)
    assert (scale, image) == (2, 7) and isinstance(rng, np.random.Generator)


def test_the_numbers_never_change():
    """The numbers are part of a run's results: every version of Forebay must draw the same."""
    context = DrawContext(2**64 - 1, 7, np.array([2**40 + 3], np.uint64))
    torch_own = UserFunction(lambda image, generator: generator.initial_seed(), "transform", 1)
    numpy_own = UserFunction(lambda image, rng: int(rng.bit_generator.random_raw()), "transform", 1)
    batch = DrawContext(1, 0, np.arange(3, dtype=np.uint64), step=4)
    assert [own(None, at) for own in (torch_own, numpy_own) for at in (context, batch)] == [
        18291010439749782023,
        15226812721108089596,
        11978201735191523417,
        12323828618460159794,
    ]


def test_the_global_generators_are_left_alone(packed: Path):
    def states() -> Iterator[Any]:
        yield torch.get_rng_state().tolist()
        state: Any = np.random.get_state()
        yield [np.asarray(part).tolist() for part in state[1:]]

    before = list(states())
    drawn(packed, Both())
    assert list(states()) == before
