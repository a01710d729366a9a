"""The annotations of a dataset's samples: boxes, keypoints, outlines, captions and masks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay import _core
from forebay.data.palette import Palette

# The fields of a batch with a value for each object of a sample.
OF_ANNOTATIONS = ("boxes", "labels", "area", "iscrowd", "keypoints", "visibility", "masks")
# All fields that move with an image, or that come from the same annotations.
MOVING = (*OF_ANNOTATIONS, "image_id", "captions", "mask", "target")


_DRAWN_ON = {
    None: _core.DrawnOn.BY_SIZE,
    "stored": _core.DrawnOn.STORED,
    "shown": _core.DrawnOn.SHOWN,
}


@dataclass(frozen=True)
class Outlines:
    """Polygons and run-lengths of objects, in the core's numbers (src/feed/batch/targets.h).

    Attributes:
        parts: How many parts each object has [objects].
        lengths: How many numbers each part has [parts].
        is_runs: 1 if a part is run-lengths, 0 if it is a polygon [parts].
        numbers: The numbers of all parts; as float64 the corners' places in fractions of the
            image's width and height, x and y in turn.
    """

    parts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    is_runs: NDArray[np.uint8]
    numbers: NDArray[Any]

    def take(self, objects: NDArray[np.int64]) -> "Outlines":
        """The outlines of these objects, in this order."""
        parts = _ranges(_firsts(self.parts), objects)
        numbers = _ranges(_firsts(self.lengths), parts)
        return Outlines(
            self.parts[objects], self.lengths[parts], self.is_runs[parts], self.numbers[numbers]
        )

    def core(self) -> Any:
        """The same outlines for the core."""
        are_fractions = self.numbers.dtype == np.float64
        return _core.Outlines(
            _firsts(self.parts).astype(np.uint64), _firsts(self.lengths).astype(np.uint64),
            self.is_runs, np.zeros(0, np.int32) if are_fractions else self.numbers,
            self.numbers if are_fractions else np.zeros(0, np.float64),
        )  # fmt: skip


@dataclass(frozen=True)
class Annotations:
    """Annotations of all samples of a dataset, in its order.

    Attributes:
        counts: How many objects each sample has [samples].
        boxes: Left, top, right and bottom in pixels of the image, float32 [objects, 4].
        are_fractions: Whether boxes, outlines and "area" are fractions of the image's width, height
            and pixels instead. The core makes pixels of them when it knows the image's size.
        columns: Further values of each object by name: "labels", "area", "iscrowd" [objects].
        keypoints: x and y in pixels of the image, and COCO's visibility, 0 to 2, float32 [objects,
            points, 3]; or None.
        pairs: Keypoints that change places in a mirrored image, such as the left and the right eye,
            [pairs, 2]: their numbers, below `points`.
        outlines: The objects' outlines, from which masks are made; or None.
        image_ids: The images' ids in the annotations, -1 for a sample without one [samples]; or
            None.
        sizes: (width, height) of each annotated image, 0 if unknown, uint32 [samples, 2]; or None.
        drawn_on: Which image the annotations and masks were drawn on: "stored", or "shown" as its
            orientation tag says; None: their sizes tell.
        captions: The texts of each sample; or None.
        maps: A dataset of maps of labels, or None.
        map_of: The number in `maps` of each sample's map [samples]; or None.
        palette: The class numbers of the maps' colours; None: the maps have numbers.
        categories: Names of the numbers in "labels", as far as they are known.
    """

    counts: NDArray[np.int64]
    boxes: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 4), np.float32))
    are_fractions: bool = False
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)
    keypoints: NDArray[np.float32] | None = None
    pairs: NDArray[np.uint32] = field(default_factory=lambda: np.zeros((0, 2), np.uint32))
    outlines: Outlines | None = None
    image_ids: NDArray[np.int64] | None = None
    sizes: NDArray[np.uint32] | None = None
    drawn_on: str | None = None
    captions: Sequence[list[str]] | None = None
    maps: Any = None
    map_of: NDArray[np.int64] | None = None
    palette: Palette | None = None
    categories: dict[int, str] = field(default_factory=dict)

    @property
    def fields(self) -> list[str]:
        """The fields that batches can have from these annotations."""
        has = {
            "boxes": bool(self.columns),
            "keypoints": self.keypoints is not None,
            "visibility": self.keypoints is not None,
            "masks": self.outlines is not None,
            "image_id": self.image_ids is not None,
            "captions": self.captions is not None,
            "mask": self.maps is not None,
            "target": True,
        }
        return [*self.columns, *(name for name, is_there in has.items() if is_there)]

    def core(self, wanted: Iterable[str]) -> Any:
        """The core's targets, for batches with these fields."""
        wanted = set(wanted)
        everything = "target" in wanted
        points = self.keypoints if wanted & {"target", "keypoints", "visibility"} else None
        outlines = self.outlines if everything or "masks" in wanted else None
        maps = self.maps if everything or "mask" in wanted else None
        map_of = self.map_of if self.map_of is not None and maps is not None else np.zeros(0)
        return _core.make_targets(
            _firsts(self.counts).astype(np.uint64),
            self.boxes,
            self.are_fractions,
            0 if points is None else points.shape[1],
            np.zeros((0, 3), np.float32) if points is None else points.reshape(-1, 3),
            np.zeros((0, 2), np.uint32) if points is None else self.pairs,
            None if outlines is None else outlines.core(),
            np.zeros((0, 2), np.uint32) if self.sizes is None else self.sizes,
            _DRAWN_ON[self.drawn_on],
            None if maps is None else maps.core,
            map_of.astype(np.uint64),
            None if self.palette is None or maps is None else self.palette.core(),
        )

    def take(self, samples: NDArray[np.int64]) -> "Annotations":
        """The annotations of these samples, in this order."""
        objects = _ranges(_firsts(self.counts), samples)
        return replace(
            self,
            counts=self.counts[samples],
            boxes=self.boxes[objects],
            columns={name: column[objects] for name, column in self.columns.items()},
            keypoints=None if self.keypoints is None else self.keypoints[objects],
            outlines=None if self.outlines is None else self.outlines.take(objects),
            image_ids=None if self.image_ids is None else self.image_ids[samples],
            sizes=None if self.sizes is None else self.sizes[samples],
            captions=None if self.captions is None else [self.captions[i] for i in samples],
            map_of=None if self.map_of is None else self.map_of[samples],
        )


