"""The strategies of `attach`, with their options."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from forebay.checks import whole

# Besides its options, each strategy has two flags. `sums`: it sums numbers over all processes;
# otherwise it sends messages to single peers. `takes_gradients`: it exchanges gradients; otherwise
# it exchanges weights, or how far they have moved.

_STEPS_MAX = 1 << 40
_PARTS_MAX = 1 << 16
ENCODINGS = ("auto", "float32", "int8", "top")


@dataclass(frozen=True)
class AllReduce:
    """The mean of all gradients in each step, like DistributedDataParallel."""

    name: ClassVar[str] = "allreduce"
    sums: ClassVar[bool] = True
    takes_gradients: ClassVar[bool] = True

    def options(self, world_size: int) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class Ako:
    """Partial exchange: in each step, each peer gets one part of what has accumulated for it.

    A part is as large as the link carries in the time of a step. No process waits for another,
    unless `staleness` is given.

    Args:
        of: "updates": how far the optimizer has moved the weights; at the end every process has the
            mean of all processes' updates. "gradients", which the publication exchanges: received
            gradients are added to the next own gradient, and the sum is divided by the number of
            processes.
        staleness: The number of steps, up to 2**40, within which a gradient must be sent to all
            peers; the training waits for links that are slower. 0: it never waits.
        parts: The least number of parts into which the model is cut, from 1 to 65536. More parts
            make steps cheaper on fast links; with fewer, the other processes get what is learned
            sooner.
        encoding: How numbers are sent. "float32": as they are. "int8": in a fourth of the bytes,
            each number as a multiple of the scale of its block of 256 numbers. "top": only the 16
            largest numbers of each block, like with "int8", in a 28th of the bytes. What a message
            leaves out stays accumulated (error feedback), and is sent later. "auto": "int8", or
            "top" for links that would need more than 64 steps for the whole model with "int8".

    Source: Watcharapichat and others, Ako: Decentralised Deep Learning with Partial Gradient
    Exchange, SoCC 2016.
    """

    of: str = "updates"
    staleness: int = 0
    parts: int = 8
    encoding: str = "auto"
    name: ClassVar[str] = "ako"
    sums: ClassVar[bool] = False

    @property
    def takes_gradients(self) -> bool:
        return self.of == "gradients"

    def options(self, world_size: int) -> dict[str, Any]:
        if self.of not in ("updates", "gradients"):
            raise ValueError(f"of is {self.of!r}, but must be 'updates' or 'gradients'")
        if self.encoding not in ENCODINGS:
            raise ValueError(
                f"encoding is {self.encoding!r}, but must be one of {', '.join(ENCODINGS)}"
            )
        return {
            "of": self.of,
            "staleness": whole("staleness", self.staleness, 0, _STEPS_MAX),
            "parts": whole("parts", self.parts, 1, _PARTS_MAX),
            "encoding": None if self.encoding == "auto" else self.encoding,
        }


@dataclass(frozen=True)
class ParameterServers:
    """Some processes hold parts of the model; all processes send them gradients and get weights.

    These servers apply each gradient when it arrives, by the rule of torch.optim.SGD and with the
    optimizer's options. The optimizer itself does nothing.

    Args:
        servers: The ranks that hold a part, each once. None: all ranks.
        staleness: How many steps old a process's weights may be before it waits for new ones; up to
            2**40.
    """

    servers: Sequence[int] | None = None
    staleness: int = 1
    name: ClassVar[str] = "ps"
    sums: ClassVar[bool] = False
    takes_gradients: ClassVar[bool] = True

    def options(self, world_size: int) -> dict[str, Any]:
        staleness = whole("staleness", self.staleness, 0, _STEPS_MAX)
        servers = list(range(world_size)) if self.servers is None else list(self.servers)
        servers = [whole("servers", rank, 0, world_size - 1) for rank in servers]
        if not servers or len(set(servers)) != len(servers):
            raise ValueError(f"servers is {servers}, but must name at least one rank, each once")
        return {"servers": servers, "staleness": staleness}


@dataclass(frozen=True)
class Pairs:
    """Averages the weights with one random peer after another, while the training goes on.

    Args:
        seed: The seed by which peers are drawn; from 0 to 2**63 - 1.
    """

    seed: int = 0
    name: ClassVar[str] = "pairs"
    sums: ClassVar[bool] = False
    takes_gradients: ClassVar[bool] = False

    def options(self, world_size: int) -> dict[str, Any]:
        return {"seed": whole("seed", self.seed, 0, (1 << 63) - 1)}


@dataclass(frozen=True)
class LocalSteps:
    """Local steps, and then the mean of how far all processes have moved the weights (DiLoCo).

    An outer optimizer, SGD with Nesterov's momentum, applies this mean to the weights that all
    processes share. With several fragments (streaming
    DiLoCo), parts of the model take turns, which spreads the traffic over time.

    Args:
        steps: The number of steps between two exchanges of the same fragment; from 1 to 2**40.
        fragments: The number of parts of the model; up to `steps`.
        delay: How many steps the training goes on while a fragment is exchanged; fewer than
            steps / fragments.
        outer_rate: The outer learning rate, above 0.
        outer_momentum: The outer momentum, from 0 to less than 1.
        encoding: How numbers are sent. "float32": as they are. "int8": in a fourth of the bytes,
            each number as a multiple of the scale of its block of 256 numbers. What the rounding
            leaves out is added to the next exchange (error feedback).
        outer: A function that makes another outer optimizer from a list of parameters, for example
            `lambda parameters: torch.optim.AdamW(parameters, lr=1e-3)`. Its parameters, float32 in
            the host's memory, are the model's in their order. With `fragments`, a parameter that
            two fragments share comes in flat pieces. Each process makes the same steps with it, on
            one core.

    Sources: Douillard and others, DiLoCo, arXiv 2311.08105; Streaming DiLoCo, arXiv 2501.18512.
    """

    steps: int = 100
    fragments: int = 1
    delay: int = 0
    outer_rate: float = 0.7
    outer_momentum: float = 0.9
    encoding: str = "float32"
    outer: Callable[[list[torch.Tensor]], torch.optim.Optimizer] | None = field(
        default=None, repr=False
    )
    name: ClassVar[str] = "local"
    sums: ClassVar[bool] = True
    takes_gradients: ClassVar[bool] = False

    def options(self, world_size: int) -> dict[str, Any]:
        steps = whole("steps", self.steps, 1, _STEPS_MAX)
        fragments = whole("fragments", self.fragments, 1, steps)
        delay = whole("delay", self.delay, 0, steps // fragments - 1)
        if not self.outer_rate > 0 or not 0 <= self.outer_momentum < 1:
            raise ValueError(
                f"outer_rate is {self.outer_rate} and outer_momentum {self.outer_momentum}, but "
                "outer_rate must be above 0, and outer_momentum at least 0 and less than 1"
            )
        if self.encoding not in ("float32", "int8"):
            raise ValueError(f"encoding is {self.encoding!r}, but must be 'float32' or 'int8'")
        if self.outer is not None and (self.outer_rate, self.outer_momentum) != (0.7, 0.9):
            raise ValueError(
                f"outer_rate is {self.outer_rate} and outer_momentum {self.outer_momentum}, but "
                "these are of the built-in outer optimizer; give `outer` a learning rate itself"
            )
        return {
            "steps": steps,
            "fragments": fragments,
            "delay": delay,
            "outer_rate": float(self.outer_rate),
            "outer_momentum": float(self.outer_momentum),
            "encoding": self.encoding,
        }


Strategy = AllReduce | Ako | ParameterServers | Pairs | LocalSteps
STRATEGIES: dict[str, type[Strategy]] = {
    kind.name: kind for kind in (AllReduce, Ako, ParameterServers, Pairs, LocalSteps)
}
