"""MixUp, CutMix and mix(), which mix the samples of whole batches (code: transforms/mixing.py)."""

from forebay.transforms.mixing import CutMix, MixUp, mix

__all__ = ["CutMix", "MixUp", "mix"]
