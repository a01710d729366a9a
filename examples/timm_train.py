"""Trains a model of timm with its optimizer, schedule, mixup and averaged weights.

The model's configuration gives the size of its images and how they are normalised.
usage: python timm_train.py DATASET [EPOCHS] [--model NAME] [--out FILE]
"""

import argparse

import timm
import torch
from timm.data import Mixup, resolve_data_config
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3

import forebay
from forebay import transforms as T

BATCH_SIZE = 8


def loaders(path: str, model: torch.nn.Module) -> tuple[forebay.Loader, forebay.Loader]:
    """Makes the training and validation loaders with the images that the model expects."""
    config = resolve_data_config(model=model)
    size, interpolation = config["input_size"][-1], config["interpolation"]
    normalize = T.Normalize(config["mean"], config["std"])
    crop = T.RandomResizedCrop(size, interpolation=interpolation)
    whole = T.Resize(round(size / config["crop_pct"]), interpolation=interpolation)
    train = [crop, T.RandomHorizontalFlip(), normalize, T.RandomErasing(p=0.25)]
    evaluate = [whole, T.CenterCrop(size), normalize]
    return (
        forebay.Loader(path, BATCH_SIZE, shuffle=True, drop_last=True, transform=train),
        forebay.Loader(path, BATCH_SIZE, transform=evaluate),
    )


def main() -> None:
    """Trains, and prints the accuracy of the averaged weights after each epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("epochs", type=int, nargs="?", default=2)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--out", default="timm_model.pt")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    classes = len(forebay.Dataset(arguments.dataset).classes)
    model = timm.create_model(arguments.model, num_classes=classes)
    train, validation = loaders(arguments.dataset, model)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.02)
    schedule = CosineLRScheduler(optimizer, t_initial=arguments.epochs * len(train))
    mixup = Mixup(mixup_alpha=0.2, cutmix_alpha=1.0, num_classes=classes)
    averaged = ModelEmaV3(model, decay=0.9)
    for epoch in range(arguments.epochs):
        model.train()
        for step, (images, labels) in enumerate(train, epoch * len(train) + 1):
            images, targets = mixup(images, labels)
            loss = SoftTargetCrossEntropy()(model(images), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step_update(step)
            averaged.update(model)
        right = 0
        with torch.inference_mode():
            for images, labels in validation:
                right += int((averaged.module(images).argmax(1) == labels).sum())
        share = right / len(validation.dataset)
        print(f"epoch {epoch}: {len(train)} steps, loss {loss.item():.3f}, accuracy {share:.3f}")
    torch.save(averaged.module.state_dict(), arguments.out)


if __name__ == "__main__":
    main()
