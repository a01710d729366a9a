"""Arguments of torch.utils.data.DataLoader that have no effect in a Loader."""

from collections.abc import Mapping
from typing import Any

_WHY = {
    "worker_init_fn": "there are no worker processes to prepare; a function of yours that takes "
    "`generator` or `rng` gets random numbers of its own",
    "persistent_workers": "threads stay from epoch to epoch anyway",
    "multiprocessing_context": "there are no worker processes to start",
    "pin_memory_device": "batches are pinned for the device that `device` names, else the current "
    "one",
    "in_order": "batches always come in order",
}
_told: set[str] = set()


def unused(arguments: Mapping[str, Any]) -> list[str]:
    """Messages about arguments without effect that a Loader got, each once in this process."""
    given = {name: arguments[name] for name in _WHY} | {"in_order": not arguments["in_order"]}
    new = [name for name, value in given.items() if value and name not in _told]
    _told.update(new)
    return [f"forebay.Loader: {name} is not used: {_WHY[name]}" for name in new]
