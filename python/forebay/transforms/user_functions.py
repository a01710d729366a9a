"""The user's functions, and the random numbers that they ask for.

The random numbers depend only on what a function is called for, so they are the same for any number
of threads and ranks, and after resuming anywhere.
"""

import functools
import hashlib
import inspect
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.pytorch import load_torch


class DrawContext:
    """What a function is called for; its random numbers depend on this alone.

    Args:
        seed: The loader's seed.
        epoch: From 0.
        numbers: The numbers that the augmentation of the samples is drawn for, [samples]: of one
            sample, or of all samples of a batch.
        step: The batch's number in its epoch; None: the function is for one sample.
    """

    def __init__(
        self, seed: int, epoch: int, numbers: NDArray[np.uint64], step: int | None = None
    ) -> None:
        self._seed, self._epoch, self._numbers, self._step = seed, epoch, numbers, step

    def digest(self, name: str) -> bytes:
        """32 bytes for the function of this name, unrelated to the bytes of any other context."""
        text = f"forebay {name}, seed {self._seed}, epoch {self._epoch}, step {self._step}:"
        return hashlib.sha256(text.encode() + self._numbers.astype("<u8").tobytes()).digest()


class UserFunction:
    """A function of one value, called with the generators that it has parameters for.

    A parameter `generator` gets a torch.Generator, and a parameter `rng` a numpy.random.Generator.
    Both belong to the function until it returns. Any thread may call it.

    Args:
        own: The user's function.
        name: The Loader's parameter that the function was given as.
        place: The function's index among several, each of which draws its own numbers.

    Raises:
        ValueError: The function asks for a torch.Generator, but PyTorch is missing.
    """

    def __init__(self, own: Callable[..., Any], name: str, place: int = 0) -> None:
        self.own = own
        self._name = f"{name} {place}"
        self._takes = _generators_of(own)
        if "generator" in self._takes and load_torch() is None:
            raise ValueError(
                f"{name}: {name_of(own)} takes a torch.Generator (its parameter `generator`), but "
                "PyTorch is not installed; `rng` gets NumPy's"
            )

    def __call__(self, value: Any, context: DrawContext) -> Any:
        if not self._takes:
            return self.own(value)
        digest = context.digest(self._name)
        generators = {name: _MAKERS[name](digest) for name in self._takes}
        return self.own(value, **generators)


class TorchvisionFunction(UserFunction):
    """One of torchvision's transforms, which would draw from PyTorch's global generator.

    Here it draws from a generator of the DrawContext, and leaves the global one as it is.
    """

    def __call__(self, value: Any, context: DrawContext) -> Any:
        from forebay.transforms.generators import Drawing  # torchvision needs PyTorch

        with Drawing(_torch_generator(context.digest(self._name))):
            return self.own(value)


def name_of(own: Any) -> str:
    """The name of a function or a transform in messages."""
    return getattr(own, "__name__", type(own).__name__)


def _generators_of(own: Callable[..., Any]) -> tuple[str, ...]:
    """Which of the generators a function has parameters for, after its first parameter."""
    bound = set()
    target: Any = own
    while isinstance(target, functools.partial):
        bound |= set(target.keywords)  # the user has given these arguments
        target = target.func
    torch = load_torch()
    if torch is not None and isinstance(own, torch.nn.Module):
        own = own.forward
    try:
        parameters = list(inspect.signature(own).parameters.values())
    except (TypeError, ValueError):  # functions of extension modules may tell nothing
        return ()
    first = [one.name for one in parameters[:1] if one.kind != one.KEYWORD_ONLY]
    return tuple(
        one.name
        for one in parameters
        if one.name in _MAKERS
        and one.name not in (*first, *bound)
        and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    )


_of_thread = threading.local()


def _torch_generator(digest: bytes) -> Any:
    """Returns the thread's own generator with a new seed; making a new one would be costly."""
    if not hasattr(_of_thread, "generator"):
        _of_thread.generator = load_torch().Generator()
    return _of_thread.generator.manual_seed(int.from_bytes(digest[:8], "little"))


def _numpy_generator(digest: bytes) -> np.random.Generator:
    # This is PCG64 and not default_rng(), because NumPy promises that its bits never change.
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[8:24], "little")))


_MAKERS: dict[str, Callable[[bytes], Any]] = {
    "generator": _torch_generator,
    "rng": _numpy_generator,
}
