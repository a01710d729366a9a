"""What forebay.explore takes for the code of a stage: which changes make it compute again."""

import dataclasses
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import forebay
from forebay import explore as fx
from forebay.explore import identity

FILES = {
    "direct.py": "import deeper\ndef double(x):\n    return deeper.times(x, 2)\n",
    "deeper.py": "def times(x, by):\n    '''Documented.'''\n    return x * by  # said\n",
    "package/__init__.py": "",
    "package/part.py": "from . import other\ndef double(x):\n    return other.times(x, 2)\n",
    "package/other.py": "def times(x, by):\n    return x * by\n",
}
BODIES = [
    "return direct.double(x)",
    "from direct import double; return double(x)",
    "import package.other as other; return other.times(x, 2)",
    "return package.part.double(x)",
    "return package.part.other.times(x, 2)",
]
IMPORTS = """
import json
import direct
import package.part
from forebay import explore as fx
"""
TYPED = """
class Net:
    names = {"a", "b", "c", "d", "e"}
    def total(self, x):
        return x + 1 if str(x) not in {"a", "b", "c", "d"} else 0

typed = [
    fx.stage(lambda x: x in {"a", "b", "c", "d", "e"}),
    fx.stage(lambda x: Net().total(x)),
]
print(json.dumps([one.code for one in typed]))
"""


def codes(folder: Path, text: str, *, typed: bool = False) -> list[dict[str, str]]:
    """Runs a script in the folder, or types it into an interpreter; returns what it prints."""
    (folder / "script.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-" if typed else "script.py"],
        input=text if typed else "",
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(forebay.__file__).absolute().parents[1])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, str]] = json.loads(done.stdout)
    return found


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)


def test_a_module_that_changes_is_seen_however_it_is_reached(tmp_path):
    functions = "".join(
        f"@fx.stage\ndef stage{i}(x):\n    {body}\n" for i, body in enumerate(BODIES)
    )
    stages = ", ".join(f"stage{i}.code" for i in range(len(BODIES)))
    script = f"{IMPORTS}{functions}print(json.dumps([{stages}]))\n"
    write(tmp_path, FILES)
    before = codes(tmp_path, script)
    commented = {name: f"# begin\n{text}\n\n# end\n" for name, text in FILES.items()}
    write(tmp_path, {name: text.replace("mented", "cribed") for name, text in commented.items()})
    assert codes(tmp_path, script) == before
    write(tmp_path, {name: text.replace("x * by", "x * by * 3") for name, text in FILES.items()})
    for old, new in zip(before, codes(tmp_path, script), strict=True):
        assert {name for name in old if old[name] != new[name]} & {"deeper", "package.other"}


def test_code_that_is_typed_in_is_compared_by_its_bytecode(tmp_path):
    write(tmp_path, FILES)
    before = codes(tmp_path, IMPORTS + TYPED, typed=True)
    # The sets have another order in each process.
    assert codes(tmp_path, IMPORTS + TYPED, typed=True) == before
    changed = codes(tmp_path, IMPORTS + TYPED.replace("x + 1", "x + 2"), typed=True)
    assert changed[0] == before[0] and changed[1] != before[1]
    changed = codes(tmp_path, IMPORTS + TYPED.replace('"d", "e"}\n', '"d"}\n'), typed=True)
    assert changed[0] == before[0] and changed[1] != before[1]


def times(x):
    return x * 2


def decorated(added):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(x):
            return function(x) + added

        return wrapper

    return decorate


class Model:
    def __call__(self, x):
        return times(x)


MODEL = Model()


@dataclasses.dataclass
class Settings:
    width: int

    def build(self):
        return times(self.width)


class Itself:
    def build(self):
        return ITSELF  # an object of a class that uses it


ITSELF = Itself()


@fx.stage
def calls_itself(x):
    return calls_itself.function(x - 1) + times(x) if x > 0 else 0


def test_what_a_function_is_wrapped_in_counts():
    cached = fx.stage(lambda x: lru(x))
    lru = functools.lru_cache(times)
    assert any(name.endswith(".times") for name in cached.code)
    first, second = (identity.digest(decorated(added)(times)) for added in (1, 2))
    assert first != second and first == identity.digest(decorated(1)(times))


def test_the_class_of_a_value_counts(monkeypatch):
    def digests() -> list[str]:
        uses = fx.stage(lambda x: MODEL(x))
        return [identity.digest(value) for value in (Model(), Settings(3), uses)]

    before = digests()
    assert digests() == before and identity.digest(Settings(4)) != before[1]
    monkeypatch.setattr(sys.modules[__name__], "times", decorated)
    assert not set(digests()) & set(before)


def test_code_that_uses_itself_is_read_once():
    assert any(name.endswith(".times") for name in calls_itself.code)
    assert identity.digest(ITSELF) == identity.digest(Itself())
