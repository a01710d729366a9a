"""Near sides: other machines that prepare some of a loader's batches."""

import os
from collections.abc import Sequence
from typing import Any

from forebay import _core

_SECRET = "FOREBAY_PREP_SECRET"
_POLICIES = ("interleave", "mte", "wrr")


class Prep:
    """Near sides, which `forebay prep` serves, the secret that they ask for, and what they prepare.

    Args:
        sides: "https://HOST:PORT", or several of them. "http://" is for this machine alone.
        secret: What the near sides have as --secret-file. None: the environment variable
            FOREBAY_PREP_SECRET, if it is set.
        policy: Which batches near sides prepare (docs/prep.md). "interleave": single ones, just far
            enough ahead. "mte": a part at the epoch's end, which the loop gets after all others.
            "wrr": from the epoch's end on, and the loop gets each as soon as it is there.
        order: "epoch": batches come in the epoch's order. "any": in any order, each once in its
            epoch, which a job of several processes cannot have. "mte" and "wrr" need "any". None:
            what the policy needs.

    Raises:
        ValueError: No near side is given, or policy and order do not fit.
    """

    def __init__(
        self,
        sides: str | Sequence[str],
        secret: str | None = None,
        *,
        policy: str = "interleave",
        order: str | None = None,
    ) -> None:
        self.sides = [sides] if isinstance(sides, str) else list(sides)
        if not self.sides or not all(isinstance(side, str) for side in self.sides):
            raise ValueError(f"prep is {sides!r}, but must be one or more texts https://HOST:PORT")
        if policy not in _POLICIES:
            raise ValueError(f"prep: the policy is {policy!r}, but must be one of {_POLICIES}")
        if order not in (None, "epoch", "any"):
            raise ValueError(f'prep: the order is {order!r}, but must be "epoch" or "any"')
        if policy != "interleave" and order == "epoch":
            raise ValueError(
                f'prep: the policy "{policy}" begins at the epoch\'s end, so that batches cannot '
                'come in the epoch\'s order; use order="any", or policy="interleave"'
            )
        self.policy = policy
        self.order = order or ("epoch" if policy == "interleave" else "any")
        self._secret = secret

    @property
    def core(self) -> _core.PrepOptions:
        """The same for the core."""
        secret = os.environ.get(_SECRET, "") if self._secret is None else self._secret
        return _core.PrepOptions(self.sides, secret, self.policy, self.order == "any")


def check_prep(given: Any) -> Prep | None:
    """A Loader's argument `prep`, checked.

    Raises:
        ValueError: It is none of what may be given.
    """
    if given is None or isinstance(given, Prep):
        return given
    if not isinstance(given, str | Sequence):
        raise ValueError(f"prep is {given!r}, but must be https://HOST:PORT, or a list of them")
    return Prep(given)


def side_figures(stats: _core.PrepStats | None) -> list[dict[str, Any]]:
    """What Loader.near_sides() gives."""
    if stats is None:
        return []
    return [
        {
            "name": side.name,
            "is_up": side.is_up,
            "trouble": side.trouble,
            "batches": side.steps,
            "late": side.late,
            "checked": side.checked,
            "bytes": side.bytes,
            "files": side.files,
            "batch_seconds": side.step_s,
        }
        for side in stats.sides
    ]
