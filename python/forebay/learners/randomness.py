"""Random numbers of a learner that shares its process with others.

Dropout draws from PyTorch's global generator. If several threads did so, the order of their draws,
and thus each result, would differ from run to run. Here each learner has a generator of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_DRAWS: set[Any] = {
    *(torch.bernoulli, torch.multinomial, torch.normal, torch.poisson),
    *(torch.rand, torch.randint, torch.randn, torch.randperm),
    *(torch.Tensor.bernoulli, torch.Tensor.bernoulli_, torch.Tensor.multinomial),
    *(torch.Tensor.cauchy_, torch.Tensor.exponential_, torch.Tensor.geometric_),
    *(torch.Tensor.log_normal_, torch.Tensor.normal_, torch.Tensor.random_),
    torch.Tensor.uniform_,
}
_CHANNEL_DROPOUTS: set[Any] = {functional.dropout1d, functional.dropout2d, functional.dropout3d}


class OwnRandom(TorchFunctionMode):
    """Within it, this thread's random functions draw from a generator.

    Attributes:
        has_drawn: Whether a random function was called.
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self._generator = generator
        self.has_drawn = False

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[Any],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if func in _DRAWS and given.get("generator") is None:
            self.has_drawn = True
            given["generator"] = self._generator
        elif func is functional.dropout:
            return self._dropout(func, 0, *args, **given)
        elif func in _CHANNEL_DROPOUTS and args[0].dim() > 2:
            return self._dropout(func, 2, *args, **given)
        return func(*args, **given)

    def _dropout(
        self,
        func: Callable[..., Any],
        kept_dims: int,
        x: torch.Tensor,
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
    ) -> torch.Tensor:
        """Dropout of numbers, or of all numbers of a channel if the first two dimensions remain."""
        if not training or p in (0, 1):
            return func(x, p, training, inplace)  # type: ignore[no-any-return]
        self.has_drawn = True
        shape = x.shape if kept_dims == 0 else x.shape[:kept_dims] + (1,) * (x.dim() - kept_dims)
        kept = x.new_empty(shape).bernoulli_(1 - p, generator=self._generator).div_(1 - p)
        return x.mul_(kept) if inplace else x * kept


class HeldRandom:
    """Random numbers of the global generator that do not depend on who else draws from it.

    Args:
        seed: Where they begin.

    Attributes:
        state: The state of the generator, uint8, from which the next use continues.
        has_drawn: Whether any were drawn.
    """

    def __init__(self, seed: int) -> None:
        self.state = torch.Generator().manual_seed(seed).get_state()
        self.has_drawn = False
        self._outside = self.state

    def __enter__(self) -> None:
        self._outside = torch.get_rng_state()
        torch.set_rng_state(self.state)

    def __exit__(self, *_: object) -> None:
        now = torch.get_rng_state()
        self.has_drawn = self.has_drawn or not torch.equal(now, self.state)
        self.state = now
        torch.set_rng_state(self._outside)
