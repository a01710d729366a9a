"""Training on several machines: what their processes tell each other of their gradients.

`attach` joins a model and its optimizer to those of the job's other processes. C++ code
(src/train/sync/) decides what is sent, and threads of their own move it through process groups of
torch.distributed.
"""

from forebay.sync.session import Sync, attach
from forebay.sync.strategies import (
    Ako,
    AllReduce,
    LocalSteps,
    Pairs,
    ParameterServers,
    Strategy,
)

__all__ = [
    "Ako",
    "AllReduce",
    "LocalSteps",
    "Pairs",
    "ParameterServers",
    "Strategy",
    "Sync",
    "attach",
]
