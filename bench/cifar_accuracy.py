"""A ResNet-18 on CIFAR-10 through Forebay and through torchvision's loader: the same accuracy?

The loaders and the training are docs/migrating.md's code as printed; both sides have the same
seeds and schedule. The orders and crops are each side's own, so that the accuracies differ by as
much as two seeds do.
usage: ./dev bench cifar_accuracy CIFAR [EPOCHS] [SAMPLES]
CIFAR: a folder with train/ and test/, each with a folder of images for each class
EPOCHS: 30 unless told; SAMPLES: only so many training images, and a fifth of that for testing
"""

import json
import re
import runpy
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lib.machine import machine

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- run -->\n```python\n(.*?)```", re.DOTALL)
PARTS = ("torchvision_loaders", "forebay_loaders", "train")


def printed_code() -> dict[str, Any]:
    """What the migration page defines: the two loaders and the training."""
    names: dict[str, Any] = {}
    for block in BLOCK.findall((ROOT / "docs/migrating.md").read_text()):
        if any(f"def {part}(" in block for part in PARTS):
            exec(compile(block, "docs/migrating.md", "exec"), names)
    return names


def take(cifar: Path, samples: int, root: Path) -> None:
    """Links to the first images of each class: `samples` for training, a fifth for testing."""
    for split, wanted in (("train", samples), ("test", samples // 5)):
        classes = sorted(path for path in (cifar / split).iterdir() if path.is_dir())
        for one in classes:
            (root / split / one.name).mkdir(parents=True)
            for file in sorted(one.iterdir())[: max(1, wanted // len(classes))]:
                (root / split / one.name / file.name).symlink_to(file.resolve())


def main() -> None:
    """Prints a line for each side and, last, one JSON object."""
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    cifar = Path(sys.argv[1])
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    runpy.run_path(str(ROOT / "scripts/torchvision_on_cpu/sitecustomize.py"))
    sys.path.insert(0, str(ROOT / "build/release/python"))
    code = printed_code()
    result: dict[str, object] = {"machine": machine(), "epochs": epochs}
    accuracy = {}
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 3:
            take(cifar, int(sys.argv[3]), Path(folder))
            cifar = Path(folder)
        for side in ("forebay", "torchvision"):
            start = time.monotonic()
            accuracy[side] = code["train"](code[f"{side}_loaders"], str(cifar), epochs)
            seconds = time.monotonic() - start
            print(f"{side}: accuracy {accuracy[side]:.4f}, {seconds:.0f} s", flush=True)
            result[f"{side}_accuracy"] = accuracy[side]
    result["forebay_minus_torchvision"] = accuracy["forebay"] - accuracy["torchvision"]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
