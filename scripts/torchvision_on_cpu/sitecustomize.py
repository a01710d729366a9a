"""Lets torchvision from PyPI, made for CUDA, be imported beside PyTorch for CPUs.

There its own operators (nms and the like, which no loader uses) do not exist, and importing it ends
where it describes them to torch.compile. In PYTHONPATH, this folder makes Python leave those
descriptions out. Where the operators exist, nothing changes.
"""

import functools
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from typing import Any


class _BeforeTorchvision(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        """Finds nothing; when torchvision is looked for, prepares PyTorch."""
        if name == "torchvision":
            sys.meta_path.remove(self)
            _make_lenient()


def _make_lenient() -> None:
    import torch.library

    register_fake = torch.library.register_fake

    @functools.wraps(register_fake)
    def lenient(operator: Any, function: Any = None, /, **options: Any) -> Any:
        if function is not None or not str(operator).startswith("torchvision::"):
            return register_fake(operator, function, **options)

        def register(made: Callable[..., Any]) -> Callable[..., Any]:
            try:
                return register_fake(operator, **options)(made)
            except RuntimeError:  # the operator does not exist
                return made

        return register

    torch.library.register_fake = lenient


sys.meta_path.insert(0, _BeforeTorchvision())
