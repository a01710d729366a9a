"""Parameters of which each process of a machine has a shard, as FSDP's fully_shard() makes them."""

from collections.abc import Iterator
from typing import Any

import torch

# Stands for a shard in a state that is sent: its sender's mesh means nothing to other machines.
_SHARD = "forebay shard"


def is_sharded(tensor: Any) -> bool:
    """Whether it is a DTensor."""
    return hasattr(tensor, "to_local")


def reshard(model: torch.nn.Module) -> None:
    """Lets FSDP drop whole parameters that it has kept since a forward pass.

    Afterwards the model's parameters are DTensors, and the next forward pass gathers the shards
    as they are then.
    """
    modules: Iterator[Any] = model.modules()
    for module in modules:
        if hasattr(module, "unshard") and hasattr(module, "reshard"):
            module.reshard()


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """This process's shard of a DTensor, in the same memory; other tensors as they are."""
    if not is_sharded(tensor):
        return tensor
    with torch.no_grad():
        local: torch.Tensor = tensor.to_local()  # type: ignore[attr-defined]
    return local


def place_of(tensor: Any) -> str:
    """Which shard of a DTensor this process has; the same for this shard on each machine."""
    if not is_sharded(tensor):
        return ""
    mesh = tensor.device_mesh
    return f" {tensor.placements} at {mesh.get_coordinate()} of {tuple(mesh.shape)}"


def without_meshes(state: dict[str, Any]) -> dict[str, Any]:
    """An optimizer's state dict as another machine can read it."""
    found: dict[str, Any] = torch.utils._pytree.tree_map(
        lambda one: (_SHARD, local_of(one)) if is_sharded(one) else one, state
    )
    return found


def with_meshes(state: dict[str, Any], optimizer: Any) -> dict[str, Any]:
    """Undoes `without_meshes` for this process's optimizer."""
    groups = getattr(optimizer, "param_groups", [])
    parameters = [parameter for group in groups for parameter in group["params"]]
    for index, kept in state.get("state", {}).items():
        for name, value in kept.items():
            if isinstance(value, tuple) and value[:1] == (_SHARD,):
                kept[name] = _sharded_like(parameters[index], value[1], name)
    return state


def _sharded_like(parameter: Any, local: torch.Tensor, name: str) -> torch.Tensor:
    if local.shape != local_of(parameter).shape:
        raise ValueError(
            f"sync: the optimizer's state {name!r} is not sharded like its parameter of shape "
            f"{tuple(parameter.shape)}, so a machine that joins cannot get it; load the same "
            "checkpoint on all machines"
        )
    made: torch.Tensor = type(parameter).from_local(
        local, parameter.device_mesh, parameter.placements, run_check=False,
        shape=parameter.shape, stride=parameter.stride(),
    )  # fmt: skip
    return made
