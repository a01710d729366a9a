"""The fields of Loader.state_dict(), and the check of what load_state_dict() gets."""

from collections.abc import Mapping
from typing import Any

from forebay import _core
from forebay.checks import whole

VERSION = 0
# Fields with an epoch's position: its number, how many samples all ranks have consumed, and the bad
# samples so far.
POSITION = ("epoch", "position", "bad")
# Further fields if Python chooses the samples: which samples they are (EpochSamples.digest), how
# many, how many samples of the epoch came before them, and whether others follow.
CHOSEN = ("sampled", "samples", "before", "more")
# Batches that came before their turn, as pairs of positions (src/feed/batch/state.h). Absent if
# there are none.
OVER = "over"
_OF_BAD = {"sample": int, "chunk": str, "key": str, "reason": str}


def checked(state: Any, identity: Mapping[str, Any]) -> dict[str, Any]:
    """Checks that a state is valid and belongs to this Loader; gives it with Python's own numbers.

    Args:
        state: What the user gave.
        identity: The fields in which a state must agree with the Loader.

    Raises:
        ValueError: The state is invalid or belongs to another Loader; the message says why.
    """
    if not isinstance(state, Mapping):
        raise ValueError(f"load_state_dict: {state!r} is not a state of a Loader")
    missing = {*identity, *POSITION} - set(state)
    if missing:
        raise ValueError(f"load_state_dict: not a Loader's state: {sorted(missing)} is missing")
    for name, value in identity.items():
        if state[name] != value:
            why = "; their samples or labels differ" if name == "dataset" else ""
            raise ValueError(
                f"load_state_dict: the state's {name} is {state[name]!r}, the loader's is {value!r}"
                f"{why}"
            )
    out = dict(state)
    most_of = dict.fromkeys(("position", "samples", "before"), 2**63 - 1)
    most_of["epoch"] = _core.EPOCH_MAX - 1  # so that there is a next epoch
    for name, most in most_of.items():
        if name in out:
            out[name] = whole(f"load_state_dict: the state's {name}", out[name], 0, most)
    if not isinstance(out["bad"], list) or not all(map(_is_bad, out["bad"])):
        raise ValueError("load_state_dict: the state's bad is not a list of bad samples")
    if OVER in out:
        out[OVER] = _ranges(out[OVER], out["position"])
    return out


def _ranges(given: Any, before: int) -> list[list[int]]:
    """Pairs of positions that ascend and come after `before`."""
    if not isinstance(given, list):
        raise ValueError("load_state_dict: the state's over is not a list of pairs of positions")
    out = []
    for pair in given:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise ValueError(f"load_state_dict: the state's over has {pair!r}, not two positions")
        name = f"load_state_dict: a position of the state's over, after {before},"
        begin = whole(name, pair[0], before + 1)
        before = whole(name, pair[1], begin + 1)
        out.append([begin, before])
    return out


def _is_bad(one: Any) -> bool:
    return isinstance(one, Mapping) and all(
        isinstance(one.get(name), kind) for name, kind in _OF_BAD.items()
    )


def to_core(state: Mapping[str, Any]) -> _core.FeedState:
    """The feed's form of a Loader's state, without the fields about selected samples."""
    bad = [_core.BadSample(*(one[name] for name in _OF_BAD)) for one in state["bad"]]
    over = [(begin, end) for begin, end in state.get(OVER, [])]
    return _core.FeedState(state["epoch"], state["position"], bad, over)


def from_core(state: _core.FeedState) -> dict[str, Any]:
    """The same fields as a Loader's state has them."""
    bad = [{name: getattr(one, name) for name in _OF_BAD} for one in state.bad]
    out = {"epoch": state.epoch, "position": state.position, "bad": bad}
    if over := [[begin, end] for begin, end in state.over]:
        out[OVER] = over
    return out
