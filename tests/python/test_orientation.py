"""orientation="apply" gives the images that Pillow's ImageOps.exif_transpose makes.

Batches are compared with those of files whose pixels, boxes, masks and keypoints are stored as they
are shown.
"""

import io
import json
import pickle
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from pycocotools import mask as coco_mask
from torchvision import tv_tensors

import forebay
from conftest import run_forebay
from forebay import transforms as T
from peer_torchvision import v2
from places import on_web
from servers.nginx import Nginx
from test_batch_decoder import device
from test_targets import NOTHING, same

__all__ = ["device"]  # a fixture

TAGS = range(1, 9)
FRACTIONS = {5, 10, 11, 12}  # types of numbers that Pillow takes for orientations too


def picture(width: int, height: int, seed: int = 0) -> Image.Image:
    random = np.random.default_rng(seed)
    return Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))


def encoded(image: Image.Image, kind: str, tag: int | None) -> bytes:
    exif = Image.Exif()
    if tag is not None:
        exif[0x0112] = tag
    out = io.BytesIO()
    image.save(out, kind, exif=exif, quality=90, lossless=True)
    return out.getvalue()


def shown(file: bytes) -> np.ndarray:
    return np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(file))).convert("RGB"))


def shown_pixels(image: Image.Image, tag: Any) -> np.ndarray:
    """What an image without a tag shows with this one."""
    image.getexif()[0x0112] = tag
    return np.asarray(ImageOps.exif_transpose(image))


def applied(file: bytes) -> np.ndarray:
    return forebay.decode(file, orientation="apply")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_pixels_are_pillows(kind: str):
    files = [
        encoded(picture(width, height, width), kind, tag)
        for width, height in ((1, 1), (1, 7), (40, 1), (33, 17), (16, 64), (130, 99))
        for tag in (None, 0, *TAGS, 9)
    ]
    for file, pixels in zip(files, forebay.decode(files, orientation="apply"), strict=True):
        assert np.array_equal(pixels, shown(file))
        assert np.array_equal(forebay.decode(file), np.asarray(Image.open(io.BytesIO(file))))


def tiff(entries: list[tuple[int, int, int, bytes]], order: str, more: bytes = b"") -> bytes:
    out = {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(f"{order}LH", 8, len(entries))
    for tag, type_, count, value in entries:
        out += struct.pack(f"{order}HHL", tag, type_, count) + value
    return out + bytes(4) + more


def png(chunks: bytes) -> bytes:
    whole = encoded(picture(3, 2), "PNG", None)
    return whole[:33] + chunks + whole[33:]


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">L", len(data)) + name + data + struct.pack(">L", zlib.crc32(name + data))


def jpeg(*segments: bytes) -> bytes:
    whole = encoded(picture(3, 2), "JPEG", None)
    parts = [b"\xff\xe1" + struct.pack(">H", len(one) + 2) + one for one in segments]
    return whole[:2] + b"".join(parts) + whole[2:]


def expect_pillows(file: bytes) -> bool:
    """Whether Pillow turns the image. Where it raises an error, the image is shown as it is stored.

    Not by exif_transpose on the file, as that cannot write some tags that it has read.
    """
    stored = forebay.decode(file)
    image = Image.open(io.BytesIO(file))
    try:
        tag = image.getexif().get(0x0112, 1)
    except (SyntaxError, struct.error):
        tag = 1
    expected = shown_pixels(Image.fromarray(stored), tag)
    assert np.array_equal(applied(file), expected), file
    return not np.array_equal(expected, stored)


