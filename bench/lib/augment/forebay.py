"""Forebay's side of bench/augment.py: a BatchDecoder of one thread; with boxes a Loader of one.

A Loader's files and their boxes are in a folder in memory, as users have them in a folder.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import forebay
from forebay import transforms as T
from lib.augment.side import DETECTION_SIZE, GROUP, SEED, SIZE, Made, Side, Target
from lib.photo import Photo

_BEGIN = [T.RandomResizedCrop(SIZE), T.RandomHorizontalFlip()]
_POLICY_END = [T.Normalize(), T.RandomErasing(p=0.1)]
TRANSFORMS: dict[str, Callable[[], list[Any]]] = {
    "plain": lambda: [*_BEGIN, T.Normalize()],
    "trivial": lambda: [*_BEGIN, T.TrivialAugmentWide(interpolation="bilinear"), *_POLICY_END],
    "randaugment": lambda: [*_BEGIN, T.RandAugment(2, 9, interpolation="bilinear"), *_POLICY_END],
    "simclr": lambda: [
        *_BEGIN,
        T.RandomApply([T.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
        T.RandomGrayscale(p=0.2),
        T.RandomApply([T.GaussianBlur(23, (0.1, 2.0))], p=0.5),
        T.Normalize(),
    ],
    "deit": lambda: [
        T.RandomResizedCrop(SIZE, interpolation="bicubic"),
        T.RandomHorizontalFlip(),
        T.TimmAugment("rand-m9-mstd0.5-inc1"),
        T.Normalize(),
        T.RandomErasing(p=0.25, scale=(0.02, 1 / 3), ratio=(0.3, 1 / 0.3), value="random"),
    ],
    "detection": lambda: [
        T.RandomPhotometricDistort(),
        T.RandomZoomOut(fill=(123, 117, 104)),
        T.RandomIoUCrop(),
        T.RandomHorizontalFlip(),
        T.Resize((DETECTION_SIZE, DETECTION_SIZE)),
        T.SanitizeBoundingBoxes(),
        T.Normalize(),
    ],
}


class Forebay(Side):
    """Takes the packed files."""

    packed = True

    def __init__(self, recipe: str) -> None:
        super().__init__(recipe)
        if recipe == "detection":
            self.folder = TemporaryDirectory(dir="/dev/shm")
            self.loaders: dict[int, forebay.Loader] = {}  # of each group, by its first photograph
        else:
            self.decoder = forebay.BatchDecoder(TRANSFORMS[recipe](), seed=SEED, threads=1)

    def begin(self, photos: Sequence[Photo], first: int, *more: Any) -> None:
        """Begins a group; where photographs have boxes, opens a Loader for it once."""
        super().begin(photos, first, *more)
        if self.recipe == "detection" and first not in self.loaders:
            self.loaders[first] = self._loader(photos, first)

    def _loader(self, photos: Sequence[Photo], first: int) -> forebay.Loader:
        root = Path(self.folder.name) / str(first)
        (root / "images").mkdir(parents=True)
        known: dict[str, list[dict[str, Any]]] = {"images": [], "annotations": []}
        for i, photo in enumerate(photos):
            name = f"{i:02}.jpg"
            (root / "images" / name).write_bytes(photo.packed if self.packed else photo.file)
            known["images"].append({"id": i, "file_name": name})
            for box, label in zip(*self.targets[i], strict=True):
                left, top, right, bottom = map(float, box)
                sides = [left, top, right - left, bottom - top]
                known["annotations"].append(
                    {"image_id": i, "bbox": sides, "category_id": int(label)}
                )
        (root / "boxes.json").write_text(json.dumps(known))
        return forebay.Loader(
            forebay.Dataset(root / "images", annotations=root / "boxes.json"),
            GROUP,
            sampler=range(len(photos)),  # so that no epoch is prepared ahead
            transform=TRANSFORMS[self.recipe](),
            fields=["image", "boxes", "labels"],
            num_workers=1,
            prefetch_factor=1,
            seed=SEED + first,
        )

    def _detect(self) -> Made:
        loader = self.loaders[self.first]
        loader.set_epoch(self.round_number)
        ((images, boxes, labels),) = loader
        targets = [
            Target(*map(lambda one: one.numpy(), pair)) for pair in zip(boxes, labels, strict=True)
        ]
        return Made(images.numpy(), targets)

    def run(self, photos: Sequence[Photo]) -> Made:
        """Makes a batch; what it draws depends on the photographs' numbers and the round."""
        if self.recipe == "detection":
            return self._detect()
        out = self.out[: len(photos)]
        batch = self.decoder(
            [photo.packed if self.packed else photo.file for photo in photos],
            drawn_for=range(self.first, self.first + len(photos)),
            epoch=self.round_number,
            out=out,
        )
        if errors := batch.errors():
            raise RuntimeError(f"Forebay could not make all of a batch: {errors}")
        return Made(out.numpy())


class ForebayFiles(Forebay):
    """Takes the original files, like the peers."""

    packed = False
