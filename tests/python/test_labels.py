"""Tests labels and columns that users have: tables, lists of files, and Hugging Face's metadata."""

import csv
import json
import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
import torch

import forebay
from conftest import make_jpeg
from forebay import transforms as T
from forebay.data.sample_names import SampleNames

COUNT = 12


def write_csv(path: Path, rows: Iterable[Sequence[Any]]) -> Path:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    """Returns a folder of images without classes; one name has a dot, as cameras write them."""
    folder = tmp_path / "train_images"
    folder.mkdir()
    for i, name in enumerate(names()):
        (folder / name).write_bytes(make_jpeg(i))
    return folder


def names() -> list[str]:
    return [f"{i:03}.jpg" for i in range(COUNT - 1)] + ["IMG.2020.jpg"]


def animals() -> list[str]:
    return ["cat" if i % 3 else "dog" for i in range(COUNT)]


def labels_of(dataset: forebay.Dataset, **options: Any) -> torch.Tensor:
    options = {"batch_size": 5, "transform": T.evaluate(32, 32), **options}
    with forebay.Loader(dataset, **options) as loader:
        return torch.cat([labels for _, labels in loader])


def tables(folder: Path) -> dict[str, Any]:
    """Returns the same labels in each form of table."""
    rows = list(zip(names(), animals(), strict=True))
    stems = [(name.removesuffix(".jpg"), animal) for name, animal in rows]
    frame = pandas.DataFrame(rows, columns=["id", "label"])
    lines = [json.dumps({"label": animal, "file_name": name}) for name, animal in rows]
    (folder / "labels.jsonl").write_text("\n".join(lines[::-1]))
    keys = forebay.Dataset(folder / "train_images").keys()
    return {
        "csv with suffixes": write_csv(folder / "a.csv", [("id", "label"), *rows[::-1]]),
        "csv without suffixes": str(write_csv(folder / "b.csv", [("id", "breed"), *stems])),
        "csv with folders": write_csv(
            folder / "c.csv", [("p", "label"), *((f"kaggle/train_images/{n}", a) for n, a in rows)]
        ),
        "csv with keys": write_csv(
            folder / "d.csv", [("k", "y"), *zip(keys, animals(), strict=True)]
        ),
        "json lines": folder / "labels.jsonl",
        "frame": frame,
        "frame by index": frame.set_index("id"),
        "series by index": frame.set_index("id")["label"],
        "arrow": pyarrow.table({"id": names(), "label": animals()}),
        "mapping": dict(stems),
        "list": animals(),
        "array": np.array(animals()),
        "series in order": frame["label"],
    }


def test_each_form_of_table_gives_the_same_labels(flat: Path):
    dataset = forebay.Dataset(flat)
    assert dataset.keys()[-1] == "IMG%2E2020"
    seen = set()
    for form, table in tables(flat.parent).items():
        labelled = dataset.with_labels(table)
        assert labelled.classes == ["cat", "dog"], form
        assert [labelled.classes[i] for i in labelled.targets] == animals(), form
        assert labels_of(labelled).tolist() == labelled.targets.tolist(), form
        assert labels_of(labelled).dtype == torch.int64
        seen.add(labelled.fingerprint)
    assert len(seen) == 1 and dataset.fingerprint not in seen
    other = dataset.with_labels(animals()[::-1])
    assert other.fingerprint not in seen
    assert dataset.targets.tolist() == [-1] * COUNT, "the dataset itself stays as it is"


def test_classes_fix_the_numbers(flat: Path):
    dataset = forebay.Dataset(flat)
    labelled = dataset.with_labels(animals(), classes=["dog", "fox", "cat"])
    assert labelled.classes == ["dog", "fox", "cat"]
    assert labelled.targets.tolist() == [2 if one == "cat" else 0 for one in animals()]
    assert labelled.class_to_idx == {"dog": 0, "fox": 1, "cat": 2}
    with pytest.raises(ValueError, match="'cat' is not among the 2 classes"):
        dataset.with_labels(animals(), classes=["dog", "fox"])
    whole = list(range(COUNT))
    assert dataset.with_labels(whole).targets.tolist() == whole
    assert dataset.with_labels(whole).classes == []
    assert dataset.with_labels([3, 7] * 6, classes=[7, 3]).targets.tolist() == [1, 0] * 6
    assert dataset.with_labels([0, 1] * 6, classes=["a", "b"]).targets.tolist() == [0, 1] * 6
    with pytest.raises(ValueError, match="'2' is not among"):
        dataset.with_labels([0, 2] * 6, classes=["a", "b"])
    with pytest.raises(ValueError, match="-5 is no class number"):
        dataset.with_labels([-5, 1] * 6)
    assert dataset.with_labels(["007", "7"] * 6).classes == ["007", "7"]
    for two in ([False, True] * 6, np.array([False, True] * 6), torch.tensor([0, 1] * 6)):
        assert dataset.with_labels(two).targets.tolist() == [0, 1] * 6
        assert dataset.with_labels(two).classes == []


