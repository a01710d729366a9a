"""The strategies of `attach`, with their options."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from forebay.checks import whole

# Beside its options, each says whether it sums numbers over all processes or else sends messages to
# peers (`sums`), and whether it exchanges gradients or else what has become of weights
# (`takes_gradients`).

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
    """Partial exchange: each peer gets one part of what gathered for it in each step.

    A part is as large as the link carries in the time of a step. Nobody waits for anybody.

    Args:
        of: "updates": how far the optimizer has moved the weights; in the end every process has the
            mean of what all have moved. "gradients": what arrives is added to the next gradient,
            and the sum is divided by the number of processes, like in the publication.
        staleness: After how many steps, up to 2**40, a gradient must have left for all peers; the
            training waits for links that are slower. 0: it never waits.
        parts: Into how many parts, from 1 to 65536, the model is cut at least. With more of them a
            step costs less where links are fast; with fewer, others have what is learned sooner.
        encoding: How numbers are sent. "float32": as they are. "int8": in a fourth of the bytes,
            each as a multiple of a scale of its block of 256. "top": the same of the 16 largest of
            each block, in a 28th of the bytes. What a message leaves out stays in what is
            accumulated (error feedback), and is sent later. "auto": "int8", or "top" where a link
            would need more than 64 steps for the whole model.

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
        whole("staleness", self.staleness, 0, _STEPS_MAX)
        whole("parts", self.parts, 1, _PARTS_MAX)
        return asdict(self)


@dataclass(frozen=True)
class ParameterServers:
    """Some of the processes hold the model, in parts; all send them gradients and get weights.

    The servers apply gradients as they come, by the rule of torch.optim.SGD and with the options of
    the optimizer, which itself does nothing.

    Args:
        servers: The ranks that hold a part, each once. None: all of them.
        staleness: How many steps old, up to 2**40, a process's weights may be before it waits for
            new ones.
    """

    servers: Sequence[int] | None = None
    staleness: int = 1
    name: ClassVar[str] = "ps"
    sums: ClassVar[bool] = False
    takes_gradients: ClassVar[bool] = True

    def options(self, world_size: int) -> dict[str, Any]:
        whole("staleness", self.staleness, 0, _STEPS_MAX)
        servers = list(range(world_size)) if self.servers is None else list(self.servers)
        for rank in servers:
            whole("servers", rank, 0, world_size - 1)
        if not servers or len(set(servers)) != len(servers):
            raise ValueError(f"servers is {servers}, but must name at least one rank, each once")
        return {"servers": servers, "staleness": self.staleness}


@dataclass(frozen=True)
class Pairs:
    """Averages the weights with one random peer after another, while the training goes on.

    Args:
        seed: Draws the peers; from 0 to 2**63 - 1.
    """

    seed: int = 0
    name: ClassVar[str] = "pairs"
    sums: ClassVar[bool] = False
    takes_gradients: ClassVar[bool] = False

    def options(self, world_size: int) -> dict[str, Any]:
        whole("seed", self.seed, 0, (1 << 63) - 1)
        return asdict(self)


@dataclass(frozen=True)
class LocalSteps:
    """Local steps, and then the mean of what all processes have moved (DiLoCo).

    An outer SGD with Nesterov's momentum applies that mean. With several fragments (streaming
    DiLoCo) the parts of the model take turns, so that the link is always used a little.

    Args:
        steps: Between two exchanges of the same part of the model; from 1 to 2**40.
        fragments: How many parts; up to `steps`.
        delay: How many steps the training goes on while a part is exchanged; fewer than
            steps / fragments.
        outer_rate: The outer learning rate, above 0.
        outer_momentum: The outer momentum, from 0 to less than 1.

    Sources: Douillard and others, DiLoCo, arXiv 2311.08105; Streaming DiLoCo, arXiv 2501.18512.
    """

    steps: int = 100
    fragments: int = 1
    delay: int = 0
    outer_rate: float = 0.7
    outer_momentum: float = 0.9
    name: ClassVar[str] = "local"
    sums: ClassVar[bool] = True
    takes_gradients: ClassVar[bool] = False

    def options(self, world_size: int) -> dict[str, Any]:
        whole("steps", self.steps, 1, _STEPS_MAX)
        whole("fragments", self.fragments, 1, self.steps)
        whole("delay", self.delay, 0, self.steps // self.fragments - 1)
        if not self.outer_rate > 0 or not 0 <= self.outer_momentum < 1:
            raise ValueError(
                f"outer_rate is {self.outer_rate}, outer_momentum {self.outer_momentum}; but the "
                "first must be above 0, and the second from 0 to below 1"
            )
        return asdict(self)


Strategy = AllReduce | Ako | ParameterServers | Pairs | LocalSteps
STRATEGIES: dict[str, type[Strategy]] = {
    kind.name: kind for kind in (AllReduce, Ako, ParameterServers, Pairs, LocalSteps)
}
