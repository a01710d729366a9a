"""Makes PyPI's torchvision, which is built for CUDA, importable with the CPU build of PyTorch.

With that build torchvision's own operators (nms and others, which no loader uses) do not exist, and
importing torchvision fails when it describes them to torch.compile. `python torchvision_on_cpu.py`
puts this file into the site-packages of the Python that runs it, with a .pth file that imports it
when Python starts. It then leaves out those descriptions. Where the operators exist, it changes
nothing.
"""

import sys
from importlib.abc import MetaPathFinder


class _BeforeTorchvision(MetaPathFinder):
    def find_spec(self, name, path, target=None):  # type: ignore[no-untyped-def]
        """Finds nothing, but prepares PyTorch when torchvision is about to be imported."""
        if name == "torchvision":
            sys.meta_path.remove(self)
            _make_lenient()


def _make_lenient() -> None:
    import functools

    import torch.library

    register_fake = torch.library.register_fake

    @functools.wraps(register_fake)
    def lenient(operator, function=None, /, **options):  # type: ignore[no-untyped-def]
        if function is not None or not str(operator).startswith("torchvision::"):
            return register_fake(operator, function, **options)

        def register(made):  # type: ignore[no-untyped-def]
            try:
                return register_fake(operator, **options)(made)
            except RuntimeError:  # the operator does not exist
                return made

        return register

    torch.library.register_fake = lenient


def install() -> None:
    """Puts this file where the running Python imports it at startup."""
    import shutil
    import sysconfig
    from pathlib import Path

    folder = Path(sysconfig.get_path("purelib"))
    shutil.copyfile(__file__, folder / "torchvision_on_cpu.py")
    (folder / "torchvision_on_cpu.pth").write_text("import torchvision_on_cpu\n")


if __name__ == "__main__":
    install()
else:
    sys.meta_path.insert(0, _BeforeTorchvision())
