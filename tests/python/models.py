"""The trainer's models in PyTorch, for comparison, written from the papers, not from our code."""

import torch
from torch import nn


class ResNet9(nn.Module):
    """David Page's network for small images: whitening, then blocks of convolution, pooling, batch
    norm and ReLU."""

    class Whitening(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.zeros(24, 3, 2, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            padding = int(x.shape[2] < 16)
            weight = self.get_buffer("weight")
            return nn.functional.conv2d(x, weight, padding=padding).relu()

    class Block(nn.Module):
        def __init__(self, before: int, after: int, pool: bool) -> None:
            super().__init__()
            self.conv = nn.Conv2d(before, after, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(after)
            self.pool = nn.MaxPool2d(2) if pool else nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.pool(self.conv(x))).relu()

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        block = ResNet9.Block
        self.whiten = ResNet9.Whitening()
        self.grow1 = block(24, 2 * width, True)
        self.residual1 = nn.ModuleDict(
            {name: block(2 * width, 2 * width, False) for name in ("a", "b")}
        )
        self.grow2 = block(2 * width, 4 * width, True)
        self.grow3 = block(4 * width, 8 * width, True)
        self.residual3 = nn.ModuleDict(
            {name: block(8 * width, 8 * width, False) for name in ("a", "b")}
        )
        self.linear = nn.Linear(8 * width, classes, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.grow1(self.whiten(x))
        x = x + self.residual1["b"](self.residual1["a"](x))
        x = self.grow3(self.grow2(x))
        x = x + self.residual3["b"](self.residual3["a"](x))
        return self.linear(x.amax((2, 3))) / 8


class ResNet18(nn.Module):
    """The network of He et al. 2015, with the names that torchvision gives its parts."""

    class Block(nn.Module):
        def __init__(self, before: int, after: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(after)
            self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(after)
            self.downsample = None
            if stride != 1 or before != after:
                shortcut = nn.Conv2d(before, after, 1, stride, bias=False)
                self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(after))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
            return (y + (x if self.downsample is None else self.downsample(x))).relu()

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        before = 64
        for layer, after in enumerate((64, 128, 256, 512), start=1):
            first = ResNet18.Block(before, after, 1 if layer == 1 else 2)
            setattr(self, f"layer{layer}", nn.Sequential(first, ResNet18.Block(after, after, 1)))
            before = after
        self.fc = nn.Linear(512, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(self.bn1(self.conv1(x)).relu(), 3, 2, 1)
        for layer in range(1, 5):
            x = self.get_submodule(f"layer{layer}")(x)
        return self.fc(x.mean((2, 3)))
