"""Training on several machines: the exchange of gradients or weights between their processes.

`attach` makes a model learn together with the models of the job's other processes. C++ code
(src/train/sync/) decides what is sent, and background threads move it through process groups of
torch.distributed.
"""

from forebay.sync.attaching import attach
from forebay.sync.errors import SyncError
from forebay.sync.session import Sync
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
    "SyncError",
    "attach",
]
