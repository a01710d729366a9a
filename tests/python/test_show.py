"""`forebay show` and forebay.show(): the page has the Loader's samples, whatever the data holds."""

import base64
import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image

import forebay
from conftest import FOREBAY, make_jpeg
from forebay import transforms as T
from forebay.preview import __main__ as show_command
from peer_torchvision import v2
from servers.browser import Browser

HOSTILE = "<script>alert('hacked')</script>\"'&amp;"
IMAGES = 9
NAMES = {1: "person", 7: HOSTILE}
BOXES = [
    T.RandomZoomOut(side_range=(1, 2), p=1),
    T.RandomIoUCrop(),
    T.RandomHorizontalFlip(),
    T.SanitizeBoundingBoxes(),
]


class Figure:
    """A figure of the page: its caption, picture, overlays, boxes and points."""

    def __init__(self, text: str) -> None:
        self.caption = html.unescape(re.findall("<figcaption>(.*)</figcaption>", text)[0])
        self.text = text
        svg = re.findall("<svg.*</svg>", text)
        self.svg = ElementTree.fromstring(svg[0]) if svg else ElementTree.Element("none")
        self.images = [
            Image.open(io.BytesIO(base64.b64decode(one.attrib["href"].split(",")[1])))
            for one in self.svg.findall("image")
        ]

    @property
    def pixels(self) -> np.ndarray:
        return np.asarray(self.images[0].convert("RGB"))

    @property
    def boxes(self) -> np.ndarray:
        rects = [[float(one.attrib[k]) for k in ("x", "y", "width", "height")]
                 for one in self.svg.iter("rect")]  # fmt: skip
        x, y, width, height = np.array(rects).reshape(-1, 4).T
        return np.stack([x, y, x + width, y + height], 1)

    @property
    def points(self) -> np.ndarray:
        found = [[float(one.attrib[k]) for k in ("cx", "cy")] for one in self.svg.iter("circle")]
        return np.array(found).reshape(-1, 2)

    def covered(self, overlay: int) -> np.ndarray:
        return np.asarray(self.images[overlay].convert("RGBA"))[..., 3] > 0


