"""Which execution is faster, found by timing both on copies."""

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils._pytree import tree_map

from forebay.learners.copies import copy_of_model, copy_of_optimizer
from forebay.learners.execution import Execution, Origin, Task
from forebay.learners.fused import Fused, check_optimizer
from forebay.learners.threads import Threads, plain_attributes

_KINDS: dict[str, Callable[[Origin], Execution]] = {"threads": Threads, "fused": Fused}
_STEPS = 3  # timed for each; the fastest one counts
# How far the losses of both may differ after these steps, relative to the losses.
_TOLERANCE = 1e-2


@dataclass(frozen=True)
class Choice:
    """An execution, and why it was chosen.

    Attributes:
        name: "threads" or "fused".
        reason: For people.
        seconds: How long one step took, by execution; empty if none was timed.
    """

    name: str
    reason: str
    seconds: dict[str, float] = field(default_factory=dict)


class CannotFuseError(RuntimeError):
    """The learners cannot be fused; the message says which module, and why."""


def make(origin: Origin, name: str) -> Execution:
    """Makes an execution by its name."""
    return _KINDS[name](origin)


def choose(origin: Origin, tasks: Sequence[Task], wanted: str | None) -> Choice:
    """Chooses an execution; trains only copies, and draws no random numbers.

    Args:
        origin: What the learners will be made from.
        tasks: Those of the first step; each is computed several times.
        wanted: The execution that the user asks for; None: the faster one.

    Raises:
        CannotFuseError: "fused" is wanted, but impossible.
        Exception: What a task raises.
    """
    if wanted == "threads":
        return Choice("threads", "as asked for")
    outside = torch.get_rng_state()
    threads = Threads(_copied(origin))
    try:
        with warnings.catch_warnings():  # the learners themselves will warn
            warnings.simplefilter("ignore")
            return _try_both(origin, threads, tasks, wanted)
    finally:
        threads.close()
        torch.set_rng_state(outside)


def _try_both(
    origin: Origin, threads: Threads, tasks: Sequence[Task], wanted: str | None
) -> Choice:
    first = threads.compute(_fresh(tasks))  # raises what goes wrong in threads, too
    try:
        fused = _try_fused(origin, tasks)
    except CannotFuseError as error:
        if wanted == "fused":
            raise
        return Choice("threads", str(error))
    if wanted == "fused":
        return Choice("fused", "as asked for")
    try:
        return _time(threads, fused, first, tasks)
    except ValueError as error:  # these steps learn from the same batches again and again
        return Choice("threads", f"a timed step failed: {error}")


def _time(threads: Threads, fused: Fused, first: list[float], tasks: Sequence[Task]) -> Choice:
    seconds = {"threads": math.inf, "fused": math.inf}
    losses = {"threads": first, "fused": first}
    threads.update(len(tasks))
    fused.update(len(tasks))
    for _ in range(_STEPS):
        for execution in (threads, fused):
            fresh = _fresh(tasks)
            begin = time.perf_counter()
            losses[execution.name] = execution.compute(fresh)
            execution.update(len(tasks))
            took = time.perf_counter() - begin
            seconds[execution.name] = min(seconds[execution.name], took)
    if not (threads.has_drawn or fused.has_drawn):
        pairs = zip(losses["threads"], losses["fused"], strict=True)
        if not all(math.isclose(a, b, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE) for a, b in pairs):
            return Choice("threads", "fused learners had other losses", seconds)
    name = min(seconds, key=lambda name: seconds[name])
    return Choice(name, "it took the least time for a step", seconds)


def _fresh(tasks: Sequence[Task]) -> list[Task]:
    """Returns tasks with copies of the batches' tensors, because loss_of may change these."""

    def copy(leaf: Any) -> Any:
        return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf

    return [replace(task, batch=tree_map(copy, task.batch)) for task in tasks]


def _copied(origin: Origin) -> Origin:
    """Returns an origin whose model and optimizer nobody else has."""
    model = copy_of_model(origin.model)
    parameters = origin.layout.parameters(model)
    optimizer = copy_of_optimizer(origin.optimizer, origin.parameters, parameters)
    return replace(origin, model=model, optimizer=optimizer)


def _try_fused(origin: Origin, tasks: Sequence[Task]) -> Fused:
    """Returns fused learners after a first computation, made from copies.

    Raises:
        CannotFuseError: They cannot compute, or would change more than tensors.
    """
    try:
        check_optimizer(origin.optimizer)
    except ValueError as error:
        raise CannotFuseError(f"learners: they cannot be fused: {error}") from None
    copied = _copied(origin)
    before = plain_attributes(copied.model)
    own_buffers = {name: id(own) for name, own in copied.model.named_buffers()}
    calls = _Calls(copied.model)
    try:
        fused = Fused(copied)
        fused.compute(_fresh(tasks))
    except Exception as error:
        where = f"module {calls.inside[-1]}" if calls.inside else "loss_of, outside of the model"
        raise CannotFuseError(f"learners: they cannot be fused: {where}: {error}") from error
    finally:
        calls.end()
    if calls.use_autocast:
        raise CannotFuseError("learners: they cannot be fused: vmap ignores torch.autocast")
    after = plain_attributes(copied.model)
    changed = [key for key in after if after[key] != before.get(key)]
    if changed:
        listed = ", ".join(".".join(filter(None, key)) for key in changed[:5])
        raise CannotFuseError(
            f"learners: they cannot be fused: the model changes attributes that are no tensors of "
            f"its parameters and buffers: {listed}"
        )
    if own_buffers != {name: id(own) for name, own in copied.model.named_buffers()}:
        raise CannotFuseError("learners: they cannot be fused: the model replaces a buffer")
    return fused


class _Calls:
    """Watches the calls of a model's modules.

    Attributes:
        inside: The modules that are being called, outermost first, also after an exception.
        use_autocast: Whether a module was called under torch.autocast.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.inside: list[str] = []
        self.use_autocast = False
        self._handles: list[Any] = []
        for name, module in model.named_modules():
            self._watch(f"{name or 'the model'} ({type(module).__name__})", module)

    def _watch(self, name: str, module: torch.nn.Module) -> None:
        def enter(*_: Any) -> None:
            self.inside.append(name)
            self.use_autocast = self.use_autocast or torch.is_autocast_enabled("cpu")

        def leave(*_: Any) -> None:
            self.inside.pop()

        self._handles.append(module.register_forward_pre_hook(enter, prepend=True))
        self._handles.append(module.register_forward_hook(leave))

    def end(self) -> None:
        """Ends the watch."""
        for handle in self._handles:
            handle.remove()
