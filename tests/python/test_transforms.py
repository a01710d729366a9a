"""Transforms match torchvision's: in pixels without randomness, otherwise in distributions."""

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats

import forebay
from forebay import transforms as T
from forebay.transforms import mixing
from forebay.transforms.core.transform import to_core
from peer_torchvision import v1, v2

SIZES = [(40, 50), (50, 40), (33, 97), (64, 64), (120, 31), (23, 24)]  # height, width
# A test fails when the chance that two distributions are equal is lower. The seeds are fixed.
CHANCE = 0.001


def save(pixels: np.ndarray, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, compress_level=1)


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packs images of all SIZES, made of blocks of 3 x 3 pixels in random colours."""
    root = tmp_path_factory.mktemp("noise")
    random = np.random.default_rng(1)
    for i, (height, width) in enumerate(SIZES):
        small = random.integers(0, 256, (height // 3 + 1, width // 3 + 1, 3), dtype=np.uint8)
        save(small.repeat(3, 0).repeat(3, 1)[:height, :width], root / f"c{i % 2}" / f"{i}.png")
    return root


@pytest.fixture(scope="module")
def ramps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packs an image 50 times: 240 x 200 pixels whose red is their column and green their row."""
    root = tmp_path_factory.mktemp("ramps")
    pixels = np.zeros((200, 240, 3), np.uint8)
    pixels[..., 0] = np.arange(240)
    pixels[..., 1] = np.arange(200)[:, None]
    pixels[..., 2] = 100
    for i in range(50):
        save(pixels, root / "c" / f"{i}.png")
    return root


def run(path: Path, transform: Sequence[Any], epochs: int = 1, **options: Any) -> np.ndarray:
    """Returns all samples of some epochs, in storage order: [samples, 3, height, width]."""
    options = {"transform": transform, "num_workers": 2, "seed": 7, **options}
    loader = forebay.Loader(path, 50, **options)
    return np.concatenate([images.numpy() for _ in range(epochs) for images, _ in loader])


def originals(path: Path) -> list[torch.Tensor]:
    """Returns a dataset's images, each [3, height, width], in storage order."""
    dataset = forebay.Dataset(path)
    return [torch.from_numpy(dataset[i][0].transpose(2, 0, 1).copy()) for i in range(len(dataset))]


def check_same(ours: Any, theirs: Any) -> None:
    for one, other in zip(np.transpose(ours), np.transpose(theirs), strict=True):
        result = stats.ks_2samp(one, other)
        assert result.pvalue > CHANCE, result


def check_share(count: int, total: int, share: float) -> None:
    assert stats.binomtest(int(count), total, share).pvalue > CHANCE


DETERMINISTIC: list[tuple[list[Any], list[Any]]] = [
    ([T.Resize(28), T.CenterCrop(24)], [v2.Resize(28), v2.CenterCrop(24)]),
    ([T.Resize([57]), T.CenterCrop([24])], [v2.Resize([57]), v2.CenterCrop([24])]),
    ([T.Resize(30), T.CenterCrop((17, 30))], [v2.Resize(30), v2.CenterCrop((17, 30))]),
    ([T.Resize(30), T.CenterCrop((41, 50))], [v2.Resize(30), v2.CenterCrop((41, 50))]),
    ([T.Resize((20, 70))], [v2.Resize((20, 70))]),
    ([T.Resize((21, 13)), T.CenterCrop((12, 20))], [v2.Resize((21, 13)), v2.CenterCrop((12, 20))]),
    ([T.CenterCrop(20)], [v2.CenterCrop(20)]),
    ([T.CenterCrop((41, 60))], [v2.CenterCrop((41, 60))]),
    ([T.CenterCrop((150, 1))], [v2.CenterCrop((150, 1))]),
    ([T.CenterCrop((5, 150))], [v2.CenterCrop((5, 150))]),
    (
        [T.Resize(26), T.CenterCrop(25), T.RandomHorizontalFlip(1), T.RandomVerticalFlip(0)],
        [v2.Resize(26), v2.CenterCrop(25), v2.RandomHorizontalFlip(1)],
    ),
    (
        [T.CenterCrop((20, 22)), T.RandomVerticalFlip(1), T.RandomHorizontalFlip(1)],
        [v2.CenterCrop((20, 22)), v2.RandomVerticalFlip(1), v2.RandomHorizontalFlip(1)],
    ),
    ([T.Resize((23, 24)), T.RandomCrop((23, 24))], [v2.Resize((23, 24)), v2.RandomCrop((23, 24))]),
]


