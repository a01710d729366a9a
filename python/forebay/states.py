"""What Loader.state_dict() gives, and whether what load_state_dict() gets is one."""

from collections.abc import Mapping
from typing import Any

from forebay.checks import whole

VERSION = 0
# Where an epoch stands: its number, the samples consumed over all ranks, and the bad ones so far.
POSITION = ("epoch", "position", "bad")
# Also in states of chosen samples: which they are (Chosen.digest), and how many.
CHOSEN = ("sampled", "samples")
_OF_BAD = {"sample", "chunk", "key", "reason"}


def check_state(state: Any, identity: Mapping[str, Any]) -> None:
    """That it is a Loader's, and fits.

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
    for name, most in (("epoch", 2**32 - 2), ("position", 2**63 - 1)):
        whole(f"load_state_dict: the state's {name}", state[name], 0, most)
    if "samples" in state:
        whole("load_state_dict: the state's samples", state["samples"], 0)
    if not isinstance(state["bad"], list) or not all(
        isinstance(bad, Mapping) and set(bad) >= _OF_BAD for bad in state["bad"]
    ):
        raise ValueError("load_state_dict: the state's bad is no list of bad samples")
