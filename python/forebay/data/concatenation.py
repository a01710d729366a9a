"""Concatenations of datasets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay import _core
from forebay.data.annotations import Annotations, joined
from forebay.data.dataset import Dataset
from forebay.data.further_images import FurtherImages
from forebay.data.labels import Labels
from forebay.data.labels import joined as joined_labels


class _Concatenation(Dataset):
    """Several datasets, one after the other, as one dataset."""

    def __init__(self, parts: list[Dataset]) -> None:
        self.cache = next((part.cache for part in parts if part.cache is not None), None)
        self._parts = parts
        merges_classes = self.given_labels is None
        self.core = _core.Dataset.concat([part.core for part in parts], merges_classes)

    @cached_property
    def given_labels(self) -> Labels | None:
        known = [part.given_labels for part in self._parts]
        if all(one is None for one in known):
            return None
        return joined_labels(
            [
                Labels(part.targets, part.classes) if one is None else one
                for one, part in zip(known, self._parts, strict=True)
            ]
        )

    @cached_property
    def objects(self) -> Annotations | None:
        known = [part.objects for part in self._parts]
        if all(one is None for one in known):
            return None
        out = joined(known)
        maps = [one.maps for one in known if one is not None and one.maps is not None]
        return replace(out, maps=_Concatenation(maps)) if maps else out

    @cached_property
    def further_images(self) -> Mapping[str, FurtherImages]:
        """The further images that all parts have."""
        first, *others = (part.further_images for part in self._parts)
        return {
            name: _joined([first[name], *(other[name] for other in others)])
            for name in first
            if all(name in other for other in others)
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return _Concatenation, (self._parts,), {"_weights": self.weights}

    @cached_property
    def columns(self) -> list[str]:
        first, *others = (part.columns for part in self._parts)
        return [name for name in first if all(name in other for other in others)]

    def _read_columns(self, name: str) -> Mapping[str, NDArray[Any]]:
        if name in ("index", "label"):
            return super()._read_columns(name)
        if self.given_labels is not None:
            return {name: np.concatenate([part.column(name) for part in self._parts])}
        ends = np.cumsum([len(part) for part in self._parts])[:-1]
        labels = np.split(self.targets, ends)  # the parts may number the classes differently
        columns = [
            own if name == part.core.class_field else part.column(name)
            for part, own in zip(self._parts, labels, strict=True)
        ]
        return {name: np.concatenate(columns)}


def _joined(parts: list[FurtherImages]) -> FurtherImages:
    """The further images of several datasets, one after the other."""
    firsts = np.cumsum([0, *(len(part.images) for part in parts)])
    numbers = [first + part.numbers for first, part in zip(firsts, parts, strict=False)]
    return FurtherImages(_Concatenation([part.images for part in parts]), np.concatenate(numbers))


def concat(datasets: Iterable[Dataset], weights: Sequence[float] | None = None) -> Dataset:
    """One dataset made of several, one after the other; nothing is copied.

    Its classes are the classes of all datasets; classes with the same name become one. Its columns
    are those that all of the datasets have.

    Args:
        datasets: At least one dataset.
        weights: How often a Loader that shuffles draws from each dataset, in any proportion and
            whatever the datasets' sizes: `concat([photos, drawings], weights=[3, 1])` gives one
            drawing for three photos (see Dataset.weighted). None: each sample comes once.

    Raises:
        ValueError: There is no dataset; the number of weights is not that of the datasets; one
            dataset has names of classes and another one only numbers; or the datasets have labels
            of different kinds.
    """
    if isinstance(datasets, Dataset):
        raise ValueError(f"concat: {datasets!r} is one dataset; give a list of datasets")
    parts = list(datasets)
    if not parts:
        raise ValueError("concat: no datasets")
    for part in parts:
        if not isinstance(part, Dataset):
            raise ValueError(f"concat: {part!r} is not a Dataset; forebay.Dataset(path) opens one")
    both = _Concatenation(parts)
    if weights is None:
        if any(part.weights is not None for part in parts):
            raise ValueError("concat: one of the datasets has weights; give weights for all")
        return both
    try:
        weights = [float(weight) for weight in weights]
    except (TypeError, ValueError):
        raise ValueError(f"concat: weights are {weights!r}, but must be numbers") from None
    if len(weights) != len(parts):
        raise ValueError(f"concat: {len(weights)} weights for {len(parts)} datasets")
    shares = []
    for place, (part, weight) in enumerate(zip(parts, weights, strict=True)):
        own = np.ones(len(part)) if part.weights is None else part.weights
        if len(part) and not own.any():
            raise ValueError(f"concat: all samples of dataset {place} have the weight 0")
        shares.append(own * (weight / own.sum()) if len(part) else own)
    return both.weighted(np.concatenate(shares))
