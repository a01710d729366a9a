"""The numbers that the processes of a job exchange."""

from collections.abc import Sequence

import torch


class Numbers:
    """A model's weights and gradient in the host's memory, where an exchange works on them.

    Where the model lies in another memory, such as a GPU's, these are copies.

    Args:
        weights: float32 [numbers], the model's own.
        gradient: The same for gradients, where a strategy takes them.
        sizes: How many numbers each tensor has of those that follow each other there.

    Attributes:
        weights: Those of the host.
        gradient: The same for gradients.
        sizes: As given.
        are_copies: Whether both are copies.
    """

    def __init__(self, weights: torch.Tensor, gradient: torch.Tensor, sizes: list[int]) -> None:
        self._model_weights, self._model_gradient = weights, gradient
        self.sizes = sizes
        self.are_copies = not is_of_host(weights)
        self.weights, self.gradient = weights, gradient
        if self.are_copies:
            self.weights, self.gradient = _room_for(weights), _room_for(gradient)

    def fetch_weights(self) -> None:
        """Brings the model's weights here."""
        if self.are_copies:
            self.weights.copy_(self._model_weights)

    def put_weights(self) -> None:
        """Brings the weights from here into the model."""
        if self.are_copies:
            self._model_weights.copy_(self.weights)

    def fetch_gradient(self) -> None:
        """Brings the model's gradient here."""
        if self.are_copies:
            self.gradient.copy_(self._model_gradient)

    def put_gradient(self) -> None:
        """Brings the gradient from here into the model's."""
        if self.are_copies:
            self._model_gradient.copy_(self.gradient)

    def checkable(self, parts: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Tensors in the host's memory that are finite if the model's tensors `parts` are."""
        if not self.are_copies or not parts:
            return list(parts)
        return [torch.stack([(part * 0).sum() for part in parts]).cpu()]  # inf * 0 is nan


def is_of_host(tensor: torch.Tensor) -> bool:
    """Whether a tensor lies in the host's memory."""
    return tensor.device.type == "cpu"


def _room_for(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
