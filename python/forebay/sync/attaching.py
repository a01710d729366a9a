"""`attach`: makes a model learn together with those of a job's other processes."""

import atexit
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from forebay.sync.following import Following
from forebay.sync.guide import Guide, strategy_of
from forebay.sync.leaving import watch_exits
from forebay.sync.optimizers import stepping
from forebay.sync.session import Sync
from forebay.sync.shards import is_sharded, reshard
from forebay.sync.strategies import Strategy

# Within this time, Gloo's threads get Python's lock for what they still hold.
_GLOO_SECONDS = 0.1
_BUFFERS = ("mean", "own")


def attach(
    model: torch.nn.Module | Sequence[torch.nn.Module],
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    strategy: str | Strategy | Guide = "auto",
    *,
    steps: int = 0,
    wait_seconds: float = 1800.0,
    process_group: Any = None,
    replicas: Any = None,
    buffers: str = "mean",
) -> Sync:
    """Makes a model learn together with those of the job's other processes.

    Every process calls it once, with the same strategy, after it has made the model and the
    optimizer. All models get the weights and buffers, including frozen parameters, of rank 0 or of
    the process with the newest checkpoint. From then on `optimizer.step()` makes the exchange that
    the strategy needs, and the training loop stays as it is. Learning rates mean what they mean
    with DistributedDataParallel, because gradients of all processes are averaged.

    Args:
        model: Its parameters must be float32, bfloat16 or float16, and all on one device, the CPU
            or a GPU. Or several modules, whose parameters all learn, such as a backbone and a loss
            with weights. Do not wrap it in DistributedDataParallel, unless `replicas` are given.
        optimizer: Any optimizer over all parameters of the model that require gradients, or several
            that hold them together; for parameter servers, torch.optim.SGD. Of an optimizer around
            another one (SAM, Lookahead, Accelerate's), the inner one's steps count.
        strategy: "auto": the job measures its links, chooses the strategy that suits them, and
            chooses again when they change; rank 0 prints each choice in one line. Or a name, or an
            object with options: "ako" (`Ako`), "allreduce" (`AllReduce`), "ps"
            (`ParameterServers`), "pairs" (`Pairs`) or "local" (`LocalSteps`).
        steps: The number of steps, or epochs, after which the checkpoint was written that this
            process has loaded; 0: it has loaded none. If the processes' numbers differ, all get the
            model and the optimizer's state of the process with the newest checkpoint, so a machine
            that joins later needs no checkpoint. `Sync.from_newest` gives it everything else.
        wait_seconds: How long a step, or another call, waits for other processes at most, above 0;
            math.inf: without limit. After 30 s a line on standard error says for which process it
            waits, for example because rank 0 validates. Under "auto" this is four times as long in
            the first step, and in steps in which the links are measured again or the strategy
            changes. When the processes compare their speeds before a choice, it is 100 times what
            this process took for six steps, if that is longer.
        process_group: The processes that exchange, as a group of torch.distributed; None: all of
            the job. Only these call `attach`. If FSDP's fully_shard() cuts the model into shards
            inside each machine: the processes that have the same shard on each machine, for
            strategies that exchange weights: "ako", "pairs" and "local".
        replicas: The processes of this machine, as a group of torch.distributed, if something else
            keeps their models equal, such as DistributedDataParallel within this group. All of them
            call `attach`. The first process of each such group, its leader, exchanges with the
            leaders of other machines, and the others get its weights. Only for strategies that
            exchange weights: "ako", "pairs" and "local".
        buffers: What becomes of buffers, such as a batch norm's statistics, at `Sync.close`.
            "mean": all get the mean of all processes' floating-point buffers, and rank 0's other
            buffers. "own": each keeps its own. While the job runs, each has its own.

    Raises:
        ValueError: An argument is invalid, or the processes' models differ.
        SyncError: Other processes did not call it in time, or cannot be reached.
    """
    chosen = strategy_of(strategy)
    whole = model if isinstance(model, torch.nn.Module) else torch.nn.ModuleList(model)
    reshard(whole)
    given = optimizer if isinstance(optimizer, Sequence) else [optimizer]
    optimizers = [stepping(one) for one in given]
    _check_model(whole, optimizers, may_be_wrapped=replicas is not None)
    _check_options(steps, wait_seconds, buffers)
    _join_job()
    _check_inside_machine(whole, chosen, replicas)
    ranks = _exchanging(replicas, process_group)
    kind = Sync if replicas is None or dist.get_rank(replicas) == 0 else Following
    return kind(whole, optimizers, chosen, steps, wait_seconds, ranks, buffers, replicas)