def test_lists_of_0_and_1_have_a_place_for_each_class(flat: Path):
    dataset = forebay.Dataset(flat)
    rows = np.eye(4, dtype=int)[np.arange(COUNT) % 4]
    lists = rows.tolist()
    by_name = dict(zip(names(), lists, strict=True))
    floats = rows.astype(float).tolist()
    given: list[Any] = [rows, lists, [tuple(one) for one in lists], list(rows), floats, by_name]
    for table in given:
        labelled = dataset.with_labels(table, classes=["ant", "bee", "cat", "dog"])
        assert labelled.targets.tolist() == lists and labelled.classes[3] == "dog"
        assert dataset.with_labels(table).targets.tolist() == lists
    two = [[0, 1], [1, 0]] * 6
    assert dataset.with_labels(two).targets.tolist() == two
    sets = [[0, 1]] * 6 + [[1]] * 6
    assert dataset.with_labels(sets).targets.tolist() == [[1, 1]] * 6 + [[0, 1]] * 6
    few = dataset.with_labels([[0, 1]] * COUNT, classes=["ant", "bee", "cat"])
    assert few.targets.tolist() == [[1, 1, 0]] * COUNT
    with pytest.raises(ValueError, match="no value for 1 of 12"):
        dataset.with_labels([None, *lists[1:]])


def test_classes_may_be_a_mapping_to_their_numbers(flat: Path, folder: Path):
    dataset = forebay.Dataset(flat)
    labelled = dataset.with_labels(animals(), classes={"fox": 1, "cat": 2, "dog": 0})
    assert labelled.classes == ["dog", "fox", "cat"]
    assert labelled.class_to_idx == {"dog": 0, "fox": 1, "cat": 2}
    training = forebay.Dataset(folder)
    backwards = training.classes[::-1]
    numbers = dict(zip(training.classes, range(len(backwards))[::-1], strict=True))
    assert forebay.Dataset(folder, classes=numbers).classes == backwards
    assert forebay.Dataset(folder, classes=training.class_to_idx).classes == training.classes
    wrongs: list[Any] = [{"cat": 0, "dog": 2}, {"cat": 1, "dog": 1}, {0: "cat", 1: "dog"}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="numbers from 0 to 1, each once, like class_to_idx"):
            dataset.with_labels(animals(), classes=wrong)
    with pytest.raises(ValueError, match="classes is 'catdog', but must be names"):
        dataset.with_labels(animals(), classes="catdog")


def test_another_datasets_classes_fix_the_numbers_of_a_folder(tmp_path: Path):
    for number, name in enumerate(
        ("train/ant/0", "train/bee/0", "train/cat/0", "val/cat/0", "val/bee/0")
    ):
        path = tmp_path / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(make_jpeg(number))
    training = forebay.Dataset(tmp_path / "train")
    alone = forebay.Dataset(tmp_path / "val")
    assert alone.targets.tolist() == [0, 1]  # bee, cat: numbers that training gives to others
    validation = forebay.Dataset(tmp_path / "val", classes=training.classes)
    assert validation.classes == ["ant", "bee", "cat"]
    assert validation.targets.tolist() == [1, 2]
    assert validation.class_to_idx == training.class_to_idx
    assert labels_of(validation).tolist() == [1, 2]
    assert validation.subset([1]).targets.tolist() == [2]
    again = pickle.loads(pickle.dumps(validation))
    assert again.targets.tolist() == [1, 2] and again.classes == validation.classes
    assert again.fingerprint == validation.fingerprint != alone.fingerprint
    same = forebay.Dataset(tmp_path / "train", classes=training.classes)
    assert same.fingerprint == training.fingerprint
    with pytest.raises(ValueError, match="'ant' have samples, but are not among the 2 classes"):
        forebay.Dataset(tmp_path / "train", classes=["bee", "cat"])
    for wrong, said in (("bee", "must be names"), ([], "must be names"), (["a", "a"], "twice")):
        with pytest.raises(ValueError, match=said):
            forebay.Dataset(tmp_path / "val", classes=wrong)


