"""What `attach` returns: the API for training loops in Python."""

import atexit
import contextlib
import hashlib
import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist

from forebay.ranks import job_store
from forebay.sync.connection import Connection
from forebay.sync.guide import Guide
from forebay.sync.lasting import Lasting
from forebay.sync.layout import Layout
from forebay.sync.leaving import has_failed
from forebay.sync.numbers import Numbers
from forebay.sync.optimizers import Steps, unscale
from forebay.sync.replicas import Replicas
from forebay.sync.rules import Rules
from forebay.sync.shards import with_meshes, without_meshes
from forebay.sync.strategies import LocalSteps, ParameterServers, Strategy
from forebay.sync.together import Together

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
        ranks: Sequence[int],
        buffers: str,
        replicas: Any = None,
    ) -> None:
        self._layout = layout = Layout(model)
        self._optimizers = list(optimizers)
        self._connection: Any = None
        self._replicas = None if replicas is None else Replicas(replicas, layout)
        self._rules = None
        self._also = [*layout.buffers, *layout.counters] if buffers == "mean" else []
        self._is_open = True
        self._steps = Steps(self._optimizers, self._before_step, self._after_step)
        try:
            if isinstance(strategy, ParameterServers):
                self._rules = Rules(self._optimizers, layout)
            self._begin(strategy, steps, wait_seconds, ranks)
        except BaseException:
            for handle in self._steps.handles:
                handle.remove()
            layout.release()
            if self._connection is not None:
                self._connection.close()
            raise
        self._holds_back = False
        self._is_averaged = False  # whether the gradients are the mean of all processes'
        self._pass = -1  # the last backward pass that this object has noticed
        self._hooks = layout.on_gradient(self._notices, self._gradient_ready)
        atexit.register(self._close_at_exit)

    def _begin(
        self, strategy: Strategy | Guide, steps: int, wait_seconds: float, ranks: Sequence[int]
    ) -> None:
        layout, optimizers = self._layout, self._optimizers
        numbers = Numbers(
            layout.weights, layout.gradient, layout.sizes, layout.fetch_weights, layout.put_weights,
            layout.shapes,
        )  # fmt: skip
        described = [
            f"{type(one).__name__} {[len(part['params']) for part in one.param_groups]}"
            for one in optimizers
        ]
        number = next(_numbers.setdefault(str(ranks), itertools.count()))
        store = dist.PrefixStore(f"forebay-sync {ranks} {number}", job_store().clone())
        rank = ranks.index(dist.get_rank())
        self._connection = Connection(store, rank, len(ranks), wait_seconds)
        # Local steps need no other process, so they go on when some are lost.
        kind = Lasting if isinstance(strategy, LocalSteps) else Together
        self._together = kind(
            self._connection, store, numbers, strategy,
            f"{layout.fingerprint()} {described}", steps, self._share_state,
        )  # fmt: skip
        self._share_fixed()
        if not self._together.begins_even:
            self._load_states_of(self._together.newest)
        if self._replicas is not None:
            self._replicas.share((rank, len(ranks)))
            self._replicas.share_weights(are_new=True)
            self._replicas.share_tensors(layout.fixed)
            self._replicas.share([one.state_dict() for one in optimizers])

    def _states(self) -> list[Any]:
        """The optimizers and, once it has made a step, the GradScaler."""
        scaler = self._steps.scaler
        return [*self._optimizers, *([scaler] if scaler is not None else [])]

    def _share_state(self) -> None:
        self._load_states_of(0)

    def _load_states_of(self, rank: int) -> None:
        """Gives all processes the optimizers' states of one process; all call it together."""
        own = [without_meshes(one.state_dict()) for one in self._states()]
        found = self._together.from_rank(rank, own)
        if self.rank != rank:
            for one, state in zip(self._states(), found, strict=False):
                one.load_state_dict(with_meshes(state, one))

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
        for optimizer in self._optimizers:
            unscale(optimizer)
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
        are_new = self._together.after_update()
        if self._replicas is not None:
            self._replicas.share_weights(are_new=are_new)

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
        state = self._together.state_dict()
        return state if self._replicas is None else dict(self._replicas.share(state))

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
        found = self._together.from_newest(own)
        return found if self._replicas is None else self._replicas.share(found)

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
            is_even = self._together.close(seconds_max, wants_mean=wants_mean, also=self._also)
            if self._replicas is not None:
                self._replicas.share(is_even)
                self._replicas.share_weights(are_new=True)
                self._replicas.share_tensors(self._also)
            return is_even
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
        if self._connection is not None:
            self._together.leave()
            self._connection.close()
        self._layout.release()

    def _close_at_exit(self) -> None:
        if has_failed():
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
