"""Imports torchvision even where its compiled operators do not fit the installed torch.

Its wheels are built for torch's CUDA wheels. With the CPU build of torch their operators are
missing, and importing torchvision fails because it declares the operators' shapes. The transforms
need none of the operators.
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
