"""The sides that bench/augment.py compares, a file for each library, with one interface (side.py).

A peer's library is imported only where its side is made, so that a missing library is one side
less.
"""

from importlib import import_module
from typing import NamedTuple

from lib.augment.side import Side


class Kind(NamedTuple):
    """A kind of side.

    Attributes:
        module: The file of this folder that has it.
        name: The class's.
        without: Recipes with steps that the library does not have.
    """

    module: str
    name: str
    without: tuple[str, ...] = ()

    def make(self, recipe: str) -> Side:
        """Imports the library and makes the side."""
        module = import_module(f"lib.augment.{self.module}")
        side: Side = getattr(module, self.name)(recipe)
        return side


FOREBAY = "forebay"
KINDS = {
    FOREBAY: Kind("forebay", "Forebay"),
    "forebay_files": Kind("forebay", "ForebayFiles"),
    "torchvision_tensors": Kind("torchvision", "TorchvisionTensors", ("deit",)),
    "torchvision_pillow": Kind("torchvision", "TorchvisionPillow"),
    "albumentations": Kind("albumentations", "Albumentations"),
    "dali": Kind("dali", "Dali"),
    "kornia": Kind("kornia", "Kornia", ("deit", "detection")),
}
# The faster of these is "torchvision".
TORCHVISION = ("torchvision_tensors", "torchvision_pillow")
