"""Trains a small detector on images with annotations in COCO's format, and evaluates it.

The detector finds the middles of objects on a grid of a quarter of the image's size, and says for
each how large the object is (Zhou et al., "Objects as Points", 2019).
usage: python detection_train.py IMAGES ANNOTATIONS [EPOCHS] [--size PIXELS]
"""

import argparse
import contextlib
import io
from typing import Any

import torch
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torch import nn
from torch.nn import functional

import forebay
from forebay import transforms as T

BATCH_SIZE = 16
STRIDE = 4  # pixels of a cell of the grid
FOUND = 20  # objects of an image at most


def loaders(images: str, annotations: str, size: int) -> tuple[forebay.Loader, forebay.Loader]:
    """Makes the loaders of training and evaluation; boxes move with the images."""
    dataset = forebay.Dataset(images, annotations=annotations)
    train = [
        T.RandomPhotometricDistort(),
        T.RandomIoUCrop(min_scale=0.5),
        T.Resize((size, size)),
        T.SanitizeBoundingBoxes(min_size=4, min_area=16),
        T.Normalize(),
    ]
    return (
        forebay.Loader(
            dataset,
            BATCH_SIZE,
            shuffle=True,
            transform=train,
            fields=["image", "boxes", "labels"],
            pad_targets=True,
        ),
        forebay.Loader(
            dataset,
            BATCH_SIZE,
            transform=[T.Resize((size, size)), T.Normalize()],
            fields=["image", "image_id"],
        ),
    )


class Detector(nn.Module):
    """Gives scores of middles, their place in a cell, and sizes.

    The result is [images, classes + 4, cells, cells].
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        widths = [(3, 24, 2), (24, 48, 2), (48, 64, 1), (64, 64, 1), (64, 64, 1)]
        layers: list[nn.Module] = []
        for before, after, stride in widths:
            layers += [nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)]
            layers += [nn.ReLU()]
        last = nn.Conv2d(64, classes + 4, 1)
        assert last.bias is not None
        nn.init.constant_(last.bias[:classes], -2.2)  # nearly all cells are background
        self.layers = nn.Sequential(*layers, last)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


def middles(boxes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The boxes' middles and sizes, in cells [images, objects, 2]."""
    return (boxes[..., :2] + boxes[..., 2:]) / (2 * STRIDE), (
        boxes[..., 2:] - boxes[..., :2]
    ) / STRIDE


def loss_of(made: torch.Tensor, boxes: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The focal loss of the middles, and the distance of places and sizes.

    Args:
        made: What the detector gave.
        boxes: [images, objects, 4] in pixels.
        labels: From 0 [images, objects]; -1 where there is no object.
    """
    classes, cells = made.shape[1] - 4, made.shape[-1]
    middle, size = middles(boxes)
    at = middle.floor().clamp(0, cells - 1).long()
    image, number = torch.nonzero(labels >= 0, as_tuple=True)
    x, y = at[image, number].T
    grid = torch.arange(cells)
    # A score is 1 at a middle and falls around it, the slower the larger the object is.
    spread = size[image, number].amin(1).clamp(min=2) / 6
    across = ((grid - x[:, None]) ** 2 / (2 * spread[:, None] ** 2))[:, None, :]
    down = ((grid - y[:, None]) ** 2 / (2 * spread[:, None] ** 2))[:, :, None]
    wanted = torch.zeros(len(made), classes, cells, cells)
    for i, one in enumerate(torch.exp(-across - down)):
        place = wanted[image[i], labels[image[i], number[i]]]
        torch.maximum(place, one, out=place)
    score = made[:, :classes].sigmoid().clamp(1e-4, 1 - 1e-4)
    there = (1 - score) ** 2 * score.log() * (wanted == 1)
    not_there = (1 - wanted) ** 4 * score**2 * (1 - score).log() * (wanted < 1)
    count = max(1, len(image))
    found = made[image, classes:, y, x]
    exact = torch.cat([(middle - at)[image, number], size[image, number]], 1)
    return -(there + not_there).sum() / count + 0.1 * functional.l1_loss(found, exact)


def detections(made: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The boxes [images, FOUND, 4] in pixels, their classes and scores, the best first."""
    classes, cells = made.shape[1] - 4, made.shape[-1]
    score = made[:, :classes].sigmoid()
    score = score * (functional.max_pool2d(score, 3, 1, 1) == score)  # only the highest around
    best, at = score.flatten(1).topk(FOUND)
    label, cell = at // cells**2, at % cells**2
    exact = made[:, classes:].flatten(2).gather(2, cell[:, None].expand(-1, 4, -1))
    middle = torch.stack([cell % cells, cell // cells], 1) + exact[:, :2]
    corners = torch.cat([middle - exact[:, 2:] / 2, middle + exact[:, 2:] / 2], 1)
    return corners.transpose(1, 2) * STRIDE, label, best


@torch.no_grad()
def evaluate(model: nn.Module, loader: forebay.Loader, known: COCO, size: int) -> float:
    """COCO's average precision at an overlap of 0.5."""
    model.eval()
    categories = sorted(known.cats)
    found: list[dict[str, Any]] = []
    for images, ids in loader:
        for image_id, boxes, labels, scores in zip(
            ids.tolist(), *detections(model(images)), strict=True
        ):
            image = known.imgs[image_id]
            scale = torch.tensor([image["width"], image["height"]] * 2) / size
            boxes = boxes * scale
            boxes[:, 2:] -= boxes[:, :2]
            found += [
                {"image_id": image_id, "bbox": box, "category_id": categories[label], "score": one}
                for box, label, one in zip(
                    boxes.tolist(), labels.tolist(), scores.tolist(), strict=True
                )
            ]
    with contextlib.redirect_stdout(io.StringIO()):  # it prints a dozen other figures
        judge = COCOeval(known, known.loadRes(found), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return float(judge.stats[1])


def main() -> None:
    """Trains, and prints the average precision after the last epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images")
    parser.add_argument("annotations")
    parser.add_argument("epochs", type=int, nargs="?", default=8)
    parser.add_argument("--size", type=int, default=96)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    with contextlib.redirect_stdout(io.StringIO()):
        known = COCO(arguments.annotations)
    # The numbers of categories may have gaps; classes have none.
    class_of = torch.full((max(known.cats) + 1,), -1)
    class_of[torch.tensor(sorted(known.cats))] = torch.arange(len(known.cats))
    train, validation = loaders(arguments.images, arguments.annotations, arguments.size)
    model = Detector(len(known.cats))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 3e-3, total_steps=arguments.epochs * len(train)
    )
    for epoch in range(arguments.epochs):
        model.train()
        total = 0.0
        for images, boxes, labels in train:
            labels = torch.where(labels < 0, -1, class_of[labels])
            loss = loss_of(model(images), boxes, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += float(loss) / len(train)
        print(f"epoch {epoch}: loss {total:.3f}")
    precision = evaluate(model, validation, known, arguments.size)
    print(f"average precision at 0.5: {precision:.3f}")


if __name__ == "__main__":
    main()
