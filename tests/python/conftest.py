"""Fixtures of a small packed dataset of generated JPEGs of many sizes, and the marker nightly."""

import io
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
FOREBAY = os.environ.get("FOREBAY_BIN", str(ROOT / "build/release/src/apps/forebay"))
IMAGES = 70
CLASSES = 3
SLOW = (
    "the test takes long, so it runs only if the environment variable FOREBAY_TEST_ALL is set; "
    "set FOREBAY_TEST_ALL=1 or run ./dev nightly"
)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker of slow tests."""
    config.addinivalue_line("markers", f"nightly: {SLOW}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips the slow tests unless the environment asks for all tests."""
    if not os.environ.get("FOREBAY_TEST_ALL"):
        for item in items:
            if item.get_closest_marker("nightly"):
                item.add_marker(pytest.mark.skip(reason=SLOW))


def make_jpeg(seed: int) -> bytes:
    """Makes a JPEG of smooth noise whose sides are 40 to 300 pixels long."""
    random = np.random.default_rng(seed)
    width, height = (int(side) for side in random.integers(40, 300, 2))
    small = Image.fromarray(random.integers(0, 256, (9, 11, 3), dtype=np.uint8))
    out = io.BytesIO()
    small.resize((width, height), Image.Resampling.BICUBIC).save(
        out, "JPEG", quality=int(random.integers(50, 96)), subsampling=int(random.integers(0, 3))
    )
    return out.getvalue()


def pack(images: dict[str, bytes], root: Path, *options: str) -> Path:
    """Packs images, given by their paths in the folder; some may be damaged on purpose."""
    for name, content in images.items():
        path = root / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    places = [str(root / "images"), str(root / "set")]
    command = [FOREBAY, "pack", "--skip-max", "100%", *places, *options]
    subprocess.run(command, check=True, capture_output=True)
    return root / "set"


@pytest.fixture(scope="session")
def images() -> dict[str, bytes]:
    """Returns the files' contents by their paths in the folder."""
    return {f"class{i % CLASSES}/{i:03}.jpg": make_jpeg(i) for i in range(IMAGES)}


@pytest.fixture(scope="session")
def folder(packed: Path) -> Path:
    """Returns the folder of images that `packed` was packed from."""
    return packed.parent / "images"


@pytest.fixture(scope="session")
def packed(images: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a dataset of all images in several chunks."""
    return pack(images, tmp_path_factory.mktemp("packed"), "--chunk-bytes", "100000")