def test_names_have_no_traps(tmp_path: Path):
    for name in ("a.jpg", "a.png", "b/a.jpg", "b/c.2.jpg", "b/c.jpg"):
        (tmp_path / "set/x" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set/x" / name).write_bytes(make_jpeg(len(name)))
    dataset = forebay.Dataset(tmp_path / "set")
    paths = dataset.column("source_path").tolist()
    table = {path: path for path in paths}
    labelled = dataset.with_labels(table)
    assert [labelled.classes[i] for i in labelled.targets] == paths
    for path in paths:
        number = dataset.find(path)
        assert number is not None and paths[number] == path
        assert dataset.find(f"/somewhere/{path}") == number
        key = dataset.key(number)
        assert dataset.column("source_path")[dataset.find(key)] == path
    assert dataset.find("c.2.jpg") == paths.index("x/b/c.2.jpg")
    assert dataset.find("a.png") == paths.index("x/a.png")
    assert dataset.find("nothing.jpg") is None and dataset.find("nothing") is None
    with pytest.raises(ValueError, match="fits several"):
        dataset.find("a.jpg")
    with pytest.raises(ValueError, match="1 of its names fit several samples, such as 'a.jpg'"):
        dataset.with_labels({"a.jpg": 1, "c.jpg": 2})


def test_rows_and_samples_that_do_not_fit(flat: Path, tmp_path: Path):
    dataset = forebay.Dataset(flat)
    few = dict(list(zip(names(), animals(), strict=True))[:-3])
    with pytest.raises(ValueError, match=r"no value for 3 of 12 samples, such as 009, 010, IMG%2E"):
        dataset.with_labels(few)
    part = dataset.with_labels(few, missing="drop")
    assert part.keys() == dataset.keys()[:-3] and part.targets.tolist()[:2] == [1, 0]
    more = {**dict(zip(names(), animals(), strict=True)), "zebra.jpg": "zebra"}
    with pytest.warns(UserWarning, match=r"1 of its 13 rows have no sample .*'zebra.jpg'") as told:
        labelled = dataset.with_labels(more)
    assert told[0].filename == __file__
    assert labelled.classes == ["cat", "dog", "zebra"], "all rows name classes"
    with pytest.raises(ValueError, match="none of its 1 names"):
        dataset.with_labels({"zebra.jpg": "zebra"})
    with pytest.raises(ValueError, match="has 3 rows, but .* has 12 samples"):
        dataset.with_labels([1, 2, 3])
    by_path = {Path(name): animal for name, animal in zip(names(), animals(), strict=True)}
    assert dataset.with_labels(by_path).classes == ["cat", "dog"]
    twice = write_csv(tmp_path / "twice.csv", [("id", "y"), ("000", "a"), ("000.jpg", "b")])
    with pytest.raises(ValueError, match="'000' in rows 0 and 1"):
        dataset.with_labels(twice)
    with pytest.raises(ValueError, match="missing is 'skip'"):
        dataset.with_labels(animals(), missing="skip")
    empty = write_csv(
        tmp_path / "empty.csv",
        [("id", "y"), *((name, "" if "3" in name else 1) for name in names())],
    )
    with pytest.raises(ValueError, match="no value for 1 of 12 samples, such as 003"):
        dataset.with_labels(empty)


def test_tables_that_are_wrong_say_so(flat: Path, tmp_path: Path):
    dataset = forebay.Dataset(flat)
    many = write_csv(tmp_path / "many.csv", [("id", "a", "b"), ("000", 1, 2)])
    for table, options, message in (
        (many, {}, r"the columns \['a', 'b'\]; name the one"),
        (many, {"column": "c"}, r"no column \['c'\]; there are \['a', 'b'\]"),
        (many, {"key": "name"}, "no column 'name'"),
        (write_csv(tmp_path / "t.csv", [("id", "y"), ("a",)]), {}, "line 2 has 1 fields"),
        (write_csv(tmp_path / "h.csv", [("id;y",), ("a;b",)]), {}, "only the column 'id;y'"),
        (tmp_path / "labels.xlsx", {}, "a table is a file named .csv"),
        (3, {}, "the table is 3"),
        ({1: 2}, {}, "has 1, but must have names"),
        ({"000": 1}, {"column": "y"}, "no named columns"),
        (animals(), {"kind": "regression"}, "kind is 'regression'"),
        (np.zeros((COUNT, 2, 2)), {}, "one or two dimensions"),
        ([[0.5], [0.5, 1.0]] * 6, {}, "not as many in each row"),
        ([{"a": 1}] * COUNT, {}, "{'a': 1} is no class"),
        ([["a", ["b"]]] * COUNT, {}, r"\['b'\] is no class"),
        ([[2**20]] * COUNT, {}, "1048576 is above the largest class number"),
        ([["a"]] * COUNT, {"kind": "class"}, "lists of classes; give kind='classes'"),
    ):
        with pytest.raises(ValueError, match=message):
            dataset.with_labels(table, **options)
    (tmp_path / "bad.jsonl").write_text('{"id": 1}\n[]\n')
    with pytest.raises(ValueError, match="line 2 must be an object"):
        dataset.with_labels(tmp_path / "bad.jsonl")
    with pytest.raises(FileNotFoundError):
        dataset.with_labels(tmp_path / "none.csv")


def test_several_classes_are_multi_hot(flat: Path, tmp_path: Path):
    dataset = forebay.Dataset(flat)
    sets = [["cat"], ["cat", "dog"], [], ["ant"]] * 3
    expected = np.array([[0, 1, 0], [0, 1, 1], [0, 0, 0], [1, 0, 0]] * 3, np.float32)
    rows = [(name, "|".join(items), *row) for name, items, row in zip(
        names(), sets, expected.astype(int), strict=True
    )]  # fmt: skip
    table = write_csv(tmp_path / "t.csv", [("id", "tags", "ant", "cat", "dog"), *rows])
    for labelled in (
        dataset.with_labels(sets),
        dataset.with_labels(dict(zip(names(), sets, strict=True))),
        dataset.with_labels(table, column="tags", separator="|"),
        dataset.with_labels(table, column=["ant", "cat", "dog"]),
        dataset.with_labels(expected.astype(bool), classes=["ant", "cat", "dog"]),
    ):
        assert labelled.classes == ["ant", "cat", "dog"]
        assert labelled.targets.dtype == np.float32
        assert np.array_equal(labelled.targets, expected)
        loaded = labels_of(labelled, shuffle=True, fields=("index", "label"), transform=None)
        assert loaded.dtype == torch.float32 and loaded.shape == (COUNT, 3)
        with forebay.Loader(labelled, 4, shuffle=True, transform=T.evaluate(32, 32),
                            fields=["index", "label"]) as loader:  # fmt: skip
            for numbers, labels in loader:
                assert np.array_equal(labels.numpy(), expected[numbers.numpy()])
    assert dataset.with_labels(sets, classes=["dog", "cat", "ant", "x"]).targets[1].tolist() == [
        1, 1, 0, 0,
    ]  # fmt: skip
    assert dataset.with_labels([[0, 2], [1]] * 6).targets[0].tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="'ant' is not among"):
        dataset.with_labels(sets, classes=["cat", "dog"])


