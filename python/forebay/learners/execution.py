"""What the two executions of learners have in common: threads.py and fused.py."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_leaves

from forebay.learners.layout import Layout

LossOf = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Task:
    """What one learner computes in a step: loss_of(model, *batch)."""

    loss_of: LossOf
    batch: tuple[Any, ...]

    def loss(self, model: torch.nn.Module) -> torch.Tensor:
        """Returns the loss.

        Raises:
            ValueError: loss_of returns something else than a tensor of one number.
        """
        loss = self.loss_of(model, *self.batch)
        if isinstance(loss, torch.Tensor) and loss.dim() == 0:
            return loss
        is_tensor = isinstance(loss, torch.Tensor)
        what = f"a tensor of shape {tuple(loss.shape)}" if is_tensor else repr(loss)
        raise ValueError(
            f"learners: loss_of returned {what}, but must return a tensor of one number"
        )

    @property
    def samples(self) -> int:
        """The length of the batch's first tensor that has one; 1 if there is none."""
        leaves = tree_leaves(self.batch)
        return next((len(x) for x in leaves if isinstance(x, torch.Tensor) and x.dim() > 0), 1)


@dataclass(frozen=True)
class Origin:
    """What the learners are made from.

    Attributes:
        model: The user's model.
        optimizer: The user's optimizer, whose settings each step takes over.
        layout: The numbers of the model.
        learners: How many learners to make, above 1.
        seeds: For each learner, where its random numbers begin.
        threads: How many threads compute.
        averages_gradients: Whether the gradients are needed as rows.
    """

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    layout: Layout
    learners: int
    seeds: Sequence[int]
    threads: int
    averages_gradients: bool

    def rows_of_gradients(self) -> torch.Tensor:
        """Returns room for the gradients, float32 [learners, count], or no rows."""
        return torch.zeros(self.learners if self.averages_gradients else 0, self.layout.count)

    @property
    def parameters(self) -> list[torch.nn.Parameter]:
        """The model's parameters that learn."""
        return self.layout.parameters(self.model)


class Execution(Protocol):
    """Computes the gradients and the updates of all learners.

    Attributes:
        name: "threads" or "fused".
        weights: float32 [learners, count], which the learners train in place.
        gradients: Like `weights` if the origin needs them, otherwise without rows. gradients()
            fills the rows of the learners with a batch and clears the others. update() reads them.
        has_drawn: Whether the learners have drawn random numbers.
    """

    name: str
    weights: torch.Tensor
    gradients: torch.Tensor

    @property
    def has_drawn(self) -> bool:
        """Whether the learners have drawn random numbers."""
        ...

    def compute(self, tasks: Sequence[Task]) -> list[float]:
        """Computes the first learners' losses and gradients, one task each.

        Raises:
            ValueError: A loss or a gradient is not finite.
            Exception: What a task raises.
        """
        ...

    def update(self, active: int) -> None:
        """Makes a step of the optimizers of the first `active` learners."""
        ...

    def buffers(self) -> dict[str, list[torch.Tensor]]:
        """Returns each buffer's tensor in each learner, by the buffer's name."""
        ...

    def optimizer_states(self) -> list[dict[str, Any]]:
        """Returns the state of each learner's optimizer, as its state_dict()."""
        ...

    def load_optimizer_states(self, states: Sequence[dict[str, Any]]) -> None:
        """Continues from what optimizer_states() has returned, perhaps of another execution."""
        ...

    def random_states(self) -> list[torch.Tensor]:
        """Returns the states of the generators of random numbers."""
        ...

    def load_random_states(self, states: Sequence[torch.Tensor]) -> None:
        """Continues from what random_states() of the same execution has returned."""
        ...


def not_finite(learner: int, learners: int, what: str) -> ValueError:
    """Returns the error for a number of a learner, counted from 0, that is not finite."""
    return ValueError(
        f"learners: {what} of learner {learner} (of 0 to {learners - 1}) is not finite; this step "
        "was not made, and no weights have changed. Look at the batch that this learner got, or "
        "lower the learning rate"
    )
