"""What a value or a function is, as a digest: equal digests stand for equal results.

A function's digest covers its own code and, transitively, the functions, classes and constants of
the user's that it names. Packages count with their version. Comments, docstrings and the layout of
the source do not count.
"""

import ast
import dataclasses
import dis
import enum
import functools
import hashlib
import inspect
import os
import pickle
import struct
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from forebay.explore import modules

_ATTRIBUTE_STEPS = ("LOAD_ATTR", "LOAD_METHOD")
_classes_inside: list[type] = []  # a class whose methods use one of its objects is read once


def digest(*values: Any) -> str:
    """A digest of the values, 64 hexadecimal digits; the same in each process on each machine.

    Raises:
        TypeError: A value has no content that can be compared; the message says which.
    """
    hasher = hashlib.sha256()
    _Encoder(hasher.update).put(values)
    return hasher.hexdigest()


def code_parts(function: Callable[..., Any]) -> dict[str, str]:
    """The digest of each function, class and constant of the user's that `function` needs."""
    parts = _Parts()
    parts.add(function, _name_of(function))
    return parts.digests


class _Encoder:
    """Writes values so that different values have different bytes."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._inside: list[int] = []  # the containers around the present value

    def put(self, value: Any) -> None:
        if id(value) in self._inside:
            raise TypeError("a container holds itself")
        self._inside.append(id(value))
        try:
            self._put(value)
        finally:
            self._inside.pop()

    def _tagged(self, tag: str, content: bytes = b"") -> None:
        self._write(f"{tag}:{len(content)}:".encode())
        self._write(content)

    def _put(self, value: Any) -> None:
        if value is None or isinstance(value, (bool, int, complex)):
            self._tagged(type(value).__name__, repr(value).encode())
        elif isinstance(value, float):
            self._tagged("float", struct.pack("<d", value))
        elif isinstance(value, str):
            self._tagged("str", value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, (bytes, bytearray)):
            self._tagged("bytes", bytes(value))
        elif isinstance(value, (list, tuple)):
            self._tagged(type(value).__name__, str(len(value)).encode())
            for item in value:
                self.put(item)
        elif isinstance(value, (set, frozenset)):
            self._tagged("set", "".join(sorted(map(digest, value))).encode())
        elif isinstance(value, Mapping):
            items = sorted((digest(key), item) for key, item in value.items())
            self._tagged("dict", str(len(items)).encode())
            for key, item in sorted(items, key=lambda pair: pair[0]):
                self._tagged("key", key.encode())
                self.put(item)
        else:
            self._put_object(value)

    def _put_object(self, value: Any) -> None:
        torch = sys.modules.get("torch")
        if isinstance(value, enum.Enum):
            self._tagged("enum", f"{type(value).__qualname__}.{value.name}".encode())
        elif isinstance(value, PurePath):
            self._tagged("path", os.fsencode(value))
        elif isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value)
            if array.dtype.hasobject:
                raise TypeError("an array of Python objects has no bytes that can be compared")
            self._tagged("array", f"{array.dtype.str}{array.shape}".encode())
            self._write(np.ascontiguousarray(array).tobytes())
        elif torch is not None and isinstance(value, torch.Tensor):
            self._tagged("tensor", f"{value.dtype}{tuple(value.shape)}".encode())
            flat = value.detach().cpu().contiguous().reshape(-1)
            self._write(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
        elif hasattr(value, "__forebay_identity__"):
            self._tagged("own", type(value).__qualname__.encode())
            self.put(value.__forebay_identity__())
        elif isinstance(value, functools.partial):
            self._tagged("partial")
            self.put((value.func, value.args, value.keywords))
        elif isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) or _wraps(
            value
        ):
            self._tagged("code")
            self.put(sorted(code_parts(value).items()))
        elif isinstance(value, types.MethodType):
            self._tagged("method")
            self.put((value.__func__, value.__self__))
        elif dataclasses.is_dataclass(value):
            self._tagged("dataclass", type(value).__qualname__.encode())
            self._put_code_of(type(value))
            self.put({f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
        else:
            self._put_pickled(value)

    def _put_pickled(self, value: Any) -> None:
        try:
            content = pickle.dumps(value, 4)
        except Exception as error:
            raise TypeError(
                f"a value of {type(value).__module__}.{type(value).__qualname__} has no content "
                f"that can be compared ({error}); pass what it is made from, or give it a method "
                "__forebay_identity__ that returns that"
            ) from error
        self._tagged("pickle", content)
        self._put_code_of(type(value))

    def _put_code_of(self, kind: type) -> None:
        """Writes the code of a class of the user's, whose methods a stage may call."""
        if is_the_users(kind) and kind not in _classes_inside:
            _classes_inside.append(kind)
            try:
                self.put(sorted(code_parts(kind).items()))
            finally:
                _classes_inside.remove(kind)


