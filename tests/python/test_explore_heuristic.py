"""forebay.explore with samplers and trainings that end early."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution

from conftest import ROOT
from forebay import explore as fx
from forebay.explore.__main__ import main
from forebay.explore.journal import read_journal


@fx.stage
def curve(height, epochs=9):
    for epoch in fx.epochs(epochs, []):
        yield fx.report(height, value=height * (epoch + 1))


@fx.stage
def hill(x, y):
    return fx.report((x, y), height=-((x - 0.3) ** 2) - (y - 2) ** 2)


@fx.stage
def shifted(count):
    return np.full(count, 0.25)


@fx.stage
def on(values, x):
    return fx.report(x, height=-abs(x - values.sum()))


def run(flow: Any, folder: Path, **options: Any) -> fx.Study:
    defaults = {"workers": 1, "mode": "heuristic", "quiet": True}
    return fx.run(flow, out=folder, **{**defaults, **options})


def reports(folder: Path) -> list[tuple[int, float]]:
    events = [event for event in read_journal(folder) if event["kind"] == "reported"]
    return [(event["step"], event["metrics"]["value"]) for event in events]


def test_asha_ends_trainings_at_its_rungs(tmp_path):
    flow = fx.choose(
        curve(fx.explore("height", [3.0, 1.0, 2.0, 5.0, 4.0])),
        by="value",
        keep=fx.asha(fx.top(1), grace=1, factor=3),
    )
    study = run(flow, tmp_path / "study")
    states = {row["config"]["height"]: (row["state"], row["mode"]) for row in study.table()}
    # The first to come is the best so far. At the rungs 1, 3 and 9, one in three goes on.
    ended = {height: ("stopped", "heuristic") for height in (1.0, 2.0, 4.0)}
    assert states == {3.0: ("dropped", "heuristic"), 5.0: ("kept", "heuristic"), **ended}
    assert study.best.config == {"height": 5.0} and study.summary["mode"] == "heuristic"
    assert "asha(top(1), grace=1, factor=3) ended it at report 1 with 2" in study.rows[2]["why"]
    # None of the others went beyond its first report.
    assert max(step for step, value in reports(tmp_path / "study") if value < 3) == 1


def test_the_lowest_can_be_best_and_the_median_decides(tmp_path):
    heights = [1.0, 2.0, 3.0, 2.5, 1.5, 0.5]
    keep = fx.median(fx.bottom(1), grace=4, startup=3)
    flow = fx.choose(curve(fx.explore("height", heights)), by="value", keep=keep)
    study = run(flow, tmp_path / "study")
    # Its best report counts, which is the first one here, so only higher ones than the median end.
    states = {row["config"]["height"]: row["state"] for row in study.table()}
    assert states[0.5] == "kept" and "stopped" not in states.values()
    flow = fx.choose(
        curve(fx.explore("height", heights)), by="value", keep=fx.median(fx.top(1), startup=3)
    )
    study = run(flow, tmp_path / "top")
    states = {row["config"]["height"]: row["state"] for row in study.table()}
    assert states == dict(
        zip(heights, ["dropped", "dropped", "kept", "dropped", "stopped", "stopped"], strict=True)
    )


def test_trainings_with_schedules_end_early_too(tmp_path):
    @fx.stage
    def trained(rate):
        state = {"value": np.zeros(1)}
        for epoch in fx.epochs(rate, state):
            state["value"] += rate[epoch]
            yield fx.report(state, value=float(state["value"][0]))

    schedules = {str(n): fx.schedule([n] * 2 + [1] * 7) for n in (5, 1, 2, 6)}
    flow = fx.choose(
        trained(fx.explore("rate", schedules)),
        by="value",
        keep=fx.asha(fx.top(1), grace=2, factor=2),
    )
    study = run(flow, tmp_path / "study")
    states = [row["state"] for row in study.table()]
    assert states == ["dropped", "stopped", "stopped", "kept"]
    assert study.summary["computed"] == 9 + 2 + 2 + 9


def test_a_sampler_proposes_and_hears_the_scores(tmp_path):
    search = fx.sampler(optuna.samplers.TPESampler(seed=1), trials=60)
    x = fx.explore("x", FloatDistribution(0, 1), sampler=search)
    y = fx.explore("y", [0, 1, 2, 3], sampler=search)
    flow = fx.choose(hill(x, y), by="height", keep=fx.top(1))
    study = run(flow, tmp_path / "study")
    assert len(study.rows) == 60 and study.best.value > -0.01
    # The same as Optuna by itself, with one worker.
    own = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=1))
    space = {"x": FloatDistribution(0, 1), "y": optuna.distributions.IntDistribution(0, 3)}
    for row in study.table():
        trial = own.ask(space)
        assert trial.params == row["config"]
        own.tell(trial, row["score"])
    # The chosen branch, computed alone.
    assert fx.alone(flow, study.best.config)[0] == study.best.value


def test_for_each_open_value_a_sampler_begins_anew(tmp_path):
    search = fx.sampler(optuna.samplers.RandomSampler(seed=3), trials=5)
    x = fx.explore("x", FloatDistribution(0, 2), sampler=search)
    made = on(shifted(fx.explore("count", [2, 4])), x)
    each = fx.choose(made, by="height", keep=fx.top(1), over=["x"])
    flow = fx.choose(each, by="height", keep=fx.top(1))
    study = run(flow, tmp_path / "study")
    proposed = [event for event in read_journal(tmp_path / "study") if event["kind"] == "proposed"]
    assert len(proposed) == 10 and len({event["key"] for event in proposed}) == 2
    assert set(study.best.config) == {"count", "x"} and len(study.rows) == 2


def test_asha_tells_the_sampler_what_it_ended(tmp_path):
    search = fx.sampler(optuna.samplers.TPESampler(seed=0, n_startup_trials=3), trials=20)
    height = fx.explore("height", FloatDistribution(0, 1), sampler=search)
    flow = fx.choose(curve(height), by="value", keep=fx.asha(fx.top(1), factor=3))
    study = run(flow, tmp_path / "study", workers=2)
    states = [row["state"] for row in study.rows]
    assert states.count("stopped") > 5 and states.count("kept") == 1 and len(states) == 20
    assert study.best.value > 0.8 * 9


def test_a_branch_that_fails_is_told_too(tmp_path):
    @fx.stage
    def fragile(x):
        if x == "bad":
            raise ValueError("no")
        return 1.0

    search = fx.sampler(optuna.samplers.GridSampler({"x": [0, 1]}, seed=0), trials=5)
    flow = fx.choose(
        fragile(fx.explore("x", ["good", "bad"], sampler=search)), by="value", keep=fx.top(1)
    )
    study = run(flow, tmp_path / "study")
    states = {row["config"]["x"]: row["state"] for row in study.rows}
    assert states == {"good": "kept", "bad": "failed"}
    assert len(study.rows) == 2  # the sampler has no more


def test_a_search_goes_on_after_kill(tmp_path):
    script = tmp_path / "search.py"
    script.write_text(
        textwrap.dedent("""
        import sys, time
        import optuna
        from optuna.distributions import FloatDistribution
        from forebay import explore as fx

        @fx.stage
        def hill(x):
            time.sleep(0.05)
            return fx.report(x, height=-abs(x - 0.3))

        if __name__ == "__main__":
            search = fx.sampler(optuna.samplers.TPESampler(seed=0), trials=30)
            x = fx.explore("x", FloatDistribution(0, 1), sampler=search)
            flow = fx.choose(hill(x), by="height", keep=fx.top(1))
            fx.run(flow, out=sys.argv[1], mode="heuristic", workers=1, quiet=True)
        """)
    )
    folder = tmp_path / "study"
    process = subprocess.Popen([sys.executable, str(script), str(folder)])
    until = time.monotonic() + 60
    while time.monotonic() < until:
        done = [e for e in read_journal(folder) if e["kind"] == "done"] if folder.exists() else []
        if len(done) >= 12:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = [e["params"] for e in read_journal(folder) if e["kind"] == "proposed"]
    assert 12 <= len(before) < 30
    subprocess.run([sys.executable, str(script), str(folder)], check=True)
    events = read_journal(folder)
    proposed = [event["params"] for event in events if event["kind"] == "proposed"]
    assert len(proposed) == 30 and proposed[: len(before)] == before
    done = [event["id"] for event in events if event["kind"] == "done"]
    assert len(done) == len(set(done)) == 30  # nothing twice
    assert os.path.exists(folder / "report.html")


def test_ended_trainings_stay_ended_in_the_next_run(tmp_path):
    flow = fx.choose(
        curve(fx.explore("height", [3.0, 1.0, 2.0])), by="value", keep=fx.asha(fx.top(1), factor=3)
    )
    first = run(flow, tmp_path / "study")
    again = run(flow, tmp_path / "study")
    assert again.table() == first.table()
    assert first.summary["computed"] == 1 and again.summary["computed"] == 0
    assert reports(tmp_path / "study").count((1, 1.0)) == 1


def test_the_tables_say_heuristic(tmp_path, capsys):
    flow = fx.choose(
        curve(fx.explore("height", [3.0, 1.0])), by="value", keep=fx.asha(fx.top(1), factor=2)
    )
    run(flow, tmp_path / "study", quiet=False)
    assert "best found (heuristic)" in capsys.readouterr().err
    assert main(["status", str(tmp_path / "study")]) == 0
    said = capsys.readouterr().out
    assert "2 branches, mode heuristic" in said and "1 stopped" in said
    assert main(["why", str(tmp_path / "study"), "height=1"]) == 0
    assert "ended it at report 1" in capsys.readouterr().out
    page = (tmp_path / "study" / "report.html").read_text()
    begin = page.index('id="data">') + len('id="data">')
    data = json.loads(page[begin : page.index("</script>", begin)])
    assert data["summary"]["mode"] == "heuristic"


@pytest.mark.skipif(
    "FOREBAY_TEST_ALL" not in os.environ, reason="Ray is not part of the tests' environment"
)
def test_the_pages_program_for_ray_tune_runs(tmp_path, packed):
    sys.path.insert(0, str(ROOT / "bench"))
    from lib.peers_environment import EXPLORE_PYTHON, install_explore_peers

    install_explore_peers()
    page = (ROOT / "docs/explore.md").read_text()
    (program,) = re.findall(r"```python\n([^`]*from ray import tune\n[^`]*)```", page)
    (tmp_path / "search.py").write_text(program)
    (tmp_path / "train.forebay").symlink_to(packed)
    done = subprocess.run(
        [EXPLORE_PYTHON, "search.py"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(fx.__file__).parents[2]),
            "RAY_USAGE_STATS_ENABLED": "0",
            "HOME": str(tmp_path),
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0
    config, accuracy = done.stdout.strip().splitlines()[-1].rsplit(" ", 1)
    assert set(ast.literal_eval(config)) == {"size", "lr"} and 0 < float(accuracy) <= 1


SEARCH = fx.sampler(optuna.samplers.TPESampler(), trials=3)
OTHER = fx.sampler(optuna.samplers.TPESampler(), trials=3)
X = fx.explore("x", FloatDistribution(0, 1), sampler=SEARCH)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: fx.sampler("tpe", trials=3), "takes one of Optuna's samplers"),
        (lambda: fx.sampler(optuna.samplers.TPESampler(), trials=0), "trials is 0"),
        (lambda: fx.explore("x", FloatDistribution(0, 1)), "a distribution needs a sampler"),
        (lambda: fx.explore("x", [1], sampler=cast(Any, "tpe")), "must come from fx.sampler"),
        (lambda: fx.asha(fx.above(0.5)), "takes fx.top"),
        (lambda: fx.asha(fx.top(1), factor=1), "factor is 1"),
        (lambda: fx.median(fx.asha(fx.top(1))), "ends trainings by itself"),
        (
            lambda: fx.choose(hill(X, 1), by="height", keep=fx.asha(fx.top(1))),
            "works on the reports",
        ),
        (
            lambda: fx.choose(hill(X, fx.explore("y", [1, 2])), by="height", keep=fx.top(1)),
            "y stands in the way",
        ),
        (
            lambda: fx.choose(
                hill(X, fx.explore("y", CategoricalDistribution([1, 2]), sampler=SEARCH)),
                by="height",
                keep=fx.top(1),
                over=["x"],
            ),
            "y stands in the way",
        ),
        (
            lambda: fx.choose(
                hill(X, fx.explore("y", [1, 2], sampler=OTHER)), by="height", keep=fx.top(1)
            ),
            "several samplers",
        ),
        (
            lambda: fx.choose(hill(X, 1), by="height", keep=fx.above(0)),
            r"need fx.top\(k\) or fx.bottom\(k\)",
        ),
        (
            lambda: fx.run(fx.choose(hill(X, 1), by="height", keep=fx.top(1)), out="study"),
            'mode="heuristic"',
        ),
        (
            lambda: fx.run(
                fx.choose(hill(X, 1), by="height", keep=fx.top(1)), out="study", mode="fast"
            ),
            "mode is 'fast'",
        ),
    ],
)
def test_mistakes_are_named(tmp_path, monkeypatch, make, says):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, TypeError), match=says):
        make()
    assert not os.path.exists("study")
