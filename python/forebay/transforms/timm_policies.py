"""timm's policies (PyTorch Image Models), from its parameter strings or its own objects.

timm's operations work on Pillow images, with bilinear or bicubic interpolation; the core's are
those of torchvision on uint8 tensors, with bilinear warps.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from forebay import _core
from forebay.transforms.augmentations import Step
from forebay.transforms.core.arguments import numbers_of

_Op = _core.Operation
_PER_LEVEL = 10.0  # timm's magnitudes are from 0 to 10
_PIXELS = 1e6  # more than any shift


@dataclass(frozen=True)
class _Argument:
    """How an operation's argument follows from its level, which is from 0 to 1."""

    operation: Any
    base: float = 0
    slope: float = 0
    either_sign: bool = False
    whole: bool = False
    least: float = 0
    most: float = 0


def _signed(operation: Any, most: float) -> _Argument:
    return _Argument(operation, 0, most, either_sign=True, least=-_PIXELS, most=_PIXELS)


def _enhanced(operation: Any) -> _Argument:
    return _Argument(operation, 0.1, 1.8, least=0, most=_PIXELS)


def _increasing(operation: Any) -> _Argument:
    return _Argument(operation, 1, 0.9, either_sign=True, least=0.1, most=_PIXELS)


_ARGUMENTS = {
    "AutoContrast": _Argument(_Op.AUTOCONTRAST),
    "Equalize": _Argument(_Op.EQUALIZE),
    "Invert": _Argument(_Op.INVERT),
    "Rotate": _signed(_Op.ROTATE, 30),
    "Posterize": _Argument(_Op.POSTERIZE, 0, 4, whole=True, most=8),
    "PosterizeIncreasing": _Argument(_Op.POSTERIZE, 4, -4, whole=True, most=8),
    "PosterizeOriginal": _Argument(_Op.POSTERIZE, 4, 4, whole=True, most=8),
    "Solarize": _Argument(_Op.SOLARIZE, 0, 256, whole=True, most=256),
    "SolarizeIncreasing": _Argument(_Op.SOLARIZE, 256, -256, whole=True, most=256),
    "SolarizeAdd": _Argument(_Op.SOLARIZE_ADD, 0, 110, whole=True, most=128),
    "Color": _enhanced(_Op.COLOUR),
    "ColorIncreasing": _increasing(_Op.COLOUR),
    "Contrast": _enhanced(_Op.CONTRAST),
    "ContrastIncreasing": _increasing(_Op.CONTRAST),
    "Brightness": _enhanced(_Op.BRIGHTNESS),
    "BrightnessIncreasing": _increasing(_Op.BRIGHTNESS),
    "Sharpness": _enhanced(_Op.SHARPNESS),
    "SharpnessIncreasing": _increasing(_Op.SHARPNESS),
    "ShearX": _signed(_Op.SHEAR_X, 0.3),
    "ShearY": _signed(_Op.SHEAR_Y, 0.3),
    "TranslateX": _signed(_Op.TRANSLATE_X, 250),
    "TranslateY": _signed(_Op.TRANSLATE_Y, 250),
    "TranslateXRel": _signed(_Op.TRANSLATE_X_SHARE, 0.45),
    "TranslateYRel": _signed(_Op.TRANSLATE_Y_SHARE, 0.45),
    "Desaturate": _Argument(_Op.COLOUR, 0.5, -0.5, least=0, most=0.5),
    "GaussianBlur": _Argument(_Op.BLUR, 0.1, 1.9, least=0.1, most=2),
    "GaussianBlurRand": _Argument(_Op.BLUR_UP_TO, 0, 2, least=0.1, most=2),
}
_FALLING = ("Posterize", "Solarize", "Color", "Contrast", "Brightness", "Sharpness")
_USUAL = (
    "AutoContrast", "Equalize", "Invert", "Rotate", "Posterize", "Solarize", "SolarizeAdd", "Color",
    "Contrast", "Brightness", "Sharpness", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel",
)  # fmt: skip
_INCREASING = tuple(name + "Increasing" if name in _FALLING else name for name in _USUAL)
_MIXED = tuple(name for name in _INCREASING if name not in ("Invert", "SolarizeAdd"))
_THREE = ("SolarizeIncreasing", "Desaturate", "GaussianBlur")
_WEIGHTED = {
    "3aw": {
        **dict.fromkeys(_THREE, 6.0), "Rotate": 3.0, "ShearX": 2.0, "ShearY": 2.0,
        **dict.fromkeys(
            ("PosterizeIncreasing", "AutoContrast", "ColorIncreasing", "SharpnessIncreasing",
             "ContrastIncreasing", "BrightnessIncreasing", "Equalize", "Invert"), 1.0
        ),
    },
    "weights": {
        "Rotate": 3.0, "ShearX": 2.0, "ShearY": 2.0, "TranslateXRel": 1.0, "TranslateYRel": 1.0,
        "ColorIncreasing": 0.25, "SharpnessIncreasing": 0.25, "AutoContrast": 0.25,
        **dict.fromkeys(
            ("SolarizeIncreasing", "SolarizeAdd", "ContrastIncreasing", "BrightnessIncreasing",
             "Equalize", "PosterizeIncreasing", "Invert"), 0.05
        ),
    },
}  # fmt: skip
# Pairs of operations with their probability and magnitude: AutoAugment's for ImageNet, and
# EfficientNet's ("v0"). With an r, posterizing keeps fewer bits as magnitudes grow.
_ORIGINAL = """
PosterizeOriginal .4 8 Rotate .6 9; Solarize .6 5 AutoContrast .6 5;
Equalize .8 8 Equalize .6 3; PosterizeOriginal .6 7 PosterizeOriginal .6 6;
Equalize .4 7 Solarize .2 4; Equalize .4 4 Rotate .8 8; Solarize .6 3 Equalize .6 7;
PosterizeOriginal .8 5 Equalize 1 2; Rotate .2 3 Solarize .6 8;
Equalize .6 8 PosterizeOriginal .4 6; Rotate .8 8 Color .4 0; Rotate .4 9 Equalize .6 2;
Equalize 0 7 Equalize .8 8; Invert .6 4 Equalize 1 8; Color .6 4 Contrast 1 8;
Rotate .8 8 Color 1 2; Color .8 8 Solarize .8 7; Sharpness .4 7 Invert .6 8;
ShearX .6 5 Equalize 1 9; Color .4 0 Equalize .6 3; Equalize .4 7 Solarize .2 4;
Solarize .6 5 AutoContrast .6 5; Invert .6 4 Equalize 1 8; Color .6 4 Contrast 1 8;
Equalize .8 8 Equalize .6 3"""
_V0 = """
Equalize .8 1 ShearY .8 4; Color .4 9 Equalize .6 3; Color .4 1 Rotate .6 8;
Solarize .8 3 Equalize .4 7; Solarize .4 2 Solarize .6 2; Color .2 0 Equalize .8 8;
Equalize .4 8 SolarizeAdd .8 3; ShearX .2 9 Rotate .6 8; Color .6 1 Equalize 1 2;
Invert .4 9 Rotate .6 0; Equalize 1 9 ShearY .6 3; Color .4 7 Equalize .6 0;
Posterize .4 6 AutoContrast .4 7; Solarize .6 8 Color .6 9; Solarize .2 4 Rotate .8 9;
Rotate 1 7 TranslateYRel .8 9; ShearX 0 0 Solarize .8 4; ShearY .8 0 Color .6 4;
Color 1 0 Rotate .6 2; Equalize .8 4 Equalize 0 8; Equalize 1 4 AutoContrast .6 2;
ShearY .4 7 SolarizeAdd .6 7; Posterize .8 2 Solarize .6 10; Solarize .6 8 Equalize .6 1;
Color .8 6 Rotate .4 5"""
_POLICIES = {
    "original": _ORIGINAL,
    "originalr": _ORIGINAL.replace("PosterizeOriginal", "PosterizeIncreasing"),
    "v0": _V0,
    "v0r": _V0.replace("Posterize", "PosterizeIncreasing"),
    "3a": "Solarize 1 5; Desaturate 1 10; GaussianBlurRand 1 10",
}


