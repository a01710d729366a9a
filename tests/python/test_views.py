"""Tests parts and sums of datasets, and what is known of samples without their images."""

import pickle
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import forebay
from conftest import make_jpeg, pack
from forebay import transforms as T


def keys_of(loader: forebay.Loader) -> list[str]:
    return [key for batch in loader for key in batch[0]]


def test_a_subset_is_its_samples(packed: Path, folder: Path):
    for path in (packed, folder):
        dataset = forebay.Dataset(path)
        numbers = [5, 3, 3, -1, 60]
        part = dataset.subset(numbers)
        assert len(part) == 5
        assert part.keys() == [dataset.key(i) for i in numbers]
        assert part.targets.tolist() == [int(dataset.targets[i]) for i in numbers]
        assert part.classes == dataset.classes
        assert part.find(dataset.key(3)) == 1
        assert part.find(dataset.key(0)) is None
        for i, number in enumerate(numbers):
            assert part.read(i) == dataset.read(number)
            assert np.array_equal(part[i][0], dataset[number][0])
        assert part.fingerprint != dataset.fingerprint
        again = pickle.loads(pickle.dumps(part))
        assert again.fingerprint == part.fingerprint
        assert part.subset([1, 0]).keys() == [dataset.key(3), dataset.key(5)]
        loaded = keys_of(forebay.Loader(part, 2, transform=T.evaluate(32, 32), fields=["key"]))
        assert loaded == part.keys()
    assert len(dataset.subset([])) == 0
    for wrong, error in (([70], IndexError), ([-71], IndexError), ([[1]], ValueError),
                         ([True, False], ValueError), ([0.5], ValueError)):  # fmt: skip
        with pytest.raises(error, match=r"no sample|integers"):
            dataset.subset(wrong)


def test_filters_take_masks_and_functions(packed: Path):
    dataset = forebay.Dataset(packed)
    wide = dataset.filter(dataset.column("width") > dataset.column("height"))
    assert 0 < len(wide) < len(dataset)
    for pixels, _ in wide:
        assert pixels.shape[1] > pixels.shape[0]
    same = dataset.filter(lambda sample: sample["width"] > sample["height"])
    assert same.fingerprint == wide.fingerprint
    assert set(dataset.filter(dataset.targets == 2).targets) == {2}
    with pytest.raises(ValueError, match=r"bool \[70\]"):
        dataset.filter([True])
    with pytest.raises(ValueError, match=r"bool \[70\]"):
        dataset.filter(np.ones(70))


def test_splits_are_disjoint_and_always_the_same(packed: Path):
    dataset = forebay.Dataset(packed)
    for sizes in ((0.8, 0.2), (56, 14)):
        training, rest = dataset.split(*sizes, seed=3)
        assert (len(training), len(rest)) == (56, 14)
        assert sorted(training.keys() + rest.keys()) == sorted(dataset.keys())
        kept = set(training.keys())
        assert training.keys() == [key for key in dataset.column("key") if key in kept]
        assert rest.column("index").tolist() == list(range(14))
    # NumPy promises that its bit generators give the same numbers in every version.
    assert [dataset.find(key) for key in rest.column("key")][:5] == SPLIT_OF_SEED_3
    assert dataset.split(0.8, 0.2, seed=4)[1].keys() != rest.keys()
    assert [len(part) for part in dataset.split(1 / 3, 1 / 3, 1 / 3)] == [24, 23, 23]
    for wrong in ((10, 10), (0.5, 0.6), (1.5, -0.5)):
        with pytest.raises(ValueError, match="split"):
            dataset.split(*wrong)


SPLIT_OF_SEED_3 = [2, 15, 21, 24, 27]


