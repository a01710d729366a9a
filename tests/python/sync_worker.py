"""A process of a job that trains with forebay.sync; test_sync.py starts it.

usage: python sync_worker.py RESULT SCENARIO …, with the variables of torchrun. It writes the
results of the scenarios to the file whose name is RESULT followed by the rank.
"""

import copy
import hashlib
import json
import math
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional

import forebay.sync
from forebay import _core
from forebay.sync import numbers
from forebay.sync.guide import Guide
from forebay.sync.policy import ALONE, Policy, Seen
from forebay.sync.shards import local_of
from forebay.sync.together import Together

FEATURES, CLASSES, BATCH = 40, 5, 32
STRATEGIES = (
    forebay.sync.AllReduce(),
    forebay.sync.Ako(),
    forebay.sync.Ako(of="gradients"),
    forebay.sync.Ako(staleness=6),
    forebay.sync.Ako(encoding="int8"),
    forebay.sync.Ako(encoding="top"),
    forebay.sync.ParameterServers(),
    forebay.sync.ParameterServers(servers=[1], staleness=0),
    forebay.sync.Pairs(),
    forebay.sync.LocalSteps(steps=10),
    forebay.sync.LocalSteps(steps=12, fragments=3, delay=2),
    forebay.sync.LocalSteps(steps=10, encoding="int8"),
)


def make_model() -> nn.Sequential:
    """The same model in every process, with both memory layouts and running statistics."""
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Unflatten(1, (1, 5, 8)), nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Flatten(), nn.Linear(8 * FEATURES, 32), nn.ReLU(), nn.Linear(32, CLASSES),
    )  # fmt: skip
    first = next(model.parameters())
    first.data = first.data.contiguous(memory_format=torch.channels_last)
    return model


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples whose class is the largest of five fixed sums of their features."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(BATCH, FEATURES, generator=random)
    truth = torch.randn(FEATURES, CLASSES, generator=torch.Generator().manual_seed(1))
    return x, (x @ truth).argmax(1)


def sgd(model: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)


def learn(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, first: int = 0) -> None:
    device = next(model.parameters()).device
    for step in range(first, first + steps):
        x, y = (part.to(device) for part in batch(1000 * (step + 1) + dist.get_rank()))
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def learn_side_by_side(
    model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, first: int = 0
) -> None:
    """Like learn(), but no process gets more than 10 steps ahead, even on a busy machine."""
    for step in range(first, first + steps, 10):
        learn(model, optimizer, 10, step)
        dist.barrier()


def loss_of(model: nn.Module) -> float:
    """The loss on samples from which no process learns."""
    model.eval()
    with torch.no_grad():
        losses = [functional.cross_entropy(model(x), y) for x, y in map(batch, range(8))]
    model.train()
    return float(torch.stack(losses).mean())


def weights_of(model: nn.Module) -> list[float]:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()


def like_ddp() -> Any:
    """Whether the same steps give the same weights with DistributedDataParallel and with us."""
    theirs = make_model()
    wrapped = nn.parallel.DistributedDataParallel(theirs)
    learn(wrapped, sgd(theirs), 5)
    ours = make_model()
    optimizer = sgd(ours)
    with forebay.sync.attach(ours, optimizer, "allreduce"):
        learn(ours, optimizer, 5)
    return weights_of(theirs) == weights_of(ours)


def gathered_like_ddp() -> Any:
    """Like like_ddp(), with the gradients of two backward passes in each step."""

    def two_passes(model: nn.Module, optimizer: Any, no_sync: Callable[[], Any]) -> None:
        for step in range(4):
            optimizer.zero_grad()
            for part in (0, 1):
                x, y = batch(10 * step + 2 * part + dist.get_rank())
                if part == 0:
                    with no_sync():
                        functional.cross_entropy(model(x), y).backward()
                else:
                    functional.cross_entropy(model(x), y).backward()
            optimizer.step()

    theirs = make_model()
    wrapped = nn.parallel.DistributedDataParallel(theirs)
    two_passes(wrapped, sgd(theirs), wrapped.no_sync)
    ours = make_model()
    optimizer = sgd(ours)
    with forebay.sync.attach(ours, optimizer, "allreduce") as sync:
        two_passes(ours, optimizer, sync.no_sync)
    return weights_of(theirs) == weights_of(ours)


def clipped(model: nn.Module, optimizer: Any) -> None:
    for step in range(5):
        x, y = batch(10 * step + dist.get_rank())
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()


