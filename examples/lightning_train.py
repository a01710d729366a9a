"""Trains with PyTorch Lightning. Started again after a stop, it goes on at the last checkpoint.

Lightning keeps the loader's state in its checkpoints, so no sample comes twice or is left out.
usage: python lightning_train.py DATASET [EPOCHS] [--out FOLDER] [--devices N] [--max-steps N]
"""

import argparse

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn

import forebay
from forebay import transforms as T


class Classifier(lightning.LightningModule):
    """A small convolutional network with the loaders that make its batches."""

    def __init__(self, dataset: str, batch_size: int) -> None:
        super().__init__()
        self.dataset = forebay.Dataset(dataset)
        self.batch_size = batch_size  # for each process
        self.network = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
            nn.Linear(256, len(self.dataset.classes)),
        )  # fmt: skip

    def train_dataloader(self) -> forebay.Loader:
        """Makes the training loader.

        Lightning calls this after its processes have connected, so the loader finds its rank.
        """
        transform = T.train(size=64)
        return forebay.Loader(
            self.dataset, self.batch_size, shuffle=True, drop_last=True, transform=transform
        )

    def val_dataloader(self) -> forebay.Loader:
        """Makes a loader that gives every sample once."""
        return forebay.Loader(self.dataset, self.batch_size, transform=T.evaluate(64, 72))

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Returns the loss of a batch."""
        images, labels = batch
        return nn.functional.cross_entropy(self.network(images), labels)

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor]) -> None:
        """Logs the share of right answers."""
        images, labels = batch
        right = (self.network(images).argmax(1) == labels).float().mean()
        self.log("accuracy", right, batch_size=len(labels), prog_bar=True, sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Returns an optimizer with momentum."""
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)


def main() -> None:
    """Trains, starting from the last checkpoint if there is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("epochs", type=int, nargs="?", default=2)
    parser.add_argument("--out", default="lightning_run")
    parser.add_argument("--devices", type=int, default=1, help="processes on this machine")
    parser.add_argument("--max-steps", type=int, default=-1, help="ends before the last epoch does")
    arguments = parser.parse_args()
    lightning.seed_everything(0)
    keep = ModelCheckpoint(arguments.out, save_last=True, every_n_train_steps=5)
    trainer = lightning.Trainer(
        max_epochs=arguments.epochs, max_steps=arguments.max_steps, callbacks=[keep],
        accelerator="cpu", devices=arguments.devices, logger=False,
    )  # fmt: skip
    classifier = Classifier(arguments.dataset, batch_size=8 // arguments.devices)
    trainer.fit(classifier, ckpt_path="last")
    trainer.save_checkpoint(f"{arguments.out}/final.ckpt")


if __name__ == "__main__":
    main()