@pytest.mark.parametrize(("ours", "theirs"), DETERMINISTIC)
def test_pixels_are_torchvisions(noise: Path, ours: list, theirs: list):
    expected = [v2.Compose(theirs)(image) for image in originals(noise)]
    got = run(noise, ours)
    for image, one in zip(got, expected, strict=True):
        np.testing.assert_array_equal(image, one.numpy())


@pytest.mark.parametrize("name", ["nearest", "bilinear", "bicubic"])
def test_interpolations_are_torchvisions(noise: Path, name: str):
    mode = v2.InterpolationMode(name)
    expected = [v2.Resize((29, 41), mode)(image).numpy() for image in originals(noise)]
    number = {"nearest": Image.Resampling.NEAREST, "bilinear": 2, "bicubic": 3}[name]
    for interpolation in (name, mode, number):
        got = run(noise, [T.Resize((29, 41), interpolation)])
        np.testing.assert_array_equal(got, np.stack(expected))
    # A random crop that takes the whole image gives the same pixels.
    whole = T.RandomResizedCrop((29, 41), (1, 1), (64 / 63, 64 / 63), mode)
    assert run(noise, [whole]).shape == (len(SIZES), 3, 29, 41)


@pytest.mark.parametrize("channels_last", [False, True])
def test_numbers_are_torchvisions(noise: Path, channels_last: bool):
    mean, std = (0.1, 0.5, 0.7), (0.3, 0.2, 1.5)
    steps = [v2.Resize((20, 30)), v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)]
    expected = torch.stack([v2.Compose(steps)(image) for image in originals(noise)]).numpy()
    got = run(noise, [T.Resize((20, 30)), T.Normalize(mean, std)], channels_last=channels_last)
    if channels_last:
        got = got.transpose(0, 3, 1, 2)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=3e-7)
    zero_to_one = run(noise, [T.Resize((20, 30)), T.Normalize((0, 0, 0), (1, 1, 1))])
    expected = torch.stack([v2.Compose(steps[:2])(image) for image in originals(noise)]).numpy()
    np.testing.assert_allclose(zero_to_one, expected, rtol=1e-7)


