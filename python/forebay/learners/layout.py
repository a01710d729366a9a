"""Where each parameter's numbers are in a learner's row of numbers."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class _Place:
    name: str
    begin: int
    shape: torch.Size
    stride: tuple[int, ...]


class Layout:
    """All numbers of a model that learn, as one row of float32 numbers.

    Args:
        model: The layout has its parameters that require gradients, in the order of
            model.parameters().

    Attributes:
        names: The parameters' names.
        count: How many numbers a row has.

    Raises:
        ValueError: No parameter requires gradients, or one is not float32, is not on the processor,
            or is neither contiguous nor channels-last.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._places: list[_Place] = []
        self.count = 0
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                _check(name, parameter)
                place = _Place(name, self.count, parameter.shape, parameter.stride())
                self._places.append(place)
                self.count += parameter.numel()
        if not self._places:
            raise ValueError("learners: the model has no parameters that require gradients")
        self.names = [place.name for place in self._places]

    def of_row(self, row: torch.Tensor) -> list[torch.Tensor]:
        """Returns each parameter's part of a row, float32 [count], as views."""
        first = row.storage_offset()
        return [row.as_strided(p.shape, p.stride, first + p.begin) for p in self._places]

    def of_rows(self, rows: torch.Tensor) -> list[torch.Tensor]:
        """Returns each parameter's part of all rows, [learners, …], as views."""
        size = (len(rows),)
        return [
            rows.as_strided(size + p.shape, (self.count, *p.stride), p.begin) for p in self._places
        ]

    @torch.no_grad()
    def rows_of(self, model: torch.nn.Module, learners: int) -> torch.Tensor:
        """Returns float32 [learners, count], in which each row has the model's numbers."""
        rows = torch.empty(learners, self.count)
        for part, parameter in zip(self.of_row(rows[0]), self.parameters(model), strict=True):
            part.copy_(parameter)
        rows[1:] = rows[0]
        return rows

    def parameters(self, model: torch.nn.Module) -> list[torch.nn.Parameter]:
        """Returns the parameters of the layout in this model or a copy of it."""
        found = dict(model.named_parameters())
        return [found[name] for name in self.names]


def _check(name: str, parameter: torch.Tensor) -> None:
    if parameter.dtype != torch.float32 or parameter.layout != torch.strided:
        raise ValueError(
            f"learners: parameter {name} is {parameter.dtype}; only dense float32 parameters are "
            "supported; for bfloat16 arithmetic use torch.autocast in loss_of"
        )
    if parameter.device.type != "cpu":
        raise ValueError(
            f"learners: parameter {name} is on {parameter.device}; only models on the processor "
            "are supported"
        )
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(parameter.dim())
    is_last = last is not None and parameter.is_contiguous(memory_format=last)
    if not parameter.is_contiguous() and not is_last:
        raise ValueError(
            f"learners: parameter {name} has strides {parameter.stride()}; only contiguous and "
            "channels-last ones are supported"
        )
