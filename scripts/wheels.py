"""Builds the package's wheels and tests each one as its user gets it: ./dev wheels.

One wheel for each CPython before the stable ABI and one for all from there on, in build/wheels/.
The core is compiled as in build/release, so that ccache has it; only the binding is new for each.
auditwheel copies the libraries in. docs/decisions/0007-wheels.md says why it is done so.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build/wheels"
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
STABLE_ABI = SETTINGS["tool"]["scikit-build"]["wheel"]["py-api"]
# Of tests/python: what needs neither PyTorch nor the tree.
TESTS = ("test_dataset.py", "test_leaks.py", "test_package.py")
TESTS_WITH_TORCH = ("test_loader.py",)
TEST_PACKAGES = ("pytest", "pillow")
# Every file of a wheel is one of these.
CONTENT = re.compile(
    r"forebay/(_core\.(abi3|cpython-\d+-[\w-]+)\.so|bin/forebay|\w+\.py|_core\.pyi|py\.typed)"
    r"|forebay\.libs/[^/]+\.so[.\d]*"
    r"|forebay-[\d.]+\.(data/scripts/forebay|dist-info/.+)"
)


def say(text: str) -> None:
    """A line for people."""
    print(f"   {text}", flush=True)


def run(command: list[str | Path], **options) -> str:
    """What a command prints; its whole output, and the end of this program, when it fails."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nwheels: failed: {' '.join(map(str, command))}")
    return done.stdout


def interpreter(version: str) -> Path | None:
    """A CPython of this version: on the PATH, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = sorted(pyenv.glob(f"{version}.*/bin/python{version}"), key=os.path.getmtime)
    on_path = shutil.which(f"python{version}")
    for python in [*reversed(installed), *([Path(on_path)] if on_path else [])]:
        # What pyenv puts on the PATH may be a shim of a version that is not chosen here.
        query = "import sys, venv; print(sys.implementation.name, *sys.version_info[:2], sep='.')"
        done = subprocess.run([python, "-c", query], capture_output=True, text=True)
        if done.stdout.strip() == f"cpython.{version}":
            return python
    return None


def tag(version: str) -> str:
    """The Python tag of the wheel that this version takes: cp310, cp311, cp312."""
    own = f"cp{version.replace('.', '')}"
    return STABLE_ABI if int(own[2:]) >= int(STABLE_ABI[2:]) else own


def pip(python: Path, *arguments: str | Path, **options) -> str:
    """This tree's pip, working for another environment."""
    return run([sys.executable, "-m", "pip", "--python", python, *arguments], **options)


def environment(path: Path, python: Path) -> Path:
    """The interpreter of a new, empty virtual environment without pip."""
    run([python, "-m", "venv", "--clear", "--without-pip", path])
    return path / "bin/python"


def build(name: str, python: Path) -> Path:
    """A wheel as pip builds it.

    As ccache has it from build/release: with the compiler's name that CMake takes by itself, and
    without pip's isolation, whose folders are called otherwise each time.
    """
    requires = SETTINGS["build-system"]["requires"]
    folder = OUT / "build" / name
    stamp = folder / "requires.txt"
    wanted = f"{python}\n{requires}"
    if not stamp.exists() or stamp.read_text() != wanted:
        pip(environment(folder, python), "install", "-q", *requires)
        stamp.write_text(wanted)
    raw = folder / "wheel"
    shutil.rmtree(raw, ignore_errors=True)
    inside = folder / "bin/python"
    options: list[str | Path] = ["-q", "--no-build-isolation", "--no-deps", "-w", raw]
    pip(inside, "wheel", *options, ROOT, env={"CXX": "c++", **os.environ})
    (wheel,) = raw.glob("*.whl")
    return wheel


def repair(wheel: Path) -> Path:
    """The wheel with the libraries that it needs inside, and their licences."""
    tools = Path(sys.executable).parent
    repaired = wheel.parent / "repaired"
    run(
        # That x86-64-v3 is needed is known: the module says so itself when it is loaded.
        [tools / "auditwheel", "repair", "--disable-isa-ext-check", "-w", repaired, wheel],
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
    )
    (made,) = repaired.glob("*.whl")
    run([sys.executable, "-m", "wheel", "unpack", "-d", repaired, made])
    (tree,) = (path for path in repaired.iterdir() if path.is_dir())
    (info,) = tree.glob("*.dist-info")
    notices = info / "licenses" / "libraries"
    notices.mkdir()
    for package in packages_of(tree / "forebay.libs"):
        shutil.copy(f"/usr/share/doc/{package}/copyright", notices / f"{package}.txt")
    run([sys.executable, "-m", "wheel", "pack", "-d", OUT, tree])
    return OUT / made.name


