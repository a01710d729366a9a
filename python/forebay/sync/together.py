"""One process's exchange with the others of its job, over flat lists of numbers."""

import contextlib
import hashlib
import io
import json
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from forebay import _core
from forebay.sync.auto import CHANGE_SECONDS, Auto
from forebay.sync.connection import Connection, Waiting, named
from forebay.sync.errors import SyncError
from forebay.sync.guide import Guide
from forebay.sync.numbers import Numbers
from forebay.sync.outer import make_outer
from forebay.sync.policy import ALONE
from forebay.sync.probe import Probe, take_probe
from forebay.sync.rules import Rule
from forebay.sync.strategies import Ako, AllReduce, LocalSteps, ParameterServers, Strategy
from forebay.sync.totals import Totals

# When all processes must come to the same step, they wait this many times wait_seconds, because the
# slowest may be some steps behind.
_SLOWEST_WAITS = 4
# Before a choice, another process may take this many times as long as this one for the same steps.
_TIMES_AS_SLOW = 100
OUTER_MOMENTUM = "outer_momentum"  # a name in what local steps keep
_LOOK_SECONDS = 1.0  # from one look at the others' progress to the next, when an exchange ends


class Together:
    """Synchronizes this process's numbers with those of all others; every process makes one.

    Args:
        connection: Connects the processes.
        store: A store of torch.distributed for these processes.
        numbers: The model's; all get the weights of the process with the newest checkpoint.
        strategy: How numbers are exchanged. A Guide chooses the strategy that suits the links, and
            changes it with them.
        description: A text that must be equal in all processes.
        steps: The number of steps after which this process's checkpoint was written.
        share_state: Gives all processes the optimizer's state of rank 0; all call it together.

    Attributes:
        strategy: The strategy in use.
        rank: This process's rank.
        world_size: The number of processes.
        newest: The rank whose weights all processes get.
        begins_even: Whether all processes' checkpoints are of the same step.

    Raises:
        ValueError: The strategy's options are invalid, or the processes differ.
        SyncError: Other processes are gone or did not come in time.
    """

    def __init__(
        self,
        connection: Connection,
        store: Any,
        numbers: Numbers,
        strategy: Strategy | Guide,
        description: str,
        steps: int = 0,
        share_state: Callable[[], None] = lambda: None,
    ) -> None:
        guide = strategy if isinstance(strategy, Guide) else None
        self.strategy: Strategy = ALONE if isinstance(strategy, Guide) else strategy
        self._connection = connection
        self.rank, self.world_size = connection.rank, connection.world_size
        self.strategy.options(self.world_size)  # checks them
        self._numbers, self._share_state = numbers, share_state
        self._wait_seconds = connection.wait_seconds
        self._waiting = Waiting(self.rank, self._wait_seconds)
        self._agree(f"{strategy} {description}", steps)
        self._outer = make_outer(self.strategy, numbers, self.all_have)
        self._totals = Totals()
        self._begin()
        self._auto: Auto | None = None
        if guide is not None and self.world_size > 1:
            self._auto = Auto(
                store, self.rank, self.world_size,
                numbers.weights.nbytes, lambda: dict(self._exchange.stats()), self._change,
                self._probe, self._least, guide,
            )  # fmt: skip

    def _agree(self, own: str, steps: int) -> None:
        said = self._connection.objects((own, steps))
        others = [rank for rank, other in enumerate(said) if other[0] != said[0][0]]
        if others:
            raise ValueError(
                f"sync: ranks {others} differ from rank 0 in the strategy, in the optimizer, or in "
                "names, shapes, memory layouts or shards of the model's parameters and buffers"
            )
        made = [one for _, one in said]
        self.newest, self.begins_even = newest_of(made), min(made) == max(made)
        self._numbers.fetch_weights()
        self._take_weights_of(self.newest)
        self._numbers.put_weights()

    def _take_weights_of(self, rank: int) -> None:
        """Gives all processes the weights of one; all call it together."""
        weights = self._numbers.weights
        if self.rank != rank:
            weights.zero_()
        self._connection.add(weights)

    def all_have(self, own: Any) -> bool:
        """Whether all processes call this with the same value."""
        return all(other == own for other in self._connection.objects(own))

    def from_newest(self, own: Any) -> Any:
        """See `Sync.from_newest`."""
        return own if self.begins_even else self.from_rank(self.newest, own)

    def from_rank(self, rank: int, own: Any) -> Any:
        """Returns what the process `rank` passes as `own`; the tensors are in the host's memory."""
        file = io.BytesIO()
        if self.rank == rank:
            torch.save(own, file)
        found = self._connection.bytes_from(rank, file.getvalue())
        if self.rank == rank:
            return own
        return torch.load(io.BytesIO(found), map_location="cpu", weights_only=False)

    def _begin(self, *, apart: bool = False, first: Any = None) -> None:
        """Begins an exchange by the present strategy.

        Args:
            apart: Whether the processes' weights differ.
            first: The common weights from which each process has trained on by itself (NumPy
                float32 [numbers]), the same in all processes. None: the present weights.
        """
        strategy, numbers = self.strategy, self._numbers
        options = strategy.options(self.world_size)
        if isinstance(strategy, LocalSteps):
            options["begins_apart"] = apart
        gradient = numbers.gradient if strategy.takes_gradients else torch.empty(0)
        own = weakref.ref(self)
        self._exchange = _core.Exchange(
            json.dumps({strategy.name: options}), self._wait_seconds, self.rank, self.world_size,
            numbers.sizes, gradient.numpy(), numbers.weights.numpy(),
            lambda seconds: _look(own, seconds), first, self._outer and self._outer.step,
            self._totals.steps,
        )  # fmt: skip
        self._links: Any = _core.start_links(self._exchange, self._connection.mesh, strategy.sums)

    def _look(self, waited_s: float) -> None:
        self._waiting.look(
            waited_s, f"to make its step {self.stats()['steps']}", self._links.waits_for
        )

    def _change(self, strategy: Strategy, seconds_max: float) -> None:
        """Changes to another strategy; all processes do so together.

        After local steps, Ako and other local steps exchange what each process has learned since
        the last exchange. Otherwise local steps take the mean of all weights in their first
        exchanges, while the training goes on, and the other strategies begin with that mean.
        """
        end_seconds = min(seconds_max, self._slowest_seconds)
        self._numbers.fetch_weights()  # first: sums that others begin change the host's weights
        if not self._end_links(end_seconds):
            raise SyncError(
                f"sync: {named(self._links.waits_for())} did not end the exchange within "
                f"{end_seconds:.0f} s, when the strategy changed from {self.strategy} to {strategy}"
            )
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
            self._exchange.restore(OUTER_MOMENTUM, kept[OUTER_MOMENTUM])
        if isinstance(strategy, AllReduce):
            # From now on all make the same updates, so their models stay equal if the optimizers'
            # states are equal, too.
            self._share_state()

    def _take_mean(self, seconds_max: float) -> None:
        """Replaces the weights by the mean of all processes' weights; all call it together."""
        weights = self._numbers.weights
        mean = weights / self.world_size
        self._connection.add(mean, seconds_max)
        weights.copy_(mean)

    @property
    def _slowest_seconds(self) -> float:
        return _SLOWEST_WAITS * self._wait_seconds

    def _probe(self, seconds_max: float) -> Probe:
        """Measures the links; all processes do so together."""
        seconds = min(seconds_max, self._slowest_seconds)
        found = take_probe(
            self.world_size,
            self._numbers.weights.nbytes,
            lambda tensor: self._connection.add(tensor, seconds),
            lambda number: min(self._connection.objects(number, seconds)),
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
        slowest = max(self._slowest_seconds, _TIMES_AS_SLOW * seconds)
        said = self._connection.objects(number, min(seconds_max, slowest))
        self._exchange.restart_measuring()
        return float(min(said))

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
        with self._as_sync_error():
            self._exchange.before_update()
        self._numbers.put_gradient()

    @contextlib.contextmanager
    def _as_sync_error(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise SyncError(f"{error}; missing: {named(self._links.waits_for())}") from error
        except OSError as error:
            raise SyncError(str(error)) from error

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
        with self._as_sync_error():
            self._exchange.before_update()

    def after_update(self) -> bool:
        """The optimizer has applied the gradient; returns whether others changed the weights."""
        wants_weights = self._exchange.wants_weights
        if wants_weights:
            self._numbers.fetch_weights()
        with self._as_sync_error():
            self._exchange.after_update()
        if self._outer is not None:
            self._outer.check()
        if wants_weights:
            self._numbers.put_weights()
        if self._auto is not None:
            self._auto.after_step()
        return bool(wants_weights)

    def state_dict(self) -> dict[str, Any]:
        """See `Sync.state_dict`."""
        kept = {name: torch.from_numpy(found) for name, found in self._exchange.kept().items()}
        if isinstance(self.strategy, ParameterServers):  # each server has a part
            for tensor in kept.values():
                self._connection.add(tensor)
        state = {"strategy": self.strategy.name, "kept": kept}
        return state if self._outer is None else {**state, "outer": self._outer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `Sync.load_state_dict`."""
        if state["strategy"] != self.strategy.name:
            return
        for name, tensor in state["kept"].items():
            if self._outer is None or name != OUTER_MOMENTUM:
                self._exchange.restore(name, tensor.numpy())
        if self._outer is not None and "outer" in state:
            self._outer.load_state_dict(state["outer"])

    def stats(self) -> dict[str, Any]:
        """What was exchanged so far; see `Sync.stats`."""
        return self._totals.with_present(dict(self._exchange.stats()))

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

    def close(
        self, seconds_max: float, *, wants_mean: bool = True, also: Sequence[torch.Tensor] = ()
    ) -> bool:
        """Ends the exchange, and waits until the other processes end theirs.

        It waits as long as they make progress: at most wait_seconds without a sign of it. If they
        do not end, the connection is of no further use.

        Args:
            seconds_max: How long to wait for the other processes at most.
            wants_mean: Whether all processes shall end with the mean of all weights. If one does
                not want it or has lost another, each keeps its own weights.
            also: Further tensors, which get the mean of all processes' tensors, too; numbers that
                are not floating-point get those of rank 0.

        Returns:
            Whether all processes ended in time and, unless one does not want it, have the same
            weights.
        """
        until = time.monotonic() + seconds_max
        if self._auto is not None:
            self._auto.close(seconds_max)
        self._numbers.fetch_weights()  # first: sums that others begin change the host's weights
        is_even = self._end_links(max(0.0, until - time.monotonic()))
        if not is_even:
            self._links = None  # so that the exchange notices which processes are gone
        self._exchange.settle()
        if self._outer is not None:
            self._outer.check()
        if is_even and self.world_size > 1:
            is_even = self._end_even(wants_mean, also, until)
        self._numbers.put_weights()
        self.leave()
        return is_even

    def leave(self) -> None:
        """Ends the exchange at once; without close(), other processes lose this one."""
        if self._auto is not None:
            self._auto.stop()
        self._auto = self._links = None

    def _end_links(self, seconds_max: float) -> bool:
        """Ends the exchange; returns whether all processes have done so in time."""
        begin = time.monotonic()
        heard, heard_at = self._heard(), begin
        while not self._links.close(min(_LOOK_SECONDS, seconds_max)):
            now = time.monotonic()
            if (lately := self._heard()) != heard:
                heard, heard_at = lately, now
            if now - begin >= seconds_max or now - heard_at >= self._wait_seconds:
                return False
            self._waiting.look(now - begin, "to end the exchange", self._links.waits_for)
        return not any(link["lost"] for link in self._exchange.stats()["links"])

    def _heard(self) -> list[int]:
        """Figures that grow with each sign of progress of other processes."""
        stats = self._exchange.stats()
        return [stats["reduced_bytes"], *(link["received_bytes"] for link in stats["links"])]

    def _end_even(self, wants_mean: bool, also: Sequence[torch.Tensor], until: float) -> bool:
        try:
            return self._make_even(wants_mean, also, until)
        except SyncError:
            return False

    def _make_even(self, wants_mean: bool, also: Sequence[torch.Tensor], until: float) -> bool:
        seconds = max(1.0, min(CHANGE_SECONDS, self._wait_seconds, until - time.monotonic()))
        weights = self._numbers.weights
        digest = hashlib.sha256(weights.numpy().data).digest() if self.averages else b""
        own = (wants_mean, digest, self._exchange.stats()["steps"])
        said = self._connection.objects(own, seconds)
        if not all(wants for wants, _, _ in said):
            return not wants_mean
        if not self.averages:
            self._take_mean(seconds)
        elif len({digest for _, digest, _ in said}) > 1:
            # Some made fewer steps, so the model that has learned from most counts.
            self._take_weights_of(newest_of([steps for _, _, steps in said]))
        self._share_mean(also, seconds)
        return True

    def _share_mean(self, tensors: Sequence[torch.Tensor], seconds: float) -> None:
        floats = [tensor for tensor in tensors if tensor.is_floating_point()]
        others = [tensor for tensor in tensors if not tensor.is_floating_point()]
        if floats:
            parts = [tensor.detach().reshape(-1).to("cpu", torch.float32) for tensor in floats]
            mean = torch.cat(parts) / self.world_size
            self._connection.add(mean, seconds)
            for tensor, part in zip(floats, mean.split([p.numel() for p in parts]), strict=True):
                tensor.detach().copy_(part.reshape(tensor.shape))
        if others:
            found = self.from_rank(0, [tensor.detach().cpu() for tensor in others])
            for tensor, other in zip(others, found, strict=True):
                tensor.detach().copy_(other)


def _look(together: "weakref.ref[Together]", waited_s: float) -> None:
    own = together()
    if own is not None:
        own._look(waited_s)


def newest_of(steps: Sequence[int]) -> int:
    """The rank whose checkpoint is the newest; the lowest such rank if several are equal."""
    return steps.index(max(steps))
