"""One process's exchange with the others of its job, over flat lists of numbers."""

import contextlib
import datetime
import io
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from forebay import _core
from forebay.ranks import job_store
from forebay.sync.auto import CHANGE_SECONDS, Auto
from forebay.sync.guide import Guide
from forebay.sync.links import Links, Mailboxes
from forebay.sync.numbers import Numbers
from forebay.sync.policy import ALONE
from forebay.sync.probe import Probe, take_probe
from forebay.sync.rules import Rule
from forebay.sync.strategies import Ako, AllReduce, LocalSteps, ParameterServers, Strategy
from forebay.sync.totals import Totals

_GROUP_TIMEOUT = datetime.timedelta(minutes=30)
# A peer may have nothing to send for any length of time, and Gloo closes all connections when a
# receive takes longer than this.
_LINKS_TIMEOUT = datetime.timedelta(days=3650)
# When all processes must come to the same step, they wait this many times wait_seconds, because the
# slowest may be some steps behind.
_SLOWEST_WAITS = 4
# Before a choice, another process may take this many times as long as this one for the same steps.
_TIMES_AS_SLOW = 100
_OUTER_MOMENTUM = "outer_momentum"  # a name in what local steps keep
# After a change to all-reduce the optimizers' states differ and move the models apart, until these
# differences have decayed. So the mean of the weights is taken again after this many steps, then
# after _EVEN_GROWTH times as many, and so on.
_EVEN_STEPS = 100
_EVEN_GROWTH = 10
_numbers = itertools.count()  # numbers the stores, which all processes make in the same order


