"""Samples of several images: what is drawn for a sample is the same for all of them."""

import contextlib
import io
import json
import pickle
import shutil
import tarfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors

import forebay
from conftest import make_jpeg, run_forebay
from forebay import _core
from forebay import transforms as T
from forebay.transforms.core.transform import to_core
from forebay.transforms.mixing import CutMix, MixUp
from peer_torchvision import v2
from test_devices import on_a_gpu
from torchvision_again import again

SEED = 11
IMAGES = 24
FIELDS = ["image", "right", "index"]
# A step that changes nothing, so that all crops after it are drawn as steps.
NOTHING = T.RandomInvert(0)
# These move pixels and leave the right image what it is here, the negative of the left one.
MOVING = [T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.RandomVerticalFlip()]


def save(pixels: np.ndarray, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of images by class: `left`; `right`, which are their negatives; `noise`; masks."""
    root = tmp_path_factory.mktemp("several")
    random = np.random.default_rng(3)
    for i in range(IMAGES):
        height, width = (int(side) for side in random.integers(20, 90, 2))
        small = Image.fromarray(random.integers(0, 256, (5, 7, 3), dtype=np.uint8))
        pixels = np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))
        name = f"class{i % 3}/{i:02}.png"
        save(pixels, root / "left" / name)
        save(255 - pixels, root / "right" / name)
        save(random.integers(0, 256, (height, width, 3), dtype=np.uint8), root / "noise" / name)
        save(random.integers(0, 9, (height, width), dtype=np.uint8), root / "masks" / name)
    return root


def pairs(place: Path, **more: Any) -> forebay.Dataset:
    return forebay.Dataset(place / "left", images={"right": place / "right"}, **more)


def load(dataset: forebay.Dataset, batch: int | None = 5, **options: Any) -> forebay.Loader:
    given = {"transform": MOVING, "fields": FIELDS, "seed": SEED, **options}
    return forebay.Loader(dataset, 1 if batch is None else batch, **given)


def are_negatives(images: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether each pixel of the one is 255 minus that of the other.

    It may be two levels beside it, because both passes of resizing round. Crops of these images
    that are a pixel apart differ by 16 levels and more somewhere.
    """
    return bool(((images.int() + right.int() - 255).abs() <= 2).all())


def expect_pairs(loader: forebay.Loader) -> list[int]:
    """Expects the right images to be negatives in all batches, and returns the samples' numbers."""
    numbers: list[int] = []
    for images, right, index in loader:
        assert len(images) == len(right) == len(index) > 0
        assert are_negatives(images, right)
        numbers += index.tolist()
    return numbers


@pytest.mark.parametrize(
    "transform",
    [
        [T.RandomResizedCrop(32), T.RandomHorizontalFlip()],
        [T.Resize((30, 50), "bicubic"), T.RandomCrop(26, padding=3), T.RandomVerticalFlip()],
        [T.ColorJitter(0.4, 0.4, 0.4, 0.2), T.RandomResizedCrop(20)],
        [T.RandomPhotometricDistort(), T.RandomAutocontrast(), T.Resize((24, 24))],
        [T.RandomZoomOut(p=1), T.RandomShortestSize([20, 31]), T.RandomEqualize()],
        [T.RandomRotation(30), T.RandomAffine(20, (0.2, 0.1), (0.7, 1.3), 10, "bilinear")],
        [T.RandAugment(), T.RandomResizedCrop(24)],
        [T.TrivialAugmentWide(), T.GaussianBlur(5), T.RandomGrayscale(0.4)],
    ],
    ids=lambda value: str(value)[:60],
)
def test_draws_are_the_same_and_pixels_torchvisions(transform: list[Any], place: Path):
    dataset = forebay.Dataset(
        place / "left", images={"right": place / "right", "noise": place / "noise"}
    )
    steps = [NOTHING, *transform]
    if not any(isinstance(one, T.RandomShortestSize) for one in transform):
        steps.append(T.Resize((28, 28)))
    core = to_core(steps).transform
    inexact = {"RandomRotation", "RandomAffine", "RandAugment", "TrivialAugmentWide"}
    off = 1 if any(type(one).__name__ in inexact for one in transform) else 0
    fields = ["image", "right", "noise", "index"]
    random_states = set()
    count = 0
    for images, right, noise, index in load(dataset, fields=fields, transform=steps):
        for i, number in enumerate(index.tolist()):
            name = f"{dataset.key(number)}.png"
            made = {"left": images[i], "right": right[i], "noise": noise[i]}
            for folder, own in made.items():
                pixels = torch.from_numpy(np.array(Image.open(place / folder / name)))
                image = tv_tensors.Image(pixels.permute(2, 0, 1))
                size = _core.Size(image.shape[2], image.shape[1])
                actions = _core.draw_actions(core.steps, size, SEED, 0, number)
                assert (own.int() - again(actions, image).int()).abs().max() <= off, actions
            random_states.add(str(actions))
            count += 1
    assert count == IMAGES and len(random_states) > 1


@pytest.mark.parametrize("layout", [{}, {"channels_last": True, "dtype": "bfloat16"}])
def test_each_is_what_a_loader_of_its_own_gives(layout: dict[str, Any], place: Path):
    transform = [
        T.RandomResizedCrop(24), T.AugMix(), T.Normalize(), T.RandomErasing(0.7, value="random"),
    ]  # fmt: skip
    one = load(pairs(place), transform=transform, fields={"b": "right", "a": "image"}, **layout)
    alone = [
        load(forebay.Dataset(place / name), transform=transform, fields=["image"], **layout)
        for name in ("left", "right")
    ]
    for batch, (left,), (right,) in zip(one, *alone, strict=True):
        assert list(batch) == ["b", "a"]
        assert torch.equal(batch["a"], left) and torch.equal(batch["b"], right)
        assert batch["b"].is_contiguous() and batch["b"].dtype == left.dtype


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": True},
        {"shuffle": True, "drop_last": True, "num_workers": 3},
        {"sampler": [3, 3, 9, 0, 23, 3, 7]},
        {"batch_sampler": [[1, 2, 3], [3, 3, 3, 20]], "batch": None},
        {"shuffle": True, "repeats": 3},
        {"shuffle": True, "world_size": 2, "rank": 1},
    ],
    ids=str,
)
def test_pairs_stay_pairs_in_any_order(options: dict[str, Any], place: Path):
    """The samples and their own images are those of a loader without further images."""
    left = forebay.Dataset(place / "left")
    both, alone = load(pairs(place), **options), load(left, **options, fields=["image", "index"])
    for _ in range(2):
        for (images, right, index), (own, numbers) in zip(both, alone, strict=True):
            assert torch.equal(index, numbers) and torch.equal(images, own)
            assert are_negatives(images, right)