def scaled(model: nn.Module, optimizer: Any) -> None:
    """In the third step one process's scaled loss is infinite, so no process makes that step."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024, growth_interval=2)
    for step in range(6):
        x, y = batch(10 * step + dist.get_rank())
        optimizer.zero_grad()
        factor = float("inf") if (step, dist.get_rank()) == (2, 1) else 1
        scaler.scale(functional.cross_entropy(model(x), y) * factor).backward()
        scaler.step(optimizer)
        scaler.update()


def gathered_without_no_sync(model: nn.Module, optimizer: Any) -> None:
    for step in range(4):
        optimizer.zero_grad()
        for part in range(3):
            x, y = batch(100 * step + 10 * part + dist.get_rank())
            functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def by_closure(model: nn.Module, optimizer: Any) -> None:
    for step in range(4):

        def closure(step: int = step) -> torch.Tensor:
            x, y = batch(10 * step + dist.get_rank())
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)


def now_and_then(model: nn.Module, optimizer: Any) -> None:
    """Throws away the gradients of some backward passes."""
    for step in range(8):
        x, y = batch(10 * step + dist.get_rank())
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        if step % 3 == 0:
            optimizer.step()


def each_way_like_ddp() -> Any:
    """Whether weights equal DistributedDataParallel's, for each use of gradients in a script."""
    same = {}
    for way in (clipped, scaled, gathered_without_no_sync, by_closure, now_and_then):
        theirs = make_model()
        way(nn.parallel.DistributedDataParallel(theirs), sgd(theirs))
        ours = make_model()
        optimizer = sgd(ours)
        with forebay.sync.attach(ours, optimizer, "allreduce"):
            way(ours, optimizer)
        same[way.__name__] = weights_of(theirs) == weights_of(ours)
    return same


def outer_sgd(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.7, momentum=0.9, nesterov=True)


def outer_adamw(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.02)


