"""Prep servers: other machines that prepare some of a loader's batches."""

import os
from collections.abc import Sequence
from typing import Any

from forebay import _core

_SECRET = "FOREBAY_PREP_SECRET"
_POLICIES = ("interleave", "mte", "wrr")


class Prep:
    """Prep servers (`forebay prep`), their secret, and which batches they prepare.

    Args:
        servers: "https://HOST:PORT", or several of them. "http://" is for this machine alone.
        secret: The secret in the prep servers' --secret-file. None: the environment variable
            FOREBAY_PREP_SECRET, if it is set.
        policy: Which batches prep servers prepare (docs/prep.md). "interleave": single batches,
            just far enough ahead. "mte": a part at the epoch's end, which the loop gets after all
            other batches. "wrr": batches from the epoch's end towards its beginning, which the loop
            gets as soon as they are there.
        order: "epoch": batches come in the epoch's order. "any": in any order, each once in its
            epoch, which is not possible in a job of several processes. "mte" and "wrr" need "any".
            None: the order that the policy needs.

    Raises:
        ValueError: No prep server is given, or policy and order do not fit together.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        secret: str | None = None,
        *,
        policy: str = "interleave",
        order: str | None = None,
    ) -> None:
        self.servers = [servers] if isinstance(servers, str) else list(servers)
        if not self.servers or not all(isinstance(server, str) for server in self.servers):
            raise ValueError(f"prep is {servers!r}, but must be one or more URLs https://HOST:PORT")
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
        """The same options for the core."""
        secret = os.environ.get(_SECRET, "") if self._secret is None else self._secret
        return _core.PrepOptions(self.servers, secret, self.policy, self.order == "any")


def check_prep(given: Any) -> Prep | None:
    """Checks Loader's `prep`.

    Raises:
        ValueError: `given` is neither a URL, a list of URLs nor a Prep.
    """
    if given is None or isinstance(given, Prep):
        return given
    if not isinstance(given, str | Sequence):
        raise ValueError(f"prep is {given!r}, but must be https://HOST:PORT, or a list of them")
    return Prep(given)


def server_figures(stats: _core.PrepStats | None) -> list[dict[str, Any]]:
    """The figures that Loader.prep_servers() gives."""
    if stats is None:
        return []
    return [
        {
            "name": server.name,
            "is_up": server.is_up,
            "trouble": server.trouble,
            "batches": server.steps,
            "late": server.late,
            "checked": server.checked,
            "bytes": server.bytes,
            "files": server.files,
            "batch_seconds": server.step_s,
        }
        for server in stats.servers
    ]
