"""A process's connections to the other processes that exchange, and what all do together."""

import contextlib
import json
import os
import pickle
import secrets
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from forebay import _core
from forebay.sync.errors import SyncError

# After this long a process says for which others it waits; then after ten times as long, and so on.
_SAY_SECONDS = 30.0
_SAY_GROWTH = 10
_LOOK_SECONDS = 1.0  # from one look for those that are missing to the next
_POLL_SECONDS = 0.02  # from one look into the store to the next


class Waiting:
    """Says on standard error for which processes this one waits.

    Args:
        rank: This process's rank.
        seconds_max: How long it waits at most.
    """

    def __init__(self, rank: int, seconds_max: float) -> None:
        self._rank, self._seconds_max = rank, seconds_max
        self._say_at = _SAY_SECONDS

    def look(self, waited_s: float, what: str, missing: Callable[[], list[int]]) -> None:
        """Called about once a second during a wait; a shorter time than before is a new wait."""
        if waited_s < self._say_at / _SAY_GROWTH:
            self._say_at = _SAY_SECONDS
        if waited_s < self._say_at:
            return
        self._say_at *= _SAY_GROWTH
        print(
            f"forebay.sync: rank {self._rank} has waited {waited_s:.0f} s for {named(missing())} "
            f"{what}; it waits for {self._seconds_max:.0f} s at most (wait_seconds)",
            file=sys.stderr, flush=True,
        )  # fmt: skip


def named(ranks: list[int]) -> str:
    """Names processes in a message."""
    if not ranks:
        return "other processes"
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


class Connection:
    """Connects this process with all others of a group; each makes one, in the same order.

    All processes make the same calls in the same order.

    Args:
        store: A store of torch.distributed for these processes; nothing else uses its keys.
        rank: This process's rank, from 0.
        world_size: The number of processes.
        wait_seconds: How long calls wait for other processes at most.

    Attributes:
        mesh: The connections themselves, for `_core.start_links`.

    Raises:
        SyncError: Other processes did not come in time, or cannot be reached.
    """

    def __init__(self, store: Any, rank: int, world_size: int, wait_seconds: float) -> None:
        self.rank, self.world_size, self.wait_seconds = rank, world_size, wait_seconds
        self._waiting = Waiting(rank, wait_seconds)
        token = secrets.token_bytes(32)
        if rank == 0:
            store.set("token", token.hex())
        elif world_size > 1:
            token = bytes.fromhex(self._values(store, ["token"])[0].decode())
        self.mesh: Any = _core.listen(rank, world_size, token)
        own = weakref.ref(self)
        self._sums: Any = _core.Sums(self.mesh, lambda waited_s: _look(own, waited_s))
        if world_size == 1:
            return
        interface = os.environ.get("GLOO_SOCKET_IFNAME", "")
        place = self.mesh.place(os.environ.get("MASTER_ADDR", "127.0.0.1"), interface)
        store.set(f"place {rank}", json.dumps(place))
        keys = [f"place {peer}" for peer in range(world_size)]
        places = [tuple(json.loads(text)) for text in self._values(store, keys)]
        with _as_sync_error("sync: the processes could not connect to each other"):
            self.mesh.connect(places, wait_seconds)

    def _values(self, store: Any, keys: list[str]) -> list[bytes]:
        begin, look_at = time.monotonic(), _LOOK_SECONDS
        # TCPStore.wait() would print a warning each time that it has waited in vain.
        while not store.check(keys):
            time.sleep(_POLL_SECONDS)
            waited = time.monotonic() - begin
            if waited < min(look_at, self.wait_seconds):
                continue
            look_at = waited + _LOOK_SECONDS
            missing = [key.split()[-1] for key in keys if not store.check([key])]
            ranks = [0 if name == "token" else int(name) for name in missing]  # rank 0 makes it
            if not ranks:
                continue
            self._waiting.look(waited, "to call forebay.sync.attach()", ranks.copy)
            if waited > self.wait_seconds:
                raise SyncError(
                    f"sync: {named(ranks)} did not call forebay.sync.attach() within {waited:.0f} "
                    "s; all processes of the job must call it"
                )
        return [bytes(value) for value in store.multi_get(keys)]

    def _look(self, waited_s: float) -> None:
        self._waiting.look(waited_s, "to come to the same call", self._sums.missing)

    def add(self, numbers: torch.Tensor, seconds: float | None = None) -> None:
        """Replaces numbers (float32, contiguous, in host memory) by the sums over all processes."""
        with _as_sync_error("sync: the processes could not sum numbers"):
            self._sums.add(numbers.reshape(-1).numpy(), self._seconds(seconds))

    def objects(self, own: Any, seconds: float | None = None) -> list[Any]:
        """Returns what each process passes as `own`, by rank. All processes trust each other."""
        with _as_sync_error("sync: the processes could not tell each other how they go on"):
            said = self._sums.gather(pickle.dumps(own), self._seconds(seconds))
        return [pickle.loads(one) for one in said]

    def bytes_from(self, rank: int, own: bytes, seconds: float | None = None) -> bytes:
        """Returns what the process `rank` passes as `own`."""
        with _as_sync_error(f"sync: the processes could not get bytes from rank {rank}"):
            said = self._sums.gather(own if rank == self.rank else b"", self._seconds(seconds))
        return bytes(said[rank])

    def _seconds(self, seconds: float | None) -> float:
        return self.wait_seconds if seconds is None else seconds

    def close(self) -> None:
        """Ends all connections; waits in other threads end at once."""
        if self.mesh is not None:
            self.mesh.stop()
        self.mesh = self._sums = None


def _look(connection: "weakref.ref[Connection]", waited_s: float) -> None:
    own = connection()
    if own is not None:
        own._look(waited_s)


@contextlib.contextmanager
def _as_sync_error(what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, SyncError):
            raise
        raise SyncError(f"{what}: {error}") from error
