"""Compares a Loader whose transform is torchvision's own objects with torchvision run by hand."""

import functools
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import forebay
from conftest import pack
from forebay import transforms as T
from peer_torchvision import v1, v2

MEAN, STD = (0.49, 0.48, 0.44), (0.25, 0.24, 0.26)
V1_NUMBERS = [v1.ToTensor(), v1.Normalize(MEAN, STD)]
V2_NUMBERS = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]


def make_folder(root: Path, sizes: list[tuple[int, int]]) -> Path:
    """Writes noise in PNG files of two classes, with these widths and heights."""
    random = np.random.default_rng(5)
    for i, (width, height) in enumerate(sizes):
        path = root / f"c{i % 2}" / f"{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path, compress_level=1)
    return root


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a folder of 12 images of 32 x 32 pixels."""
    return make_folder(tmp_path_factory.mktemp("small"), [(32, 32)] * 12)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a folder of images of many sizes."""
    sizes = [(40 + 3 * i, 60 - 2 * i) for i in range(12)]
    return make_folder(tmp_path_factory.mktemp("mixed"), sizes)


def pillow_images(path: Path) -> list[Image.Image]:
    """Returns a dataset's images in storage order."""
    return [Image.fromarray(pixels) for pixels, _ in forebay.Dataset(path)]


def load(path: Any, transform: Any, epochs: int = 1, **options: Any) -> Any:
    """Returns all images of some epochs, in storage order, as one tensor."""
    loader = forebay.Loader(path, 5, transform=transform, seed=3, **options)
    return torch.cat([images for _ in range(epochs) for images, _ in loader])