class Fails(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        raise ArithmeticError("a mistake of the outer optimizer")


def digest(found: Any) -> str:
    """A short text that differs if any of the numbers in a state differs."""
    listed = torch.utils._pytree.tree_map_only(torch.Tensor, lambda one: one.tolist(), found)
    return hashlib.sha256(repr(listed).encode()).hexdigest()


def outer_optimizers() -> Any:
    """Local steps with optimizers of torch as the outer ones."""
    local = forebay.sync.LocalSteps
    found: dict[str, Any] = {"builtin": [], "torch": [], "adamw": []}
    for name, outer in (("builtin", None), ("torch", outer_sgd), ("adamw", outer_adamw)):
        for strategy in (
            local(steps=5, outer=outer), local(steps=6, fragments=3, delay=1, outer=outer),
        ):  # fmt: skip
            model = make_model()
            optimizer = sgd(model)
            with forebay.sync.attach(model, optimizer, strategy) as sync:
                learn(model, optimizer, 60 if name == "adamw" else 31)
                shared = digest(sync.state_dict())
            result = {"shared": shared, "weights": weights_of(model), "loss": loss_of(model)}
            found[name].append(result)
    model = make_model()
    optimizer = sgd(model)
    # The process that ends first makes the outer steps of the other one's sums in another thread.
    with forebay.sync.attach(model, optimizer, local(steps=4, outer=outer_adamw)):
        learn(model, optimizer, 6 + 20 * dist.get_rank())
    found["uneven"] = weights_of(model)
    return found | outer_from_checkpoint() | outer_refusals()


def outer_from_checkpoint() -> dict[str, Any]:
    """A job that goes on, the same job from its checkpoint, and one in which rank 0 has none.

    Processes learn in every second step, so that all have the shared weights after the others.
    """
    strategy = forebay.sync.LocalSteps(steps=2, outer=outer_adamw)

    def learn_and_wait(model: nn.Module, optimizer: torch.optim.Optimizer, first: int) -> None:
        for step in (first, first + 1):
            learn(model, optimizer, 1, step)
            optimizer.zero_grad()
            optimizer.step()

    def begin(has_it: bool) -> tuple[nn.Module, torch.optim.Optimizer, Any]:
        model = make_model()
        if has_it:
            model.load_state_dict(saved["model"])
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        sync = forebay.sync.attach(model, optimizer, strategy, steps=int(has_it))
        return model, optimizer, sync

    def end(model: nn.Module, sync: Any) -> list[str]:
        found = [digest(sync.state_dict()), digest(weights_of(model))]
        sync.close()
        return found

    found: dict[str, Any] = {}
    saved: dict[str, Any] = {}
    model, optimizer, sync = begin(has_it=False)
    optimizer.step()
    learn_and_wait(model, optimizer, 0)
    saved["model"], saved["sync"] = copy.deepcopy(model.state_dict()), sync.state_dict()
    learn_and_wait(model, optimizer, 2)
    found["whole"] = end(model, sync)
    for name in ("resumed", "late"):
        has_it = name == "resumed" or dist.get_rank() == 1
        model, optimizer, sync = begin(has_it)
        sync.load_state_dict(sync.from_newest(saved["sync"] if has_it else None))
        optimizer.step()
        learn_and_wait(model, optimizer, 2)
        found[name] = end(model, sync)
    return found


def outer_refusals() -> dict[str, str]:
    local = forebay.sync.LocalSteps
    model = make_model()
    rate = 0.1 * (1 + dist.get_rank())
    no_optimizer: Any = list

    def attached(strategy: Any) -> str:
        return refused(lambda: forebay.sync.attach(model, sgd(model), strategy))

    said = {
        "rates": attached(local(outer_rate=0.5, outer=outer_sgd)),
        "none": attached(local(outer=no_optimizer)),
        "differ": attached(local(outer=lambda parameters: torch.optim.SGD(parameters, rate))),
    }
    for fragments in (1, 2):
        strategy = local(steps=4, fragments=fragments, outer=outer_adamw)
        with forebay.sync.attach(model, sgd(model), strategy) as sync:
            if fragments == 1:
                kept = sync.state_dict()
            else:
                said["fragments"] = refused(partial(sync.load_state_dict, kept))
    optimizer = sgd(model)
    failing = local(steps=4, outer=lambda parameters: Fails(parameters, 0.1))
    with forebay.sync.attach(model, optimizer, failing) as sync:
        try:
            learn(model, optimizer, 8)
        except ArithmeticError as error:
            said["fails"] = f"after {sync.stats()['steps']} steps: {error}"
            sync._leave()
    return said


def first_weights() -> Any:
    """Different weights and statistics, also of a frozen layer, become those of rank 0."""
    model = make_model()
    model[-1].requires_grad_(False)
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.add_(dist.get_rank())
    forebay.sync.attach(model, sgd(model), "ako").close()
    return [weights_of(model), [float(b.float().sum()) for b in model.buffers()]]


def momentum_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [own["momentum_buffer"].clone() for own in optimizer.state.values()]


def rate_after_a_restart() -> Any:
    """Whether parameter servers move weights at a rate of 0 that is set after an uneven start."""
    model = make_model()
    optimizer = sgd(model)
    with forebay.sync.attach(model, optimizer, "ps", steps=dist.get_rank()) as sync:
        kept = sync.from_newest(dist.get_rank())
        before = weights_of(model)
        for group in optimizer.param_groups:
            group["lr"] = 0.0
        learn(model, optimizer, 5)
    return {"moved": before != weights_of(model), "kept": kept}


def comes_late() -> Any:
    """Rank 1 continues from a checkpoint that rank 0 does not have."""
    strategy = forebay.sync.LocalSteps(steps=10)
    model = make_model()
    optimizer = sgd(model)
    with forebay.sync.attach(model, optimizer, strategy) as sync:
        learn(model, optimizer, 30)
        state = sync.state_dict()
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    momentum_before = momentum_of(optimizer)
    has_it = dist.get_rank() == 1
    late = make_model()
    optimizer = sgd(late)
    if has_it:
        late.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    with forebay.sync.attach(late, optimizer, strategy, steps=30 if has_it else 0) as sync:
        sync.load_state_dict(sync.from_newest(state if has_it else None))
        kept = sync.state_dict()["kept"].values()
        numbers = [*late.parameters(), *late.buffers(), *momentum_of(optimizer), *kept]
        sums = [float(number.detach().double().sum()) for number in numbers]
        learn(late, optimizer, 10, 30)
    own = [*model.parameters(), *model.buffers(), *momentum_before]
    return {
        "sums": sums, "own": [float(number.detach().double().sum()) for number in own],
        "loss": loss_of(late),
    }  # fmt: skip


def refused(attach: Callable[[], Any]) -> str:
    try:
        attach()
    except (ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def refusals() -> Any:
    """The errors for invalid arguments and models."""
    attach = forebay.sync.attach
    model = make_model()
    weights = list(model.parameters())
    half = make_model().double()
    wider = nn.Linear(3 + dist.get_rank(), 2)
    others = [sgd(model), torch.optim.Adam(model.parameters())]
    kind = forebay.sync.Ako() if dist.get_rank() == 0 else forebay.sync.Pairs()
    counted = nn.Sequential(
        nn.Linear(3, 2), nn.BatchNorm1d(2, track_running_stats=dist.get_rank() == 0)
    )
    said = {
        "counted": refused(lambda: attach(counted, sgd(counted))),
        "name": refused(lambda: attach(model, sgd(model), "gossip")),
        "missing": refused(lambda: attach(model, torch.optim.SGD(weights[:1], 0.1))),
        "adam": refused(lambda: attach(model, torch.optim.Adam(model.parameters()), "ps")),
        "double": refused(lambda: attach(half, sgd(half))),
        "wider": refused(lambda: attach(wider, sgd(wider))),
        "strategies": refused(lambda: attach(model, sgd(model), kind)),
        "steps": refused(lambda: attach(model, sgd(model), steps=-1)),
        "optimizers": refused(lambda: attach(model, others[dist.get_rank()], "ako")),
        "server": refused(
            lambda: attach(model, sgd(model), forebay.sync.ParameterServers(servers=[2]))
        ),
        "encoding": refused(lambda: attach(model, sgd(model), forebay.sync.Ako(encoding="zip"))),
        "local_encoding": refused(
            lambda: attach(model, sgd(model), forebay.sync.LocalSteps(encoding="top"))
        ),
        "delay": refused(
            lambda: attach(model, sgd(model), forebay.sync.LocalSteps(steps=4, delay=4))
        ),
    }
    optimizer = sgd(model)
    with attach(model, optimizer, "ako"):
        learn(model, optimizer, 2)
        weights[1].grad = torch.full_like(weights[1], float("nan"))
        said["nan"] = refused(optimizer.step)
        weights[0].data = weights[0].data.clone()
        said["moved"] = refused(lambda: learn(model, optimizer, 1))
    model = make_model()
    model[-1].requires_grad_(False)
    optimizer = sgd(model)
    with attach(model, optimizer, "pairs"):
        learn(model, optimizer, 2)
        model[-1].requires_grad_(True)
        said["thawed"] = refused(lambda: learn(model, optimizer, 1))
    model = make_model()
    optimizer = sgd(model)
    with attach(model, optimizer, "local"):
        said["twice"] = refused(lambda: attach(model, sgd(model)))
    said["wrapped"] = refused(
        lambda: attach(nn.parallel.DistributedDataParallel(make_model()), sgd(model))
    )
    said["buffers"] = refused(lambda: attach(model, sgd(model), buffers="rank 0"))
    waits: tuple[Any, ...] = (0, -1, math.nan, "30", None)
    for seconds in waits:
        begin = partial(attach, model, sgd(model), wait_seconds=seconds)
        said[f"wait {seconds}"] = refused(begin)
    few = nn.Linear(1, 1, bias=False)
    said["servers"] = refused(lambda: attach(few, sgd(few), "ps"))
    with attach(model, optimizer, "ps", wait_seconds=math.inf):
        said["closure"] = refused(lambda: by_closure(model, optimizer))
    return said


def gradients_stay() -> Any:
    """Under a strategy that does not exchange gradients, a script may set any gradient tensors."""
    model = make_model()
    optimizer = sgd(model)
    weights = list(model.parameters())
    with forebay.sync.attach(model, optimizer, "pairs"):
        learn(model, optimizer, 1)
        own = [torch.zeros(weight.shape) for weight in weights]  # weights[0] has another layout
        for weight, gradient in zip(weights, own, strict=True):
            weight.grad = gradient
        optimizer.step()
        same = all(weight.grad is gradient for weight, gradient in zip(weights, own, strict=True))
        weights[0].grad = None
        weights[1].grad = torch.ones(1).expand_as(weights[1])
        optimizer.step()
        weights[1].grad = torch.full((1,), float("inf")).expand_as(weights[1])
        said = refused(optimizer.step)
    return {"same": same, "said": said}


def in_another_memory() -> Any:
    """Models on a GPU; without a GPU, models on the CPU that are treated like on a GPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    attach = forebay.sync.attach
    strategies = (
        "allreduce", forebay.sync.Ako(), forebay.sync.Ako(of="gradients"), "ps", "pairs",
        forebay.sync.LocalSteps(steps=12, fragments=3, delay=2),
    )  # fmt: skip
    found: dict[str, Any] = {"losses": []}

    def weights_after_different_steps() -> list[float]:
        model = make_model()
        optimizer = sgd(model)
        with attach(model, optimizer, forebay.sync.LocalSteps(steps=5)):
            learn(model, optimizer, 5 + 15 * dist.get_rank())
        return weights_of(model)

    found["ended"] = weights_after_different_steps()
    with mock.patch.object(numbers, "is_of_host", lambda tensor: False):
        found["ended elsewhere"] = weights_after_different_steps()
        theirs, ours = make_model(), make_model().to(device)
        wrapped = nn.parallel.DistributedDataParallel(theirs)
        learn(wrapped, sgd(theirs), 5)
        optimizer = sgd(ours)
        with attach(ours, optimizer, "allreduce"):
            learn(ours, optimizer, 5)
        apart = [a - b for a, b in zip(weights_of(theirs), weights_of(ours), strict=True)]
        found["apart"] = max(map(abs, apart))
        for strategy in strategies:
            model = make_model().to(device)
            optimizer = sgd(model)
            with attach(model, optimizer, strategy):
                learn_side_by_side(model, optimizer, 200)
            found["losses"].append(loss_of(model.cpu()))
        optimizer = sgd(ours)
        with attach(ours, optimizer, "pairs"):
            weight = next(ours.parameters())
            weight.grad = torch.full_like(weight, float("inf"))
            found["said"] = refused(optimizer.step)
    return found


def changes() -> Any:
    """The strategy changes several times, to each kind of strategy but "ps"; then the job ends."""
    other_local_steps = forebay.sync.LocalSteps(steps=24, fragments=2)
    choices: list[forebay.sync.Strategy] = [
        forebay.sync.Ako(), forebay.sync.LocalSteps(steps=12, fragments=3, delay=2),
    ]  # fmt: skip
    # Rank 0's decisions. The first is the present strategy, so all processes choose again.
    kinds: list[forebay.sync.Strategy] = [
        forebay.sync.Ako(), other_local_steps, forebay.sync.Ako(), forebay.sync.AllReduce(),
        forebay.sync.Pairs(), forebay.sync.AllReduce(),
    ]  # fmt: skip
    made: list[list[float]] = []
    shared: list[list[float]] = []
    momenta: list[float] = []  # of the outer optimizer
    ended: dict[str, Any] = {}  # what the previous exchange kept
    steps = began = 0

    def note_momentum(kept: dict[str, Any]) -> None:
        momenta.append(float(abs(kept["outer_momentum"]).sum()))

    class Listed(Policy):
        def next(self, seen: list[Seen]) -> forebay.sync.Strategy | None:
            # Local steps exchange each part of the model at least once.
            least = 30 if sync.strategy.name == "local" else 5
            is_due = kinds and min(one.steps for one in seen) > began + least
            return kinds.pop(0) if is_due else None

    guide = Guide(choose=lambda *_: choices.pop(0), policy=Listed, look_seconds=0.02)

    begin = Together._begin
    release = _core.Exchange.release

    def note_and_release(exchange: Any) -> None:
        nonlocal ended
        ended = exchange.kept()
        release(exchange)

    def begin_and_note(self: Together, *, apart: bool, first: Any) -> None:
        nonlocal began
        began = steps
        made.append([float(weights.detach().sum()) for weights in model.parameters()])
        shared.append([] if first is None else first.tolist())
        if self.strategy == other_local_steps:
            note_momentum(ended)
        begin(self, apart=apart, first=first)

    model = make_model()
    optimizer = sgd(model)
    with (
        forebay.sync.attach(model, optimizer, guide) as sync,
        mock.patch.object(Together, "_begin", begin_and_note),
        mock.patch.object(_core.Exchange, "release", note_and_release),
    ):
        while len(made) < 7 and steps < 5000:
            learn(model, optimizer, 1, steps)
            steps += 1
            if sync.strategy == other_local_steps and len(momenta) == 1:
                note_momentum(sync._together._exchange.kept())
        last = 100
        learn(model, optimizer, last, steps)
        return {
            "made": made, "shared": shared, "steps": steps + last, "stats": sync.stats(),
            "strategy": str(sync.strategy), "loss": loss_of(model), "weights": weights_of(model),
            "momenta": momenta, "left": len(choices),
        }  # fmt: skip


def averaged_weights() -> Any:
    """A model's weights during training, inside averaged_weights(), and at the end."""
    found = []
    strategies = (
        forebay.sync.Ako(), forebay.sync.Ako(of="gradients"), forebay.sync.Pairs(),
        forebay.sync.LocalSteps(steps=10), forebay.sync.LocalSteps(steps=12, fragments=3, delay=2),
    )  # fmt: skip
    for strategy in strategies:
        model = make_model()
        optimizer = sgd(model)
        with forebay.sync.attach(model, optimizer, strategy) as sync:
            learn(model, optimizer, 25)
            before = weights_of(model)
            with sync.averaged_weights():
                averaged = weights_of(model)
            own = weights_of(model)
            learn(model, optimizer, 2, 25)
            last = weights_of(model)
        with sync.averaged_weights():
            end = weights_of(model)
        found.append(
            {"before": before, "averaged": averaged, "own": own, "last": last, "end": end}
        )  # fmt: skip
    return found


def ends_apart() -> Any:
    """Rank 0 ends earlier than rank 1, also in the middle of a change or of a measurement."""
    pairs = forebay.sync.Pairs()

    class AlwaysPairs(Policy):
        def next(self, seen: list[Seen]) -> forebay.sync.Strategy:
            return pairs

    for first in (ALONE, pairs):  # A change to the present one measures again.
        guide = Guide(lambda *_, first=first: first, AlwaysPairs, look_seconds=0.02)
        for steps in range(3, 30, 3):
            model = make_model()
            optimizer = sgd(model)
            with forebay.sync.attach(model, optimizer, guide):
                learn(model, optimizer, steps * (1 + dist.get_rank()))
    return True


def all_learn() -> Any:
    """For each strategy, a job that continues from a checkpoint, and its statistics."""
    found = []
    for strategy in STRATEGIES:
        model = make_model()
        before = loss_of(model)
        optimizer = sgd(model)
        with forebay.sync.attach(model, optimizer, strategy) as sync:
            learn_side_by_side(model, optimizer, 60)
            state = sync.state_dict()
        saved = (model.state_dict(), optimizer.state_dict(), state)
        restarted = make_model()
        restarted.load_state_dict(saved[0])
        optimizer = sgd(restarted)
        optimizer.load_state_dict(saved[1])
        with forebay.sync.attach(restarted, optimizer, strategy) as sync:
            sync.load_state_dict(saved[2])
            again = sync.state_dict()["kept"]
            learn_side_by_side(restarted, optimizer, 240, 60)
            stats = sync.stats()
        found.append(
            {
                "before": before,
                "after": loss_of(restarted),
                "stats": stats,
                "kept": [float(tensor.abs().sum()) for tensor in state["kept"].values()],
                "weights": hashlib.sha256(str(weights_of(restarted)).encode()).hexdigest(),
                "same": all(torch.equal(again[name], state["kept"][name]) for name in again),
            }
        )
        dist.barrier()
    return found


def saved_by_tools() -> Any:
    """What common tools save of an attached model, and after the exchange."""
    from accelerate import Accelerator  # noqa: PLC0415
    from huggingface_hub import save_torch_model  # noqa: PLC0415
    from safetensors.torch import load_file, load_model, save_model  # noqa: PLC0415

    def restored(model: nn.Sequential, folder: Path) -> dict[str, bool]:
        found = {}
        save_model(model, str(folder / "one.safetensors"))
        other = make_other()
        load_model(other, str(folder / "one.safetensors"))
        found["safetensors"] = weights_of(other) == weights_of(model)
        (folder / "hub").mkdir()
        save_torch_model(model, folder / "hub")
        other.load_state_dict(load_file(folder / "hub/model.safetensors"))
        found["huggingface_hub"] = weights_of(other) == weights_of(model)
        Accelerator().save_model(model, folder / "accelerate")
        other.load_state_dict(load_file(folder / "accelerate/model.safetensors"))
        found["accelerate"] = weights_of(other) == weights_of(model)
        torch.save(model[-1].state_dict(), folder / "layer.pt")
        found["layer"] = (folder / "layer.pt").stat().st_size < 4000
        other.load_state_dict(model.state_dict())
        return found

    def make_other() -> nn.Sequential:
        torch.manual_seed(9)
        return nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, CLASSES))

    folder = Path(os.environ["FOLDER"]) / f"saved{dist.get_rank()}"
    model = make_other()
    optimizer = sgd(model)
    with forebay.sync.attach(model, optimizer, "allreduce"):
        learn(model, optimizer, 2)
        (folder / "during").mkdir(parents=True)
        during = restored(model, folder / "during")
    (folder / "after").mkdir()
    return {"during": during, "after": restored(model, folder / "after")}