def figures(page: Path) -> dict[str, list[Figure]]:
    """The figures of each sample, by its key."""
    sections = re.findall("<section><h2>(.*?)(?: <span.*?)?</h2>(.*?)</section>",
                          page.read_text(), re.DOTALL)  # fmt: skip
    return {
        html.unescape(key): [Figure(one) for one in re.findall("<figure>.*?</figure>", text)]
        for key, text in sections
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photographs of two classes, COCO's annotations of them, and masks."""
    root = tmp_path_factory.mktemp("show")
    random = np.random.default_rng(5)
    known: dict[str, list[Any]] = {"images": [], "annotations": []}
    known["categories"] = [{"id": k, "name": name} for k, name in NAMES.items()]
    known["categories"] += [{"id": 8}, {"name": "no id"}, None]
    for i in range(IMAGES):
        name = f"{['cat', 'dog'][i % 2]}/{i:03}"
        for kind in ("images", "masks"):
            (root / kind / name).parent.mkdir(parents=True, exist_ok=True)
        (root / f"images/{name}.jpg").write_bytes(make_jpeg(i))
        width, height = Image.open(root / f"images/{name}.jpg").size
        labels = np.zeros((height, width), np.uint8)
        labels[height // 3 :, : width // 2] = 1 + i % 3
        Image.fromarray(labels).save(root / f"masks/{name}.png")
        known["images"].append(
            {"id": i, "file_name": f"{name}.jpg", "width": width, "height": height}
        )
        for number in range(i % 4):
            left, top = random.uniform(0, [width / 2, height / 2]).round(2).tolist()
            right, low = left + width / 3, top + height / 4
            known["annotations"].append({
                "id": 10 * i + number, "image_id": i, "category_id": [1, 7, 9][number],
                "bbox": [left, top, width / 3, height / 4], "area": 5, "iscrowd": 0,
                "segmentation": [[left, top, right, top, right, low]],
                "keypoints": [left, top, 2, right, top, 1, right, low, 0],
            })  # fmt: skip
        known["annotations"].append({"id": 900 + i, "image_id": i, "caption": f"{HOSTILE} {i}"})
    (root / "all.json").write_text(json.dumps(known))
    return root


def opened(place: Path) -> forebay.Dataset:
    return forebay.Dataset(place / "images", annotations=place / "all.json", masks=place / "masks")


def epochs(dataset: forebay.Dataset, transform: Any, count: int, *fields: str) -> dict[str, list]:
    """What training gets of each sample in each epoch, by its key."""
    out: dict[str, list[Any]] = {}
    wanted = ("key", "image", *fields)
    loader = forebay.Loader(dataset, 4, True, transform=transform, fields=wanted, seed=3)
    for _ in range(count):
        for batch in loader:
            for sample in zip(*batch, strict=True):
                out.setdefault(sample[0], []).append(dict(zip(wanted, sample, strict=True)))
    return out


CUT = [T.RandomResizedCrop((40, 56)), T.RandomHorizontalFlip(), T.ColorJitter(0.4, 0.4, 0.4, 0.1)]
V2 = [v2.ToImage(), v2.RandomResizedCrop(48), v2.RandomVerticalFlip()]
NUMBERS = [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.2, 0.5, 0.7], [0.9, 0.1, 2])]
TRANSFORMS: dict[str, tuple[list[Any], list[Any]]] = {
    "core": (CUT, [T.Normalize()]),
    "own-mean": (CUT, [T.Normalize((0.1, 0.9, 0.3), (2, 0.01, 1))]),
    "bytes": (CUT, []),
    "zero-to-one": (CUT, [T.Normalize((0, 0, 0), (1, 1, 1))]),
    "function-after": ([*CUT[:2]], [T.Normalize(), lambda image: image.flip(0).double().flip(0)]),
    "torchvision": (V2, NUMBERS),
    "in-python": ([*V2, v2.ElasticTransform()], NUMBERS),
    "twice": ([*CUT[:2]], [T.Normalize((0, 0, 0), (1, 1, 1)), torch.nn.Identity(), NUMBERS[1]]),
    "floats": ([*CUT[:2]], [lambda image: image / 255]),
}


@pytest.mark.filterwarnings("ignore:.*in Python:UserWarning")
@pytest.mark.parametrize("case", TRANSFORMS)
def test_the_page_has_the_loaders_pixels(case: str, place: Path, tmp_path: Path):
    before, after = TRANSFORMS[case]
    dataset = forebay.Dataset(place / "images")
    expected = epochs(dataset, before, 2)
    forebay.show(dataset, [*before, *after], out=tmp_path / "page.html", draws=2, seed=3)
    shown = figures(tmp_path / "page.html")
    assert shown.keys() == set(dataset.keys())
    for key, (stored, *draws) in shown.items():
        whole = np.asarray(Image.open(place / f"images/{key}.jpg"))
        assert np.array_equal(stored.pixels, whole)
        assert stored.caption == f"stored · {whole.shape[1]} × {whole.shape[0]}"
        assert len(draws) == 2
        for epoch, draw in enumerate(draws):
            pixels = expected[key][epoch]["image"].numpy().transpose(1, 2, 0)
            assert np.array_equal(draw.pixels, pixels), (key, epoch)
            assert draw.caption.startswith(f"epoch {epoch} · ")


