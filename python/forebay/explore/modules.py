"""The user's modules that code imports, found in its bytecode.

Nothing is imported here: a stage may import modules that the flow's process never imports.
"""

import dis
import functools
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from pathlib import Path

_NOT_THE_USERS = tuple(
    os.path.realpath(path) + os.sep
    for path in {
        *sysconfig.get_paths().values(),
        *(path for path in sys.path if path.endswith(("site-packages", "dist-packages"))),
        str(Path(__file__).resolve().parents[1]),
    }
    if path
)


def is_the_users(path: str | None) -> bool:
    """Whether a module's file is the user's; None is a module that is built in, or a namespace."""
    return path is not None and not os.path.realpath(path).startswith(_NOT_THE_USERS)


def code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code and all code inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


def imports_of(code: types.CodeType, package: str) -> Iterator[str]:
    """The full names of what the import statements of code name, also of what is no module.

    Args:
        code: Of a function or a module.
        package: The package that relative imports begin from.
    """
    for one in code_objects(code):
        steps = list(dis.get_instructions(one))
        for number, step in enumerate(steps):
            if step.opname != "IMPORT_NAME":
                continue
            level, names = steps[number - 2].argval, steps[number - 1].argval
            base = str(step.argval)
            if level:
                parents = package.split(".")[: len(package.split(".")) - level + 1]
                base = ".".join([*parents, *filter(None, [base])])
            yield base
            yield from (f"{base}.{name}" for name in names or () if name != "*")


def users_files(names: Iterable[str]) -> dict[str, str]:
    """The files of the user's modules among `names`, of the packages that hold them, and of the
    user's modules that these import in turn; by module."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    open_names = list(names)
    while open_names:
        name = open_names.pop()
        if name in seen:
            continue
        seen.add(name)
        if parent := name.rpartition(".")[0]:
            open_names.append(parent)
        path = _file_of(name)
        if path is None or not is_the_users(path):
            continue
        found[name] = path
        if path.endswith(".py"):
            package = name if os.path.basename(path) == "__init__.py" else parent
            state = os.stat(path)
            open_names.extend(_imports_of_file(path, package, state.st_mtime_ns, state.st_size))
    return found


def installed_version(name: str) -> str:
    """The version of the installed package that has a module; "" if it has none."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return ""
    try:
        return importlib.metadata.version(top)
    except importlib.metadata.PackageNotFoundError:
        packages = _packages_by_module().get(top)
        return importlib.metadata.version(packages[0]) if packages else ""


@functools.cache
def _packages_by_module() -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())


@functools.lru_cache(maxsize=1000)
def _imports_of_file(path: str, package: str, *_state: int) -> list[str]:
    try:
        code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return []
    return list(imports_of(code, package))


def _file_of(name: str) -> str | None:
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None)
    spec = _spec_of(name)
    return spec.origin if spec is not None and spec.has_location else None


def _spec_of(name: str) -> importlib.machinery.ModuleSpec | None:
    parent = name.rpartition(".")[0]
    try:
        if not parent:
            return importlib.util.find_spec(name)
        if parent in sys.modules:
            places = getattr(sys.modules[parent], "__path__", None)
        else:
            above = _spec_of(parent)
            places = None if above is None else above.submodule_search_locations
        if places is None:
            return None
        return importlib.machinery.PathFinder.find_spec(name, list(places))
    except (ImportError, ValueError, AttributeError):
        return None
