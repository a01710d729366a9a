"""`attach`, and the object that it returns: the API for training loops in Python."""

import atexit
import contextlib
import hashlib
import itertools
import math
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist

from forebay.ranks import job_store
from forebay.sync.connection import Connection
from forebay.sync.guide import Guide, strategy_of
from forebay.sync.layout import Layout
from forebay.sync.numbers import Numbers
from forebay.sync.optimizers import Steps, stepping
from forebay.sync.rules import Rules
from forebay.sync.strategies import ParameterServers, Strategy
from forebay.sync.together import Together

_BUFFERS = ("mean", "own")
# Numbers the exchanges of each group of processes, which all make them in the same order.
_numbers: dict[str, Iterator[int]] = {}


class Sync:
    """Synchronizes this process's model with those of the job's other processes; see `attach`."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizers: Sequence[torch.optim.Optimizer],
        strategy: Strategy | Guide,
        steps: int,
        wait_seconds: float,
        group: Any,
        buffers: str,
    ) -> None:
        self._layout = layout = Layout(model)
        self._optimizers = list(optimizers)
        self._connection: Any = None
        try:
            self._rules = None
            if isinstance(strategy, ParameterServers):
                self._rules = Rules(self._optimizers, layout)
            self._begin(strategy, steps, wait_seconds, group)
        except BaseException:
            layout.release()
            if self._connection is not None:
                self._connection.close()
            raise
        self._also = [*layout.buffers, *layout.counters] if buffers == "mean" else []
        self._is_open = True
        self._holds_back = False
        self._is_averaged = False  # whether the gradients are the mean of all processes'
        self._pass = -1  # the last backward pass that this object has noticed
        self._steps = Steps(self._optimizers, self._before_step, self._after_step)
        self._hooks = layout.on_gradient(self._notices, self._gradient_ready)
        atexit.register(self._close_at_exit)

    def _begin(
        self, strategy: Strategy | Guide, steps: int, wait_seconds: float, group: Any
    ) -> None:
        layout, optimizers = self._layout, self._optimizers
        numbers = Numbers(
            layout.weights, layout.gradient, layout.sizes, layout.fetch_weights, layout.put_weights
        )
        described = [
            f"{type(one).__name__} {[len(part['params']) for part in one.param_groups]}"
            for one in optimizers
        ]
        rank, world_size = dist.get_rank(group), dist.get_world_size(group)
        members = str(dist.get_process_group_ranks(group or dist.group.WORLD))
        number = next(_numbers.setdefault(members, itertools.count()))
        store = dist.PrefixStore(f"forebay-sync {members} {number}", job_store().clone())
        self._connection = Connection(store, rank, world_size, wait_seconds)
        self._together = Together(
            self._connection, store, numbers, strategy,
            f"{layout.fingerprint()} {described}", steps, self._share_state,
        )  # fmt: skip
        self._share_fixed()
        if not self._together.begins_even:
            self._load_states_of(self._together.newest)

    def _states(self) -> list[Any]:
        scaler = self._steps.scaler if hasattr(self, "_steps") else None
        return [*self._optimizers, *([scaler] if scaler is not None else [])]

    def _share_state(self) -> None:
        self._load_states_of(0)

    def _load_states_of(self, rank: int) -> None:
        """Gives all processes the optimizers' states of one process; all call it together."""
        own = [one.state_dict() for one in self._states()]
        found = self._together.from_rank(rank, own)
        if self.rank != rank:
            for one, state in zip(self._states(), found, strict=False):
                one.load_state_dict(state)

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
        fixed = self._layout.fixed
        digest = hashlib.sha256()
        for tensor in fixed:
            part = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            digest.update(part.numpy().data)
        if self._together.all_have(digest.digest()):
            return
        own = [tensor.detach().cpu() for tensor in fixed]
        found = self._together.from_rank(self._together.newest, own)
        for tensor, other in zip(fixed, found, strict=True):
            tensor.detach().copy_(other)

    def _notices(self) -> bool:
        """A backward pass has made a gradient; whether it must be copied now."""
        now: int = torch._C._current_graph_task_id()
        if now != self._pass:
            self._pass = now
            self._steps.passed()
            if self._together.averages and not self._holds_back:
                # Like with DistributedDataParallel, gradients are averaged when backward() returns,
                # so that scripts may clip, unscale or look at them.
                engine: Any = torch.autograd.Variable._execution_engine
                engine.queue_callback(self._average)
        return self._together.averages and not self._holds_back

    def _gradient_ready(self, begin: int, count: int) -> None:
        self._together.gradient_ready(begin, count)

    def _average(self) -> None:
        self._layout.complete()
        self._together.average()
        self._layout.put_gradients()
        self._is_averaged = True

    def _before_step(self, has_closure: bool) -> None:
        layout, together = self._layout, self._together
        layout.check_in_place(self._optimizers)
        together.before_step()
        if not together.strategy.takes_gradients:
            together.before_update(layout.gradients())
            return
        if has_closure:
            if not together.averages:
                raise RuntimeError(
                    f'sync: "{self.strategy.name}" exchanges gradients before optimizer.step(), '
                    "but the closure computes them inside it; call step() without a closure"
                )
            return
        if self._is_averaged and together.averages:
            return
        layout.complete()
        if self._rules is not None and self._rules.changed():
            together.set_rules(self._rules.listed())
        together.before_update()
        if self._rules is not None:
            layout.drop_gradients()  # so that the optimizer does nothing
        else:
            layout.put_gradients()

    def _after_step(self) -> None:
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

        It waits as long as other processes make progress, and says on standard error for which
        ones. Meanwhile this process answers them, so they may make more steps. Under "allreduce"
        all get the model that has made the most steps. The model and the optimizer stay usable, in
        this process alone. If a process was lost or does not end in time, the models keep their own
        weights, and a warning of each process says so.

        Args:
            seconds_max: How long to wait for the other processes at most. None: until there was no
                sign of progress for `wait_seconds`.
        """
        if not self._end(math.inf if seconds_max is None else seconds_max, wants_mean=True):
            warnings.warn(
                f"sync: rank {self.rank} keeps its own weights instead of the mean of all: other "
                "processes were lost, or did not end in time",
                stacklevel=2,
            )

    def _end(self, seconds_max: float, *, wants_mean: bool) -> bool:
        if not self._is_open:
            return True
        try:
            self._steps.complete()
            return self._together.close(seconds_max, wants_mean=wants_mean, also=self._also)
        finally:
            self._leave()

    def _leave(self) -> None:
        """Ends the exchange at once; other processes notice that this one is gone."""
        if not self._is_open:
            return
        self._is_open = False
        atexit.unregister(self._close_at_exit)
        for hook in (*self._hooks, *self._steps.handles):
            hook.remove()
        self._together.leave()
        self._connection.close()
        self._layout.release()

    def _close_at_exit(self) -> None:
        if hasattr(sys, "last_value"):  # an exception ends the process
            self._leave()
        else:  # nobody uses the model any more, so the mean of all weights is not taken
            self._end(math.inf, wants_mean=False)

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
            self._leave()


def attach(
    model: torch.nn.Module | Sequence[torch.nn.Module],
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    strategy: str | Strategy | Guide = "auto",
    *,
    steps: int = 0,
    wait_seconds: float = 1800.0,
    process_group: Any = None,
    buffers: str = "mean",
) -> Sync:
    """Makes a model learn together with those of the job's other processes.

    Every process calls it once, with the same strategy, after it has made the model and the
    optimizer. All models get the weights and buffers, including frozen parameters, of rank 0 or of
    the process with the newest checkpoint. From then on `optimizer.step()` makes the exchange that
    the strategy needs, and the training loop stays as it is. Learning rates mean what they mean
    with DistributedDataParallel, because gradients of all processes are averaged.

    Args:
        model: Its parameters must be float32, bfloat16 or float16, and all on one device, the CPU
            or a GPU. Or several modules, whose parameters all learn, such as a backbone and a loss
            with weights. Do not wrap it in DistributedDataParallel.
        optimizer: Any optimizer over all parameters of the model that require gradients, or several
            that hold them together; for parameter servers, torch.optim.SGD. Of an optimizer around
            another one (SAM, Lookahead, Accelerate's), the inner one's steps count.
        strategy: "auto": the job measures its links, chooses the strategy that suits them, and
            chooses again when they change; rank 0 prints each choice in one line. Or a name, or an
            object with options: "ako" (`Ako`), "allreduce" (`AllReduce`), "ps"
            (`ParameterServers`), "pairs" (`Pairs`) or "local" (`LocalSteps`).
        steps: The number of steps, or epochs, after which the checkpoint was written that this
            process has loaded; 0: it has loaded none. If the processes' numbers differ, all get the
            model and the optimizer's state of the process with the newest checkpoint, so a machine
            that joins later needs no checkpoint. `Sync.from_newest` gives it everything else.
        wait_seconds: How long a step, or another call, waits for other processes at most, above 0;
            math.inf: without limit. After 30 s a line on standard error says for which process it
            waits, for example because rank 0 validates. Under "auto" this is four times as long in
            the first step, and in steps in which the links are measured again or the strategy
            changes. When the processes compare their speeds before a choice, it is 100 times what
            this process took for six steps, if that is longer.
        process_group: The processes that exchange, as a group of torch.distributed; None: all of
            the job. Only these call `attach`.
        buffers: What becomes of buffers, such as a batch norm's statistics, at `Sync.close`.
            "mean": all get the mean of all processes' floating-point buffers, and rank 0's other
            buffers. "own": each keeps its own. While the job runs, each has its own.

    Raises:
        ValueError: An argument is invalid, or the processes' models differ.
        SyncError: Other processes did not call it in time, or cannot be reached.
    """
    chosen = strategy_of(strategy)
    whole = model if isinstance(model, torch.nn.Module) else torch.nn.ModuleList(model)
    given = [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else optimizer
    optimizers = [stepping(one) for one in (given if isinstance(given, Sequence) else [given])]
    _check_model(whole, optimizers)
    if steps < 0:
        raise ValueError(f"sync: steps is {steps}, but must not be negative")
    if buffers not in _BUFFERS:
        raise ValueError(f"sync: buffers is {buffers!r}, but must be one of {', '.join(_BUFFERS)}")
    check_seconds(wait_seconds)
    _join_job()
    return Sync(whole, optimizers, chosen, steps, wait_seconds, process_group, buffers)


def check_seconds(wait_seconds: Any) -> None:
    """Raises ValueError unless it is a number above 0."""
    is_number = isinstance(wait_seconds, (int, float)) and not isinstance(wait_seconds, bool)
    if not is_number or not wait_seconds > 0:
        raise ValueError(
            f"sync: wait_seconds is {wait_seconds!r}, but must be a number above 0; math.inf waits "
            "without limit"
        )


def _join_job() -> None:
    if dist.is_initialized():
        return
    if not dist.is_torchelastic_launched() and "RANK" not in os.environ:
        raise ValueError(
            "sync: this process is not part of a job: start the script with torchrun, for example "
            "torchrun --nproc-per-node=2 train.py, or call torch.distributed.init_process_group()"
        )
    dist.init_process_group("gloo")


def _check_model(model: torch.nn.Module, optimizers: list[torch.optim.Optimizer]) -> None:
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.parallel.DistributedDataParallel):
            raise ValueError(
                f"sync: the model{' at ' + name if name else ''} is wrapped in "
                "DistributedDataParallel, so everything would be exchanged twice; give attach() "
                "the model itself"
            )
    held = {id(p) for one in optimizers for group in one.param_groups for p in group["params"]}
    missing = [n for n, p in model.named_parameters() if p.requires_grad and id(p) not in held]
    if missing:
        raise ValueError(
            f"sync: the optimizer does not hold these parameters: {missing[:5]}; freeze them with "
            "requires_grad_(False), or give them to the optimizer"
        )