def test_weights_and_views(place: Path):
    dataset = pairs(place)
    weighted = dataset.weighted(np.arange(IMAGES))
    assert 0 not in expect_pairs(load(weighted, shuffle=True, samples_per_epoch=100))
    few = dataset.subset([7, 2, 7])
    both = forebay.concat([few, dataset.filter(dataset.targets == 1)])
    assert len(expect_pairs(load(both))) == len(both) == 3 + IMAGES // 3
    assert len(expect_pairs(load(pickle.loads(pickle.dumps(both))))) == len(both)
    with_others = forebay.concat([few, forebay.Dataset(place / "left")])
    with pytest.raises(ValueError, match="there is no 'right'"):
        load(with_others)


def test_goes_on_within_an_epoch(place: Path):
    options: dict[str, Any] = {"shuffle": True, "batch": 4}
    whole = list(load(pairs(place), **options))
    first = load(pairs(place), **options)
    batches = iter(first)
    next(batches), next(batches)
    later = load(pairs(place), **options)
    later.load_state_dict(first.state_dict())
    for (_, right, index), (_, expected, numbers) in zip(later, whole[2:], strict=True):
        assert torch.equal(index, numbers) and torch.equal(right, expected)
    later.set_epoch(0)
    assert torch.equal(next(iter(later))[1], whole[0][1])


def test_an_early_end_and_threads(place: Path):
    with load(pairs(place), shuffle=True, num_workers=1) as one:
        for _ in range(3):
            images, right, _ = next(iter(one))
        assert are_negatives(images, right)  # memory of its own
    several = load(pairs(place), shuffle=True, num_workers=4)
    several.set_epoch(2)
    assert torch.equal(next(iter(several))[1], right)


