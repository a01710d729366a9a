"""Functions in `transform` that give more than an image, collated like DataLoader does it."""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate

import forebay
from forebay import transforms as T
from forebay.loading.assembler import collate


class Pair(NamedTuple):
    """Two views."""

    one: torch.Tensor
    two: torch.Tensor


def flipped(image: torch.Tensor) -> torch.Tensor:
    return image.flip(2)


KINDS: dict[str, Callable[[torch.Tensor], Any]] = {
    "list": lambda image: [image, flipped(image), image[:, :4, :4]],
    "tuple": lambda image: (image, flipped(image)),
    "named": lambda image: Pair(image, flipped(image)),
    "dict": lambda image: {"global": image, "local": [image[:, :4], image[:, :4]]},
    "ordered": lambda image: OrderedDict(one=image, mean=image.float().mean().item()),
    "whole": lambda image: int(image[0, 0, 0]),
    "number": lambda image: image.float().mean().item(),
    "text": lambda image: str(image.shape),
    "arrays": lambda image: [image.numpy(), np.float32(image[0, 0, 0])],
}


def same(one: Any, two: Any) -> bool:
    """Whether two batches are of the same kinds, types and values."""
    if type(one) is not type(two):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == two.dtype and torch.equal(one, two)
    if isinstance(one, dict):
        return list(one) == list(two) and all(same(one[name], two[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return bool(one == two)


@pytest.mark.parametrize("kind", KINDS)
def test_views_are_what_dataloader_makes_of_them(packed: Path, kind: str):
    images, _ = next(iter(forebay.Loader(packed, 8, transform=[T.Resize((16, 16))])))
    expected = default_collate([KINDS[kind](image) for image in images])
    views, labels = next(
        iter(forebay.Loader(packed, 8, transform=[T.Resize((16, 16)), KINDS[kind]]))
    )
    assert same(views, expected)
    assert labels.shape == (8,)


def test_two_views_train_like_simclrs(packed: Path):
    def two_crops(image: torch.Tensor, generator: torch.Generator) -> list[torch.Tensor]:
        tops = torch.randint(0, 8, (2,), generator=generator).tolist()
        return [image[:, top : top + 24, top : top + 24] for top in tops]

    loader = forebay.Loader(packed, 8, True, transform=[T.Resize((32, 32)), two_crops])
    for (one, two), labels in loader:
        assert one.shape == two.shape == (len(labels), 3, 24, 24)


@pytest.mark.parametrize("where", ["whole", "inside"])
def test_none_is_dataloaders_error(packed: Path, where: str):
    own = (lambda image: None) if where == "whole" else (lambda image: [image, None])
    with pytest.raises(TypeError):
        default_collate([own(torch.zeros(3, 2, 2))] * 2)
    with pytest.raises(TypeError, match="default_collate"):
        next(iter(forebay.Loader(packed, 4, transform=[T.CenterCrop(8), own])))


def test_unequal_numbers_of_views_are_dataloaders_error(packed: Path):
    counts = iter(range(1, 100))

    def some(image: torch.Tensor) -> list[torch.Tensor]:
        return [image] * next(counts)

    with pytest.raises(RuntimeError, match="equal size"):
        next(iter(forebay.Loader(packed, 4, transform=[T.CenterCrop(8), some], num_workers=1)))


def test_other_objects_stay_a_list(packed: Path):
    class Mine:
        """An object that DataLoader does not know."""

    made, _ = next(iter(forebay.Loader(packed, 4, transform=[T.CenterCrop(8), lambda _: Mine()])))
    assert len(made) == 4 and all(isinstance(one, Mine) for one in made)


def test_views_cannot_be_mixed(packed: Path):
    loader = forebay.Loader(
        packed, 4, transform=[T.CenterCrop(8), T.Normalize(), KINDS["tuple"]],
        batch_transform=T.MixUp(num_classes=3),
    )  # fmt: skip
    with pytest.raises(ValueError, match="several views"):
        next(iter(loader))


def test_views_have_torchvisions_types(packed: Path):
    from torchvision import tv_tensors

    options: dict[str, Any] = {"tv_tensors": True, "transform": [T.CenterCrop(8), KINDS["dict"]]}
    images, _ = next(iter(forebay.Loader(packed, 4, **options)))
    assert isinstance(images["global"], tv_tensors.Image)
    assert all(isinstance(one, tv_tensors.Image) for one in images["local"])


def test_numpy_collates_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("forebay.loading.assembler.load_torch", lambda: None)
    rng = np.random.default_rng(0)
    images = [rng.random((3, 4, 4), dtype=np.float32) for _ in range(5)]
    makers: list[Callable[[Any], Any]] = [
        lambda image: [image, image[:, :2]],
        lambda image: {"a": image, "b": (1, 2.5)},
        lambda image: 3,
        lambda image: "text",
    ]

    def as_arrays(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.numpy()
        if isinstance(value, dict):
            return {name: as_arrays(one) for name, one in value.items()}
        return [as_arrays(one) for one in value] if isinstance(value, list) else value

    for make in makers:
        expected = as_arrays(default_collate([make(image) for image in images]))
        np.testing.assert_equal(collate([make(image) for image in images]), expected)
    with pytest.raises(TypeError, match="NoneType"):
        collate([None, None])
    with pytest.raises(RuntimeError, match="equal size"):
        collate([[1], [1, 2]])
