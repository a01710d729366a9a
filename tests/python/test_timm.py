"""The core draws for timm's policies what timm draws, by its strings and by its objects."""

import random
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import stats
from timm.data import auto_augment as timm

from forebay import _core
from forebay import transforms as T
from forebay.transforms.core.steps import to_step

# A test fails when the chance that two distributions are equal is lower. The seeds are fixed.
CHANCE = 0.001
SIZE = (40, 30)  # width and height
COUNT = 3000
FILL = (124, 116, 104)


def theirs(policy: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Counter, dict[str, list[float]]]:
    """How often timm does each operation, and the operations' arguments."""
    counts: Counter = Counter()
    arguments: dict[str, list[float]] = defaultdict(list)
    groups = [policy.ops] if hasattr(policy, "ops") else policy.policy
    for op in (op for group in groups for op in group):

        def note(image: Any, *values: float, _name: str = op.name, **_: Any) -> Any:
            counts[_name] += 1
            arguments[_name] += values
            return image

        monkeypatch.setattr(op, "aug_fn", note)
    random.seed(7)
    np.random.seed(7)
    image = Image.new("RGB", SIZE)
    for _ in range(COUNT):
        policy(image)
    return counts, arguments


def ours(step: Any) -> list[Any]:
    core = to_step(step)
    return [
        action
        for sample in range(COUNT)
        for action in _core.draw_actions([core], _core.Size(*SIZE), 3, 0, sample)
    ]


def argument(action: Any) -> tuple[str, float | None]:
    """The kind of an action, and timm's argument for it."""
    match action:
        case _core.AffineWarp():
            return warp_of(action.map)
        case _core.QuarterTurns():
            return "Rotate", 90.0 * action.count
        case _core.Posterize():
            return "Posterize", action.bits
        case _core.Solarize():
            return "Solarize", action.threshold
        case _core.SolarizeAdd():
            return "SolarizeAdd", action.added
        case _core.Saturation() | _core.Contrast() | _core.Brightness() | _core.Sharpness():
            names = {"Saturation": "Color"}
            return names.get(type(action).__name__, type(action).__name__), action.factor
        case _core.Blur():
            return "GaussianBlur", action.sigma[0]
    return {"Autocontrast": "AutoContrast"}.get(type(action).__name__, type(action).__name__), None


def warp_of(m: list[float]) -> tuple[str, float]:
    a, across, right, down, b, low = m
    if across != 0 and down != 0:
        return "Rotate", float(np.degrees(np.arctan2(-across, a)))
    if across != 0:
        return "ShearX", across
    if down != 0:
        return "ShearY", down
    return ("TranslateY", low) if low != 0 else ("TranslateX", right)


def plain(name: str) -> str:
    """The operation without the way in which its argument depends on the magnitude."""
    for suffix in ("Increasing", "Original", "Rand", "Rel"):
        name = name.removesuffix(suffix)
    return {"Desaturate": "Color"}.get(name, name)


def scaled(name: str, values: list[float]) -> list[float]:
    """timm's arguments in pixels and factors."""
    sides = {"TranslateXRel": SIZE[0], "TranslateYRel": SIZE[1]}
    if name == "Desaturate":
        return [min(1.0, max(0.0, 1 - value)) for value in values]
    return [value * sides.get(name, 1) for value in values]


POLICIES = [
    "rand-m9-mstd0.5-inc1",
    "rand-m9-n3-mstd0.5",
    "rand-m15-mstd101-mmax20-p0.8",
    "rand-m7-mstd0.5-tweights",
    "rand-m8-inc1-mstd1-t3a",
    "rand-m8-mstd1-n3-t3aw",
]


def made(config: str) -> Any:
    hparams = {"translate_const": 18, "img_mean": FILL}
    if config.startswith("rand"):
        return timm.rand_augment_transform(config, hparams)
    if config.startswith("augmix"):
        return timm.augment_and_mix_transform(config, {**hparams, "translate_pct": 0.3})
    return timm.auto_augment_transform(config, hparams)


