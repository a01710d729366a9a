"""`attach`, and the object that it returns: the API for training loops in Python."""

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

_CLOSE_SECONDS = 30.0  # how long close() waits for the other processes
_FAILED_SECONDS = 5.0  # how long a process waits for the others when it ends by an exception


class Sync:
    """Synchronizes this process's model with those of the job's other processes; see `attach`."""

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
        self._is_averaged = False  # whether the gradients are the mean of all processes'
        self._pass = -1  # the last backward pass for which averaging was queued
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
        """This process's rank."""
        return self._together.rank

    @property
    def world_size(self) -> int:
        """The number of processes."""
        return self._together.world_size

    def _share_fixed(self) -> None:
        """Copies buffers and frozen parameters from one process to all, if they differ."""
        own = [tensor.detach().cpu().contiguous() for tensor in self._layout.fixed]
        parts = [tensor.reshape(-1).view(torch.uint8) for tensor in own]
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
        # Like with DistributedDataParallel, gradients are averaged when backward() returns, so that
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
                    "but the closure computes them inside it; call step() without a closure"
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
        """Skips the exchange in backward passes that only accumulate gradients.

        Use it like DistributedDataParallel's, around all backward passes of a step but the last.
        Under "allreduce", and when "auto" has chosen "allreduce", it saves sums of gradients that
        are not complete yet. Under the other strategies it has no effect.
        """
        self._holds_back = True
        try:
            yield
        finally:
            self._holds_back = False

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Lends the model the mean of all processes' weights, as far as this process knows it.

        These weights should be measured and saved: a process's own weights contain what it has
        recently learned alone, with the noise of its own few batches. Under "local", the mean is
        the outer optimizer's weights after the last exchange. Under "ako" with updates, it is the
        process's own weights, in which updates that were not sent yet count with 1/world_size.
        Under the other strategies, and after `close`, the model stays as it is.

        Nothing is sent, and the other processes need not take part. Make no step inside the block.
        The process's own weights come back at its end.
        """
        if not self._is_open:
            yield
            return
        with self._together.averaged_weights():
            yield

    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint needs besides the model's and the optimizer's state.

        All processes call it together. The result is the same in all of them, so any of them may
        write it: the outer momentum and the shared weights of "local", or the momentum of "ps". The
        other strategies keep nothing. After "auto" has changed to "local", the shared weights are
        each process's own until their first exchange; a job can go on from any of them.
        """
        return self._together.state_dict()

    def from_newest(self, own: Any) -> Any:
        """Gives all processes the object of the process with the newest checkpoint.

        Each process calls it before its first step. If all checkpoints are of the same step, each
        process keeps its own object, and nothing is sent.

        Args:
            own: This process's object: anything that torch.save can write.

        Returns:
            The object of the process with the newest checkpoint. Tensors that were received are in
            the host's memory.
        """
        return self._together.from_newest(own)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a checkpoint; each process calls it before its first step.

        Args:
            state: What state_dict() returned. The state of another strategy is ignored: the model
                and the optimizer are enough to continue.

        Raises:
            ValueError: The state is that of a model of another size.
        """
        self._together.load_state_dict(state)

    def stats(self) -> dict[str, Any]:
        """Returns figures of the exchange so far.

        "steps"; "steps_per_s", without the time spent waiting; "waited_s", how long the training
        thread waited for other processes; "trouble", the last refused message and why, or "";
        "staleness", how many received slices stood for up to 1, 2, 4, 8, … of their sender's steps.

        "links" is a list by rank: "sent_bytes"; "received_bytes"; "refused", a number of messages;
        "bytes_per_s", while messages were on their way; "partitions"; "encoding"; "lost", why the
        peer is gone, or "".

        For sums over all processes: "reduced_bytes", the size of the numbers that were summed, and
        "reducing_s", the time in which a sum was on its way.
        """
        return self._together.stats()

    def close(self, seconds_max: float | None = None) -> None:
        """Ends the exchange, and gives all models the mean of all weights; all processes call it.

        The model and the optimizer stay usable, in this process alone. If a process was lost or
        does not end in time, the model keeps this process's own weights, and a warning says so.

        Args:
            seconds_max: How long to wait for the other processes. None: 30 s, or without limit
                under "ps", whose processes hold parts of the model for each other.
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
        # Nobody uses the model any more, so the mean of all weights is not taken.
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

    Every process calls it once, with the same strategy, after it has made the model and the
    optimizer. All models get the weights and buffers, including frozen parameters, of rank 0 or of
    the process with the newest checkpoint. From then on `optimizer.step()` makes the exchange that
    the strategy needs, and the training loop stays as it is. Learning rates mean what they mean
    with DistributedDataParallel, because gradients of all processes are averaged.

    Args:
        model: Its parameters must be float32 and all on one device, the CPU or a GPU. Do not wrap
            it in DistributedDataParallel.
        optimizer: Any optimizer over all parameters of the model that require gradients; for
            parameter servers, torch.optim.SGD.
        strategy: "auto": the job measures its links, chooses the strategy that suits them, and
            chooses again when they change; rank 0 prints each choice in one line. Or a name, or an
            object with options: "ako" (`Ako`), "allreduce" (`AllReduce`), "ps"
            (`ParameterServers`), "pairs" (`Pairs`) or "local" (`LocalSteps`).
        steps: The number of steps, or epochs, after which the checkpoint was written that this
            process has loaded; 0: it has loaded none. If the processes' numbers differ, all get the
            model and the optimizer's state of the process with the newest checkpoint, so a machine
            that joins later needs no checkpoint. `Sync.from_newest` gives it everything else.
        wait_seconds: How long a step waits for other processes at most. Under "auto" this is four
            times as long in the first step, and in steps in which the links are measured again or
            the strategy changes. When the processes compare their speeds before a choice, it is 100
            times what this process took for six steps, if that is longer.

    Raises:
        ValueError: An argument is invalid, or the processes' models differ.
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
