"""docs/features.md: the tests that it names exist, and every row has a test or a reason."""

import re

from conftest import ROOT

PAGE, TESTS = (ROOT / "docs/features.md").read_text().split("\n## Tests\n")
NAMED = re.compile(r"`([\w/.-]+\.(?:py|cc))::([\w.]+)`")
ROW = re.compile(r"^\| (.+?) \| (yes|partly|not yet) \| ?(.*?) ?\|$", re.MULTILINE)


def rows_of(heading: str) -> list[list[str]]:
    """Returns the cells of the table below a heading, without the table's head."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line[2:-2].split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return rows[2:]


def tests_by_feature() -> dict[str, list[tuple[str, str]]]:
    """Returns the files and names of the tests that stand beside each feature in the last table."""
    tests: dict[str, list[tuple[str, str]]] = {}
    feature = ""
    for begins, test in re.findall(r"^\| (?:(.+?) )?\| (`.+?`) \|$", TESTS, re.MULTILINE):
        if begins:
            feature = begins
            assert feature not in tests, feature
        tests.setdefault(feature, []).extend(NAMED.findall(test))
    return tests


def test_every_test_that_is_named_exists():
    named = NAMED.findall(PAGE + TESTS)
    assert len(named) > 150
    assert named == [test for tests in tests_by_feature().values() for test in tests]
    for path, name in named:
        source = (ROOT / path).read_text()
        if path.endswith(".py"):
            pattern = rf"^def {re.escape(name)}\("
        else:
            suite, test = name.split(".")
            pattern = rf"^TEST(_F|_P)?\({suite}, {test}\)"
        assert re.search(pattern, source, re.MULTILINE), f"{path} has no {name}"


def test_every_yes_has_a_test_and_all_else_says_why():
    rows = ROW.findall(PAGE)
    assert len(rows) > 40
    tests = tests_by_feature()
    for feature, answer, what in rows:
        assert what, feature
        assert answer != "yes" or tests[feature], feature


def test_what_it_works_with_and_every_complaint_has_a_test():
    tests = tests_by_feature()
    for heading in ("Works with", "Complaints about other loaders"):
        rows = rows_of(heading)
        assert len(rows) > 5
        assert not [name for name, _ in rows if not tests[name]]


def test_every_tested_feature_has_a_row():
    others = rows_of("Works with") + rows_of("Complaints about other loaders")
    features = {row[0] for row in ROW.findall(PAGE)} | {name for name, _ in others}
    assert set(tests_by_feature()) <= features
