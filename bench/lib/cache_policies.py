"""What a cache fetches of a sequence of requests, under several policies, and at the very least.

Files are cut at the ends of all ranges into atoms, each of which is asked for as a whole or not at
all (docs/decisions/0015-cache.md).
"""

import heapq
import math
from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lib.origin_log import Asked


class Use(NamedTuple):
    """One use of an atom."""

    epoch: int  # from 0
    client: str
    atom: int
    bytes: int  # of the atom


def uses_of(requests: Sequence[Asked], epochs: int) -> list[Use]:
    """The uses of atoms in so many epochs, each of which uses every atom once.

    Loaders read the beginning of an epoch ahead while the one before ends. So what is used for the
    second time belongs to the second epoch, and the epochs are put one after the other.
    """
    ends: dict[str, set[int]] = defaultdict(set)
    for one in requests:
        ends[one.file].update(end for span in one.spans for end in span)
    cuts = {file: sorted(found) for file, found in ends.items()}
    numbers: dict[tuple[str, int], int] = {}
    times: dict[int, int] = defaultdict(int)
    uses = []
    for one in requests:
        cut = cuts[one.file]
        for begin, end in one.spans:
            for at in range(bisect_left(cut, begin), bisect_left(cut, end)):
                atom = numbers.setdefault((one.file, at), len(numbers))
                if times[atom] < epochs:
                    uses.append(Use(times[atom], one.client, atom, cut[at + 1] - cut[at]))
                times[atom] += 1
    return sorted(uses, key=lambda use: use.epoch)


def _per_epoch(uses: Sequence[Use], fetched: Iterable[int]) -> list[int]:
    totals = [0] * (uses[-1].epoch + 1)
    for use, count in zip(uses, fetched, strict=True):
        totals[use.epoch] += count
    return totals


def belady(uses: Sequence[Use], room: int) -> list[int]:
    """The least bytes that a cache of `room` bytes can fetch, by epoch.

    When bytes do not fit, those whose next use is the latest go. They may be a part of an atom.
    """
    next_use = [math.inf] * len(uses)
    seen: dict[int, int] = {}
    for at in range(len(uses) - 1, -1, -1):
        next_use[at] = seen.get(uses[at].atom, math.inf)
        seen[uses[at].atom] = at
    kept: dict[int, int] = defaultdict(int)  # bytes by atom
    due: dict[int, float] = {}  # when each atom is used next
    latest: list[tuple[float, int]] = []
    total, fetched = 0, []
    for at, use in enumerate(uses):
        fetched.append(use.bytes - kept[use.atom])
        total -= kept.pop(use.atom)
        if next_use[at] == math.inf:
            continue
        kept[use.atom], due[use.atom] = use.bytes, next_use[at]
        total += use.bytes
        heapq.heappush(latest, (-next_use[at], use.atom))
        while total > room:
            when, atom = latest[0]
            if due.get(atom) != -when or not kept.get(atom):
                heapq.heappop(latest)
                continue
            cut = min(total - room, kept[atom])
            kept[atom] -= cut
            total -= cut
    return _per_epoch(uses, fetched)


def lru(uses: Sequence[Use], room: int) -> list[int]:
    """What a cache fetches that drops what was not used for the longest time, by epoch."""
    kept: OrderedDict[int, int] = OrderedDict()
    total, fetched = 0, []
    for use in uses:
        if use.atom in kept:
            kept.move_to_end(use.atom)
            fetched.append(0)
            continue
        fetched.append(use.bytes)
        kept[use.atom] = use.bytes
        total += use.bytes
        while total > room:
            total -= kept.popitem(last=False)[1]
    return _per_epoch(uses, fetched)


def keep_first(uses: Sequence[Use], room: int) -> list[int]:
    """What a cache fetches that keeps what came first and drops nothing, by epoch."""
    kept: set[int] = set()
    total, fetched = 0, []
    for use in uses:
        fetched.append(0 if use.atom in kept else use.bytes)
        if use.atom not in kept and total + use.bytes <= room:
            kept.add(use.atom)
            total += use.bytes
    return _per_epoch(uses, fetched)


def own_shares(uses: Sequence[Use], room: int) -> list[int]:
    """What caches fetch that each client has alone, with an equal share of the room, by epoch."""
    clients = {use.client for use in uses}
    parts = [
        keep_first([use for use in uses if use.client == client], room // len(clients))
        for client in clients
    ]
    return [sum(epoch) for epoch in zip(*parts, strict=True)]


POLICIES = {"belady": belady, "keep first": keep_first, "lru": lru, "own shares": own_shares}
