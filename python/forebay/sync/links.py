"""Threads that move an exchange's messages through a process group of torch.distributed."""

import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from forebay import _core

_HEADER_TAG, _PAYLOAD_TAG = 1, 2


class Links:
    """Two threads for each peer, and one for sums over all processes, until `close`.

    Args:
        exchange: What decides about messages.
        group: A process group of Gloo that nobody else uses.
        sums: Whether the exchange wants sums at all; else it sends messages.
    """

    def __init__(self, exchange: _core.Exchange, group: Any, *, sums: bool) -> None:
        self._exchange, self._group = exchange, group
        self._sums: queue.Queue[Any] = queue.Queue()  # that have begun
        # Nothing can end a receive from a peer that says nothing, so no thread may hold up an exit.
        self._threads = [
            threading.Thread(target=job, name="forebay-sync", daemon=True)
            for job in self._jobs(sums)
        ]
        for thread in self._threads:
            thread.start()

    def _jobs(self, sums: bool) -> list[Callable[[], None]]:
        if sums:
            return [self._begin_sums, self._end_sums]
        peers = [peer for peer in range(self._group.size()) if peer != self._group.rank()]
        return [partial(call, peer) for peer in peers for call in (self._send, self._receive)]

    def _send(self, peer: int) -> None:
        try:
            while (message := self._exchange.next(peer)) is not None:
                header, payload = (torch.from_numpy(part) for part in message)
                works = [self._group.send([header], peer, _HEADER_TAG)]
                if payload.numel():
                    works.append(self._group.send([payload], peer, _PAYLOAD_TAG))
                for work in works:
                    work.wait()
        except RuntimeError as error:
            self._exchange.lost(peer, str(error))

    def _receive(self, peer: int) -> None:
        header = torch.empty(_core.SYNC_HEADER_BYTES, dtype=torch.uint8)
        try:
            while True:
                self._group.recv([header], peer, _HEADER_TAG).wait()
                room = torch.from_numpy(self._exchange.room(peer, header.numpy()))
                if room.numel():
                    self._group.recv([room], peer, _PAYLOAD_TAG).wait()
                if not self._exchange.received(peer):
                    return
        except (RuntimeError, OSError, ValueError) as error:
            self._exchange.lost(peer, str(error))

    # One sum goes on while the next one begins, as with DistributedDataParallel.
    def _begin_sums(self) -> None:
        try:
            while (part := self._exchange.next_reduction()) is not None:
                self._sums.put(self._group.allreduce([torch.from_numpy(part)]))
        except RuntimeError as error:
            self._fail(error)
        finally:
            self._sums.put(None)

    def _end_sums(self) -> None:
        try:
            while (work := self._sums.get()) is not None:
                work.wait()
                self._exchange.reduced()
        except RuntimeError as error:
            self._fail(error)

    def _fail(self, error: RuntimeError) -> None:
        self._exchange.fail(f"sync: an all-reduce failed: {error}")

    def close(self, seconds_max: float) -> bool:
        """Tells all peers that this process has ended, and waits until they have said so too.

        Returns:
            Whether all of them did within `seconds_max`.
        """
        self._exchange.close()
        until = time.monotonic() + seconds_max
        for thread in self._threads:
            thread.join(min(threading.TIMEOUT_MAX, max(0.0, until - time.monotonic())))
        return not any(thread.is_alive() for thread in self._threads)