def boxes(batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns left, top, width and height of each crop of a ramp, and which ways it is mirrored."""
    height, width = batch.shape[2:]

    def fit(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        middle = slice(values.shape[1] // 8, -(values.shape[1] // 8))  # without the edges' effects
        places = np.arange(values.shape[1])[middle] + 0.5
        slope, start = np.polyfit(places, values[:, middle].T, 1)
        length = np.abs(slope) * values.shape[1]
        begin = np.where(slope > 0, start, start - length) + 0.5
        return begin, length, slope < 0

    left, across, mirrored = fit(batch[:, 0, height // 2, :].astype(float))
    top, down, turned = fit(batch[:, 1, :, width // 2].astype(float))
    return np.stack([left, top, across, down], 1), np.stack([mirrored, turned], 1)


@pytest.mark.parametrize(
    ("size", "options"),
    [
        (64, {}),
        ((40, 64), {"scale": (0.3, 0.5), "ratio": (0.5, 3.0)}),
        (48, {"scale": (0.9, 1.0), "ratio": (2.0, 2.5)}),  # mostly gives the largest crop that fits
    ],
)
def test_random_resized_crops_are_distributed_as_torchvisions(ramps: Path, size, options: dict):
    ours, _ = boxes(run(ramps, [T.RandomResizedCrop(size, **options)], epochs=40))
    torch.manual_seed(1)
    peer = v2.RandomResizedCrop(size, **options)
    image = torch.zeros(3, 200, 240, dtype=torch.uint8)
    made = [peer.make_params([image]) for _ in range(2000)]
    theirs = [[one[name] for name in ("left", "top", "width", "height")] for one in made]
    # The compared values are whole pixels. Random estimates would be 0.25 away from whole numbers.
    assert np.abs(ours - ours.round()).mean() < 0.15
    ours = ours.round()
    check_same(ours, theirs)
    expected = np.array(theirs, float)
    for values in (ours, expected):  # the bounds of the shapes
        values[:, 0] = values[:, 2] * values[:, 3]
        values[:, 1] = values[:, 2] / values[:, 3]
    check_same(ours[:, :2], expected[:, :2])


@pytest.mark.parametrize(("p", "vertical"), [(0.5, 0.5), (0.1, 0.8), (1, 0)])
def test_flips_come_as_often_as_they_should(ramps: Path, p: float, vertical: float):
    flips = [T.RandomHorizontalFlip(p), T.RandomVerticalFlip(vertical)]
    _, seen = boxes(run(ramps, [T.RandomResizedCrop(32), *flips], epochs=30))
    check_share(seen[:, 0].sum(), len(seen), p)
    check_share(seen[:, 1].sum(), len(seen), vertical)
    check_share((seen[:, 0] & seen[:, 1]).sum(), len(seen), p * vertical)


def windows(image: torch.Tensor, height: int, width: int) -> dict[bytes, tuple[int, int]]:
    """Returns the left and top of each part of this size by the part's bytes."""
    parts = image.numpy()
    found = {
        parts[:, top : top + height, left : left + width].tobytes(): (left, top)
        for top in range(parts.shape[1] - height + 1)
        for left in range(parts.shape[2] - width + 1)
    }
    assert len(found) == (parts.shape[1] - height + 1) * (parts.shape[2] - width + 1)
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"size": 20},
        {"size": (24, 30), "padding": 4},
        {"size": 24, "padding": 7, "fill": (200, 0, 31)},
        {"size": 24, "padding": [3], "fill": 9, "padding_mode": "edge"},
        {"size": (20, 33), "padding": (2, 9), "padding_mode": "reflect"},
        {"size": 22, "padding": (0, 5, 11, 2), "padding_mode": "symmetric"},
        {"size": (60, 27), "pad_if_needed": True},
        {"size": (26, 60), "padding": 1, "pad_if_needed": True, "padding_mode": "edge"},
        {"size": (31, 30), "pad_if_needed": True, "padding_mode": "reflect"},
    ],
)
def test_random_crops_are_torchvisions(tmp_path: Path, options: dict):
    random = np.random.default_rng(3)
    pixels = random.integers(0, 256, (25, 29, 3), dtype=np.uint8)
    for i in range(50):
        save(pixels, tmp_path / "c" / f"{i}.png")
    peer = v2.RandomCrop(**options)
    image = torch.from_numpy(pixels.transpose(2, 0, 1).copy())
    padding = peer.make_params([image])["padding"]
    padded = v2.functional.pad(image, padding, options.get("fill", 0), peer.padding_mode)
    place_of = windows(padded, *peer.size)
    crops = run(tmp_path, [T.RandomCrop(**options)], epochs=30)
    ours = [place_of[crop.tobytes()] for crop in crops]
    torch.manual_seed(2)
    made = [peer.make_params([image]) for _ in range(1500)]
    check_same(ours, [(one["left"], one["top"]) for one in made])


def test_images_too_small_for_a_crop_are_bad_samples(noise: Path):
    transform = [T.RandomCrop(32, padding=(0, 0, 2, 0))]
    with pytest.warns(UserWarning, match="24 x 23 pixels, 26 x 23 with the padding"):
        got = run(noise, transform)
    assert len(got) == len(SIZES) - 1
    assert len(run(noise, [T.RandomCrop(32, pad_if_needed=True)])) == len(SIZES)


def erased(batch: np.ndarray, value: Any) -> np.ndarray:
    """Returns x, y, width and height of the rectangle that has this value in each image."""
    out = []
    for one in batch:
        here = (one == np.array(value, one.dtype)[:, None, None]).all(0)
        if not here.any():
            continue
        rows, columns = np.flatnonzero(here.any(1)), np.flatnonzero(here.any(0))
        assert here.sum() == len(rows) * len(columns)
        assert len(rows) == rows[-1] - rows[0] + 1 and len(columns) == columns[-1] - columns[0] + 1
        out.append((columns[0], rows[0], len(columns), len(rows)))
    return np.array(out)