def test_numbers_to_regress_are_float32(flat: Path, tmp_path: Path):
    dataset = forebay.Dataset(flat)
    ages = [20 + i + 0.5 for i in range(COUNT)]
    rows = [(name, age, -age, 7) for name, age in zip(names(), ages, strict=True)]
    table = write_csv(tmp_path / "t.csv", [("id", "age", "x", "y"), *rows])
    one = dataset.with_labels(table, column="age")
    assert one.targets.tolist() == ages and one.classes == []
    assert labels_of(one).dtype == torch.float32 and labels_of(one).shape == (COUNT,)
    assert one[1][1] == ages[1] and isinstance(one[1][1], float)
    assert dataset.with_labels(table, column="y", kind="numbers").targets.tolist() == [7.0] * COUNT
    two = dataset.with_labels(table, column=["x", "y"])
    assert two.targets.tolist() == [[-age, 7] for age in ages] and two.classes == []
    assert labels_of(two).shape == (COUNT, 2)
    assert two[0][1].tolist() == [-20.5, 7]
    points = dataset.with_labels([[0.25, i] for i in range(COUNT)])
    assert points.targets.tolist() == [[0.25, i] for i in range(COUNT)]
    frame = pandas.read_csv(table).set_index("id")
    assert np.array_equal(dataset.with_labels(frame, column=["x", "y"]).targets, two.targets)
    with_gap = frame["age"].where(frame["age"] != 21.5)
    assert len(dataset.with_labels(with_gap, missing="drop")) == COUNT - 1
    classes = frame["y"].where(frame.index != "000.jpg")  # pandas makes 7.0 of 7
    assert set(dataset.with_labels(classes, missing="drop").targets) == {7}
    with pytest.raises(ValueError, match="not numbers"):
        dataset.with_labels(animals(), kind="numbers")
    for gap in (np.array([np.nan, *ages[1:]]), np.array([[np.nan, 1], *[[1, 2]] * (COUNT - 1)])):
        with pytest.raises(ValueError, match="no value for 1 of 12 samples, such as 000"):
            dataset.with_labels(gap)
        with pytest.raises(ValueError, match="no value for 1 of 12 samples, such as 000"):
            dataset.with_column("x", gap)


