"""The flows that bench/explore.py measures, on CIFAR-10."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from forebay import explore as fx

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
HALVES = CLASSES[:5], CLASSES[5:]
SEED, HEAD_EPOCHS, SMALL_EPOCHS = 4, 16, 9  # of head_flow and small_flow


def block(channels_in: int, channels_out: int, stride: int) -> nn.Module:
    """A convolution, a batch norm and a ReLU."""
    convolution = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels_out), nn.ReLU())


def backbone() -> nn.ModuleList:
    """Four blocks, each on what the one before makes."""
    sizes = [(3, 32, 1), (32, 64, 2), (64, 128, 2), (128, 128, 1)]
    return nn.ModuleList(block(*size) for size in sizes)


def normalized(images: torch.Tensor) -> torch.Tensor:
    """Images as numbers around 0."""
    return images.float() / 127.5 - 1


@fx.stage
def pretrained(images: Any) -> Any:
    """The weights of a backbone that has learned the classes of `images`."""
    blocks, head = backbone(), nn.Linear(128, int(images.labels.max()) + 1)
    optimizer = torch.optim.SGD([*blocks.parameters(), *head.parameters()], lr=0.1, momentum=0.9)
    for _ in range(2):
        for batch in torch.randperm(len(images.images)).split(64):
            outputs = normalized(images.images[batch])
            for one in blocks:
                outputs = one(outputs)
            loss = functional.cross_entropy(head(outputs.mean((2, 3))), images.labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return fx.report(blocks.state_dict(), loss=loss.item())


@fx.stage
def bordered(images: Any, border: int) -> torch.Tensor:
    """The images with mirrored pixels around them."""
    return functional.pad(normalized(images.images), (border,) * 4, mode="reflect")


@fx.stage
def activations(inputs: torch.Tensor, weights: Any, number: int) -> torch.Tensor:
    """What one frozen block of the backbone makes of its inputs."""
    blocks = backbone()
    blocks.load_state_dict(weights)
    with torch.inference_mode():
        return torch.cat([blocks.eval()[number](batch) for batch in inputs.split(100)])


@fx.stage
def pooled(layer: torch.Tensor) -> torch.Tensor:
    """The means of a layer over the four quarters of each image."""
    means = functional.adaptive_avg_pool2d(layer, 2).flatten(1).double()
    return torch.cat([means, torch.ones(len(means), 1, dtype=torch.double)], 1)


@fx.stage
def probed(inputs: torch.Tensor, images: Any, decay: float) -> fx.stages.Report:
    """The accuracy of a linear head by ridge regression on a layer's means."""
    classes = images.labels.unique()
    targets = (images.labels[:, None] == classes).double()
    learn, check = slice(0, None, 2), slice(1, None, 2)
    gram = inputs[learn].T @ inputs[learn] + decay * torch.eye(inputs.shape[1]).double()
    head = torch.linalg.solve(gram, inputs[learn].T @ targets[learn])
    found = classes[(inputs[check] @ head).argmax(1)]
    return fx.report({"head": head}, accuracy=(found == images.labels[check]).double().mean())


