"""Arguments that DataLoader has and that mean nothing here."""

import warnings
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


def tell_unused(**arguments: Any) -> None:
    """Warns of each that is given, once in this process."""
    for name, value in arguments.items():
        if value and name not in _told:
            _told.add(name)
            warnings.warn(f"forebay.Loader: {name} is not used: {_WHY[name]}", stacklevel=3)