def kept_gradients() -> Any:
    """Under all-reduce, gradients that a script keeps stay as they were."""
    model = nn.Linear(FEATURES, CLASSES)
    optimizer = sgd(model)
    kept = []
    with forebay.sync.attach(model, optimizer, "allreduce"):
        for step in range(2):  # PCGrad and others keep each loss's gradients
            x, y = batch(step)
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            kept.append([p.grad for p in model.parameters()])
        same = [a is b for a, b in zip(*kept, strict=True)]
        differ = [not torch.equal(a, b) for a, b in zip(*kept, strict=True)]
        x, y = batch(3)
        said = refused(lambda: functional.cross_entropy(model(x), y).backward(create_graph=True))
        sparse = nn.Embedding(5, 3, sparse=True)
        with forebay.sync.attach(sparse, torch.optim.SGD(sparse.parameters(), 0.1), "local"):
            sparse(torch.tensor([1])).sum().backward()
            not_dense = refused(torch.optim.SGD(sparse.parameters(), 0.1).step)
    return {"same": same, "differ": differ, "said": said, "not_dense": not_dense}


def frozen_later() -> Any:
    """Whether a layer moves that was frozen after attach(), by weight decay and momentum."""
    moved = {}
    for strategy in STRATEGIES:
        if strategy.name not in ("allreduce", "ps"):
            continue  # the others give all processes their mean of the layer
        model = make_model()
        optimizer = sgd(model)
        with forebay.sync.attach(model, optimizer, strategy):
            learn_side_by_side(model, optimizer, 10)
            model[-1].requires_grad_(False)
            optimizer.zero_grad()
            learn_side_by_side(model, optimizer, 10, 10)  # weights on their way arrive
            before = weights_of(model[-1])
            learn_side_by_side(model, optimizer, 10, 20)
            moved[repr(strategy)] = before != weights_of(model[-1])
    return moved


