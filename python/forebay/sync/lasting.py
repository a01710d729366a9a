"""Local steps that go on with the processes that are left when others are lost.

Each process that notices a loss says in the store that it is left, and whose connections have ended
for it. Then it ends its own connections, so that the others notice, too. The first process that has
heard of all others, or waited long enough, proposes who goes on. The proposal is set only once. So
all go on with the same processes, which connect anew, or raise if they are not among them.
"""

import json
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from forebay.sync.connection import Connection, Waiting, named
from forebay.sync.errors import SyncError
from forebay.sync.together import OUTER_MOMENTUM, Together, newest_of

Found = TypeVar("Found")

# How long processes that were not heard of count as left after a wait for them has ended. Those
# that only wait for others, too, notice within a step.
_NOTICE_SECONDS = 30.0
_LOOK_SECONDS = 0.05  # from one look into the store to the next
_STORE_SECONDS = 10.0  # how long the store may take to answer
# How long it may take those that are left to connect anew: all have just said that they are left.
_CONNECT_SECONDS = 60.0


class Lasting(Together):
    """A Together of local steps; see there for the arguments and attributes.

    After a loss, `rank` and `world_size` count the processes that are left.
    """

    def __init__(self, connection: Connection, store: Any, *rest: Any) -> None:
        super().__init__(connection, store, *rest)
        self._store = store
        self._first_ranks = list(range(self.world_size))  # of those left, at the beginning
        self._failure: SyncError | None = None  # why this process could not go on

    def before_update(self, gradients: Sequence[torch.Tensor] | None = None) -> None:
        """See `Together.before_update`."""
        self._repeated(partial(super().before_update, gradients))

    def after_update(self) -> bool:
        """See `Together.after_update`."""
        connection = self._connection
        if self._failure is None and (gone := connection.mesh.lost()):
            self._go_on(SyncError(f"sync: the connections to {named(gone)} ended"))
        wants_weights = self._repeated(super().after_update)
        return wants_weights or connection is not self._connection

    def _repeated(self, call: Callable[[], Found]) -> Found:
        while self._failure is None:
            try:
                return call()
            except SyncError as error:
                self._go_on(error)
        raise self._failure

    def _end_links(self, seconds_max: float) -> bool:
        until = time.monotonic() + seconds_max
        while self._failure is None:
            has_ended = super()._end_links(max(0.0, until - time.monotonic()))
            if has_ended and not self._connection.mesh.lost():
                return True
            error = SyncError("sync: connections ended")
            if not has_ended:
                late = f"{named(self._links.waits_for())} did not end the exchange in time"
                error = SyncError(f"sync: {late}")
                error.__cause__ = TimeoutError(late)
            if not self._could_go_on(error, until):
                break
        return False

    def _end_even(self, wants_mean: bool, also: Sequence[torch.Tensor], until: float) -> bool:
        while True:
            try:
                return self._make_even(wants_mean, also, until)
            except SyncError as error:
                if not self._connection.mesh.lost() or not self._could_go_on(error, until):
                    return False
            if not self._end_links(max(0.0, until - time.monotonic())):
                return False

    def _could_go_on(self, error: SyncError, until: float) -> bool:
        if time.monotonic() >= until:
            return False
        try:
            self._go_on(error)
        except SyncError:
            return False
        return True

    def leave(self) -> None:
        """See `Together.leave`."""
        super().leave()
        self._connection.close()

    def _go_on(self, error: SyncError) -> None:
        """Goes on with the processes that are left; all of these call it together.

        The sum that has failed changes nothing: what was to be summed waits for the next one.

        Args:
            error: What this process has noticed; caused by a TimeoutError if others were silent.

        Raises:
            SyncError: The others have gone on without this process, or it cannot reach them.
        """
        try:
            self._connect_anew(error)
        except SyncError as failure:
            self._failure = failure
            self.leave()
            raise

    def _connect_anew(self, error: SyncError) -> None:
        self._numbers.fetch_weights()
        left = self._agree_on_left(error)
        self._exchange.settle()
        stats = self._exchange.stats()
        shared = torch.from_numpy(self._exchange.shared_weights())
        kept = {name: torch.from_numpy(found) for name, found in self._exchange.kept().items()}
        self._totals.add(stats)
        self._totals.keep(left)
        self._exchange.release()
        self._store = dist.PrefixStore("those left", self._store)
        was = self._first_ranks
        self._first_ranks = [was[rank] for rank in left]
        self.rank, self.world_size = left.index(self.rank), len(left)
        self._connection = self._connected()
        self._waiting = Waiting(self.rank, self._wait_seconds)
        self._take_newest(stats["reduced_bytes"], shared, kept.get(OUTER_MOMENTUM))
        self._begin(first=shared.numpy())
        if OUTER_MOMENTUM in kept:
            self._exchange.restore(OUTER_MOMENTUM, kept[OUTER_MOMENTUM].numpy())
        self._numbers.put_weights()
        self._say([rank for rank in was if rank not in self._first_ranks])

    def _connected(self) -> Connection:
        seconds = min(self._wait_seconds, _CONNECT_SECONDS)
        try:
            found = Connection(self._store, self.rank, self.world_size, seconds)
        except SyncError as error:
            raise SyncError(
                "sync: after a loss, those that were left could not connect anew, because another "
                "one was lost meanwhile; start all processes again from their newest checkpoint"
            ) from error
        found.wait_seconds = self._wait_seconds
        return found

    def _say(self, lost: list[int]) -> None:
        how = f"as rank {self.rank} of the {self.world_size} processes that are left"
        if self.world_size == 1:
            how = "alone"
        own = self._first_ranks[self.rank]
        what = f"lost {named(lost)}" if lost else "lost connections to other processes"
        warnings.warn(f"sync: rank {own} has {what}, and goes on {how}", stacklevel=2)

    def _take_newest(
        self, reduced_bytes: int, shared: torch.Tensor, momentum: torch.Tensor | None
    ) -> None:
        """Gives all the shared weights of the process whose last sum was complete the latest."""
        said = self._connection.objects(reduced_bytes)
        newest = newest_of(said)
        if min(said) == max(said):
            return
        for tensor in (shared, momentum):
            if tensor is None:
                continue
            if self.rank != newest:
                tensor.zero_()
            self._connection.add(tensor)
        outer = self.from_rank(newest, self._outer and self._outer.state_dict())
        if reduced_bytes != said[newest]:
            # This process missed the last sum, whose result replaces what it has learned since.
            self._numbers.weights.copy_(shared)
            if self._outer is not None:
                self._outer.load_state_dict(outer)

    def _agree_on_left(self, error: SyncError) -> list[int]:
        """Ends the connections, and returns the ranks of those that are left."""
        is_late = isinstance(error.__cause__, TimeoutError)
        seconds = min(self._wait_seconds, _NOTICE_SECONDS) if is_late else self._wait_seconds
        gone = json.dumps(self._connection.mesh.lost())
        self._in_time(partial(self._store.set, f"left {self.rank}", gone), 0.0)
        self._links = None
        self._connection.close()
        left = self._in_time(partial(self._hear, time.monotonic() + seconds), seconds)
        if self.rank not in left:
            raise SyncError(
                f"sync: the others went on without this process, rank {self.rank}, because it was "
                f"silent for too long, or they could not reach it ({error})"
            ) from error
        return left

    def _hear(self, until: float) -> list[int]:
        store, begin = self._store, time.monotonic()
        gone: dict[int, list[int]] = {}  # by the ranks that are left: who is gone for them

        def missing() -> list[int]:
            known = {*gone, *(rank for ranks in gone.values() for rank in ranks)}
            return [rank for rank in range(self.world_size) if rank not in known]

        while not store.check(["verdict"]):
            news = [
                rank
                for rank in range(self.world_size)
                if rank not in gone and store.check([f"left {rank}"])
            ]
            for rank in news:
                gone[rank] = json.loads(store.get(f"left {rank}"))
            # A process says that it is left before its connections end. So whoever is gone for one
            # of the others, and is left, is among the news now.
            if not news and (not missing() or time.monotonic() >= until):
                store.compare_set("verdict", "", json.dumps(sorted(gone)))
            self._waiting.look(time.monotonic() - begin, "to go on after a loss", missing)
            time.sleep(_LOOK_SECONDS)
        found: list[int] = json.loads(store.get("verdict"))
        return found

    def _in_time(self, call: Callable[[], Found], seconds: float) -> Found:
        """Calls a function that uses the store, which may be lost, too."""
        found: list[Found] = []
        failed: list[Exception] = []

        def run() -> None:
            try:
                found.append(call())
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(seconds + _STORE_SECONDS)
        if not found:
            why = failed[0] if failed else "it does not answer"
            raise SyncError(
                "sync: processes were lost, and so was the store of torch.distributed, through "
                f"which those left would find each other ({why})"
            )
        return found[0]