def _exchanging(replicas: Any, process_group: Any) -> list[int]:
    """The ranks that exchange: all of the group, or the first of each machine's replicas."""
    ranks = list(dist.get_process_group_ranks(process_group or dist.group.WORLD))
    if replicas is None:
        return ranks
    said: list[Any] = [None] * len(ranks)
    dist.all_gather_object(said, dist.get_rank(replicas) == 0, group=process_group)
    return [rank for rank, leads in zip(ranks, said, strict=True) if leads]


def _check_inside_machine(
    model: torch.nn.Module, strategy: Strategy | Guide, replicas: Any
) -> None:
    has_shards = any(is_sharded(parameter) for parameter in model.parameters())
    if not has_shards and replicas is None:
        return
    if has_shards and replicas is not None:
        raise ValueError(
            "sync: replicas hold equal models, but these are shards of fully_shard(); give the "
            "processes with the same shard on each machine as process_group instead"
        )
    what = "FSDP's shards" if has_shards else "replicas"
    if isinstance(strategy, Guide) or strategy.takes_gradients:
        raise ValueError(
            f'sync: with {what}, the strategy must exchange weights: "ako", "pairs" or "local", '
            f"not {strategy}"
        )


def _check_options(steps: int, wait_seconds: Any, buffers: str) -> None:
    if steps < 0:
        raise ValueError(f"sync: steps is {steps}, but must not be negative")
    if buffers not in _BUFFERS:
        raise ValueError(f"sync: buffers is {buffers!r}, but must be one of {', '.join(_BUFFERS)}")
    is_number = isinstance(wait_seconds, (int, float)) and not isinstance(wait_seconds, bool)
    if not is_number or not wait_seconds > 0:
        raise ValueError(
            f"sync: wait_seconds is {wait_seconds!r}, but must be a number above 0; math.inf waits "
            "without limit"
        )


def _leave_job() -> None:
    """Keeps Gloo's threads from ending the process by SIGABRT when Python ends.

    A thread of PyTorch's Gloo drops the tensors of a collective some time after its end. If Python
    has ended by then, the process aborts, and torchrun kills the job's other processes.
    """
    if dist.is_initialized() and not hasattr(sys, "last_value"):  # no exception ends the process
        dist.destroy_process_group()
        time.sleep(_GLOO_SECONDS)


def _join_job() -> None:
    watch_exits()
    # This comes before a Sync's own function for the end, so it is called after it.
    atexit.unregister(_leave_job)
    atexit.register(_leave_job)
    if dist.is_initialized():
        return
    if not dist.is_torchelastic_launched() and "RANK" not in os.environ:
        raise ValueError(
            "sync: this process is not part of a job: start the script with torchrun, for example "
            "torchrun --nproc-per-node=2 train.py, or call torch.distributed.init_process_group()"
        )
    dist.init_process_group("gloo")


def _check_model(
    model: torch.nn.Module, optimizers: list[torch.optim.Optimizer], *, may_be_wrapped: bool
) -> None:
    for name, module in model.named_modules():
        is_wrapped = isinstance(module, torch.nn.parallel.DistributedDataParallel)
        if is_wrapped and not may_be_wrapped:
            raise ValueError(
                f"sync: the model{' at ' + name if name else ''} is wrapped in "
                "DistributedDataParallel, so everything would be exchanged twice; give attach() "
                "the model itself, or the group of its replicas"
            )
    held = {id(p) for one in optimizers for group in one.param_groups for p in group["params"]}
    missing = [n for n, p in model.named_parameters() if p.requires_grad and id(p) not in held]
    if missing:
        raise ValueError(
            f"sync: the optimizer does not hold these parameters: {missing[:5]}; freeze them with "
            "requires_grad_(False), or give them to the optimizer"
        )
