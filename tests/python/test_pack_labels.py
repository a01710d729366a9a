"""Tests `forebay pack --labels`, and tars whose names are the classes of their images."""

import io
import json
import tarfile
from pathlib import Path

import pytest

import forebay
from conftest import make_jpeg, run_forebay
from test_labels import animals, flat, names, write_csv  # noqa: F401 (flat is a fixture)


def test_pack_takes_classes_from_a_table(flat: Path, tmp_path: Path):  # noqa: F811
    rows = [
        (name.removesuffix(".jpg"), animal, f'a "{i}", b|c', i / 2)
        for i, (name, animal) in enumerate(zip(names(), animals(), strict=True))
    ]
    table = write_csv(tmp_path / "t.csv", [("id", "label", "tags", "age"), *rows])
    run_forebay("pack", flat, tmp_path / "set", "--labels", table, "--labels-keep", "tags,age")
    packed = forebay.Dataset(tmp_path / "set")
    assert packed.classes == ["cat", "dog"]
    expected = forebay.Dataset(flat).with_labels(table, column="label")
    for name, animal, tags, age in rows:
        number = packed.find(f"{name}.jpg")
        assert packed.classes[packed.targets[number]] == animal
        assert packed.column("tags")[number] == tags and packed.column("age")[number] == str(age)
    assert sorted(packed.targets) == sorted(expected.targets)
    ages = packed.with_labels(packed.column("age"))
    assert sorted(ages.targets) == [i / 2 for i in range(len(rows))]
    tagged = packed.with_labels(packed.column("tags"), separator="|")
    assert tagged.targets.shape == (12, 13) and tagged.targets.sum() == 24
    run_forebay("verify", tmp_path / "set")
    report = run_forebay("pack", flat, tmp_path / "set", "--labels", table, "--labels-keep",
                         "tags,age", "--json").stdout  # fmt: skip
    assert '"already complete"' in report
    other = write_csv(tmp_path / "t.csv", [("id", "label"), *(row[:2] for row in rows[::-1])])
    again = run_forebay("pack", flat, tmp_path / "set", "--labels", other, code=1)
    assert "holds a complete dataset already" in again.stderr


def test_pack_takes_json_lines_and_drops_on_request(flat: Path, tmp_path: Path):  # noqa: F811
    lines = [{"image": n, "labels": i, "note": None if i else "x"} for i, n in enumerate(names())]
    table = tmp_path / "t.jsonl"
    table.write_text("".join(json.dumps(line) + "\n" for line in [*lines[1:], {"image": "zebra"}]))
    pack = ["pack", flat, tmp_path / "set", "--labels", table, "--labels-key", "image"]
    done = run_forebay(*pack, code=1)
    assert "no label for 1 of 12 samples, such as 000.jpg; --labels-missing drop" in done.stderr
    done = run_forebay(*pack, "--labels-missing", "drop", "--labels-column", "labels")
    assert "1 of its 12 rows are not in the source, such as zebra" in done.stdout
    assert "no label for 1 of 12 samples" in done.stdout
    packed = forebay.Dataset(tmp_path / "set")
    assert packed.classes == [] and sorted(packed.targets) == list(range(1, 12))


def test_pack_replaces_the_classes_of_folders(folder: Path, tmp_path: Path):
    dataset = forebay.Dataset(folder)
    rows = [(path, f" 00{i % 2} ") for i, path in enumerate(dataset.column("source_path"))]
    table = write_csv(tmp_path / "t.tsv", [])
    table.write_text("".join("\t".join(row) + "\r\n" for row in [("path", "kind"), *rows]))
    run_forebay("pack", folder, tmp_path / "set", "--labels", table)
    packed = forebay.Dataset(tmp_path / "set")
    assert packed.classes == ["000", "001"]
    kinds = dict(rows)
    for path, label in zip(packed.column("source_path"), packed.targets, strict=True):
        assert kinds[path].strip() == packed.classes[label]


