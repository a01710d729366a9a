"""Which optimizer makes a script's steps, and when a step of several optimizers is complete."""

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

# The attributes in which optimizers around another one keep it: Accelerate's, SAM's, Lookahead's.
_INNER = ("optimizer", "base_optimizer", "inner_optimizer", "_optimizer")
# After this many backward passes without a step, a warning says so.
_PASSES_WITHOUT_STEP = 200
_FRAMES_TO_SCALER = 8


def stepping(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Returns the optimizer that changes weights: the innermost one of optimizers in each other.

    Raises:
        ValueError: It is no torch.optim.Optimizer.
    """
    seen: list[Any] = []
    found: Any = optimizer
    while found is not None and not any(found is one for one in seen):
        seen.append(found)
        attributes = (vars(found).get(name) for name in _INNER)
        found = next((one for one in attributes if isinstance(one, torch.optim.Optimizer)), None)
    innermost = seen[-1]
    if not isinstance(innermost, torch.optim.Optimizer):
        raise ValueError(
            f"sync: {type(innermost).__name__} is no torch.optim.Optimizer and has none as "
            "`.optimizer`, so its steps cannot be seen; attach the optimizer inside it"
        )
    return innermost


class Steps:
    """Calls functions before and after each step of a script, which may use several optimizers.

    A step begins when the first optimizer steps, and is complete when all have. If one is left out,
    as by torch.amp.GradScaler, it is complete when another one steps again.

    Args:
        optimizers: Those that change weights.
        before: Called before a step, with whether optimizer.step() got a closure.
        after: Called after it.

    Attributes:
        scaler: The GradScaler that makes the steps, or None while no step has shown one.
        handles: Those that remove the hooks.
    """

    def __init__(
        self,
        optimizers: Sequence[torch.optim.Optimizer],
        before: Callable[[bool], None],
        after: Callable[[], None],
    ) -> None:
        self._count = len(optimizers)
        self._before, self._after = before, after
        self._made: list[Any] = []  # optimizers that have stepped in the present step
        self._passes = 0  # backward passes since the last step
        self.scaler: Any = None
        self.handles: list[Any] = []
        for optimizer in optimizers:
            # Hooks are no part of the graph if a script compiles optimizer.step().
            for hook, register in (
                (self._begin, optimizer.register_step_pre_hook),
                (self._end, optimizer.register_step_post_hook),
            ):
                self.handles.append(register(torch.compiler.disable(hook)))

    def _begin(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if _leaves_out(optimizer):
            return
        if any(optimizer is one for one in self._made):
            self.complete()
        if not self._made:
            self._passes = 0
            if self.scaler is None:
                self.scaler = _scaler_of_caller()
            # args[0] is the optimizer.
            closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
            self._before(closure is not None)

    def _end(self, optimizer: Any, *_: Any) -> None:
        if _leaves_out(optimizer):
            return
        self._made.append(optimizer)
        if len(self._made) == self._count:
            self.complete()

    def complete(self) -> None:
        """Completes a step that was left incomplete."""
        if self._made:
            self._made = []
            self._after()

    def passed(self) -> None:
        """A backward pass has made gradients."""
        self._passes += 1
        if self._passes == _PASSES_WITHOUT_STEP:
            warnings.warn(
                f"sync: {self._passes} backward passes, but no step of the optimizer that "
                "forebay.sync.attach() got, so nothing is exchanged; attach the optimizer whose "
                "step() changes the weights",
                stacklevel=2,
            )


@torch.no_grad()
def unscale(optimizer: Any) -> None:
    """Divides gradients by the GradScaler's scale, which a fused optimizer does in its step."""
    scale = getattr(optimizer, "grad_scale", None)
    if scale is None:
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                parameter.grad.div_(scale)
    optimizer.grad_scale = None


def _leaves_out(optimizer: Any) -> bool:
    """Whether a GradScaler has found an overflow, so that a fused optimizer's step does nothing.

    The scaler does not call step() of other optimizers then.
    """
    found = getattr(optimizer, "found_inf", None)
    return found is not None and bool(found)


def _scaler_of_caller() -> Any:
    """The torch.amp.GradScaler that calls optimizer.step() now, or None."""
    frame = sys._getframe(1)
    for _ in range(_FRAMES_TO_SCALER):
        if frame.f_back is None:
            return None
        frame = frame.f_back
        own = frame.f_locals.get("self")
        if isinstance(own, torch.amp.GradScaler):
            return own
    return None