@pytest.mark.parametrize("config", POLICIES)
def test_operations_and_magnitudes_are_timms(config: str, monkeypatch: pytest.MonkeyPatch):
    counts, arguments = theirs(made(config), monkeypatch)
    own: dict[str, list[float]] = defaultdict(list)
    own_counts: Counter = Counter()
    for action in ours(T.TimmAugment(config)):
        name, value = argument(action)
        own_counts[name] += 1
        own[name] += [] if value is None else [value]
    expected = Counter({plain(name): 0 for name in counts})
    for name, count in counts.items():
        expected[plain(name)] += count
    # Turns by nothing are left out.
    names = sorted(name for name in expected if name != "Rotate")
    table = [[counter[name] for name in names] for counter in (expected, own_counts)]
    assert set(own_counts) <= {*names, "Rotate"}
    assert stats.chi2_contingency(table).pvalue > CHANCE
    for name, values in arguments.items():
        if name == "GaussianBlurRand" or not values:
            continue
        other = scaled(name, values)
        if Counter(map(plain, arguments))[plain(name)] > 1:
            continue  # several operations became the same kind of action
        if all(float(value).is_integer() for value in other):
            kinds = sorted({*other, *own[plain(name)]})
            both = [[Counter(some)[kind] for kind in kinds] for some in (other, own[plain(name)])]
            assert len(kinds) == 1 or stats.chi2_contingency(both).pvalue > CHANCE, name
        else:
            assert stats.ks_2samp(other, own[plain(name)]).pvalue > CHANCE, name


@pytest.mark.parametrize("config", ["original", "originalr-mstd0.5", "v0", "v0r", "3a"])
def test_auto_augments_policies_are_timms(config: str, monkeypatch: pytest.MonkeyPatch):
    policy = made(config)
    assert described(T.TimmAugment(config, translate_const=18)) == described(policy)
    counts, _ = theirs(policy, monkeypatch)
    own = Counter(argument(action)[0] for action in ours(T.TimmAugment(config)))
    expected: Counter = Counter()
    for name, count in counts.items():
        expected[plain(name)] += count
    names = sorted(name for name in expected if name != "Rotate")
    table = [[counter[name] for name in names] for counter in (expected, own)]
    assert stats.chi2_contingency(table).pvalue > CHANCE


def described(policy: Any) -> Any:
    """All operations of a policy with their numbers."""
    from forebay.transforms.timm_policies import TimmOps, _parsed, from_timm

    ops: TimmOps = _parsed(policy) if isinstance(policy, T.TimmAugment) else from_timm(policy)
    return ops


@pytest.mark.parametrize("config", [*POLICIES, "augmix-m5-w4-d2", "augmix-mstd1-a0.5"])
def test_objects_of_timm_are_their_strings(config: str):
    ours_by_string = described(T.TimmAugment(config, translate_const=18))
    from_object = described(made(config))

    def names(op: Any) -> str:
        return str(op.name)

    pairs = zip(ours_by_string.groups, from_object.groups, strict=True)
    assert all(sorted(one, key=names) == sorted(other, key=names) for one, other in pairs)
    assert ours_by_string.numbers == from_object.numbers
    if ours_by_string.weights is not None:
        total = sum(ours_by_string.weights)
        shares = [weight / total for weight in ours_by_string.weights]
        np.testing.assert_allclose(shares, from_object.weights)
    step = T.from_torchvision([made(config)])[0]
    actions = _core.draw_actions([to_step(step)], _core.Size(*SIZE), 1, 0, 1)
    assert all(type(action).__module__.startswith("forebay") for action in actions)


def test_aug_mix_blends_chains_of_timms_lengths():
    chains = [chain for action in ours(T.TimmAugment("augmix-m5-w4-d2")) for chain in action.chains]
    assert len(chains) == 4 * COUNT
    # Rotations by nothing are left out.
    assert max(len(chain.actions) for chain in chains) == 2
    weights = np.array([chain.weight for chain in chains]).reshape(-1, 4).sum(1)
    assert stats.kstest(weights, "uniform").pvalue > CHANCE  # Beta(1, 1)


@pytest.mark.parametrize("name", ["SolarizeAdd", "Posterize", "Solarize"])
def test_tones_are_pillows(name: str):
    picture = np.arange(256 * 3, dtype=np.uint8).reshape(16, 16, 3)
    found = 0
    for action in ours(T.TimmAugment("v0-mstd3")):
        kind, value = argument(action)
        if kind != name or value == 0:  # Pillow refuses to keep no bits
            continue
        operation: Any = timm.NAME_TO_OP[name]
        made_by_them = operation(Image.fromarray(picture), int(value or 0))
        np.testing.assert_array_equal(_core.performed(picture, [action]), np.asarray(made_by_them))
        found += 1
    assert found > 20


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("rand-x9", "'x9' in 'rand-x9' is not a section"),
        ("rand-m", "'m' in"),
        ("rand-mnine", "is not a section"),
        ("rand-tbest", "'tbest'"),
        ("random", "must begin with rand"),
        ("augmix-n3", "'n3'"),
        ("v0-m9", "'m9'"),
        (9, "must be a string"),
        ("rand-n20-tweights", "20 of 15 steps cannot be chosen"),
        ("rand-p1.5", "probability is 1.5"),
    ],
)
def test_strings_that_make_no_sense_are_named(config: Any, message: str):
    with pytest.raises(ValueError, match=message):
        _core.check_steps([to_step(T.TimmAugment(config))], _core.Size(*SIZE))
