"""Batches in page-locked memory and on a GPU hold the same numbers as batches in host memory."""

import pickle
from collections import OrderedDict, UserDict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import forebay
from forebay import transforms as T
from forebay.loading.mover import Normalizing, _map, _tensors
from forebay.transforms.mixing import MixUp

on_a_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(),
    reason="needs a GPU that PyTorch can use: copies to it, decodes and computes there",
)
MEAN, STD = (0.1, 0.45, 0.9), (0.3, 0.01, 2.5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("channels_last", [False, True])
def test_what_is_left_to_a_device_gives_the_cores_numbers(
    packed: Path, dtype: str, channels_last: bool
):
    crop = [T.RandomResizedCrop(40), T.RandomHorizontalFlip()]
    options: dict[str, Any] = {"shuffle": True, "channels_last": channels_last}
    pixels = forebay.Loader(packed, 16, transform=crop, **options)
    normalize = T.Normalize(MEAN, STD)
    expected = forebay.Loader(packed, 16, transform=[*crop, normalize], dtype=dtype, **options)
    normalizing = Normalizing(MEAN, STD, dtype, channels_last, [0])
    for batch, (images, labels) in zip(pixels, expected, strict=True):
        made, own_labels = normalizing(batch)
        assert made.dtype == images.dtype and made.shape == images.shape
        assert torch.equal(made, images) and torch.equal(own_labels, labels)


def test_every_byte_becomes_the_cores_number(tmp_path: Path):
    from PIL import Image

    image = Image.new("RGB", (256, 1))
    image.putdata([(i, 255 - i, i) for i in range(256)])
    (tmp_path / "a").mkdir()
    image.save(tmp_path / "a/all.png")
    size = (1, 256)
    pixels = forebay.Loader(tmp_path, transform=[T.CenterCrop(size)])
    expected = forebay.Loader(tmp_path, transform=[T.CenterCrop(size), T.Normalize(MEAN, STD)])
    normalizing = Normalizing(MEAN, STD, "float32", False, ["image"])
    ((bytes_, _),), ((numbers, _),) = pixels, expected
    assert torch.equal(bytes_[0, 0, 0], torch.arange(256).to(torch.uint8))
    assert torch.equal(normalizing({"image": bytes_})["image"], numbers)


@pytest.mark.skipif(
    torch.cuda.is_available(), reason="there is a GPU: tests the error where there is none"
)
def test_without_a_gpu_it_is_said(packed: Path):
    with pytest.raises(ValueError, match=r"device is 'cuda', but PyTorch .* (CUDA|GPU)"):
        forebay.Loader(packed, device="cuda")
    with pytest.warns(UserWarning, match="pin_memory is set, but PyTorch sees no GPU"):
        loader = forebay.Loader(packed, 8, pin_memory=True, transform=T.evaluate(24))
    assert not loader.pin_memory
    assert sum(len(labels) for _, labels in loader) == len(loader.dataset)


@pytest.mark.parametrize("device", ["gpu", "meta", "cuda:x", 1.5])
def test_devices_that_are_none(packed: Path, device: Any):
    with pytest.raises(ValueError, match="device is .*, but must be 'cuda', 'cuda:0' … or 'cpu'"):
        forebay.Loader(packed, device=device)


def test_where_to_decode_that_is_nowhere(packed: Path):
    with pytest.raises(ValueError, match="decode is 'tpu', but must be 'auto', 'cpu' or 'gpu'"):
        forebay.Loader(packed, decode="tpu")
    with pytest.raises(ValueError, match="decode is 'gpu', which needs device='cuda'"):
        forebay.Loader(packed, decode="gpu", transform=T.evaluate(24))
    loader = forebay.Loader(packed, 8, decode="auto", transform=T.evaluate(24))
    assert sum(len(labels) for _, labels in loader) == len(loader.dataset)
    assert loader.stats()["made_on_gpu"] == 0


def test_the_cpu_is_a_device(packed: Path):
    loader = forebay.Loader(packed, 8, device="cpu", transform=T.evaluate(24))
    images, _ = next(iter(loader))
    assert images.device.type == "cpu" and images.dtype == torch.float32


def test_batches_keep_their_kinds():
    class Encoding(UserDict[str, Any]):
        pass

    class Pair(NamedTuple):
        a: Any
        b: Any

    one = torch.ones(2)
    encoding = Encoding(pixels=one, names=["x"])
    moved = _map([Pair(one, {"k": (one, 3)}), OrderedDict(z=one), encoding], lambda t: t + 1)
    pair, ordered, other = moved
    assert isinstance(pair, Pair) and pair.a.tolist() == [2, 2] and pair.b["k"][1] == 3
    assert type(ordered) is OrderedDict and ordered["z"].tolist() == [2, 2]
    assert (
        type(other) is Encoding and other["pixels"].tolist() == [2, 2] and other["names"] == ["x"]
    )
    assert encoding["pixels"] is one
    assert len(list(_tensors(moved))) == 4


def _darker(image: Any) -> Any:
    return image * 0.5


def _doubled(batch: Any) -> Any:
    images, labels = batch
    return {"images": images, "both": [labels, labels]}


_CASES: dict[str, dict[str, Any]] = {
    "float32": {"transform": T.train(48)},
    "bfloat16": {"transform": T.train(48), "dtype": "bfloat16"},
    "float16": {"transform": T.train(48), "dtype": "float16"},
    "channels last": {"transform": T.train(48), "channels_last": True},
    "bytes": {"transform": [T.RandomResizedCrop(48)]},
    "erased": {"transform": [*T.train(48), T.RandomErasing(p=1.0, value=0.25)]},
    "a function of images": {"transform": [*T.train(48), _darker]},
    "a function of batches": {"transform": T.train(48), "batch_transform": _doubled},
    "mixed": {"transform": T.train(48), "batch_transform": MixUp(num_classes=3)},
    "fields": {"transform": T.train(48), "fields": {"x": "image", "key": "key", "i": "index"}},
    "own sizes": {"fields": ("image", "file")},
    "weights": {"transform": T.train(48), "samples_per_epoch": 100},
}


# In these cases the core does not copy the batches to the GPU itself.
_BY_THE_CPU = {"a function of images", "a function of batches", "mixed", "own sizes"}
_WHERE: dict[str, dict[str, Any]] = {
    "pinned": {"pin_memory": True},
    "copied": {"device": "cuda"},
    "decoded by both": {"device": "cuda", "decode": "auto"},
    "decoded there": {"device": "cuda", "decode": "gpu"},
}


def _flat(batch: Any) -> list[Any]:
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, tuple | list):
        return [one for member in batch for one in _flat(member)]
    return [batch]


