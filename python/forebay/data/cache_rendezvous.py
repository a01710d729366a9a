"""How the processes of a job tell each other where their machines serve a cache."""

import contextlib
import ipaddress
import itertools
import json
import os
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from forebay import _core
from forebay.pytorch import load_torch
from forebay.ranks import own_world

_WAIT = timedelta(seconds=120)
_LOOPBACK = "127.0.0.1"
_ELSEWHERE = "192.0.2.1"  # an address of RFC 5737 that no machine has
_numbers = itertools.count()  # of the rendezvous of this process


Member = tuple[str, str, int, int, int]  # id, host, port, room_bytes, incarnation


@dataclass(frozen=True, repr=False)
class Machine:
    """How this machine takes part in a cache: what a copy in another process needs, too."""

    address: str = _LOOPBACK
    secret: str = ""
    members: tuple[Member, ...] = ()
    # The places of all machines, where the user lists them; `address` then says which is this one.
    listed: tuple[str, ...] = ()


class Rendezvous:
    """Where the ranks of a job meet: the store of torch.distributed, or that of torchrun.

    Every rank makes the same rendezvous in the same order.
    """

    def __init__(self, store: Any, rank: int, world_size: int, address: str | None) -> None:
        torch = load_torch()
        again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        name = f"forebay-cache-{again}-{next(_numbers)}"
        self._store = torch.distributed.PrefixStore(name, store)
        self._rank, self._world_size = rank, world_size
        self.address = address or own_address()
        if rank == 0:
            self._store.set("secret", secrets.token_hex(32))
        with _in_time("rank 0"):
            self.secret: str = self._store.get("secret").decode()

    def members(self, machine: _core.Member) -> tuple[Member, ...]:
        """Tells the other ranks of this machine's member; returns all machines' members.

        Raises:
            OSError: Not all ranks came in time.
        """
        own = (machine.id, machine.host, machine.port, machine.room_bytes, machine.incarnation)
        self._store.set(f"member {self._rank}", json.dumps(own))
        found = set()
        for rank in range(self._world_size):
            with _in_time(f"rank {rank}"):
                found.add(tuple(json.loads(self._store.get(f"member {rank}"))))
        return tuple(sorted(found))


def join_rendezvous(address: str | None) -> Rendezvous | None:
    """A rendezvous of all ranks; None where this machine has all of them.

    Raises:
        ValueError: The job has several machines, and no store to find each other by.
        OSError: Rank 0 did not come in time.
    """
    rank, world_size = own_world()
    if world_size <= int(os.environ.get("LOCAL_WORLD_SIZE", "1")):
        return None
    return Rendezvous(_store(), rank, world_size, address)


def _store() -> Any:
    torch = load_torch()
    if torch is not None and torch.distributed.is_available():
        distributed = torch.distributed
        if distributed.is_initialized():
            return distributed.distributed_c10d._get_default_store()
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            with _in_time("the store of torchrun"):
                return distributed.TCPStore(host, port, None, False, _WAIT)
    raise ValueError(
        "a cache of several machines needs a store to find each other by: call "
        "torch.distributed.init_process_group() before, or start the job with torchrun"
    )


@contextlib.contextmanager
def _in_time(who: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise TimeoutError(
            f"the cache waited {_WAIT.seconds} s for {who}, which did not come; every rank must "
            f"make the same caches in the same order ({error})"
        ) from None


def own_address() -> str:
    """The address from which this machine reaches MASTER_ADDR; nothing is sent.

    Raises:
        ValueError: MASTER_ADDR is unset or unknown, or cannot be reached.
    """
    host = os.environ.get("MASTER_ADDR", "")
    try:
        own = _address_towards(host)
    except OSError as error:
        raise ValueError(
            f"cannot tell by MASTER_ADDR ({host!r}) where other machines reach this one ({error}); "
            "give the cache its address"
        ) from None
    if own.is_loopback and host != "localhost" and not _is_number(host):
        # Many systems give their own name such an address, which others cannot reach.
        with contextlib.suppress(OSError):
            own = _address_towards(_ELSEWHERE)
    return str(own)


def _address_towards(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    found = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(found[0], socket.SOCK_DGRAM) as probe:
        probe.connect(found[4])
        return ipaddress.ip_address(probe.getsockname()[0])


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
