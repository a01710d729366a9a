"""Other readers of a user's data do not see what `forebay index` writes into it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import FOREBAY
from test_in_place import copied, shards

__all__ = ["copied", "shards"]

# Prints what each reader finds in the folder of images FOLDER and in the shards of SHARDS.
LOOK = """
import glob, json, sys
import datasets, torchvision, webdataset

folder, shards = sys.argv[1:3]
found = {}
image_folder = torchvision.datasets.ImageFolder(folder)
found["ImageFolder"] = [image_folder.classes, [str(path) for path, _ in image_folder.samples]]
anything = torchvision.datasets.DatasetFolder(folder, open, is_valid_file=lambda path: True)
found["DatasetFolder"] = [anything.classes, [str(path) for path, _ in anything.samples]]

def load(kind, path):
    return datasets.load_dataset(kind, data_dir=path, split="train", cache_dir=sys.argv[3])

rows = load("imagefolder", folder)
found["imagefolder"] = [rows.features["label"].names, rows["label"][:], rows.num_rows]
rows = load("webdataset", shards)
found["Hugging Face's webdataset"] = [sorted(rows["__key__"]), sorted(rows["cls"])]
urls = sorted(glob.glob(shards + "/*.tar"))
read = webdataset.WebDataset(urls, shardshuffle=False)
found["WebDataset"] = [sample["__key__"] for sample in read]
print(json.dumps(found))
"""


def look(folder: Path, shards: Path, cache: Path) -> dict[str, Any]:
    environment = {
        **os.environ,
        "HF_HOME": str(cache),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    }
    command = [sys.executable, "-c", LOOK, str(folder), str(shards), str(cache)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_others_find_the_same_with_an_index(copied: Path, shards: Path, tmp_path: Path):
    """The index once lay in a folder, which ImageFolder took for a class without images."""
    before = look(copied, shards, tmp_path / "before")
    classes, images = before["ImageFolder"]
    assert classes == ["class0", "class1", "class2"] and len(images) == 70
    assert before["imagefolder"][0] == classes and before["imagefolder"][2] == 70
    assert len(before["WebDataset"]) == 70
    for path in (copied, shards, shards / "x-00.tar", f"{shards}/x-{{00..03}}.tar"):
        subprocess.run([FOREBAY, "index", str(path)], check=True, capture_output=True)
    written = [path for path in (*copied.iterdir(), *shards.iterdir()) if path.name[0] == "."]
    assert len(written) == 4 and all(path.is_file() for path in written)
    assert look(copied, shards, tmp_path / "after") == before