@contextlib.contextmanager
def told() -> Iterator[list[str]]:
    """The texts of the warnings inside the `with`."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    texts += [str(one.message) for one in caught]


@pytest.mark.parametrize("transform", [MOVING, [T.RandomShortestSize([20, 30])], None])
def test_bad_images_take_the_sample_with_them(transform: Any, place: Path, tmp_path: Path):
    shutil.copytree(place / "right", tmp_path / "right")
    damaged = tmp_path / "right/class1/04.png"
    damaged.write_bytes(damaged.read_bytes()[:100])
    other = Image.open(place / "right/class2/08.png")
    other.resize((other.width, other.height - 1)).save(tmp_path / "right/class2/08.png")
    dataset = forebay.Dataset(place / "left", images={"right": tmp_path / "right"})
    bad = {"class1/04", "class2/08"}
    numbers = {dataset.find(key) for key in bad}
    for shuffle in (False, True):
        one = load(dataset, transform=transform, shuffle=shuffle)
        with told() as texts:
            seen = []
            for images, right, index in one:
                seen += index.tolist()
                for image, own in zip(images, right, strict=True):
                    assert image.shape == own.shape and are_negatives(image, own)
        assert len(seen) == (IMAGES if shuffle else IMAGES - 2) and not numbers & set(seen)
        assert {one["key"] for one in one.bad_samples} == bad
        texts = [text for text in texts if "cannot be used" in text]
        assert len(texts) == 2 and all("right: " in text for text in texts)
        sizes = f"right: {other.width} x {other.height - 1} pixels, but the sample's own image has"
        assert any(f"class2/08 cannot be used: {sizes}" in text for text in texts)
    strict = load(dataset, transform=transform, bad_samples_max=0)
    with pytest.raises(forebay.DataError, match=r"class1/04.*right: "):
        list(strict)


def test_images_of_their_own_sizes(place: Path):
    for transform in (None, [T.RandomShortestSize([20, 31, 40]), T.RandomHorizontalFlip()]):
        count = 0
        for images, right, _ in load(pairs(place), transform=transform):
            assert isinstance(images, list) and isinstance(right, list)
            for image, own in zip(images, right, strict=True):
                assert image.shape == own.shape and are_negatives(image, own)
                count += 1
        assert count == IMAGES


def test_memory_and_reads_are_counted(place: Path):
    sizes = {}
    for name, fields in {"both": FIELDS, "alone": ["image", "index"]}.items():
        for transform in (MOVING, [T.RandomShortestSize([20, 31])]):
            # Nothing is read for another epoch where a sampler chooses.
            given: dict[str, Any] = {"transform": transform, "sampler": range(IMAGES)}
            with load(pairs(place), fields=fields, prefetch_factor=1, **given) as one:
                held = max(
                    sum(image.nbytes for field in batch[: len(fields) - 1] for image in field)
                    for batch in one
                )
                stats = one.stats()
                assert stats["batch_bytes_peak"] >= held
                sizes[name, len(transform)] = held, stats["bytes_read"]
    files = [(place / "right").rglob("*.png"), (place / "left").rglob("*.png")]
    right, left = (sum(file.stat().st_size for file in some) for some in files)
    for steps in (3, 1):
        assert sizes["both", steps][1] >= left + right > sizes["alone", steps][1] >= left
        assert sizes["both", steps][0] == 2 * sizes["alone", steps][0]
    small = load(pairs(place), transform=None, memory_bytes_max=100_000)
    with pytest.raises(MemoryError, match="memory_bytes_max"):
        list(small)


@pytest.mark.parametrize("mixing", [MixUp(num_classes=3), CutMix(num_classes=3)], ids=repr)
def test_mixing_is_the_same(mixing: Any, place: Path):
    fields = ["right", "image", "label"]
    transform = [*MOVING, T.Normalize((0.5,) * 3, (0.5,) * 3)]  # a negative is -1 times the other
    options: dict[str, Any] = {"fields": fields, "transform": transform}
    mixed = load(pairs(place), batch_transform=mixing, **options)
    alone = load(
        forebay.Dataset(place / "left"),
        batch_transform=mixing, fields=fields[1:], transform=transform,
    )  # fmt: skip
    for (right, images, labels), (own, own_labels) in zip(mixed, alone, strict=True):
        assert torch.equal(images, own) and torch.equal(labels, own_labels)
        assert (images + right).abs().max() < 0.02


def test_functions_get_each_image_and_the_samples_generator(place: Path):
    def shift(image: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        return image.roll(int(rng.integers(1, 20)), 2)

    plain = list(load(pairs(place)))
    for batch, before in zip(load(pairs(place), transform=[*MOVING, shift]), plain, strict=True):
        assert are_negatives(batch[0], batch[1]) and torch.equal(batch[2], before[2])
        assert not torch.equal(batch[1], before[1])
    elastic = v2.Compose([v2.Resize((24, 24)), v2.ElasticTransform(40.0)])
    with told():
        images, right, _ = next(iter(load(pairs(place), transform=elastic)))
    inside = np.s_[6:-6]
    for image, own in zip(images, right, strict=True):
        left, other = (np.asarray(one)[inside, inside].astype(int) for one in (image, own))
        assert (abs(left + other - 255) <= 2).all()
    collated = load(pairs(place), collate_fn=lambda samples: samples)
    for image, own, _ in next(iter(collated)):
        assert are_negatives(image, own)


def test_boxes_and_masks_stay_those_of_the_samples_own(place: Path):
    alone = forebay.Dataset(place / "left", masks=place / "masks")
    both = pairs(place, masks=place / "masks")
    fields = ["image", "mask"]
    for (images, mask, right), (own, own_mask) in zip(
        load(both, fields=[*fields, "right"]), load(alone, fields=fields), strict=True
    ):
        assert torch.equal(images, own) and torch.equal(mask, own_mask)
        assert are_negatives(images, right)
    types = load(both, fields=[*fields, "right"], tv_tensors=True)
    _, mask, right = next(iter(types))
    assert type(mask) is tv_tensors.Mask and type(right) is tv_tensors.Image


def test_crops_by_boxes_are_those_of_the_samples_own(place: Path, tmp_path: Path):
    names = sorted(path.name for path in (place / "left").rglob("*.png"))
    images = [{"id": i, "file_name": name} for i, name in enumerate(names)]
    boxes = [
        {"id": i, "image_id": i, "category_id": 1, "bbox": [3, 3, 9, 12], "area": 1, "iscrowd": 0}
        for i in range(len(names))
    ]
    (tmp_path / "all.json").write_text(json.dumps({"images": images, "annotations": boxes}))
    dataset = pairs(place, annotations=tmp_path / "all.json")
    shapes = set()
    for batch in load(dataset, transform=[T.RandomIoUCrop()], fields=["image", "right", "boxes"]):
        for image, right, box in zip(*batch, strict=True):
            assert image.shape == right.shape and are_negatives(image, right) and len(box) == 1
            shapes.add(tuple(image.shape))
    assert len(shapes) > IMAGES // 2


def test_packed_and_in_another_order(place: Path, tmp_path: Path):
    for name in ("left", "right"):
        run_forebay("pack", place / name, tmp_path / name, "--chunk-bytes", "65536")
    left = forebay.Dataset(tmp_path / "left")
    shuffled = forebay.Dataset(tmp_path / "right").subset(np.arange(IMAGES)[::-1])
    assert left.keys() != shuffled.keys() and len(left.keys()) == IMAGES
    for right in (tmp_path / "right", place / "right", shuffled):
        dataset = forebay.Dataset(tmp_path / "left", images={"right": right})
        assert len(set(expect_pairs(load(dataset, shuffle=True)))) == IMAGES


def test_shards_with_several_images_a_sample(tmp_path: Path):
    random = np.random.default_rng(1)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for i in range(9):
            pixels = random.integers(0, 256, (20 + i, 31, 3), dtype=np.uint8)
            for suffix, own in (("png", pixels), ("right.png", 255 - pixels)):
                file = io.BytesIO()
                Image.fromarray(own).save(file, "PNG")
                member = tarfile.TarInfo(f"{i}.{suffix}")
                member.size = len(file.getvalue())
                if (i, suffix) != (8, "right.png"):
                    tar.addfile(member, io.BytesIO(file.getvalue()))
    run_forebay("pack", tmp_path / "a.tar", tmp_path / "set", "--chunk-bytes", "65536")
    dataset = forebay.Dataset(tmp_path / "set")
    last = dataset.find("8")
    options: dict[str, Any] = {"fields": ["image", "right.png", "index"], "on_bad": "skip"}
    with told() as texts:
        numbers = expect_pairs(load(dataset, shuffle=True, **options))
    assert sorted(numbers) == sorted(set(range(9)) - {last})
    assert "8 cannot be used: right.png: it is missing or empty" in texts[-1]
    with told():
        assert len(expect_pairs(load(pickle.loads(pickle.dumps(dataset)), **options))) == 8
    with pytest.raises(ValueError, match=r"there is no 'left'; there are .*'right.png'"):
        load(dataset, fields=["image", "left"])


def test_orientation_is_that_of_each_file(tmp_path: Path):
    file = Image.open(io.BytesIO(make_jpeg(5)))
    for name, turned in (("left", False), ("right", True)):
        (tmp_path / name).mkdir()
        image = file.transpose(Image.Transpose.ROTATE_90) if turned else file
        exif = Image.Exif()
        exif[0x0112] = 6 if turned else 1  # shown a quarter turn clockwise
        image.save(tmp_path / name / "a.png", exif=exif)
    dataset = forebay.Dataset(tmp_path / "left", images={"right": tmp_path / "right"})
    ((images, right, _),) = load(dataset, orientation="apply")
    assert torch.equal(images, right)


def test_what_makes_no_sense_is_named(place: Path, tmp_path: Path):
    left, right = place / "left", place / "right"
    shutil.copytree(right, tmp_path / "right")
    for name in ("class0/00", "class0/03", "class0/06", "class2/05"):
        (tmp_path / f"right/{name}.png").unlink()
    missing = (
        r"has no 'right' for 4 of 24 images, such as class0/00, class0/03, class0/06; each must"
    )
    with pytest.raises(ValueError, match=missing):
        forebay.Dataset(left, images={"right": tmp_path / "right"})
    wrongs: list[tuple[Any, str]] = [
        ({"label": right}, "'label' is the name of another field"),
        ({"boxes": right}, "'boxes' is the name of another field"),
        ({3: right}, "images: 3 is not a name"),
        ([right], "must be a mapping of names"),
    ]
    for wrong, message in wrongs:
        with pytest.raises(ValueError, match=message):
            forebay.Dataset(left, images=wrong)
    with pytest.raises(FileNotFoundError):
        forebay.Dataset(left, images={"right": tmp_path / "none"})
    dataset = pairs(place)
    with pytest.raises(ValueError, match="'right' needs 'image'"):
        load(dataset, fields=["right", "label"], transform=None)
    with pytest.raises(ValueError, match="prep: prep servers cannot yet prepare further images"):
        load(dataset, prep="http://127.0.0.1:1")
    with pytest.raises(ValueError, match="there is no 'depth'; there are .*'right'"):
        load(dataset, fields=["image", "depth"])
    different = load(
        dataset, 1, batch_transform=MixUp(num_classes=3), fields=["image", "right", "label"],
        transform=[T.CenterCrop(20), T.Normalize((0.5,) * 3, (0.5,) * 3), uneven],
    )  # fmt: skip
    with pytest.raises(ValueError, match="it mixes all images of a sample alike"):
        next(iter(different))


def uneven(image: torch.Tensor) -> torch.Tensor:
    """Makes one image of a pair of negatives smaller."""
    return image if image.mean() > 0 else image[:, :10]


@on_a_gpu
@pytest.mark.parametrize("decode", ["cpu", "auto", "gpu"])
def test_the_same_on_a_gpu(decode: str, tmp_path: Path):
    for i in range(20):
        image = Image.open(io.BytesIO(make_jpeg(i)))
        for name, quality in (("left", 90), ("right", 60)):
            (tmp_path / name).mkdir(exist_ok=True)
            image.save(tmp_path / name / f"{i:02}.jpg", quality=quality, restart_marker_rows=1)
    dataset = forebay.Dataset(tmp_path / "left", images={"right": tmp_path / "right"})
    transform = [*MOVING, T.Normalize()]
    there = load(dataset, transform=transform, device="cuda", decode=decode)
    for batch, expected in zip(there, load(dataset, transform=transform), strict=True):
        for own, one in zip(batch, expected, strict=True):
            assert own.is_cuda and torch.equal(own.cpu(), one)
    assert decode != "gpu" or there.stats()["made_on_gpu"] == 40
