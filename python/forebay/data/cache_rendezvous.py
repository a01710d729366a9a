"""How the processes of a job tell each other at which addresses their machines serve a cache."""

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
from forebay.ranks import job_store, local_world_size, own_world

_WAIT = timedelta(seconds=120)
_LOOPBACK = "127.0.0.1"
_ELSEWHERE = "192.0.2.1"  # an address of RFC 5737 that no machine has
_numbers = itertools.count()  # numbers the rendezvous of this process


Member = tuple[str, str, int, int, int]  # id, host, port, room_bytes, incarnation


@dataclass(frozen=True, repr=False)
class Machine:
    """How this machine takes part in a cache; copies in other processes need it too."""

    address: str = _LOOPBACK
    secret: str = ""
    members: tuple[Member, ...] = ()
    # The machines' HOST:PORT if the user lists them; `address` then says which is this one.
    listed: tuple[str, ...] = ()


class Rendezvous:
    """A rendezvous of a job's ranks in the store of torch.distributed, or of torchrun.

    Every rank must create the same rendezvous in the same order.
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
        with _in_time("rank 0 did not join the cache"):
            self.secret: str = self._store.get("secret").decode()

    def members(self, machine: _core.Member) -> tuple[Member, ...]:
        """Tells the other ranks this machine's member; returns the members of all machines.

        Raises:
            OSError: Not all ranks joined in time.
        """
        own = (machine.id, machine.host, machine.port, machine.room_bytes, machine.incarnation)
        self._store.set(f"member {self._rank}", json.dumps(own))
        found = set()
        for rank in range(self._world_size):
            with _in_time(f"rank {rank} did not join the cache"):
                found.add(tuple(json.loads(self._store.get(f"member {rank}"))))
        return tuple(sorted(found))


def join_rendezvous(address: str | None) -> Rendezvous | None:
    """A rendezvous of all ranks; None if all ranks are on this machine.

    Raises:
        ValueError: The job has several machines, but no store through which they find each other;
            or RANK, WORLD_SIZE or LOCAL_WORLD_SIZE is invalid.
        OSError: Rank 0 did not join in time.
    """
    rank, world_size = own_world()
    if world_size <= local_world_size():
        return None
    return Rendezvous(_store(), rank, world_size, address)


def _store() -> Any:
    torch = load_torch()
    if torch is not None and torch.distributed.is_available():
        distributed = torch.distributed
        if distributed.is_initialized():
            return job_store()
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            with _in_time("torchrun's store did not answer"):
                return distributed.TCPStore(host, port, None, False, _WAIT)
    raise ValueError(
        "a cache of several machines needs a store through which they find each other: call "
        "torch.distributed.init_process_group() first, or start the job with torchrun"
    )


@contextlib.contextmanager
def _in_time(trouble: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise TimeoutError(
            f"{trouble} within {_WAIT.seconds} s; every rank must create the same caches in the "
            f"same order ({error})"
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
            f"cannot tell from MASTER_ADDR ({host!r}) at which address other machines reach this "
            f"one ({error}); give the cache its address"
        ) from None
    if own.is_loopback and host != "localhost" and not _is_number(host):
        # Many systems give their own name a loopback address, which others cannot reach.
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
