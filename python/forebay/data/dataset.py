"""Datasets: packed by `forebay pack`, images in place, and selections of other datasets."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forebay import _core
from forebay.data.annotations import MOVING, Annotations, adjusted, check_adjustments
from forebay.data.cache import Cache, shared_cache
from forebay.data.coco import read_coco, read_packed
from forebay.data.decoding import Pixels, decode
from forebay.data.fixed_attributes import FixedAttributes
from forebay.data.further_images import FurtherImages, check_names
from forebay.data.image_files import read_pairs
from forebay.data.labelling import DatasetLabelling, Described, metadata_of
from forebay.data.labels import Labels, renumbered
from forebay.data.names import images_by_name, masks_by_name, names_of
from forebay.data.palette import Palette, check_palette
from forebay.data.selecting import DatasetSelecting
from forebay.data.sources import absolute, with_hint, without_secrets
from forebay.data.storage import flat, index_cache_folder
from forebay.data.yolo import read_yolo


class Dataset(FixedAttributes, DatasetLabelling, DatasetSelecting):
    """Samples by number: of a packed dataset, a folder of images by class, or tar shards.

    The samples of a packed dataset are in storage order. The samples of a folder are in the order
    of torchvision's ImageFolder; an empty class keeps its number. The samples of shards are in the
    order of the shards' members, with the classes of their .cls files, or else of the folders
    inside the shards. If several shards have the same key, all samples are named by shard and key:
    "shard-000/000000". Folders and shards are used in place: their files are read when they are
    needed, and each opening lists them again, unless `forebay index` has stored the list. A
    UserWarning says if a stored list is out of date, and what is left out. Data in place has
    checksums only after `forebay index --checksums`.

    `dataset[i]` is a pair of an image (uint8 RGB [height, width, 3]) and its class number (-1:
    none), the same as torchvision's ImageFolder gives without a transform; or its other label
    (`with_labels`). A slice gives a list of such pairs.

    A file metadata.csv or metadata.jsonl in a folder in place gives labels and columns by its
    column "file_name", like Hugging Face's (docs/labels.md).

    Args:
        path: The folder of a packed dataset; a folder with a subfolder of images for each class; a
            folder of .tar shards, one shard, or a range of shards like "train-{000..146}.tar". Or a
            URL of such data that begins with s3://, gs://, https://, http:// or file://
            (docs/remote.md). Or a list of pairs (path, label) of image files on this machine, with
            labels like those of `with_labels`, or of paths alone (docs/labels.md).
        storage_options: A dict of options with the names that fsspec uses. For s3:// and gs://
            these are "key", "secret", "endpoint_url", "requester_pays" and others; for web servers
            "verify" and the options for time limits (docs/remote.md has the table). None: the
            environment's. The object keeps the options, also when it is pickled, but no saved state
            contains them.
        index_cache: For a URL: the folder on this machine that keeps metadata that never changes,
            such as the chunks' indexes, so that the next process need not read it again. "off":
            nothing is kept. None: FOREBAY_INDEX_CACHE, else ~/.cache/forebay (docs/remote.md).
        cache: A Cache that holds the bytes that are read of the samples' files; or a folder on this
            machine's disk, or "memory", in which a cache is made. Processes and Loaders that give
            the same value share one cache (docs/cache.md). None: no cache.
        cache_bytes: How many bytes the cache may take in the folder or in memory: an int, or a text
            like "200GB" or "64GiB".
        annotations: A JSON file on this machine with annotations in COCO's format: boxes, labels,
            outlines, keypoints, captions; or a folder with YOLO's text files: boxes, labels,
            outlines (docs/targets.md). None: the annotations that were packed with the images, if
            there are any.
        masks: The images' masks, each a map of labels in a PNG with the key of its image: another
            Dataset, or the path of one. None: the masks that were packed with the images, if there
            are any.
        images: Further images of the samples, by the names of their fields in batches: {"right":
            "stereo/right"}. Each is given like `masks`, and has the key and the size of the
            sample's own image. A Loader's random draws for a sample are the same for all of its
            images (docs/targets.md).
        classes: The names of the classes in the order of their numbers, such as another dataset's
            `classes`, so that both have the same numbers; or a mapping from names to numbers, such
            as its `class_to_idx`. None: the order that the data has.
        keypoint_pairs: Keypoints that change places in mirrored images, such as the left and the
            right eye: pairs of their numbers, counted from 0. None: the keypoints whose names in
            the annotations' categories differ in "left" and "right" only; []: none.
        annotations_as: Which image the annotations and masks were drawn on: "stored", or "shown" as
            the image's orientation tag says, which needs Loader's orientation="apply". None: the
            size that they say tells, and if it fits both, they were drawn on the stored image.
        mask_names: Patterns of the names of images and of their masks, if they differ: a pair such
            as ("{}_leftImg8bit", "{}_gtFine_labelIds"). {} stands for the part that both names
            share, and other files beside the masks do not matter. None: both names are the same,
            apart from their suffixes.
        palette: The class numbers of the colours in the masks, 0 to 255: a mapping such as
            {(128, 0, 0): 1, (0, 0, 128): 2, None: 255}, in which None stands for all other colours;
            or a list of colours in the order of their numbers. Without None another colour makes
            its sample a bad sample. None: masks have numbers, not colours (docs/targets.md).
        category_names: The names of the objects' classes in YOLO's text files: a list in the order
            of their numbers, or a mapping from numbers to names, as `names` in data.yaml. A number
            without a name is then an error. None: the classes have numbers alone.

    Raises:
        FileNotFoundError: The path does not exist.
        ValueError: The path is neither a packed dataset, nor a folder with folders of images, nor
            shards with images; samples have no mask or further image, or `palette` is given
            without masks; or a sample's class is not among `classes`.
        DataError: The dataset is damaged (`forebay verify` says where), or a shard is damaged; the
            message names it.
    """

    # `keypoint_pairs` and `annotations_as`.
    _adjusting: tuple[Sequence[Sequence[int]] | None, str | None] = (None, None)
    # Given at opening: annotations; the masks' dataset, and each sample's number there.
    _given: Annotations | None = None
    _masks: "Dataset | None" = None
    _mask_of: NDArray[np.int64] | None = None
    _palette: Palette | None = None
    _classes_are_given = False
    # Given at opening as `images`.
    _given_images: Mapping[str, FurtherImages] | None = None

    def __init__(
        self,
        path: str | os.PathLike[str] | Sequence[Any],
        storage_options: Mapping[str, Any] | None = None,
        index_cache: str | os.PathLike[str] | None = None,
        cache: Cache | str | os.PathLike[str] | None = None,
        cache_bytes: int | str | None = None,
        annotations: str | os.PathLike[str] | None = None,
        masks: "Dataset | str | os.PathLike[str] | None" = None,
        images: "Mapping[str, Dataset | str | os.PathLike[str]] | None" = None,
        classes: Sequence[str] | Mapping[str, int] | None = None,
        keypoint_pairs: Sequence[Sequence[int]] | None = None,
        annotations_as: str | None = None,
        mask_names: Sequence[str] | None = None,
        palette: Mapping[Any, int] | ArrayLike | None = None,
        category_names: Sequence[str] | Mapping[int, str] | None = None,
    ) -> None:
        pairs, folder = flat(storage_options), index_cache_folder(index_cache)
        # A copy in another process, perhaps with another working directory, is opened with these.
        self._storage_options, self._index_cache = dict(pairs) or None, folder or None
        self.cache = shared_cache(cache, cache_bytes)
        core = None if self.cache is None else self.cache.core
        self._opened: str | list[str]
        if isinstance(path, (list, tuple)):
            if pairs:
                raise ValueError("storage_options: a list has only files on this machine")
            self._opened, self._labels = read_pairs(path)
            self.core = _core.Dataset.open_files(self._opened, core)
        else:
            self._opened = absolute(path)
            try:
                self.core = _core.Dataset.open(self._opened, pairs, folder, core)
            except FileNotFoundError as error:
                raise with_hint(self._opened, error) from None
            if not self.core.has_indexes:
                self._take_metadata(self._opened)
        if classes is not None:
            self._renumber(classes)
        check_adjustments(keypoint_pairs, annotations_as)
        self._adjusting = (keypoint_pairs, annotations_as)
        is_yolo = annotations is not None and os.path.isdir(os.path.expanduser(annotations))
        if annotations is not None and is_yolo:
            self._given = read_yolo(annotations, names_of(self), category_names)
        elif category_names is not None:
            raise ValueError("category_names: there is no folder with YOLO's files as annotations")
        elif annotations is not None:
            self._given = read_coco(annotations, names_of(self))
        if masks is not None:
            self._masks = masks if isinstance(masks, Dataset) else Dataset(masks, storage_options)
            self._mask_of = masks_by_name(self, self._masks, mask_names)
        elif mask_names is not None:
            raise ValueError("mask_names: there are no masks; give their place as masks")
        if palette is not None:
            self._palette = check_palette(palette)
            if self._masks is None and not self.core.has_masks:
                raise ValueError(
                    "palette: there are no masks; give the place of the masks as masks"
                )
        if images is not None:
            check_names(images, ("image", "file", *MOVING, *self.columns))
            self._given_images = {
                name: images_by_name(
                    self, one if isinstance(one, Dataset) else Dataset(one, storage_options), name
                )
                for name, one in images.items()
            }

    @overload
    def __getitem__(self, index: int) -> tuple[Pixels, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[Pixels, Any]]: ...
    def __getitem__(self, index: int | slice) -> tuple[Pixels, Any] | list[tuple[Pixels, Any]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = self._number(index)
        label = self.targets[number]
        return decode(self.core.read(number)), label.copy() if label.ndim else label.item()

    def __iter__(self) -> Iterator[tuple[Pixels, Any]]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        drawn = "" if self.weights is None else ", drawn by weights"
        counts = f"{len(self)} samples, {len(self.classes)} classes{drawn}"
        return f"forebay.Dataset({without_secrets(self.path)!r}): {counts}"

    def __reduce__(self) -> tuple[Any, ...]:
        opened = (self._opened, self._storage_options, self._index_cache, self.cache)
        kept = [
            "_given",
            "_masks",
            "_mask_of",
            "_palette",
            "_given_images",
            "_adjusting",
            "objects",
        ]
        if isinstance(self._opened, list) or self._classes_are_given:
            kept += ["_labels", "_classes_are_given"]
        return Dataset, opened, {k: v for k, v in self.__dict__.items() if k in kept}

    @cached_property
    def objects(self) -> Annotations | None:
        """The samples' targets: boxes, outlines, keypoints, captions, masks; None: there are none.

        Targets that were packed with the images are read at the first use.

        Raises:
            ValueError: Packed annotations are invalid, or `keypoint_pairs` do not suit them.
        """
        known = self._given
        if known is None and self.core.has_annotations:
            known = read_packed(self.core.annotations(), self.path)
        masks, mask_of = self._masks, self._mask_of
        if masks is None and self.core.has_masks:
            masks, mask_of = _Packed(self), np.arange(len(self))
        if masks is not None:
            known = known or Annotations(np.zeros(len(self), np.int64))
            known = replace(known, maps=masks, map_of=mask_of, palette=self._palette)
        return None if known is None else adjusted(known, *self._adjusting)

    @cached_property
    def further_images(self) -> Mapping[str, FurtherImages]:
        """The samples' further images by name: given at opening, or packed with the samples."""
        packed = {name: _Packed(self, name) for name in self.core.image_fields}
        numbers = np.arange(len(self) if packed else 0)
        found = {name: FurtherImages(images, numbers) for name, images in packed.items()}
        return found | dict(self._given_images or {})

    def read(self, index: int) -> bytes:
        """The bytes of a sample's image file, compared with their checksum if there is one."""
        return self.core.read(self._number(index))

    def _selected(self, numbers: NDArray[np.int64]) -> "Dataset":
        return _Selection(self, numbers)

    def _renumber(self, classes: Sequence[str] | Mapping[str, int]) -> None:
        """Gives the classes the numbers that they have in `classes`."""
        own = Labels(self.targets, self.classes)
        made = renumbered(own, classes)
        self._classes_are_given = made is not own
        if self._classes_are_given:
            self._labels = made
        for cached in ("given_labels", "targets", "classes", "columns", "_kept_columns"):
            self.__dict__.pop(cached, None)

    def _described(self, made: Described) -> "Dataset":
        base = self if made.kept is None else _Selection(self, made.kept)
        return _Described(base, made.labels, made.columns)

    def _take_metadata(self, path: str) -> None:
        """Takes labels and columns from the metadata file in a folder of images, if it has one."""
        made = metadata_of(self, path)
        if made is None:
            return
        if made.kept is not None:
            self.__dict__["core"] = self.core.select(made.kept.astype(np.uint64))
        for cached in ("columns", "_kept_columns", "_names"):
            self.__dict__.pop(cached, None)
        self._labels, self._given_columns = made.labels, made.columns


