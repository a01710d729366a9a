"""Code like a user's, with types: test_typing.py has mypy check it strictly, and runs it."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import forebay
from forebay import transforms as T


def use(path: str) -> None:
    """Makes every kind of call of the public package and asserts the type that it returns."""
    dataset = forebay.Dataset(path)
    assert_type(len(dataset), int)
    pixels, label = dataset[0]
    assert_type(pixels, NDArray[np.uint8])
    assert_type(label, Any)
    assert_type(dataset[1:3], list[tuple[NDArray[np.uint8], Any]])
    assert_type(dataset.classes, list[str])
    assert_type(dataset.class_to_idx, dict[str, int])
    assert_type(dataset.targets, NDArray[Any])
    labelled = dataset.with_labels({dataset.key(0): "cat"}, classes=["cat"], missing="drop")
    assert_type(labelled.with_column("fold", [0] * len(labelled)), forebay.Dataset)
    assert_type(dataset.split(0.5, 0.5, stratify=True), list[forebay.Dataset])
    assert_type(dataset.find(dataset.key(0)), int | None)
    file = dataset.read(0)
    assert_type(file, bytes)
    assert_type(forebay.decode(file), NDArray[np.uint8])
    assert_type(forebay.decode([file, file], threads=2), list[NDArray[np.uint8]])
    batch = forebay.BatchDecoder(T.train(size=32), threads=1)([file, file], boxes=None)
    assert_type(batch.errors(), dict[int, str])
    assert_type(batch, forebay.DecodedBatch)
    try:
        forebay.decode(b"no image")
    except forebay.DataError as error:
        assert_type(error, forebay.DataError)
        value_error: ValueError = error
        assert str(value_error)

    loader = forebay.Loader(dataset, batch_size=8, shuffle=True, transform=T.train(size=32))
    assert_type(len(loader), int)
    for images, labels in loader:
        assert len(images) == len(labels)
    state = loader.state_dict()
    assert_type(state, dict[str, Any])
    loader.load_state_dict(state)
    assert_type(loader.stats()["samples"], float)


def misuse(path: str) -> None:
    """Never runs; a strict mypy reports each ignore comment below whose line has no error."""
    forebay.Dataset(3)  # type: ignore[arg-type]
    forebay.Dataset(path)["0"].read()  # type: ignore[call-overload]
    forebay.decode("a path")  # type: ignore[arg-type]
    forebay.Loader(path, batch_size="8", transform=T.train())  # type: ignore[arg-type]
    forebay.Loader(path, transform=["RandomCrop"])  # type: ignore[list-item]
    forebay.show(path, T.train())  # type: ignore[call-arg]
    forebay.show(path, ["RandomCrop"], out="page.html")  # type: ignore[list-item]
    forebay.DataError().path  # type: ignore[attr-defined]  # noqa: B018
