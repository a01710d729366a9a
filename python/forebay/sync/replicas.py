"""The processes of one machine whose models something else keeps equal, such as DDP.

One of them, the leader, exchanges with the leaders of other machines. After each step the others
get the leader's weights, if the exchange has changed them.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from forebay.sync.layout import Layout


class Replicas:
    """This process and the others of its machine; all make the same calls in the same order.

    Args:
        group: A group of torch.distributed, whose backend can send tensors of the model's device.
        layout: The model's numbers.
    """

    def __init__(self, group: Any, layout: Layout) -> None:
        self._group, self._layout = group, layout

    def share(self, own: Any) -> Any:
        """Returns what the leader passes as `own`."""
        box = [own]
        dist.broadcast_object_list(box, group=self._group, group_src=0)
        return box[0]

    def share_weights(self, *, are_new: bool) -> None:
        """Gives all processes the leader's weights, if the leader says that they are new."""
        flag = torch.tensor([int(are_new)], device=self._layout.weights.device)
        dist.broadcast(flag, group=self._group, group_src=0)
        if flag.item():
            self._layout.fetch_weights()
            dist.broadcast(self._layout.weights, group=self._group, group_src=0)
            self._layout.put_weights()

    def share_tensors(self, tensors: Sequence[torch.Tensor]) -> None:
        """Gives all processes the leader's tensors."""
        for tensor in tensors:
            dist.broadcast(tensor.detach(), group=self._group, group_src=0)
