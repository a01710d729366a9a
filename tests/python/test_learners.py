"""Tests forebay.learners: several learners on one device, on batches of packed images."""

import contextlib
import copy
import io
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import forebay
import forebay.learners
from conftest import CLASSES
from forebay import transforms as T
from forebay.learners import attaching

SIDE = 16
NUMBERS = 3 * SIDE * SIDE
BOTH = ("threads", "fused")
RATE, MOMENTUM, DECAY = 0.05, 0.9, 1e-3
Batch = tuple[torch.Tensor, torch.Tensor]

pytestmark = pytest.mark.filterwarnings("ignore:learners. .* learners have .* cores")


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Learners share the caller's threads, of which a machine's tests may have one alone."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def batches(packed: Path) -> list[Batch]:
    """Returns 20 batches of 4 or 2 images, float32 [images, 3, SIDE, SIDE], and their classes."""
    loader = forebay.Loader(packed, 4, transform=T.train(SIDE), seed=3, drop_last=False)
    found = [(images.clone(), labels.clone()) for images, labels in loader]
    assert len(found) == 18 and len(found[-1][1]) == 2
    return [*found, *found[:2]]


class Net(nn.Module):
    """A small convolutional network with batch norm, and a parameter without dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, 2, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.linear = nn.Linear(4, CLASSES)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * self.linear(self.norm(self.conv(x)).relu().mean((2, 3)))


class Dropping(nn.Module):
    """Drops inputs and whole channels, after which it is linear."""

    def __init__(self) -> None:
        super().__init__()
        self.channels, self.linear = nn.Dropout2d(0.3), nn.Linear(NUMBERS, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(functional.dropout(self.channels(x).flatten(1), 0.5, self.training))


class Counting(nn.Module):
    """Counts its calls in an attribute that is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Net()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.inner(x)


