"""Checks the stub against the module it describes, and the package with a strict type checker."""

import os
import subprocess
import sys
from pathlib import Path

import forebay
import typed_use
from conftest import ROOT

# mypy reports errors only in the files on the command line, like for an installed package. It skips
# PyTorch, whose types the package does not name, since PyTorch would take most of the time.
SETTINGS = """
[mypy]
follow_imports = silent
[mypy-torch.*,torchvision.*,tqdm.*,PIL.*,cloudpickle.*,rich.*,safetensors.*]
follow_imports = skip
ignore_missing_imports = True
"""

# stubtest reports these for every nanobind module; they do not matter to a user.
ALLOWED = r"""
forebay\._core\.[A-Z]\w*  # the metaclass is nanobind's
forebay\._core\.\w+\.__init__  # of classes that only the core makes
forebay\._core\.\w+\.__nb_enum__
forebay\._core\.(\w+\.)?(open|open_files|concat|usable_cores|draw_mix|mix)  # functions
forebay\._core\.(draw_actions|check_steps|performed|corners|decode_runs|make_targets)  # functions
forebay\._core\.(normalized_values|drawn_size|read_size|resized_size|tell_leaks)  # functions
forebay\._core\.(memory_location|cache_places|storage_argument|may_be_twins)  # functions
forebay\._core\.(samples_of_epoch|samples_with_same_names|make_palette)  # functions
forebay\._core\.(listen|start_links|check_averaging)  # functions
forebay(\.\w+)+\._\w+  # cached functions that are the package's own
"""


def check(module: str, *arguments: str, folder: Path) -> None:
    """Runs a module of mypy on the package that this test run uses."""
    package = str(Path(forebay.__file__).parent.parent)
    (folder / "mypy.ini").write_text(SETTINGS)
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": package,
            "MYPYPATH": package,
            "MYPY_CACHE_DIR": str(ROOT / "build/mypy"),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stub_is_the_modules(tmp_path: Path):
    (tmp_path / "allowed.txt").write_text(ALLOWED)
    options = ["--mypy-config-file", "mypy.ini", "--allowlist", "allowed.txt"]
    check("mypy.stubtest", *options, "--ignore-disjoint-bases", "forebay", folder=tmp_path)


def test_a_strict_program_has_the_types(packed: Path, tmp_path: Path):
    check("mypy", "--strict", typed_use.__file__, folder=tmp_path)
    typed_use.use(str(packed))