def test_labels_go_through_all_views(flat: Path, packed: Path):
    dataset = forebay.Dataset(flat)
    labelled = dataset.with_labels(animals()).with_column("fold", [i % 4 for i in range(COUNT)])
    dogs = labelled.filter(labelled.targets == 1)
    assert len(dogs) == animals().count("dog") and set(dogs.targets) == {1}
    assert len(labelled.filter(lambda sample: sample["label"] == 1)) == len(dogs)
    assert labelled.filter(labelled.column("fold") == 2).column("index").tolist() == [0, 1, 2]
    assert labelled.subset([3, 3, 0]).targets.tolist() == [1, 1, 1]
    assert labelled.weighted(labelled.targets + 0.0).targets.tolist() == labelled.targets.tolist()
    drawn = labels_of(labelled.weighted(labelled.targets + 0.0), shuffle=True)
    assert drawn.tolist() == [1] * COUNT
    for one in (labelled, dogs, labelled.weighted(np.ones(COUNT)), dogs.with_labels([0.5] * 4)):
        again = pickle.loads(pickle.dumps(one))
        assert again.targets.tolist() == one.targets.tolist()
        assert again.fingerprint == one.fingerprint and again.classes == one.classes
        assert again.column("fold").tolist() == one.column("fold").tolist()
    twice = labelled.subset([0, 1, 0]).with_labels({"000": "a", "001": "b"})
    assert twice.targets.tolist() == [0, 1, 0]
    other = forebay.Dataset(packed)
    both = forebay.concat([labelled, other, dogs])
    assert both.classes == ["cat", "dog", *other.classes]
    assert both.targets.tolist() == [
        *labelled.targets, *(other.targets + 2), *dogs.targets,
    ]  # fmt: skip
    assert labels_of(both, shuffle=False).tolist() == both.targets.tolist()
    assert pickle.loads(pickle.dumps(both)).fingerprint == both.fingerprint
    numbers = other.with_labels(np.linspace(0, 1, len(other)))
    sums = forebay.concat([labelled.with_labels(np.linspace(0, 1, COUNT)), numbers])
    assert sums.targets.dtype == np.float32 and len(sums.targets) == COUNT + len(other)
    with pytest.raises(ValueError, match="different labels"):
        forebay.concat([labelled, numbers])


def test_relabelling_keeps_the_order_and_the_pixels(packed: Path):
    plain = forebay.Dataset(packed)
    labelled = plain.with_labels(plain.keys())
    how: dict[str, Any] = {"batch_size": 8, "shuffle": True, "seed": 5, "transform": T.train(32)}
    with forebay.Loader(plain, **how) as ours, forebay.Loader(labelled, **how) as theirs:
        for (images, _), (same, labels) in zip(ours, theirs, strict=True):
            assert torch.equal(images, same)
            assert len(labels) == len(images)
        state = ours.state_dict()
        with pytest.raises(ValueError, match="dataset is .* their samples or labels differ"):
            theirs.load_state_dict(state)


def test_bad_samples_have_no_label_in_a_batch(tmp_path: Path):
    for i in range(4):
        (tmp_path / f"{i}.jpg").write_bytes(make_jpeg(i) if i != 2 else b"no image")
    labelled = forebay.Dataset(tmp_path).with_labels([10, 11, 12, 13])
    with pytest.warns(UserWarning):
        assert labels_of(labelled).tolist() == [10, 11, 13]
    labelled = forebay.Dataset(tmp_path).with_labels(np.eye(4))
    with pytest.warns(UserWarning):
        assert labels_of(labelled).argmax(1).tolist() == [0, 1, 3]