class Choosy(nn.Module):
    """Does something else where its input is dark, which vmap cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x if x.mean().item() > 0 else -x)


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(NUMBERS, CLASSES))


def loss_of(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(images), labels)


def make(
    kind: Callable[[], nn.Module], learners: int, optimizer: Any = None, **options: Any
) -> tuple[nn.Module, torch.optim.Optimizer, forebay.learners.Learners]:
    """Makes a model, the same in each call, an optimizer and learners."""
    torch.manual_seed(1)
    model = kind()
    if optimizer is None:
        made: torch.optim.Optimizer = torch.optim.SGD(
            model.parameters(), RATE, MOMENTUM, weight_decay=DECAY
        )
    else:
        made = optimizer(model.parameters())
    return model, made, forebay.learners.attach(model, made, learners, **options)


def train(kind: Callable[[], nn.Module], learners: int, batches: list[Batch], **options: Any):
    """Returns the numbers of a model that has learned from the batches, with its buffers."""
    model, _, made = make(kind, learners, **options)
    for batch in batches:
        made.step(loss_of, *batch)
    made.finish()
    return numbers(model)


def numbers(model: nn.Module) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten().double() for tensor in model.state_dict().values()])


class Reference:
    """SMA of softmax regressions in float64: Crossbow's equations, and SGD's of PyTorch."""

    def __init__(self, model: nn.Module, learners: int) -> None:
        weights, bias = (p.detach().double().numpy() for p in model.parameters())
        self.z = np.concatenate([weights, bias[:, None]], 1)
        self.moved = np.zeros_like(self.z)
        self.w = [self.z.copy() for _ in range(learners)]
        self.v = [np.zeros_like(self.z) for _ in range(learners)]

    def step(self, batches: list[Batch]) -> None:
        alpha = 1 / len(self.w)
        corrections = [alpha * (w - self.z) for w in self.w]
        for i, (images, labels) in enumerate(batches):
            x = np.concatenate([images.flatten(1).double().numpy(), np.ones((len(images), 1))], 1)
            scores = np.exp(x @ self.w[i].T)
            error = scores / scores.sum(1, keepdims=True) - np.eye(CLASSES)[labels.numpy()]
            self.v[i] = MOMENTUM * self.v[i] + error.T @ x / len(x) + DECAY * self.w[i]
            self.w[i] -= RATE * self.v[i]
        if len(self.w) == 1:
            self.z = self.w[0]
            return
        for w, correction in zip(self.w, corrections, strict=True):
            w -= correction
        self.moved = sum(corrections) + 0.9 * self.moved
        self.z = self.z + self.moved


# The last batch has two images instead of four, and with three learners one rests at the end.
@pytest.mark.parametrize("execution", BOTH)
@pytest.mark.parametrize("learners", [1, 2, 3])
def test_averaging_is_that_of_the_equations(batches: list[Batch], learners: int, execution: str):
    model, _, made = make(linear, learners, execution=execution)
    reference = Reference(model, learners)
    for batch in batches:
        made.step(loss_of, *batch)
    made.finish()
    for i in range(0, len(batches), learners):
        reference.step(batches[i : i + learners])
    weights, bias = (p.detach().numpy() for p in model.parameters())
    np.testing.assert_allclose(weights, reference.z[:, :-1], rtol=0, atol=2e-5)
    np.testing.assert_allclose(bias, reference.z[:, -1], rtol=0, atol=2e-5)
    assert made.stats["steps"] == -(-len(batches) // learners)


@pytest.mark.parametrize("averaging", ["sma", "sgd", "local"])
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW", "RMSprop"])
def test_both_executions_agree(batches: list[Batch], averaging: str, optimizer: str):
    kind = getattr(torch.optim, optimizer)
    options = {"averaging": averaging, "optimizer": lambda own: kind(own, lr=0.01)}
    steps = {} if averaging == "sgd" else {"averaging_steps": 2}
    threads, fused = (
        train(Net, 3, batches[:15], execution=execution, **options, **steps) for execution in BOTH
    )
    torch.testing.assert_close(threads, fused, rtol=1e-4, atol=1e-4)


# The optimizer has made a step before attach(), so every learner begins with its moments.
@pytest.mark.parametrize("execution", BOTH)
def test_learners_begin_with_the_optimizers_state(batches: list[Batch], execution: str):
    torch.manual_seed(1)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loss_of(model, *batches[0]).backward()
    optimizer.step()
    single = copy.deepcopy(model)
    further = torch.optim.Adam(single.parameters(), lr=0.01)
    further.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    further.zero_grad()
    loss_of(single, *batches[1]).backward()
    further.step()
    learners = forebay.learners.attach(model, optimizer, 2, execution=execution)
    learners.step(loss_of, *batches[1])
    learners.step(loss_of, *batches[1])
    for row, state in zip(
        learners.state_dict()["weights"], learners.state_dict()["optimizers"], strict=True
    ):
        wanted = torch.cat([parameter.detach().flatten() for parameter in single.parameters()])
        torch.testing.assert_close(row, wanted, rtol=1e-5, atol=1e-5)
        for got, moments in zip(
            state["state"].values(), further.state_dict()["state"].values(), strict=True
        ):
            torch.testing.assert_close(got, moments, rtol=1e-4, atol=1e-6)


# Each learner has its own number, and an array that cannot be stacked.
def test_batches_may_be_of_any_form(batches: list[Batch]):
    def weighted(model: nn.Module, batch: dict[str, Any], share: float) -> torch.Tensor:
        assert batch["names"].shape == (1,)
        return share * loss_of(model, *batch["pair"])

    after = []
    for execution in BOTH:
        model, _, made = make(Net, 2, execution=execution)
        for i, pair in enumerate(batches[:8]):
            made.step(weighted, {"pair": pair, "names": np.array([i])}, [0.5, 2.0][i % 2])
        made.finish()
        after.append(numbers(model))
    torch.testing.assert_close(*after, rtol=1e-4, atol=1e-4)


def test_one_learner_has_the_bits_of_a_plain_loop(batches: list[Batch]):
    torch.manual_seed(1)
    model = Dropping()
    optimizer = torch.optim.SGD(model.parameters(), RATE, MOMENTUM, weight_decay=DECAY)
    for images, labels in batches:
        optimizer.zero_grad()
        loss_of(model, images, labels).backward()
        optimizer.step()
    assert torch.equal(numbers(model), train(Dropping, 1, batches))


def test_mean_gradients_are_those_of_one_large_batch(batches: list[Batch]):
    torch.manual_seed(1)
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), RATE, MOMENTUM, weight_decay=DECAY)
    for i in range(0, len(batches), 3):
        images, labels = (torch.cat(each) for each in zip(*batches[i : i + 3], strict=True))
        optimizer.zero_grad()
        loss_of(model, images, labels).backward()
        optimizer.step()
    for execution in BOTH:
        got = train(linear, 3, batches, averaging="sgd", execution=execution)
        torch.testing.assert_close(got, numbers(model), rtol=1e-5, atol=1e-5)


# 18 batches, of which the last one is smaller, are 9 steps of 2 learners.
@pytest.mark.parametrize("kind", [Net, Dropping])
@pytest.mark.parametrize("execution", BOTH)
def test_a_resumed_run_has_the_same_bits(batches: list[Batch], kind: Any, execution: str):
    straight = train(kind, 2, batches[:18], execution=execution)
    assert torch.equal(straight, train(kind, 2, batches[:18], execution=execution))
    _, _, first = make(kind, 2, execution=execution)
    for batch in batches[:8]:
        first.step(loss_of, *batch)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    torch.manual_seed(99)
    model = kind()
    optimizer = torch.optim.SGD(model.parameters(), lr=9.0)
    second = forebay.learners.attach(model, optimizer, 2, execution=execution)
    second.load_state_dict(torch.load(file))
    assert optimizer.param_groups[0]["lr"] == RATE and second.stats["steps"] == 4
    for batch in batches[8:18]:
        second.step(loss_of, *batch)
    second.finish()
    assert torch.equal(straight, numbers(model))


@pytest.mark.parametrize("execution", BOTH)
def test_a_learner_that_is_not_finite_is_named(batches: list[Batch], execution: str):
    model, _, made = make(Net, 3, execution=execution)
    for batch in batches[:3]:
        made.step(loss_of, *batch)
    before = made.state_dict()
    images, labels = batches[4]
    made.step(loss_of, *batches[3])
    made.step(loss_of, torch.full_like(images, torch.nan), labels)
    with pytest.raises(ValueError, match=r"the loss of learner 1 \(of 0 to 2\) is not finite"):
        made.step(loss_of, *batches[5])

    def bent(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (model(images).sum() * 0).sqrt()  # 0, with an infinite derivative

    made.step(loss_of, *batches[6])
    made.step(loss_of, *batches[7])
    with pytest.raises(ValueError, match=r"the gradient of scale of learner 2"):
        made.step(bent, *batches[8])
    assert torch.equal(before["weights"], made.state_dict()["weights"])
    made.finish()
    assert all(parameter.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("kind", [KeyError, SystemExit])
def test_an_exception_comes_to_the_caller_and_ends_the_threads(batches: list[Batch], kind: Any):
    others = set(threading.enumerate())
    _, _, made = make(Net, 2, execution="threads")
    made.step(loss_of, *batches[0])
    made.step(loss_of, *batches[1])
    before = made.state_dict()["weights"]
    ours = set(threading.enumerate()) - others
    assert len(ours) == 2

    def failing(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        raise kind("no such column")

    made.step(loss_of, *batches[2])
    with pytest.raises(kind, match="no such column") as caught:
        made.step(failing, *batches[3])
    assert caught.traceback[-1].name == "failing"
    assert not any(thread.is_alive() for thread in ours)
    assert torch.equal(before, made.state_dict()["weights"])
    made.step(loss_of, *batches[4])
    made.step(loss_of, *batches[5])
    assert made.stats["steps"] == 2


def test_learners_share_the_callers_threads(batches: list[Batch]):
    counts: list[int] = []

    def noting(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        counts.append(torch.get_num_threads())
        return loss_of(model, images, labels)

    outside = torch.get_num_threads()
    torch.set_num_threads(6)
    try:
        _, _, made = make(Net, 3, execution="threads")
        for batch in batches[:3]:
            made.step(noting, *batch)
        assert counts == [2, 2, 2]
        other = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
        other.start()
        other.join()
        assert counts[3] == torch.get_num_threads() == 6
    finally:
        torch.set_num_threads(outside)


def test_every_batch_is_learned_from_once(batches: list[Batch]):
    seen: list[list[float]] = []

    def noting(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        seen[-1].append(images.sum().item())
        return loss_of(model, images, labels)

    _, _, made = make(Net, 3, execution="threads")
    for i, batch in enumerate(batches[:8]):
        if i % 3 == 0:
            seen.append([])
        made.step(noting, *batch)
    made.finish()
    wanted = [images.sum().item() for images, _ in batches[:8]]
    assert [sorted(each) for each in seen] == [
        sorted(wanted[begin : begin + 3]) for begin in (0, 3, 6)
    ]


def test_other_random_functions_are_told(batches: list[Batch]):
    def noisy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return loss_of(model, functional.rrelu(images, training=True), labels)

    _, _, made = make(Net, 2, execution="threads")
    made.step(noisy, *batches[0])
    with pytest.warns(UserWarning, match="draws from PyTorch's global random numbers"):
        made.step(noisy, *batches[1])


def test_state_outside_of_tensors(batches: list[Batch]):
    model, _, made = make(Counting, 2)
    made.step(loss_of, *batches[0])
    made.step(loss_of, *batches[1])
    assert made.stats["execution"] == "threads"
    assert "changes attributes that are no tensors" in made.stats["reason"]
    assert made.stats["reason"].endswith("calls")
    with pytest.warns(UserWarning, match=r"\(calls\); each learner has its own"):
        made.finish()
    assert model.calls == 0


@pytest.mark.parametrize(
    ("kind", "optimizer", "reason"),
    [
        (Choosy, None, "module the model \\(Choosy\\): .*item"),
        (linear, lambda own: torch.optim.ASGD(own), "the optimizer ASGD is not known"),
    ],
)
def test_what_cannot_be_fused_is_named(batches: list[Batch], kind: Any, optimizer: Any, reason):
    _, _, made = make(kind, 2, optimizer=optimizer, execution="fused")
    made.step(loss_of, *batches[0])
    with pytest.raises(RuntimeError, match=f"they cannot be fused: {reason}"):
        made.step(loss_of, *batches[1])


def test_the_first_step_chooses_without_a_trace(batches: list[Batch]):
    model, _, chosen = make(Dropping, 2)
    torch.manual_seed(5)
    for batch in batches[:4]:
        chosen.step(loss_of, *batch)
    after = torch.rand(1)
    chosen.finish()
    stats = chosen.stats
    assert set(stats["seconds"]) == {"threads", "fused"} and stats["execution"] in BOTH
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(1))
    assert torch.equal(
        numbers(model), train(Dropping, 2, batches[:4], execution=stats["execution"])
    )


@pytest.mark.parametrize("is_inside", [False, True])
def test_autocast_means_threads(batches: list[Batch], is_inside: bool):
    kinds = []

    def noting(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16) if is_inside else contextlib.nullcontext():
            out = model(images)
        kinds.append(out.dtype)
        return functional.cross_entropy(out.float(), labels)

    _, _, made = make(linear, 2)
    with contextlib.nullcontext() if is_inside else torch.autocast("cpu", torch.bfloat16):
        made.step(noting, *batches[0])
        made.step(noting, *batches[1])
    assert kinds[-2:] == [torch.bfloat16] * 2
    assert made.stats["execution"] == "threads"
    assert "vmap ignores torch.autocast" in made.stats["reason"]


@pytest.mark.parametrize("execution", BOTH)
def test_a_lower_rate_begins_anew_from_the_central_model(batches: list[Batch], execution: str):
    _, optimizer, made = make(Net, 2, execution=execution)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # also the scheduler's, about an optimizer without steps
        for i, batch in enumerate(batches[:8]):
            made.step(loss_of, *batch)
            if i == 5:
                scheduler.step()
                first, second = made.state_dict()["weights"]
                assert not torch.equal(first, second)
    state = made.state_dict()
    for row in state["weights"]:
        assert torch.equal(row, state["averaging"]["central"])
    assert {own["param_groups"][0]["lr"] for own in state["optimizers"]} == {RATE * 0.1}


@pytest.mark.parametrize("execution", BOTH)
def test_learners_follow_the_models_mode(batches: list[Batch], execution: str):
    model, _, made = make(Net, 2, execution=execution)
    model.eval()
    for batch in batches[:4]:
        made.step(loss_of, *batch)
    made.finish()
    assert torch.equal(model.state_dict()["norm.running_mean"], torch.zeros(4))
    model.train()
    for batch in batches[:4]:
        made.step(loss_of, *batch)
    made.finish()
    assert not torch.equal(model.state_dict()["norm.running_mean"], torch.zeros(4))
    assert model.state_dict()["norm.num_batches_tracked"] == 2


# The statistics that validation uses are the script's own.
@pytest.mark.parametrize("execution", BOTH)
def test_batch_norms_may_be_computed_anew(batches: list[Batch], execution: str):
    straight = train(Net, 2, batches[:8], execution=execution)
    model, _, made = make(Net, 2, execution=execution)
    for batch in batches[:4]:
        made.step(loss_of, *batch)
    made.finish()
    before = numbers(model)
    torch.optim.swa_utils.update_bn(batches[:4], model)
    assert not torch.equal(before, numbers(model))
    for batch in batches[4:8]:
        made.step(loss_of, *batch)
    made.finish()
    assert torch.equal(straight, numbers(model))


@pytest.mark.filterwarnings("default:learners")
def test_more_learners_than_cores_are_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attaching, "usable_cores", lambda: 2)
    with pytest.warns(UserWarning, match="3 learners have 2 cores"):
        make(linear, 3)


def test_changes_from_outside_are_refused(batches: list[Batch]):
    model, _, made = make(Net, 2, execution="threads")
    made.step(loss_of, *batches[0])
    with pytest.raises(RuntimeError, match="1 of 2 learners have a batch; call finish"):
        made.state_dict()
    made.step(loss_of, *batches[1])
    made.finish()
    state = made.state_dict()
    made.load_state_dict(state)
    model.load_state_dict(Net().state_dict())
    made.step(loss_of, *batches[2])
    with pytest.raises(RuntimeError, match="parameters were changed, moved or frozen"):
        made.step(loss_of, *batches[3])
    _, _, other = make(Net, 3)
    with pytest.raises(ValueError, match="the checkpoint has the options .*'learners': 2"):
        other.load_state_dict(state)
    _, _, other = make(Net, 2, execution="fused")
    with pytest.raises(ValueError, match="made with execution='threads', not 'fused'"):
        other.load_state_dict(state)
    _, _, other = make(linear, 2)
    with pytest.raises(ValueError, match="the checkpoint is of another model"):
        other.load_state_dict(state)


class Locked(nn.Module):
    """Has a lock, which cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.lock = threading.Lock()


