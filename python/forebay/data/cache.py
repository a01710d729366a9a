"""A job's cache, which its processes and machines hold together."""

import atexit
import os
import re
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from forebay import _core
from forebay.checks import whole
from forebay.data.cache_rendezvous import Machine, join_rendezvous
from forebay.data.sources import rooted

MEMORY = "memory"
_SHM = "/dev/shm"  # a tmpfs
_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_BINARY = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# folder, disk_bytes, memory_bytes, keep
_Arguments = tuple["str | os.PathLike[str] | None", int, int, bool]
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)


class Cache:
    """This machine's share of a cache that a job's processes hold, in memory and on a disk.

    The cache holds ranges of files that were asked for, as they are stored, and checks them
    whenever they are read. Processes of one machine that name the same folder share the cache: the
    first process holds it and serves it to the others; when that process ends or is killed, another
    one continues with the same data.

    Held ranges stay until the job ends. A shuffled epoch needs every byte once, so nothing better
    can be done than to keep what is held; only if crops are read, ranges that the next epoch does
    not need make room for ranges that it needs. Without `keep`, nothing is left when the last
    process ends. If all processes were killed, or if the last process of a launcher's job ended by
    an exception, their data stays on the disk. The next process that names the folder removes it,
    unless the launcher started the same job again: then that job continues with it.

    The machines of a job hold one cache together: each piece of a file is held by one of them,
    which serves it to the others. They find each other through the store of torch.distributed or of
    torchrun, so every rank must create the same caches in the same order. They talk by TLS, with
    keys from a secret that rank 0 makes, and notice by themselves when machines come and go.

    Args:
        folder: A folder on a fast disk of this machine. None: the cache uses memory alone.
        disk_bytes: How many bytes the folder may take: an int, or a text like "200GB" or "64GiB".
        memory_bytes: How many bytes of memory the cache may take; memory is used before the disk.
        keep: Whether the data on the disk stays after the job, for the next job that names the
            folder.
        address: The IP address at which the job's other machines reach this one. None: the address
            from which this machine reaches MASTER_ADDR. With `members`, it says which entry of the
            list is this machine, as its host or as the whole entry; None: the machine's own
            addresses tell.
        members: "HOST:PORT" of every machine that holds the cache, also of this one, for jobs
            without a launcher that lets them find each other; HOST is an IP address or a name, and
            IPv6 addresses have brackets. The list is the same on all machines.
            Nobody waits for machines that are not there; the others keep looking for them.
        secret: A text that all machines of the list know and nobody else does, of at least 16
            characters.

    Raises:
        ValueError: No size is given; memory_bytes is more than the free room in /dev/shm; the job
            has several machines, but no store through which they find each other; or the list or
            the secret is invalid.
        OSError: The folder cannot be made or written, or the other machines did not join in time.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        disk_bytes: int | str = 0,
        memory_bytes: int | str = 0,
        *,
        keep: bool = False,
        address: str | None = None,
        members: Sequence[str] | None = None,
        secret: str = "",
    ) -> None:
        disk, memory = (
            size_in_bytes("disk_bytes", disk_bytes),
            size_in_bytes("memory_bytes", memory_bytes),
        )
        if folder is None and disk:
            raise ValueError("disk_bytes needs a folder")
        if keep and not disk:
            raise ValueError("keep=True needs a folder and disk_bytes")
        if not disk + memory:
            raise ValueError('a cache needs a size: disk_bytes or memory_bytes, such as "200GB"')
        _check_memory(memory)
        if members is not None:
            listed = _check_members(members)
            self._open(
                (folder, disk, memory, bool(keep)), Machine(address or "", secret, listed=listed)
            )
            return
        if secret:
            raise ValueError("secret needs members; without members, rank 0 makes the secret")
        rendezvous = join_rendezvous(address)
        if rendezvous is None:
            self._open((folder, disk, memory, bool(keep)), Machine())
            return
        self._open(
            (folder, disk, memory, bool(keep)), Machine(rendezvous.address, rendezvous.secret)
        )
        self._join(replace(self._machine, members=rendezvous.members(self.core.machine)))

    def _open(self, arguments: _Arguments, machine: Machine) -> None:
        folder, disk, memory, keep = arguments
        if folder is None:
            beside = tempfile.gettempdir()
            held, prefix = _core.memory_location(_common(), beside)
            place = os.path.join(beside, os.path.basename(held))
        else:
            place, held, prefix = _core.cache_places(rooted(os.fsdecode(folder)))
        self._arguments = arguments
        self._process = os.getpid()
        self.core = _core.Cache.open(
            place,
            disk,
            held,
            prefix,
            memory,
            keep,
            _launcher_job(),
            machine.address,
            machine.secret,
            list(machine.listed),
        )
        self._machine = machine
        _alive.add(self)

    def _join(self, machine: Machine) -> None:
        self._machine = machine
        if machine.members:
            self.core.join([_core.Member(*member) for member in machine.members])

    def stats(self) -> dict[str, Any]:
        """What this process did with the cache so far, by name.

        "serves": whether this process holds the machine's share. "members": how many machines hold
        the cache together. "memory_held_bytes" and "disk_held_bytes": what the share holds now.
        "found_bytes": what earlier processes had left. "handed_over_bytes": bytes of this machine's
        share that other machines hold because this one is full. "refused_bytes": bytes that nothing
        had room to hold. "dropped_bytes": bytes that made room for bytes that are needed sooner.
        "damaged": held ranges that differed from what was written.

        Where this process's bytes came from: "memory_hit_bytes" and "disk_hit_bytes" from its own
        share, "peer_hit_bytes" from other processes, "origin_bytes" from the origin, also
        for others; "ahead_bytes" of these before anybody needed them. "peer_requests" and
        "peer_failures": requests to other processes, and how many of them failed. "served_requests"
        and "served_bytes": requests from other processes. "trouble": why the cache holds less than
        it may, or "".
        """
        if self._process != os.getpid():
            raise RuntimeError(
                "the cache was opened by another process, from which this one forked"
            )
        return self.core.stats()

    def describe(self) -> str:
        """Where this process's bytes came from, for a progress line; empty if it read none yet."""
        stats = self.stats()
        kinds = ("memory_hit_bytes", "disk_hit_bytes", "peer_hit_bytes", "origin_bytes")
        total = sum(stats[kind] for kind in kinds)
        if not total:
            return ""
        return "cache: " + ", ".join(
            f"{stats[kind] / total:.0%} {kind.split('_')[0]}" for kind in kinds if stats[kind]
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _copy, (self._arguments, self._machine)

    def __repr__(self) -> str:
        folder, disk, memory, keep = self._arguments
        return (
            f"forebay.Cache({folder!r}, disk_bytes={disk}, memory_bytes={memory}"
            f"{', keep=True' if keep else ''})"
        )


_lock = threading.Lock()
_opened: "weakref.WeakValueDictionary[tuple[Any, ...], Cache]" = weakref.WeakValueDictionary()

_alive: "weakref.WeakSet[Cache]" = weakref.WeakSet()


@atexit.register
def _stay_after_an_exception() -> None:
    """Keeps what caches hold after an exception.

    If a machine dies, the scripts on the others fail, and the launcher starts them again.
    """
    if hasattr(sys, "last_value") and _launcher_job():
        for cache in _alive:
            cache.core.stay()


def shared_cache(
    cache: Cache | str | os.PathLike[str] | None, size: int | str | None
) -> Cache | None:
    """The cache that a user names; within a process the same arguments give the same cache.

    Raises:
        ValueError: The cache and the size do not fit together, or Cache refuses them.
    """
    if cache is None or isinstance(cache, Cache):
        if size is not None:
            raise ValueError("cache_bytes needs cache=FOLDER or cache='memory'")
        return cache
    try:
        folder = os.fsdecode(cache)
    except TypeError:
        raise ValueError(f"cache is {cache!r}, but must be a folder, 'memory' or a Cache") from None
    if not folder:
        raise ValueError("cache is empty, but must be a folder, 'memory' or a Cache")
    if size is None:
        raise ValueError(f'cache={folder!r} needs cache_bytes, such as "200GB"')
    most = size_in_bytes("cache_bytes", size)
    arguments: _Arguments = (None, 0, most, False) if folder == MEMORY else (folder, most, 0, False)
    return _kept(arguments, lambda: Cache(*arguments[:3]))


def _kept(arguments: _Arguments, make: Callable[[], Cache]) -> Cache:
    folder, *rest = arguments
    key = (os.getpid(), folder and os.path.realpath(os.fsdecode(folder)), *rest)
    with _lock:
        found = _opened.get(key)
        if found is None:
            found = _opened[key] = make()
        return found


def _copy(arguments: _Arguments, machine: Machine) -> Cache:
    """This process's copy of a pickled cache. It needs no rendezvous: the members are known."""

    def make() -> Cache:
        cache = Cache.__new__(Cache)
        cache._open(arguments, machine)
        cache._join(machine)
        return cache

    return _kept(arguments, make)


def size_in_bytes(name: str, value: Any) -> int:
    """A number of bytes from an int or a text like "200GB" (10^9), "64GiB" (2^30) or "5000".

    Raises:
        ValueError: The value is neither, or negative.
    """
    if not isinstance(value, str):
        return whole(name, value, 0)
    found = _SIZE.fullmatch(value.strip())
    if found is None or (found[3] and not found[2]):
        raise ValueError(f'{name} is {value!r}, but must be a size, such as "200GB" or "64GiB"')
    units = _BINARY if found[3] else _UNITS
    return whole(name, round(float(found[1]) * units[found[2].upper()]), 0)


def _check_memory(memory: int) -> None:
    if not memory:
        return
    free = shutil.disk_usage(_SHM).free
    if memory > free:
        raise ValueError(
            f"memory_bytes is {memory}, but {_SHM} has room for {free}; in a container, raise "
            "--shm-size"
        )


def _check_members(members: Sequence[str]) -> tuple[str, ...]:
    listed = tuple(members)
    if isinstance(members, str) or not listed or not all(isinstance(one, str) for one in listed):
        raise ValueError(
            f"members is {members!r}, but must list each machine's HOST:PORT, such as "
            '["10.0.0.1:7400", "10.0.0.2:7400"]'
        )
    return listed


def _launcher_job() -> str:
    """The launcher's name of the job, which survives a restart of its processes; "" without one."""
    return os.environ.get("TORCHELASTIC_RUN_ID") or os.environ.get("SLURM_JOB_ID") or ""


def _common() -> str:
    """A text that all processes on this machine that share a cache in memory have in common."""
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID")
    found = [os.environ.get(name, "") for name in names]
    return "\0".join(found) if any(found) else f"pid {os.getpid()}"