def test_pack_refuses_wrong_tables(flat: Path, tmp_path: Path):  # noqa: F811
    rows = list(zip(names(), animals(), strict=True))
    for content, options, message in (
        ("id,a,b\n000,1,2\n", [], "it has the columns id, a, b; name the one with the classes"),
        ("id,y\n", [], "it has no rows"),
        ("id,y\n000,1,2\n", [], "line 2 has 3 fields, but line 1 names 2 columns"),
        ('id,y\n000,"a\nb', [], "line 2: a quote that does not end"),
        ('id,y\n000,"a"b\n', [], "line 2: text after the end of a quote"),
        ("id,id\n000,1\n", [], "line 1 must name the columns, each once"),
        ("id,y\nzebra,1\n", [], 'none of its 1 names, such as "zebra", is that of a sample'),
        ("id,y\n000,1\n000.jpg,2\n", [], "000.jpg has two rows, 0 and 1"),
        ("000.jpg,1\n001.jpg,2\n", [], "must name the columns, but has the name of a sample, 000"),
        ("id,y\n000,1\n", ["--labels-column", "z"], 'no column "z"; there are id, y'),
        ("id,y,key\n000,1,2\n", ["--labels-column", "y", "--labels-keep", "key"], "of this name"),
        ("id,y\n000, \n", [], "no label for"),
        ("id,y\n000,1.5\n001,2\n", [], "has numbers such as 1.5, but forebay packs classes"),
        ("id,y\n" + "".join(f"{n},-1\n" for n, _ in rows), [], "-1 is no class number"),
    ):
        table = tmp_path / "t.csv"
        table.write_text(content)
        options = ["--labels-missing", "drop", *options]
        done = run_forebay("pack", flat, tmp_path / "set", "--labels", table, *options, code=1)
        assert message in done.stderr, (content, done.stderr)
    (tmp_path / "t.jsonl").write_text('{"id": "000", "y": ["a"]}\n')
    done = run_forebay("pack", flat, tmp_path / "set", "--labels", tmp_path / "t.jsonl", code=1)
    assert 'the column y has ["a"], but a class is one text' in done.stderr
    run_forebay("pack", flat, tmp_path / "set", "--labels-column", "y", code=2)
    (tmp_path / "t.txt").write_text("")
    done = run_forebay("pack", flat, tmp_path / "set", "--labels", tmp_path / "t.txt", code=1)
    assert "a table is a file named .csv" in done.stderr


def write_tar(path: Path, images: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for i, name in enumerate(images):
            content = make_jpeg(i)
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def test_imagenets_tars_are_classes(tmp_path: Path):
    ids = ["n01440764", "n01443537", "n02102040"]
    for synset in ids[::-1]:
        images = [f"{synset}_{i}.JPEG" for i in (18, 3, 10026)]
        write_tar(tmp_path / "ILSVRC2012_img_train" / f"{synset}.tar", images)
    with pytest.warns(UserWarning, match="each shard is a class"):
        dataset = forebay.Dataset(tmp_path / "ILSVRC2012_img_train")
    assert dataset.classes == ids and dataset.targets.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert dataset.column("source_path")[3] == "n01443537_18.JPEG"
    assert dataset.find("n02102040_10026.JPEG") == 8
    done = run_forebay("pack", tmp_path / "ILSVRC2012_img_train", tmp_path / "set")
    assert "each shard is a class" in done.stdout
    packed = forebay.Dataset(tmp_path / "set")
    assert packed.classes == ids and sorted(packed.targets) == dataset.targets.tolist()
    run_forebay("index", tmp_path / "ILSVRC2012_img_train")
    with pytest.warns(UserWarning, match="each shard is a class"):
        indexed = forebay.Dataset(tmp_path / "ILSVRC2012_img_train")
    assert indexed.fingerprint == dataset.fingerprint and indexed.classes == ids


def test_other_tars_are_no_classes(tmp_path: Path):
    write_tar(tmp_path / "one/n01440764.tar", ["n01440764_1.JPEG"])
    write_tar(tmp_path / "two/cats.tar", ["cats_1.jpg", "dog_1.jpg"])
    write_tar(tmp_path / "two/dogs.tar", ["dogs_1.jpg"])
    write_tar(tmp_path / "three/part1.tar", ["part12.jpg"])
    write_tar(tmp_path / "three/part2.tar", ["part21.jpg"])
    for name in ("one", "two", "three"):
        assert forebay.Dataset(tmp_path / name).classes == []
    parts = {name: forebay.Dataset(tmp_path / f"two/{name}.tar") for name in ("cats", "dogs")}
    both = forebay.concat([one.with_labels([name] * len(one)) for name, one in parts.items()])
    assert both.classes == ["cats", "dogs"] and both.targets.tolist() == [0, 0, 1]


def test_the_trainer_learns_packed_labels_and_refuses_others(flat: Path, tmp_path: Path):  # noqa: F811
    rows = [(name, "dark" if i % 2 else "light", i / 4) for i, name in enumerate(names())]
    table = write_csv(tmp_path / "t.csv", [("image", "look", "age"), *rows])
    options = ["--labels", table, "--labels-column", "look"]
    run_forebay("pack", flat, tmp_path / "set", *options)
    words = ["--epochs", 1, "--batch", 4, "--width", 1, "--size", 32, "--crop", "resized"]
    done = run_forebay("train", tmp_path / "set", "--out", tmp_path / "out", *words)
    assert "of 2 classes on 12 samples" in done.stderr
    run_forebay("pack", flat, tmp_path / "ages", "--labels", table, "--labels-keep", "look,age")
    done = run_forebay("train", tmp_path / "ages", "--out", tmp_path / "none", *words, code=1)
    assert "no sample has a class to learn, and forebay train learns one class" in done.stderr