@dataclass(frozen=True)
class TimmAugment(Step):
    """One of timm's policies, by its parameter string.

    "rand-m9-mstd0.5-inc1" is RandAugment; its sections, with their defaults, are m (magnitude, 10),
    n (operations for an image, 2), p (probability of each, 0.5), mstd (standard deviation of the
    magnitude, 0; above 100: uniform from 0), mmax (the largest magnitude, 10), inc (1: operations
    grow with the magnitude), t (other operations: 3a, 3aw, weights). "augmix-m5-w4-d2" is AugMix,
    with w (chains, 3), d (their length, -1: from 1 to 3), a (alpha, 1), m (3) and mstd. "original",
    "originalr", "v0", "v0r" and "3a" (three-augment) are AutoAugment's policies, with mstd.

    Args:
        config: The string.
        fill: The colour of pixels outside the image after warps.
        translate_const: The largest shift in pixels by TranslateX and TranslateY, in policies that
            have these.
        translate_pct: The largest shift by the other translations, as a share of the side; None:
            0.45, for AugMix 0.3.
    """

    config: str
    fill: Any = (124, 116, 104)
    translate_const: float = 250
    translate_pct: float | None = None


@dataclass(frozen=True)
class TimmOps(Step):
    """One of timm's policies, from one of its objects; from_torchvision() makes it.

    Attributes:
        kind: "rand", "auto" or "augmix".
        groups: The operations; for "auto" one group for each sub-policy, else one group.
        weights: The operations' weights for "rand", which are then not repeated; or None.
        numbers: count for "rand"; width, depth and alpha for "augmix".
    """

    kind: str
    groups: tuple[tuple["Op", ...], ...]
    weights: tuple[float, ...] | None = None
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True)
class Op:
    """One operation of a policy, with timm's parameters."""

    name: str
    probability: float
    magnitude: float
    deviation: float = 0
    most: float = _PER_LEVEL
    fill: Any = (128, 128, 128)
    translate_const: float = 250
    translate_pct: float = 0.45

    def core(self) -> Any:
        """The same operation for the core."""
        if self.name not in _ARGUMENTS:
            raise ValueError(f"timm: there is no operation {self.name!r}")
        known = _ARGUMENTS[self.name]
        out = _core.AugmentOp()
        out.operation = known.operation
        out.probability, out.magnitude = self.probability, self.magnitude
        out.deviation = None if math.isinf(self.deviation) else self.deviation
        out.magnitude_most = self.most
        out.base, out.slope = known.base, known.slope
        if known.operation in (_Op.TRANSLATE_X, _Op.TRANSLATE_Y):
            out.slope = self.translate_const
        elif known.operation in (_Op.TRANSLATE_X_SHARE, _Op.TRANSLATE_Y_SHARE):
            out.slope = self.translate_pct
        out.either_sign, out.whole = known.either_sign, known.whole
        out.least, out.most = known.least, known.most
        levels = list((numbers_of(self, "fill", (1, 3), Real) * 3)[:3])
        out.options = _core.WarpOptions(_core.Interpolation.BILINEAR, levels)
        return out


