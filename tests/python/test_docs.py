"""Runs every page's Python blocks as printed, and the shell blocks that are marked to be run.

A page's blocks run in the page's order and share their names. Their working directory holds
photos/train, train.forebay, shards, coco, cifar, kaggle and ILSVRC2012_img_train.
`<!-- not run: REASON -->` before a Python block leaves the block out, and `<!-- run: torchrun -->`
runs it as a script of two processes. The page about data elsewhere has Ceph's gateway and nginx.
"""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import forebay
from conftest import FOREBAY, ROOT
from places import on_web
from servers.nginx import Nginx
from servers.s3 import S3

BLOCK = re.compile(r"(?:^<!-- ([^\n]*) -->\n)?^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHELLS = ("bash", "console")
MIGRATING = "docs/migrating.md"
REMOTE = "docs/remote.md"
# Lets everybody read the bucket "public".
PUBLIC = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": "*",
                "Action": ["s3:GetObject", "s3:ListBucket"],
                "Resource": ["arn:aws:s3:::public", "arn:aws:s3:::public/*"],
            }
        ],
    }
)
PAGES = sorted(
    str(page.relative_to(ROOT)) for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
)


def blocks_to_run(page: str) -> list[tuple[str, str, int]]:
    """Returns the language and text of each block, and the number of the line before its text."""
    text = (ROOT / page).read_text()
    found = []
    for block in BLOCK.finditer(text):
        mark, language, code = block.groups()
        line = text.count("\n", 0, block.start(3))
        if language == "python" and mark == "run: torchrun":
            found.append((mark, code, line))
        elif language == "python":
            left_out = mark is not None and mark.startswith("not run")
            assert not left_out or len(mark) > len("not run: "), f"{page}:{line}: not run, but why?"
            if not left_out:
                found.append((language, code, line))
        elif language in SHELLS and mark == "run":
            found.append((language, code, line))
    return found


def commands(language: str, code: str) -> str:
    """Returns what follows a prompt in a console block; its other lines are output."""
    if language == "bash":
        return code
    return "".join(line[2:] for line in code.splitlines(True) if line.startswith("$ "))