class _Selection(Dataset):
    """Samples of another dataset."""

    def __init__(self, base: Dataset, numbers: NDArray[np.int64]) -> None:
        self.cache = base.cache
        self.core = base.core.select(numbers.astype(np.uint64))
        self._base = base
        self._numbers = numbers
        if base.weights is not None:
            self._weights = base.weights[numbers]

    @cached_property
    def given_labels(self) -> Labels | None:
        known = self._base.given_labels
        return None if known is None else known.take(self._numbers)

    @cached_property
    def objects(self) -> Annotations | None:
        known = self._base.objects
        return None if known is None else known.take(self._numbers)

    @cached_property
    def further_images(self) -> Mapping[str, FurtherImages]:
        known = self._base.further_images
        return {name: one.take(self._numbers) for name, one in known.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return _Selection, (self._base, self._numbers), {"_weights": self.weights}

    @cached_property
    def columns(self) -> list[str]:
        return self._base.columns

    def _read_columns(self, name: str) -> Mapping[str, NDArray[Any]]:
        if name == "index":
            return super()._read_columns(name)
        return {name: self._base.column(name)[self._numbers]}


class _Described(Dataset):
    """All samples of another dataset, with labels or columns that a user gave."""

    def __init__(
        self, base: Dataset, labels: Labels | None, columns: Mapping[str, NDArray[Any]]
    ) -> None:
        self.cache, self.core, self._weights = base.cache, base.core, base._weights
        self._base, self._labels, self._given_columns = base, labels, columns

    @cached_property
    def given_labels(self) -> Labels | None:
        return self._base.given_labels if self._labels is None else self._labels

    @property
    def objects(self) -> Annotations | None:
        return self._base.objects

    @property
    def further_images(self) -> Mapping[str, FurtherImages]:
        return self._base.further_images

    def __reduce__(self) -> tuple[Any, ...]:
        return _Described, (self._base, self._labels, self._given_columns)

    @cached_property
    def columns(self) -> list[str]:
        return list(dict.fromkeys([*self._base.columns, *self._given_columns]))

    def _read_columns(self, name: str) -> Mapping[str, NDArray[Any]]:
        return {name: self.targets if name == "label" else self._base.column(name)}


class _Packed(Dataset):
    """The images in a field of a packed dataset's samples; field None: their masks."""

    def __init__(self, base: Dataset, field: str | None = None) -> None:
        self.cache = base.cache
        self.core = base.core.masks() if field is None else base.core.field_images(field)
        self._base, self._field = base, field

    def __reduce__(self) -> tuple[Any, ...]:
        return _Packed, (self._base, self._field)


def without_labels(dataset: Dataset) -> str | None:
    """Returns the warning for a Loader that asks for labels if no sample has one; else None."""
    if len(dataset) == 0 or dataset.given_labels is not None or dataset.core.has_labels:
        return None
    return (
        f"{dataset.path}: no sample has a class, so every label is -1. Classes come from the "
        "samples' .cls files, or, without these, from folders: each image in the folder of "
        "its class, also inside tar shards (docs/data.md); or with_labels(table) takes them from a "
        "table (docs/labels.md). "
        'Loader(…, fields=["image"]) asks for no labels'
    )