@pytest.mark.parametrize(
    ("value", "options"),
    [
        (0, {"p": 1}),
        ((0.25, -3.5, 7.0), {"p": 0.3, "scale": (0.1, 0.4), "ratio": (0.2, 1.0)}),
    ],
)
def test_erasing_is_torchvisions(ramps: Path, value, options: dict):
    crop = [T.RandomResizedCrop((40, 56)), T.Normalize((2, 2, 2), (1, 1, 1))]
    batch = run(ramps, [*crop, T.RandomErasing(value=value, **options)], epochs=20)
    triple = np.broadcast_to(value, 3)
    ours = erased(batch, triple)
    check_share(len(ours), len(batch), options["p"])
    torch.manual_seed(3)
    peer = v2.RandomErasing(value=value, **options)
    made = [peer.make_params([torch.zeros(3, 40, 56)]) for _ in range(2000)]
    theirs = [(one["j"], one["i"], one["w"], one["h"]) for one in made if one["v"] is not None]
    check_same(ours, theirs)


def test_erasing_bytes(ramps: Path):
    crop = T.RandomResizedCrop(32)
    batch = run(ramps, [crop, T.RandomErasing(1, value=(255, 0, 7))])
    assert len(erased(batch, (255, 0, 7))) == len(batch)
    for value, message in ((0.5, "0.5, but must be a whole number"), ("random", "noise needs")):
        with pytest.raises(ValueError, match=message):
            run(ramps, [crop, T.RandomErasing(1, value=value)])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_erasing_with_noise(ramps: Path, dtype: str):
    transform: list[T.Transform] = [
        T.RandomResizedCrop(32),
        T.Normalize((0, 0, 0), (1e9, 1e9, 1e9)),
    ]
    transform.append(T.RandomErasing(1, value="random"))
    loader = forebay.Loader(ramps, 50, transform=transform, seed=1, dtype=dtype)
    batch = next(iter(loader))[0].float().numpy()
    numbers = batch[np.abs(batch) > 1e-6]  # the rest are below 255 / 1e9
    assert stats.kstest(numbers, "norm").pvalue > CHANCE
    sizes = (np.abs(batch) > 1e-6).sum(axis=(2, 3))
    assert (sizes == sizes[:, :1]).all()  # the rectangle covers all channels
    channels = [one[0][np.abs(one[0]) > 1e-6][:10].tobytes() for one in batch]
    assert len(set(channels)) == len(channels)  # each sample has its own noise


def make_batch(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    images = torch.randn(7, 3, 20, 33, generator=generator)
    if dtype == torch.uint8:
        images = images.mul(50).add(128).clamp(0, 255)
    return images.to(dtype), torch.tensor([0, 3, 3, 1, 4, 4, 2])


NAMES: dict[str, Any] = {"seed": 5, "epoch": 2}


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.uint8])
@pytest.mark.parametrize("name", ["MixUp", "CutMix"])
def test_mixing_is_torchvisions(name: str, dtype: torch.dtype, channels_last: bool):
    if name == "MixUp" and dtype == torch.uint8:
        with pytest.raises(ValueError, match="MixUp needs floating-point"):
            mixing.mix(T.MixUp(num_classes=5), *make_batch(dtype), **NAMES, step=0)
        return
    ours = getattr(T, name)(num_classes=5)
    peer = getattr(v2, name)(num_classes=5)
    for step in range(20):
        images, labels = make_batch(dtype)
        drawn = mixing.draw(ours, 20, 33, **NAMES, step=step)
        params = {"labels": labels, "batch_size": 7, "lam": drawn.own, "lam_adjusted": drawn.own}
        x, y, width, height = drawn.box or (0, 0, 0, 0)
        params["box"] = (x, y, x + width, y + height)
        expected, soft = peer.transform(images, params), peer.transform(labels, params)
        if channels_last:
            images = images.permute(0, 2, 3, 1).contiguous()
            expected = expected.permute(0, 2, 3, 1)
        got = mixing.mix(ours, images, labels, **NAMES, step=step, channels_last=channels_last)
        assert got[0] is images
        assert got[1].dtype == torch.float32
        torch.testing.assert_close(images, expected, rtol=0, atol=0)
        torch.testing.assert_close(got[1], soft, rtol=0, atol=0)


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.8, 1.0, 3.0, 50.0])
def test_mix_up_draws_a_beta_distribution(alpha: float):
    own = [
        mixing.draw(T.MixUp(alpha=alpha, num_classes=2), 8, 8, seed=1, epoch=0, step=step).own
        for step in range(4000)
    ]
    check_same([[one] for one in own], np.random.default_rng(2).beta(alpha, alpha, (4000, 1)))


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_cut_mix_draws_torchvisions_boxes(alpha: float):
    ours = []
    for step in range(3000):
        drawn = mixing.draw(T.CutMix(alpha=alpha), 50, 80, seed=1, epoch=0, step=step)
        x, y, width, height = drawn.box or (0, 0, 0, 0)
        ours.append((x * (width > 0), y * (width > 0), width, height, drawn.own))
    torch.manual_seed(5)
    peer = v2.CutMix(alpha=alpha, num_classes=2)
    theirs = []
    for _ in range(3000):
        made = peer.make_params([torch.zeros(2, 3, 50, 80)])
        x1, y1, x2, y2 = made["box"]
        width, height = x2 - x1, y2 - y1
        some = width * height > 0
        theirs.append((x1 * some, y1 * some, width * some, height * some, made["lam_adjusted"]))
    check_same(ours, theirs)


