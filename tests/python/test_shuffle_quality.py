"""Training on a pack in shuffled order, shuffled chunk by chunk, learns as well as with a full
shuffle. Without the shuffle at pack time it learns visibly worse. The long run is bench/shuffle.py
on CIFAR-10."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

ROOT = Path(__file__).resolve().parents[2]
FOREBAY = Path(os.environ.get("FOREBAY_BIN", ROOT / "build/release/src/apps/forebay"))


@pytest.mark.nightly
def test_shuffled_pack_learns_as_a_full_shuffle_does(tmp_path: Path) -> None:
    """The data are 1,797 handwritten digits in at least 30 chunks, each shuffled by itself."""
    digits = load_digits()
    for index, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        folder = tmp_path / ("val" if index % 5 == 0 else "train") / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        grey = (pixels * (255 / 16)).round().astype(np.uint8)
        Image.fromarray(grey).resize((32, 32)).save(folder / f"{index:04}.jpg", quality=95)
    command = [sys.executable, ROOT / "bench/shuffle.py", tmp_path / "train", tmp_path / "val"]
    command += ["--chunk-bytes", "65536", "--chunks-min", "30", "--lanes", "1", "--no-flip"]
    command += ["--batch", "32", "--epochs", "2", "--seeds", "4"]
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, "FOREBAY_BIN": str(FOREBAY)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    figures = json.loads(done.stdout.splitlines()[-1])
    # Twice the spread of single runs is about four standard errors of a difference of such means.
    within = 2 * figures["spread"] + 0.01
    assert abs(figures["shuffled_minus_full"]) < within
    assert figures["ordered_minus_full"] < -within - 0.05
    assert figures["ordered_minus_shuffled"] < -within - 0.05