class Around(torch.optim.Optimizer):
    """Like SAM and Lookahead: an optimizer around another one, whose step() calls the other's."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, {})
        self.base_optimizer = inner
        self.param_groups = inner.param_groups

    def step(self, closure: Any = None) -> Any:
        self.base_optimizer.step()


def unusual_optimizers() -> Any:
    """Several optimizers, optimizers around others, further modules, and other kinds of numbers."""
    from accelerate import Accelerator  # noqa: PLC0415

    found = {}

    def run(name: str, model: Any, optimizers: list[Any], strategy: Any, given: Any) -> None:
        sync = forebay.sync.attach(model, given, strategy)
        modules = model if isinstance(model, list) else [model]
        for step in range(12):
            x, y = batch(100 * step + dist.get_rank())
            for optimizer in optimizers:
                optimizer.zero_grad()
            kind = next(modules[0].parameters()).dtype
            out = x.to(kind)
            for module in modules:
                out = module(out)
            functional.cross_entropy(out.float(), y).backward()
            for optimizer in optimizers:
                optimizer.step()
        steps = sync.stats()["steps"]
        sync.close()
        found[name] = {"steps": steps, "weights": [weights_of(module) for module in modules]}

    for strategy in ("allreduce", "ako", forebay.sync.LocalSteps(steps=3)):
        label = str(strategy)
        model = make_model()
        inner = sgd(model)
        run(f"around {label}", model, [Around(inner)], strategy, Around(inner))
        model = make_model()
        prepared = Accelerator(cpu=True).prepare_optimizer(sgd(model))
        run(f"accelerate {label}", model, [prepared], strategy, prepared)
        model = make_model()
        parts = list(model.parameters())
        both = [torch.optim.SGD(parts[:3], 0.01), torch.optim.AdamW(parts[3:], 0.001)]
        run(f"two {label}", model, both, strategy, both)
        backbone, head = nn.Linear(FEATURES, 16), nn.Linear(16, CLASSES)
        torch.manual_seed(dist.get_rank())
        both = [sgd(backbone), sgd(head)]
        run(f"modules {label}", [backbone, head], both, strategy, both)
        torch.manual_seed(3)
        half = nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, CLASSES)).bfloat16()
        optimizer = torch.optim.SGD(half.parameters(), 0.1)
        run(f"bfloat16 {label}", half, [optimizer], strategy, optimizer)
    return found


def buffers_at_the_end() -> Any:
    found = {}
    for how in ("mean", "own"):
        model = make_model()
        optimizer = sgd(model)
        with forebay.sync.attach(model, optimizer, "local", buffers=how):
            learn(model, optimizer, 5)
            own = [b.double().sum().item() for b in model.buffers()]
        found[how] = {"own": own, "end": [b.double().sum().item() for b in model.buffers()]}
    return found


def scale_is_agreed() -> Any:
    """Under "auto", a GradScaler whose scale one process has halved is the same in all later."""
    kinds = iter([forebay.sync.AllReduce()])
    guide = Guide(choose=lambda *_: next(kinds), look_seconds=0.02)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024)
    with forebay.sync.attach(model, optimizer, guide) as sync:
        for step in range(20):
            x, y = batch(10 * step + dist.get_rank())
            optimizer.zero_grad()
            factor = float("inf") if (step, dist.get_rank()) == (2, 1) else 1
            scaler.scale(functional.cross_entropy(model(x), y) * factor).backward()
            scaler.step(optimizer)
            scaler.update()
        during = {"scale": scaler.get_scale(), "strategy": sync.strategy.name}
    return {**during, "weights": weights_of(model)}


def steps_are_the_jobs() -> Any:
    """The error of a step that follows a change of the strategy."""
    guide = Guide(choose=lambda *_: forebay.sync.Pairs(), look_seconds=0.02)
    model = make_model()
    optimizer = sgd(model)
    with forebay.sync.attach(model, optimizer, guide) as sync:
        learn(model, optimizer, 20)
        weight = next(model.parameters())
        weight.grad = torch.full_like(weight, float("nan"))
        return [sync.strategy.name, refused(optimizer.step)]


def fused_optimizers() -> Any:
    """Trains under a GradScaler with fused optimizers, which unscale gradients, and with others.

    Rank 1 finds an overflow in one step.
    """
    found: dict[str, Any] = {}
    kinds = (torch.optim.SGD, torch.optim.Adam)
    gradients = forebay.sync.Ako(of="gradients")
    for strategy in ("allreduce", "ako", gradients, "ps", "pairs", forebay.sync.LocalSteps(10)):
        for kind in kinds[:1] if strategy == "ps" else kinds:
            found[f"{strategy} {kind.__name__}"] = own = []
            for fused in (False, True):
                model = make_model()
                optimizer: Any = kind(model.parameters(), 1e-3, fused=fused)
                scaler = torch.amp.GradScaler("cpu", init_scale=1024)
                with forebay.sync.attach(model, optimizer, strategy) as sync:
                    for step in range(40):
                        x, y = batch(10 * step + dist.get_rank())
                        optimizer.zero_grad()
                        factor = float("inf") if (step, dist.get_rank()) == (20, 1) else 1
                        scaler.scale(functional.cross_entropy(model(x), y) * factor).backward()
                        scaler.step(optimizer)
                        scaler.update()
                        if step % 10 == 9:
                            dist.barrier()
                    steps = sync.stats()["steps"]
                own.append({"steps": steps, "loss": loss_of(model)})
    return found


def waits_quietly() -> Any:
    """What is on standard error while rank 0 waits for rank 1 to call attach()."""
    path = Path(os.environ["FOLDER"]) / f"said{dist.get_rank()}"
    kept = os.dup(2)
    with path.open("w") as file:
        os.dup2(file.fileno(), 2)
    if dist.get_rank() == 1:
        time.sleep(2.5)
    model = make_model()
    forebay.sync.attach(model, sgd(model), "pairs").close()
    os.dup2(kept, 2)
    return path.read_text()


def compiled_step() -> Any:
    """Whether weights are the same if the script compiles optimizer.step()."""

    def weights_after(strategy: Any, *, compiles: bool) -> list[float]:
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        step = torch.compile(optimizer.step, backend="eager") if compiles else optimizer.step
        with forebay.sync.attach(model, optimizer, strategy):
            for number in range(6):
                x, y = batch(10 * number + dist.get_rank())
                optimizer.zero_grad()
                functional.cross_entropy(model(x), y).backward()
                step()
        return weights_of(model)

    return {
        str(strategy): [weights_after(strategy, compiles=compiles) for compiles in (False, True)]
        for strategy in ("allreduce", forebay.sync.LocalSteps(steps=3))
    }


def machines_with_two_each() -> Any:
    """Four processes: two "machines" of two, in which DistributedDataParallel averages."""
    inside, _ = dist.new_subgroups(group_size=2)
    found: dict[str, Any] = {}
    for strategy in ("ako", "pairs", forebay.sync.LocalSteps(steps=5)):
        model = make_model()
        wrapped = nn.parallel.DistributedDataParallel(model, process_group=inside)
        optimizer = sgd(wrapped)
        sync = forebay.sync.attach(wrapped, optimizer, strategy, replicas=inside)
        before = loss_of(model)
        learn_side_by_side(wrapped, optimizer, 60)
        during = weights_of(model)
        state = sync.state_dict()["strategy"]
        sync.close()
        found[str(strategy)] = {
            "place": [sync.rank, sync.world_size], "during": during, "end": weights_of(model),
            "before": before, "after": loss_of(model), "state": state,
            "buffers": [b.double().sum().item() for b in model.buffers()],
        }  # fmt: skip
    refuse = nn.parallel.DistributedDataParallel(make_model(), process_group=inside)
    found["said"] = refused(
        lambda: forebay.sync.attach(refuse, sgd(refuse), "allreduce", replicas=inside)
    )
    # The processes with the same place in their machines, as FSDP's replicas have it.
    across = [dist.new_group([place, place + 2]) for place in (0, 1)][dist.get_rank() % 2]
    model = make_model()
    optimizer = sgd(model)
    with forebay.sync.attach(model, optimizer, "allreduce", process_group=across) as sync:
        learn(model, optimizer, 5)
        found["across"] = {"place": [sync.rank, sync.world_size]}
    found["across"]["weights"] = weights_of(model)
    return found


def machines_with_shards() -> Any:
    """Four processes: two "machines" of two, in which FSDP cuts the model into two shards."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("across", "inside"))
    across = mesh["across"].get_group()
    machine = dist.get_rank() // 2

    def shard() -> Any:
        torch.manual_seed(3 + machine)
        model = nn.Sequential(nn.Linear(FEATURES, 33), nn.PReLU(), nn.Linear(33, CLASSES))
        return fully_shard(model, mesh=mesh["inside"])

    def attached(model: nn.Module, optimizer: Any, strategy: Any, **options: Any) -> Any:
        return forebay.sync.attach(model, optimizer, strategy, process_group=across, **options)

    def shard_of(model: Any) -> list[float]:
        return torch.cat([p.to_local().flatten() for p in model.parameters()]).tolist()

    found: dict[str, Any] = {}
    adamw = forebay.sync.LocalSteps(steps=5, fragments=2, outer=outer_adamw)
    for strategy in ("ako", "pairs", forebay.sync.LocalSteps(steps=5), adamw):
        model = shard()
        optimizer = sgd(model)
        with attached(model, optimizer, strategy) as sync:
            first = shard_of(model)
            before = loss_of(model)
            learn_side_by_side(model, optimizer, 60)
        found[f"{strategy} {strategy == adamw}"] = {
            "place": [sync.rank, sync.world_size], "first": first, "shard": shard_of(model),
            "whole": [p.full_tensor().tolist() for p in model.parameters()],
            "before": before, "after": loss_of(model),
        }  # fmt: skip
    # FSDP keeps whole weights after a forward pass without gradients.
    model = shard()
    optimizer = sgd(model)
    loss_of(model)
    with attached(model, optimizer, forebay.sync.LocalSteps(steps=5)) as sync:
        learn(model, optimizer, 8)
        losses = [loss_of(model)]
        with sync.averaged_weights():
            losses.append(loss_of(model))
        found["losses"] = [*losses, loss_of(model)]
    # The second machine goes on; the first one joins without a checkpoint.
    late = shard()
    joined = sgd(late)
    if machine == 1:
        late.load_state_dict(model.state_dict())
        joined.load_state_dict(optimizer.state_dict())
    with attached(late, joined, "pairs", steps=machine):
        found["joined"] = [digest([local_of(one) for one in momentum_of(joined)]), shard_of(late)]
        learn_side_by_side(late, joined, 10)
    said = {
        "gradients": refused(lambda: attached(late, joined, "allreduce")),
        "replicas": refused(
            lambda: forebay.sync.attach(late, joined, "ako", replicas=mesh["inside"].get_group())
        ),
        "all": refused(lambda: forebay.sync.attach(late, joined, "ako")),
    }
    return found | said


