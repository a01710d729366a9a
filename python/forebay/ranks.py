"""Which process of a job this is, and how many threads it may use."""

import os
from typing import Any

from forebay import _core
from forebay.checks import whole
from forebay.pytorch import load_torch


def check_world(rank: int | None, world_size: int | None) -> tuple[int, int] | None:
    """The rank and world size that a Loader's user gave; None: neither (own_world() tells them).

    Raises:
        ValueError: Only one of them is given, or one is out of range.
    """
    if (rank is None) != (world_size is None):
        raise ValueError(
            f"rank is {rank}, world_size is {world_size}: give both, or neither to "
            "use those of torch.distributed"
        )
    if rank is None or world_size is None:
        return None
    world_size = whole("world_size", world_size, 1, _core.WORLD_SIZE_MAX)
    return whole("rank", rank, 0, world_size - 1), world_size


def own_world() -> tuple[int, int]:
    """Rank and world size of torch.distributed, else of the environment (torchrun), else (0, 1).

    Raises:
        ValueError: The environment's RANK or WORLD_SIZE is invalid.
    """
    torch = load_torch()
    if torch is not None and torch.distributed.is_available():
        distributed = torch.distributed
        if distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
    if "RANK" not in os.environ:  # Lightning sets only WORLD_SIZE at first
        return 0, 1
    rank, world_size = _from_environment("RANK", "0", 0), _from_environment("WORLD_SIZE", "1", 1)
    if rank >= world_size:
        raise ValueError(
            f"the environment's RANK is {rank}, but must be below its WORLD_SIZE, {world_size}"
        )
    return rank, world_size


def local_world_size() -> int:
    """How many processes of the job run on this machine, as the launcher says; 1 without one.

    Raises:
        ValueError: The environment's LOCAL_WORLD_SIZE is invalid.
    """
    return _from_environment("LOCAL_WORLD_SIZE", "1", 1)


def job_store() -> Any:
    """The store through which the ranks of torch.distributed found each other.

    torch.distributed must be initialized. PyTorch has only a private name for this store.
    """
    return load_torch().distributed.distributed_c10d._get_default_store()


def _from_environment(name: str, default: str, least: int) -> int:
    text = os.environ.get(name, default)
    if not text.isdecimal() or int(text) < least:
        raise ValueError(
            f"the environment's {name} is {text!r}, but must be a whole number, at least {least}"
        )
    return int(text)


def threads_of(num_workers: int | None) -> int:
    """Returns how many threads decode for Loader's num_workers, at least 1."""
    if num_workers is not None and whole("num_workers", num_workers, 0, _core.THREADS_MAX):
        return int(num_workers)
    return max(1, _core.usable_cores() // local_world_size())
