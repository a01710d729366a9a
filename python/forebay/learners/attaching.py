"""`attach`: makes several learners of a model on one device."""

import re
import warnings
from typing import Any

import torch

from forebay._core import check_averaging, usable_cores
from forebay.learners.copies import check_optimizer
from forebay.learners.layout import Layout
from forebay.learners.session import Learners, Options

_EXECUTIONS = (None, "threads", "fused")


def attach(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    learners: int,
    *,
    averaging: str = "sma",
    averaging_steps: int = 1,
    averaging_rate: float = 0.0,
    momentum: float = 0.9,
    execution: str | None = None,
) -> Learners:
    """Makes several learners of a model, which train at the same time on batches of their own.

    Each learner is a copy of the model with an optimizer of its own. After the learners' steps
    they are averaged, and the average, the central model, is what `Learners.finish` writes into
    `model`. Learning rates mean what they mean for one learner with its batch size. In a loop,
    `learners.step(loss_of, images, labels)` takes the place of the model's call, backward() and
    optimizer.step().

    Args:
        model: Its parameters that learn must be float32 and on the processor.
        optimizer: Any optimizer of torch.optim, or one like them, over all parameters that require
            gradients. It makes no steps if there are several learners, but schedulers act on it:
            the learners take its learning rates and other settings in each step.
        learners: How many, 1 to 64. With 1, the model is trained as without this function.
        averaging: "sma": synchronous model averaging, in which each learner explores and is drawn
            to the central model; where the learning rate has fallen by half since the start or
            since the last time, all learners begin anew from the central model. "sgd": all
            learners make the same step, with the mean of their gradients. "local": they take the
            mean of their weights.
        averaging_steps: The number of steps from one averaging to the next, from 1; 1 for "sgd".
        averaging_rate: How far a learner and the central model approach each other, for "sma"; 0:
            1 / learners.
        momentum: That of the central model, from 0 to below 1, for "sma".
        execution: "threads": learners in threads of their own. "fused": the same layer of all
            learners is one operation, which not all models allow. None: the faster one, found by
            timing some steps of both on copies in the first step, so that two runs may choose
            differently. Both have the same results up to rounding.

    Raises:
        ValueError: An argument is invalid, or the model or the optimizer cannot be copied.
    """
    options = Options(learners, averaging, averaging_steps, averaging_rate, momentum)
    _check_options(options, execution)
    _check_unwrapped(model)
    layout = Layout(model)
    check_optimizer(model, optimizer, layout.parameters(model))
    cores = usable_cores()
    if learners > cores:
        warnings.warn(
            f"learners: {learners} learners have {cores} cores, so some of them wait for others; "
            "they learn the same, but more learners than cores are not faster",
            stacklevel=2,
        )
    return Learners(model, optimizer, layout, options, execution)


def _check_options(options: Options, execution: str | None) -> None:
    learners: Any = options.learners
    if learners == "auto":
        raise ValueError("learners: 'auto' is not supported yet; give the number of learners")
    if not isinstance(learners, int) or isinstance(learners, bool) or learners < 0:
        raise ValueError(f"learners: learners is {learners!r}, but must be a number from 1")
    if execution not in _EXECUTIONS:
        raise ValueError(
            f"learners: execution is {execution!r}, but must be 'threads', 'fused' or None"
        )
    if options.averaging_steps < 1:
        raise ValueError(
            f"learners: averaging_steps is {options.averaging_steps}, but must be from 1"
        )
    try:
        check_averaging(
            options.averaging, learners, options.averaging_steps, options.averaging_rate,
            options.momentum,
        )  # fmt: skip
    except ValueError as error:  # it names the options of `forebay train`
        text = re.sub(r"--([a-z-]+)", lambda found: found[1].replace("-", "_"), str(error))
        raise ValueError(f"learners: {text}") from None


def _check_unwrapped(model: torch.nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.parallel.DistributedDataParallel):
            raise ValueError(
                f"learners: the model{' at ' + name if name else ''} is wrapped in "
                "DistributedDataParallel; learners are for one process"
            )
