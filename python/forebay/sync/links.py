"""Threads that move an exchange's messages through a process group of torch.distributed."""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from forebay import _core

_TAG = 1
# The number of receives that are posted ahead for each peer, so that its link stays busy while this
# process's threads wait for the processor.
_AHEAD = 3


class Mailboxes:
    """Receives that are posted ahead for each peer, with their memory.

    A Mailboxes outlives an exchange, because a posted receive cannot be cancelled.

    Args:
        group: A process group of Gloo that nothing else uses.
        bytes_max: The size of the largest message.
    """

    def __init__(self, group: Any, bytes_max: int) -> None:
        self.group = group
        self.peers = [peer for peer in range(group.size()) if peer != group.rank()]
        self._bytes_max = bytes_max
        self._waiting: dict[int, deque[tuple[Any, torch.Tensor]]] = {}

    def receive(self, peer: int) -> torch.Tensor:
        """Waits for the next message; returns memory that begins with it (give it to `reuse`)."""
        if peer not in self._waiting:
            self._waiting[peer] = deque()
            for _ in range(_AHEAD):
                self.reuse(peer, torch.empty(self._bytes_max, dtype=torch.uint8))
        work, room = self._waiting[peer].popleft()
        work.wait()
        return room

    def reuse(self, peer: int, room: torch.Tensor) -> None:
        """Posts a receive into `room`, whose message nobody reads any more."""
        self._waiting[peer].append((self.group.recv([room], peer, _TAG), room))


class Links:
    """The threads of an exchange: two for each peer, or two for sums over all processes.

    Args:
        exchange: Decides what is sent, and takes what arrives.
        mailboxes: Sends and receives messages. None: the exchange has sums instead of messages.
        sums_group: The process group of sums.
    """

    def __init__(
        self, exchange: _core.Exchange, mailboxes: Mailboxes | None, sums_group: Any
    ) -> None:
        self._exchange, self._mailboxes, self._sums_group = exchange, mailboxes, sums_group
        self._sums: queue.Queue[Any] = queue.Queue()  # that are on their way
        # A receive from a silent peer cannot be ended. Daemon threads do not hold up an exit.
        self._threads = [
            threading.Thread(target=job, name="forebay-sync", daemon=True) for job in self._jobs()
        ]
        for thread in self._threads:
            thread.start()

    def _jobs(self) -> list[Callable[[], None]]:
        boxes = self._mailboxes
        if boxes is None:
            return [self._begin_sums, self._end_sums]
        calls = (self._send, self._receive)
        return [partial(call, boxes, peer) for peer in boxes.peers for call in calls]

    def _send(self, boxes: Mailboxes, peer: int) -> None:
        sent: deque[tuple[Any, torch.Tensor]] = deque()
        try:
            while (message := self._exchange.next(peer)) is not None:
                content = torch.from_numpy(message)
                sent.append((boxes.group.send([content], peer, _TAG), content))
                if len(sent) == 2:  # the exchange keeps the bytes of two messages
                    sent.popleft()[0].wait()
            while sent:
                sent.popleft()[0].wait()
        except RuntimeError as error:
            self._exchange.lost(peer, str(error))

    def _receive(self, boxes: Mailboxes, peer: int) -> None:
        try:
            goes_on = True
            while goes_on:
                message = boxes.receive(peer)
                goes_on = self._exchange.received(peer, message.numpy())
                boxes.reuse(peer, message)
        except (RuntimeError, OSError, ValueError) as error:
            self._exchange.lost(peer, str(error))

    # Like with DistributedDataParallel, the next sum begins while one is on its way.
    def _begin_sums(self) -> None:
        try:
            while (part := self._exchange.next_reduction()) is not None:
                self._sums.put(self._sums_group.allreduce([torch.from_numpy(part)]))
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
