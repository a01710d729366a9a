"""A job's cache: what its processes and machines hold of their data together."""

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

MEMORY = "memory"
_SHM = "/dev/shm"  # a tmpfs
_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_BINARY = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# folder, disk_bytes, memory_bytes, keep
_Arguments = tuple["str | os.PathLike[str] | None", int, int, bool]
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)


class Cache:
    """This machine's share of what a job's processes hold of its data, in memory and on a disk.

    Ranges of files that somebody asked for are held, as they are stored, and checked when they are
    read. Processes of one machine that name the same folder share it: the first one holds it and
    serves it to the others, and when it ends or is killed, another one goes on with what is held.

    What is held stays until the job ends: in a shuffled epoch every byte is needed once, so that
    nothing better can be done than to keep what is there. Only of crops, what the next epoch does
    not need makes room for what it needs. Without `keep`, nothing is left when the last process
    ends. When all were killed, or the last of a launcher's job ended by an exception, the next one
    that names the folder removes what they left on the disk, unless it is of the same job, which
    the launcher started again.

    Machines of a job hold one cache together: each piece of a file is held by one of them, which
    serves it to the others. They find each other through the store of torch.distributed or of
    torchrun, so every rank must make the same caches in the same order. What they say to each other goes by
    TLS, with keys from a secret that rank 0 makes. They notice by themselves who comes and goes.

    Args:
        folder: A folder on a fast disk of this machine. None: what is held is in memory alone.
        disk_bytes: How many bytes the folder may take: an int, or a text like "200GB" or "64GiB".
        memory_bytes: How many bytes of memory are used, before the disk is.
        keep: Whether what is on the disk stays when the job ends, for the next job that names the
            folder.
        address: Where the job's other machines reach this one, as a number. None: the address from
            which this machine reaches MASTER_ADDR. With `members`, it says which of them this
            machine is, as its address or as it stands in the list; None: its addresses tell.
        members: "ADDRESS:PORT" of every machine that holds the cache, this one too, where no
            launcher lets them find each other; the same list on all of them. Those that are not
            there are looked for, and nobody waits for them.
        secret: What all machines of the list know and nobody else does: at least 16 characters.

    Raises:
        ValueError: No size is given, or more memory than the system gives to /dev/shm; or the job
            has several machines, and no store by which they find each other; or the list or the
            secret makes no sense.
        OSError: The folder cannot be made or written; the other machines did not come in time.
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
            raise ValueError("disk_bytes goes with a folder")
        if keep and not disk:
            raise ValueError("keep=True goes with a folder and disk_bytes")
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
            raise ValueError("a secret goes with members; without them rank 0 makes one")
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
            held, prefix = _core.memory_location(_common())
            place = os.path.join(tempfile.gettempdir(), os.path.basename(held))
        else:
            place, held, prefix = _core.cache_places(os.path.join(os.getcwd(), os.fsdecode(folder)))
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

        "serves": whether this process holds the machine's share; "members": how many machines hold
        the cache together; "memory_held_bytes" and "disk_held_bytes"; "found_bytes": what earlier
        processes had left; "handed_over_bytes": of this machine's share, held by others because it
        had no room; "refused_bytes": not held, because nothing had room; "dropped_bytes": not held
        any more, to make room for what is needed sooner; "damaged": ranges that were not what was
        written. Where this process had its bytes from: "memory_hit_bytes" and "disk_hit_bytes" of
        its own share, "peer_hit_bytes" from other processes, "origin_bytes" from where the data
        lies, also for others, of which "ahead_bytes" before anybody needed them. "peer_requests"
        and "peer_failures"; "served_requests" and "served_bytes": to other processes; "trouble":
        why less is held than may be, or "".
        """
        if self._process != os.getpid():
            raise RuntimeError(
                "the cache was opened by another process, from which this one forked"
            )
        return self.core.stats()

    def describe(self) -> str:
        """Where this process had its bytes from, for a progress line; empty before it had any."""
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
    """When a machine dies, the scripts of the others fail, and the launcher starts them again."""
    if hasattr(sys, "last_value") and _launcher_job():
        for cache in _alive:
            cache.core.stay()


def shared_cache(
    cache: Cache | str | os.PathLike[str] | None, size: int | str | None
) -> Cache | None:
    """The cache that a user names; the same one for the same names in one process.

    Raises:
        ValueError: The cache and the size do not go together; those of Cache.
    """
    if cache is None or isinstance(cache, Cache):
        if size is not None:
            raise ValueError("cache_bytes goes with a folder, or with cache='memory'")
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
    """The cache that a pickled one was, in this process: the others have met already."""

    def make() -> Cache:
        cache = Cache.__new__(Cache)
        cache._open(arguments, machine)
        cache._join(machine)
        return cache

    return _kept(arguments, make)


def size_in_bytes(name: str, value: Any) -> int:
    """A number of bytes from an int or a text like "200GB" (10^9), "64GiB" (2^30) or "5000".

    Raises:
        ValueError: It is neither, or negative.
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
            f"members is {members!r}, but must be a list of each machine's place, such as "
            '["10.0.0.1:7400", "10.0.0.2:7400"]'
        )
    return listed


def _launcher_job() -> str:
    """The launcher's name of the job, which stays when it starts the processes again; or ""."""
    return os.environ.get("TORCHELASTIC_RUN_ID") or os.environ.get("SLURM_JOB_ID") or ""


def _common() -> str:
    """What the processes of a machine that share a cache in memory have in common."""
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID")
    found = [os.environ.get(name, "") for name in names]
    return "\0".join(found) if any(found) else f"pid {os.getpid()}"