def test_a_choice_takes_each_as_often_as_its_weight():
    choice = T.RandomChoice([T.CutMix(num_classes=5), T.MixUp(num_classes=5)], p=[3, 1])
    drawn = [mixing.draw(choice, 32, 32, seed=1, epoch=1, step=step).kind for step in range(2000)]
    check_share(sum(kind.name == "CUT_MIX" for kind in drawn), 2000, 0.75)
    images, labels = make_batch()
    mixed, soft = mixing.mix(choice, images.numpy(), labels.numpy(), **NAMES, step=1)
    assert isinstance(soft, np.ndarray) and mixed is not None
    np.testing.assert_allclose(soft.sum(1), 1, rtol=1e-6)


def test_soft_labels_are_mixed_as_they_are():
    images, labels = make_batch()
    soft = torch.nn.functional.one_hot(labels, 5).float() * 0.9 + 0.02
    before = soft.clone()
    own = mixing.draw(T.MixUp(), 20, 33, **NAMES, step=3).own
    _, mixed = mixing.mix(T.MixUp(), images, soft, **NAMES, step=3)
    torch.testing.assert_close(mixed, before * own + before.roll(1, 0) * (1 - own))
    assert soft.equal(before)  # the caller's labels stay as they were
    empty, none = mixing.mix(T.MixUp(num_classes=3), images[:0], labels[:0], **NAMES, step=3)
    assert len(empty) == 0 and none.shape == (0, 3)


@pytest.mark.parametrize(
    ("mix", "change", "message"),
    [
        (T.MixUp(alpha=0, num_classes=5), {}, "alpha is 0"),
        (T.MixUp(alpha="x", num_classes=5), {}, "alpha is 'x', but must be a number above 0"),  # type: ignore[arg-type]
        (T.MixUp(num_classes=3.0), {}, "num_classes is 3.0, but must be a whole number"),  # type: ignore[arg-type]
        (T.RandomChoice(T.MixUp()), {}, "must be a list"),  # type: ignore[arg-type]
        (T.RandomChoice([T.MixUp()], p=["a"]), {}, r"p is \['a'\]"),  # type: ignore[list-item]
        (T.MixUp(), {}, "num_classes is needed"),
        (T.MixUp(num_classes=4), {}, "label of sample 4 is 4, but must be from 0 to 3"),
        (T.MixUp(num_classes=5), {"labels": torch.full((7,), -1)}, "sample 0 is -1"),
        (T.MixUp(num_classes=5), {"labels": torch.zeros(7)}, "labels are float32"),
        (T.MixUp(num_classes=5), {"labels": torch.zeros(6, dtype=torch.int64)}, "of 6 samples"),
        (T.MixUp(num_classes=5), {"labels": torch.zeros(7, 4)}, "labels have 4 classes"),
        (T.MixUp(num_classes=5), {"images": torch.zeros(7, 4, 8, 8)}, r"\[7, 4, 8, 8\]"),
        (T.MixUp(num_classes=5), {"images": torch.zeros(7, 3, 8, 16)[..., ::2]}, "contiguous"),
        (
            T.MixUp(num_classes=5),
            {"images": torch.zeros(7, 3, 8, 8, dtype=torch.float64)},
            "float64",
        ),
        (T.MixUp(num_classes=5), {"epoch": -1}, "epoch is -1"),
        (T.RandomChoice([]), {}, "one or more"),
        (T.RandomChoice([T.MixUp()], p=[0]), {}, "not all 0"),
        (T.RandomChoice([T.MixUp(num_classes=5), T.CutMix()]), {}, "must be the same"),
        (None, {}, "must be a MixUp"),
    ],
)
def test_mixing_that_makes_no_sense_is_named(mix: Any, change: dict, message: str):
    images, labels = make_batch()
    arguments = {"images": images, "labels": labels, "step": 0, **NAMES, **change}
    with pytest.raises(ValueError, match=message):
        mixing.mix(mix, **arguments)