def waits_for_another() -> Any:
    """Trains, with its own checkpoint, until there are two processes, and then some steps more."""
    model = make_model()
    optimizer = sgd(model)
    path = Path(os.environ["FOLDER"]) / "checkpoint.pt"
    saved: dict[str, Any] = torch.load(path) if path.exists() else {"steps": 0}
    if saved["steps"]:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    with forebay.sync.attach(model, optimizer, "ako", steps=saved["steps"]) as sync:
        first = sync.from_newest(saved["steps"])
        steps, loss = first, loss_of(model)
        until = time.monotonic() + 100
        while (sync.world_size == 1 or steps < first + 40) and time.monotonic() < until:
            learn(model, optimizer, 20, steps)
            steps += 20
            state = {
                "model": model.state_dict(), "optimizer": optimizer.state_dict(), "steps": steps,
            }  # fmt: skip
            torch.save(state, path.with_suffix(".part"))
            path.with_suffix(".part").rename(path)
    return {"first": first, "own": saved["steps"], "loss": loss}


def one_dies() -> Any:
    """Rank 1 is killed in the middle; the other ranks go on."""
    model = make_model()
    optimizer = sgd(model)
    sync = forebay.sync.attach(model, optimizer, os.environ["STRATEGY"])
    learn(model, optimizer, 40)
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    learn(model, optimizer, 100, first=40)
    sync.close()
    return {"loss": loss_of(model), "stats": sync.stats()}


def machine_falls_silent() -> Any:
    """The link between the two machines is taken away after some steps."""
    model = make_model()
    optimizer = sgd(model)
    folder = Path(os.environ["FOLDER"])
    sync = forebay.sync.attach(model, optimizer, os.environ["STRATEGY"], wait_seconds=3)
    learn(model, optimizer, 150)
    (folder / f"ready{dist.get_rank()}").touch()
    while not (folder / "cut").exists():
        time.sleep(0.01)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        said = refused(lambda: learn(model, optimizer, 150, 150))
    sync._leave()
    return {"said": said, "warned": [str(one.message) for one in warned], "left": sync.world_size}


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    path = Path(sys.argv[1])
    scenarios = [globals()[name] for name in sys.argv[2:]]
    found = {scenario.__name__: scenario() for scenario in scenarios}
    path.with_name(f"{path.name}{dist.get_rank()}").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
