"""torchvision, also where its compiled operators do not fit the torch that is installed.

Its wheels are built beside torch's CUDA wheels: beside torch for CPUs alone their operators are not
there, and declaring their shapes, which importing torchvision does, fails. The transforms need none
of them.
"""

from collections.abc import Callable
from typing import Any
from unittest import mock

import torch

_register_fake = torch.library.register_fake


def _register(operator: Any, *arguments: Any, **options: Any) -> Any:
    if isinstance(operator, str) and operator.startswith("torchvision::"):

        def ignore(function: Callable) -> Callable:
            return function

        return ignore
    return _register_fake(operator, *arguments, **options)


with mock.patch.object(torch.library, "register_fake", _register):
    from torchvision import transforms as v1
    from torchvision.transforms import v2

__all__ = ["v1", "v2"]
