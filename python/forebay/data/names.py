"""Joins samples with the files that lie beside them, by the names of both."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay import _core
from forebay.data.further_images import FurtherImages

# How many missing files a message names.
_NAMED = 3
# Patterns of names that are compared as they are.
_PLAIN = ("{}", "{}")


@dataclass(frozen=True)
class Names:
    """The names of a dataset's samples.

    Attributes:
        keys: The samples' keys [samples].
        paths: The paths of their files in the source, with suffixes [samples]; empty: the keys are
            enough.
    """

    keys: Sequence[str]
    paths: Sequence[str] = ()

    def samples_of(self, file_names: Sequence[str]) -> list[int]:
        """The number of each image's sample, -1 if there is none.

        Raises:
            ValueError: A name fits several samples, or several names fit the same sample.
        """
        names = _core.ImageNames(list(self.keys), list(self.paths))
        found: list[int] = names.match(list(file_names)).tolist()
        return found

    def take(self, kept: Sequence[int]) -> "Names":
        """The names of these samples, in this order."""
        return Names([self.keys[i] for i in kept], [self.paths[i] for i in kept if self.paths])


def names_of(dataset: Any) -> Names:
    """The names of a Dataset's samples.

    The paths of packed samples, which would have to be read, are left out if keys are enough.
    """
    keys = dataset.keys()
    paths = dataset.core.source_paths()
    if paths is None and "source_path" in dataset.columns and _core.may_be_twins(keys):
        paths = dataset.column("source_path").tolist()
    return Names(keys, paths or ())


def masks_by_name(own: Any, masks: Any, patterns: Sequence[str] | None) -> NDArray[np.int64]:
    """For each sample the number of its mask in another Dataset, whose other files are PNGs or not.

    Args:
        patterns: Dataset's `mask_names`.

    Raises:
        ValueError: Both are the same folder; names leave a choice; samples have no mask; or
            `patterns` are no patterns.
    """
    if _is_same(own.path, masks.path):
        raise ValueError(
            f"masks: {masks.path} is the folder of the images themselves, so its masks would be "
            "samples too; put the masks into a folder of their own"
        )
    names = names_of(masks)
    is_png = [path.lower().endswith(".png") for path in names.paths or [".png"] * len(masks)]
    pngs = np.flatnonzero(is_png)
    rule = "each must be a PNG with the name of its image, apart from the suffix"
    others = "; to use only some of the images, give a list of their files instead of the folder"
    if patterns is not None:
        image, mask = _checked(patterns)
        rule = f"the mask of an image {image} must be a PNG {mask} (mask_names)"
    found = _joined("masks", names_of(own), names.take(pngs.tolist()), patterns or _PLAIN)
    _check_all("masks", "mask", own, found, masks.path, rule + others)
    return pngs[found]


def images_by_name(own: Any, images: Any, field: str) -> FurtherImages:
    """The further images of the samples, which are in another Dataset.

    Raises:
        ValueError: Names leave a choice, or samples have no further image.
    """
    found = _joined("images", names_of(own), names_of(images), _PLAIN)
    rule = "each must have the name of its image, apart from the suffix"
    _check_all("images", repr(field), own, found, images.path, rule)
    return FurtherImages(images, found)


def _checked(patterns: Any) -> tuple[str, str]:
    is_pair = isinstance(patterns, Sequence) and not isinstance(patterns, str)
    if not is_pair or len(patterns) != 2 or not all(isinstance(one, str) for one in patterns):
        raise ValueError(
            f"mask_names is {patterns!r}, but must be a pair of patterns, for images and for masks:"
            ' ("{}_leftImg8bit", "{}_gtFine_labelIds")'
        )
    image, mask = patterns
    return image, mask


def _joined(argument: str, own: Names, other: Names, patterns: Sequence[str]) -> NDArray[np.int64]:
    try:
        found: NDArray[np.int64] = _core.samples_with_same_names(
            list(own.keys), list(own.paths), list(other.keys), list(other.paths), *patterns
        )
    except ValueError as error:
        raise ValueError(f"{argument}: {error}") from None
    return found


def _check_all(
    argument: str, what: str, own: Any, found: NDArray[np.int64], path: str, rule: str
) -> None:
    missing = np.flatnonzero(found < 0)
    if len(missing):
        named = ", ".join(own.key(number) for number in missing[:_NAMED])
        raise ValueError(
            f"{argument}: {path} has no {what} for {len(missing)} of {len(own)} images, such as "
            f"{named}; {rule}"
        )


def _is_same(one: str, other: str) -> bool:
    if "://" in one or "://" in other:
        return one.rstrip("/") == other.rstrip("/")
    return os.path.realpath(one) == os.path.realpath(other) and os.path.isdir(one)
