"""A model's weights and gradients as one list of numbers each."""

import hashlib
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from forebay.sync.shards import is_sharded, local_of, place_of, reshard

_TYPES = (torch.float32, torch.bfloat16, torch.float16)
# The parameters of all layouts that are in use.
_taken: Any = WeakIdKeyDictionary()


class Layout:
    """All learned numbers of a model in one tensor, and all their gradients in another.

    If all parameters are float32, they stay the same objects but share the memory of `weights`,
    each with a storage of its own, so that tools which save storages save what they mean.
    Otherwise, and if parameters are DTensors, of which the layout has this process's shards, the
    two hold copies: see `fetch_weights` and `put_weights`. Gradients always stay where they are,
    since scripts may keep them.

    Args:
        model: The layout has its parameters that require gradients.

    Attributes:
        weights: float32 [numbers], in the order of model.parameters(), on the model's device.
        gradient: Like `weights`, for the gradients.
        sizes: How many numbers each parameter has.
        shapes: The sizes and strides of each parameter.
        fixed: The model's frozen parameters, and its buffers.
        buffers: The model's buffers of floating-point numbers.
        counters: The model's other buffers.

    Raises:
        ValueError: No parameter requires gradients, one is of another kind, they are on several
            devices, or the model is already attached.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        if not named:
            raise ValueError("sync: the model has no parameters that require gradients")
        for name, parameter in named:
            _check(name, parameter)
        self._model = model
        self.parameters = [parameter for _, parameter in named]
        shards = [local_of(parameter) for parameter in self.parameters]
        self.sizes = [shard.numel() for shard in shards]
        self.shapes = [(shard.shape, shard.stride()) for shard in shards]
        total = sum(self.sizes)
        devices = {shard.device for shard in shards}
        if len(devices) > 1:
            listed = ", ".join(sorted(map(str, devices)))
            raise ValueError(f"sync: the model must be on one device, but is on several ({listed})")
        self.weights = torch.zeros(total, device=devices.pop())
        self.gradient = torch.zeros_like(self.weights)
        self._begins: list[int] = []
        begin = 0
        for size in self.sizes:
            self._begins.append(begin)
            begin += size
        places = list(zip(self._begins, shards, strict=True))
        self._weights = [_part(self.weights, begin, shard) for begin, shard in places]
        self._gradients = [_part(self.gradient, begin, shard) for begin, shard in places]
        self._fresh = [False] * len(self.parameters)  # whose gradient was taken in this pass
        self.are_copies = any(p.dtype != torch.float32 or is_sharded(p) for p in self.parameters)
        self.fetch_weights(always=True)
        if not self.are_copies:
            for parameter, weight in zip(self.parameters, self._weights, strict=True):
                parameter.data = weight
        kept: list[tuple[str, torch.Tensor]] = [*named]
        kept += ((n, p) for n, p in model.named_parameters() if not p.requires_grad)
        kept += model.named_buffers()
        self.fixed = [local_of(tensor) for _, tensor in kept[len(named) :]]
        self.buffers = [b for b in model.buffers() if b.is_floating_point()]
        self.counters = [b for b in model.buffers() if not b.is_floating_point()]
        described = [f"{n} {tuple(p.shape)} {p.stride()} {p.dtype}{place_of(p)}" for n, p in kept]
        self._description = "\n".join([str(len(named)), *described])
        for parameter in self.parameters:
            _taken[parameter] = True

    def fingerprint(self) -> str:
        """A hash of the names, shapes and memory layouts of all parameters and buffers."""
        return hashlib.sha256(self._description.encode()).hexdigest()

    @torch.no_grad()
    def fetch_weights(self, *, always: bool = False) -> None:
        """Copies the parameters to `weights`, if these are copies."""
        if self.are_copies or always:
            torch._foreach_copy_(self._weights, self._own())

    @torch.no_grad()
    def put_weights(self) -> None:
        """Copies `weights` to the parameters, if these are copies."""
        if self.are_copies:
            torch._foreach_copy_(self._own(), self._weights)
            reshard(self._model)

    def _own(self) -> list[torch.Tensor]:
        """The parameters' own numbers."""
        return [local_of(parameter).detach() for parameter in self.parameters]

    def on_gradient(
        self, takes: Callable[[], bool], ready: Callable[[int, int], None]
    ) -> list[Any]:
        """Copies each parameter's gradient into `gradient` when a backward pass has made it.

        Args:
            takes: Returns whether gradients are wanted then.
            ready: Called with a copied gradient's position in `gradient` and its size.

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
        gradient = parameter.grad
        if gradient is None or not parameter.requires_grad:  # it was frozen after attach()
            self._gradients[index].zero_()
        else:
            _check_gradient(parameter, gradient)
            self._gradients[index].copy_(gradient)
        self._fresh[index] = True

    def complete(self) -> None:
        """Copies the gradients that are not in `gradient` yet; missing ones are zeros."""
        for index, parameter in enumerate(self.parameters):
            if not self._fresh[index]:
                self._take(index, parameter)
        self._fresh = [False] * len(self.parameters)

    @torch.no_grad()
    def put_gradients(self) -> None:
        """Copies `gradient` to the gradients of all parameters that learn."""
        for parameter, taken in zip(self.parameters, self._gradients, strict=True):
            if parameter.requires_grad:
                _put_gradient(parameter, taken)

    def check_in_place(self, optimizers: list[torch.optim.Optimizer]) -> None:
        """Checks that the weights are still in this layout, and the optimizers have no others.

        Raises:
            RuntimeError: The model was moved or converted, or an optimizer has further parameters
                that require gradients.
        """
        if not self.are_copies:
            for parameter, weight in zip(self.parameters, self._weights, strict=True):
                if parameter.data_ptr() != weight.data_ptr():
                    raise RuntimeError(
                        "sync: the model's weights were moved after forebay.sync.attach(); move or "
                        "convert the model before attach()"
                    )
        for held in _held_by(optimizers):
            if held.requires_grad and held not in _taken:
                raise RuntimeError(
                    "sync: the optimizer has a parameter of shape "
                    f"{tuple(held.shape)} that did not require gradients, or did not "
                    "exist, when forebay.sync.attach() was called, so it would not be "
                    "exchanged; call sync.close(), and attach() again"
                )

    def gradients(self) -> list[torch.Tensor]:
        """Returns the gradients that exist, float32 [numbers] each, in any order of their numbers.

        Raises:
            ValueError: A gradient is sparse.
        """
        found = []
        for parameter in self.parameters:
            if parameter.grad is None:
                continue
            gradient, own = local_of(parameter.grad).detach(), local_of(parameter)
            _check_gradient(parameter, gradient)
            if gradient.stride() != own.stride():
                gradient = gradient.contiguous()
            found.append(gradient.as_strided((gradient.numel(),), (1,)).float())
        return found

    def drop_gradients(self) -> None:
        """Leaves the parameters without gradients, so that an optimizer does not change them."""
        for parameter in self.parameters:
            parameter.grad = None

    def release(self) -> None:
        """The model may be attached again."""
        for parameter in self.parameters:
            _taken.pop(parameter, None)


def _put_gradient(parameter: torch.Tensor, taken: torch.Tensor) -> None:
    if parameter.grad is None:
        parameter.grad = taken.to(parameter.dtype, copy=True)
    else:
        parameter.grad.copy_(taken)


def _held_by(optimizers: list[torch.optim.Optimizer]) -> list[torch.Tensor]:
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    return [parameter for group in groups for parameter in group["params"]]


def _check(name: str, parameter: torch.Tensor) -> None:
    if parameter.dtype not in _TYPES:
        raise ValueError(
            f"sync: parameter {name} is {parameter.dtype}; only float32, bfloat16 and float16 are "
            "supported"
        )
    own = local_of(parameter)
    if not any(own.is_contiguous(memory_format=order) for order in _orders(own)):
        raise ValueError(
            f"sync: parameter {name} has strides {parameter.stride()}; only contiguous and "
            "channels-last ones are supported"
        )
    if parameter in _taken:
        raise ValueError(
            f"sync: parameter {name} is already attached; close the other exchange first "
            "(Sync.close())"
        )


def _check_gradient(parameter: torch.Tensor, gradient: torch.Tensor) -> None:
    if gradient.layout != torch.strided:
        raise ValueError(
            f"sync: a parameter of shape {tuple(parameter.shape)} has a sparse gradient; only "
            "dense ones are supported: torch.nn.Embedding has sparse=False for that"
        )
    if gradient.requires_grad:
        raise RuntimeError(
            "sync: backward(create_graph=True) makes gradients that are part of a graph, which an "
            "exchange of gradients would lose; use torch.autograd.grad() for derivatives of "
            "gradients, or a strategy that exchanges weights ('ako', 'pairs' or 'local')"
        )


def _orders(parameter: torch.Tensor) -> list[torch.memory_format]:
    last = {4: [torch.channels_last], 5: [torch.channels_last_3d]}
    return [torch.contiguous_format, *last.get(parameter.dim(), [])]


def _part(flat: torch.Tensor, begin: int, like: torch.Tensor) -> torch.Tensor:
    """Memory of `flat` from `begin` on, with the shape and strides of `like`, as a storage."""
    if like.numel() == 0:
        return torch.empty_like(like, dtype=flat.dtype)
    part = torch.from_dlpack(flat[begin : begin + like.numel()])
    return part.as_strided(like.shape, like.stride())