def annotate(images: dict[str, bytes], root: Path) -> None:
    """Makes a folder of images, their masks, and annotations of two objects each, also as text."""
    for name in ("images", "masks", "labels"):
        (root / name).mkdir(parents=True)
    known: dict[str, list[dict[str, Any]]] = {"images": [], "annotations": []}
    for number, content in enumerate(list(images.values())[:12]):
        (root / f"images/{number:03}.jpg").write_bytes(content)
        width, height = Image.open(io.BytesIO(content)).size
        Image.new("L", (width, height), number).save(root / f"masks/{number:03}.png")
        known["images"].append({"id": number, "file_name": f"{number:03}.jpg"})
        for left in (0, width // 2):
            right, low = left + width // 3, height // 2
            known["annotations"].append({
                "id": 2 * number + (left > 0), "image_id": number, "category_id": 1 + (left > 0),
                "bbox": [left, 0, right - left, low], "area": (right - left) * low, "iscrowd": 0,
                "segmentation": [[left, 0, right, 0, right, low]],
            })  # fmt: skip
        boxes = "0 0.2 0.25 0.3 0.5\n1 0.7 0.25 0.3 0.5\n"
        (root / f"labels/{number:03}.txt").write_text(boxes)
    (root / "instances.json").write_text(json.dumps(known))


def make_tables(images: dict[str, bytes], root: Path) -> None:
    """Makes folders of images with tables like Kaggle's and Hugging Face's, and ImageNet's tars."""
    contents = list(images.values())[:10]
    for name in ("train_images", "test_images", "captioned"):
        (root / "kaggle" / name).mkdir(parents=True)
        for number, content in enumerate(contents):
            (root / "kaggle" / name / f"0a{number:02}.3.jpg").write_bytes(content)
    breeds = ["id,breed"]
    tags = ["image,tags,age,x,y,site"]
    captions = []
    for number in range(len(contents)):
        breeds.append(f"0a{number:02}.3,{'beagle' if number % 2 else 'whippet'}")
        site = "north" if number % 3 else "south"
        tag = "dog outdoor" if number % 2 else "dog"
        tags.append(f"0a{number:02}.3.jpg,{tag},{number},{number / 4},{number / 8},{site}")
        captions.append(json.dumps({"file_name": f"0a{number:02}.3.jpg", "text": f"dog {number}"}))
    (root / "kaggle/train.csv").write_text("\n".join(breeds))
    (root / "kaggle/tags.csv").write_text("\n".join(tags))
    (root / "kaggle/captioned/metadata.jsonl").write_text("\n".join(captions))
    (root / "ILSVRC2012_img_train").mkdir()
    for synset in ("n01440764", "n01443537"):
        with tarfile.open(root / f"ILSVRC2012_img_train/{synset}.tar", "w") as tar:
            for number, content in enumerate(contents[:3]):
                member = tarfile.TarInfo(f"{synset}_{number}.JPEG")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


@pytest.fixture
def data(packed: Path, folder: Path, images: dict[str, bytes], tmp_path: Path, monkeypatch) -> Path:
    """Makes a working directory with what the pages name, and puts `forebay` on the PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/forebay").symlink_to(Path(FOREBAY).absolute())
    shutil.copytree(folder, tmp_path / "photos/train")  # pages write an index into it
    (tmp_path / "train.forebay").symlink_to(packed)
    for split in ("train", "test"):
        for name, content in list(images.items())[:20]:
            file = tmp_path / "cifar" / split / name
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.open(io.BytesIO(content)).resize((32, 32)).save(file, quality=95)
    (tmp_path / "shards").mkdir()
    for shard in range(4):
        with tarfile.open(tmp_path / f"shards/train-{shard:06}.tar", "w") as tar:
            for name, content in list(images.items())[shard::4]:
                label = name[5].encode()  # class0/000.jpg
                for field, value in ((".jpg", content), (".cls", label)):
                    member = tarfile.TarInfo(name.replace("/", "_").removesuffix(".jpg") + field)
                    member.size = len(value)
                    tar.addfile(member, io.BytesIO(value))
    annotate(images, tmp_path / "coco")
    make_tables(images, tmp_path)
    for side in ("left", "right"):
        shutil.copytree(tmp_path / "coco/images", tmp_path / "stereo" / side)
    for part in ("images", "labels"):
        shutil.copytree(tmp_path / "coco" / part, tmp_path / "yolo" / part / "train")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def web(s3: S3, nginx: Nginx, data: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes the buckets that the page about data elsewhere names, and the profile "research".

    Returns the URL at which a web server has train.forebay.
    """
    for bucket in ("bucket", "public"):
        assert s3.request("PUT", f"/{bucket}").status == 200
        s3.upload(data / "photos/train", bucket, "raw/")
    allowed = s3.request("PUT", "/public?policy=", body=PUBLIC.encode())
    assert allowed.status in (200, 204), allowed.body
    keys = f"aws_access_key_id = {s3.key.access}\naws_secret_access_key = {s3.key.secret}\n"
    (data / "credentials").write_text(f"[default]\n{keys}[research]\n{keys}")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(data / "credentials"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    monkeypatch.setenv("AWS_REGION", "default")
    return f"{nginx.url}/{on_web(nginx, data)}"


def run_by_torchrun(data: Path, code: str, where: str) -> None:
    """Runs a block in two processes."""
    (data / "train.py").write_text(code)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    paths = [str(Path(forebay.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [*launcher, "train.py"], capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
    assert done.returncode == 0, f"{where}: {done.stderr}"


def run_blocks(page: str, data: Path, web: str = "") -> dict[str, Any]:
    """Runs a page's blocks, with `web` as their web server, and returns the names they define."""
    names: dict[str, Any] = {"__name__": page}
    for language, printed, line in blocks_to_run(page):
        code = printed.replace("https://data.example", web)
        if language == "run: torchrun":
            run_by_torchrun(data, code, f"{page}:{line}")
            continue
        if language == "python":
            # The empty lines in front make errors name the page's own lines.
            exec(compile("\n" * line + code, ROOT / page, "exec"), names)
            continue
        if re.search(r"\bpack \S+ train\.forebay", code):  # this page packs it itself
            (data / "train.forebay").unlink()
        script = commands(language, code)
        assert script, f"{page}:{line}: no command in the block"
        done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True)
        assert done.returncode == 0, f"{page}:{line}: {done.stderr}"
    return names


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != MIGRATING and blocks_to_run(page)]
)
def test_blocks_run(page: str, data: Path, request: pytest.FixtureRequest):
    run_blocks(page, data, request.getfixturevalue("web") if page == REMOTE else "")


def test_the_migration_pages_loaders_give_the_same(data: Path):
    names = run_blocks(MIGRATING, data)
    (_, theirs), (train, ours) = (
        names[f"{which}_loaders"]("cifar", 8, 0) for which in ("torchvision", "forebay")
    )
    assert len(theirs) == len(ours)
    for (images, labels), (expected, expected_labels) in zip(ours, theirs, strict=True):
        assert torch.equal(labels, expected_labels)
        torch.testing.assert_close(images, expected, rtol=0, atol=1e-5)
    assert [len(labels) for _, labels in train] == [8, 8]
    detection = [
        names[f"{which}_detection"]("coco/images", "coco/instances.json", 5)
        for which in ("torchvision", "forebay")
    ]
    for (images, targets), (own_images, own_targets) in zip(*detection, strict=True):
        for image, own in zip(images, own_images, strict=True):
            torch.testing.assert_close(own, image, rtol=0, atol=1e-7)
        for target, own in zip(targets, own_targets, strict=True):
            assert own["image_id"] == target["image_id"]
            assert torch.equal(own["boxes"], target["boxes"])
            assert torch.equal(own["masks"], target["masks"])
    coco, dataset = detection[0].dataset, detection[1].dataset
    assert names["in_the_order_of"](coco, dataset).keys() == dataset.keys()
    accuracy = names["train"](names["forebay_loaders"], "cifar", 1, batch_size=16)
    assert 0 <= accuracy <= 1


def test_all_blocks_are_python():
    for page in PAGES:
        for block in BLOCK.finditer((ROOT / page).read_text()):
            if block[2] == "python":
                compile(block[3], page, "exec")


def test_pages_are_found():
    assert {"README.md", "docs/index.md", "docs/loading.md"} <= set(PAGES)
    assert [language for language, _, _ in blocks_to_run("docs/index.md")] == [
        "bash",
        "python",
        "python",
    ]
