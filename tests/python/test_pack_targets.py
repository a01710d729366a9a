"""Annotations and masks that `forebay pack` stores with the images: the dataset alone has them."""

import io
import json
import pickle
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import forebay
from conftest import make_jpeg, run_forebay
from forebay import transforms as T
from places import on_web, s3_options
from servers.nginx import Nginx
from servers.s3 import S3
from test_targets import TRANSFORMS, annotation, batches, same

IMAGES = 14
FIELDS = [
    "image", "boxes", "labels", "area", "iscrowd", "masks", "keypoints", "captions", "image_id",
    "mask", "target", "index",
]  # fmt: skip
EACH = T.Resize((24, 30))  # draws nothing


def mask_of(width: int, height: int, number: int) -> Image.Image:
    random = np.random.default_rng(number)
    wide = number % 3 == 0
    labels = random.integers(0, 65536 if wide else 256, (height, width))
    return Image.fromarray(labels.astype(np.uint16 if wide else np.uint8))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images by class, masks and annotations; one image is unknown to these, one has no objects."""
    root = tmp_path_factory.mktemp("pack_targets")
    random = np.random.default_rng(5)
    known: dict[str, list[Any]] = {"images": [], "annotations": [], "categories": []}
    known["categories"] = [{"id": number, "name": f"kind {number}"} for number in range(1, 91)]
    for i in range(IMAGES):
        name = f"{'cat' if i % 3 else 'dog'}/a.{i:02}"
        with Image.open(io.BytesIO(make_jpeg(i))) as image:
            width, height = image.size
            (root / "images" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "masks" / name).parent.mkdir(parents=True, exist_ok=True)
            image.save(root / f"images/{name}.{'png' if i == 4 else 'jpg'}")
        mask_of(width, height, i).save(root / f"masks/{name}.png")
        if i == 6:
            continue
        entry = {"id": 70 + i, "file_name": f"{name}.jpg", "height": height, "width": width}
        known["images"].append(entry)
        for _ in range([0, 1, 3, 30, 2, 7][i % 6]):
            one = annotation(len(known["annotations"]), random, width, height)
            known["annotations"].append({**one, "image_id": 70 + i})
        texts = [{"image_id": 70 + i, "caption": f"ein Bild: ü {i} {n}"} for n in range(i % 3)]
        known["annotations"] += texts
    (root / "all.json").write_text(json.dumps(known))
    return root


def pack(source: Path, to: Path, *options: object) -> dict[str, Any]:
    """Packs images, annotations and masks, and returns the report."""
    own = ("--annotations", source / "all.json", "--masks", source / "masks", "--json")
    done = run_forebay("pack", source / "images", to, *own, *options)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def packed(source: Path) -> Path:
    """The same in several chunks, in the order of the folder."""
    report = pack(source, source / "set", "--order", "listed", "--chunk-bytes", "70000")
    assert report["chunks"] > 3 and report["kept"]["masks"] == IMAGES
    assert report["remarks"] == [["--annotations", "3 of 14 samples have no annotations"]]
    return source / "set"


def in_place(source: Path) -> forebay.Dataset:
    return forebay.Dataset(
        source / "images", annotations=source / "all.json", masks=source / "masks"
    )


def by_key(dataset: forebay.Dataset, **options: Any) -> dict[str, Any]:
    """What a loader gives of each sample, without its number."""
    fields = [field for field in FIELDS if field != "index"]
    out = {}
    for *values, index in batches(dataset, transform=[EACH], fields=[*fields, "index"], **options):
        for i, number in enumerate(index.tolist()):
            out[dataset.key(number)] = [value[i] for value in values]
    return out


@pytest.mark.parametrize(
    "transform", [TRANSFORMS[i] for i in (0, 1, 2, 5, 11, 13, 15, 19)], ids=lambda v: str(v)[:60]
)
def test_batches_are_those_of_the_data_in_place(transform: list[Any], source: Path, packed: Path):
    options = {"transform": [*transform, T.RandomGrayscale(0.1)], "fields": FIELDS}
    expected = batches(in_place(source), **options)
    assert same(batches(forebay.Dataset(packed), **options), expected)
    assert same(batches(forebay.Dataset(packed), num_workers=1, **options), expected)


def test_a_shuffled_pack_has_the_same_by_key(source: Path, packed: Path, tmp_path: Path):
    expected = by_key(in_place(source))
    pack(source, tmp_path / "set", "--seed", "3")
    found = by_key(forebay.Dataset(tmp_path / "set"), shuffle=True)
    assert list(found) != list(expected) and found.keys() == expected.keys()
    assert all(same(found[key], expected[key]) for key in expected)


def test_a_copy_in_another_process_has_them(packed: Path):
    dataset = forebay.Dataset(packed)
    unread = pickle.loads(pickle.dumps(dataset))
    first = batches(dataset, fields=FIELDS)
    assert same(first, batches(unread, fields=FIELDS))
    assert same(first, batches(pickle.loads(pickle.dumps(dataset)), fields=FIELDS))


def test_names_of_categories_are_packed(source: Path, packed: Path):
    objects, all_of_them = forebay.Dataset(packed).objects, in_place(source).objects
    assert objects is not None and all_of_them is not None
    used = set(objects.columns["labels"].tolist())
    assert objects.categories == {k: v for k, v in all_of_them.categories.items() if k in used}


def test_turned_images_may_have_masks_as_they_are_shown(tmp_path: Path):
    (tmp_path / "masks").mkdir()
    (tmp_path / "images").mkdir()
    tags = Image.Exif()
    tags[274] = 6  # shown after a quarter turn
    for i, size in enumerate([(40, 30), (30, 40)]):
        photo = np.random.default_rng(i).integers(0, 256, (30, 40, 3), dtype=np.uint8)
        Image.fromarray(photo).save(tmp_path / f"images/{i}.jpg", exif=tags)
        mask_of(*size, 1).save(tmp_path / f"masks/{i}.png")
    places = (tmp_path / "images", tmp_path / "set", "--masks", tmp_path / "masks")
    run_forebay("pack", *places, "--order", "listed")
    plain = forebay.Dataset(tmp_path / "images", masks=tmp_path / "masks")
    options: dict[str, Any] = {"fields": ["image", "mask"], "orientation": "apply"}
    expected = batches(plain, **options)
    assert len(expected[0][0]) == 2
    assert same(batches(forebay.Dataset(tmp_path / "set"), **options), expected)


def test_from_servers(source: Path, packed: Path, nginx: Nginx, s3: S3, tmp_path: Path):
    bucket = s3.make_bucket()
    env = {**s3.write_profiles(tmp_path), "AWS_PROFILE": "owner"}
    run_forebay("cp", packed, f"s3://{bucket}/set", env=env)
    copies = [
        forebay.Dataset(f"s3://{bucket}/set", storage_options=s3_options(s3)),
        forebay.Dataset(f"{nginx.url}/{on_web(nginx, packed)}"),
    ]
    for transform in ([T.RandomResizedCrop(24, (0.05, 0.2))], TRANSFORMS[11]):
        options = {"transform": transform, "fields": FIELDS, "shuffle": True}
        expected = batches(forebay.Dataset(packed), **options)
        for copy in copies:
            assert same(batches(copy, **options), expected)
    run_forebay("verify", f"s3://{bucket}/set", env=env)


def test_parts_and_sums(source: Path, packed: Path, nginx: Nginx):
    here, there = forebay.Dataset(packed), forebay.Dataset(f"{nginx.url}/{on_web(nginx, packed)}")
    order = [6, 2, 2, 0, 11, 13, 12]
    expected = by_key(in_place(source))
    for both in (
        here.subset(order),
        here.filter(here.column("height") > 100),
        forebay.concat([here.subset(order), there]),
        forebay.concat([in_place(source), here]).subset([1, 20, 5, 27]),
        pickle.loads(pickle.dumps(forebay.concat([there, here.subset([3])]))),
    ):
        found = by_key(both)
        assert found.keys() == set(both.keys())
        assert all(same(found[key], expected[key]) for key in found)
    images = forebay.Dataset(source / "images")
    mixed = forebay.concat([here, images])
    assert len(batches(mixed, fields=["image", "label"])) == 10
    with pytest.raises(ValueError, match="only some have masks"):
        batches(mixed, fields=["image", "mask"])


def test_what_is_given_is_taken_instead(source: Path, packed: Path, tmp_path: Path):
    known = json.loads((source / "all.json").read_text())
    for one in known["annotations"]:
        one["category_id"] = 5
    (tmp_path / "other.json").write_text(json.dumps(known))
    dataset = forebay.Dataset(packed, annotations=tmp_path / "other.json")
    expected = forebay.Dataset(
        source / "images", annotations=tmp_path / "other.json", masks=source / "masks"
    )
    assert same(batches(dataset, fields=FIELDS), batches(expected, fields=FIELDS))
    shutil.copytree(source / "masks", tmp_path / "masks")
    for path in (tmp_path / "masks").rglob("*.png"):
        with Image.open(path) as mask:
            Image.fromarray(np.full(mask.size[::-1], 7, np.uint8)).save(path)
    dataset = forebay.Dataset(packed, masks=tmp_path / "masks")
    masks = [mask for _, mask, _ in batches(dataset, fields=["image", "mask", "boxes"])]
    assert all((mask == 7).all() for mask in masks)


def test_nothing_of_it_is_read_for_images_and_labels(packed: Path):
    dataset = forebay.Dataset(packed)
    batches(dataset, fields=["image", "label"], transform=[T.RandomIoUCrop(), EACH][1:])
    assert "objects" not in vars(dataset)
    with pytest.raises(ValueError, match="no 'box'; there are .*'boxes'"):
        batches(dataset, fields=["image", "box"])


def shard(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


@pytest.mark.parametrize("name", ["mask.png", "seg.png"])
def test_masks_of_shards(name: str, tmp_path: Path):
    members: dict[str, bytes] = {}
    for i in range(6):
        members[f"{i}.jpg"] = make_jpeg(i)
        with Image.open(io.BytesIO(members[f"{i}.jpg"])) as image:
            mask = io.BytesIO()
            mask_of(*image.size, i).save(mask, "PNG")
        if i != 5:
            members[f"{i}.{name}"] = mask.getvalue()
    shard(tmp_path / "x.tar", members)
    run_forebay("pack", tmp_path / "x.tar", tmp_path / "set", "--order", "listed")
    dataset = forebay.Dataset(tmp_path / "set")
    with pytest.warns(UserWarning, match="the sample's mask: it is missing or empty"):
        loaded = batches(
            dataset, transform=[T.RandomInvert(0)], fields=["image", "mask", "index"], on_bad="skip"
        )
    seen = 0
    for _, masks, index in loaded:
        for mask, number in zip(masks, index.tolist(), strict=True):
            with Image.open(io.BytesIO(members[f"{number}.{name}"])) as expected:
                assert torch.equal(mask.int(), torch.from_numpy(np.asarray(expected).astype("i4")))
            seen += 1
    assert seen == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "has no list 'images' with its one image"),
        ("[" * 100_000 + "]" * 100_000, "not JSON: .*recursion"),
        ('{"images": [{"id": 1, "file_name": "a"}], "annotations": 3}', "must be a list"),
        ('{"images": [{"id": 1, "file_name": "a"}], "annotations": [{"image_id": 1, "bbox": [1]}]}',
         "bbox is .1., but must be 4 numbers"),
    ],
    ids=["object", "deep", "number", "box"],
)  # fmt: skip
def test_bad_annotations_of_shards_are_named(text: str, message: str, tmp_path: Path):
    shard(tmp_path / "x.tar", {"a.jpg": make_jpeg(1), "a.coco.json": text.encode()})
    run_forebay("pack", tmp_path / "x.tar", tmp_path / "set")
    dataset = forebay.Dataset(tmp_path / "set")
    assert len(batches(dataset, fields=["image"])) == 1
    with pytest.raises(ValueError, match=message):
        batches(dataset, fields=["image", "boxes"])


def test_a_damaged_mask_is_found(packed: Path, tmp_path: Path):
    shutil.copytree(packed, tmp_path / "set")
    said = run_forebay("inspect", packed, "cat/a%2E05").stdout
    assert '.mask.png (field "mask.png")' in said and "coco.json: {" in said
    chunk = Path(next(word for word in said.split() if word.endswith(".tar"))).name
    offset = int(said.split(".mask.png")[1].split("from byte ")[1].split()[0])
    path = tmp_path / "set/chunks" / chunk
    content = bytearray(path.read_bytes())
    content[offset + 70] ^= 1
    path.write_bytes(content)
    found = run_forebay("verify", tmp_path / "set", code=1)
    assert "cat/a%2E05" in found.stdout and ".mask.png: CRC32C" in found.stdout
    with pytest.warns(UserWarning, match="the sample's mask: its bytes do not have the checksum"):
        loaded = batches(forebay.Dataset(tmp_path / "set"), fields=FIELDS, on_bad="skip")
    assert sum(len(batch[0]) for batch in loaded) == IMAGES - 1


def test_export_gives_them_back(source: Path, packed: Path, tmp_path: Path):
    run_forebay("verify", packed)
    run_forebay("export", packed, tmp_path / "images")
    files = [path for path in (tmp_path / "images").rglob("*") if path.is_file()]
    assert len(files) == IMAGES
    run_forebay("export", "--all-fields", packed, tmp_path / "all")
    for mask in (source / "masks").rglob("*.png"):
        name = mask.relative_to(source / "masks").with_suffix("")
        assert (tmp_path / f"all/{name}.mask.png").read_bytes() == mask.read_bytes()
    known = json.loads((tmp_path / "all/cat/a.05.coco.json").read_text())
    assert [image["file_name"] for image in known["images"]] == ["cat/a.05.jpg"]
    one = forebay.Dataset(tmp_path / "images", annotations=tmp_path / "all/cat/a.05.coco.json")
    assert one.objects is not None and one.objects.counts.sum() == 7
    # What lies beside the images is no image.
    assert forebay.Dataset(tmp_path / "all").keys() == one.keys()


def test_what_cannot_be_packed_is_named(source: Path, tmp_path: Path):
    def refused(*options: object) -> str:
        done = run_forebay("pack", source / "images", tmp_path / "set", *options, code=1)
        assert not (tmp_path / "set").exists()
        return done.stderr

    (tmp_path / "bad.json").write_text('{"images": []')
    assert "bad.json: not the JSON expected" in refused("--annotations", tmp_path / "bad.json")
    assert "none.json" in refused("--annotations", tmp_path / "none.json")
    (tmp_path / "bad.json").write_text(
        '{"images": [], "annotations": [{"id": 7, "image_id": 1, "bbox": [1]}]}'
    )
    assert "annotation 7: bbox is [1], but must be 4 numbers" in refused(
        "--annotations", tmp_path / "bad.json"
    )
    shutil.copytree(source / "masks/cat", tmp_path / "masks/cat")
    assert "no mask for 5 of 14 images, such as dog/" in refused("--masks", tmp_path / "masks")
    assert "--resize with --annotations" in refused("--resize", 64, "--masks", source / "masks")
    options = ["--annotations", source / "masks"]
    done = run_forebay("pack", source / "images", tmp_path / "set", *options, code=2)
    assert "is a folder, but only a JSON file in COCO's format is packed" in done.stderr
