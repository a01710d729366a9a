"""A model's weights and gradients as one list of numbers each."""

import hashlib
from collections.abc import Callable
from typing import Any

import torch


class Layout:
    """All learned numbers of a model in one tensor, and all their gradients in another.

    The parameters stay the same objects, but their data become views of `weights`. Under strategies
    that take gradients, their gradients become views of `gradient`; under the others, gradients
    stay where they are.

    Args:
        model: The layout has its parameters that require gradients.

    Attributes:
        weights: float32 [numbers], in the order of model.parameters(), on the model's device.
        gradient: Like `weights`, for the gradients; undefined until they are moved there.
        sizes: How many numbers each parameter has.
        fixed: The model's frozen parameters, and its buffers.

    Raises:
        ValueError: No parameter requires gradients, one is not dense float32, or they are on
            several devices.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        if not named:
            raise ValueError("sync: the model has no parameters that require gradients")
        for name, parameter in named:
            _check(name, parameter)
        self.parameters = [parameter for _, parameter in named]
        self.sizes = [parameter.numel() for parameter in self.parameters]
        total = sum(self.sizes)
        devices = {parameter.device for parameter in self.parameters}
        if len(devices) > 1:
            listed = ", ".join(sorted(map(str, devices)))
            raise ValueError(f"sync: the model must be on one device, but is on several ({listed})")
        self.weights = torch.zeros(total, device=devices.pop())
        self.gradient = torch.empty_like(self.weights)
        self._views: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._begins: list[int] = []
        begin = 0
        for parameter, size in zip(self.parameters, self.sizes, strict=True):
            weight = _part(self.weights, begin, parameter)
            weight.copy_(parameter.detach())
            parameter.data = weight
            self._views.append((weight, _part(self.gradient, begin, parameter)))
            self._begins.append(begin)
            begin += size
        kept: list[tuple[str, torch.Tensor]] = [*named]
        kept += ((n, p) for n, p in model.named_parameters() if not p.requires_grad)
        kept += model.named_buffers()
        self.fixed = [tensor for _, tensor in kept[len(named) :]]
        self._learned = set(map(id, self.parameters))
        described = [f"{n} {tuple(p.shape)} {p.stride()} {p.dtype}" for n, p in kept]
        self._description = "\n".join([str(len(named)), *described])

    def fingerprint(self) -> str:
        """A hash of the names, shapes and memory layouts of all parameters and buffers."""
        return hashlib.sha256(self._description.encode()).hexdigest()

    def on_gradient(
        self, takes: Callable[[], bool], ready: Callable[[int, int], None]
    ) -> list[Any]:
        """Moves each parameter's gradient into `gradient` when a backward pass has made it.

        Args:
            takes: Returns whether the strategy takes gradients.
            ready: Called with a moved gradient's position in `gradient` and its size.

        Returns:
            The handles that remove the hooks.
        """
        handles = []
        for index, parameter in enumerate(self.parameters):

            def hook(parameter: torch.Tensor, index: int = index) -> None:
                if not takes():
                    return
                self._take(index, parameter)
                ready(self._begins[index], self.sizes[index])

            handles.append(parameter.register_post_accumulate_grad_hook(hook))
        return handles

    def _take(self, index: int, parameter: torch.Tensor) -> None:
        view = self._views[index][1]
        gradient = parameter.grad
        if gradient is None:
            view.zero_()
        elif gradient.data_ptr() != view.data_ptr():
            view.copy_(gradient.detach())
        parameter.grad = view

    def check_in_place(self, optimizer: torch.optim.Optimizer) -> None:
        """Checks that the weights are still in this layout, and the optimizer has no others.

        Raises:
            RuntimeError: The model was moved or converted, or the optimizer has further parameters
                that require gradients.
        """
        for parameter, (weight, _) in zip(self.parameters, self._views, strict=True):
            if parameter.data_ptr() != weight.data_ptr():
                raise RuntimeError(
                    "sync: the model's weights were moved after forebay.sync.attach(); move or "
                    "convert the model before attach()"
                )
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad and id(parameter) not in self._learned:
                    raise RuntimeError(
                        "sync: the optimizer has a parameter of shape "
                        f"{tuple(parameter.shape)} that did not require gradients, or did not "
                        "exist, when forebay.sync.attach() was called, so it would not be "
                        "exchanged; call sync.close(), and attach() again"
                    )

    def complete(self) -> None:
        """Makes all gradients views of `gradient`; missing gradients become zeros."""
        for index, parameter in enumerate(self.parameters):
            self._take(index, parameter)

    def gradients(self) -> list[torch.Tensor]:
        """Returns the gradients that exist, float32 [numbers] each, in any order of their numbers.

        Raises:
            ValueError: A gradient is sparse.
        """
        found = []
        for parameter in self.parameters:
            if parameter.grad is None:
                continue
            gradient = parameter.grad.detach()
            if gradient.layout != torch.strided:
                raise ValueError(
                    f"sync: a parameter of shape {tuple(parameter.shape)} has a sparse gradient; "
                    "only dense ones are supported"
                )
            if gradient.stride() != parameter.stride():
                gradient = gradient.contiguous()
            found.append(gradient.as_strided((gradient.numel(),), (1,)))
        return found

    def drop_gradients(self) -> None:
        """Leaves the parameters without gradients, so that an optimizer does not change them."""
        for parameter in self.parameters:
            parameter.grad = None


def _check(name: str, parameter: torch.Tensor) -> None:
    if parameter.dtype != torch.float32:
        raise ValueError(f"sync: parameter {name} is {parameter.dtype}; only float32 is supported")
    if not any(parameter.is_contiguous(memory_format=order) for order in _orders(parameter)):
        raise ValueError(
            f"sync: parameter {name} has strides {parameter.stride()}; only contiguous and "
            "channels-last ones are supported"
        )


def _orders(parameter: torch.Tensor) -> list[torch.memory_format]:
    last = {4: [torch.channels_last], 5: [torch.channels_last_3d]}
    return [torch.contiguous_format, *last.get(parameter.dim(), [])]


def _part(flat: torch.Tensor, begin: int, like: torch.Tensor) -> torch.Tensor:
    """A view of `flat` from `begin` on, with the shape and strides of `like`."""
    return flat.as_strided(like.shape, like.stride(), begin)
