"""Fused learners: the same layer of all learners is one operation (torch.func.vmap).

HFTA (Wang and others, "Horizontally Fused Training Array", MLSys 2021) shows what this is worth on
accelerators; on a processor it is worth something where operations are very small.
"""

import copy
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import torch
from torch.func import functional_call, vmap
from torch.utils._pytree import tree_flatten, tree_unflatten

from forebay.learners.copies import copy_of_optimizer, copy_settings
from forebay.learners.execution import Origin, Task, not_finite
from forebay.learners.randomness import HeldRandom

# Optimizers of torch.optim that compute each number by itself. Others, such as LARS, compute with
# norms of whole parameters, which would be norms over all learners.
_BY_NUMBER = ("Adadelta", "Adagrad", "Adam", "Adamax", "AdamW", "NAdam", "RAdam", "RMSprop", "SGD")
# What they keep for a whole parameter, and thus for all learners together. All else they keep is
# tensors of a parameter's shape.
_OF_ALL = ("step", "mu_product")


def check_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Checks that one optimizer can update the stacked numbers of several learners.

    Raises:
        ValueError: It may compute with more than one number of a parameter.
    """
    kind = type(optimizer)
    if kind not in [getattr(torch.optim, name) for name in _BY_NUMBER]:
        raise ValueError(
            f"the optimizer {kind.__name__} is not known to compute each number by itself, as "
            f"{', '.join(_BY_NUMBER)} of torch.optim do"
        )
    if any(group.get("fused") for group in optimizer.param_groups):
        raise ValueError(f"the optimizer {kind.__name__} has fused=True; leave it out")


class Fused:
    """Learners whose parameters are stacked, so that one call of the model serves them all.

    The user's model is called, with its parameters and buffers replaced for the time of the call.
    See `Execution` for the methods.
    """

    name = "fused"

    def __init__(self, origin: Origin) -> None:
        check_optimizer(origin.optimizer)
        self._origin = origin
        self._call = _Call(origin.model)
        self.weights = origin.layout.rows_of(origin.model, origin.learners)
        self.gradients = origin.rows_of_gradients()
        stacked = origin.layout.of_rows(self.weights)
        self._parameters = {
            f"model.{name}": own.requires_grad_()
            for name, own in zip(origin.layout.names, stacked, strict=True)
        }
        self._buffers = {
            f"model.{name}": torch.stack([own.detach()] * origin.learners)
            for name, own in origin.model.named_buffers()
        }
        self._optimizer = copy_of_optimizer(origin.optimizer, origin.parameters, stacked)
        self.load_optimizer_states([origin.optimizer.state_dict()] * origin.learners)
        self._random = HeldRandom(origin.seeds[0])

    @property
    def has_drawn(self) -> bool:
        """Whether the learners have drawn random numbers."""
        return self._random.has_drawn

    def compute(self, tasks: Sequence[Task]) -> list[float]:
        """See `Execution.compute`."""
        self._optimizer.zero_grad(set_to_none=True)
        losses = []
        with self._random:
            for begin, alike in _runs(tasks):
                losses.append(self._compute_alike(begin, alike))
        found = torch.cat(losses)
        self._check_finite(found)
        if self._origin.averages_gradients:
            self._fetch_gradients()
        return found.tolist()  # type: ignore[no-any-return]

    def _compute_alike(self, begin: int, tasks: list[Task]) -> torch.Tensor:
        """Computes the losses of learners from `begin` on, whose batches have equal shapes."""
        end = begin + len(tasks)
        leaves = [tree_flatten(task.batch)[0] for task in tasks]
        form = tree_flatten(tasks[0].batch)[1]
        stacked: list[Any] = []
        for each in zip(*leaves, strict=True):
            is_tensor = isinstance(each[0], torch.Tensor)
            stacked.append(torch.stack(each) if is_tensor else each[0])
        dims = [0 if isinstance(leaf, torch.Tensor) else None for leaf in stacked]

        def one(tensors: dict[str, torch.Tensor], *leaves: Any) -> torch.Tensor:
            task = Task(tasks[0].loss_of, tree_unflatten(list(leaves), form))
            loss: torch.Tensor = functional_call(self._call, tensors, (task,))
            return loss

        tensors = {**self._parameters, **self._buffers}
        if len(tasks) < self._origin.learners:
            tensors = {name: tensor[begin:end] for name, tensor in tensors.items()}
        losses: torch.Tensor = vmap(one, in_dims=(0, *dims), randomness="different")(
            tensors, *stacked
        )
        losses.sum().backward()
        return losses.detach()

    def _check_finite(self, losses: torch.Tensor) -> None:
        found = [("the loss", losses)]
        for name, parameter in self._parameters.items():
            if parameter.grad is not None:
                sums = parameter.grad.reshape(len(parameter), -1).sum(1)
                found.append((f"the gradient of {name.removeprefix('model.')}", sums))
        if torch.stack([sums.sum() for _, sums in found]).isfinite().all():
            return
        for what, sums in found:
            for learner, is_finite in enumerate(sums.isfinite().tolist()):
                if not is_finite:
                    raise not_finite(learner, self._origin.learners, what)

    @torch.no_grad()
    def _fetch_gradients(self) -> None:
        parts = self._origin.layout.of_rows(self.gradients)
        for parameter, part in zip(self._parameters.values(), parts, strict=True):
            if parameter.grad is None:
                part.zero_()
            else:
                part.copy_(parameter.grad)
            parameter.grad = part

    def update(self, active: int) -> None:
        """See `Execution.update`."""
        copy_settings(self._origin.optimizer, self._optimizer)
        resting = range(active, self._origin.learners)
        states = self.optimizer_states() if resting else []
        weights = self.weights[active:].clone()
        self._optimizer.step()
        if resting:  # they got the update for a gradient of zero
            self.weights[active:] = weights
            now = self.optimizer_states()
            self.load_optimizer_states([*now[:active], *states[active:]])

    def buffers(self) -> dict[str, list[torch.Tensor]]:
        """See `Execution.buffers`."""
        return {name.removeprefix("model."): list(own) for name, own in self._buffers.items()}

    def optimizer_states(self) -> list[dict[str, Any]]:
        """See `Execution.optimizer_states`."""
        whole = self._optimizer.state_dict()
        return [
            {**whole, "state": {key: _row(own, i) for key, own in whole["state"].items()}}
            for i in range(self._origin.learners)
        ]

    def load_optimizer_states(self, states: Sequence[dict[str, Any]]) -> None:
        """See `Execution.load_optimizer_states`."""
        stacked = {
            key: _stacked([state["state"][key] for state in states]) for key in states[0]["state"]
        }
        self._optimizer.load_state_dict({**states[0], "state": stacked})

    def random_states(self) -> list[torch.Tensor]:
        """See `Execution.random_states`."""
        return [self._random.state]

    def load_random_states(self, states: Sequence[torch.Tensor]) -> None:
        """See `Execution.load_random_states`."""
        self._random.state = states[0]


def _is_by_learner(name: str, value: Any) -> bool:
    return isinstance(value, torch.Tensor) and name not in _OF_ALL


def _row(state: dict[str, Any], learner: int) -> dict[str, Any]:
    """Returns one learner's part of what an optimizer keeps for a stacked parameter."""
    return {
        name: value[learner].clone() if _is_by_learner(name, value) else copy.deepcopy(value)
        for name, value in state.items()
    }


def _stacked(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns what an optimizer keeps for a stacked parameter, from the learners' parts."""
    return {
        name: torch.stack([state[name] for state in states])
        if _is_by_learner(name, value)
        else copy.deepcopy(value)
        for name, value in states[0].items()
    }


class _Call(torch.nn.Module):
    """A module whose call computes the loss of a task."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, task: Task) -> torch.Tensor:
        """Returns the loss of a task."""
        return task.loss(self.model)


def _runs(tasks: Sequence[Task]) -> Iterator[tuple[int, list[Task]]]:
    """Yields neighbouring tasks whose batches can be stacked, and the index of the first."""

    def form(task: Task) -> list[Any]:
        leaves, structure = tree_flatten(task.batch)
        return [task.loss_of, structure, [_form_of(leaf) for leaf in leaves]]

    begin = 0
    for _, alike in groupby(tasks, form):
        found = list(alike)
        yield begin, found
        begin += len(found)


def _form_of(leaf: Any) -> Any:
    """Returns what must be equal where two parts of batches are stacked, or are one for all."""
    if isinstance(leaf, torch.Tensor):
        return leaf.shape, leaf.dtype
    return leaf if isinstance(leaf, (bool, int, float, str, type(None))) else id(leaf)