def packages_of(libraries: Path) -> set[str]:
    """The Debian packages that these copies come from."""
    packages = set()
    for library in libraries.iterdir():
        # auditwheel's copies are named libpng16-1a2b3c4d.so.16.39.0.
        name = re.sub(r"-[0-9a-f]{8}\.so", ".so", library.name)
        owner = run(["dpkg-query", "-S", f"*/{name}"])
        packages.add(owner.split(":")[0])
    return packages


def check_content(wheel: Path, name: str) -> None:
    """Nothing but the package is inside, nothing points out of it or to this machine's folders."""
    problems = []
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        for file in archive.namelist():
            if not CONTENT.fullmatch(file):
                problems.append(f"{file} does not belong into a wheel")
            content = archive.read(file)
            if str(ROOT).encode() in content:
                problems.append(f"{file} holds the tree's path, {ROOT}")
            if not content.startswith(b"\x7fELF"):
                continue
            path = Path(archive.extract(file, folder))
            dynamic = run(["readelf", "-d", path])
            for way in re.findall(r"R(?:UN)?PATH.*\[(.*)\]", dynamic):
                if not re.fullmatch(r"\$ORIGIN(/[\w./]+)?", way):
                    problems.append(f"{file} looks for libraries in {way}")
            if ".debug_info" in run(["readelf", "-S", "-W", path]):
                problems.append(f"{file} is not stripped")
        module = "_core.abi3.so" if name == STABLE_ABI else "_core.cpython-"
        if not any(file.startswith(f"forebay/{module}") for file in archive.namelist()):
            problems.append(f"there is no forebay/{module}*")
    if problems:
        sys.exit("\n".join(f"wheels: {wheel.name}: {problem}" for problem in problems))


def run_tests(folder: Path, python: Path, tests: tuple[str, ...], **variables: str) -> str:
    """Runs a copy of tests from outside the tree, without this shell's variables; pytest's summary.

    The PATH holds the environment alone, so that there is no compiler.
    """
    copies = folder / "tests"
    copies.mkdir()
    for test in ("conftest.py", *tests):
        shutil.copy(ROOT / "tests/python" / test, copies)
    command: list[str | Path] = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", copies]
    home = folder / "home"
    home.mkdir()
    output = run(command, cwd=home, env={"HOME": str(home), "TMPDIR": str(home), **variables})
    return output.strip().splitlines()[-1]


def test(wheel: Path, python: Path) -> str:
    """In an environment where nothing else is than what the wheel and the tests ask for."""
    with tempfile.TemporaryDirectory(prefix="forebay-wheel-") as name:
        folder = Path(name)
        inside = environment(folder / "venv", python)
        pip(inside, "install", "-q", wheel, *TEST_PACKAGES)
        pip(inside, "check")
        binaries = inside.parent
        return run_tests(
            folder, inside, TESTS, PATH=str(binaries), FOREBAY_BIN=str(binaries / "forebay")
        )


def test_with_torch(wheel: Path) -> str:
    """Over the PyTorch of this tree's environment, which is too large to be installed anew."""
    with tempfile.TemporaryDirectory(prefix="forebay-wheel-") as name:
        folder = Path(name)
        target = folder / "target"
        pip(Path(sys.executable), "install", "-q", "--no-deps", "--target", target, wheel)
        return run_tests(
            folder,
            Path(sys.executable),
            TESTS_WITH_TORCH,
            PATH=str(target / "bin"),
            PYTHONPATH=str(target),
            FOREBAY_BIN=str(target / "bin/forebay"),
        )


def main() -> None:
    """Builds all wheels, then tests each on every interpreter that takes it."""
    found = {version: python for version in VERSIONS if (python := interpreter(version))}
    for version in VERSIONS:
        if version not in found:
            say(f"there is no CPython {version} here: its wheel is neither built nor tested")
    if not found:
        sys.exit(f"wheels: no CPython of {', '.join(VERSIONS)} on the PATH or in ~/.pyenv/versions")
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.whl"):
        old.unlink()
    wheels: dict[str, Path] = {}
    for version, python in found.items():
        if tag(version) not in wheels:
            wheels[tag(version)] = wheel = repair(build(tag(version), python))
            check_content(wheel, tag(version))
            say(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    abi3audit = Path(sys.executable).parent / "abi3audit"
    if STABLE_ABI in wheels:
        run([abi3audit, "--strict", wheels[STABLE_ABI]])
    for version, python in found.items():
        say(f"CPython {version}: {test(wheels[tag(version)], python)}")
    own = "{}.{}".format(*sys.version_info[:2])
    if own in found:
        say(f"CPython {own} with PyTorch: {test_with_torch(wheels[tag(own)])}")


if __name__ == "__main__":
    main()
