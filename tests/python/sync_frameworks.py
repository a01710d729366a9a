"""A process of a job that trains with forebay.sync inside Lightning and Accelerate.

usage: torchrun … sync_frameworks.py RESULT

test_frameworks.py starts it. It writes, for each strategy and each way to train the same model, the
weights at the end and the number of steps, to the file whose name is RESULT followed by the rank.
"""

import json
import sys
from pathlib import Path
from typing import Any

import lightning
import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import forebay.sync

FEATURES, CLASSES, BATCH, STEPS = 6, 3, 8, 14
STRATEGIES = ("allreduce", forebay.sync.LocalSteps(steps=4))


def make_model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, CLASSES))


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def batches() -> DataLoader[Any]:
    """This process's own samples."""
    random = torch.Generator().manual_seed(dist.get_rank())
    x = torch.randn(STEPS * BATCH, FEATURES, generator=random)
    return DataLoader(TensorDataset(x, x[:, :CLASSES].argmax(1)), batch_size=BATCH)


def by_hand(strategy: Any, group: Any) -> tuple[nn.Module, Any]:
    model = make_model()
    optimizer = sgd(model)
    with forebay.sync.attach(model, optimizer, strategy, process_group=group) as sync:
        for x, y in batches():
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return model, sync


class Learner(lightning.LightningModule):
    """Attaches itself as docs/sync.md says."""

    def __init__(self, strategy: Any, group: Any) -> None:
        super().__init__()
        self.network = make_model()
        self._strategy, self._group = strategy, group

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return sgd(self)

    def on_fit_start(self) -> None:
        optimizer: Any = self.optimizers()  # Lightning's own type around the optimizer
        self.sync = forebay.sync.attach(self, optimizer, self._strategy, process_group=self._group)

    def on_fit_end(self) -> None:
        self.sync.close()

    def training_step(self, batch: Any) -> torch.Tensor:
        x, y = batch
        return functional.cross_entropy(self.network(x), y)


class ManualLearner(Learner):
    """Steps its optimizer itself."""

    def __init__(self, strategy: Any, group: Any) -> None:
        super().__init__(strategy, group)
        self.automatic_optimization = False

    def training_step(self, batch: Any) -> torch.Tensor:
        loss = super().training_step(batch)
        optimizer: Any = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        return loss


def by_lightning(kind: type[Learner], strategy: Any, group: Any) -> tuple[nn.Module, Any]:
    learner = kind(strategy, group)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(learner, batches())
    assert trainer.global_step == STEPS
    return learner.network, learner.sync


def by_accelerate(strategy: Any, group: Any) -> tuple[nn.Module, Any]:
    accelerator = Accelerator(cpu=True)
    model = make_model()
    optimizer = accelerator.prepare_optimizer(sgd(model))
    with forebay.sync.attach(model, optimizer, strategy, process_group=group) as sync:
        for x, y in batches():
            optimizer.zero_grad()
            accelerator.backward(functional.cross_entropy(model(x), y))
            optimizer.step()
    return model, sync


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    alone = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
    found: dict[str, Any] = {}
    for strategy in STRATEGIES:
        for group in (None, alone):
            ways = {
                "by hand": by_hand(strategy, group),
                "Lightning": by_lightning(Learner, strategy, group),
                "Lightning, manual": by_lightning(ManualLearner, strategy, group),
                "Accelerate": by_accelerate(strategy, group),
            }
            name = f"{strategy} {'alone' if group is alone else 'together'}"
            found[name] = {}
            for way, (model, sync) in ways.items():
                weights = torch.cat([p.detach().flatten() for p in model.parameters()])
                found[name][way] = {"steps": sync.stats()["steps"], "weights": weights.tolist()}
    path = Path(sys.argv[1])
    path.with_name(f"{path.name}{dist.get_rank()}").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