def test_a_sum_unites_classes_by_name(packed: Path, tmp_path: Path):
    first = forebay.Dataset(packed)
    second = forebay.Dataset(
        pack(
            {f"{name}/{i}.jpg": make_jpeg(900 + i) for i, name in enumerate("ab")}
            | {"class1/z.jpg": make_jpeg(999)},
            tmp_path,
        )  # fmt: skip
    )
    both = forebay.concat([first, second])
    assert both.classes == ["class0", "class1", "class2", "a", "b"]
    assert len(both) == len(first) + 3
    assert both.targets[: len(first)].tolist() == first.targets.tolist()
    names = [both.classes[label] for label in both.targets[len(first) :]]
    assert names == [second.classes[label] for label in second.targets]
    assert both.keys() == first.keys() + second.keys()
    assert both.column("width").tolist() == [*first.column("width"), *second.column("width")]
    assert both.find("class1/z") == len(first) + second.keys().index("class1/z")
    seen = keys_of(forebay.Loader(both, 4, True, transform=T.train(32), fields=["key"]))
    assert sorted(seen) == sorted(both.keys())
    assert pickle.loads(pickle.dumps(both)).fingerprint == both.fingerprint
    with pytest.raises(ValueError, match="no datasets"):
        forebay.concat([])


def test_columns_are_what_the_source_had(tmp_path: Path):
    shard = tmp_path / "shards" / "0.tar"
    shard.parent.mkdir()
    with tarfile.open(shard, "w") as tar:
        for i in range(6):
            members = {"jpg": make_jpeg(i), "cls": str(i % 2).encode(), "json": b'{"n": %d}' % i}
            if i != 4:
                members["txt"] = f"caption {i}".encode()
            for suffix, content in members.items():
                (tmp_path / "member").write_bytes(content)
                tar.add(tmp_path / "member", f"s{i}.{suffix}")
    dataset = forebay.Dataset(pack_shards(shard.parent, tmp_path / "set"))
    order = [int(key[1:]) for key in dataset.column("key")]
    assert {"index", "key", "label", "bytes", "width", "height", "json", "text"} <= set(
        dataset.columns
    )
    assert dataset.column("json").tolist() == [f'{{"n": {i}}}' for i in order]
    assert dataset.column("text").tolist() == [None if i == 4 else f"caption {i}" for i in order]
    assert dataset.column("bytes").tolist() == [len(dataset.read(i)) for i in range(6)]
    assert dataset.column("width").tolist() == [dataset[i][0].shape[1] for i in range(6)]
    assert dataset.subset([2, 1]).column("text").tolist() == dataset.column("text")[[2, 1]].tolist()
    with pytest.raises(ValueError, match="no column 'nothing'"):
        dataset.column("nothing")
    loader = forebay.Loader(
        dataset,
        6,
        transform=T.evaluate(32, 32),
        fields={"y": "label", "caption": "text", "w": "width"},
    )
    (batch,) = loader
    assert batch["caption"] == dataset.column("text").tolist()
    assert batch["w"].tolist() == dataset.column("width").tolist()
    assert batch["y"].tolist() == [i % 2 for i in order]


def pack_shards(shards: Path, out: Path) -> Path:
    import subprocess

    from conftest import FOREBAY

    subprocess.run([FOREBAY, "pack", str(shards), str(out)], check=True, capture_output=True)
    return out


def test_columns_are_not_to_be_changed(packed: Path):
    dataset = forebay.Dataset(packed)
    for column in (dataset.targets, dataset.column("width"), dataset.column("key")):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = column[1]


def test_sums_of_sums_stay_small(packed: Path):
    dataset = forebay.Dataset(packed)
    for _ in range(40):
        dataset = forebay.concat([dataset.subset(range(35)), dataset.subset(range(35, 70))])
    assert dataset.path == str(packed)
    assert dataset.keys() == forebay.Dataset(packed).keys()
    with pytest.raises(ValueError, match="'a/path' is not a Dataset"):
        forebay.concat(["a/path"])  # type: ignore[list-item]


def test_weights_are_how_often_samples_come(packed: Path):
    dataset = forebay.Dataset(packed)
    weights = np.arange(len(dataset)) % 3
    loader = forebay.Loader(
        dataset.weighted(weights), 64, True, transform=T.train(16), fields=["index"],
        samples_per_epoch=6400,
    )  # fmt: skip
    assert len(loader) == 100
    seen = Counter(i for (batch,) in loader for i in batch.tolist())
    counts = np.array([seen[i] for i in range(len(dataset))])
    assert (counts[weights == 0] == 0).all()
    expected = 6400 * weights / weights.sum()
    chi_squared = ((counts - expected)[weights > 0] ** 2 / expected[weights > 0]).sum()
    assert chi_squared < 90  # 46 degrees of freedom: 1 in 10,000
    again = [i for (batch,) in loader for i in batch.tolist()]
    assert Counter(again) != seen  # the next epoch draws other samples
    loader.set_epoch(0)
    assert Counter(i for (batch,) in loader for i in batch.tolist()) == seen