def to_timm_step(one: TimmAugment | TimmOps) -> Any:
    """The core's step for a policy.

    Raises:
        ValueError: The string, or an operation, is not one of timm's.
    """
    ops = one if isinstance(one, TimmOps) else _parsed(one)
    groups = [[op.core() for op in group] for group in ops.groups]
    if ops.kind == "augmix":
        width, depth, alpha = ops.numbers
        return _core.ChainMixture(int(width), max(0, int(depth)), alpha, groups[0])
    if ops.kind == "auto":
        return _core.RandomChoice(
            [1.0] * len(groups), [_core.RandomApply(1, group) for group in groups]
        )
    weights = ops.weights or (1.0,) * len(groups[0])
    return _core.RandomChoice(list(weights), groups[0], int(ops.numbers[0]), ops.weights is None)


def _parsed(one: TimmAugment) -> TimmOps:
    if not isinstance(one.config, str):
        raise ValueError(f"TimmAugment: config is {one.config!r}, but must be a string of timm's")
    name, *sections = one.config.split("-")
    if name == "rand":
        return _rand(one, sections)
    if name == "augmix":
        return _aug_mix(one, sections)
    if name in _POLICIES:
        return _auto(one, _POLICIES[name], sections)
    raise ValueError(
        f"TimmAugment: config is {one.config!r}, but must begin with rand, augmix or one of "
        f"{', '.join(_POLICIES)}"
    )


