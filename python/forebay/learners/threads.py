"""Learners in threads: each is a copy of the model, with an optimizer of its own."""

import contextlib
import math
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import torch

from forebay.learners.copies import copy_of_model, copy_of_optimizer, copy_settings
from forebay.learners.execution import Origin, Task, not_finite
from forebay.learners.randomness import OwnRandom


class Threads:
    """Learners whose gradients and updates are computed in several threads at once.

    Each thread has its own threads inside operations, as torch.set_num_threads() means them.
    See `Execution` for the methods.
    """

    name = "threads"

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self.weights = origin.layout.rows_of(origin.model, origin.learners)
        self.gradients = origin.rows_of_gradients()
        self._learners = [_Learner(origin, i, row) for i, row in enumerate(self.weights)]
        self._pool: ThreadPoolExecutor | None = None
        self._has_warned = False
        self._modes: list[bool] = []
        self._gives_random = True  # a step in a new mode finds out whether it is needed

    @property
    def has_drawn(self) -> bool:
        """Whether the learners have drawn random numbers."""
        return self._has_warned or any(learner.has_drawn for learner in self._learners)

    def compute(self, tasks: Sequence[Task]) -> list[float]:
        """See `Execution.compute`."""
        modes = [module.training for module in self._origin.model.modules()]
        cast = _autocast_of_caller()
        if modes != self._modes:  # the model may draw random numbers only in one of its modes
            self._modes, self._gives_random = modes, True
        before = torch.get_rng_state()
        losses = self._all(
            lambda learner, task: learner.compute(task, modes, cast, self._gives_random),
            zip(self._learners, tasks, strict=False),
        )
        self._watch_randomness(before)
        for learner in self._learners[: len(tasks)]:
            if learner.trouble:
                raise not_finite(learner.index, self._origin.learners, learner.trouble)
        if self._origin.averages_gradients:
            self._fetch_gradients(len(tasks))
        return losses

    def _watch_randomness(self, before: torch.Tensor) -> None:
        """Finds out from a step whether the learners need generators of their own."""
        is_drawn_from = not torch.equal(before, torch.get_rng_state())
        if is_drawn_from and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                "learners: the model or loss_of draws from PyTorch's global random numbers in a "
                "way that learners in threads cannot keep apart, so that two runs differ; give "
                "its random functions a generator, or use execution='fused'",
                stacklevel=5,
            )
        self._gives_random = is_drawn_from or any(learner.has_drawn for learner in self._learners)

    @torch.no_grad()
    def _fetch_gradients(self, computed: int) -> None:
        layout = self._origin.layout
        for learner, row in zip(self._learners, self.gradients, strict=True):
            parts = layout.of_row(row)
            for parameter, part in zip(learner.parameters, parts, strict=True):
                if learner.index < computed and parameter.grad is not None:
                    part.copy_(parameter.grad)
                else:
                    part.zero_()
                parameter.grad = part

    def update(self, active: int) -> None:
        """See `Execution.update`."""
        source = self._origin.optimizer
        self._all(lambda learner: learner.update(source), zip(self._learners[:active], strict=True))

    def _all(self, function: Callable[..., Any], arguments: Iterable[Any]) -> list[Any]:
        """Calls a function for several learners in threads, and returns its results.

        If one raises, the threads end when they have finished the others, and the exception of the
        first learner is raised.
        """
        if self._pool is None:
            self._pool = _make_pool(self._origin.learners, self._origin.threads)
        waiting: list[Future[Any]] = [self._pool.submit(function, *each) for each in arguments]
        try:
            wait(waiting)
            return [future.result() for future in waiting]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the threads when they have finished; a later call makes new ones."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def buffers(self) -> dict[str, list[torch.Tensor]]:
        """See `Execution.buffers`."""
        named = [dict(learner.model.named_buffers()) for learner in self._learners]
        return {name: [own[name] for own in named] for name in named[0]}

    def optimizer_states(self) -> list[dict[str, Any]]:
        """See `Execution.optimizer_states`."""
        return [learner.optimizer.state_dict() for learner in self._learners]

    def load_optimizer_states(self, states: Sequence[dict[str, Any]]) -> None:
        """See `Execution.load_optimizer_states`."""
        for learner, state in zip(self._learners, states, strict=True):
            learner.optimizer.load_state_dict(state)

    def random_states(self) -> list[torch.Tensor]:
        """See `Execution.random_states`."""
        return [learner.generator.get_state() for learner in self._learners]

    def load_random_states(self, states: Sequence[torch.Tensor]) -> None:
        """See `Execution.load_random_states`."""
        for learner, state in zip(self._learners, states, strict=True):
            learner.generator.set_state(state)

    def changed_attributes(self) -> list[str]:
        """Names attributes outside of tensors that the first learner's copy has changed."""
        before, after = self._learners[0].attributes, plain_attributes(self._learners[0].model)
        return sorted(
            f"{module}.{name}".lstrip(".")
            for module, name in before.keys() | after.keys()
            if before.get((module, name)) != after.get((module, name))
        )