@on_a_gpu
@pytest.mark.parametrize("case", _CASES)
@pytest.mark.parametrize("where", _WHERE)
def test_the_same_batches_as_on_the_cpu(packed: Path, case: str, where: str):
    dataset = forebay.Dataset(packed)
    if case == "weights":
        dataset = dataset.weighted([1.0 + i % 3 for i in range(len(dataset))])
    options = {"batch_size": 16, "shuffle": True, **_CASES[case]}
    if where == "decoded there" and case in _BY_THE_CPU:
        with pytest.raises(ValueError, match="decode is 'gpu', which needs"):
            forebay.Loader(dataset, **options, **_WHERE[where])
        return
    there = forebay.Loader(dataset, **options, **_WHERE[where])
    here = forebay.Loader(dataset, **options)
    for _ in range(2):
        for ours, expected in zip(there, here, strict=True):
            for one, other in zip(_flat(ours), _flat(expected), strict=True):
                if not isinstance(other, torch.Tensor):
                    assert one == other
                    continue
                assert one.is_pinned() if where == "pinned" else one.device.type == "cuda"
                assert one.dtype == other.dtype and torch.equal(one.cpu(), other)
    if where == "decoded there":
        assert there.stats()["made_on_gpu"] >= 0.9 * len(dataset)


@on_a_gpu
@pytest.mark.parametrize("decode", ["cpu", "auto", "gpu"])
def test_a_busy_device_sees_whole_batches(packed: Path, decode: str):
    """The loop's stream lags far behind, and batches are freed before the stream has used them."""
    options: dict[str, Any] = {"batch_size": 8, "shuffle": True, "transform": T.train(64)}
    sums = []
    for _ in range(3):
        loader = forebay.Loader(packed, **options, device="cuda", decode=decode)
        for images, _ in loader:
            torch.cuda._sleep(20_000_000)
            sums.append(images.double().sum())
    torch.cuda.synchronize()
    expected = [images.double().sum() for images, _ in forebay.Loader(packed, **options)]
    for i, total in enumerate(sums):
        assert abs(total.item() - expected[i % len(expected)].item()) < 1e-6


@on_a_gpu
def test_a_stream_of_the_users_own(packed: Path):
    options: dict[str, Any] = {"batch_size": 8, "transform": T.evaluate(64)}
    expected = [images for images, _ in forebay.Loader(packed, **options)]
    with torch.cuda.stream(torch.cuda.Stream()):
        made = [images.clone() for images, _ in forebay.Loader(packed, **options, device="cuda")]
    torch.cuda.synchronize()
    assert all(torch.equal(one.cpu(), other) for one, other in zip(made, expected, strict=True))


@on_a_gpu
def test_goes_on_in_the_middle_and_in_another_process(packed: Path):
    loader = forebay.Loader(packed, 8, True, transform=T.train(32), device="cuda")
    batches = iter(loader)
    next(batches)
    copy = pickle.loads(pickle.dumps(loader))
    again = forebay.Loader(packed, 8, True, transform=T.train(32), device="cuda")
    for one in (copy, again):
        one.load_state_dict(loader.state_dict())
    for one, other, third in zip(batches, copy, again, strict=True):
        assert torch.equal(one[0], other[0]) and torch.equal(one[0], third[0])


@on_a_gpu
def test_gives_the_devices_memory_back(packed: Path):
    loader = forebay.Loader(packed, 8, True, transform=T.train(32), device="cuda")
    for _ in loader:
        break
    before = torch.cuda.memory_allocated()
    for _ in range(4):
        for _ in loader:
            pass
        loader.close()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() <= before + 8 * 3 * 32 * 32 * 4 * 4


@on_a_gpu
def test_a_device_that_is_not_there(packed: Path):
    with pytest.raises(ValueError, match=r"device is 'cuda:64', but PyTorch sees \d+ GPU"):
        forebay.Loader(packed, device="cuda:64")