@pytest.mark.parametrize("format", ["XYXY", "XYWH", "CXCYWH"])
def test_boxes_masks_and_points_are_the_loaders(format: str, place: Path, tmp_path: Path):
    dataset = opened(place)
    expected = epochs(dataset, BOXES, 3, "boxes", "labels", "keypoints", "masks", "mask")
    transform = [T.ConvertBoundingBoxFormat(format), *BOXES, T.Normalize()]
    page = tmp_path / "page.html"
    forebay.show(dataset, transform, out=page, draws=3, seed=3)
    count = 0
    for key, (_, *draws) in figures(page).items():
        for draw, sample in zip(draws, expected[key], strict=True):
            pixels = sample["image"].numpy().transpose(1, 2, 0)
            assert np.array_equal(draw.pixels, pixels)
            assert draw.svg.attrib["viewBox"] == f"0 0 {pixels.shape[1]} {pixels.shape[0]}"
            np.testing.assert_allclose(draw.boxes, sample["boxes"], rtol=0, atol=1e-4)
            points = sample["keypoints"].numpy()
            assert np.array_equal(draw.points.astype(np.float32), points[points[..., 2] > 0][:, :2])
            if len(sample["masks"]) > 0:
                assert np.array_equal(draw.covered(1), sample["masks"].numpy().any(0))
            assert np.array_equal(draw.covered(-1), sample["mask"].numpy() != 0)
            names = [one.text for one in draw.svg.iter("title")]
            own = sample["labels"].tolist()
            assert names == [NAMES.get(label, f"label {label}") for label in own]
            assert f" {len(own)} object" in draw.caption
            count += len(own)
    assert count > 20


def test_stored_pictures_have_their_own_objects(place: Path, tmp_path: Path):
    forebay.show(opened(place), out=tmp_path / "page.html", draws=1)
    known = json.loads((place / "all.json").read_text())
    sizes = {Path(one["file_name"]).stem: one["id"] for one in known["images"]}
    for key, (stored, _) in figures(tmp_path / "page.html").items():
        number = sizes[key.split("/")[1]]
        own = [one["bbox"] for one in known["annotations"]
               if one["image_id"] == number and "bbox" in one]  # fmt: skip
        found = stored.boxes - np.tile(stored.boxes[:, :2], 2) * [0, 0, 1, 1]
        np.testing.assert_allclose(found, np.reshape(own, (-1, 4)), atol=1e-3)
        assert stored.caption.endswith(f"“{HOSTILE} {number}”")