TO_FLOAT = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PLAIN = T.Normalize((0, 0, 0), (1, 1, 1))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (
            v2.Compose(
                [v2.RandomResizedCrop(64), v2.RandomHorizontalFlip(), *TO_FLOAT]
                + [v2.Normalize(MEAN, STD), v2.RandomErasing(0.2, value="random")]
            ),
            [*T.train(64), T.RandomErasing(0.2, value="random")],
        ),
        (
            v1.Compose([v1.Resize(72), v1.CenterCrop(64), v1.ToTensor(), v1.Normalize(MEAN, STD)]),
            T.evaluate(64, 72),
        ),
        (
            v1.Compose(
                [v1.RandomHorizontalFlip(), v1.RandomCrop(32, padding=(4, 2)), v1.ToTensor()]
                + [v1.RandomErasing(value=(1, 2, 3))]
            ),
            [
                T.RandomCrop(32, padding=(4, 2)),
                T.RandomHorizontalFlip(),
                PLAIN,
                T.RandomErasing(value=(1, 2, 3)),
            ],
        ),
        (v2.Compose([v2.Compose([v2.PILToTensor()]), v2.Resize((20, 30))]), [T.Resize((20, 30))]),
        (torch.nn.Sequential(v2.CenterCrop((20, 30))), [T.CenterCrop((20, 30))]),
        (
            [v2.RandomCrop(32, (1, 2, 3, 4), True, (5, 6, 7), "edge"), v2.RandomVerticalFlip(0.1)],
            [T.RandomCrop(32, (1, 2, 3, 4), True, (5, 6, 7), "edge"), T.RandomVerticalFlip(0.1)],
        ),
        (
            [v2.ToImage(), v2.ToDtype(torch.uint8, scale=True), *TO_FLOAT[1:]]
            + [v2.Resize((20, 30), v2.InterpolationMode.BICUBIC), v2.ToPureTensor()],
            [T.Resize((20, 30), "bicubic"), PLAIN],
        ),
    ],
)
def test_from_torchvision(theirs: Any, ours: list):
    made = T.from_torchvision(theirs)
    assert [type(one) for one in made] == [type(one) for one in ours]
    described = [describe(to_core(some)) for some in (made, ours)]
    assert described[0] == described[1]


def describe(value: Any) -> Any:
    """Returns what an object of the core holds, for comparing."""
    if type(value).__module__.startswith("forebay") and not isinstance(value, Enum):
        names = [name for name in dir(value) if not name.startswith("_")]
        names = [name for name in names if not callable(getattr(value, name))]
        assert names
        return {name: describe(getattr(value, name)) for name in names}
    if isinstance(value, (tuple, list)):
        return [describe(one) for one in value]
    return value