def test_metadata_count_as_in_pillow():
    random = np.random.default_rng(7)
    turned = 0
    warnings.simplefilter("ignore")  # Pillow's, of the damage
    for _ in range(2000):
        order = "<>"[random.integers(2)]
        entries = []
        for _ in range(random.integers(1, 5)):
            tag = int(random.choice([271, 273, 274, 274, 274, 275]))
            type_ = int(random.choice([3, 3, 3, *range(18)]))
            if tag == 274 and type_ in FRACTIONS:
                type_ = 3
            count = int(random.choice([1, 1, 1, 1, 0, 2, 3, 5, 30, 2**32 - 1]))
            value = struct.pack(f"{order}HH", random.integers(0, 10), random.integers(0, 2))
            if random.integers(2):
                value = struct.pack(f"{order}L", random.integers(0, 90))
            entries.append((tag, type_, count, value))
        exif = tiff(entries, order, random.integers(0, 9, 20, np.uint8).tobytes())
        if random.integers(4) == 0:
            exif = exif[: random.integers(len(exif))]
        exif = b"Exif\0\0" * int(random.choice([0, 0, 1])) + exif
        turned += expect_pillows(png(chunk(b"eXIf", exif)))
        turned += expect_pillows(jpeg(b"Exif\0\0" + exif))
    assert turned > 250


def test_several_places_count_as_in_pillow():
    def exif(tag: int) -> bytes:
        return tiff([(274, 3, 1, struct.pack("<HH", tag, 0))], "<")

    def xmp(text: bytes) -> bytes:
        return b"http://ns.adobe.com/xap/1.0/\0" + text

    def text(data: bytes) -> bytes:
        return chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + data)

    head, empty, said = b"Exif\0\0", tiff([], "<"), b'<x tiff:Orientation="6"/>'
    files = [
        jpeg(head + exif(6)[:15], head + exif(6)[15:]),
        jpeg(head + exif(6), head + exif(3)),
        jpeg(head + head + exif(6)),
        jpeg(head + empty, xmp(said)),
        jpeg(xmp(said)),
        jpeg(xmp(said), head + exif(3)),
        jpeg(xmp(b"<tiff:Orientation>8<"), xmp(said)),
        png(chunk(b"eXIf", exif(6)) + chunk(b"eXIf", exif(8))),
        png(chunk(b"eXIf", exif(9)) + text(said)),
        png(text(b'tiff:Orientation=\'3\' tiff:Orientation="x" tiff:Orientation="4"')),
        png(text(said))[:-12] + chunk(b"eXIf", exif(3)) + chunk(b"IEND", b""),
    ]
    assert sum(map(expect_pillows, files)) == len(files) - 1  # 9 is no orientation