@pytest.fixture(autouse=True)
def _no_warnings() -> Any:
    """Makes each warning an error, unless a test expects it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (
            v1.Compose([v1.RandomResizedCrop(32), v1.RandomHorizontalFlip(), *V1_NUMBERS]),
            [T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.Normalize(MEAN, STD)],
        ),
        (
            v2.Compose([v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), *V2_NUMBERS]),
            [T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.Normalize(MEAN, STD)],
        ),
        (v2.RandomResizedCrop(24), [T.RandomResizedCrop(24)]),
        (v1.CenterCrop(24), [T.CenterCrop(24)]),
        ([v1.Resize(30), T.CenterCrop(24), v1.ToTensor()], [T.Resize(30), *T.evaluate(24)[1:]]),
        (
            [v1.Compose([v1.Resize(30), v1.CenterCrop(24)]), T.Normalize(MEAN, STD)],
            [T.Resize(30), T.CenterCrop(24), T.Normalize(MEAN, STD)],
        ),
        (
            v1.Compose([v1.CenterCrop(24), v1.ToTensor(), v1.Normalize((0.5,), (0.2,))]),
            [T.CenterCrop(24), T.Normalize((0.5,) * 3, (0.2,) * 3)],
        ),
        # Pillow's resizing is always antialiased.
        (v1.Compose([v1.Resize((20, 30), antialias=False)]), [T.Resize((20, 30))]),
    ],
)
def test_torchvisions_objects_are_the_cores_transforms(mixed: Path, theirs: Any, ours: list):
    if isinstance(theirs, list) and isinstance(theirs[-1], v1.ToTensor):
        ours = [*ours[:-1], T.Normalize((0, 0, 0), (1, 1, 1))]
    assert torch.equal(load(mixed, theirs), load(mixed, ours))
    decoded = forebay.BatchDecoder(theirs, seed=3)([forebay.Dataset(mixed).read(0)])
    assert torch.equal(decoded.images[0], load(mixed, ours)[0])


def test_a_models_preset_is_its_transform(mixed: Path):
    from torchvision.models import ResNet18_Weights, Swin_T_Weights

    bicubic = [T.Resize(232, "bicubic"), T.CenterCrop(224), T.Normalize()]
    for weights, ours in (
        (ResNet18_Weights.IMAGENET1K_V1, T.evaluate(224, 256)),
        (Swin_T_Weights.IMAGENET1K_V1, bicubic),
    ):
        preset = weights.transforms()
        expected = torch.stack([preset(image) for image in pillow_images(mixed)])
        got = load(mixed, preset)
        assert torch.equal(got, load(mixed, ours))
        # Pillow's resizing may differ by one of 255 levels, and for noise by two.
        levels = (got - expected).abs() * 255 * 0.224
        assert bool(levels.max() < 2.05) and bool(levels.mean() < 0.2)
        decoder = forebay.BatchDecoder(preset)
        files = [forebay.Dataset(mixed).read(i) for i in range(len(expected))]
        assert torch.equal(decoder(files).images, got)
        with pytest.raises(ValueError, match=r"write weights.transforms\(\)"):
            forebay.Loader(mixed, transform=weights.transforms)


@pytest.mark.parametrize("packed_too", [False, True])
@pytest.mark.parametrize("numbers", [V1_NUMBERS, V2_NUMBERS])
def test_images_of_one_size_need_no_crop(small: Path, tmp_path: Path, numbers: list, packed_too):
    path = small
    if packed_too:
        files = {f"{p.parent.name}/{p.name}": p.read_bytes() for p in small.glob("*/*.png")}
        path = pack(files, tmp_path)
    compose = (v2 if numbers is V2_NUMBERS else v1).Compose(numbers)
    expected = torch.stack([compose(image) for image in pillow_images(path)])
    torch.testing.assert_close(load(path, compose), expected, rtol=1e-6, atol=3e-7)
    ours = load(path, [T.Normalize(MEAN, STD)])
    assert torch.equal(load(path, compose), ours)
    as_bytes = torch.stack([v1.PILToTensor()(image) for image in pillow_images(path)])
    for plain in (v2.ToImage(), v1.Compose([v1.PILToTensor()])):
        assert torch.equal(load(path, plain), as_bytes)
    flipped = load(path, v1.Compose([v1.RandomHorizontalFlip(), v1.PILToTensor()]), epochs=20)
    kinds: Counter[bool] = Counter()
    for got, one in zip(flipped, as_bytes.repeat(20, 1, 1, 1), strict=True):
        is_flipped = torch.equal(got, one.flip(2))
        assert is_flipped or torch.equal(got, one)
        kinds[is_flipped] += 1
    assert 70 < kinds[True] < 170  # of 240
    # Images of one size may also get a Resize of the short side.
    resized = [v1.PILToTensor()(v1.Resize(40)(image)) for image in pillow_images(path)]
    got = load(path, v1.Compose([v1.Resize(40), v1.PILToTensor()]))
    assert (got.int() - torch.stack(resized).int()).abs().max() <= 1


def test_an_image_of_another_size_is_no_silent_crop(tmp_path: Path):
    sizes = [(32, 32)] * 5 + [(33, 32)] + [(64, 64)] + [(32, 32)] * 3
    path = make_folder(tmp_path, sizes)
    compose = v1.Compose([v1.ToTensor(), v1.Normalize(MEAN, STD)])
    for shuffle in (False, True):
        loader = forebay.Loader(path, 4, shuffle, transform=compose)
        with pytest.warns(UserWarning, match="cannot be used"):
            images = torch.cat([images for images, _ in loader])
        assert images.shape == ((10 if shuffle else 8), 3, 32, 32)
        reasons = sorted(bad["reason"] for bad in loader.bad_samples)
        assert "33 x 32 pixels are not the 32 x 32 of all samples" in reasons[0]
        assert "64 x 64 pixels are not the 32 x 32" in reasons[1]
        assert "must crop them or resize both of their sides" in reasons[0]
    # Images of different sizes but one shape become one size.
    same = forebay.Dataset(path).filter(np.array(sizes)[[0, 2, 4, 6, 8, 1, 3, 5, 7, 9], 0] != 33)
    assert len(load(same, v1.Resize(16))) == 9
    # A damaged first image does not tell the size.
    (path / "c0" / "00.png").write_bytes(b"no image")
    with pytest.warns(UserWarning, match="cannot be used"):
        assert load(path, v2.ToImage(), on_bad="skip").shape[1:] == (3, 32, 32)
    (labels,) = next(iter(forebay.Loader(path, 10, transform=compose, fields=["label"])))
    assert len(labels) == 10
    empty = forebay.Loader(forebay.Dataset(path).subset([]), transform=compose)
    assert list(empty) == []


# The core has no such transform. This one moves nothing, whatever it draws.
ELASTIC = v1.ElasticTransform(0.0)


@pytest.mark.parametrize("channels_last", [False, True])
def test_what_the_core_has_not_runs_as_torchvision_runs_it(mixed: Path, channels_last: bool):
    crop = [v1.RandomResizedCrop(32), v1.RandomHorizontalFlip()]
    torch.manual_seed(0)
    rest = [ELASTIC, v1.GaussianBlur(3, (1, 1)), *V1_NUMBERS]
    cut = load(mixed, v1.Compose(crop))
    expected = torch.stack(
        [v1.Compose(rest)(Image.fromarray(one.permute(1, 2, 0).numpy())) for one in cut]
    )
    if channels_last:
        expected = expected.permute(0, 2, 3, 1)
    ours = [T.RandomResizedCrop(32), T.RandomHorizontalFlip()]
    for transform in (v1.Compose([*crop, *rest]), [v1.Compose(crop), *rest], [*ours, *rest]):
        with pytest.warns(
            UserWarning,
            match="ElasticTransform has no counterpart in Forebay's core; ElasticTransform, "
            "GaussianBlur, ToTensor and Normalize run in Python$",
        ):
            got = load(mixed, transform, channels_last=channels_last)
        assert type(got) is torch.Tensor and torch.equal(got, expected)


def test_v2_on_tensors(mixed: Path):
    crop = v2.RandomResizedCrop(32)
    elastic = v2.ElasticTransform(0.0)
    from torchvision import tv_tensors

    to_float = v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True)
    cut = load(mixed, crop)
    rest = v2.Compose([elastic, to_float, v2.Normalize(MEAN, STD)])
    expected = torch.stack([rest(tv_tensors.Image(one)) for one in cut])
    for order in ([v2.ToImage(), crop], [crop, v2.ToImage()]):
        with pytest.warns(UserWarning, match="ElasticTransform has no counterpart"):
            got = load(mixed, v2.Compose([*order, *rest.transforms]))
        assert torch.equal(got, expected)
    # After Forebay's own transforms the functions get tensors.
    plain = v2.Compose([elastic, v2.ToDtype(torch.float32, scale=True)])
    with pytest.warns(UserWarning, match="ElasticTransform has no counterpart"):
        got = load(mixed, [T.RandomResizedCrop(32), plain])
    assert torch.equal(got, torch.stack([plain(one) for one in cut]))


@pytest.mark.parametrize("make", ["v1", "v2"])
def test_torchvisions_random_numbers_are_the_samples_own(mixed: Path, make: str):
    v = {"v1": v1, "v2": v2}[make]
    transform = v.Compose(
        [v.RandomResizedCrop(32), v.RandomApply([v.ElasticTransform(30.0)], 0.8)]
        + [v.RandAugment(), v.PILToTensor()]
    )
    before = torch.get_rng_state()
    made = []
    for threads, ahead in ((1, 1), (3, 4), (2, 2)):
        with pytest.warns(UserWarning, match="ElasticTransform within RandomApply"):
            made.append(load(mixed, transform, 2, num_workers=threads, prefetch_factor=ahead))
    assert torch.equal(made[0], made[1]) and torch.equal(made[0], made[2])
    first, second = made[0].split(len(made[0]) // 2)
    assert not torch.equal(first, second)
    assert torch.equal(before, torch.get_rng_state())


def test_noise_is_the_samples_own(mixed: Path):
    noise = [v2.RandomResizedCrop(16), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    made = []
    for threads in (1, 3):
        with pytest.warns(UserWarning, match="GaussianNoise has no counterpart"):
            transform = v2.Compose([*noise, v2.GaussianNoise()])
            made.append(load(mixed, transform, num_workers=threads, prefetch_factor=threads))
    assert torch.equal(*made) and not torch.equal(made[0], load(mixed, v2.Compose(noise)))


def test_functions_get_what_they_get_in_torchvision(mixed: Path):
    seen: Counter[Any] = Counter()

    def note(name: str, image: Any) -> Any:
        seen[name, type(image).__name__, str(getattr(image, "dtype", "")), image.size == ()] += 1
        return image

    def noting(name: str) -> Any:
        return functools.partial(note, name)

    crop = [v1.CenterCrop(24), noting("pillow")]
    transform = [
        v1.Compose([*crop, v1.Lambda(noting("lambda")), v1.ToTensor(), noting("tensor")]),
        noting("ours"),
    ]
    with pytest.warns(UserWarning, match="nothing after partial, which is a function; Lambda and"):
        got = load(mixed, transform)
    expected = load(mixed, v1.Compose([v1.CenterCrop(24), v1.ToTensor()]))
    assert torch.equal(got, expected)
    assert {key[:3] for key in seen} == {
        ("pillow", "Image", ""),
        ("lambda", "Image", ""),
        ("tensor", "Tensor", "torch.float32"),
        ("ours", "Tensor", "torch.float32"),
    }
    # Functions alone give no warning, wherever they stand.
    seen.clear()
    load(mixed, v1.Compose([v1.CenterCrop(24), v1.ToTensor(), noting("tensor")]))
    load(mixed, [v1.CenterCrop(24), noting("bytes")])
    assert {key[:3] for key in seen} == {
        ("tensor", "Tensor", "torch.float32"),
        ("bytes", "Tensor", "torch.uint8"),
    }


def test_what_comes_before_any_crop_gets_whole_images(mixed: Path):
    for first in (ELASTIC, v1.Resize(50, v1.InterpolationMode.LANCZOS)):
        with pytest.warns(UserWarning, match="run in Python, on whole images"):
            got = load(mixed, v1.Compose([first, v1.CenterCrop(24), v1.ToTensor()]))
        expected = [v1.Compose([first, v1.CenterCrop(24), v1.ToTensor()])(i) for i in
                    pillow_images(mixed)]  # fmt: skip
        assert torch.equal(got, torch.stack(expected))
    # The sizes do not matter, since later transforms may make them one.
    later = v1.Compose([v1.RandomHorizontalFlip(1), ELASTIC, v1.CenterCrop(24), v1.PILToTensor()])
    names = "RandomHorizontalFlip, ElasticTransform, CenterCrop and PILToTensor"
    with pytest.warns(UserWarning, match=names):
        got = load(mixed, later)
    assert torch.equal(got, torch.stack([later(image) for image in pillow_images(mixed)]))


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (v1.Compose([v1.CenterCrop(8), v1.Normalize(MEAN, STD)]), "torchvision's Normalize needs"),
        ([v1.CenterCrop(8), ELASTIC, T.Normalize()], "Normalize of forebay.transforms"),
        ([T.CenterCrop(8), v1.ToTensor(), v2.MixUp(num_classes=3)], "as batch_transform"),
        ([v1.ToTensor], "ToTensor is a class; call it to make a transform"),
        ([v1.CenterCrop(8), 3], "a member is 3, but must be a function"),
    ],
)
def test_what_makes_no_sense_is_named_as_it_was_written(mixed: Path, transform: Any, message: str):
    with pytest.raises(ValueError, match=message):
        forebay.Loader(mixed, transform=transform)


class Preset:
    """Like the presets of torchvision's scripts for training."""

    def __init__(self) -> None:
        self.transforms = v1.Compose([v1.CenterCrop(8), v1.ToTensor()])

    def __call__(self, image: Any) -> Any:
        return self.transforms(image)