@pytest.mark.parametrize(
    "theirs",
    [
        v2.Compose([v2.Resize(40), v2.CenterCrop(32), *TO_FLOAT, v2.Normalize(MEAN, STD)]),
        v2.Compose([v2.ToImage(), v2.Resize((20, 30)), v2.RandomVerticalFlip(1)]),
        v2.Compose([*TO_FLOAT, v2.CenterCrop((60, 20))]),
    ],
)
def test_what_comes_from_torchvision_does_the_same(noise: Path, theirs: Any):
    expected = [theirs(image).numpy() for image in originals(noise)]
    got = run(noise, T.from_torchvision(theirs))
    np.testing.assert_allclose(got, np.stack(expected), rtol=1e-6, atol=3e-7)


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        ([v2.CenterCrop(8), v2.ElasticTransform()], "ElasticTransform has no counterpart"),
        ([v2.ToImage(), v2.Resize(40, antialias=False), v2.CenterCrop(8)], "antialias is False"),
        ([v2.Resize(40, "lanczos"), v2.CenterCrop(8)], "interpolation is 'lanczos'"),
        ([v2.CenterCrop(8), v2.Normalize(MEAN, STD)], "Normalize needs numbers from 0 to 1"),
        ([v2.CenterCrop(8), v2.ToDtype(torch.float32)], "without scale=True"),
        ([v2.CenterCrop(8), v2.ToDtype(torch.float16, scale=True)], "to torch.float16"),
        ([*TO_FLOAT, v2.RandomCrop(8, 1, fill=1)], "fill is on the scale"),
        ([*TO_FLOAT, v2.Normalize(MEAN, STD), v2.CenterCrop(8)], "in this order"),
        ([v2.RandomErasing(), v2.RandomCrop(8)], "in this order"),
        (
            [v2.CenterCrop(8), v2.RandomErasing(value=255), v2.ToDtype(torch.float32, scale=True)],
            "RandomErasing's value",
        ),
        ([*TO_FLOAT, v2.CenterCrop(8), v2.RandomInvert()], "RandomInvert gets numbers from 0 to 1"),
        ([v2.CenterCrop(8), lambda image: image], "<lambda> is a function"),
        ([v2.RandomApply([v2.CenterCrop(8)])], "CenterCrop within RandomApply has no counterpart"),
    ],
)
def test_from_torchvision_names_what_has_no_counterpart(theirs: list, message: str):
    with pytest.raises(ValueError, match=message):
        T.from_torchvision(theirs)


# W has no static types, since some calls below have wrong types on purpose.
W: Any = T


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ([W.CenterCrop(0)], "CenterCrop: size is 0"),
        ([W.CenterCrop((1, 2, 3))], "must be a whole number or 2 whole numbers"),
        ([W.CenterCrop(1.5)], "size is 1.5"),
        ([W.CenterCrop(True)], "size is True"),
        ([W.CenterCrop(20000)], "size is 20000 x 20000"),
        ([W.Resize(20000), W.CenterCrop(8)], "resize is 20000"),
        ([W.Resize((8, 20000))], "size is 20000 x 8"),
        ([W.RandomCrop(8, padding=(1, 2, 3))], "padding is"),
        ([W.RandomCrop(8, padding=-1)], "padding is -1"),
        ([W.RandomCrop(8, padding=20000)], "crop padding is 20000"),
        ([W.RandomCrop(8, fill=256)], "fill is 256"),
        ([W.RandomCrop(8, fill=0.5)], "fill is 0.5"),
        ([W.RandomCrop(8, padding_mode="wrap")], "padding_mode is 'wrap'"),
        ([W.CenterCrop(8), W.RandomVerticalFlip(-0.1)], "RandomVerticalFlip: p is -0.1"),
        ([W.CenterCrop(8), W.RandomHorizontalFlip(float("nan"))], "p is nan"),
        ([W.CenterCrop(8), W.Normalize((0, 0), (1, 1, 1))], "Normalize: mean is"),
        ([W.CenterCrop(8), W.Normalize(std=(1, 1, 0))], "std is 0"),
        ([W.CenterCrop(8), W.Normalize(), W.RandomErasing(2)], "RandomErasing: p is 2"),
        ([W.CenterCrop(8), W.Normalize(), W.RandomErasing(value="noise")], "value is 'noise'"),
        ([W.CenterCrop(8), W.Normalize(), W.RandomErasing(value=(1, 2))], "value is"),
        ([W.CenterCrop(8), W.Normalize(), W.RandomErasing(value=float("inf"))], "value is inf"),
        ([W.RandomResizedCrop(8, antialias=None)], "antialias is None"),
        ([W.RandomResizedCrop(8, scale=(0.1,))], "scale is"),
    ],
)
def test_arguments_that_make_no_sense_are_named(noise: Path, transform: list, message: str):
    with pytest.raises(ValueError, match=message):
        run(noise, transform)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_are_finite(number: float):
    for wrong in (
        T.Normalize(mean=(number, 0, 0)),
        T.Normalize(std=(1, number, 1)),
        T.RandomHorizontalFlip(number),
        T.RandomErasing(value=number),
        T.RandomErasing(scale=(0.1, number)),
    ):
        with pytest.raises(ValueError, match=type(wrong).__name__):
            to_core([T.RandomResizedCrop(8), wrong])