def test_shares_of_datasets_are_what_was_asked(packed: Path, folder: Path):
    small, large = forebay.Dataset(packed).split(10, 60)
    mixed = forebay.concat([small, large], weights=[3, 1])
    loader = forebay.Loader(
        mixed, 50, True, transform=T.train(16), fields=["index"], samples_per_epoch=4000
    )
    of_small = sum(int((batch < 10).sum()) for (batch,) in loader)
    assert abs(of_small - 3000) < 4 * np.sqrt(4000 * 0.75 * 0.25)
    # Each copy of a sample in one epoch has a crop of its own.
    one = forebay.Loader(
        forebay.Dataset(folder).subset([0]).weighted([1]), 8, True,
        transform=[T.RandomResizedCrop(16)], samples_per_epoch=8,
    )  # fmt: skip
    ((images, _),) = one
    assert len({image.numpy().tobytes() for image in images}) == 8
    with pytest.raises(ValueError, match="weights"):
        forebay.Dataset(packed).weighted([1, 2])
    with pytest.raises(ValueError, match="not negative"):
        forebay.Dataset(packed).weighted([-1] * 70)
    nothing = forebay.Dataset(packed).weighted([1, *[0] * 69]).subset([1, 2])
    with pytest.raises(ValueError, match="nothing can be drawn"):
        forebay.Loader(nothing, 4, True, transform=T.train(16))
    with pytest.raises(ValueError, match="samples_per_epoch"):
        forebay.Loader(packed, 4, samples_per_epoch=3, transform=T.train(16))


def test_the_class_column_of_a_sum_has_the_sums_numbers(images: dict[str, bytes], tmp_path: Path):
    from conftest import pack

    some = list(images.values())
    first = pack({f"{name}/{i}.jpg": some[i] for i, name in enumerate("abc")}, tmp_path / "1")
    second = pack({f"{name}/{i}.jpg": some[i] for i, name in enumerate("0c")}, tmp_path / "2")
    parts = [forebay.Dataset(first), forebay.Dataset(second)]
    joined = forebay.concat([parts[0], forebay.concat(parts[::-1])])
    names = [key.split("/")[0] for key in joined.column("key")]
    assert sorted(names) == ["0", "a", "a", "b", "b", "c", "c", "c"]
    for column in ("class", "label"):
        assert [joined.classes[number] for number in joined.column(column)] == names
    picked = joined.filter(lambda sample: joined.classes[sample["class"]] == "c")
    assert [picked.classes[number] for number in picked.column("class")] == ["c", "c", "c"]


def test_shares_that_cannot_be_drawn_are_told(packed: Path):
    dataset = forebay.Dataset(packed)
    never = dataset.weighted([0] * 69 + [1]).subset([0])
    with pytest.raises(ValueError, match="concat: all samples of dataset 0 have the weight 0"):
        forebay.concat([never, dataset], [1, 1])
    for weights in ([None, 1], ["a", 1], 3):
        with pytest.raises(ValueError, match="concat: weights are .*, but must be numbers"):
            forebay.concat([dataset, dataset], weights)  # type: ignore[arg-type]


def test_weights_are_kept_as_they_were_given(packed: Path):
    dataset = forebay.Dataset(packed)
    weights = np.ones(len(dataset))
    weighted = dataset.weighted(weights)
    weights[:] = 0
    assert weighted.weights is not None and weighted.weights.all()


def test_one_dataset_is_no_list(packed: Path):
    with pytest.raises(ValueError, match=r"concat: .* is one dataset; give a list"):
        forebay.concat(forebay.Dataset(packed))  # type: ignore[arg-type]
