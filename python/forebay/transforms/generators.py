"""Makes PyTorch's random functions draw from a given generator. Needs PyTorch to be imported."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

# PyTorch's functions that draw random numbers and take a generator.
_DRAWING = frozenset(
    ["rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson"]
    + ["uniform_", "normal_", "random_", "bernoulli_", "exponential_"]
)
# Not all versions of these functions take a generator.
_LIKE = {"rand_like": torch.rand, "randn_like": torch.randn}


class Drawing(TorchFunctionMode):
    """A context in which its thread draws from a given generator, not from PyTorch's global one.

    Args:
        generator: The torch.Generator to draw from, of the CPU.
    """

    def __init__(self, generator: Any) -> None:
        super().__init__()
        self._generator = generator

    def __torch_function__(
        self,
        called: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Calls one of PyTorch's functions, with the generator if the function takes one."""
        given = dict(kwargs or {})
        name = getattr(called, "__name__", "")
        if name in _LIKE:
            like, called = args[0], _LIKE[name]
            given = {"dtype": like.dtype, "device": like.device, **given}
            args, name = (like.shape,), called.__name__
        if name in _DRAWING and given.get("generator") is None:
            given["generator"] = self._generator
        return called(*args, **given)
