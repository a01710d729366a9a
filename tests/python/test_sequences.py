"""Makes a Loader's calls in random order: a batch of an epoch is the same after any calls."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forebay

SEED = 20261123
SEQUENCES = 80
CALLS = 30
EPOCHS = 3  # set_epoch() gets numbers below this
BATCH = 8


class Permuted:
    """A sampler like DistributedSampler, with another order in each epoch."""

    def __init__(self) -> None:
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        return iter(np.random.default_rng(self.epoch).permutation(70)[:45].tolist())

    def __len__(self) -> int:
        return 45

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


def make(packed: Path, kind: str) -> forebay.Loader:
    dataset = forebay.Dataset(packed)
    options: dict[str, Any] = {"shuffle": kind in ("shuffled", "weights")}
    if kind == "sampler":
        options["sampler"] = Permuted()
    elif kind == "weights":
        dataset = dataset.weighted(np.arange(70) + 1.0)
        options["samples_per_epoch"] = 37
    return forebay.Loader(
        dataset, BATCH, fields=["index"], num_workers=1, drop_last=kind == "dropping", **options
    )


class Model:
    """Predicts what a Loader does from the batches of each epoch alone."""

    def __init__(self, epochs: list[list[list[int]]]) -> None:
        self.epochs = epochs
        self.at = (0, 0)  # epoch and step of the next iter(), or of the running iterator
        # Where the running iterator began; None once it has given a batch.
        self.begun: tuple[int, int] | None = None
        self.running: Any = None
        # Mid-epoch. There, and when iter() has given no batch, set_epoch() of the same epoch
        # changes nothing.
        self.resumes = False

    def behind(self) -> tuple[int, int]:
        """Returns the place after the last batch; an epoch's end is the beginning of the next."""
        epoch, step = self.at
        return (epoch + 1, 0) if step == len(self.epochs[epoch]) else (epoch, step)

    def iter(self, given: Any) -> None:
        if self.running is not None and self.begun is None:  # it gave batches: next epoch
            self.at = (self.at[0] + 1, 0)
        self.begun, self.running = self.at, given

    def next(self, given: Any) -> list[int] | None:
        """Returns the batch that must come, or None at the epoch's end."""
        assert given is self.running
        self.begun, self.resumes = None, False
        epoch, step = self.at
        if step == len(self.epochs[epoch]):
            return None
        self.at = (epoch, step + 1)
        return self.epochs[epoch][step]

    def go_to(self, place: tuple[int, int], *, resumes: bool) -> None:
        self.at, self.begun, self.running, self.resumes = place, None, None, resumes


@pytest.mark.parametrize("kind", ["stored", "shuffled", "dropping", "sampler", "weights"])
def test_any_sequence_of_calls(packed: Path, kind: str):
    loader = make(packed, kind)
    epochs: list[list[list[int]]] = []
    for epoch in range(EPOCHS + CALLS):
        loader.set_epoch(epoch)
        epochs.append([index.tolist() for (index,) in loader])
    assert epochs[0] != epochs[1] or kind in ("stored", "dropping")
    for sequence in range(SEQUENCES):
        print(f"seed {SEED + sequence}")
        run(make(packed, kind), Model(epochs), random.Random(SEED + sequence))


def run(loader: forebay.Loader, model: Model, rng: random.Random) -> None:
    states: list[tuple[dict[str, Any], tuple[int, int]]] = []
    given: list[Any] = []
    for _ in range(CALLS):
        call = rng.choice(["iter", "next", "next", "next", "rest", "set_epoch", "state", "load",
                           "close"])  # fmt: skip
        print(call)
        if call == "iter":
            given.append(iter(loader))
            model.iter(given[-1])
        elif call == "next" and given:
            check_next(model, rng.choice([given[-1], *given[-3:]]))
        elif call == "rest" and model.running is not None:
            while check_next(model, model.running):
                pass
        elif call == "set_epoch":
            epoch = rng.choice([loader.epoch, rng.randrange(EPOCHS)])
            loader.set_epoch(epoch)
            stays = model.resumes or model.begun is not None
            if not (stays and model.at[0] == epoch):
                model.go_to((epoch, 0), resumes=False)
        elif call == "state":
            states.append((loader.state_dict(), model.behind()))
        elif call == "load" and states:
            state, place = rng.choice(states)
            loader.load_state_dict(state)
            model.go_to(place, resumes=True)
        elif call == "close":
            loader.close()
            model.go_to(model.behind(), resumes=True)
        assert loader.epoch == model.behind()[0]


def check_next(model: Model, given: Any) -> bool:
    """Returns whether the iterator gave a batch, after checking it against the model's."""
    if given is not model.running:
        with pytest.raises((RuntimeError, StopIteration)):  # an error once, then the end
            next(given)
        return False
    expected = model.next(given)
    got = next(given, None)
    assert (None if got is None else got[0].tolist()) == expected
    return got is not None
