"""Builds the package's wheels and tests each of them like a user installs it: ./dev wheels.

Writes to build/wheels/ a wheel for each CPython before the stable ABI and one wheel for all later
versions; with --own, only the wheel for the CPython that runs this. The core is compiled like in
build/release, so that ccache has it; only the binding is compiled for each wheel. auditwheel copies
the libraries in. docs/decisions/0007-wheels.md says why it is done so.
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
# These files of tests/python need neither PyTorch nor the tree.
TESTS = ("test_dataset.py", "test_leaks.py", "test_package.py")
TESTS_WITH_TORCH = ("test_loader.py",)
TEST_PACKAGES = ("pytest", "pillow")
# The name of every file in a wheel must match this.
CONTENT = re.compile(
    r"forebay/(_core\.(abi3|cpython-\d+-[\w-]+)\.so|bin/forebay|(\w+/)*\w+\.py|_core\.pyi|py\.typed)"
    r"|forebay/explore/report_page\.html"
    r"|forebay\.libs/[^/]+\.so[.\d]*"
    r"|forebay-[\d.]+\.(data/scripts/forebay|dist-info/.+)"
)


def say(text: str) -> None:
    """Prints a line of progress."""
    print(f"   {text}", flush=True)


def run(command: list[str | Path], **options) -> str:
    """Runs a command and returns its output; ends this program with the output if it fails."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nwheels: failed: {' '.join(map(str, command))}")
    return done.stdout


def interpreter(version: str) -> Path | None:
    """Finds a CPython of this version among pyenv's or on the PATH."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = sorted(pyenv.glob(f"{version}.*/bin/python{version}"), key=os.path.getmtime)
    on_path = shutil.which(f"python{version}")
    for python in [*reversed(installed), *([Path(on_path)] if on_path else [])]:
        # A python on the PATH may be pyenv's shim for a version that is not chosen here.
        query = "import sys, venv; print(sys.implementation.name, *sys.version_info[:2], sep='.')"
        done = subprocess.run([python, "-c", query], capture_output=True, text=True)
        if done.stdout.strip() == f"cpython.{version}":
            return python
    return None


def tag(version: str) -> str:
    """Returns the Python tag of the wheel for this version: cp310, cp311 or cp312."""
    own = f"cp{version.replace('.', '')}"
    return STABLE_ABI if int(own[2:]) >= int(STABLE_ABI[2:]) else own


def pip(python: Path, *arguments: str | Path, **options) -> str:
    """Runs this environment's pip for another environment."""
    return run([sys.executable, "-m", "pip", "--python", python, *arguments], **options)


def environment(path: Path, python: Path) -> Path:
    """Makes an empty virtual environment without pip and returns its interpreter."""
    run([python, "-m", "venv", "--clear", "--without-pip", path])
    return path / "bin/python"


def build(name: str, python: Path) -> Path:
    """Builds a wheel with pip.

    ccache can reuse what build/release compiled, since the compiler's name is the same as CMake's
    own choice and pip's isolation is off, which would use folders of another name each time.
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
    """Makes a wheel that also holds the libraries that it needs, and their licences."""
    tools = Path(sys.executable).parent
    repaired = wheel.parent / "repaired"
    run(
        # The wheel needs x86-64-v3 on purpose, and the module says so itself when it is loaded.
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
    """Returns the Debian packages that these copies of libraries come from."""
    packages = set()
    for library in libraries.iterdir():
        # auditwheel puts a hash before the first dot: libldap-2-1a2b3c4d.5.so.0.1.8.
        name = re.sub(r"^([^.]+)-[0-9a-f]{8}\.", r"\1.", library.name)
        owner = run(["dpkg-query", "-S", f"*/{name}"])
        packages.add(owner.split(":")[0])
    return packages


def check_content(wheel: Path, name: str) -> None:
    """Fails if a wheel has other files than the package's, or names folders outside of itself."""
    problems = []
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        for file in archive.namelist():
            if not CONTENT.fullmatch(file):
                problems.append(f"{file} does not belong in a wheel")
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
    """Runs a copy of tests outside the tree, without this shell's variables.

    The PATH holds the environment alone, so that there is no compiler. Returns pytest's summary.
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
    """Tests a wheel in an environment that has only what the wheel and the tests need."""
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
    """Tests a wheel with this environment's PyTorch, which is too large to be installed again."""
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
    own = "{}.{}".format(*sys.version_info[:2])
    wanted = (own,) if "--own" in sys.argv[1:] else VERSIONS
    found = {version: python for version in wanted if (python := interpreter(version))}
    for version in wanted:
        if version not in found:
            say(f"there is no CPython {version} here: its wheel is neither built nor tested")
    if not found:
        sys.exit(f"wheels: no CPython of {', '.join(wanted)} on the PATH or in ~/.pyenv/versions")
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
    if own in found:
        say(f"CPython {own} with PyTorch: {test_with_torch(wheels[tag(own)])}")


if __name__ == "__main__":
    main()