def test_warnings_say_what_helps(mixed: Path):
    for transform, message in (
        (
            [v1.ToTensor(), lambda image: image[:, :8, :8]],
            "<lambda> is a function, which runs in Python, and nothing before it brings images to ",
        ),
        ([v1.Resize(40), ELASTIC], "ElasticTransform has no counterpart in Forebay's "),
        (Preset(), "Preset is a function, which runs in Python and gets tensors; give its `transf"),
        ([v1.Resize(40), Preset()], "Preset is a function, which runs in Python and gets tensors"),
    ):
        with pytest.warns(UserWarning, match=f"forebay.Loader: transform: {message}") as told:
            forebay.Loader(mixed, transform=transform)
        assert [one.filename for one in told] == [__file__]


def test_a_decoder_names_what_it_cannot_run():
    with pytest.raises(ValueError, match="ElasticTransform has no counterpart"):
        forebay.BatchDecoder(v1.Compose([v1.CenterCrop(8), ELASTIC, v1.ToTensor()]))


def test_dtype_goes_with_totensor(small: Path):
    got = load(small, v1.ToTensor(), dtype="bfloat16")
    assert got.dtype == torch.bfloat16
    with pytest.raises(ValueError, match="Normalize .or torchvision's ToTensor"):
        load(small, v1.CenterCrop(8), dtype="bfloat16")