def test_target_transforms_get_the_given_labels(flat: Path):
    dataset = forebay.Dataset(flat)
    one = labels_of(dataset.with_labels(animals()), target_transform=lambda label: label + 10)
    assert one.tolist() == [11 if animal == "dog" else 10 for animal in animals()]
    several = dataset.with_labels(np.eye(COUNT))
    smooth = labels_of(several, target_transform=lambda label: label * 0.9)
    assert torch.allclose(smooth, torch.eye(COUNT) * 0.9)


def test_mixing_follows_the_labels(flat: Path):
    dataset = forebay.Dataset(flat)
    eye = dataset.with_labels(np.eye(COUNT))
    how: dict[str, Any] = {"batch_size": COUNT, "transform": T.evaluate(32, 32)}
    mixed = labels_of(eye, batch_transform=T.MixUp(), **how)
    own = mixed[0, 0]
    assert 0 < own < 1
    expected = own * torch.eye(COUNT) + (1 - own) * torch.eye(COUNT).roll(1, 0)
    assert torch.allclose(mixed, expected, atol=1e-6)
    numbers = dataset.with_labels(np.arange(COUNT) + 0.0)
    drawn = labels_of(numbers, batch_transform=T.MixUp(), **how)
    values = torch.arange(COUNT) + 0.0
    assert torch.allclose(drawn, own * values + (1 - own) * values.roll(1), atol=1e-5)
    of_numbers = dataset.with_labels([i % 3 for i in range(COUNT)])
    hot = labels_of(of_numbers, batch_transform=T.CutMix(num_classes=3), **how)
    assert hot.shape == (COUNT, 3) and torch.allclose(hot.sum(1), torch.ones(COUNT))
    with pytest.raises(ValueError, match="num_classes is needed"):
        forebay.Loader(of_numbers, batch_transform=T.MixUp(), **how)
    with pytest.raises(ValueError, match=r"num_classes is 3, but a label is float32 \[12\]"):
        forebay.Loader(eye, batch_transform=T.MixUp(num_classes=3), **how)


def test_splits_keep_the_share_of_each_class(packed: Path):
    dataset = forebay.Dataset(packed)
    kinds = [["common", "rare"][i % 10 == 0] for i in range(len(dataset))]
    labelled = dataset.with_labels(kinds).with_column("site", [i % 2 for i in range(70)])
    for stratify in (True, "label", labelled.targets):
        parts = labelled.split(0.8, 0.1, 0.1, seed=1, stratify=stratify)
        assert [len(part) for part in parts] == [56, 7, 7]
        assert sorted(sum((part.keys() for part in parts), [])) == sorted(dataset.keys())
        rare = [int((part.targets == 1).sum()) for part in parts]
        assert sum(rare) == 7 and abs(rare[0] - 5.6) < 1 and rare[1] in (0, 1) and rare[2] in (0, 1)
    for seed in range(5):
        first, second = labelled.split(0.5, 0.5, seed=seed, stratify="site")
        assert abs(int(first.column("site").sum()) - int(second.column("site").sum())) <= 2
    keys, again = (labelled.split(0.8, 0.2, seed=3, stratify=True)[1].keys() for _ in range(2))
    assert keys == again != labelled.split(0.8, 0.2, seed=4, stratify=True)[1].keys()
    with pytest.raises(ValueError, match="stratify needs a class"):
        dataset.with_labels(np.eye(70)).split(0.5, 0.5, stratify=True)
    unlabelled = forebay.concat([dataset.with_labels([-1] * 70)])
    with pytest.raises(ValueError, match="stratify=True needs a class .* but no sample has one"):
        unlabelled.split(0.5, 0.5, stratify=True)
    with pytest.raises(ValueError, match="stratify has 3 values, not 70"):
        dataset.split(0.5, 0.5, stratify=[1, 2, 3])


