"""Goes the whole way from images to a trained model, on real data, with the programs as built.

Without arguments, it writes scikit-learn's handwritten digits as JPEG files, packs and verifies
them, and trains on them until the accuracy is at least 97 %. Then it packs a few photographs that
scikit-learn and scikit-image bring along, and reads and checks one crop of each. With --data
FOLDER, it goes the same way with your own images, which need a subfolder for each class.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
FOREBAY = Path(os.environ.get("FOREBAY_BIN", ROOT / "build/release/src/apps/forebay"))
DIGITS_ACCURACY = 0.97
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")


def forebay(*arguments: str | Path) -> None:
    """Prints a forebay command in the form that a user would type, and runs it."""
    print("\n$ forebay " + " ".join(str(a) for a in arguments), flush=True)
    done = subprocess.run([FOREBAY, *map(str, arguments)], check=False)
    if done.returncode != 0:
        sys.exit(f"forebay {arguments[0]} ended with {done.returncode}; see above")


def write_digits(folder: Path) -> None:
    """Writes scikit-learn's 1,797 digits (8x8 pixels) as 32x32 JPEG files: train and val."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    split = np.random.default_rng(0).permutation(len(digits.images))
    for place, index in enumerate(split):
        part = "val" if place < 360 else "train"
        target = folder / part / str(digits.target[index])
        target.mkdir(parents=True, exist_ok=True)
        pixels = (digits.images[index] * (255 / 16)).round().astype(np.uint8)
        image = Image.fromarray(pixels).resize((32, 32), Image.Resampling.BICUBIC)
        image.save(target / f"{index:04}.jpg", quality=95)


def write_photos(folder: Path) -> None:
    """Collects the JPEG photographs that scikit-learn and scikit-image install."""
    import skimage
    import sklearn.datasets

    folders = [
        Path(sklearn.datasets.__file__).parent / "images",
        Path(skimage.__file__).parent / "data",
    ]
    target = folder / "photo"
    target.mkdir(parents=True)
    for photo in sorted(p for f in folders for p in f.glob("*.jpg")):
        shutil.copy(photo, target)


def split_folder(source: Path, folder: Path) -> int:
    """Links every fifth image of a class into val/, the others into train/; counts the others."""
    counts = {"train": 0, "val": 0}
    for class_folder in sorted(p for p in source.iterdir() if p.is_dir()):
        files = sorted(p for p in class_folder.rglob("*") if p.is_file())
        for place, file in enumerate(files):
            part = "val" if place % 5 == 4 else "train"
            target = folder / part / class_folder.name / file.relative_to(class_folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(file.resolve())
            counts[part] += file.suffix.lower() in SUFFIXES
        for part in ("train", "val"):
            (folder / part / class_folder.name).mkdir(parents=True, exist_ok=True)
    if min(counts.values()) == 0:
        sys.exit(f"{source}: make a subfolder for each class, and at least one with five images")
    return counts["train"]


def train(work: Path, *options: str) -> float:
    """Packs, verifies and trains on work/train and work/val; gives the accuracy on val."""
    for part in ("train", "val"):
        forebay("pack", work / part, work / f"{part}.forebay")
        forebay("verify", work / f"{part}.forebay")
    forebay("inspect", work / "train.forebay")
    log = work / "log.jsonl"
    forebay("train", work / "train.forebay", "--val", work / "val.forebay",
            "--out", work / "run", "--log", log, *options)  # fmt: skip
    records = [json.loads(line) for line in log.read_text().splitlines()]
    return [r["val_accuracy"] for r in records if "val_accuracy" in r][-1]


def show_crops(work: Path) -> None:
    """Packs the photographs; checks a crop of each, and prints the bytes that it touches."""
    write_photos(work / "photos")
    forebay("pack", work / "photos", work / "photos.forebay")
    listing = subprocess.run(
        [FOREBAY, "ls", work / "photos.forebay", "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    for line in listing.stdout.splitlines():
        key = json.loads(line)["key"]
        forebay("inspect", work / "photos.forebay", key, "--crop", "60,80,224,224")


def main() -> int:
    """Runs the demonstration; returns 1 if the accuracy on the digits is below the stated one."""
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder with a subfolder of images per class")
    parser.add_argument("--epochs", type=int, default=8, help="epochs to train for (default: 8)")
    arguments = parser.parse_args()

    work = ROOT / ".demo"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    started = time.monotonic()
    if arguments.data:
        if not arguments.data.is_dir():
            parser.error(f"{arguments.data} is not a folder")
        images = split_folder(arguments.data, work)
        # An epoch has about ten steps, unless this needs more than the usual batch.
        batch = min(256, max(1, images // 10))
        accuracy = train(work, "--epochs", str(arguments.epochs), "--batch", str(batch))
        print(f"\naccuracy on every fifth image, held out: {accuracy:.1%}")
        return 0

    write_digits(work)
    options = ["--batch", "64", "--no-flip"]
    options += ["--epochs", str(arguments.epochs), "--target-accuracy", str(DIGITS_ACCURACY)]
    accuracy = train(work, *options)
    seconds = time.monotonic() - started
    show_crops(work)
    print(f"\n1,797 handwritten digits: packed, verified and trained to {accuracy:.1%} on 360 "
          f"held-out images in {seconds:.0f} s (stated: {DIGITS_ACCURACY:.0%})")  # fmt: skip
    return 0 if accuracy >= DIGITS_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
