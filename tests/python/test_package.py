"""Tests the installed package: without PyTorch, and its command, types and processor check."""

import importlib.resources
import io
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import forebay
from conftest import FOREBAY, make_jpeg, pack
from forebay import transforms as T

SIDE = 48


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch):
    """Makes importing torch fail, like on a machine without PyTorch."""
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packs JPEGs of SIDE x SIDE pixels."""
    images = {}
    for i in range(21):
        out = io.BytesIO()
        Image.open(io.BytesIO(make_jpeg(i))).resize((SIDE, SIDE)).save(out, "JPEG", quality=90)
        images[f"class{i % 2}/{i:03}.jpg"] = out.getvalue()
    return pack(images, tmp_path_factory.mktemp("squares"))


def test_importing_needs_no_torch():
    script = "import sys; sys.modules['torch'] = None; import forebay; print(forebay.__name__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("forebay\n", "")


def test_batches_are_arrays_of_the_images(no_torch, squares: Path):
    loader = forebay.Loader(squares, 8, transform=[T.Resize(SIDE), T.CenterCrop(SIDE)])
    batches = list(loader)
    assert [images.shape for images, _ in batches] == [(n, 3, SIDE, SIDE) for n in (8, 8, 5)]
    images, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    assert (images.dtype, labels.dtype) == (np.uint8, np.int64)
    assert np.array_equal(labels, loader.dataset.targets)
    for i in range(len(loader.dataset)):
        expected = np.asarray(Image.open(io.BytesIO(loader.dataset.read(i))))
        assert np.array_equal(images[i].transpose(1, 2, 0), expected)


def test_a_resumed_epoch_is_the_same(no_torch, packed: Path):
    def make() -> forebay.Loader:
        return forebay.Loader(packed, 8, shuffle=True, num_workers=2, transform=T.train(32))

    whole = list(make())
    assert whole[0][0].dtype == np.float32
    begun = make()
    steps = iter(begun)
    for _ in range(3):
        next(steps)
    again = make()
    again.load_state_dict(begun.state_dict())
    rest = list(again)
    assert len(rest) == len(whole) - 3
    for (images, labels), (others, numbers) in zip(whole[3:], rest, strict=True):
        assert np.array_equal(images, others)
        assert np.array_equal(labels, numbers)


def test_the_command_runs(packed: Path):
    def forebay_says(*arguments: str) -> str:
        done = subprocess.run([FOREBAY, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert forebay_says("--version").strip().split()[-1].count(".") == 2
    assert "no damage" in forebay_says("verify", str(packed))
    done = subprocess.run([FOREBAY, "verify", "nowhere"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "nowhere" in done.stderr


def test_types_come_with_it():
    files = importlib.resources.files(forebay)
    assert files.joinpath("py.typed").is_file()
    assert "class Feed:" in files.joinpath("_core.pyi").read_text()


@pytest.mark.skipif(
    shutil.which("qemu-x86_64", path="/usr/bin") is None,
    reason="a processor without AVX2 is emulated: needs qemu-user, which is in packages.txt",
)
def test_a_lesser_processor_is_told():
    # This processor has SSE4.2, which NumPy needs, but no AVX2.
    command = ["/usr/bin/qemu-x86_64", "-cpu", "Nehalem", sys.executable]
    done = subprocess.run([*command, "-c", "import forebay"], capture_output=True, text=True)
    assert "ImportError" in done.stderr
    assert "CPU ISA level is lower than required" in done.stderr
