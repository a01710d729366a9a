"""A model's weights and gradient in host memory, where exchanges work on them."""

from collections.abc import Callable, Sequence

import torch


def _nothing() -> None:
    pass


class Numbers:
    """A model's weights and gradient in host memory, and copies between there and the model.

    If the model is in another memory, such as a GPU's, the host has copies; otherwise it has the
    model's own numbers, and fetching and putting them does nothing.

    Args:
        weights: float32 [numbers], the model's own.
        gradient: The model's gradient, in the same form; strategies that take gradients use it.
        sizes: How many numbers each parameter has, in their order in `weights`.
        before_fetch: Brings `weights` up to date, if they are copies themselves.
        after_put: Brings the model up to date, if `weights` are copies themselves.
        shapes: The sizes and the strides of each parameter, if an outer optimizer may need them.

    Attributes:
        weights: In host memory.
        gradient: In host memory.
        sizes, shapes: The arguments.
        are_copies: Whether `weights` and `gradient` are copies.
    """

    def __init__(
        self,
        weights: torch.Tensor,
        gradient: torch.Tensor,
        sizes: list[int],
        before_fetch: Callable[[], None] = _nothing,
        after_put: Callable[[], None] = _nothing,
        shapes: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
    ) -> None:
        self._model_weights, self._model_gradient = weights, gradient
        self._before_fetch, self._after_put = before_fetch, after_put
        self.sizes, self.shapes = sizes, shapes
        self.are_copies = not is_of_host(weights)
        self.weights, self.gradient = weights, gradient
        if self.are_copies:
            self.weights, self.gradient = _room_for(weights), _room_for(gradient)

    def fetch_weights(self) -> None:
        """Copies the model's weights to the host."""
        self._before_fetch()
        if self.are_copies:
            self.weights.copy_(self._model_weights)

    def put_weights(self) -> None:
        """Copies the host's weights to the model."""
        if self.are_copies:
            self._model_weights.copy_(self.weights)
        self._after_put()

    def fetch_gradient(self) -> None:
        """Copies the model's gradient to the host."""
        if self.are_copies:
            self.gradient.copy_(self._model_gradient)

    def put_gradient(self) -> None:
        """Copies the host's gradient to the model."""
        if self.are_copies:
            self._model_gradient.copy_(self.gradient)

    def checkable(self, parts: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Returns tensors in host memory that are finite exactly if the model's `parts` are."""
        if not self.are_copies or not parts:
            return list(parts)
        return [torch.stack([(part * 0).sum() for part in parts]).cpu()]  # inf * 0 is nan


def is_of_host(tensor: torch.Tensor) -> bool:
    """Whether a tensor is in host memory."""
    return tensor.device.type == "cpu"


def _room_for(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
