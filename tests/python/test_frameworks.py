"""Runs the examples like a user, with Lightning, Accelerate, timm and compiled DDP (on Gloo).

An interrupted and resumed run ends with the same weights, bit for bit, as an uninterrupted run, so
no sample came twice or was left out.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import forebay
from conftest import IMAGES, ROOT
from forebay import transforms as T

TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
STEPS = IMAGES // 8  # steps of an epoch; all examples take 8 samples a step


def run(*arguments: object, cwd: Path) -> str:
    """Runs Python and returns what it printed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(forebay.__file__).absolute().parents[1]),
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(cwd / "inductor"),
    }
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def example(name: str) -> Path:
    return ROOT / "examples" / name


def lightning_state(folder: Path) -> dict[str, Any]:
    return torch.load(folder / "final.ckpt", weights_only=False)


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def whole(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Returns Lightning's state after two epochs without an interruption."""
    folder = tmp_path_factory.mktemp("whole")
    run(example("lightning_train.py"), packed, 2, "--out", "out", cwd=folder)
    return lightning_state(folder / "out")


def test_lightning_trains_each_epoch_once(whole: dict[str, Any]):
    assert whole["global_step"] == 2 * STEPS
    (state,) = whole["loops"]["fit_loop"]["state_dict"]["combined_loader"]
    assert (state["epoch"], state["position"]) == (1, STEPS * 8)


# A checkpoint is written every 5 steps, so the run resumes in the middle of either epoch.
@pytest.mark.parametrize("stop", [7, pytest.param(2 * STEPS - 4, marks=pytest.mark.nightly)])
def test_lightning_goes_on_exactly(stop: int, whole: dict[str, Any], packed: Path, tmp_path: Path):
    command = [example("lightning_train.py"), packed, 2, "--out", tmp_path / "out"]
    run(*command, "--max-steps", stop, cwd=tmp_path)
    assert lightning_state(tmp_path / "out")["global_step"] == stop
    run(*command, cwd=tmp_path)
    continued = lightning_state(tmp_path / "out")
    assert continued["global_step"] == 2 * STEPS
    assert equal(continued["state_dict"], whole["state_dict"])


def test_lightning_in_two_processes_sees_the_same_batches(
    whole: dict[str, Any], packed: Path, tmp_path: Path
):
    run(example("lightning_train.py"), packed, 2, "--out", "out", "--devices", 2, cwd=tmp_path)
    weights = lightning_state(tmp_path / "out")["state_dict"]
    for name, expected in whole["state_dict"].items():  # the sums run in another order
        torch.testing.assert_close(weights[name], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.nightly
def test_lightning_takes_a_loader_that_was_made_before_its_processes(packed: Path, tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(
        f"""
import sys
sys.path.insert(0, {str(ROOT / "examples")!r})
import lightning
from lightning_train import Classifier
classifier = Classifier({str(packed)!r}, 4)
loader = classifier.train_dataloader()
assert (loader.rank, loader.world_size) == (0, 1)
trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", devices=2, logger=False,
                            enable_progress_bar=False, limit_val_batches=0)
trainer.fit(classifier, loader)
assert (loader.rank, loader.world_size) == (trainer.global_rank, 2)
assert trainer.global_step == {STEPS}
"""
    )
    run(program, cwd=tmp_path)


def test_accelerate_goes_on_exactly_in_two_processes(packed: Path, tmp_path: Path):
    command = [*TORCHRUN, example("accelerate_train.py"), packed, 2, "--out"]
    printed = run(*command, "whole", cwd=tmp_path)
    assert re.findall(r"(\d+) steps", printed) == [str(STEPS), str(2 * STEPS)]
    run(*command, "parts", "--max-steps", STEPS + 4, cwd=tmp_path)
    assert not (tmp_path / "parts/final").exists()
    run(*command, "parts", cwd=tmp_path)
    one, two = (
        torch.load(tmp_path / name / "final/pytorch_model.bin") for name in ("whole", "parts")
    )
    assert equal(one, two)


def test_trainers_exchange_like_a_loop_by_hand(tmp_path: Path):
    worker = Path(__file__).with_name("sync_frameworks.py")
    run(*TORCHRUN, worker, tmp_path / "rank", cwd=tmp_path)
    first, second = (json.loads((tmp_path / f"rank{rank}").read_text()) for rank in range(2))
    assert len(first) == 4  # two strategies, in both processes together and in each alone
    for name, ways in first.items():
        by_hand = ways.pop("by hand")
        assert by_hand["steps"] == 14
        assert set(ways) == {"Lightning", "Lightning, manual", "Accelerate"}
        for way, own in ways.items():
            assert own == by_hand, (name, way)
            is_equal = own["weights"] == second[name][way]["weights"]
            assert is_equal == name.endswith("together"), (name, way)


@pytest.mark.nightly
def test_timm_trains(packed: Path, tmp_path: Path):
    out = tmp_path / "model.pt"
    printed = run(
        example("timm_train.py"), packed, 1, "--model", "test_resnet", "--out", out, cwd=tmp_path
    )
    assert re.fullmatch(rf"epoch 0: {STEPS} steps, loss \d\.\d+, accuracy 0\.\d+\n", printed)
    assert all(bool(value.isfinite().all()) for value in torch.load(out).values())


@pytest.mark.nightly
def test_a_compiled_model_trains_in_two_processes(packed: Path, tmp_path: Path):
    printed = run(*TORCHRUN, example("ddp_compile.py"), packed, 2, "--out", "m.pt", cwd=tmp_path)
    steps, losses = zip(*re.findall(r"(\d+) steps, loss (\d\.\d+)", printed), strict=True)
    assert steps == (str(STEPS), str(STEPS))
    # Train the same model in this process, uncompiled.
    torch.manual_seed(0)
    loader = forebay.Loader(packed, 8, shuffle=True, drop_last=True, transform=T.train(64))
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4),
        torch.nn.Flatten(), torch.nn.Linear(256, len(loader.dataset.classes)),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for loss_there in losses:
        total = []
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total.append(loss.item())
        assert float(loss_there) == pytest.approx(np.mean(total), abs=1e-3)
    for name, expected in model.state_dict().items():
        got = torch.load(tmp_path / "m.pt")[name]
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-5)


def test_iter_without_a_batch_costs_no_epoch(packed: Path):
    loader = forebay.Loader(packed, 8, shuffle=True, transform=T.train(32))
    iter(loader)
    assert loader.state_dict()["epoch"] == 0
    first = [labels.tolist() for _, labels in loader]
    again = forebay.Loader(packed, 8, shuffle=True, transform=T.train(32))
    assert first == [labels.tolist() for _, labels in again]
    next(iter(again))
    iter(again)
    iter(again)
    assert again.state_dict()["epoch"] == 2
