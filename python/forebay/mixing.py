"""MixUp and CutMix, under the name by which scripts import them; they live in transforms/."""

from forebay.transforms.mixing import CutMix, MixUp, mix

__all__ = ["CutMix", "MixUp", "mix"]
