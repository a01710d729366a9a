"""Steps of an augmentation are torchvision v2's on uint8 tensors, in pixels and distributions.

Where a step's parameters can be fixed, both are run with the same; for the others, what the core
drew is done again by torchvision's functions.
"""

import enum
import functools
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats
from torchvision.transforms.v2.functional import _geometry as geometry

import forebay
from forebay import _core
from forebay import transforms as T
from forebay.transforms.core.steps import to_step
from peer_torchvision import v1, v2
from torchvision_again import again

F = v2.functional
SIZES = [(1, 1), (1, 7), (5, 1), (2, 3), (3, 3), (17, 64), (65, 33), (40, 41), (112, 112)]
# A test fails when the chance that two distributions are equal is lower. The seeds are fixed.
CHANCE = 0.001
Pixels = np.ndarray  # uint8 [height, width, 3]


def pictures() -> list[Pixels]:
    """Noise, a smooth picture, one level, and few levels, of all SIZES."""
    random = np.random.default_rng(3)
    out = []
    for height, width in SIZES:
        y, x = np.mgrid[:height, :width]
        smooth = np.stack(
            [x * 255 // max(1, width - 1), y * 255 // max(1, height - 1), (x + y) % 256], 2
        )
        out += [
            random.integers(0, 256, (height, width, 3), dtype=np.uint8),
            smooth.astype(np.uint8),
            np.full((height, width, 3), 77, np.uint8),
            random.choice(np.array([3, 120, 251], np.uint8), (height, width, 3)),
        ]
    return out


PICTURES = pictures()


def drawn(step: Any, picture: Pixels, sample: int, seed: int = 5) -> list[Any]:
    height, width = picture.shape[:2]
    return _core.draw_actions([to_step(step)], _core.Size(width, height), seed, 0, sample)


def ours(step: Any, picture: Pixels, sample: int = 0) -> Pixels:
    return _core.performed(picture, drawn(step, picture, sample))


def planes(picture: Pixels) -> torch.Tensor:
    return torch.from_numpy(picture.transpose(2, 0, 1).copy())


def theirs(function: Callable[[torch.Tensor], torch.Tensor], picture: Pixels) -> Pixels:
    return function(planes(picture)).numpy().transpose(1, 2, 0)


def check_levels(one: Pixels, other: Pixels, levels: int, what: Any) -> None:
    assert one.shape == other.shape, what
    most = np.abs(one.astype(int) - other.astype(int)).max()
    assert most <= levels, f"{what}: {most} levels apart"


# A step, torchvision's with the same parameters, and by how many levels they may differ.
FIXED: list[tuple[Any, Any, int]] = [
    *[
        (T.ColorJitter(**{name: (factor, factor)}), v2.ColorJitter(**{name: (factor, factor)}), 0)
        for name in ("brightness", "contrast", "saturation")
        for factor in (0.0, 0.01, 0.3, 0.5, 0.999, 1.37, 1.99, 7.3)
    ],
    *[
        (T.ColorJitter(hue=(turn, turn)), v2.ColorJitter(hue=(turn, turn)), 0)
        for turn in (-0.5, -0.31, -0.1, -0.001, 0.05, 0.2, 0.4999, 0.5)
    ],
    (T.Grayscale(), v2.Grayscale(3), 0),
    (T.RandomGrayscale(1), v2.RandomGrayscale(1), 0),
    (T.RandomAutocontrast(1), v2.RandomAutocontrast(1), 0),
    (T.RandomEqualize(1), v2.RandomEqualize(1), 0),
    (T.RandomInvert(1), v2.RandomInvert(1), 0),
    *[(T.RandomPosterize(bits, 1), v2.RandomPosterize(bits, 1), 0) for bits in range(9)],
    *[
        (T.RandomSolarize(level, 1), v2.RandomSolarize(level, 1), 0)
        for level in (0, 0.5, 99, 128.2, 255)
    ],
    *[
        (T.RandomAdjustSharpness(factor, 1), v2.RandomAdjustSharpness(factor, 1), 0)
        for factor in (0, 0.3, 0.95, 1, 1.5, 2, 13)
    ],
    (T.RandomHorizontalFlip(1), v2.RandomHorizontalFlip(1), 0),
    (T.RandomVerticalFlip(1), v2.RandomVerticalFlip(1), 0),
    *[
        (
            T.RandomRotation((angle, angle), interpolation, fill=fill),
            v2.RandomRotation((angle, angle), interpolation, fill=fill),
            levels,
        )
        for angle in (-180, -90, -33.3, 0, 1, 45, 60, 90, 135, 179, 270, 359.9, 720)
        for interpolation, levels in (("nearest", 0), ("bilinear", 1))
        for fill in (None, (3, 120, 250))
    ],
    *[
        (
            T.RandomAffine(
                (angle, angle), scale=(scale, scale), shear=shear, center=center, **more
            ),
            v2.RandomAffine(
                (angle, angle), scale=(scale, scale), shear=shear, center=center, **more
            ),
            levels,
        )
        for angle, scale, shear, center in (
            (0, 1, None, None),
            (0, 1, (20, 20), None),
            (0, 0.5, (0, 0, -45, -45), (0, 0)),
            (33, 1.7, (10, 10, 5, 5), (3, 9)),
            (-171, 0.8, (-80, -80), None),
        )
        for more, levels in (
            ({"interpolation": "nearest", "fill": 9}, 0),
            ({"interpolation": "bilinear", "fill": None}, 1),
            ({"interpolation": "bilinear", "fill": 100}, 1),
        )
    ],
    (T.RandomApply([T.RandomInvert(1)], 0), v2.RandomApply([v2.RandomInvert(1)], 0), 0),
    (
        T.RandomApply([T.RandomInvert(1), T.RandomPosterize(2, 1)], 1),
        v2.RandomApply([v2.RandomInvert(1), v2.RandomPosterize(2, 1)], 1),
        0,
    ),
    (
        T.RandomChoice([T.RandomInvert(1), T.RandomEqualize(1)], [0, 1]),
        v2.RandomChoice([v2.RandomInvert(1), v2.RandomEqualize(1)], [0, 1]),
        0,
    ),
]


@pytest.mark.parametrize(("own", "other", "levels"), FIXED, ids=lambda value: str(value)[:80])
def test_pixels_are_torchvisions(own: Any, other: Any, levels: int):
    for picture in PICTURES:
        check_levels(ours(own, picture), theirs(other, picture), levels, (own, picture.shape))


@pytest.mark.parametrize("length", [1, 3, (5, 9), 23, (201, 3)])
@pytest.mark.parametrize("sigma", [0.05, 0.7, 2.0, 30.0, 1e5])
def test_blurs_are_torchvisions(length: Any, sigma: float):
    across, down = (length, length) if isinstance(length, int) else length
    edge = np.full((112, 112, 3), 255, np.uint8)
    edge[40:41] = 0
    for picture in [*PICTURES, edge]:
        if picture.shape[0] <= down // 2 or picture.shape[1] <= across // 2:
            with pytest.raises(ValueError, match="kernel_size is"):
                ours(T.GaussianBlur(length, sigma), picture)
            continue
        other = theirs(v2.GaussianBlur(length, sigma), picture)
        check_levels(ours(T.GaussianBlur(length, sigma), picture), other, 1, picture.shape)


# Random steps, and by how many levels torchvision may differ when it does again what was drawn.
RANDOM: list[tuple[Any, int]] = [
    (T.ColorJitter(0.4, 0.4, 0.4, 0.1), 0),
    (T.ColorJitter(hue=0.5, saturation=(0.2, 3)), 0),
    (T.RandomPhotometricDistort(), 0),
    (T.RandomChannelPermutation(), 0),
    (T.RandomOrder([T.RandomPosterize(3, 1), T.RandomInvert(1), T.ColorJitter(0.9)]), 0),
    (T.AutoAugment(), 0),
    (T.AutoAugment("cifar10"), 0),
    (T.AutoAugment("svhn", fill=(1, 2, 3)), 0),
    (T.RandAugment(), 0),
    (T.RandAugment(4, 15, 31, fill=128), 0),
    (T.TrivialAugmentWide(), 0),
    (T.TrivialAugmentWide(interpolation="bilinear"), 1),
    (T.AugMix(), 1),
    (T.AugMix(interpolation="nearest", severity=10), 0),
    (T.RandomAffine(20, (0.2, 0.1), (0.7, 1.3), (-10, 10, -5, 5)), 0),
    (T.RandomPerspective(0.6, 1, "nearest"), 0),
    (T.RandomPerspective(0.6, 1, fill=(9, 99, 199)), 1),
]


@pytest.mark.parametrize(("step", "levels"), RANDOM, ids=lambda value: str(value)[:80])
def test_what_is_drawn_is_done_as_torchvision_does_it(step: Any, levels: int):
    for sample in range(200):
        picture = PICTURES[sample % len(PICTURES)]
        actions = drawn(step, picture, sample)
        made = _core.performed(picture, actions)
        other = theirs(functools.partial(again, actions), picture)
        check_levels(made, other, levels, (sample, picture.shape, actions))


def check_same(one: list[float], other: list[float]) -> None:
    result = stats.ks_2samp(np.round(one, 9), np.round(other, 9))
    assert result.pvalue > CHANCE, result


def check_counts(one: Counter, other: Counter) -> None:
    kinds = sorted(one | other, key=str)
    table = np.array([[one[kind] for kind in kinds], [other[kind] for kind in kinds]])
    rare = table.sum(0) < 10
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(1)])
    table = table[:, table.sum(0) > 0]
    assert stats.chi2_contingency(table).pvalue > CHANCE, dict(zip(kinds, table.T, strict=False))