def test_columns_are_given_for_batches_and_filters(flat: Path, tmp_path: Path):
    dataset = forebay.Dataset(flat)
    assert dataset.column("source_path").tolist() == names()
    rows = [(name, i % 3, f"site {i}") for i, name in enumerate(names())]
    table = write_csv(tmp_path / "t.csv", [("id", "fold", "site"), *rows])
    both = dataset.with_column("fold", table).with_column("where", table, column="site")
    assert both.columns[-2:] == ["fold", "where"]
    assert both.column("fold").tolist() == [i % 3 for i in range(COUNT)]
    assert both.fingerprint == dataset.fingerprint
    how: dict[str, Any] = {
        "transform": T.evaluate(32, 32),
        "fields": ["fold", "where", "source_path"],
    }
    with forebay.Loader(both.filter(both.column("fold") == 1), 4, **how) as loader:
        fold, where, paths = next(iter(loader))
    assert fold.tolist() == [1] * 4 and where[1] == "site 4" and paths[1] == "004.jpg"
    assert both.with_column("fold", [0] * COUNT).column("fold").tolist() == [0] * COUNT
    gaps = {"000": "x", "001": None}
    assert dataset.with_column("note", gaps, missing="drop").column("note").tolist() == ["x", None]
    for name in ("label", "image", "key"):
        with pytest.raises(ValueError, match=f"'{name}' cannot be a column's name"):
            dataset.with_column(name, [0] * COUNT)


