"""Tests data in place: tar shards and folders, with and without the index of `forebay index`."""

import glob
import io
import json
import os
import re
import subprocess
import tarfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import webdataset

import forebay
from conftest import FOREBAY, run_forebay
from forebay import transforms as T

TRAIN = [T.RandomResizedCrop(32), T.RandomHorizontalFlip()]  # uint8
Batches = list[tuple[torch.Tensor, torch.Tensor]]


def write_tar(path: Path, members: Iterable[tuple[str, bytes]]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def members_of(name: str, image: bytes) -> list[tuple[str, bytes]]:
    """Returns a sample's members; its number decides whether the image is first, second or last."""
    key, number = name.removesuffix(".jpg"), int(name[-7:-4])
    others = [(f"{key}.cls", f"{name[5]}\n".encode()), (f"{key}.json", b'{"a": 1}')]
    return [*others[: number % 3], (f"{key}.jpg", image), *others[number % 3 :]]


@pytest.fixture
def shards(images: dict[str, bytes], tmp_path: Path) -> Path:
    """Writes four shards in GNU tar's format."""
    folder = tmp_path / "shards"
    folder.mkdir()
    names = sorted(images, key=lambda name: name[-7:])
    for shard in range(4):
        members = (m for name in names[shard::4] for m in members_of(name, images[name]))
        write_tar(folder / f"x-{shard:02}.tar", members)
    return folder


@pytest.fixture
def copied(images: dict[str, bytes], tmp_path: Path) -> Path:
    """Makes a folder of the images that this test may change."""
    for name, content in images.items():
        path = tmp_path / "copied" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "copied"


def index(path: Path | str, *options: str) -> str:
    command = [FOREBAY, "index", str(path), *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def make(path: Path | str | forebay.Dataset, **options: Any) -> forebay.Loader:
    defaults: dict[str, Any] = {"transform": TRAIN, "shuffle": True, "seed": 5, "num_workers": 2}
    return forebay.Loader(path, options.pop("batch_size", 8), **{**defaults, **options})


def equal(a: Batches, b: Batches) -> bool:
    return len(a) == len(b) and all(
        torch.equal(x, y)
        for one, two in zip(a, b, strict=True)
        for x, y in zip(one, two, strict=True)
    )


def quiet(path: Path | str) -> forebay.Dataset:
    """Opens a dataset and fails if that gives a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return forebay.Dataset(path)


def test_shards_are_the_samples_that_pack_takes(
    shards: Path, images: dict[str, bytes], tmp_path: Path
):
    command = [FOREBAY, "pack", str(shards), str(tmp_path / "set"), "--order", "listed"]
    subprocess.run(command, check=True, capture_output=True)
    in_place, packed = quiet(shards), forebay.Dataset(tmp_path / "set")
    assert in_place.keys() == packed.keys()
    assert in_place.targets.tolist() == packed.targets.tolist()
    assert in_place.classes == packed.classes == []
    for i, key in enumerate(in_place.keys()):
        assert in_place.read(i) == images[f"{key}.jpg"]
        assert np.array_equal(in_place[i][0], packed[i][0])
        assert in_place.find(key) == i
    ordered: dict[str, Any] = {"shuffle": False, "transform": T.evaluate(size=48, resize=56)}
    assert equal(list(make(shards, **ordered)), list(make(packed.path, **ordered)))


def test_ways_to_name_shards(shards: Path):
    keys = quiet(shards).keys()
    assert quiet(f"{shards}/x-{{00..03}}.tar").keys() == keys
    assert quiet(f"{shards}/x-{{02..03}}.tar").keys() == keys[-len(keys) // 2 + 1 :]
    assert set(quiet(shards / "x-01.tar").keys()) < set(keys)


def test_shuffled_shards_give_each_sample_once(shards: Path, images: dict[str, bytes]):
    plain = [T.Resize(24), T.CenterCrop(16)]
    loader = make(shards, transform=plain, batch_size=7)
    ordered = list(make(shards, transform=plain, batch_size=7, shuffle=False))
    one, two = list(loader), list(loader)

    def samples(epoch: Batches) -> list[tuple[bytes, int]]:
        return [
            (image.numpy().tobytes(), int(label))
            for images, labels in epoch
            for image, label in zip(images, labels, strict=True)
        ]

    assert len(set(samples(ordered))) == len(images)
    assert sorted(samples(one)) == sorted(samples(two)) == sorted(samples(ordered))
    assert not equal(one, two) and not equal(one, ordered)
    assert equal(list(make(shards, transform=plain, batch_size=7)), one)


@pytest.mark.parametrize("where", ["shards", "copied"])
@pytest.mark.parametrize("checksums", [[], ["--checksums"]])
def test_an_index_changes_nothing_but_the_time(where: str, checksums: list[str], request):
    path = request.getfixturevalue(where)
    listed = quiet(path)
    expected = list(make(path))
    assert "70 images" in index(path, *checksums)
    indexed = quiet(path)
    assert indexed.fingerprint == listed.fingerprint
    assert indexed.keys() == listed.keys()
    assert indexed.targets.tolist() == listed.targets.tolist()
    assert equal(list(make(path)), expected)


@pytest.mark.parametrize("where", ["shards", "copied"])
def test_resumes_at_every_batch(where: str, request):
    path = request.getfixturevalue(where)
    loader = make(path)
    whole = list(loader)
    for taken in range(len(whole) + 1):
        first = make(path)
        steps = iter(first)
        for _ in range(taken):
            next(steps)
        state = first.state_dict()
        if taken == 3:
            index(path)  # a state belongs to the data, indexed or not
        again = make(path)
        again.load_state_dict(state)
        rest = list(again)
        assert equal(rest, whole[taken:] if taken < len(whole) else list(loader))


def test_an_index_out_of_date_is_told_and_not_used(shards: Path, copied: Path):
    index(copied)
    first = copied / "class0/000.jpg"
    (copied / "class0/a new one.jpg").write_bytes(first.read_bytes())
    with pytest.warns(UserWarning, match=r"added to or removed from .*class0.*run `forebay index"):
        assert len(forebay.Dataset(copied)) == 71
    index(copied)
    assert len(quiet(copied)) == 71

    index(shards)
    last = shards / "x-03.tar"
    last.rename(shards / "x-04.tar")
    with pytest.warns(UserWarning, match=r"the list of shards changed at .*x-04.tar"):
        assert len(forebay.Dataset(shards)) == 70
    (shards / "x-04.tar").rename(last)
    assert len(quiet(shards)) == 70
    os.utime(last, ns=(0, 0))
    with pytest.warns(UserWarning, match=r"x-03.tar was written to"):
        assert len(forebay.Dataset(shards)) == 70


def test_a_damaged_index_is_told_and_not_used(copied: Path):
    index(copied)
    path = copied / ".forebay-index"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.warns(UserWarning, match=r"checksum does not match: it is damaged") as caught:
        dataset = forebay.Dataset(copied)
    assert caught[0].filename == __file__
    assert len(dataset) == 70
    path.write_bytes(content[:100])
    with pytest.warns(UserWarning, match="damaged or cut off"):
        forebay.Dataset(copied)


def test_a_file_that_grew_is_a_bad_sample(copied: Path, images: dict[str, bytes]):
    index(copied)
    path = copied / "class1/001.jpg"
    path.write_bytes(images["class1/001.jpg"] + b"more")
    dataset = quiet(copied)  # the folder still lists the same files
    with pytest.raises(forebay.DataError, match="its size changed since it was indexed.*again"):
        dataset[dataset.keys().index("class1/001")]
    loader = make(copied)
    with pytest.warns(UserWarning, match="class1/001 cannot be used: .*its size changed"):
        assert sum(len(labels) for _, labels in loader) == 70
    assert [bad["key"] for bad in loader.bad_samples] == ["class1/001"]


def test_kept_checksums_are_compared(copied: Path, images: dict[str, bytes]):
    index(copied, "--checksums")
    content = bytearray(images["class1/001.jpg"])
    content[-3] ^= 1
    (copied / "class1/001.jpg").write_bytes(content)
    loader = make(copied)
    with pytest.warns(UserWarning, match="class1/001 cannot be used: .*checksum"):
        list(loader)


def test_a_shard_that_changed_gives_bad_samples_and_no_wrong_pixels(shards: Path):
    loader = make(shards, shuffle=False, batch_size=1)
    whole = list(loader)
    truncated = shards / "x-03.tar"
    count = len(quiet(truncated))
    os.truncate(truncated, 1500)
    loader.set_epoch(0)
    with pytest.warns(UserWarning, match=r"x-03.tar: changed since it was listed, from \d+ bytes"):
        rest = [batch for batch in loader if len(batch[1])]
    assert equal(rest, whole[:-count])
    assert len(loader.bad_samples) == count
    assert {bad["chunk"] for bad in loader.bad_samples} == {truncated.name}
    with pytest.raises(forebay.DataError, match=r"x-03.tar: truncated: member"):
        forebay.Dataset(shards)


def test_compressed_shards_are_refused(tmp_path: Path):
    (tmp_path / "x.tar").write_bytes(b"\x1f\x8b" + bytes(1000))
    with pytest.raises(forebay.DataError, match="unpack it with `gzip -d`"):
        forebay.Dataset(tmp_path / "x.tar")


def test_samples_left_out_are_told(shards: Path, images: dict[str, bytes]):
    image = next(iter(images.values()))
    write_tar(shards / "y.tar", [("no class.jpg", image), ("bad.jpg", image), ("bad.cls", b"x")])
    for _ in range(2):
        with pytest.warns(
            UserWarning,
            match='that are left out: 1; the first, bad.jpg: .cls: "x" is not a class',
        ):
            dataset = forebay.Dataset(shards)
        assert len(dataset) == 71
        assert dataset.targets[-1] == -1
        index(shards)


def test_a_bad_sample_is_the_same_one_wherever_its_data_lies(
    images: dict[str, bytes], tmp_path: Path
):
    """This holds also where a name is not UTF-8 and where the state went through JSON."""
    for place in ("here", "there"):
        (tmp_path / place / "a").mkdir(parents=True)
        for i, file in enumerate(list(images.values())[:5]):
            (tmp_path / place / "a" / f"{i}.jpg").write_bytes(file)
        (tmp_path / place / "a" / os.fsdecode(b"caf\xe9.jpg")).write_bytes(b"no image")
    loader = forebay.Loader(tmp_path / "here", 2, True, transform=T.train(16))
    with pytest.warns(UserWarning, match=r"a/caf\\xe9 cannot be used"):
        for _ in range(2):
            list(loader)
    assert [bad["key"] for bad in loader.bad_samples] == [r"a/caf\xe9"]
    moved = forebay.Loader(tmp_path / "there", 2, True, transform=T.train(16))
    moved.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    list(moved)
    assert moved.bad_samples == loader.bad_samples


def test_names_need_not_be_utf8(images: dict[str, bytes], tmp_path: Path):
    name = os.fsdecode(b"caf\xe9")
    (tmp_path / name / "a").mkdir(parents=True)
    (tmp_path / name / "a" / f"{name}.jpg").write_bytes(next(iter(images.values())))
    (tmp_path / name / "a" / "plain.jpg").write_bytes(next(iter(images.values())))
    dataset = forebay.Dataset(tmp_path / name)
    assert dataset.path == str(tmp_path / name)
    assert dataset.keys() == [f"a/{name}", "a/plain"]
    assert dataset.find(f"a/{name}") == 0
    assert dataset.key(0) == f"a/{name}"


def test_keys_may_begin_anew_in_each_shard(images: dict[str, bytes], tmp_path: Path):
    """Such shards, which WebDataset reads, were once refused."""
    files = list(images.values())[:8]
    for shard in range(4):
        pair = enumerate(files[shard * 2 : shard * 2 + 2])
        members = [
            (f"{i:06}.{end}", own) for i, f in pair for end, own in (("jpg", f), ("cls", b"1"))
        ]
        write_tar(tmp_path / f"shard-{shard:03}.tar", members)
    source = f"{tmp_path}/shard-{{000..003}}.tar"
    command = [FOREBAY, "pack", source, str(tmp_path / "set"), "--order", "listed"]
    subprocess.run(command, check=True, capture_output=True)
    for dataset in (quiet(source), quiet(tmp_path / "set")):
        assert dataset.keys() == [f"shard-{i // 2:03}/{i % 2:06}" for i in range(8)]
        assert dataset.find("shard-003/000001") == 7
        assert dataset.find("000001") is None
        assert [dataset.targets.tolist(), len(dataset)] == [[1] * 8, 8]
    assert [quiet(source).read(i) for i in range(8)] == files
    # The keys of a single shard need no prefix.
    assert quiet(tmp_path / "shard-001.tar").keys() == ["000000", "000001"]
    chunks = glob.glob(f"{tmp_path}/set/chunks/*.tar")
    read = webdataset.WebDataset(chunks, shardshuffle=False)
    assert sorted(sample["__key__"] for sample in read) == sorted(quiet(source).keys())


def test_folders_inside_tars_are_classes(images: dict[str, bytes], tmp_path: Path):
    """The labels were once all -1, and nothing said so."""
    members = [(f"./data/train/{name}", image) for name, image in images.items()]
    write_tar(tmp_path / "x.tar", members)
    command = [FOREBAY, "pack", str(tmp_path / "x.tar"), str(tmp_path / "set"), "--order", "listed"]
    subprocess.run(command, check=True, capture_output=True)
    index(tmp_path / "x.tar")
    for dataset in (quiet(tmp_path / "x.tar"), quiet(tmp_path / "set")):
        assert dataset.classes == ["class0", "class1", "class2"]
        classes = [key.split("/")[2] for key in dataset.column("key")]
        assert [f"class{n}" for n in dataset.targets] == classes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (_, labels) = next(iter(make(tmp_path / "x.tar", shuffle=False)))
    assert labels.tolist() == [int(name[5]) for name in list(images)[:8]]


def test_missing_labels_are_told_where_they_are_asked_for(images: dict[str, bytes], tmp_path: Path):
    members = [(f"{i}.jpg", image) for i, image in enumerate(list(images.values())[:4])]
    write_tar(tmp_path / "x.tar", members)
    assert quiet(tmp_path / "x.tar").targets.tolist() == [-1] * 4
    said = r'no sample has a class, so every label is -1\. .*\.cls.*folders.*fields=\["image"\]'
    for fields in (["image", "label"], {"x": "image", "y": "label"}):
        with pytest.warns(UserWarning, match=said) as caught:
            loader = make(tmp_path / "x.tar", fields=fields)
        assert len(caught) == 1
    with pytest.warns(UserWarning, match=said) as caught:
        forebay.Loader(tmp_path / "x.tar", 2)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(loader)) == 1
        make(tmp_path / "x.tar", fields=["image"])
        labelled = [("a.jpg", members[0][1]), ("a.cls", b"3")]
        write_tar(tmp_path / "y.tar", labelled)  # some samples have a label
        make(forebay.concat([quiet(tmp_path / "x.tar"), quiet(tmp_path / "y.tar")]))


def test_samples_without_a_class_among_others_are_named(images: dict[str, bytes], tmp_path: Path):
    members: list[tuple[str, bytes]] = []
    for number, image in enumerate(list(images.values())[:6]):
        members.append((f"{number}.jpg", image))
        if number not in (2, 5):
            members.append((f"{number}.cls", b"1"))
    write_tar(tmp_path / "some.tar", members)
    note = "2 of 6 samples have no class, so their label is -1; the first is 2"
    with pytest.warns(UserWarning, match=note):
        dataset = forebay.Dataset(tmp_path / "some.tar")
    assert dataset.targets.tolist() == [1, 1, -1, 1, 1, -1]
    with warnings.catch_warnings():  # the loader itself has nothing to add
        warnings.simplefilter("error")
        (_, labels) = next(iter(forebay.Loader(dataset, 6, transform=T.train(16))))
    assert labels.tolist() == [1, 1, -1, 1, 1, -1]
    assert note in run_forebay("verify", tmp_path / "some.tar").stderr
    run_forebay("index", tmp_path / "some.tar")
    with pytest.warns(UserWarning, match=note):
        forebay.Dataset(tmp_path / "some.tar")
    for order, first in (("listed", "2"), ("shuffled", "[25]")):
        place = tmp_path / order
        said = run_forebay("pack", tmp_path / "some.tar", place, "--order", order).stdout
        assert re.search(f"2 of 6 samples have no class, .* the first is {first}[.]", said)
        assert re.search("2 of 6 samples have no class", run_forebay("verify", place).stderr)
    # Where no sample has a class, or each has one, nothing is missing.
    write_tar(tmp_path / "none.tar", [(f"{n}.jpg", members[0][1]) for n in range(3)])
    assert "have no class" not in run_forebay("pack", tmp_path / "none.tar", tmp_path / "n").stdout
    assert "have no class" not in run_forebay("verify", tmp_path / "n").stderr


def test_what_is_left_out_is_said(images: dict[str, bytes], tmp_path: Path):
    """Images beside one hidden and one ordinary folder were a dataset of one sample in silence."""
    contents = list(images.values())
    names = [f"{i}.jpg" for i in range(5)] + [".ipynb_checkpoints/0.jpg", "extra/0.jpg", "x.tar.gz"]
    for name, content in zip(names, contents, strict=False):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    with pytest.warns(UserWarning) as said:
        dataset = forebay.Dataset(tmp_path)
    assert dataset.classes == ["extra"]
    texts = [str(one.message) for one in said]
    assert any("0.jpg: an image beside folders" in text and "(5 in all)" in text for text in texts)
    assert any(".ipynb_checkpoints: a hidden folder" in text for text in texts)
    assert any("x.tar.gz: a compressed archive" in text for text in texts)
    for command in (["verify", tmp_path], ["pack", tmp_path, tmp_path.parent / "packed"]):
        done = run_forebay(*command)
        shown = done.stdout + done.stderr
        for part in ("an image beside folders", "a hidden folder", "a compressed archive"):
            assert part in shown, (command, shown)
