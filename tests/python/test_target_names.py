"""Annotations, masks and further images find their samples by whole names, then by stems."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import forebay
from conftest import run_forebay
from forebay import transforms as T


def save(path: Path, value: int, size: tuple[int, int] = (8, 6), mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value, value, value)).save(path)


def annotated(path: Path, *names: str) -> Path:
    """Annotations of images with these names: image i has one object, of category i."""
    images = [{"id": i, "file_name": name} for i, name in enumerate(names)]
    boxes = [{"image_id": i, "category_id": i, "bbox": [0, 0, 2, 2]} for i in range(len(names))]
    path.write_text(json.dumps({"images": images, "annotations": boxes}))
    return path


@pytest.fixture()
def twins(tmp_path: Path) -> Path:
    """A folder with a.jpg and a.png, which differ in their colours, and b.png."""
    for number, name in enumerate(("a.jpg", "a.png", "b.png")):
        save(tmp_path / "images" / name, 50 * number)
    return tmp_path / "images"


def labels(dataset: forebay.Dataset) -> dict[str, list[int]]:
    assert dataset.objects is not None
    ends = np.cumsum(dataset.objects.counts)[:-1]
    parts = np.split(dataset.objects.columns["labels"], ends)
    return {dataset.key(i): part.tolist() for i, part in enumerate(parts)}


@pytest.mark.parametrize("packed", [False, True])
def test_annotations_of_files_that_differ_only_in_their_suffix(
    packed: bool, twins: Path, tmp_path: Path
):
    names = annotated(tmp_path / "a.json", "a.png", "b.jpg", "train/a.jpg")
    source = twins
    if packed:
        source = tmp_path / "packed"
        run_forebay("pack", twins, source, "--order", "listed")
    found = labels(forebay.Dataset(source, annotations=names))
    assert found == {"a": [2], "a_png": [0], "b": [1]}
    if packed:
        run_forebay("pack", twins, tmp_path / "both", "--annotations", names)
        assert labels(forebay.Dataset(tmp_path / "both")) == found


def test_samples_that_the_annotations_do_not_know_are_told(twins: Path, tmp_path: Path):
    path = annotated(tmp_path / "a.json", "a.png")
    with pytest.warns(UserWarning, match="2 of the dataset's 3 samples .* as a,") as told:
        dataset = forebay.Dataset(twins, annotations=path)
    assert len(told) == 1 and told[0].filename == __file__
    assert dataset.objects is not None and dataset.objects.image_ids is not None
    known = dataset.filter(dataset.objects.image_ids >= 0)
    assert labels(known) == {"a_png": [0]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        forebay.Dataset(twins, annotations=annotated(path, "a.png", "a.jpg", "b.png"))


def test_annotations_of_images_that_the_file_does_not_list_are_told(twins: Path, tmp_path: Path):
    path = annotated(tmp_path / "a.json", "a.png", "a.jpg", "b.png")
    found = json.loads(path.read_text())
    found["annotations"][1] |= {"id": 7, "image_id": 99}
    path.write_text(json.dumps(found))
    said = "1 of its 3 annotations are of images that it does not list, such as annotation 7 of"
    with pytest.warns(UserWarning, match=said) as told:
        dataset = forebay.Dataset(twins, annotations=path)
    assert len(told) == 1 and told[0].filename == __file__
    assert labels(dataset) == {"a": [], "a_png": [0], "b": [2]}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a.webp", "b.png"], r"a\.webp may mean a\.jpg or a\.png"),
        (["b.webp", "b.gif"], r"b\.webp and the file_name b\.gif both mean b\.png"),
        (["x.jpg"], r"none of its 1 images is in the dataset \(the first is 'x.jpg'\)"),
        ([], "its list 'images' is empty"),
    ],
)
def test_what_leaves_a_choice_or_fits_nothing_is_an_error(
    names: list[str], message: str, twins: Path, tmp_path: Path
):
    path = annotated(tmp_path / "a.json", *names)
    with pytest.raises(ValueError, match=message):
        forebay.Dataset(twins, annotations=path)
    run_forebay("pack", twins, tmp_path / "packed", "--annotations", path, code=1)
    assert not (tmp_path / "packed/HEAD").exists()


def test_an_image_takes_its_own_masks(twins: Path, tmp_path: Path):
    masks = tmp_path / "masks"
    for value, name in ((1, "a.png"), (2, "b.png"), (9, "b.jpg")):
        save(masks / name, value, mode="L")
    (twins / "a.jpg").unlink()
    loaded = maps(forebay.Dataset(twins, masks=masks))
    assert loaded == {"a": 1, "b": 2}, "previews beside the masks are no masks"
    run_forebay("pack", twins, tmp_path / "packed", "--masks", masks)
    assert maps(forebay.Dataset(tmp_path / "packed")) == loaded


def maps(dataset: forebay.Dataset) -> dict[str, int]:
    loader = forebay.Loader(
        dataset, 1, transform=[T.RandomHorizontalFlip(0)], fields=["image", "mask", "key"]
    )  # fmt: skip
    return {key[0]: int(mask[0].max()) for _, mask, key in loader}


def test_masks_that_leave_a_choice_are_an_error(twins: Path, tmp_path: Path):
    save(tmp_path / "few/a.png", 1, mode="L")
    save(tmp_path / "few/b.png", 1, mode="L")
    with pytest.raises(ValueError, match="no mask for 1 of 3 .* such as a; each .* give a list of"):
        forebay.Dataset(twins, masks=tmp_path / "few")
    save(tmp_path / "photos/x.jpg", 1)
    save(tmp_path / "photos/x.webp", 1)
    save(tmp_path / "masks/x.png", 1, mode="L")
    with pytest.raises(ValueError, match=r"masks: x\.png may belong to x\.jpg or x\.webp"):
        forebay.Dataset(tmp_path / "photos", masks=tmp_path / "masks")
    done = run_forebay(
        "pack", tmp_path / "photos", tmp_path / "packed", "--masks", tmp_path / "masks", code=1
    )
    assert "x.png may belong to x.jpg or x.webp" in done.stderr


def test_images_and_masks_in_one_folder_are_an_error(twins: Path, tmp_path: Path):
    for same in (twins, str(twins) + "/", twins / "../images"):
        with pytest.raises(ValueError, match="the folder of the images themselves"):
            forebay.Dataset(twins, masks=same)
    done = run_forebay("pack", twins, tmp_path / "packed", "--masks", twins, code=1)
    assert "the folder of the images themselves" in done.stderr


def test_further_images_find_their_samples_by_whole_names(twins: Path, tmp_path: Path):
    for number, name in enumerate(("a.jpg", "a.png", "b.jpg")):
        save(tmp_path / "right" / name, 60 + 50 * number)
    dataset = forebay.Dataset(twins, images={"right": tmp_path / "right"})
    options: dict[str, Any] = {"transform": [T.CenterCrop(4)], "fields": ["image", "right", "key"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for left, right, key in forebay.Loader(dataset, 1, **options):
            assert abs(int(right.max()) - int(left.max()) - 60) <= 2, key