def test_a_long_blur_is_torchvisions():
    picture = np.random.default_rng(8).integers(0, 256, (300, 500, 3), dtype=np.uint8)
    other = theirs(v2.GaussianBlur((993, 1), 1e5), picture)
    check_levels(ours(T.GaussianBlur((993, 1), 1e5), picture), other, 1, "long")


def test_distortions_draw_torchvisions_distributions():
    own, other = T.RandomPhotometricDistort(), v2.RandomPhotometricDistort()
    image = torch.zeros(3, 8, 8, dtype=torch.uint8)
    torch.manual_seed(7)
    done = Counter(
        tuple(type(one).__name__ for one in drawn(own, PICTURES[0], i)) for i in range(4000)
    )
    expected: Counter = Counter()
    for _ in range(4000):
        params = other.make_params([image])
        has = {name: params[f"{name.lower()}_factor"] is not None for name in CHANGES}
        first = params["contrast_before"]
        order = [
            "Brightness",
            *["Contrast"] * first,
            "Saturation",
            "Hue",
            *["Contrast"] * (not first),
        ]
        permutes = params["channel_permutation"] is not None
        expected[(*[name for name in order if has[name]], *["PermuteChannels"] * permutes)] += 1
    check_counts(done, expected)


def test_orders_and_single_numbers_are_drawn_evenly():
    order = T.RandomOrder([T.RandomInvert(1), T.RandomEqualize(1), T.RandomAutocontrast(1)])
    orders = Counter(
        tuple(type(one).__name__ for one in drawn(order, PICTURES[0], i)) for i in range(3000)
    )
    channels = Counter(
        tuple(drawn(T.RandomChannelPermutation(), PICTURES[0], i)[0].order) for i in range(3000)
    )
    for counts in (orders, channels):
        assert len(counts) == 6 and stats.chisquare(list(counts.values())).pvalue > CHANCE
    large = PICTURES[-1]
    sigmas = [drawn(T.GaussianBlur(3, (1, 4)), large, i)[0].sigma[0] for i in range(3000)]
    assert stats.kstest(sigmas, stats.uniform(1, 3).cdf).pvalue > CHANCE
    maps = [drawn(T.RandomRotation((20, 60)), large, i)[0].map for i in range(3000)]
    angles = [math.degrees(math.atan2(one[3], one[0])) for one in maps]
    assert stats.kstest(np.abs(angles), stats.uniform(20, 40).cdf).pvalue > CHANCE