def test_target_transform_is_applied_to_each_label(small: Path):
    dataset = forebay.Dataset(small)

    def batches(target: Any, **options: Any) -> list[Any]:
        options = {"transform": v1.ToTensor(), "target_transform": target, **options}
        return [labels for _, labels in forebay.Loader(dataset, 5, **options)]

    labels = torch.from_numpy(dataset.targets.copy()).split(5)
    for given, expected in (
        (lambda label: 10 - label, [10 - one for one in labels]),
        (lambda label: label / 2, [one.double() / 2 for one in labels]),
        (lambda label: label == 1, [one == 1 for one in labels]),
        (lambda label: np.float32(label), [one.float() for one in labels]),
        (lambda label: torch.eye(2)[label], [torch.eye(2)[one] for one in labels]),
        (lambda label: np.full(3, label), [one[:, None].repeat(1, 3) for one in labels]),
    ):
        got = batches(given)
        assert [one.dtype for one in got] == [one.dtype for one in expected]
        assert all(torch.equal(one, other) for one, other in zip(got, expected, strict=True))
    names = batches(dataset.classes.__getitem__)
    assert names == [[dataset.classes[i] for i in one] for one in labels]
    ragged = batches(lambda label: torch.zeros(label + 1))
    assert any(isinstance(one, list) for one in ragged)

    def collate(samples: list[Any]) -> tuple[int, list[Any]]:
        return len(samples), [label for _, label in samples]

    assert batches(str, collate_fn=collate)[0] == [str(int(i)) for i in labels[0]]
    mixed = batches(lambda label: 1 - label, batch_transform=T.MixUp(num_classes=2))
    assert mixed[0].shape == (5, 2)
    soft = batches(lambda label: torch.eye(2)[label], batch_transform=T.MixUp(num_classes=2))
    assert mixed[0].shape == soft[0].shape
    with pytest.raises(ValueError, match="target_transform gives str"):
        batches(str, batch_transform=T.MixUp(num_classes=2))
    with pytest.raises(ValueError, match="target_transform: 'label' is not among the fields"):
        batches(str, fields=["image"])
    with pytest.raises(ValueError, match="target_transform is 3, but must be a function"):
        batches(3)