def test_other_values_make_no_sense(packed: Path):
    file = encoded(picture(3, 2), "PNG", 6)
    for call in (
        lambda: forebay.decode(file, orientation="yes"),
        lambda: forebay.BatchDecoder(T.RandomResizedCrop(8), orientation="yes"),
        lambda: forebay.Loader(packed, orientation="yes"),
    ):
        with pytest.raises(ValueError, match="orientation is 'yes', but must be 'ignore' or"):
            call()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder of images of all formats and tags, and one of PNGs of what they show."""
    root = tmp_path_factory.mktemp("oriented")
    for i, tag in enumerate([*TAGS, 6, None, *TAGS, 3, 5]):
        kind = ("JPEG", "PNG", "WEBP")[i % 3]
        file = encoded(picture(90 + 7 * i, 130 - 3 * i, i), kind, tag)
        for name, one, suffix in (
            ("stored", file, kind.lower()),
            ("shown", encoded(Image.fromarray(shown(file)), "PNG", None), "png"),
        ):
            (root / name / "a").mkdir(parents=True, exist_ok=True)
            (root / name / "a" / f"{i:02}.{suffix}").write_bytes(one)
    return root / "stored", root / "shown"


@pytest.mark.parametrize(
    "transform",
    [
        None,
        [T.RandomResizedCrop(48), T.RandomHorizontalFlip(), T.Normalize()],
        [T.Resize(40, "bicubic"), T.CenterCrop(36)],
        [T.RandomCrop(140, pad_if_needed=True, fill=9), T.RandomVerticalFlip()],
        [T.RandomShortestSize([30, 50], 70), T.RandAugment(fill=3)],
        [v2.Resize((50, 40)), v2.ElasticTransform(9.0)],
    ],
    ids=lambda value: str(value)[:60],
)
@pytest.mark.filterwarnings("ignore:forebay.Loader. transform")
def test_batches_are_those_of_turned_files(
    transform: Any, places: tuple[Path, Path], tmp_path: Path
):
    stored, turned = places
    how: dict[str, Any] = {"batch_size": 5, "transform": transform, "seed": 4}
    expected = list(forebay.Loader(turned, **how))
    run_forebay("pack", "--order", "listed", stored, tmp_path / "packed")
    for place in (stored, tmp_path / "packed"):
        for threads in (1, 3):
            loader = forebay.Loader(place, orientation="apply", num_workers=threads, **how)
            assert same(list(pickle.loads(pickle.dumps(loader))), expected)
            assert same(list(loader), expected)
    assert not same(list(forebay.Loader(stored, **how)), expected)


def test_sizes_that_follow_from_the_first_image(tmp_path: Path):
    for i, (size, tag) in enumerate([((20, 30), 6), ((30, 20), 1), ((20, 30), 5), ((30, 20), 3)]):
        (tmp_path / f"{i}.png").write_bytes(encoded(picture(*size), "PNG", tag))
    how: dict[str, Any] = {"batch_size": 4, "transform": [T.Normalize()], "fields": ["image"]}
    ((images,),) = forebay.Loader(tmp_path, orientation="apply", **how)
    assert tuple(images.shape) == (4, 3, 20, 30)


def test_a_batch_decoder_turns_them(places: tuple[Path, Path], device: Any):
    stored, turned = (
        [one.read_bytes() for one in sorted((place / "a").iterdir())] for place in places
    )
    transform = [T.RandomResizedCrop(40), T.RandomHorizontalFlip()]
    decoder = forebay.BatchDecoder(transform, device=device, orientation="apply")
    numbers = range(len(stored))
    expected = forebay.BatchDecoder(transform)(turned, drawn_for=numbers).images
    for files in (stored, decoder.store(stored)):
        batch = decoder(files, drawn_for=numbers)
        assert batch.errors() == {}
        assert torch.equal(batch.images.cpu(), expected)
    boxes = [(2, 50, 30, 20)] * len(stored)
    plain = forebay.BatchDecoder(transform)(turned, boxes=boxes, drawn_for=numbers).images
    batch = decoder(stored, boxes=boxes, drawn_for=numbers)
    assert batch.errors() == {} and torch.equal(batch.images.cpu(), plain)
    for image, pixels in zip(
        forebay.decode(stored, device=device, orientation="apply"), turned, strict=True
    ):
        assert np.array_equal(torch.as_tensor(image).cpu().numpy(), forebay.decode(pixels))


def test_far_images_are_read_as_a_whole(nginx: Nginx, tmp_path: Path):
    (tmp_path / "images").mkdir()
    for i, tag in enumerate(TAGS):
        image = picture(120, 90, i).resize((480, 360), Image.Resampling.BICUBIC)
        (tmp_path / f"images/{i}.jpg").write_bytes(encoded(image, "JPEG", tag))
    run_forebay("pack", "--order", "listed", tmp_path / "images", tmp_path / "packed")
    how: dict[str, Any] = {
        "batch_size": 4, "transform": [T.RandomResizedCrop(64)], "seed": 2, "fields": ["image"]
    }  # fmt: skip
    with forebay.Loader(
        f"{nginx.url}/{on_web(nginx, tmp_path / 'packed')}", orientation="apply", **how
    ) as loader:
        far = list(loader)
        stats = loader.stats()
    assert same(far, list(forebay.Loader(tmp_path / "images", orientation="apply", **how)))
    assert stats["bytes_read"] >= stats["whole_bytes"]


FIELDS = ["image", "boxes", "labels", "masks", "keypoints", "mask"]


def turned_box(box: list[float], width: int, height: int, tag: int) -> list[float]:
    """The box [left, top, width, height] by torchvision's functions."""
    boxes = tv_tensors.BoundingBoxes([box], format="XYWH", canvas_size=(height, width))
    call = v2.functional
    if tag in (2, 3, 5, 7):  # 5 and 7 are mirrored, and then turned
        boxes = call.horizontal_flip(boxes)
    if tag in (3, 4):
        boxes = call.vertical_flip(boxes)
    if tag in (6, 7):
        boxes = call.rotate(boxes, -90, expand=True)
    if tag in (5, 8):
        boxes = call.rotate(boxes, 90, expand=True)
    # Quarters of a pixel; torchvision's rotations are a little off.
    return [round(4 * float(value)) / 4 for value in boxes[0]]


