"""Each test that docs/features.md names as proof exists, and every row has a proof or a reason."""

import re

from conftest import ROOT

PAGE = (ROOT / "docs/features.md").read_text()
NAMED = re.compile(r"`([\w/.-]+\.(?:py|cc))::([\w.]+)`")


def test_every_test_that_is_named_exists():
    named = NAMED.findall(PAGE)
    assert len(named) > 40
    for path, name in named:
        source = (ROOT / path).read_text()
        if path.endswith(".py"):
            pattern = rf"^def {re.escape(name)}\("
        else:
            suite, test = name.split(".")
            pattern = rf"^TEST(_F|_P)?\({suite}, {test}\)"
        assert re.search(pattern, source, re.MULTILINE), f"{path} has no {name}"


def test_every_yes_names_a_test_and_all_else_says_why():
    rows = re.findall(r"^\| (.+?) \| (yes|partly|not yet) \| ?(.*?) ?\|$", PAGE, re.MULTILINE)
    assert len(rows) > 20
    for feature, answer, shown in rows:
        assert shown, feature
        assert answer != "yes" or NAMED.search(shown), feature
