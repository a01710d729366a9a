"""How an optimizer applies gradients, for parameter servers, which do so in its place."""

from collections.abc import Sequence
from typing import Any

import torch

from forebay.sync.layout import Layout

Rule = tuple[int, int, float, float, float, bool]


class Rules:
    """How torch.optim.SGD applies the gradient of each parameter of a layout.

    Raises:
        ValueError: The optimizer is not SGD, or has options that the servers do not support.
    """

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer], layout: Layout) -> None:
        kinds = [type(one).__name__ for one in optimizers]
        if len(optimizers) != 1 or type(optimizers[0]) is not torch.optim.SGD:
            raise ValueError(
                f"sync: the strategy ps needs one torch.optim.SGD, not {', '.join(kinds)}"
            )
        optimizer = optimizers[0]
        if any(group["dampening"] != 0 or group["maximize"] for group in optimizer.param_groups):
            raise ValueError("sync: the strategy ps supports neither dampening nor maximize of SGD")
        # Keeps the optimizer, not its groups: its load_state_dict() makes new ones.
        self._optimizer, self._layout = optimizer, layout
        self._last: list[Rule] = []

    def changed(self) -> bool:
        """Whether the options have changed since the last call, as after a scheduler's step."""
        before, self._last = self._last, self.listed()
        return before != self._last

    def listed(self) -> list[Rule]:
        """Begin, count, rate, momentum, weight decay and whether it is Nesterov's, by parameter."""
        groups = {id(p): group for group in self._optimizer.param_groups for p in group["params"]}
        rules = []
        begin = 0
        for parameter, size in zip(self._layout.parameters, self._layout.sizes, strict=True):
            options: dict[str, Any] = groups[id(parameter)]
            learns = parameter.requires_grad  # not if it was frozen after attach()
            rules.append(
                (
                    begin,
                    size,
                    float(options["lr"]) if learns else 0.0,
                    float(options["momentum"]),
                    float(options["weight_decay"]) if learns else 0.0,
                    bool(options["nesterov"]),
                )
            )
            begin += size
        return rules