def test_a_list_of_files_is_a_dataset(flat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "elsewhere/one.png"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(make_jpeg(99))
    pairs = [
        (f"train_images/{name}", label) for name, label in zip(names(), animals(), strict=True)
    ]
    dataset = forebay.Dataset([*pairs[::-1], (elsewhere, "cat")])
    monkeypatch.chdir("/")
    assert dataset.path == str(tmp_path) and len(dataset) == COUNT + 1
    assert dataset.column("source_path").tolist() == [p for p, _ in pairs[::-1]] + [
        "elsewhere/one.png"
    ]
    assert dataset.read(COUNT) == elsewhere.read_bytes()
    assert [dataset.classes[i] for i in dataset.targets] == [*animals()[::-1], "cat"]
    assert labels_of(dataset).tolist() == dataset.targets.tolist()
    again = pickle.loads(pickle.dumps(dataset))
    assert again.fingerprint == dataset.fingerprint and again.targets.tolist() == (
        dataset.targets.tolist()
    )
    several = forebay.Dataset([(flat / "000.jpg", ["a", "b"]), (flat / "000.jpg", [])])
    assert several.targets.tolist() == [[1, 1], [0, 0]] and several.keys() == ["000", "000"]
    plain = forebay.Dataset([flat / name for name in names()])
    assert plain.targets.tolist() == [-1] * COUNT
    assert plain.keys() == forebay.Dataset(flat).keys()
    labelled = plain.with_labels(dict(zip(names(), animals(), strict=True)))
    assert labels_of(labelled).tolist() == [1 if one == "dog" else 0 for one in animals()]
    both = forebay.Dataset([(flat / "000.jpg", 0), (elsewhere, 1)])
    assert both.path == str(tmp_path)
    for wrong, error, message in (
        ([], ValueError, "list of files is empty"),
        ([(flat / "000.jpg", 1), (flat / "nothing.jpg", 1)], FileNotFoundError, "1 of 2 files do"),
        ([(flat, 1)], ValueError, "not a regular file"),
        ([(flat / "000.jpg", 1), flat / "001.jpg"], ValueError, "some files of the list have"),
        ([(flat / "000.jpg", None)], ValueError, "no label for .*000.jpg"),
        ([3], ValueError, r"the list has 3, but must have pairs"),
        ([("s3://bucket/a.jpg", 1)], ValueError, "must be a file on this machine"),
    ):
        with pytest.raises(error, match=message):
            forebay.Dataset(wrong)


def test_image_folders_samples_are_a_list_of_files(folder: Path):
    from torchvision.datasets import ImageFolder

    theirs = ImageFolder(str(folder))
    ours = forebay.Dataset(theirs.samples).with_labels(theirs.targets, classes=theirs.classes)
    assert ours.classes == theirs.classes and ours.targets.tolist() == theirs.targets
    assert ours.keys() == forebay.Dataset(folder).keys()


def test_hugging_faces_metadata_is_found(flat: Path):
    write_csv(
        flat / "metadata.csv",
        [("file_name", "label", "site"), *((n, a, f"s{i}") for i, (n, a) in
         enumerate(zip(names(), animals(), strict=True)))],
    )  # fmt: skip
    from datasets import load_dataset

    theirs = load_dataset("imagefolder", data_dir=str(flat), split="train", cache_dir=flat.parent)
    dataset = forebay.Dataset(flat)
    assert dataset.classes == ["cat", "dog"]
    assert sorted(dataset.classes[i] for i in dataset.targets) == sorted(theirs["label"])
    assert sorted(dataset.column("site")) == sorted(theirs["site"])
    assert dataset.column("site").tolist() == [f"s{i}" for i in range(COUNT)]
    assert dataset.find("IMG.2020.jpg") == COUNT - 1
    again = pickle.loads(pickle.dumps(dataset))
    assert again.fingerprint == dataset.fingerprint
    (flat / "metadata.csv").unlink()
    lines = [{"file_name": n, "labels": [i, 0.5], "index": 1} for i, n in enumerate(names()[1:])]
    (flat / "metadata.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.warns(UserWarning) as told:
        dataset = forebay.Dataset(flat)
    messages = [str(one.message) for one in told]
    assert {one.filename for one in told} == {__file__}
    assert "no row for 1 of 12 images" in messages[0] and "columns ['index']" in messages[1]
    assert dataset.keys() == forebay_keys(flat)[1:]
    assert dataset.targets.tolist() == [[i, 0.5] for i in range(COUNT - 1)]
    assert labels_of(dataset).shape == (COUNT - 1, 2)
    (flat / "metadata.jsonl").write_text("{}\n[")
    with pytest.warns(UserWarning, match="line 2 is not JSON.*this file is not used"):
        assert len(forebay.Dataset(flat)) == COUNT
    (flat / "metadata.jsonl").write_text('{"name": 1, "x": 2}')
    with pytest.warns(UserWarning, match="has no column 'file_name', so it is not used") as told:
        assert len(forebay.Dataset(flat)) == COUNT
    assert told[0].filename == __file__


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_a_table_without_a_row_of_names_is_refused(missing: str, flat: Path, tmp_path: Path):
    rows = list(zip(names(), animals(), strict=True))
    table = write_csv(tmp_path / "rows.csv", rows)
    dataset = forebay.Dataset(flat)
    for given in (table, pandas.read_csv(table)):
        with pytest.raises(ValueError, match="must name the columns, but has the name of a sample"):
            dataset.with_labels(given, missing=missing)
    (flat / "id.jpg").write_bytes(make_jpeg(0))  # the column's name may be a sample's too
    table = write_csv(tmp_path / "rows.csv", [("id", "label"), *rows, ("id", "cat")])
    assert forebay.Dataset(flat).with_labels(table).classes == ["cat", "dog"]


def test_paths_are_not_read_for_a_table_of_keys(flat: Path, tmp_path: Path):
    dataset = forebay.Dataset(flat)

    def paths() -> list[str]:
        raise AssertionError("the paths of packed samples would be read for this")

    dataset.__dict__["_names"] = SampleNames(dataset.keys(), paths)
    rows = zip(dataset.keys(), animals(), strict=True)
    table = write_csv(tmp_path / "keys.csv", [("id", "label"), *rows])
    assert dataset.with_labels(table).classes == ["cat", "dog"]


def test_a_table_with_other_separators_says_how_pandas_reads_it(flat: Path, tmp_path: Path):
    (tmp_path / "excel.csv").write_text("id;label\n000.jpg;cat\n")
    with pytest.raises(ValueError, match=r"pandas.read_csv\(…, sep=';', dtype=str\)"):
        forebay.Dataset(flat).with_labels(tmp_path / "excel.csv")


def forebay_keys(folder: Path) -> list[str]:
    return [name.removesuffix(".jpg").replace(".", "%2E") for name in names()]


def test_a_cache_holds_the_images_of_labelled_data(folder: Path, tmp_path: Path):
    files = sorted(folder.rglob("*.jpg"))
    pairs = [(path, path.parent.name) for path in files]
    for given in (pairs, str(folder)):
        dataset = forebay.Dataset(given, cache=tmp_path / "cache", cache_bytes="100MB")
        labelled = dataset.with_labels({path.name: i for i, path in enumerate(files)})
        for _ in range(2):
            assert labels_of(labelled).tolist() == list(range(len(files)))
        again = pickle.loads(pickle.dumps(labelled))
        assert labels_of(again).tolist() == list(range(len(files)))
        assert labelled.cache is not None and labelled.cache is dataset.cache


def test_pages_of_samples_show_given_labels(flat: Path, tmp_path: Path):
    dataset = forebay.Dataset(flat)
    for labels, text in (
        (["lynx"] * COUNT, "lynx"),
        ([["puma", "lynx"]] * COUNT, "lynx, puma"),
        ([0.125] * COUNT, "0.125"),
    ):
        forebay.show(dataset.with_labels(labels), [T.Resize((32, 32))], out=tmp_path / "page.html")
        assert text in (tmp_path / "page.html").read_text()
