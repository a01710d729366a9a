"""Which process of a job this is, and how many threads it may have."""

import os
import sys

from forebay import _core
from forebay.checks import whole

_THREADS_MAX = 1024  # as the core's (base/limits.h)


def own_world() -> tuple[int, int]:
    """Rank and world size of torch.distributed, else of the environment (torchrun), else alone."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    if "RANK" not in os.environ:  # Lightning's processes have WORLD_SIZE alone until they meet
        return 0, 1
    rank, world_size = _from_environment("RANK", "0", 0), _from_environment("WORLD_SIZE", "1", 1)
    if rank >= world_size:
        raise ValueError(f"the environment's RANK is {rank}, its WORLD_SIZE {world_size}")
    return rank, world_size


def _from_environment(name: str, default: str, least: int) -> int:
    text = os.environ.get(name, default)
    if not text.isdecimal() or int(text) < least:
        raise ValueError(
            f"the environment's {name} is {text!r}, but must be a whole number, at least {least}"
        )
    return int(text)


def threads_of(num_workers: int | None) -> int:
    """Threads that decode, by Loader's num_workers."""
    if num_workers is not None and whole("num_workers", num_workers, 0, _THREADS_MAX):
        return int(num_workers)
    return max(1, _core.usable_cores() // _from_environment("LOCAL_WORLD_SIZE", "1", 1))