def _numbers(
    one: TimmAugment, sections: Sequence[str], known: dict[str, float]
) -> dict[str, float]:
    """The sections' numbers by name; sections that are not given have the values in `known`."""
    out = dict(known)
    for section in sections:
        found = re.fullmatch(r"([a-z]+)(-?\d+(?:\.\d*)?|inf)", section)
        if found is None or found[1] not in known:
            raise ValueError(
                f"TimmAugment: {section!r} in {one.config!r} is not a section; sections are "
                f"{', '.join(known)}, each followed by a number"
            )
        number = float(found[2])
        if found[1] not in ("mstd",) and not number <= 1e6:
            raise ValueError(f"TimmAugment: {section!r} in {one.config!r} is too large")
        out[found[1]] = number
    return out


def _op(one: TimmAugment, name: str, probability: float, magnitude: float, **more: float) -> Op:
    share = 0.45 if one.translate_pct is None else one.translate_pct
    more.setdefault("translate_pct", share)
    return Op(
        name, probability, magnitude, fill=one.fill, translate_const=one.translate_const, **more
    )


def _rand(one: TimmAugment, sections: Sequence[str]) -> TimmOps:
    chosen = [section[1:] for section in sections if section.startswith("t")]
    numbers = _numbers(
        one,
        [section for section in sections if not section.startswith("t")],
        {"m": 10, "n": 2, "p": 0.5, "mstd": 0, "mmax": _PER_LEVEL, "inc": 0},
    )
    names: Sequence[str] = _INCREASING if numbers["inc"] else _USUAL
    weights = None
    if chosen and chosen[0] == "3a":
        names = _THREE
    elif chosen and chosen[0] in _WEIGHTED:
        names, weights = tuple(_WEIGHTED[chosen[0]]), tuple(_WEIGHTED[chosen[0]].values())
    elif chosen:
        raise ValueError(
            f"TimmAugment: 't{chosen[0]}' in {one.config!r} is not a set of operations; there are "
            "t3a, t3aw and tweights"
        )
    deviation = math.inf if numbers["mstd"] > 100 else numbers["mstd"]
    ops = [
        _op(one, name, numbers["p"], numbers["m"], deviation=deviation, most=numbers["mmax"])
        for name in names
    ]
    return TimmOps("rand", (tuple(ops),), weights, (numbers["n"],))


def _aug_mix(one: TimmAugment, sections: Sequence[str]) -> TimmOps:
    known = {"m": 3, "w": 3, "d": -1, "a": 1, "mstd": math.inf}
    numbers = _numbers(one, sections, known)
    share = 0.3 if one.translate_pct is None else one.translate_pct
    ops = [
        _op(one, name, 1, numbers["m"], deviation=numbers["mstd"], translate_pct=share)
        for name in _MIXED
    ]
    return TimmOps("augmix", (tuple(ops),), None, (numbers["w"], numbers["d"], numbers["a"]))


def _auto(one: TimmAugment, policy: str, sections: Sequence[str]) -> TimmOps:
    deviation = _numbers(one, sections, {"mstd": 0})["mstd"]
    groups = []
    for line in policy.split(";"):
        words = line.split()
        groups.append(
            tuple(
                _op(one, name, float(p), float(magnitude), deviation=deviation)
                for name, p, magnitude in zip(words[::3], words[1::3], words[2::3], strict=True)
            )
        )
    return TimmOps("auto", tuple(groups))


def is_timm(one: Any) -> bool:
    """Whether an object is one of timm's policies."""
    return type(one).__module__ == "timm.data.auto_augment"


def from_timm(one: Any) -> TimmOps:
    """The policy of one of timm's objects.

    Raises:
        ValueError: The core has no such policy.
    """
    name = type(one).__name__
    if name == "RandAugment":
        weights = None if one.choice_weights is None else tuple(map(float, one.choice_weights))
        return TimmOps("rand", (_ops_of(one.ops),), weights, (one.num_layers,))
    if name == "AutoAugment":
        return TimmOps("auto", tuple(_ops_of(ops) for ops in one.policy))
    if name == "AugMixAugment":
        return TimmOps("augmix", (_ops_of(one.ops),), None, (one.width, one.depth, one.alpha))
    raise ValueError(f"timm's {name} has no counterpart in Forebay's core")


def _ops_of(ops: Sequence[Any]) -> tuple[Op, ...]:
    return tuple(
        Op(
            one.name,
            one.prob,
            one.magnitude,
            one.magnitude_std,
            one.magnitude_max or _PER_LEVEL,
            one.kwargs["fillcolor"],
            one.hparams.get("translate_const", 250),
            one.hparams.get("translate_pct", 0.45),
        )
        for one in ops
    )
