"""What Loader.state_dict() gives, and whether what load_state_dict() gets is one."""

from collections.abc import Mapping
from typing import Any

from forebay.checks import whole

VERSION = 0
# Where an epoch stands: its number, the samples consumed over all ranks, and the bad ones so far.
POSITION = ("epoch", "position", "bad")
# Also in states of chosen samples: which they are (Chosen.digest), how many, how many of the epoch
# came before them, and whether others follow.
CHOSEN = ("sampled", "samples", "before", "more")
_OF_BAD = {"sample": int, "chunk": str, "key": str, "reason": str}


def checked(state: Any, identity: Mapping[str, Any]) -> dict[str, Any]:
    """A Loader's state, which fits; its numbers as Python's own.

    Args:
        state: From outside.
        identity: What the loader's own states say but for where it stands.

    Raises:
        ValueError: It is not; the message says what of it.
    """
    if not isinstance(state, Mapping):
        raise ValueError(f"load_state_dict: {state!r} is no state of a Loader")
    missing = {*identity, *POSITION} - set(state)
    if missing:
        raise ValueError(f"load_state_dict: not a Loader's state, {sorted(missing)} is missing")
    for name, value in identity.items():
        if state[name] != value:
            raise ValueError(
                f"load_state_dict: the state's {name} is {state[name]!r}, the loader's is {value!r}"
            )
    out = dict(state)
    most_of = {"epoch": 2**32 - 2, **dict.fromkeys(("position", "samples", "before"), 2**63 - 1)}
    for name, most in most_of.items():
        if name in out:
            out[name] = whole(f"load_state_dict: the state's {name}", out[name], 0, most)
    if not isinstance(out["bad"], list) or not all(map(_is_bad, out["bad"])):
        raise ValueError("load_state_dict: the state's bad is no list of bad samples")
    return out


def _is_bad(one: Any) -> bool:
    return isinstance(one, Mapping) and all(
        isinstance(one.get(name), kind) for name, kind in _OF_BAD.items()
    )