def turned_points(keypoints: list[float], width: int, height: int, tag: int) -> list[float]:
    """Where the pixel of each keypoint is seen."""
    out: list[float] = []
    for x, y, visible in zip(*[iter(keypoints)] * 3, strict=True):
        mark = np.zeros((height, width), np.uint8)
        mark[int(y), int(x)] = 1
        ((row, column),) = np.argwhere(shown_pixels(Image.fromarray(mark), tag))
        out += [int(column), int(row), visible]
    return out


def run_length(mask: np.ndarray) -> dict[str, Any]:
    made = coco_mask.encode(np.asfortranarray(mask))
    return {"size": list(mask.shape), "counts": made["counts"].decode()}


def save_annotations(path: Path, sizes: Any, annotations: list[dict[str, Any]]) -> None:
    images = [
        {
            "id": i,
            "file_name": f"{i:02}.png",
            **({"width": size[0], "height": size[1]} if size else {}),
        }
        for i, size in enumerate(sizes)
    ]
    known = [{"id": i, **one} for i, one in enumerate(annotations)]
    path.write_text(json.dumps({"images": images, "annotations": known}))


@pytest.fixture(scope="module")
def detection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images with annotations and masks, as they are stored and as they are shown."""
    root = tmp_path_factory.mktemp("detection")
    random = np.random.default_rng(2)
    sizes: dict[str, list[Any]] = {"stored": [], "shown": []}
    annotations: dict[str, list[Any]] = {"stored": [], "shown": []}
    for name in ("stored", "shown"):
        for what in ("images", "masks"):
            (root / name / what).mkdir(parents=True)
    for i, tag in enumerate([*TAGS, *TAGS]):
        width, height = (47, 47) if i == 10 else (30 + 3 * i, 70 - 2 * i)
        file = encoded(picture(width, height, i), ("PNG", "WEBP", "JPEG")[i % 3], tag)
        labels = random.integers(0, 256, (height, width), dtype=np.uint8)
        pixels, turned_labels = shown(file), shown_pixels(Image.fromarray(labels), tag)
        sizes["stored"].append((width, height))
        sizes["shown"].append(pixels.shape[1::-1])
        (root / f"stored/images/{i:02}.png").write_bytes(file)
        Image.fromarray(pixels).save(root / f"shown/images/{i:02}.png")
        Image.fromarray(labels).save(root / f"stored/masks/{i:02}.png")
        Image.fromarray(turned_labels).save(root / f"shown/masks/{i:02}.png")
        for number in range(3):
            left, top = random.integers(0, [2 * width, 2 * height]) / 4
            box = [left, top, *(random.integers(1, [2 * width, 2 * height]) / 4)]
            outline = random.uniform(0, [width, height], (5, 2)).round(1).ravel().tolist()
            mask = coco_mask.decode(coco_mask.frPyObjects([outline], height, width))[..., 0]
            points = [*random.integers(0, [width, height]).tolist(), 2]
            own = {"image_id": i, "category_id": number, "area": 1, "iscrowd": 0}
            segmentation = run_length(mask) if number == 0 else [outline]
            annotations["stored"].append(
                {**own, "bbox": box, "keypoints": points, "segmentation": segmentation}
            )
            annotations["shown"].append(
                {
                    **own,
                    "bbox": turned_box(box, width, height, tag),
                    "keypoints": turned_points(points, width, height, tag),
                    "segmentation": run_length(shown_pixels(Image.fromarray(mask), tag)),
                }
            )
    for name in ("stored", "shown"):
        save_annotations(root / name / "all.json", sizes[name], annotations[name])
    save_annotations(root / "no_sizes.json", [None] * 16, annotations["stored"])
    # Both ways in one file, where the sizes tell which is meant.
    chosen = ["shown" if i % 2 and i != 10 and a != b else "stored"
              for i, (a, b) in enumerate(zip(*sizes.values(), strict=True))]  # fmt: skip
    save_annotations(
        root / "mixed.json",
        [sizes[name][i] for i, name in enumerate(chosen)],
        [annotations[chosen[i // 3]][i] for i in range(48)],
    )
    return root


def moved(place: Path, images: str, annotations: str, masks: str, **how: Any) -> list[Any]:
    dataset = forebay.Dataset(
        place / images / "images", annotations=place / annotations, masks=place / masks / "masks"
    )
    return list(forebay.Loader(dataset, 4, fields=FIELDS, seed=3, **how))


@pytest.mark.parametrize(
    "transform",
    [
        [NOTHING],
        [T.RandomHorizontalFlip(), T.Resize((40, 50))],
        [T.RandomResizedCrop(32), T.RandomVerticalFlip()],
        [T.RandomPhotometricDistort(), T.RandomZoomOut(3), T.RandomIoUCrop(), T.Resize((30, 30))],
    ],
    ids=lambda value: str(value)[:60],
)
def test_boxes_masks_and_keypoints_move_along(transform: Any, detection: Path):
    expected = moved(detection, "shown", "shown/all.json", "shown", transform=transform)
    how = {"transform": transform, "orientation": "apply"}
    assert same(moved(detection, "stored", "stored/all.json", "stored", **how), expected)
    assert same(moved(detection, "stored", "no_sizes.json", "stored", **how), expected)
    assert same(moved(detection, "stored", "mixed.json", "stored", **how), expected)
    plain = moved(detection, "stored", "stored/all.json", "stored", transform=transform)
    assert not same(plain, expected)


def test_annotations_and_masks_of_shown_images_stay(detection: Path):
    wide = [i for i in range(16) if i % 8 >= 4 and i != 10]  # width and height change places
    for transform in ([NOTHING], [T.RandomIoUCrop(), T.RandomResizedCrop(32)]):
        made = {}
        for images in ("stored", "shown"):
            dataset = forebay.Dataset(
                detection / images / "images",
                annotations=detection / "shown/all.json",
                masks=detection / "shown/masks",
            ).subset(wide)
            made[images] = list(forebay.Loader(
                dataset, 4, fields=FIELDS, transform=transform, orientation="apply"
            ))  # fmt: skip
        assert same(made["stored"], made["shown"])


def test_other_sizes_are_bad_samples(tmp_path: Path):
    (tmp_path / "images").mkdir()
    (tmp_path / "masks").mkdir()
    (tmp_path / "images/00.png").write_bytes(encoded(picture(20, 30), "PNG", 6))
    Image.new("L", (31, 20)).save(tmp_path / "masks/00.png")
    save_annotations(
        tmp_path / "all.json",
        [(20, 31)],
        [{"image_id": 0, "category_id": 1, "bbox": [1, 2, 3, 4]}],
    )
    images = tmp_path / "images"
    for dataset, field, message in (
        (
            forebay.Dataset(images, annotations=tmp_path / "all.json"),
            "boxes",
            "20 x 31 pixels, but it has 20 x 30",
        ),
        (
            forebay.Dataset(images, masks=tmp_path / "masks"),
            "mask",
            "31 x 20 pixels, but its image has 20 x 30",
        ),
    ):
        loader = forebay.Loader(
            dataset, transform=[NOTHING], fields=["image", field], orientation="apply"
        )
        with pytest.warns(UserWarning, match="20 x"):
            list(loader)
        assert message in loader.bad_samples[0]["reason"]
