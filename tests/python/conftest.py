"""Fixtures: a small packed dataset of generated JPEGs, real servers, and the marker nightly."""

import atexit
import io
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pytest
from PIL import Image

if TYPE_CHECKING:
    from places import Place
    from servers.browser import Browser
    from servers.chaos import ChaosProxy
    from servers.nginx import Nginx
    from servers.s3 import S3

ROOT = Path(__file__).resolve().parents[2]
# Tests count what is read from servers, so nothing is kept from one to the next unless they say so.
os.environ["FOREBAY_INDEX_CACHE"] = "off"
# The secret of this user's programs is one of the tests alone.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="forebay-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
# No test may find the keys, settings or stores of this machine's user.
for name in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[name]
os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = "/none"
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
# MKL rounds products of matrices in another way on each kind of processor unless it is told not to.
# torchvision's warps have such products, so its pixels would depend on the machine.
os.environ["MKL_CBWR"] = "COMPATIBLE"
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


def run_forebay(
    *words: object, env: dict[str, str] | None = None, code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Runs a command, which must end with this exit code."""
    command = [FOREBAY, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=240)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done


def write_secret(path: Path, text: str) -> Path:
    """Writes a file that only this user can read."""
    path.touch(mode=0o600)
    path.write_text(text)
    return path


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


@pytest.fixture(scope="session")
def servers_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder in which all workers of this run find its servers."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "servers"


def leave_out(reason: str) -> NoReturn:
    """Skips a test that cannot run on this machine, or fails it if all tests are asked for."""
    if os.environ.get("FOREBAY_TEST_ALL"):
        pytest.fail(reason)
    pytest.skip(reason)


def skip_without(packages: dict[str, str]) -> None:
    """Leaves a test out if a program is missing; `packages` names each program's Debian package."""
    from servers.processes import missing_packages

    if missing := missing_packages(packages):
        leave_out(f"these Debian packages are missing: {' '.join(missing)} (./dev installs them)")


@pytest.fixture(scope="session")
def nginx(servers_folder: Path) -> "Nginx":
    """Returns the run's nginx; a test makes a folder of its own in its `folder`."""
    from servers import keeper, nginx

    skip_without(nginx.PACKAGES)
    return nginx.described(keeper.shared("nginx", servers_folder))


@pytest.fixture(scope="session")
def s3(servers_folder: Path) -> "S3":
    """Returns the run's Ceph gateway; a test makes buckets of its own with `make_bucket`."""
    from servers import ceph, keeper, s3

    skip_without(ceph.PACKAGES)
    return s3.described(keeper.shared("ceph", servers_folder))


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Returns a browser for all tests of a file."""
    from servers import browser

    skip_without(browser.PACKAGES)
    with browser.run_chromium() as running:
        yield running


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a packed dataset of images that are large enough to read only parts of them."""
    from places import PHOTOS, make_photo

    root = tmp_path_factory.mktemp("photos")
    for number in range(PHOTOS):
        path = root / "images" / f"class{number % 3}" / f"{number:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        make_photo(number).save(path, quality=90)
    return pack({}, root, "--chunk-bytes", "1000000")


@pytest.fixture(scope="session")
def many_chunks(photos: Path) -> Path:
    """Returns the photographs in so many chunks that each machine owns some."""
    packed = photos.parent / "many"
    run_forebay("pack", photos.parent / "images", packed, "--chunk-bytes", "100000")
    return packed


@pytest.fixture(scope="session")
def bucket(s3: "S3", photos: Path) -> str:
    """Returns a bucket with the photographs as "set" and their images as "images"."""
    name = s3.make_bucket()
    s3.upload(photos, name, "set/")
    s3.upload(photos.parent / "images", name, "images/")
    return name


@pytest.fixture(params=["web", "s3"])
def place(request: pytest.FixtureRequest, photos: Path) -> "Place":
    """Returns the photographs on each of the servers."""
    from places import Place, on_web, s3_options

    if request.param == "web":
        nginx: Nginx = request.getfixturevalue("nginx")
        return Place(f"{nginx.url}/{on_web(nginx, photos)}", None, nginx.url)
    s3: S3 = request.getfixturevalue("s3")
    bucket: str = request.getfixturevalue("bucket")
    return Place(f"s3://{bucket}/set", s3_options(s3), s3.endpoint)


@pytest.fixture
def chaos() -> "Iterator[Callable[..., ChaosProxy]]":
    """Returns a function like ChaosProxy's constructor, whose proxies end with the test."""
    from servers.chaos import ChaosProxy

    with ExitStack() as proxies:
        yield lambda url, **options: proxies.enter_context(ChaosProxy(url, **options))
