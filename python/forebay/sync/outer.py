"""Any optimizer of torch as the outer one of local steps."""

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from forebay.sync.numbers import Numbers
from forebay.sync.strategies import LocalSteps, Strategy

Shape = tuple[Sequence[int], Sequence[int]]  # of a parameter: its sizes, and its strides


@dataclass(frozen=True)
class _Piece:
    """A parameter of the outer optimizer: numbers of the model from `begin` to `end`."""

    parameter: torch.Tensor
    begin: int
    end: int
    shape: Shape


class Outer:
    """An outer optimizer, whose parameters are lent the shared weights for each of its steps.

    Args:
        make: Makes the optimizer from its parameters.
        numbers: The model's.
        fragments: The number of parts of the model that take turns.
    """

    def __init__(
        self,
        make: Callable[[list[torch.Tensor]], torch.optim.Optimizer],
        numbers: Numbers,
        fragments: int,
    ) -> None:
        self._weights = weights = numbers.weights
        self._pieces = [
            _Piece(_view(weights[begin:end], shape).requires_grad_(), begin, end, shape)
            for begin, end, shape in _cut(numbers.shapes, weights.numel(), fragments)
        ]
        optimizer: Any = make([piece.parameter for piece in self._pieces])
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise ValueError(
                "sync: outer must return a torch.optim.Optimizer over the parameters that it "
                f"gets, but returned {optimizer!r}"
            )
        self._optimizer = optimizer
        self._failure: BaseException | None = None

    def __repr__(self) -> str:
        return repr(self._optimizer)

    def step(self, shared: np.ndarray, moved: np.ndarray, begin: int) -> None:
        """Makes a step of a fragment that begins at `begin`; see LocalSteps in C++.

        It raises nothing, because a thread of C++ may call it; see `check`.
        """
        if self._failure is not None:
            return
        weights, gradient = torch.from_numpy(shared), torch.from_numpy(moved)
        pieces = [p for p in self._pieces if begin <= p.begin < begin + weights.numel()]
        try:
            with _on_one_core():
                for piece in pieces:
                    part = slice(piece.begin - begin, piece.end - begin)
                    piece.parameter.data = _view(weights[part], piece.shape)
                    piece.parameter.grad = _view(gradient[part], piece.shape)
                self._optimizer.step()
        except BaseException as error:
            self._failure = error
        for piece in pieces:
            piece.parameter.grad = None  # so that the steps of other fragments leave it alone
            piece.parameter.data = _view(self._weights[piece.begin : piece.end], piece.shape)

    def check(self) -> None:
        """Raises what a step has raised."""
        if self._failure is not None:
            raise self._failure

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of the optimizer."""
        state: dict[str, Any] = copy.deepcopy(self._optimizer.state_dict())
        return {"kind": type(self._optimizer).__name__, "state": state}

    def load_state_dict(self, kept: dict[str, Any]) -> None:
        """Continues from a checkpoint; the state of another kind of optimizer is ignored.

        Raises:
            ValueError: The state is of other parts of a model.
        """
        if kept["kind"] != type(self._optimizer).__name__:
            return
        try:
            self._optimizer.load_state_dict(copy.deepcopy(kept["state"]))
        except ValueError as error:
            raise ValueError(
                "sync: the outer optimizer's state is of other parts of the model; give LocalSteps "
                f"the fragments with which it was saved ({error})"
            ) from error


def make_outer(
    strategy: Strategy, numbers: Numbers, all_have: Callable[[Any], bool]
) -> Outer | None:
    """Makes the outer optimizer that a strategy asks for, if any; all processes call it together.

    Args:
        strategy: The job's.
        numbers: The model's.
        all_have: Whether all processes call it with the same value.

    Raises:
        ValueError: The processes have different outer optimizers.
    """
    outer = None
    if isinstance(strategy, LocalSteps) and strategy.outer is not None:
        outer = Outer(strategy.outer, numbers, strategy.fragments)
    if not all_have(repr(outer)):
        raise ValueError(f"sync: the processes' outer optimizers differ; this process has: {outer}")
    return outer


def _cut(shapes: Sequence[Shape], total: int, fragments: int) -> Iterator[tuple[int, int, Shape]]:
    """The parts of parameters that are in one fragment each: begin, end and shape."""
    parts = min(fragments, total)
    borders = [total * number // parts for number in range(parts)]  # like LocalSteps in C++
    begin = 0
    for shape in shapes:
        end = begin + int(np.prod(shape[0]))
        inside = [border for border in borders if begin < border < end]
        places = [begin, *inside, end]
        for one, other in zip(places, places[1:], strict=False):
            if one < other:
                yield one, other, ((other - one,), (1,)) if inside else shape
        begin = end


def _view(flat: torch.Tensor, shape: Shape) -> torch.Tensor:
    return flat.as_strided(*shape, flat.storage_offset())


@contextlib.contextmanager
def _on_one_core() -> Iterator[None]:
    """Lets torch use one thread: with several, the place where a sum is cut changes its bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