def adjusted(
    annotations: Annotations, pairs: Sequence[Sequence[int]] | None, drawn_on: str | None
) -> Annotations:
    """Annotations with what Dataset's `keypoint_pairs` and `annotations_as` say of them.

    Raises:
        ValueError: The pairs are not pairs of the objects' keypoints.
    """
    annotations = replace(annotations, drawn_on=drawn_on)
    if pairs is None:
        return annotations
    points = 0 if annotations.keypoints is None else annotations.keypoints.shape[1]
    numbers = np.array(pairs, np.int64).reshape(-1, 2)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= points):
        raise ValueError(
            f"keypoint_pairs: {numbers.tolist()} has numbers of keypoints that do not exist; "
            f"objects have {points}, counted from 0"
        )
    return replace(annotations, pairs=numbers.astype(np.uint32))


def check_adjustments(pairs: Any, drawn_on: Any) -> None:
    """Checks Dataset's `keypoint_pairs` and `annotations_as`.

    Raises:
        ValueError: They are not what they must be.
    """
    if drawn_on not in (None, "stored", "shown"):
        raise ValueError(f"annotations_as is {drawn_on!r}, but must be 'stored' or 'shown'")
    if pairs is None:
        return
    numbers = np.array(pairs if isinstance(pairs, Sequence) else [pairs], dtype=object)
    is_pairs = numbers.size == 0 or numbers.shape[1:] == (2,)
    if not is_pairs or not all(isinstance(one, Integral) for one in numbers.ravel()):
        raise ValueError(
            f"keypoint_pairs is {pairs!r}, but must be pairs of keypoints' numbers, counted from "
            "0: [(1, 2), (3, 4)]"
        )
    flat = numbers.ravel().tolist()
    if len(set(flat)) < len(flat):
        raise ValueError(f"keypoint_pairs is {pairs!r}, but a keypoint may be in one pair only")


def _firsts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each entry's items begin, and last the number of all items [entries + 1]."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _ranges(firsts: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """All numbers from firsts[i] to firsts[i + 1], for each wanted i in turn."""
    begins = firsts[wanted]
    counts = firsts[wanted + 1] - begins
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(begins - (ends - counts), counts)


def joined(parts: Sequence[Annotations | None]) -> Annotations:
    """The annotations of several datasets, one after the other, without their maps of labels.

    The numbers in `map_of` count through the maps of all parts, one after the other.

    Raises:
        ValueError: The datasets differ in their kinds of annotations, in their keypoints, in
            `annotations_as` or in their palettes.
    """
    known = [part for part in parts if part is not None]
    shapes = {
        (
            *part.fields,
            None if part.keypoints is None else part.keypoints.shape[1],
            tuple(map(tuple, part.pairs.tolist())),
            part.drawn_on,
            part.palette,
            part.are_fractions,
        )
        for part in known
    }
    if len(known) < len(parts) or len(shapes) > 1:
        raise ValueError(
            "concat: the datasets have different kinds of annotations or palettes, or only some "
            "have masks; give datasets that have the same (YOLO's files and COCO's are different)"
        )
    first = known[0]

    def all_of(name: str) -> Any:
        if getattr(first, name) is None:
            return None
        return np.concatenate([getattr(part, name) for part in known])

    firsts = _firsts(np.array([0 if part.maps is None else len(part.maps) for part in known]))
    return Annotations(
        counts=all_of("counts"),
        boxes=all_of("boxes"),
        are_fractions=first.are_fractions,
        columns={
            name: np.concatenate([part.columns[name] for part in known]) for name in first.columns
        },
        keypoints=all_of("keypoints"),
        pairs=first.pairs,
        drawn_on=first.drawn_on,
        palette=first.palette,
        outlines=_joined_outlines([part.outlines for part in known if part.outlines is not None]),
        image_ids=all_of("image_ids"),
        sizes=all_of("sizes"),
        captions=(
            None
            if first.captions is None
            else [texts for part in known for texts in part.captions or ()]
        ),
        categories={k: name for part in known[::-1] for k, name in part.categories.items()},
        map_of=(
            None
            if first.map_of is None
            else np.concatenate(
                [
                    begin + part.map_of
                    for begin, part in zip(firsts, known, strict=False)
                    if part.map_of is not None
                ]
            )
        ),
    )


def _joined_outlines(parts: Sequence[Outlines]) -> Outlines | None:
    if not parts:
        return None
    names = ("parts", "lengths", "is_runs", "numbers")
    return Outlines(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))