@pytest.mark.parametrize(
    "other",
    [
        v1.RandomRotation(10, v1.InterpolationMode.BICUBIC),
        v1.TrivialAugmentWide(interpolation=v1.InterpolationMode.BICUBIC),
        v1.RandomAffine(0, shear=95),
        v2.GaussianBlur(33),
        v2.Grayscale(1),
        v2.RandomSolarize(cast(Any, torch.tensor(128))),
        v2.RandomAffine(0, fill={torch.Tensor: 3, "others": 0}),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_the_core_does_not_take_runs_in_python(other: Any, photos: Path):
    with pytest.warns(UserWarning, match="in Python"):
        forebay.Loader(photos, 8, transform=[v1.CenterCrop(16), other])


CHANGES = ("Brightness", "Contrast", "Saturation", "Hue")


def test_jitter_draws_torchvisions_distributions():
    own = T.ColorJitter(0.4, (0.1, 3), 2.0, 0.3)
    other = v2.ColorJitter(0.4, (0.1, 3), 2.0, 0.3)
    torch.manual_seed(1)
    params = [other.make_params([]) for _ in range(3000)]
    actions = [drawn(own, PICTURES[0], sample) for sample in range(3000)]
    order = Counter(tuple(type(one).__name__ for one in each) for each in actions)
    check_counts(order, Counter(tuple(CHANGES[i] for i in each["fn_idx"]) for each in params))
    for name in CHANGES:
        field = "shift" if name == "Hue" else "factor"
        values = [
            getattr(one, field) for each in actions for one in each if type(one).__name__ == name
        ]
        check_same(values, [each[f"{name.lower()}_factor"] for each in params])


def operation(action: Any, size: tuple[int, int]) -> tuple[str, float]:
    """torchvision's name of an operation of a policy, and its magnitude."""
    height, width = size
    match action:
        case _core.Brightness() | _core.Contrast() | _core.Sharpness():
            return type(action).__name__, action.factor - 1
        case _core.Saturation():
            return "Color", action.factor - 1
        case _core.Posterize():
            return "Posterize", action.bits
        case _core.Solarize():
            return "Solarize", action.threshold / 255
        case _core.Autocontrast():
            return "AutoContrast", 0
        case _core.Equalize() | _core.Invert():
            return type(action).__name__, 0
        case _core.QuarterTurns():
            return "Rotate", {1: 90, 2: 180, 3: -90}[action.count]
    a, b, x, c, d, y = action.map
    if (a, d) == (1, 1) and b != 0:
        return "ShearX", b
    if (a, d) == (1, 1) and c != 0:
        return "ShearY", c
    if (a, b, c, d) == (1, 0, 0, 1):
        return ("TranslateX", -x) if x != 0 else ("TranslateY", -y)
    return "Rotate", -math.degrees(math.atan2(b, a))


class _Recorder:
    """Records what a policy of torchvision's does, and does nothing."""

    def __init__(self, policy: Any) -> None:
        self.done: list[tuple[str, float]] = []
        policy._apply_image_or_video_transform = self._record
        self._policy = policy

    def _record(self, image: Any, name: str, magnitude: float, **_: Any) -> Any:
        self.done.append((name, magnitude))
        return image

    def record(self, size: tuple[int, int], times: int) -> list[tuple[str, float]]:
        image = torch.zeros(3, *size, dtype=torch.uint8)
        for _ in range(times):
            self._policy(image)
        return self.done


POLICIES = [
    (T.AutoAugment(policy), v2.AutoAugment(v2.AutoAugmentPolicy(policy)))
    for policy in ("imagenet", "cifar10", "svhn")
] + [
    (T.RandAugment(), v2.RandAugment()),
    (T.RandAugment(3, 4, 11), v2.RandAugment(3, 4, 11)),
    (T.TrivialAugmentWide(), v2.TrivialAugmentWide()),
    (T.AugMix(), v2.AugMix()),
    (T.AugMix(severity=8, mixture_width=2, chain_depth=2, all_ops=False),
     v2.AugMix(severity=8, mixture_width=2, chain_depth=2, all_ops=False)),
]  # fmt: skip


@pytest.mark.parametrize(("own", "other"), POLICIES, ids=lambda value: str(value)[:60])
def test_policies_draw_what_torchvisions_do(own: Any, other: Any):
    size = (96, 160)
    picture = np.zeros((*size, 3), np.uint8)
    torch.manual_seed(2)
    recorded = _Recorder(other).record(size, 4000)
    actions = []
    for sample in range(4000):
        for action in drawn(own, picture, sample):
            actions += [action] if not isinstance(action, _core.Blend) else [
                one for chain in action.chains for one in chain.actions
            ]  # fmt: skip

    def key(name: str, magnitude: float) -> tuple[str, float]:
        # What changes nothing has no sign, or is nothing at all in the core.
        return (name, round(float(np.trunc(magnitude) if "Translate" in name else magnitude), 3))

    done = Counter(key(*operation(one, size)) for one in actions)
    expected = Counter(
        key(name, magnitude) for name, magnitude in recorded
        if name != "Identity" and not (name == "Rotate" and magnitude == 0)
    )  # fmt: skip
    for counter in (done, expected):  # without effect, one operation looks like another
        for kind in [k for k in counter if k[1] == 0 and k[0][:5] in ("Shear", "Trans")]:
            counter["nothing", 0.0] += counter.pop(kind)
    check_counts(done, expected)


def test_aug_mix_draws_torchvisions_weights():
    own, other = T.AugMix(mixture_width=4, alpha=0.7), v2.AugMix(mixture_width=4, alpha=0.7)
    blends = [drawn(own, PICTURES[0], sample)[0] for sample in range(3000)]
    torch.manual_seed(3)
    shares = other._sample_dirichlet(torch.full((3000, 2), 0.7))
    weights = other._sample_dirichlet(torch.full((3000, 4), 0.7)) * shares[:, 1:]
    check_same([blend.own for blend in blends], shares[:, 0].tolist())
    check_same([blend.chains[2].weight for blend in blends], weights[:, 2].tolist())
    for blend in blends:
        total = blend.own + sum(chain.weight for chain in blend.chains)
        assert total == pytest.approx(1, abs=1e-5)


def test_perspective_draws_torchvisions_corners():
    own, other = T.RandomPerspective(0.7, 1), v2.RandomPerspective(0.7, 1)
    image = torch.zeros(3, 65, 33, dtype=torch.uint8)
    picture = np.zeros((65, 33, 3), np.uint8)
    torch.manual_seed(4)
    maps = [other.make_params([image])["coefficients"] for _ in range(2000)]
    own_maps = [drawn(own, picture, sample)[0].map for sample in range(2000)]
    for i in range(8):
        check_same([one[i] for one in own_maps], [one[i] for one in maps])


def test_affine_draws_torchvisions_maps():
    arguments: dict[str, Any] = {
        "translate": (0.3, 0.1),
        "scale": (0.5, 2),
        "shear": (-30, 10, 0, 20),
    }
    own, other = T.RandomAffine(90, **arguments), v2.RandomAffine(90, **arguments)
    image = torch.zeros(3, 65, 33, dtype=torch.uint8)
    torch.manual_seed(5)
    maps = []
    for _ in range(2000):
        one = other.make_params([image])
        maps.append(geometry._get_inverse_affine_matrix(
            [0.0, 0.0], one["angle"], list(one["translate"]), one["scale"], list(one["shear"])
        ))  # fmt: skip
    own_maps = [drawn(own, np.zeros((65, 33, 3), np.uint8), i)[0].map for i in range(2000)]
    for i in range(6):
        check_same([one[i] for one in own_maps], [one[i] for one in maps])


@pytest.mark.parametrize(
    ("step", "share"),
    [
        (T.RandomGrayscale(), 0.1),
        (T.RandomInvert(), 0.5),
        (T.RandomApply([T.RandomInvert(1)], 0.8), 0.8),
        (T.RandomChoice([T.RandomInvert(1), T.RandomPosterize(8, 0)], [3, 1]), 0.75),
        (T.RandomPerspective(p=0.3), 0.3),
    ],
)
def test_steps_come_as_often_as_they_should(step: Any, share: float):
    count = sum(bool(drawn(step, PICTURES[-4], sample)) for sample in range(4000))
    assert stats.binomtest(count, 4000, share).pvalue > CHANCE


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("augmented")
    random = np.random.default_rng(6)
    for i in range(40):
        small = Image.fromarray(random.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        (root / "c").mkdir(exist_ok=True)
        small.resize((48 + i, 60), Image.Resampling.BICUBIC).save(root / "c" / f"{i:02}.jpg")
    return root


RECIPE = [
    T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.TrivialAugmentWide(),
    T.RandomApply([T.GaussianBlur(5)], 0.5), T.RandomVerticalFlip(), T.Normalize(),
    T.RandomErasing(0.3),
]  # fmt: skip


def batches(path: Path, transform: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    options = {"shuffle": True, "seed": 9, "num_workers": 1, **options}
    loader = forebay.Loader(path, 10, transform=transform, **options)
    loaded = [(images.numpy(), labels.numpy()) for images, labels in loader]
    return np.concatenate([one[0] for one in loaded]), np.concatenate([one[1] for one in loaded])


def test_batches_are_the_same_on_any_number_of_threads(photos: Path):
    first, _ = batches(photos, RECIPE)
    for workers in (2, 3):
        np.testing.assert_array_equal(first, batches(photos, RECIPE, num_workers=workers)[0])


def test_steps_run_between_the_crop_and_normalize(photos: Path):
    plain = [T.RandomResizedCrop(32), T.RandomHorizontalFlip()]
    before, _ = batches(photos, plain)
    steps = [T.RandomInvert(1), T.RandomPosterize(4, 1), T.RandomVerticalFlip(1)]
    made, _ = batches(photos, [*plain, *steps])
    np.testing.assert_array_equal(made, ((255 - before) & 0xF0)[:, :, ::-1])


def test_a_loader_takes_torchvisions_reference_recipe(photos: Path):
    recipe = v2.Compose([
        v2.ToImage(), v2.RandomResizedCrop(32, antialias=True), v2.RandomHorizontalFlip(),
        v2.TrivialAugmentWide(), v2.ToDtype(torch.float32, scale=True),
        v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), v2.RandomErasing(0.1),
    ])  # fmt: skip
    own = [T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.TrivialAugmentWide(),
           T.Normalize(), T.RandomErasing(0.1)]  # fmt: skip
    np.testing.assert_array_equal(batches(photos, recipe)[0], batches(photos, own)[0])


@pytest.mark.parametrize(
    ("other", "own"),
    [
        (v1.ColorJitter(0.4, 0.3, hue=0.1), T.ColorJitter((0.6, 1.4), (0.7, 1.3), hue=(-0.1, 0.1))),
        (v2.RandomApply([v2.ColorJitter(0.5)], 0.8),
         T.RandomApply([T.ColorJitter((0.5, 1.5))], 0.8)),
        (v2.RandAugment(3, 7), T.RandAugment(3, 7, 31, v2.InterpolationMode.NEAREST)),
        (v2.AutoAugment(v2.AutoAugmentPolicy.SVHN), T.AutoAugment(v2.AutoAugmentPolicy.SVHN)),
        (v2.GaussianBlur(5, (0.1, 2)), T.GaussianBlur((5, 5), (0.1, 2))),
        (v2.RandomRotation(10, fill=3), T.RandomRotation((-10, 10), fill=3)),
        (v1.RandomRotation((3, 9), v1.InterpolationMode.BILINEAR, center=(1, 2), fill=[1, 2, 3]),
         T.RandomRotation((3, 9), "bilinear", center=(1, 2), fill=(1, 2, 3))),
        (v2.RandomAffine(5, (0.1, 0.2), (0.5, 2), 7, v2.InterpolationMode.BILINEAR, 9, (3, 4)),
         T.RandomAffine((-5, 5), (0.1, 0.2), (0.5, 2), (-7, 7), "bilinear", 9, (3, 4))),
        (v2.RandomAffine(0, shear=(1, 2, 3, 4)), T.RandomAffine((0, 0), shear=(1, 2, 3, 4))),
        (v2.RandomPerspective(0.3, 0.9, fill=None), T.RandomPerspective(0.3, 0.9, fill=None)),
        (v1.TrivialAugmentWide(11, fill=[7.0]), T.TrivialAugmentWide(11, fill=7)),
        (v2.AugMix(5, 2, 3, 0.5, all_ops=False), T.AugMix(5, 2, 3, 0.5, all_ops=False)),
        (v2.RandomChoice([v2.RandomInvert(1), v2.Grayscale(3)], [3, 1]),
         T.RandomChoice([T.RandomInvert(1), T.Grayscale()], [3, 1])),
        (v2.RandomOrder([v2.RandomInvert(), v2.RandomHorizontalFlip(0.2)]),
         T.RandomOrder([T.RandomInvert(), T.RandomHorizontalFlip(0.2)])),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_from_torchvision(other: Any, own: Any, photos: Path):
    (made,) = [
        one
        for one in T.from_torchvision([v2.Resize((9, 9)), other])
        if not isinstance(one, T.Resize)
    ]
    for sample in range(50):
        assert [repr_of(one) for one in drawn(made, PICTURES[-1], sample)] == [
            repr_of(one) for one in drawn(own, PICTURES[-1], sample)
        ]


def repr_of(action: Any) -> tuple[Any, ...]:
    """The kind of an action and all of its numbers."""
    if isinstance(action, (list, tuple)):
        return tuple(map(repr_of, action))
    if not type(action).__module__.startswith("forebay") or isinstance(action, enum.Enum):
        return (action,)
    fields = [name for name in dir(action) if not name.startswith("_")]
    return (type(action).__name__, *[repr_of(getattr(action, name)) for name in fields])


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (T.ColorJitter(brightness=-1), "brightness is -1, but must be at least 0"),
        (T.ColorJitter(contrast=(2, 1)), "contrast is from 2 to 1"),
        (T.ColorJitter(hue=0.6), "hue is from -0.6 to 0.6"),
        (T.ColorJitter(hue=(0.1, math.nan)), "hue is"),
        (T.RandomPosterize(9), "bits is 9, but must be from 0 to 8"),
        (T.RandomInvert(1.5), "p is 1.5"),
        (T.RandomAdjustSharpness(-0.1), "sharpness is -0.1"),
        (T.GaussianBlur(4), "kernel_size is 4 "),
        (T.GaussianBlur(65), "kernel_size is 65 for a side of 32 pixels"),
        (T.GaussianBlur(3, 0), "sigma is from 0 to 0"),
        (T.RandomRotation(10, expand=cast(Any, 1)), "expand is 1"),
        (T.RandomRotation(10, "bicubic"), "bicubic, but must be nearest or bilinear"),
        (T.RandomRotation(10, fill=256), "fill is 256"),
        (T.RandomRotation(-10), "degrees is -10, but must be at least 0"),
        (T.RandomRotation(10, center=(1e9, 0)), "center is 1000000000"),
        (T.RandomAffine(0, translate=(2, 0)), "translate is 2"),
        (T.RandomAffine(0, scale=(0, 1)), "scale is from 0 to 1"),
        (T.RandomAffine(0, shear=90), "shear is from -90 to 90"),
        (T.RandomPerspective(1.1), "distortion_scale is 1.1"),
        (T.AutoAugment("imagenette"), "policy is 'imagenette'"),
        (T.RandAugment(magnitude=31), "magnitude is 31, but must be from 0 to 30"),
        (T.TrivialAugmentWide(0), "num_magnitude_bins is 0"),
        (T.AugMix(severity=11), "severity is 11"),
        (T.AugMix(mixture_width=10**7), "mixture_width is 10000000"),
        (T.RandomChoice([]), "a choice of 0 steps"),
        (T.RandomChoice([T.RandomInvert()], [-1]), "weight of a choice is -1"),
        (T.AutoAugment(["imagenet"]), "policy is"),
        (T.AugMix(mixture_width=100, chain_depth=100), "chain_depth is 100"),
        (T.RandomSolarize(cast(Any, np.array(128))), "threshold is"),
        (T.RandomSolarize(10**400), "threshold is"),
        (T.RandomApply(cast(Any, (one for one in [T.RandomInvert()]))), "must be a list"),
        (T.RandomApply([T.Normalize()]), "is among its transforms"),
        (T.RandomApply(cast(Any, T.RandomInvert())), "must be a list"),
        (T.Grayscale(1), "num_output_channels is 1"),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_arguments_that_make_no_sense_are_named(step: Any, message: str, photos: Path):
    with pytest.raises(ValueError, match=message):
        forebay.Loader(photos, 8, transform=[T.RandomResizedCrop(32), step])
