"""Joins a model and an optimizer to those of the job's other processes."""

import atexit
import contextlib
import hashlib
import sys
import warnings
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist

from forebay.sync.auto import CHANGE_SECONDS
from forebay.sync.guide import Guide, strategy_of
from forebay.sync.layout import Layout
from forebay.sync.numbers import Numbers
from forebay.sync.rules import Rules
from forebay.sync.strategies import ParameterServers, Strategy
from forebay.sync.together import Together

_CLOSE_SECONDS = 30.0
_FAILED_SECONDS = 5.0  # the same of a process that ends because of an exception


class Sync:
    """Keeps this process's model and those of the job's other processes together; see `attach`."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        strategy: Strategy | Guide,
        steps: int,
        wait_seconds: float,
    ) -> None:
        if not dist.is_initialized():
            dist.init_process_group("gloo")
        self._layout = Layout(model)
        self._rules = None
        if isinstance(strategy, ParameterServers):
            self._rules = Rules(optimizer, self._layout)
        numbers = Numbers(self._layout.weights, self._layout.gradient, self._layout.sizes)
        groups = [len(group["params"]) for group in optimizer.param_groups]
        description = f"{self._layout.fingerprint()} {type(optimizer).__name__} {groups}"
        self._together = Together(numbers, strategy, wait_seconds, description, steps)
        self._share_fixed()
        if not self._together.begins_even:
            state = self._together.from_newest(optimizer.state_dict())
            if self.rank != self._together.newest:
                optimizer.load_state_dict(state)
        self._optimizer = optimizer
        self._is_open = True
        self._holds_back = False
        self._is_averaged = False  # whether the gradients are those of all processes
        self._pass = -1  # the backward pass at whose end they become so
        self._hooks = self._layout.on_gradient(self._takes_gradients, self._gradient_ready)
        self._hooks.append(optimizer.register_step_pre_hook(self._before_step))
        self._hooks.append(optimizer.register_step_post_hook(self._after_step))
        atexit.register(self._close_at_exit)

    @property
    def strategy(self) -> Strategy:
        """The strategy in use, with its options."""
        return self._together.strategy

    @property
    def rank(self) -> int:
        """This process's number."""
        return self._together.rank

    @property
    def world_size(self) -> int:
        """How many processes there are."""
        return self._together.world_size

    def _share_fixed(self) -> None:
        """Gives all processes the same tensors beside the weights, where they differ."""
        own = [tensor.detach().cpu().contiguous() for tensor in self._layout.fixed]
        parts = [tensor.reshape(-1).view(torch.uint8) for tensor in own]  # of any type
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part.numpy().data)
        if self._together.all_have(digest.digest()):
            return
        for tensor, mine, part in zip(self._layout.fixed, own, parts, strict=True):
            if part.numel() > 0:
                dist.broadcast(part, self._together.newest, group=self._together.group)
            tensor.detach().copy_(mine)

    def _takes_gradients(self) -> bool:
        return self._together.strategy.takes_gradients

    def _gradient_ready(self, begin: int, count: int) -> None:
        if self._holds_back:
            return
        if self._together.averages:
            self._average_at_the_end()
        self._together.gradient_ready(begin, count)

    def _average_at_the_end(self) -> None:
        # As with DistributedDataParallel, gradients are averaged when backward() returns, so that
        # scripts may clip, unscale or look at them.
        now: int = torch._C._current_graph_task_id()
        if now != self._pass:
            self._pass = now
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(self._average)

    def _average(self) -> None:
        self._layout.complete()
        self._together.average()
        self._is_averaged = True

    def _before_step(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._layout.check_in_place(self._optimizer)
        together = self._together
        together.before_step()
        if not self._takes_gradients():
            together.before_update(self._layout.gradients())
            return
        if kwargs.get("closure", args[1] if len(args) > 1 else None) is not None:
            if not together.averages:
                raise RuntimeError(
                    f'sync: "{self.strategy.name}" exchanges gradients before optimizer.step(), '
                    "but the closure makes them within it; call step() without a closure"
                )
            return
        if self._is_averaged and together.averages:
            return
        self._layout.complete()
        if self._rules is not None and self._rules.changed():
            together.set_rules(self._rules.listed())
        together.before_update()
        if self._rules is not None:
            self._layout.drop_gradients()  # so that the optimizer does nothing

    def _after_step(self, *_: Any) -> None:
        self._is_averaged = False
        self._together.after_update()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """For backward passes that add to gradients and after which no step of the optimizer comes.

        It is the same as DistributedDataParallel's: under the strategies "allreduce" and "auto",
        which may choose it, it saves the exchange of what is not complete yet.
        """
        self._holds_back = True
        try:
            yield
        finally:
            self._holds_back = False

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Inside, the model has the mean of all processes' weights, as far as this one knows it.

        It is what should be measured and kept: a process's own weights contain what it has learned
        alone lately, with the noise of its own few batches. Under "local" the mean is that of the
        outer optimizer, up to the last exchange, and under "ako" that of what was sent. Under the
        other strategies, and after `close`, the model stays as it is. Only this process takes part,
        and it must make no step inside. The process's own weights come back at the end.
        """
        if not self._is_open:
            yield
            return
        with self._together.averaged_weights():
            yield

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs beside the model's and the optimizer's; each process calls it.

        It is the same in all processes, so any of them may write it: the outer momentum and the
        shared weights of "local", and the momentum of "ps". The other strategies keep nothing. When
        "auto" has just changed to "local", the shared weights are each process's own until their
        first exchange; any of them is enough to go on from.
        """
        return self._together.state_dict()

    def from_newest(self, own: Any) -> Any:
        """Gives all processes what the one with the newest checkpoint calls this with.

        Each process calls it before its first step. Where their checkpoints are of the same step,
        each keeps its own, and nothing is sent.

        Args:
            own: Anything that torch.save takes.

        Returns:
            The object of the process with the newest checkpoint; tensors that were sent lie in the
            host's memory.
        """
        return self._together.from_newest(own)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint; each process calls it before its first step.

        Args:
            state: Of state_dict(). That of another strategy is left out: the model and the
                optimizer are enough to go on with.

        Raises:
            ValueError: It is of a model of another size.
        """
        self._together.load_state_dict(state)

    def stats(self) -> dict[str, Any]:
        """What was exchanged so far.

        "steps", "steps_per_s" (without waiting), "waited_s" (the training thread, for others),
        "trouble" (the last message that was refused, or ""), "staleness" (how many received slices
        stood for up to 1, 2, 4, 8, … of their sender's steps), and "links", by rank: "sent_bytes",
        "received_bytes", "refused" (messages), "bytes_per_s" (while something was on its way),
        "partitions", "lost" (why the peer is gone, or ""). Where numbers are summed over all
        processes: "reduced_bytes" of them, and "reducing_s" while a sum was on its way.
        """
        return self._together.stats()

    def close(self, seconds_max: float | None = None) -> None:
        """Ends the exchange, when the other processes do so too, with the mean of all weights.

        The model and the optimizer stay usable, in this process alone. Where not all processes end
        in time, or one was lost, the model keeps this process's own weights, and a warning says so.

        Args:
            seconds_max: How long it waits for the others. None: 30 s, but without end where this
                process holds a part of the model for the others ("ps").
        """
        if seconds_max is None:
            seconds_max = self._patience
        if not self._end(seconds_max, CHANGE_SECONDS):
            warnings.warn(
                f"sync: rank {self.rank} keeps its own weights instead of the mean of all: other "
                f"processes were lost or did not end within {seconds_max:.0f} s",
                stacklevel=2,
            )

    @property
    def _patience(self) -> float:
        return float("inf") if self._rules is not None else _CLOSE_SECONDS

    def _end(self, seconds_max: float, mean_seconds: float) -> bool:
        if not self._is_open:
            return True
        self._is_open = False
        atexit.unregister(self._close_at_exit)
        for hook in self._hooks:
            hook.remove()
        return self._together.close(seconds_max, mean_seconds)

    def _close_at_exit(self) -> None:
        # Nobody sees the model any more.
        self._end(_FAILED_SECONDS if hasattr(sys, "last_value") else self._patience, 0)

    def __enter__(self) -> "Sync":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._end(_FAILED_SECONDS, 0)


def attach(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    strategy: str | Strategy | Guide = "auto",
    *,
    steps: int = 0,
    wait_seconds: float = 30.0,
) -> Sync:
    """Makes a model learn together with those of the job's other processes.

    Every process calls it once, after the model and the optimizer are made, with the same strategy.
    All models get the weights and buffers of rank 0, or of the process with the newest checkpoint,
    also those parameters that are frozen.
    From then on `optimizer.step()` exchanges what the strategy wants: the loop stays as it is.
    Learning rates mean what they mean with DistributedDataParallel, because gradients of all
    processes are averaged.

    Args:
        model: Its parameters must be float32 and all lie in one memory, the host's or a GPU's. It
            is not wrapped in DistributedDataParallel.
        optimizer: Any optimizer over all parameters of the model that require gradients; for
            parameter servers, torch.optim.SGD.
        strategy: "auto": what suits the links, which are measured; rank 0 says in one line what it
            chooses, and chooses again when they change. Or a name, or an object with options: "ako"
            (`Ako`), "allreduce" (`AllReduce`), "ps" (`ParameterServers`), "pairs" (`Pairs`) or
            "local" (`LocalSteps`).
        steps: After how many steps, or epochs, the checkpoint was written that this process has
            loaded; 0: it has none. Where that differs, all processes get the model and the
            optimizer's state of the one with the newest, so that a machine that comes later needs
            no checkpoint. What else it must know it gets by `Sync.from_newest`.
        wait_seconds: How long a step waits for other processes at most. Under "auto" it is four
            times as long in the first step, and in those in which the links are measured again or
            the strategy changes; and before a choice, where the processes' speeds are compared, as
            long as 100 times what this process took for six steps if that is more.

    Raises:
        ValueError: An argument makes no sense, or the processes' models differ.
    """
    chosen = strategy_of(strategy)
    _check_optimizer(model, optimizer)
    if steps < 0:
        raise ValueError(f"sync: steps is {steps}, but must not be negative")
    return Sync(model, optimizer, chosen, steps, wait_seconds)


def _check_optimizer(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    missing = [n for n, p in model.named_parameters() if p.requires_grad and id(p) not in held]
    if missing:
        raise ValueError(f"sync: the optimizer does not hold these parameters: {missing[:5]}")
