"""Where a Loader stands: each transition of a Position from each kind of position, as a table."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from forebay.loading.position import EpochPosition, Position, beginning
from forebay.loading.samplers import EpochSamples

BAD = [{"sample": 7, "chunk": "c", "key": "k", "reason": "r"}]
CHOSEN = EpochSamples(np.arange(4), np.arange(4, dtype=np.uint64))
MIDDLE = {"epoch": 2, "position": 16, "bad": BAD}
SAMPLED = {**beginning(2), **CHOSEN.identity()}


def after(
    position: int, *, epoch: int = 2, bad: list[dict[str, Any]] | None = None
) -> EpochPosition:
    """Where an epoch stands after a batch."""
    bad = bad or []
    return EpochPosition.at({"epoch": epoch, "position": position, "bad": bad}, None)


def begun(state: dict[str, Any], selected: EpochSamples | None = None) -> Position:
    """An epoch runs, and nothing was taken of it."""
    return Position(state, selected, EpochPosition.at(state, selected))


NEW = Position()
SET = Position(beginning(2))
LOADED = Position(MIDDLE)
BEGUN = begun(beginning(2))
BEGUN_LOADED = begun(MIDDLE)
BEGUN_CHOSEN = begun(beginning(2), CHOSEN)
TAKEN = Position(beginning(2), epoch_position=after(8, bad=BAD), is_taken=True)
TAKEN_LOADED = Position(MIDDLE, epoch_position=after(24, bad=BAD), is_taken=True)


Transition = Callable[[Position], Position]
# The position, the transition, and the position after it or the error.
TABLE: dict[str, tuple[Position, Transition, Position | type[BaseException]]] = {
    "iter() of a new loader": (NEW, lambda p: p.iterate(p.next(), None), begun(beginning(0))),
    "iter() begins a loaded state": (LOADED, lambda p: p.iterate(p.next(), None), BEGUN_LOADED),
    "iter() again before a batch begins the same": (
        BEGUN_LOADED, lambda p: p.iterate(p.next(), None), BEGUN_LOADED,
    ),
    "iter() after a batch begins the next epoch": (
        TAKEN, lambda p: p.iterate(p.next(), None), begun(beginning(3, BAD)),
    ),
    "iter() after a batch of a resumed epoch begins the next one": (
        TAKEN_LOADED, lambda p: p.iterate(p.next(), None), begun(beginning(3, BAD)),
    ),
    "iter() keeps what was chosen": (SET, lambda p: p.iterate(p.next(), CHOSEN), BEGUN_CHOSEN),
    "a batch": (BEGUN, lambda p: p.take(after(8, bad=BAD)), TAKEN),
    "a batch of a resumed epoch": (
        BEGUN_LOADED, lambda p: p.take(after(24, bad=BAD)), TAKEN_LOADED,
    ),
    "a batch where no epoch runs": (SET, lambda p: p.take(after(8)), AssertionError),
    "the end where no epoch runs": (
        LOADED, lambda p: p.finish(None, is_empty=False), AssertionError,
    ),
    "the end after the last batch": (TAKEN, lambda p: p.finish(None, is_empty=False), TAKEN),
    "the end after batches that failed": (
        BEGUN, lambda p: p.finish(after(8, bad=BAD), is_empty=False), TAKEN,
    ),
    "the end of an epoch without batches": (
        BEGUN, lambda p: p.finish(None, is_empty=True), Position(beginning(3)),
    ),
    "set_epoch() of a new loader": (NEW, lambda p: p.set_epoch(2), SET),
    "set_epoch() of the epoch that was loaded": (LOADED, lambda p: p.set_epoch(2), LOADED),
    "set_epoch() of another one than was loaded": (
        LOADED, lambda p: p.set_epoch(3), Position(beginning(3, BAD)),
    ),
    "set_epoch() of the loaded epoch once it was begun": (
        BEGUN_LOADED, lambda p: p.set_epoch(2), BEGUN_LOADED,
    ),
    "set_epoch() of the loaded epoch once it was taken from": (
        TAKEN_LOADED, lambda p: p.set_epoch(2), Position(beginning(2, BAD)),
    ),
    "set_epoch() of the epoch after the loaded one, which was taken from": (
        TAKEN_LOADED, lambda p: p.set_epoch(3), Position(beginning(3, BAD)),
    ),
    "set_epoch() of the running epoch before its first batch": (
        BEGUN, lambda p: p.set_epoch(2), BEGUN,
    ),
    "set_epoch() of the running epoch begins it anew": (
        TAKEN, lambda p: p.set_epoch(2), Position(beginning(2, BAD)),
    ),
    "a batch that was not handed over": (
        BEGUN, lambda p: p.take(after(8, bad=BAD)).give_back(), BEGUN,
    ),
    "loading a state": (TAKEN, lambda p: p.load(MIDDLE, is_over=False), LOADED),
    "loading a state keeps nothing else of it": (
        NEW, lambda p: p.load({**MIDDLE, "version": 0, "seed": 1}, is_over=False), LOADED,
    ),
    "loading an epoch's end begins the next one": (
        NEW, lambda p: p.load(MIDDLE, is_over=True), Position(beginning(3, BAD)),
    ),
    "loading forgets what was chosen": (
        BEGUN_CHOSEN, lambda p: p.load(MIDDLE, is_over=False), LOADED,
    ),
    "close() of a new loader": (NEW, lambda p: p.close(is_over=False), Position()),
    "close() before a batch": (
        BEGUN_LOADED, lambda p: p.close(is_over=False), LOADED,
    ),
    "close() in an epoch's middle": (
        TAKEN, lambda p: p.close(is_over=False),
        Position({**beginning(2, BAD), "position": 8}),
    ),
    "close() at an epoch's end": (
        TAKEN, lambda p: p.close(is_over=True), Position(beginning(3, BAD)),
    ),
    "close() keeps what was chosen": (
        BEGUN_CHOSEN, lambda p: p.close(is_over=False), Position(SAMPLED, CHOSEN),
    ),
    "close() twice": (
        Position(SAMPLED, CHOSEN), lambda p: p.close(is_over=False),
        Position(SAMPLED, CHOSEN),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_each_transition(name: str):
    before, transition, expected = TABLE[name]
    if isinstance(expected, Position):
        assert transition(before) == expected
    else:
        with pytest.raises(expected):
            transition(before)


@pytest.mark.parametrize(
    ("place", "now", "following"),
    [
        (NEW, beginning(0), beginning(0)),
        (LOADED, MIDDLE, MIDDLE),
        (BEGUN, beginning(2), beginning(2)),
        (BEGUN_LOADED, MIDDLE, MIDDLE),
        (BEGUN_CHOSEN, SAMPLED, beginning(2)),
        (TAKEN, {"epoch": 2, "position": 8, "bad": BAD}, beginning(3, BAD)),
    ],
)
def test_what_a_place_says(place: Position, now: dict[str, Any], following: dict[str, Any]):
    assert (place.now(), place.next()) == (now, following)


def test_what_a_place_says_is_the_callers_own():
    LOADED.now()["bad"][0]["key"] = "changed"
    LOADED.next()["bad"].clear()
    assert LOADED.begin == {"epoch": 2, "position": 16, "bad": BAD}
    assert BAD[0]["key"] == "k"