@pytest.mark.parametrize(
    ("learners", "options", "message"),
    [
        ("auto", {}, "'auto' is not supported yet"),
        (0, {}, "learners 0: use 1 to 64"),
        (2.5, {}, "learners is 2.5"),
        (2, {"averaging": "mean"}, "averaging mean: use sma, sgd or local"),
        (2, {"averaging_steps": 0}, "averaging_steps is 0"),
        (2, {"averaging_rate": 3.0}, "averaging_rate 3: 2 learners are stable with rates"),
        (2, {"momentum": 1.0}, "momentum"),
        (2, {"execution": "processes"}, "execution is 'processes'"),
        (2, {"optimizer": torch.optim.LBFGS}, "LBFGS evaluates a closure several times"),
        (2, {"optimizer": lambda own: torch.optim.SGD([*own][1:])}, r"\['scale'\]"),
        (2, {"optimizer": lambda own: torch.optim.SGD([*own, torch.ones(1)])}, "does not have"),
        (2, {"kind": lambda: Net().double()}, "scale is torch.float64"),
        (2, {"kind": lambda: Net().requires_grad_(False)}, "no parameters that require gradients"),
    ],
)
def test_invalid_arguments_are_named(learners: Any, options: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        make(options.pop("kind", Net), learners, **options)


def test_a_model_that_cannot_be_copied_is_named(batches: list[Batch]):
    _, _, made = make(lambda: nn.Sequential(Locked()), 2, execution="threads")
    made.step(loss_of, *batches[0])
    with pytest.raises(ValueError, match=r"the module '0' \(Locked\) cannot be copied"):
        made.step(loss_of, *batches[1])


class Failing(torch.optim.SGD):
    """Fails in the step after its rate was set to 0."""

    def step(self, closure: Any = None) -> Any:
        if self.param_groups[0]["lr"] == 0:
            raise ArithmeticError("no rate")
        return super().step()


def test_after_an_optimizers_error_only_a_checkpoint_helps(batches: list[Batch]):
    _, optimizer, made = make(Net, 2, lambda own: Failing(own, lr=RATE), execution="threads")
    made.step(loss_of, *batches[0])
    made.step(loss_of, *batches[1])
    state = made.state_dict()
    optimizer.param_groups[0]["lr"] = 0
    made.step(loss_of, *batches[2])
    with pytest.raises(ArithmeticError):
        made.step(loss_of, *batches[3])
    for refused in (made.finish, made.state_dict):
        with pytest.raises(RuntimeError, match=r"load a checkpoint \(ArithmeticError: no rate\)"):
            refused()
    made.load_state_dict(state)
    made.step(loss_of, *batches[2])
    made.step(loss_of, *batches[3])
    assert optimizer.param_groups[0]["lr"] == RATE
    assert made.stats["steps"] == 2


@pytest.mark.parametrize("execution", BOTH)
def test_a_loss_of_several_numbers_is_refused(batches: list[Batch], execution: str):
    def whole(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(images), labels, reduction="none")

    _, _, made = make(Net, 2, execution=execution)
    made.step(whole, *batches[0])
    with pytest.raises(ValueError, match=r"loss_of returned a tensor of shape \(4,\)"):
        made.step(whole, *batches[1])
