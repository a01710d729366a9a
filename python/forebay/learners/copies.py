"""Copies of a user's model and optimizer for the learners."""

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import torch

# Attributes that belong to one optimizer object: what schedulers put around its step(), and hooks.
_OWN = ("step", "_opt_called", "_step_count")


def copy_of_model(model: torch.nn.Module) -> torch.nn.Module:
    """Returns a deep copy of the model.

    Raises:
        ValueError: The model cannot be copied.
    """
    try:
        return copy.deepcopy(model)
    except Exception as error:
        raise ValueError(
            f"learners: {_uncopied(model)} cannot be copied, so the model cannot have several "
            f"learners: {error}"
        ) from error


def _uncopied(model: torch.nn.Module) -> str:
    """Names the smallest module that cannot be copied."""
    name = ""
    for name, module in reversed(list(model.named_modules())):
        try:
            copy.deepcopy(module)
        except Exception:
            return f"the module {name!r} ({type(module).__name__})"
    return "the model"


def copy_of_optimizer(
    optimizer: torch.optim.Optimizer,
    parameters: Sequence[torch.Tensor],
    others: Sequence[torch.Tensor],
) -> torch.optim.Optimizer:
    """Returns a copy of the optimizer with its state, which has other parameters.

    Args:
        optimizer: The optimizer, which stays as it is.
        parameters: All its parameters.
        others: What the copy has in their places.
    """
    memo: dict[int, Any] = {id(own): other for own, other in zip(parameters, others, strict=True)}
    copied = copy.deepcopy(optimizer, memo)
    # Optimizers say that their groups and states are all there is to copy, but some have more.
    for name, value in vars(optimizer).items():
        if name not in vars(copied) and name not in _OWN:
            setattr(copied, name, copy.deepcopy(value, memo))
    return copied


def check_optimizer(
    model: torch.nn.Module, optimizer: Any, parameters: Sequence[torch.Tensor]
) -> None:
    """Checks that an optimizer can be copied for learners.

    Raises:
        ValueError: It is no torch.optim.Optimizer, needs a closure, or has not exactly the
            parameters that learn.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(
            f"learners: {type(optimizer).__name__} is no torch.optim.Optimizer, so it cannot be "
            "copied for each learner; give the optimizer inside it"
        )
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ValueError(
            f"learners: {type(optimizer).__name__} evaluates a closure several times in a step, "
            "but a learner has one gradient in each step; use another optimizer"
        )
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    wanted = {id(p) for p in parameters}
    missing = [n for n, p in model.named_parameters() if id(p) in wanted and id(p) not in held]
    if missing:
        raise ValueError(
            f"learners: the optimizer does not hold these parameters: {missing[:5]}; freeze them "
            "with requires_grad_(False), or give them to the optimizer"
        )
    if held - wanted:
        raise ValueError(
            "learners: the optimizer holds parameters that the model does not have, or that are "
            "frozen; give attach() one module with all that learns, and an optimizer over its "
            "parameters that require gradients"
        )


def copy_settings(source: torch.optim.Optimizer, target: torch.optim.Optimizer) -> None:
    """Gives an optimizer the learning rates and other settings of the one it is a copy of."""
    for group, own in zip(source.param_groups, target.param_groups, strict=True):
        own.update((name, value) for name, value in group.items() if name != "params")
        # One call for all parameters: Python threads then wait for each other less often.
        if "foreach" in own and own["foreach"] is None and not own.get("fused"):
            own["foreach"] = True
