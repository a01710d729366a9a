"""The processes of a machine that do not exchange themselves, but get their leader's weights."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from forebay.sync.guide import Guide
from forebay.sync.session import Sync
from forebay.sync.strategies import Strategy


class Following(Sync):
    """A Sync of a process that is no leader; see `replicas` of `attach`."""

    def _begin(
        self, strategy: Strategy | Guide, steps: int, wait_seconds: float, ranks: Sequence[int]
    ) -> None:
        assert self._replicas is not None
        assert isinstance(strategy, Strategy)  # attach() refuses "auto" with replicas
        self._strategy: Strategy = strategy
        self._leader, self._leaders = self._replicas.share(None)
        self._replicas.share_weights(are_new=True)
        self._replicas.share_tensors(self._layout.fixed)
        for one, state in zip(self._optimizers, self._replicas.share(None), strict=True):
            one.load_state_dict(state)

    @property
    def strategy(self) -> Strategy:
        """The strategy in use, with its options."""
        return self._strategy

    @property
    def rank(self) -> int:
        """The rank of this process's leader among the leaders."""
        return int(self._leader)

    @property
    def world_size(self) -> int:
        """The number of leaders."""
        return int(self._leaders)

    def _notices(self) -> bool:
        return False

    def _before_step(self, has_closure: bool) -> None:
        self._layout.check_in_place(self._optimizers)

    def _after_step(self) -> None:
        assert self._replicas is not None
        self._replicas.share_weights(are_new=False)

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Leaves the model as it is; the leader's has the mean."""
        yield

    def state_dict(self) -> dict[str, Any]:
        """See `Sync.state_dict`."""
        assert self._replicas is not None
        return dict(self._replicas.share(None))

    def from_newest(self, own: Any) -> Any:
        """See `Sync.from_newest`."""
        assert self._replicas is not None
        return self._replicas.share(None)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Does nothing: the leader has what was exchanged."""

    def stats(self) -> dict[str, Any]:
        """Returns nothing: the leader has the figures."""
        return {}

    def _end(self, seconds_max: float, *, wants_mean: bool) -> bool:
        if not self._is_open:
            return True
        try:
            assert self._replicas is not None
            self._steps.complete()
            is_even = bool(self._replicas.share(None))
            self._replicas.share_weights(are_new=False)
            self._replicas.share_tensors(self._also)
            return is_even
        finally:
            self._leave()