class Together:
    """Synchronizes this process's numbers with those of all others; every process makes one.

    Args:
        numbers: The model's; all get the weights of the process with the newest checkpoint.
        strategy: How numbers are exchanged. A Guide chooses the strategy that suits the links, and
            changes it with them.
        wait_seconds: How long a step waits for other processes at most.
        description: A text that must be equal in all processes.
        steps: The number of steps after which this process's checkpoint was written.

    Attributes:
        strategy: The strategy in use.
        rank: This process's rank.
        world_size: The number of processes.
        group: A process group for collective operations.
        newest: The rank whose weights all processes get.
        begins_even: Whether all processes' checkpoints are of the same step.

    Raises:
        ValueError: The strategy's options are invalid, or the processes differ.
    """

    def __init__(
        self,
        numbers: Numbers,
        strategy: Strategy | Guide,
        wait_seconds: float,
        description: str,
        steps: int = 0,
    ) -> None:
        guide = strategy if isinstance(strategy, Guide) else None
        self.strategy: Strategy = ALONE if isinstance(strategy, Guide) else strategy
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.strategy.options(self.world_size)  # checks them
        self._numbers = numbers
        self._wait_seconds = wait_seconds
        self.group = dist.new_group(backend="gloo", timeout=_GROUP_TIMEOUT)
        self._agree(f"{strategy} {description}", steps)
        self._links_group: Any = None
        if guide is not None or not self.strategy.sums:  # else no process sends messages to peers
            self._links_group = dist.new_group(backend="gloo", timeout=_LINKS_TIMEOUT)
        self._mailboxes: Mailboxes | None = None
        self._totals = Totals()
        self._begin()
        self._auto: Auto | None = None
        if guide is not None and self.world_size > 1:
            self._auto = Auto(
                _own_store(), self.rank, self.world_size,
                numbers.weights.nbytes, lambda: dict(self._exchange.stats()), self._change,
                self._probe, self._least, guide,
            )  # fmt: skip

    def _agree(self, own: str, steps: int) -> None:
        said: list[Any] = [None] * self.world_size
        dist.all_gather_object(said, (own, steps), group=self.group)
        others = [rank for rank, other in enumerate(said) if other[0] != said[0][0]]
        if others:
            raise ValueError(
                f"sync: ranks {others} differ from rank 0 in the strategy, in the optimizer, or in "
                "names, shapes or memory layouts of the model's parameters and buffers"
            )
        made = [one for _, one in said]
        self.newest, self.begins_even = newest_of(made), min(made) == max(made)
        self._numbers.fetch_weights()
        dist.broadcast(self._numbers.weights, self.newest, group=self.group)
        # Without the barrier, a process could wait in its first step for others that still receive.
        dist.barrier(group=self.group)
        self._numbers.put_weights()

    def all_have(self, own: Any) -> bool:
        """Whether all processes call this with the same value."""
        said: list[Any] = [None] * self.world_size
        dist.all_gather_object(said, own, group=self.group)
        return all(other == own for other in said)

    def from_newest(self, own: Any) -> Any:
        """See `Sync.from_newest`."""
        if self.begins_even:
            return own
        box = [b""]
        if self.rank == self.newest:
            file = io.BytesIO()
            torch.save(own, file)
            box = [file.getvalue()]
        dist.broadcast_object_list(box, self.newest, group=self.group)
        dist.barrier(group=self.group)
        if self.rank == self.newest:
            return own
        return torch.load(io.BytesIO(box[0]), map_location="cpu", weights_only=False)

    def _begin(self, *, apart: bool = False, first: Any = None) -> None:
        """Begins an exchange by the present strategy.

        Args:
            apart: Whether the processes' weights differ.
            first: The common weights from which each process has trained on by itself (NumPy
                float32 [numbers]), the same in all processes. None: the present weights.
        """
        strategy, numbers = self.strategy, self._numbers
        self._steps = self._even_at = 0
        options = strategy.options(self.world_size)
        if isinstance(strategy, LocalSteps):
            options["begins_apart"] = apart
        gradient = numbers.gradient if strategy.takes_gradients else torch.empty(0)
        self._exchange = _core.Exchange(
            json.dumps({strategy.name: options}), self._wait_seconds, self.rank, self.world_size,
            numbers.sizes, gradient.numpy(), numbers.weights.numpy(), first,
        )  # fmt: skip
        if not strategy.sums and self._mailboxes is None:
            self._mailboxes = Mailboxes(self._links_group, self._exchange.message_bytes_max)
        boxes = None if strategy.sums else self._mailboxes
        self._links = Links(self._exchange, boxes, self.group)

    def _change(self, strategy: Strategy, seconds_max: float) -> None:
        """Changes to another strategy; all processes do so together.

        After local steps, Ako and other local steps exchange what each process has learned since
        the last exchange. Otherwise local steps take the mean of all weights in their first
        exchanges, while the training goes on, and the other strategies begin with that mean.
        """
        end_seconds = min(seconds_max, self._slowest_seconds)
        if not self._links.close(end_seconds):
            raise TimeoutError(
                f"sync: other processes did not end their exchange within {end_seconds:.0f} s, "
                f"when the strategy changed from {self.strategy} to {strategy}"
            )
        self._numbers.fetch_weights()
        self._exchange.settle()
        is_local = isinstance(strategy, LocalSteps)
        goes_on = is_local or (isinstance(strategy, Ako) and strategy.of == "updates")
        shared = self._exchange.shared_weights()
        first = shared if goes_on and shared.size else None
        kept = self._exchange.kept() if is_local and first is not None else {}
        apart = is_local and first is None
        if not apart and first is None:
            self._take_mean(seconds_max)
        self._numbers.put_weights()
        self._totals.add(self._exchange.stats())
        self._exchange.release()  # before the next strategy allocates its own numbers
        self.strategy = strategy
        self._begin(apart=apart, first=first)
        if kept:
            self._exchange.restore(_OUTER_MOMENTUM, kept[_OUTER_MOMENTUM])
        if isinstance(strategy, AllReduce):
            self._even_at = _EVEN_STEPS

    def _take_mean(self, seconds_max: float, slowest_seconds: float | None = None) -> None:
        """Replaces the weights by the mean of all processes' weights; all call it together.

        Args:
            seconds_max: How long the sum may take after all processes have made this call.
            slowest_seconds: How long the processes may take to make this call. None: as long as
                for a change of the strategy.
        """
        come_seconds = self._slowest_seconds if slowest_seconds is None else slowest_seconds
        self._reduce(torch.zeros(1), dist.ReduceOp.SUM, min(seconds_max, come_seconds))
        weights = self._numbers.weights
        mean = weights / self.world_size
        self._reduce(mean, dist.ReduceOp.SUM, seconds_max)
        weights.copy_(mean)

    @property
    def _slowest_seconds(self) -> float:
        return _SLOWEST_WAITS * self._wait_seconds

    def _reduce(self, tensor: torch.Tensor, operation: Any, seconds_max: float) -> None:
        seconds = max(1.0, seconds_max)
        try:
            work = dist.all_reduce(tensor, operation, group=self.group, async_op=True)
            work.wait(datetime.timedelta(seconds=seconds))
        except RuntimeError as error:
            raise TimeoutError(
                "sync: all processes must measure the links, choose or change the strategy and "
                "take the mean of all weights together, but other processes have ended, cannot be "
                f"reached, or did not come to the same step within {seconds:.0f} s: {error}"
            ) from error

    def _even_out(self) -> None:
        """At some steps after a change to all-reduce, takes the mean of all weights."""
        self._steps += 1
        if self._steps != self._even_at:
            return
        self._even_at *= _EVEN_GROWTH
        self._numbers.fetch_weights()
        self._take_mean(CHANGE_SECONDS)
        self._numbers.put_weights()
        self._exchange.restart_measuring()

    def _probe(self, seconds_max: float) -> Probe:
        """Measures the links; all processes do so together."""
        seconds = min(seconds_max, self._slowest_seconds)
        found = take_probe(
            self.world_size,
            self._numbers.weights.nbytes,
            lambda tensor: self._reduce(tensor, dist.ReduceOp.SUM, seconds),
            lambda tensor: self._reduce(tensor, dist.ReduceOp.MIN, seconds),
        )
        self._exchange.restart_measuring()
        return found

    def _least(self, number: float, seconds: float, seconds_max: float) -> float:
        """The least of a number over all processes, which all call this at the same step.

        Args:
            number: This process's number.
            seconds: How long this process took for the steps before the call. Others may take many
                times as long.
            seconds_max: How long it waits for the others at most.
        """
        least = torch.tensor([number], dtype=torch.float64)
        slowest = max(self._slowest_seconds, _TIMES_AS_SLOW * seconds)
        self._reduce(least, dist.ReduceOp.MIN, min(seconds_max, slowest))
        self._exchange.restart_measuring()
        return float(least.item())

    def gradient_ready(self, begin: int, count: int) -> None:
        """A range of the gradient is complete; the rest of the step's gradient follows."""
        if self.averages and not self._numbers.are_copies:
            self._exchange.gradient_ready(begin, count)

    @property
    def averages(self) -> bool:
        """Whether gradients are averaged over all processes at the end of a backward pass."""
        return isinstance(self.strategy, AllReduce)

    def average(self) -> None:
        """Replaces the complete gradient by what the optimizer shall apply."""
        self._numbers.fetch_gradient()
        self._exchange.before_update()
        self._numbers.put_gradient()

    def set_rules(self, rules: list[Rule]) -> None:
        """Says how the optimizer applies gradients, for servers that do so in its place."""
        self._exchange.set_rules(rules)

    def before_step(self) -> None:
        """A step begins; "auto" measures the links before the first one."""
        if self._auto is not None:
            self._auto.before_step()

    def before_update(self, gradients: Sequence[torch.Tensor] | None = None) -> None:
        """The gradient is complete: replaces it by what the optimizer shall apply.

        Args:
            gradients: All parts of the gradient, float32 [numbers] each, for a strategy that does
                not take gradients. None: the gradient is in `Numbers.gradient`.
        """
        numbers = self._numbers
        if self.strategy.takes_gradients:
            self.average()
            return
        parts = numbers.checkable((numbers.gradient,) if gradients is None else gradients)
        self._exchange.check_gradient([part.numpy() for part in parts])
        self._exchange.before_update()

    def after_update(self) -> None:
        """The optimizer has applied the gradient."""
        wants_weights = self._exchange.wants_weights
        if wants_weights:
            self._numbers.fetch_weights()
        self._exchange.after_update()
        if wants_weights:
            self._numbers.put_weights()
        if self._auto is not None:
            self._even_out()
            self._auto.after_step()

    def state_dict(self) -> dict[str, Any]:
        """See `Sync.state_dict`."""
        kept = {name: torch.from_numpy(found) for name, found in self._exchange.kept().items()}
        if isinstance(self.strategy, ParameterServers):  # each server has a part
            for tensor in kept.values():
                dist.all_reduce(tensor, group=self.group)
        return {"strategy": self.strategy.name, "kept": kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `Sync.load_state_dict`."""
        if state["strategy"] == self.strategy.name:
            for name, tensor in state["kept"].items():
                self._exchange.restore(name, tensor.numpy())

    def stats(self) -> dict[str, Any]:
        """What was exchanged so far; see `Sync.stats`."""
        return self._totals.with_present(self._exchange.stats())

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """See `Sync.averaged_weights`."""
        numbers = self._numbers
        numbers.fetch_weights()
        averaged = self._exchange.averaged_weights()
        if averaged.size == 0:
            yield
            return
        own = numbers.weights.clone()
        numbers.weights.copy_(torch.from_numpy(averaged))
        numbers.put_weights()
        try:
            yield
        finally:
            numbers.weights.copy_(own)
            numbers.put_weights()

    def close(self, seconds_max: float, mean_seconds: float) -> bool:
        """Ends the exchange, and waits until the other processes end theirs.

        Args:
            seconds_max: How long to wait for the other processes.
            mean_seconds: How long the mean of all weights may take after all processes have ended;
                0: each process keeps its own weights.

        Returns:
            Whether all processes ended in time and, unless mean_seconds is 0, have the same
            weights.
        """
        until = time.monotonic() + seconds_max
        if self._auto is not None:
            self._auto.close(seconds_max)
        is_even = self._links.close(seconds_max)
        self._numbers.fetch_weights()
        self._exchange.settle()
        if self.averages or self.world_size == 1:
            mean_seconds = 0  # all have the same weights
        if is_even and mean_seconds > 0:
            is_even = self._ends_even(mean_seconds, until - time.monotonic())
        self._numbers.put_weights()
        return is_even

    def _ends_even(self, seconds_max: float, slowest_seconds: float) -> bool:
        if any(link["lost"] for link in self._exchange.stats()["links"]):
            return False
        try:
            self._take_mean(seconds_max, slowest_seconds)
        except TimeoutError:
            return False
        return True


def newest_of(steps: Sequence[int]) -> int:
    """The rank whose checkpoint is the newest; the lowest such rank if several are equal."""
    return steps.index(max(steps))


def _own_store() -> Any:
    """A client of the job's store for one thread, under a prefix that nothing else uses."""
    return dist.PrefixStore(f"forebay-sync-{next(_numbers)}", job_store().clone())
