"""Joins a model and an optimizer to those of the job's other processes."""

import atexit
import contextlib
import datetime
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist

from forebay import _core
from forebay.sync.layout import Layout
from forebay.sync.links import Links
from forebay.sync.rules import Rules
from forebay.sync.strategies import STRATEGIES, Strategy

_CLOSE_SECONDS = 30.0
_FAILED_SECONDS = 5.0  # the same of a process that ends because of an exception
_GROUP_TIMEOUT = datetime.timedelta(minutes=30)
# A peer may have nothing to say for as long as it likes, and Gloo closes all connections when one
# receive takes longer than this.
_LINKS_TIMEOUT = datetime.timedelta(days=3650)


class Sync:
    """Keeps this process's model and those of the job's other processes together; see `attach`.

    Attributes:
        strategy: The strategy in use, with its options.
        rank: This process's number.
        world_size: How many processes there are.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        strategy: Strategy,
        wait_seconds: float,
    ) -> None:
        if not dist.is_initialized():
            dist.init_process_group("gloo")
        self.strategy = strategy
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        options = {"name": strategy.name, **strategy.options(self.world_size)}
        self._layout = Layout(model)
        self._rules = None
        if strategy.name == "ps":
            self._rules = Rules(optimizer, self._layout)
        self._group = dist.new_group(backend="gloo", timeout=_GROUP_TIMEOUT)
        self._agree(model)
        self._exchange = _core.Exchange(
            {**options, "sizes": self._layout.sizes, "wait_s": wait_seconds},
            self.rank, self.world_size,
            self._layout.gradient.numpy(), self._layout.weights.numpy(),
        )  # fmt: skip
        self._holds_back = False
        self._hooks = self._layout.on_gradient(self._gradient_ready)
        self._hooks.append(optimizer.register_step_pre_hook(self._before_step))
        self._hooks.append(optimizer.register_step_post_hook(self._after_step))
        group = self._group
        if not strategy.sums:
            group = dist.new_group(backend="gloo", timeout=_LINKS_TIMEOUT)
        self._links: Links | None = Links(self._exchange, group, sums=strategy.sums)
        atexit.register(self._close_at_exit)

    def _agree(self, model: torch.nn.Module) -> None:
        """Checks that all processes have the same model, and gives them the weights of rank 0."""
        own = f"{self.strategy} {self._layout.fingerprint()}"
        said: list[Any] = [None] * self.world_size
        dist.all_gather_object(said, own, group=self._group)
        others = [rank for rank, other in enumerate(said) if other != said[0]]
        if others:
            raise ValueError(
                f"sync: ranks {others} differ from rank 0 in the strategy, or in names, shapes or "
                "memory layouts of the model's parameters"
            )
        for tensor in (self._layout.weights, *model.buffers()):
            dist.broadcast(tensor, 0, group=self._group)

    def _gradient_ready(self, begin: int, count: int) -> None:
        if self.strategy.name == "allreduce" and not self._holds_back:
            self._exchange.gradient_ready(begin, count)

    def _before_step(self, *_: Any) -> None:
        self._layout.complete()
        if self._rules is not None and self._rules.changed():
            self._exchange.set_rules(self._rules.listed())
        self._exchange.before_update()
        if self._rules is not None:
            self._layout.drop_gradients()  # so that the optimizer does nothing

    def _after_step(self, *_: Any) -> None:
        self._exchange.after_update()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """For backward passes that add to gradients and after which no step of the optimizer comes.

        It is the same as DistributedDataParallel's; only the strategy "allreduce" needs it.
        """
        self._holds_back = True
        try:
            yield
        finally:
            self._holds_back = False

    def stats(self) -> dict[str, Any]:
        """What was exchanged so far.

        "steps", "steps_per_s" (without waiting), "waited_s" (the training thread, for others),
        "trouble" (the last message that was refused, or ""), "staleness" (how many received slices
        stood for up to 1, 2, 4, 8, … of their sender's steps), and "links", by rank: "sent_bytes",
        "received_bytes", "refused" (messages), "bytes_per_s" (while something was on its way),
        "partitions", "lost" (why the peer is gone, or "").
        """
        return dict(self._exchange.stats())

    def close(self, seconds_max: float | None = None) -> None:
        """Ends the exchange, and waits for the other processes to do so too.

        The model and the optimizer stay usable, in this process alone.

        Args:
            seconds_max: How long it waits. None: 30 s, but without end where this process holds a
                part of the model for the others ("ps").
        """
        if self._links is None:
            return
        atexit.unregister(self._close_at_exit)
        links, self._links = self._links, None
        for hook in self._hooks:
            hook.remove()
        if seconds_max is None:
            seconds_max = float("inf") if self._rules is not None else _CLOSE_SECONDS
        links.close(seconds_max)

    def _close_at_exit(self) -> None:
        self.close(_FAILED_SECONDS if hasattr(sys, "last_value") else None)

    def __enter__(self) -> "Sync":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def attach(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    strategy: str | Strategy = "ako",
    *,
    wait_seconds: float = 30.0,
) -> Sync:
    """Makes a model learn together with those of the job's other processes.

    Every process calls it once, after the model and the optimizer are made, with the same
    arguments. All models get the weights and buffers of rank 0. From then on `optimizer.step()`
    exchanges what the strategy wants: the loop stays as it is. Learning rates mean what they mean
    with DistributedDataParallel, because gradients of all processes are averaged.

    Args:
        model: Its parameters must be float32 on a CPU. It is not wrapped in
            DistributedDataParallel.
        optimizer: Any optimizer over all parameters of the model that require gradients; for
            parameter servers, torch.optim.SGD.
        strategy: A name, or an object with options: "ako" (`Ako`), "allreduce" (`AllReduce`), "ps"
            (`ParameterServers`), "pairs" (`Pairs`) or "local" (`LocalSteps`).
        wait_seconds: How long a step waits for other processes at most.

    Raises:
        ValueError: An argument makes no sense, or the processes' models differ.
    """
    if isinstance(strategy, str):
        if strategy not in STRATEGIES:
            raise ValueError(
                f"sync: strategy is {strategy!r}, but must be one of {', '.join(STRATEGIES)}"
            )
        strategy = STRATEGIES[strategy]()
    _check_optimizer(model, optimizer)
    return Sync(model, optimizer, strategy, wait_seconds)


def _check_optimizer(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    missing = [n for n, p in model.named_parameters() if p.requires_grad and id(p) not in held]
    if missing:
        raise ValueError(f"sync: the optimizer does not hold these parameters: {missing[:5]}")
