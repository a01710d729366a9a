"""Trains a small network that gives each pixel a class, on a folder of images and one of masks.

usage: python segmentation_train.py IMAGES MASKS CLASSES [EPOCHS] [--size PIXELS]
"""

import argparse

import torch
from torch import nn
from torch.nn import functional

import forebay
from forebay import transforms as T

BATCH_SIZE = 16


def loaders(images: str, masks: str, size: int) -> tuple[forebay.Loader, forebay.Loader]:
    """Makes the loaders of training and evaluation; masks move with the images."""
    dataset = forebay.Dataset(images, masks=masks)
    train = [
        T.RandomResizedCrop(size, scale=(0.4, 1)),
        T.RandomAffine(10),
        T.ColorJitter(0.3, 0.3),
        T.Normalize(),
    ]
    evaluate = [T.Resize((size, size)), T.Normalize()]
    fields = ["image", "mask"]
    return (
        forebay.Loader(dataset, BATCH_SIZE, shuffle=True, transform=train, fields=fields),
        forebay.Loader(dataset, BATCH_SIZE, transform=evaluate, fields=fields),
    )


class Segmenter(nn.Module):
    """Looks at the image at its own, a half and a quarter of its size."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.first = self._block(3, 16)
        self.second = self._block(16, 32)
        self.third = self._block(32, 64)
        self.last = nn.Conv2d(16 + 32 + 64, classes, 1)

    @staticmethod
    def _block(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
        )  # fmt: skip

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        first = self.first(images)
        second = self.second(functional.max_pool2d(first, 2))
        third = self.third(functional.max_pool2d(second, 2))
        sides = images.shape[-2:]
        larger = [functional.interpolate(one, sides, mode="bilinear") for one in (second, third)]
        return self.last(torch.cat([first, *larger], 1))


@torch.no_grad()
def evaluate(model: nn.Module, loader: forebay.Loader, classes: int) -> float:
    """The mean over classes of intersection over union."""
    model.eval()
    counts = torch.zeros(classes, classes)
    for images, masks in loader:
        pairs = masks.flatten().long() * classes + model(images).argmax(1).flatten()
        counts += torch.bincount(pairs, minlength=classes**2).reshape(classes, classes)
    both = counts.diag()
    return float((both / (counts.sum(0) + counts.sum(1) - both).clamp(min=1)).mean())


def main() -> None:
    """Trains, and prints how well masks are found after the last epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images")
    parser.add_argument("masks")
    parser.add_argument("classes", type=int)
    parser.add_argument("epochs", type=int, nargs="?", default=6)
    parser.add_argument("--size", type=int, default=64)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    train, validation = loaders(arguments.images, arguments.masks, arguments.size)
    model = Segmenter(arguments.classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 3e-3, total_steps=arguments.epochs * len(train)
    )
    for epoch in range(arguments.epochs):
        model.train()
        total = 0.0
        for images, masks in train:
            loss = functional.cross_entropy(model(images), masks.long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += float(loss) / len(train)
        print(f"epoch {epoch}: loss {total:.3f}")
    print(f"mean intersection over union: {evaluate(model, validation, arguments.classes):.3f}")


if __name__ == "__main__":
    main()