def _wraps(value: Any) -> bool:
    """Whether a value is a function in a wrapper, such as lru_cache or a stage without version."""
    return (
        callable(value)
        and isinstance(getattr(value, "__wrapped__", None), types.FunctionType)
        and not getattr(value, "version", "")
    )


def _name_of(code: Any) -> str:
    return f"{getattr(code, '__module__', '?')}.{getattr(code, '__qualname__', repr(code))}"


def is_the_users(code: Any) -> bool:
    """Whether a function, class or module is the user's, and not of an installed package."""
    module = code if isinstance(code, types.ModuleType) else sys.modules.get(code.__module__ or "")
    if module is None or module.__name__ == "__main__":
        return True
    return modules.is_the_users(getattr(module, "__file__", None))


def _version_of(module_name: str) -> str:
    package = sys.modules.get(module_name.partition(".")[0])
    return str(getattr(package, "__version__", ""))


class _Parts:
    """The digests of what a function needs, each under a name of its own."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self._seen: set[int] = set()
        self._files: set[str] = set()

    def add(self, code: Any, name: str) -> None:
        """Adds `code` and all that it names."""
        if isinstance(code, types.ModuleType):
            self._add_module(code, name)
            return
        code = self._unwrapped(code, name)
        if id(code) in self._seen:
            return
        self._seen.add(id(code))
        if isinstance(code, types.BuiltinFunctionType) or not is_the_users(code):
            version = _version_of(getattr(code, "__module__", "") or "")
            self._put(name, digest(_name_of(code), version))
            return
        self._add_used(code, self._put(name, digest(_source_of(code))))

    def _unwrapped(self, code: Any, name: str) -> Any:
        """The function in its decorators' wrappers; adds those that are the user's."""
        while callable(code) and callable(getattr(code, "__wrapped__", None)):
            if id(code) in self._seen:
                return code
            is_function = isinstance(code, types.FunctionType)
            if is_function and modules.is_the_users(code.__code__.co_filename):
                self._seen.add(id(code))
                self._add_used(code, self._put(f"{name}: wrapper", digest(_bytecode_of(code))))
            code = code.__wrapped__
        return code

    def _add_used(self, code: Any, name: str) -> None:
        for function in _functions_of(code):
            self._add_imported(function)
        for used_name, value in _named_by(code):
            if isinstance(value, (types.ModuleType, type, types.FunctionType)) or _wraps(value):
                self.add(value, _name_of(value) if callable(value) else used_name)
            elif not isinstance(value, types.BuiltinFunctionType):
                try:
                    self._put(f"{name}: {used_name}", digest(value))
                except TypeError as error:
                    raise TypeError(f"{name} uses {used_name} from outside: {error}") from error

    def _add_module(self, module: types.ModuleType, name: str) -> None:
        """Adds a module: its file and what that imports, or the version of its package."""
        path = getattr(module, "__file__", None)
        if path is None or not is_the_users(module):
            self._put(name, digest(module.__name__, _version_of(module.__name__)))
        elif path not in self._add_files([module.__name__]).values():
            self._put(name, _file_content(path))

    def _add_imported(self, function: types.FunctionType) -> None:
        """Adds the modules that a function imports when it runs."""
        package = function.__globals__.get("__package__") or ""
        names = list(modules.imports_of(function.__code__, package))
        files = self._add_files(names)
        for name in {name.partition(".")[0] for name in names} - set(files):
            self._put(name, digest(name, modules.installed_version(name)))

    def _add_files(self, names: list[str]) -> dict[str, str]:
        files = modules.users_files(names)
        for name, path in files.items():
            if path not in self._files:
                self._files.add(path)
                self._put(name, _file_content(path))
        return files

    def _put(self, name: str, content: str) -> str:
        """Adds a digest. Functions of the same name, such as lambdas, get numbers."""
        own, count = name, 1
        while self.digests.get(own, content) != content:
            count += 1
            own = f"{name} ({count})"
        self.digests[own] = content
        return own


def _file_content(path: str) -> str:
    content = Path(path).read_bytes()
    try:
        return digest(_without_docstrings(ast.parse(content)))
    except (SyntaxError, ValueError):  # a compiled module
        return digest(content)


def _source_of(code: Any) -> str:
    """The code without comments, docstrings and decorators, in one layout."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError):  # typed into an interpreter, or a lambda in a call
        return _bytecode_of(code) if isinstance(code, types.FunctionType) else _class_content(code)
    if isinstance(code, types.FunctionType) and code.__name__ == "<lambda>":
        return _bytecode_of(code)
    if tree.body and isinstance(
        tree.body[0], (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    ):
        tree.body[0].decorator_list = []
    return _without_docstrings(tree)


def _without_docstrings(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            and node.body
            and isinstance(node.body[0], ast.Expr)
            and isinstance(node.body[0].value, ast.Constant)
            and isinstance(node.body[0].value.value, str)
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _bytecode_of(function: types.FunctionType) -> str:
    return repr([_code_text(one) for one in modules.code_objects(function.__code__)])


def _code_text(code: types.CodeType) -> tuple[Any, ...]:
    constants = [one for one in code.co_consts if not isinstance(one, types.CodeType)]
    # The order in which a constant set prints differs between processes, its digest does not.
    return code.co_code, digest(constants), code.co_names, code.co_varnames


def _class_content(code: type) -> str:
    """A class whose source is not there, as in notebooks: its functions and other attributes."""
    content: list[Any] = []
    for name, member in sorted(vars(code).items()):
        function = _function_in(member)
        if function is not None:
            content.append((name, type(member).__name__, _bytecode_of(function)))
        elif not (name.startswith("__") and name.endswith("__")) and name != "_abc_impl":
            try:
                content.append((name, digest(member)))
            except TypeError as error:
                raise TypeError(
                    f"the source of {_name_of(code)} cannot be read, and its attribute {name} "
                    f"cannot be compared: {error}; put the class into a file, or give the stage a "
                    "version: @fx.stage(version=…)"
                ) from None
    return repr(content)


def _function_in(member: Any) -> types.FunctionType | None:
    """The function of a method, a static or class method, or a property; None for other values."""
    function = getattr(member, "__func__", getattr(member, "fget", member))
    return function if isinstance(function, types.FunctionType) else None


def _functions_of(code: Any) -> list[types.FunctionType]:
    if isinstance(code, types.FunctionType):
        return [code]
    members = vars(code).values() if isinstance(code, type) else ()
    return [one for one in map(_function_in, members) if one is not None]


def _named_by(code: Any) -> Iterator[tuple[str, Any]]:
    """The names that a function or a class uses from outside, with their values."""
    if isinstance(code, type):
        for base in code.__bases__:
            yield base.__qualname__, base
        for name, member in sorted(vars(code).items()):
            if (function := _function_in(member)) is not None:
                yield from ((f"{name}.{used}", value) for used, value in _named_by(function))
        return
    for default in [*(code.__defaults__ or ()), *(code.__kwdefaults__ or {}).values()]:
        yield "default", default
    outside = inspect.getclosurevars(code).nonlocals
    found: dict[str, Any] = {}
    for one in modules.code_objects(code.__code__):
        steps = list(dis.get_instructions(one))
        for number, step in enumerate(steps):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in code.__globals__:
                value = found[step.argval] = code.__globals__[step.argval]
                yield from _modules_in(value, steps[number + 1 :])
            elif step.opname == "LOAD_DEREF":
                yield from _modules_in(outside.get(step.argval), steps[number + 1 :])
    yield from sorted(found.items(), key=lambda item: item[0])
    yield from sorted(outside.items(), key=lambda item: item[0])


def _modules_in(value: Any, steps: list[dis.Instruction]) -> Iterator[tuple[str, Any]]:
    """The modules in a module that code goes through, such as `b` in `a.b.c()`."""
    for step in steps:
        if not isinstance(value, types.ModuleType) or step.opname not in _ATTRIBUTE_STEPS:
            return
        value = getattr(value, str(step.argval), None)
        if isinstance(value, types.ModuleType):
            yield value.__name__, value