def test_each_class_has_a_colour_of_its_own_on_masks_and_in_the_legend(place: Path, tmp_path: Path):
    page = tmp_path / "page.html"
    forebay.show(opened(place), [T.Pad(0)], out=page, draws=1)
    legend = re.findall('fill="(#[0-9a-f]{6})"/></svg>(.*?)</li>', page.read_text())
    colours = {html.unescape(name): colour for colour, name in legend}
    assert colours.keys() == {"person", HOSTILE, "label 9", "mask 1", "mask 2", "mask 3"}
    for stored, _ in figures(page).values():
        for rect in stored.svg.iter("rect"):
            assert rect.attrib["stroke"] == colours[rect[0].text or ""]
        overlay = np.asarray(stored.images[-1].convert("RGBA"))
        height = len(overlay)
        colour = f"#{bytes(overlay[height - 2, 2, :3]).hex()}"
        assert colour in [colours[f"mask {number}"] for number in (1, 2, 3)]
        assert 0 < overlay[height - 1, 2, 3] < overlay[height // 3, 2, 3] < 255


def test_large_pictures_are_shrunk_and_boxes_stay_where_they_are(tmp_path: Path):
    pixels = np.zeros((1701, 1203, 3), np.uint8)
    pixels[600:900, 300:601] = 255
    (tmp_path / "images").mkdir()
    Image.fromarray(pixels).save(tmp_path / "images/a.png")
    known = {
        "images": [{"id": 1, "file_name": "a.png"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 4, "bbox": [300, 600, 301, 300],
                         "segmentation": [[300, 600, 601, 600, 601, 900, 300, 900]]}],
    }  # fmt: skip
    (tmp_path / "known.json").write_text(json.dumps(known))
    forebay.show(tmp_path / "images", [T.Pad(0)], annotations=tmp_path / "known.json",
                 out=tmp_path / "page.html", draws=1)  # fmt: skip
    for one in figures(tmp_path / "page.html")["a"]:
        assert one.svg.attrib["viewBox"] == "0 0 1203 1701"
        assert one.boxes.tolist() == [[300, 600, 601, 900]]
        assert one.images[0].size == one.images[1].size == (401, 567)  # a third
        assert one.svg[0].attrib["width"] == "1203" and one.svg[0].attrib["height"] == "1701"
        assert (one.pixels[200:300, 100:200] == 255).all() and one.pixels[199, 150, 0] == 0
        assert one.pixels[250, 200].tolist() == [85] * 3  # one column of three
        assert one.covered(1)[200:300, 100:200].all() and not one.covered(1)[199].any()


def command(*words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [FOREBAY, "show", *map(str, words)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    return done


RECIPE = """
import torch
from torchvision.transforms import v2
from forebay import transforms as T
import beside

train = [T.Resize((32, 32)), T.Normalize()]
one = T.CenterCrop(32)
def makes(size=32): return [T.Resize((size, size)), beside.last]
theirs = v2.Compose([v2.Resize((32, 32)), v2.ToImage()])
def function(image): return image[:, :32, :32]
cut = [T.CenterCrop(64), function]
class Module(torch.nn.Module):
    def forward(self, image): return image[:, :32, :32]
module = [T.CenterCrop(64), Module()]
nothing, number, text, empty = None, 3, "train", lambda: None
def breaks(): raise RuntimeError("at once")
def fails(image): raise ValueError("with this image")
bad = [T.Resize((32, 32)), fails]
flat = [T.Resize((32, 32)), lambda image: image.float().mean((1, 2))]
many = [T.Resize((32, 32)), lambda image: torch.cat([image, image])]
whole = [T.Resize((32, 32)), lambda image: image.int()]
words = [T.Resize((32, 32)), lambda image: "no image"]
order = [T.Normalize(), T.Resize((32, 32))]
mixing = [T.Resize((32, 32)), T.MixUp(num_classes=2)]
"""


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    (folder / "recipe.py").write_text(RECIPE)
    (folder / "beside.py").write_text("from forebay.transforms import Normalize\nlast=Normalize()")
    (folder / "broken.py").write_text("def train(:")
    (folder / "exits.py").write_text("import sys; sys.exit('usage: exits.py')")
    return folder


def test_the_command_takes_all_options(place: Path, recipes: Path, tmp_path: Path):
    first, again = tmp_path / "first.html", tmp_path / "again.html"
    words = [place / "images", "--transform", f"{recipes}/recipe.py:makes", "--samples", 4,
             "--annotations", place / "all.json", "--masks", place / "masks", "--draws", 3,
             "--seed", 8]  # fmt: skip
    done = command(*words, "--out", first)
    assert done.stdout.startswith(f"{first}: 0.") and done.stderr == ""
    shown = figures(first)
    assert [len(one) for one in shown.values()] == [4] * 4
    assert all(one.pixels.shape == (32, 32, 3) for row in shown.values() for one in row[1:])
    text = first.read_text()
    for said in (str(place / "images"), "4 of 9, each as it is stored and in epochs 0 to 2",
                 "<dt>Seed</dt><dd>8</dd>", "Resize(size=(32, 32), ", "Normalize(mean=",
                 f"<dd>{subprocess.check_output([FOREBAY, '--version'], text=True).split()[1]}<"):  # fmt: skip  # noqa: E501
        assert said in text, said
    dataset = opened(place)
    forebay.show(dataset, [T.Resize((32, 32)), T.Normalize()], samples=4, draws=3, seed=8,
                 out=again)  # fmt: skip
    assert first.read_bytes() == again.read_bytes()
    forebay.show(dataset, samples=4, seed=9, out=again)
    assert figures(again).keys() != shown.keys()
    assert "RandomResizedCrop(size=224" in again.read_text()  # the usual transform


def in_process(capsys: Any, monkeypatch: pytest.MonkeyPatch, *words: object) -> tuple[int, str]:
    """What the command does, without starting Python and PyTorch anew."""
    monkeypatch.setattr(sys, "argv", ["forebay show", *map(str, words)])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    status = 0
    try:
        show_command.main()
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    return status, capsys.readouterr().err


@pytest.mark.parametrize("name", ["train", "one", "makes", "theirs", "cut", "module"])
def test_a_recipe_may_be_any_transform(
    name: str, place: Path, recipes: Path, tmp_path: Path, capsys: Any, monkeypatch: Any
):
    page = tmp_path / "page.html"
    monkeypatch.chdir(recipes)
    words = (place / "images", "--out", page, "--samples", 2, "--draws", 1, "--transform")
    assert in_process(capsys, monkeypatch, *words, f"recipe.py:{name}") == (0, "")
    assert all(row[1].pixels.shape == (32, 32, 3) for row in figures(page).values())
    assert " at 0x" not in page.read_text()
    monkeypatch.syspath_prepend(recipes)
    one = page.read_bytes()
    assert in_process(capsys, monkeypatch, *words, f"recipe:{name}") == (0, "")
    assert page.read_bytes() == one.replace(b"forebay_shown.", b"recipe.")


WRONG = {
    ("--transform", "recipe.py"): "must be FILE.py:NAME or MODULE:NAME",
    ("--transform", "none.py:train"): "there is no file none.py",
    ("--transform", "no_such_module:train"): "No module named 'no_such_module'",
    ("--transform", "..:train"): "--transform: .. failed: ",
    ("--transform", "recipe.py:trian"): "recipe.py has no 'trian'",
    ("--transform", "broken.py:train"): "broken.py failed: SyntaxError",
    ("--transform", "exits.py:train"): "SystemExit: usage: exits.py",
    ("--transform", "recipe.py:breaks"): "RuntimeError: at once (",
    ("--transform", "recipe.py:nothing"): "is None",
    ("--transform", "recipe.py:empty"): "is None",
    ("--transform", "recipe.py:number"): "transform is 3, but must be a list of transforms",
    ("--transform", "recipe.py:text"): "must be a list of transforms",
    ("--transform", "recipe.py:bad"): "ValueError: with this image (",
    ("--transform", "recipe.py:flat"): "makes Tensor of torch.float32 [3] of sample 'cat/",
    ("--transform", "recipe.py:many"): "[6, 32, 32]",
    ("--transform", "recipe.py:whole"): "Tensor of torch.int32 [3, 32, 32]",
    ("--transform", "recipe.py:words"): "the transform makes str of sample",
    ("--transform", "recipe.py:order"): "does not run Normalize, Resize in this order",
    ("--transform", "recipe.py:mixing"): "MixUp",
    ("--samples", "0"): "samples is 0, but must be from 1 to 1000",
    ("--draws", "101"): "draws is 101, but must be from 1 to 100",
    ("--seed", "-1"): "seed is -1",
    ("--samples", "x"): "invalid int value: 'x'",
    ("--annotations", "none.json"): "none.json",
    ("--annotations", "recipe.py"): "not JSON",
    ("--masks", "none"): "none",
    ("--out", "none/page.html"): "there is no folder",
    ("--out", "."): "is a folder",
    ("--out", "/proc/page.html"): "cannot be written",
    ("--no-such-option",): "unrecognized arguments",
}


@pytest.mark.filterwarnings("ignore:.*in Python:UserWarning")
@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_wrong_arguments_are_named(
    words: tuple[str, ...], place: Path, recipes: Path, tmp_path: Path, capsys: Any,
    monkeypatch: Any,
):  # fmt: skip
    page = tmp_path / "page.html"
    page.write_text("an older page")
    monkeypatch.chdir(recipes)
    before = (place / "images", "--out", page, "--samples", 2)
    status, said = in_process(capsys, monkeypatch, *before, *words)
    assert status == 2 and WRONG[words] in said, said
    assert re.search("^forebay show: ", said, re.MULTILINE) and "Traceback" not in said
    assert page.read_text() == "an older page"
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]


def test_the_program_says_what_is_wrong_without_a_traceback(tmp_path: Path, recipes: Path):
    page = tmp_path / "page.html"
    (tmp_path / "empty").mkdir()
    for words, message in (
        ((tmp_path / "nowhere", "--out", page), "nowhere"),
        ((tmp_path / "empty", "--out", page), "empty"),
        ((tmp_path / "nowhere", "--out", page, "--transform", f"{recipes}/exits.py:x"), "usage"),
        ((tmp_path / "nowhere",), "--out"),
    ):
        done = command(*words, code=2)
        assert "forebay show: " in done.stderr and message in done.stderr
        assert "Traceback" not in done.stderr and not page.exists()
    listed = subprocess.run([FOREBAY, "--help"], capture_output=True, text=True).stdout
    assert "show" in listed


def test_bad_samples_say_why_and_the_others_are_shown(place: Path, tmp_path: Path):
    shutil.copytree(place / "images", tmp_path / "images")
    (tmp_path / "images/cat/000.jpg").write_bytes(b"no image")
    half = (place / "images/dog/001.jpg").read_bytes()
    (tmp_path / "images/dog/001.jpg").write_bytes(half[: len(half) // 2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        forebay.show(tmp_path / "images", [T.RandomCrop(100)], out=tmp_path / "page.html", draws=2)
    shown = figures(tmp_path / "page.html")
    small = 0
    for key, row in shown.items():
        if key in ("cat/000", "dog/001"):
            assert len(row) == 1 and "This sample cannot be used: " in row[0].text
            continue
        too_small = min(row[0].pixels.shape[:2]) < 100
        for draw in row[1:]:
            assert ("This sample cannot be used: " in draw.text) == too_small
        small += too_small
    assert len(shown) == IMAGES and small > 0


def test_packed_datasets_and_sums_are_shown(packed: Path, place: Path, tmp_path: Path):
    page = tmp_path / "page.html"
    forebay.show(packed, T.train(64), out=page, draws=1)
    classes = {re.findall("<span.*?>(.*?)</span>", page.read_text())[0]}
    assert len(figures(page)) == 12 and classes <= {"class0", "class1", "class2"}
    known = forebay.Dataset(place / "images", annotations=place / "all.json")
    forebay.show(forebay.concat([known, known.subset([1])]), out=page, draws=1)
    assert "</svg>person</li>" in page.read_text()


def test_names_and_texts_are_only_ever_text(place: Path, tmp_path: Path):
    name = HOSTILE.replace("/", "")
    shutil.copytree(place / "images", tmp_path / "images")
    (tmp_path / "images/cat").rename(tmp_path / "images" / name)
    (tmp_path / "images" / name / "000.jpg").rename(tmp_path / "images" / name / f"{name}.jpg")
    raw = bytes(tmp_path / "images") + b"/dog/\xff.jpg"
    Path(raw.decode(errors="surrogateescape")).write_bytes(make_jpeg(99))

    class Named:
        def __call__(self, image: Any) -> Any:
            return image

        def __repr__(self) -> str:
            return HOSTILE

    page = tmp_path / "page.html"
    forebay.show(tmp_path / "images", [T.CenterCrop(32), Named()], out=page, draws=1)
    text = page.read_text()
    assert "<script" not in text and html.escape(HOSTILE) in text
    assert f"{name}/{name}" in figures(page)
    assert any("xff" in key or "udcff" in key for key in figures(page))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_leaves_the_older_page(
    place: Path, tmp_path: Path, capsys: Any, monkeypatch: Any
):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], check=True)
    try:
        (disk / "page.html").write_text("an older page")
        words = (place / "images", "--out", disk / "page.html")
        status, said = in_process(capsys, monkeypatch, *words)
        assert status == 1
        assert (
            said == f"forebay show: {disk}/page.html cannot be written: No space left on device\n"
        )
        assert (disk / "page.html").read_text() == "an older page"
        assert [one.name for one in disk.iterdir()] == ["page.html"]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_what_makes_no_sense_is_an_error_in_python_too(place: Path, tmp_path: Path):
    dataset = opened(place)
    with pytest.raises(ValueError, match="give annotations and masks with a path"):
        forebay.show(dataset, out=tmp_path / "page.html", masks=place / "masks")
    with pytest.raises(FileNotFoundError):
        forebay.show("nowhere", out=tmp_path / "page.html")
    with pytest.raises(ValueError, match="has no samples"):
        forebay.show(dataset.subset([]), out=tmp_path / "page.html")
    with pytest.raises(ZeroDivisionError):
        forebay.show(dataset, [T.Resize((8, 8)), lambda _: 1 // 0], out=tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_neither_pytorch_nor_pillow_is_needed(place: Path, tmp_path: Path):
    script = (
        "import sys; sys.modules |= {'torch': None, 'PIL': None}; import forebay\n"
        "forebay.show(sys.argv[1], out=sys.argv[2], annotations=sys.argv[3], masks=sys.argv[4])"
    )
    where = [place / "images", tmp_path / "without.html", place / "all.json", place / "masks"]
    subprocess.run([sys.executable, "-c", script, *where], check=True)
    forebay.show(opened(place), out=tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes() == (tmp_path / "without.html").read_bytes()


@pytest.mark.parametrize("size", [(1280, 800), (360, 740)], ids=["desktop", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_browser_shows_it_and_asks_nobody(
    browser: Browser, place: Path, tmp_path: Path, size: tuple[int, int], dark: bool
):
    page = tmp_path / "page.html"
    (tmp_path / "images").symlink_to(place / "images")
    forebay.show(
        forebay.Dataset(tmp_path / "images", annotations=place / "all.json", masks=place / "masks"),
        BOXES,
        out=page,
        samples=5,
    )
    browser.show(page.as_uri(), *size, dark=dark)
    assert browser.overflow() <= 0
    assert browser.complaints() == []
    assert browser.run("return document.title") == "Samples of images"
    asked = browser.run("return performance.getEntriesByType('resource').map(e => e.name)")
    assert all(one.startswith("data:") for one in asked)
    widths = "return [...document.querySelectorAll('figure svg')].map(e => e.clientWidth)"
    assert min(browser.run(widths)) > 100
    light = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in light[4:-1].split(",")) < 382) == dark
    for name in ("boxes", "masks", "points"):
        drawn = (
            f"return [...document.querySelectorAll('.{name}')]"
            ".map(e => getComputedStyle(e).display)"
        )
        assert len(browser.run(drawn)) > 5 and "none" not in browser.run(drawn)
        browser.run(f"document.querySelector('#{name}').click()")
        assert set(browser.run(drawn)) == {"none"}
    assert browser.run("return document.querySelectorAll('nav input').length") == 3


def test_a_link_with_the_pages_name_is_replaced(place: Path, tmp_path: Path):
    """In /tmp, somebody else may have made the link, to a file that he cannot write to himself."""
    victim, page = tmp_path / "victim", tmp_path / "page.html"
    victim.write_text("precious")
    page.symlink_to(victim)
    forebay.show(place / "images", out=page, samples=1)
    assert victim.read_text() == "precious"
    assert not page.is_symlink() and "<html" in page.read_text()
    page.unlink()
    page.symlink_to(victim)
    loader = forebay.Loader(place / "images", 2, transform=T.CenterCrop(8))
    with loader.trace(page):
        list(loader)
    assert victim.read_text() == "precious"
    assert not page.is_symlink() and page.read_text().startswith("{")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="is not a file"), loader.trace(tmp_path / "pipe"):
        pass
