"""Attributes of a Dataset that cannot be set, because no Loader would follow them.

A Loader reads labels, classes and images from the core. Assigning to an attribute here would change
what Python shows, and no batch.
"""

from functools import cached_property
from typing import Any

_LABELS = (
    "Dataset.with_labels(table, classes=None) gives a dataset with other labels, and "
    "forebay.Dataset(path, classes=…) with other numbers of the classes"
)
_FILES = "give forebay.Dataset the path of other data, or choose samples with subset or filter"
# What to do instead of setting an attribute; also for attributes of torchvision's datasets, which
# code that was written for these sets.
_INSTEAD = {
    **dict.fromkeys(("targets", "labels", "classes", "class_to_idx"), _LABELS),
    **dict.fromkeys(("samples", "imgs", "data", "root"), f"{_FILES}; {_LABELS}"),
    "indices": "Dataset.subset(indices) gives a dataset of other samples",
    "weights": "Dataset.weighted(weights) gives a dataset with other weights",
    "transform": "give the Loader transform=…",
    "transforms": "give the Loader transform=…, which also moves boxes and masks",
    "target_transform": "give the Loader target_transform=…",
    "loader": "Forebay decodes images itself; give the Loader transform=… with a function of yours",
    "objects": "open it with forebay.Dataset(path, annotations=…, masks=…)",
    "further_images": "open it with forebay.Dataset(path, images=…)",
    "cache": "open it with forebay.Dataset(path, cache=…)",
    "columns": "Dataset.with_column(name, table) gives a dataset with one more column",
}
# Attributes that a dataset sets itself, once.
_SET_ONCE = ("core", "cache")


class FixedAttributes:
    """A base for Datasets: attributes that a Loader does not follow cannot be set."""

    def __setattr__(self, name: str, value: Any) -> None:
        is_first = name in _SET_ONCE and name not in self.__dict__
        if not is_first and (name in _INSTEAD or name in _SET_ONCE or _is_computed(self, name)):
            instead = _INSTEAD.get(name, "open another forebay.Dataset")
            raise AttributeError(
                f"Dataset: {name} cannot be set, because no Loader would follow it: {instead}"
            )
        super().__setattr__(name, value)


def _is_computed(one: object, name: str) -> bool:
    """Whether one of Forebay's own classes computes the attribute."""
    own = (kind for kind in type(one).__mro__ if kind.__module__.startswith("forebay."))
    return any(isinstance(vars(kind).get(name), property | cached_property) for kind in own)