class _Learner:
    """A copy of the model that trains the numbers of `row`."""

    def __init__(self, origin: Origin, index: int, row: torch.Tensor) -> None:
        self.index = index
        self.model = copy_of_model(origin.model)
        self.parameters = origin.layout.parameters(self.model)
        for parameter, part in zip(self.parameters, origin.layout.of_row(row), strict=True):
            parameter.data = part
        self.optimizer = copy_of_optimizer(origin.optimizer, origin.parameters, self.parameters)
        self.generator = torch.Generator().manual_seed(origin.seeds[index])
        self.attributes = plain_attributes(self.model)
        self.has_drawn = False
        self.trouble = ""  # what was not finite in this step

    def compute(self, task: Task, modes: list[bool], cast: Any, gives_random: bool) -> float:
        """Returns the loss of a task, and leaves the gradients at the parameters."""
        for module, training in zip(self.model.modules(), modes, strict=True):
            if module.training != training:
                module.training = training
        self.optimizer.zero_grad(set_to_none=True)
        own_random = OwnRandom(self.generator)
        with contextlib.ExitStack() as contexts:
            if cast:
                contexts.enter_context(torch.autocast("cpu", **cast))
            if gives_random:
                contexts.enter_context(own_random)
            loss = task.loss(self.model)
        self.has_drawn = self.has_drawn or own_random.has_drawn
        loss.backward()
        number = loss.item()
        self.trouble = self._not_finite(number)
        return number

    @torch.no_grad()
    def _not_finite(self, loss: float) -> str:
        if not math.isfinite(loss):
            return "the loss"
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        # Norms are quick to compute. They are finite only if all numbers are.
        if not gradients or torch.stack(torch._foreach_norm(gradients)).isfinite().all():
            return ""
        for name, parameter in self.model.named_parameters():
            if parameter.grad is not None and not parameter.grad.isfinite().all():
                return f"the gradient of {name}"
        return ""

    def update(self, source: torch.optim.Optimizer) -> None:
        """Makes a step with the settings of the user's optimizer."""
        copy_settings(source, self.optimizer)
        self.optimizer.step()


def plain_attributes(model: torch.nn.Module) -> dict[tuple[str, str], Any]:
    """Returns the numbers, texts and flags that modules have as attributes, and which tensors.

    The keys are a module's name and an attribute's. A tensor that is no parameter and no buffer is
    told by its id().
    """
    found: dict[tuple[str, str], Any] = {}
    for module_name, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                found[module_name, name] = id(value)
            elif isinstance(value, (bool, int, float, str, type(None))) and name != "training":
                found[module_name, name] = value
    return found


def _autocast_of_caller() -> dict[str, Any] | None:
    """The arguments of torch.autocast for this thread's setting; None if it is not enabled."""
    if not torch.is_autocast_enabled("cpu"):
        return None
    return {
        "dtype": torch.get_autocast_dtype("cpu"),
        "cache_enabled": torch.is_autocast_cache_enabled(),
    }


def _make_pool(learners: int, threads: int) -> ThreadPoolExecutor:
    """Makes the threads of learners, which have `threads` threads inside operations together."""
    outside = torch.get_num_threads()
    inside = max(1, threads // learners)
    # Where learners can take turns evenly, more threads than cores would only change places.
    workers = threads if learners % threads == 0 else learners
    pool = ThreadPoolExecutor(
        workers, "forebay-learner", initializer=_set_threads_inside, initargs=(inside,)
    )
    all_run = threading.Barrier(workers)
    wait([pool.submit(all_run.wait) for _ in range(workers)])
    # The number is each thread's own, but new threads begin with the one that was set last.
    torch.set_num_threads(outside)
    return pool


def _set_threads_inside(count: int) -> None:
    """Sets how many threads this thread's operations use."""
    torch.get_num_threads()  # a thread's first call takes over what another thread has set last
    torch.set_num_threads(count)