def layers_of(flow: fx.Flow, weights: Any, samples: int) -> tuple[Any, dict[str, Any]]:
    """Images of the other five classes, three sizes and two borders, and four layers of each."""
    step = max(1, 25000 // samples)
    images = flow.images(
        size=fx.explore("size", [24, 32, 40]), classes=HALVES[1], samples=slice(0, None, step)
    )
    inputs = bordered(images, fx.explore("border", [0, 4]))
    layers = {}
    for number in range(4):
        inputs = layers[str(number + 1)] = activations(inputs, weights, number)
    return images, layers


def probe_flow(train: str, weights: Any, samples: int) -> fx.flow.Choose:
    """192 branches: three sizes, two borders, four layers, eight heads."""
    flow = fx.Flow(train, seed=1)
    images, layers = layers_of(flow, weights, samples)
    decay = fx.explore("decay", fx.log(1e-3, 1e4, 8))
    head = probed(pooled(fx.explore("layer", layers)), images, decay)
    return fx.choose(head, by="accuracy", keep=fx.top(1))


@fx.stage
def standardized(means: torch.Tensor, images: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """A layer's means with average 0 and deviation 1, float32, and the classes from 0 on."""
    inputs = (means - means.mean(0)) / means.std(0).clamp(min=1e-6)
    return inputs.float(), torch.unique(images.labels, return_inverse=True)[1]


@fx.stage
def fitted(samples: Any, lr: float, decay: float) -> Any:
    """Trains a linear head on every second sample; its accuracy is that on the others."""
    inputs, labels = samples
    learn, check = inputs[0::2], inputs[1::2]
    model = nn.Linear(inputs.shape[1], int(labels.max()) + 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=decay)
    for _ in range(HEAD_EPOCHS):
        for batch in torch.randperm(len(learn)).split(64):
            loss = functional.cross_entropy(model(learn[batch]), labels[0::2][batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.inference_mode():
            found = model(check).argmax(1) == labels[1::2]
        yield fx.report({"model": model}, accuracy=found.double().mean())


def head_flow(train: str, weights: Any, samples: int) -> fx.flow.Choose:
    """192 branches like those of probe_flow, with heads that are trained in epochs."""
    flow = fx.Flow(train, seed=SEED)
    images, layers = layers_of(flow, weights, samples)
    made = fitted(
        standardized(pooled(fx.explore("layer", layers)), images),
        lr=fx.explore("lr", fx.log(1e-3, 1, 4)),
        decay=fx.explore("decay", [0, 1e-2]),
    )
    return fx.choose(made, by="accuracy", keep=fx.top(1))


class ResNet9(nn.Module):
    """A small residual network, like that of `forebay train`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Sequential(block(3, width, 1), block(width, 2 * width, 2))
        self.second = nn.Sequential(block(2 * width, 2 * width, 1), block(2 * width, 2 * width, 1))
        self.third = nn.Sequential(block(2 * width, 4 * width, 2), block(4 * width, 4 * width, 2))
        self.fourth = nn.Sequential(block(4 * width, 4 * width, 1), block(4 * width, 4 * width, 1))
        self.head = nn.Linear(4 * width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The logits of the ten classes."""
        outputs = self.first(images)
        outputs = self.third(outputs + self.second(outputs))
        outputs = outputs + self.fourth(outputs)
        logits: torch.Tensor = self.head(outputs.mean((2, 3)))
        return logits


def learn_once(model: nn.Module, optimizer: Any, images: Any, count: int) -> float:
    """Makes one epoch over the first `count` images; returns the last batch's loss."""
    model.train()
    loss = torch.zeros(())
    for batch in torch.randperm(count).split(64):
        outputs = model(normalized(images.images[batch]))
        loss = functional.cross_entropy(outputs, images.labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def accuracy_after(model: nn.Module, images: Any, first: int) -> float:
    """The accuracy on the images from `first` on."""
    model.eval()
    with torch.inference_mode():
        outputs = model(normalized(images.images[first:]))
    return float((outputs.argmax(1) == images.labels[first:]).double().mean())


@fx.stage
def trained(images: Any, lr: fx.Schedule) -> Any:
    """Trains on three quarters of the images; its accuracy is that on the last quarter."""
    torch.manual_seed(0)
    model = ResNet9(16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    learn = 3 * len(images.images) // 4
    state = {"model": model, "optimizer": optimizer}
    for epoch in fx.epochs(lr, state):
        for group in optimizer.param_groups:
            group["lr"] = lr[epoch]
        learn_once(model, optimizer, images, learn)
        yield fx.report(state, accuracy=accuracy_after(model, images, learn))


def schedules() -> list[fx.Schedule]:
    """24 schedules of 12 epochs, whose trainings have 130 different epochs together."""
    made = []
    for start in (0.1, 0.2):
        for first in (4, 6, 9):
            for factor in (0.3, 0.1):
                for second in (8, 10):
                    made.append(
                        fx.schedule(
                            [
                                start
                                * (factor if epoch >= first else 1)
                                * (0.1 if epoch >= max(first, second) else 1)
                                for epoch in range(12)
                            ]
                        )
                    )
    return made


def tree_flow(train: str, samples: int) -> fx.flow.Choose:
    """24 whole trainings that share beginnings."""
    flow = fx.Flow(train, seed=2)
    images = flow.images(size=32, samples=slice(0, None, max(1, 50000 // samples)))
    named = {f"{number}": one for number, one in enumerate(schedules())}
    return fx.choose(trained(images, fx.explore("lr", named)), by="accuracy", keep=fx.top(1))


@fx.stage
def alone_trained(images: Any, lr: float) -> Any:
    """Like `trained`, with one rate, so that branches share nothing but their images."""
    torch.manual_seed(0)
    model = ResNet9(16)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for _ in range(6):
        loss = learn_once(model, optimizer, images, len(images.images))
        yield fx.report({"model": model}, loss=loss)


def plain_flow(train: str, samples: int, branches: int) -> fx.flow.Choose:
    """Trainings that share nothing: each rate has images of its own."""
    flow = fx.Flow(train, seed=3)
    step = max(1, 50000 // samples)
    parts = {
        f"{number}": flow.images(size=32, samples=slice(number, None, step))
        for number in range(branches)
    }
    made = alone_trained(fx.explore("part", parts), 0.05)
    return fx.choose(made, by="loss", keep=fx.bottom(1))


@fx.stage
def small_trained(images: Any, lr: float, momentum: float) -> Any:
    """Trains a small network on half of the images; its accuracy is that on the other half."""
    model = ResNet9(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    learn = len(images.images) // 2
    for _ in range(SMALL_EPOCHS):
        learn_once(model, optimizer, images, learn)
        yield fx.report({"model": model}, accuracy=accuracy_after(model, images, learn))


def small_flow(train: str, samples: int) -> fx.flow.Choose:
    """96 trainings, 24 rates x 4 momentums, that share nothing but their images."""
    flow = fx.Flow(train, seed=SEED)
    images = flow.images(size=16, samples=slice(0, None, max(1, 50000 // samples)))
    made = small_trained(
        images,
        lr=fx.explore("lr", fx.log(1e-3, 1, 24)),
        momentum=fx.explore("momentum", [0, 0.5, 0.9, 0.95]),
    )
    return fx.choose(made, by="accuracy", keep=fx.top(1))


@fx.stage
def started(number: int) -> float:
    """Nothing: it only makes its worker import PyTorch."""
    return torch.tensor(number).item()


def start_flow() -> fx.flow.Choose:
    """A stage for each of two workers, to measure their start."""
    return fx.choose(started(fx.explore("number", [0, 1])), by="value", keep=fx.top(1))
