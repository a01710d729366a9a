"""forebay.explore: flows, choices, sharing, what survives, and what goes wrong."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import forebay
from forebay import explore as fx
from forebay.explore import built_in, identity
from forebay.explore.journal import read_journal


@fx.stage
def numbers(count):
    return np.random.rand(count)


@fx.stage
def scaled(values, factor):
    return fx.report(values * factor, total=float((values * factor).sum()))


@fx.stage
def scored(value):
    return float(value)


@fx.stage
def training(feats, lr, start):
    state = {"weight": np.full(3, float(start))}
    for epoch in fx.epochs(lr, state):
        noise = np.random.rand(3)
        state["weight"] += lr[epoch] * (feats[:3] + noise)
        yield fx.report(state, total=float(state["weight"].sum()))


def simple(count: Any = 4, keep: Any = None) -> fx.flow.Choose:
    made = scaled(numbers(count), fx.explore("factor", [1.0, 3.0, 2.0]))
    return fx.choose(made, by="total", keep=keep or fx.top(1))


def run(flow: Any, folder: Path, **options: Any) -> fx.Study:
    return fx.run(flow, out=folder, quiet=True, **{"workers": 2, **options})


def computed(folder: Path) -> list[str]:
    return [event["stage"] for event in read_journal(folder) if event["kind"] == "done"]


def test_the_best_branch_is_chosen_and_shared_stages_run_once(tmp_path):
    study = run(simple(), tmp_path / "s")
    assert study.best.config == {"factor": 3.0}
    assert study.best.value == study.best.metrics["total"] == study.best.state.sum()
    assert sorted(computed(tmp_path / "s")) == ["numbers", "scaled", "scaled", "scaled"]
    assert [row["state"] for row in study.table()] == ["dropped", "kept", "dropped"]


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (fx.top(2), [3.0, 2.0]),
        (fx.bottom(1), [1.0]),
        (fx.above(-1), [1.0, 3.0, 2.0]),
        (fx.above(1e9), []),
        (fx.first(1, above=-1), [1.0]),
        (fx.within(-1, 1e9), [1.0, 3.0, 2.0]),
        (lambda scores: sorted(scores, key=scores.get)[:2], [1.0, 2.0]),
    ],
)
def test_selectors(tmp_path, keep, kept):
    study = run(simple(keep=keep), tmp_path / "s", workers=1)
    assert [branch.config["factor"] for branch in study.kept] == kept
    assert len(computed(tmp_path / "s")) == (2 if keep == fx.first(1, above=-1) else 4)
    if not kept:
        with pytest.raises(ValueError, match="no branch was kept"):
            _ = study.best


def test_ties_go_to_the_first_in_listed_order(tmp_path):
    flow = fx.choose(scored(fx.explore("x", [1, 2, 2.0000, 0][:3])), by="value", keep=fx.top(1))
    assert run(flow, tmp_path / "s").best.config == {"x": 2}
    flow = fx.choose(scored(fx.explore("x", ["1", "2", "2.0"])), by="value", keep=fx.top(1))
    assert run(flow, tmp_path / "t").best.config == {"x": "2"}


@pytest.mark.parametrize("order", ["depth", "breadth", "critical"])
@pytest.mark.parametrize("workers", [1, 3])
def test_results_do_not_depend_on_workers_order_or_history(tmp_path, workers, order):
    flow = simple(fx.explore("count", [3, 5]))
    study = run(flow, tmp_path / "s", workers=workers, order=order)
    score, state = fx.alone(flow, study.best.config)
    assert score == study.best.value
    assert np.array_equal(state, study.best.state)
    scores = [fx.alone(flow, row["config"])[0] for row in study.table()]
    assert scores == [row["score"] for row in study.table()]


def test_values_are_those_that_people_write():
    assert fx.log(0.001, 10, 5) == [0.001, 0.01, 0.1, 1.0, 10.0]
    assert fx.linear(0, 1, 11) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]


def test_another_seed_gives_other_numbers(tmp_path):
    assert (
        run(simple(), tmp_path / "s", seed=1).best.value
        != run(simple(), tmp_path / "t", seed=2).best.value
    )


def test_a_choose_in_the_middle_goes_on_with_its_winner(tmp_path):
    first = simple(fx.explore("count", [3, 5]))
    last = scaled(first, fx.explore("second", [10.0, 20.0]))
    study = run(fx.choose(last, by="total", keep=fx.bottom(1)), tmp_path / "s")
    assert study.best.config == {"count": 5, "factor": 3.0, "second": 10.0}
    assert len(computed(tmp_path / "s")) == 2 + 6 + 2


def test_several_winners_go_on_as_branches(tmp_path):
    first = simple(fx.explore("count", [3, 5]), keep=fx.top(2))
    last = scaled(first, fx.explore("second", [10.0, 20.0]))
    study = run(fx.choose(last, by="total", keep=fx.top(1)), tmp_path / "s")
    assert len(study.table()) == 4
    assert study.best.config == {"count": 5, "factor": 3.0, "second": 20.0}


def test_branches_may_differ_in_their_stages(tmp_path):
    once = scaled(numbers(4), 2.0)
    twice = scaled(once, 3.0)
    made = scaled(fx.explore("times", {"once": once, "twice": twice}), fx.explore("f", [1.0, 5.0]))
    study = run(fx.choose(made, by="total", keep=fx.bottom(1)), tmp_path / "s")
    assert study.best.config == {"times": "once", "f": 1.0}
    assert computed(tmp_path / "s").count("scaled") == 2 + 4
    assert fx.alone(fx.choose(made, by="total", keep=fx.top(1)), {"times": "twice", "f": 5.0})[
        0
    ] == max(row["score"] for row in study.table())


def test_a_choose_over_some_explores_leaves_the_others_open(tmp_path):
    made = scaled(numbers(fx.explore("count", [3, 5])), fx.explore("factor", [1.0, 3.0, 2.0]))
    inner = fx.choose(made, by="total", keep=fx.top(1), over=["factor"])
    study = run(fx.choose(inner, by="total", keep=fx.bottom(1)), tmp_path / "s")
    assert study.best.config == {"count": 3, "factor": 3.0}
    assert [row["config"]["factor"] for row in study.table()] == [3.0, 3.0]


def test_a_function_can_judge(tmp_path):
    def spread(values):
        return float(values.max() - values.min())

    made = scaled(numbers(4), fx.explore("factor", [1.0, 3.0, 2.0]))
    study = run(fx.choose(made, by=spread, keep=fx.top(1)), tmp_path / "s")
    assert study.best.config == {"factor": 3.0}
    assert np.ptp(study.best.state) == study.best.value


def schedules(count: int = 3) -> list[fx.Schedule]:
    """Schedules of four epochs, of which all share the first and some the second."""
    return [fx.schedule([1.0, 1.0 + i // 2, float(i), 0.5]) for i in range(count)]


def test_trainings_share_the_epochs_whose_settings_are_equal(tmp_path):
    made = training(numbers(5), fx.explore("lr", schedules()), 0.0)
    flow = fx.choose(made, by="total", keep=fx.top(1))
    study = run(flow, tmp_path / "s")
    assert computed(tmp_path / "s").count("training") == 1 + 2 + 3 + 3
    for row in study.table():
        assert fx.alone(flow, row["config"])[0] == row["score"]
    assert np.array_equal(
        fx.alone(flow, study.best.config)[1]["weight"], study.best.state["weight"]
    )


def test_a_stage_may_not_read_a_schedule_ahead(tmp_path):
    @fx.stage
    def peeks(lr):
        state = {"x": 0}
        for epoch in fx.epochs(lr, state):
            yield fx.report(state, total=lr[min(epoch + 1, 3)])

    flow = fx.choose(peeks(fx.explore("lr", schedules())), by="total", keep=fx.top(1))
    study = run(flow, tmp_path / "s")
    assert "present epoch" in study.table()[0]["why"]


def test_equal_work_is_done_once_also_in_the_next_run(tmp_path):
    run(simple(), tmp_path / "s")
    made = scaled(numbers(4), fx.explore("factor", [1.0, 3.0, 2.0, 9.0]))
    study = run(fx.choose(made, by="total", keep=fx.top(1)), tmp_path / "s")
    assert study.best.config == {"factor": 9.0}
    assert computed(tmp_path / "s").count("scaled") == 4
    assert computed(tmp_path / "s").count("numbers") <= 2  # its result may have been too cheap


def test_only_what_depends_on_changed_code_is_computed_again(tmp_path, capfd):
    script = tmp_path / "flow.py"
    text = textwrap.dedent(
        """
        import sys
        from forebay import explore as fx
        def helper(x):
            return x + ADDED
        @fx.stage
        def one(x):
            '''Documented.'''
            return x
        @fx.stage
        def two(x):
            return fx.report(helper(x), total=helper(x))
        flow = fx.choose(two(one(fx.explore("x", [1, 2]))), by="total", keep=fx.top(1))
        print(fx.run(flow, out=sys.argv[1], workers=1).best.value)
        """
    )

    def values(added: str) -> list[str]:
        script.write_text(text.replace("ADDED", added))
        folder = tmp_path / "s"
        done = len(computed(folder)) if folder.exists() else 0
        subprocess.run([sys.executable, script, folder], check=True)
        return computed(folder)[done:]

    assert sorted(values("1")) == ["one", "one", "two", "two"]
    assert values("1  # a comment") == []
    capfd.readouterr()
    again = values("2")
    assert sorted(again)[-2:] == ["two", "two"] and again.count("two") == 2
    said = capfd.readouterr().err
    assert "stage two is computed again" in said and "helper" in said


def test_a_stage_that_fails_loses_its_branch_alone(tmp_path):
    @fx.stage
    def picky(x):
        if x == 2:
            raise ValueError("no twos")
        return float("nan") if x == 3 else x

    flow = fx.choose(picky(fx.explore("x", [1, 2, 3, 4])), by="value", keep=fx.top(1))
    study = run(flow, tmp_path / "s")
    assert study.best.config == {"x": 4}
    assert [row["state"] for row in study.table()] == ["dropped", "failed", "failed", "kept"]
    assert "no twos" in study.table()[1]["why"] and "NaN" in study.table()[2]["why"]
    failed = [event for event in read_journal(tmp_path / "s") if event["kind"] == "failed"]
    assert "no twos" in failed[0]["traceback"] and "test_explore.py" in failed[0]["traceback"]
    with pytest.raises(fx.StageError, match="no twos"):
        run(flow, tmp_path / "t", errors="stop", workers=1)


def test_results_that_cannot_be_pickled_and_impure_stages_are_found(tmp_path):
    @fx.stage
    def odd(x):
        if x == 1:
            return (one for one in "abc")
        return time.time_ns() if x == 2 else x

    flow = fx.choose(odd(fx.explore("x", [0, 1, 2])), by="value", keep=fx.top(1))
    study = run(flow, tmp_path / "s", check_pure=1.0)
    why = [row["why"] for row in study.table()]
    assert "cannot be pickled" in why[1] or "yields" in why[1]
    assert "not pure" in why[2]
    assert study.best.config == {"x": 0}


def test_inputs_that_a_stage_changes_stay_as_they_are_for_others(tmp_path):
    @fx.stage
    def spoils(values, factor):
        values *= factor
        return float(values.sum())

    made = spoils(numbers(1000), fx.explore("factor", [1.0, 2.0, 3.0]))
    study = run(fx.choose(made, by="value", keep=fx.top(1)), tmp_path / "s", workers=1)
    scores = [row["score"] for row in study.table()]
    assert scores[1] == pytest.approx(2 * scores[0]) and scores[2] == pytest.approx(3 * scores[0])


def test_a_damaged_result_is_computed_again(tmp_path):
    flow = simple()
    folder = tmp_path / "s"
    best = run(flow, folder).best
    best.path.write_bytes(best.path.read_bytes()[:-1] + b"\xff")
    with pytest.raises(forebay.DataError, match="checksum"):
        _ = best.state
    made = scaled(
        scaled(numbers(4), fx.explore("factor", [1.0, 3.0, 2.0])), fx.explore("second", [5.0])
    )
    again = run(fx.choose(made, by="total", keep=fx.top(1)), folder)
    assert again.best.value == pytest.approx(5 * best.value)
    assert "damaged" in json.dumps(again.summary["notes"])


@fx.stage
def big(number):
    return np.full(1_000_000, float(number))


def test_memory_stays_below_its_limit(tmp_path):
    made = big(fx.explore("x", range(6)))
    read = scaled(made, fx.explore("factor", [1.0, 2.0]))
    flow = fx.choose(read, by="total", keep=fx.top(1))
    study = run(flow, tmp_path / "s", memory="17MB", order="breadth", workers=1)
    assert study.best.config == {"x": 5, "factor": 2.0}
    assert study.summary["memory_peak_bytes"] <= 17e6
    with pytest.raises(fx.NoRoomError, match=r"big\(x=0\) has 8.0 MB"):
        run(flow, tmp_path / "t", memory="1MB", disk="1MB", workers=1)


def test_a_declared_shape_saves_runs_and_is_checked(tmp_path):
    values = fx.linear(-8, 7, 16)

    @fx.stage
    def hill(x):
        return -((x - 2) ** 2)

    @fx.stage
    def waves(x):
        return x % 3

    def study_of(stage: Any, name: str) -> fx.Study:
        made = stage(fx.explore("x", values))
        flow = fx.choose(made, by="value", keep=fx.top(1), shape={"x": "peak"})
        return run(flow, tmp_path / name, workers=1)

    study = study_of(hill, "s")
    assert study.best.config == {"x": 2.0}
    assert [row["state"] for row in study.table()].count("skipped") >= 6
    study = study_of(waves, "t")
    assert study.best.value == 2 and study.best.config == {"x": -7.0}
    assert "not as declared (peak)" in study.summary["notes"][0]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: fx.explore("x", []), "no values"),
        (lambda: fx.explore("x", "abc"), "must be a list"),
        (lambda: fx.log(0, 1, 3), "0 < low"),
        (lambda: fx.top(0), "at least 1"),
        (lambda: fx.within(2, 1), "lower end"),
        (lambda: fx.above(float("nan")), "finite"),
        (lambda: numbers(), "missing a required argument"),
        (lambda: list(numbers(3)), "not known before the flow runs"),
        (lambda: fx.choose(numbers(3), by="x", keep=fx.top(1)), "no explore is open"),
        (lambda: fx.choose(3, by="x", keep=fx.top(1)), "what a stage returns"),
        (lambda: fx.choose(simple(), by="x", keep=fx.top(1)), "no explore is open"),
        (lambda: simple(keep=3), "must be a selector"),
        (
            lambda: scaled(numbers(fx.explore("a", [1, 2])), fx.explore("a", [3, 4])),
            "two explores are called",
        ),
        (lambda: fx.seed(), "no stage is running"),
        (lambda: fx.stage(timeout=0), "positive"),
        (lambda: fx.stage(asyncio.sleep), "is async"),
        (lambda: fx.schedule([]), "at least one value"),
        (lambda: fx.report(None, a=cast(Any, "x")), "must be a number"),
    ],
)
def test_mistakes_are_named_where_they_are_made(make, says):
    with pytest.raises((TypeError, ValueError, RuntimeError), match=says):
        make()


def test_a_product_that_is_too_large_is_counted_before_it_starts(tmp_path):
    made = numbers(3)
    for name in "abc":
        made = scaled(made, fx.explore(name, list(range(100))))
    flow = fx.choose(made, by="total", keep=fx.top(1))
    with pytest.raises(fx.TooManyBranchesError, match="1,000,000 branches"):
        run(flow, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_one_process_at_a_time_runs_a_study(tmp_path):
    from forebay.explore.journal import Journal

    journal = Journal(tmp_path / "s")
    with pytest.raises(BlockingIOError, match="another process runs this study"):
        run(simple(), tmp_path / "s")
    journal.close()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "photo.jpg").touch()
    with pytest.raises(ValueError, match="not a study"):
        run(simple(), tmp_path / "other")


def test_identities_follow_the_meaning_of_code_and_values():
    def one(x):
        return x + 1

    def same(x):
        """Documented."""
        return x + 1  # like one

    same.__name__ = same.__qualname__ = "one"
    first, second = identity._source_of(one), identity._source_of(same).replace("same", "one")
    assert first == second
    assert identity.digest(1) != identity.digest(1.0) != identity.digest("1")
    assert identity.digest({"a": 1, "b": 2}) == identity.digest({"b": 2, "a": 1})
    assert identity.digest([1, [2]]) != identity.digest([[1], 2])
    assert identity.digest(np.zeros(3)) != identity.digest(np.zeros(3, np.float32))
    holds_itself: list[Any] = []
    holds_itself.append(holds_itself)
    with pytest.raises(TypeError, match="holds itself"):
        identity.digest(holds_itself)


def test_the_command_line_shows_and_resumes(tmp_path):
    @fx.stage
    def picky(x):
        if x == 2:
            raise ValueError("no twos")
        return x

    folder = str(tmp_path / "s")
    run(fx.choose(picky(fx.explore("x", [1, 2])), by="value", keep=fx.top(1)), Path(folder))

    def forebay(*words: str) -> str:
        command = [os.environ["FOREBAY_BIN"], "explore", *words]
        environment = {**os.environ, "FOREBAY_PYTHON": sys.executable}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        return done.stdout + done.stderr

    status = forebay("status", folder)
    assert "2 branches, mode exact; the last run is complete" in status and "1 failed" in status
    assert "kept: 1  x=1" in status
    assert "no twos" in forebay("why", folder, "x=2") and "Traceback" in forebay("why", folder, "1")
    assert "1  x=1" in forebay("resume", folder)
    assert "not a study" in forebay("status", str(tmp_path))
    assert "no branch" in forebay("why", folder, "x=7")


def test_images_are_decoded_once_for_all_branches(tmp_path, packed):
    torch = pytest.importorskip("torch")
    flow = fx.Flow(packed, seed=3)

    @fx.stage
    def bright(images, scale):
        assert images.images.dtype == torch.uint8 and images.images.shape[1] == 3
        return float(images.images.float().mean() * scale)

    made = bright(flow.images(fx.explore("size", [16, 24])), fx.explore("scale", [1, 2]))
    study = run(fx.choose(made, by="value", keep=fx.top(1)), tmp_path / "s")
    assert study.best.config["scale"] == 2
    assert computed(tmp_path / "s").count("images") == 2
    assert (tmp_path / "s" / "report.html").read_text().count("scale") > 0


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> fx.Study:
    """A study of 48 branches, of which some fail."""

    @fx.stage
    def picky(values, x, y):
        if x == 3 and y == 3:
            raise ValueError("</script><img src=x onerror=document.title='hacked'>")
        return float(values.sum() + x * y)

    made = picky(numbers(fx.explore("count", [3, 4, 5])), *(fx.explore(n, range(4)) for n in "xy"))
    folder = tmp_path_factory.mktemp("study") / "s"
    return run(fx.choose(made, by="value", keep=fx.top(2)), folder)


@pytest.mark.parametrize("size", [(1280, 800), (360, 740)], ids=["desktop", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_browser_shows_the_report_and_asks_nobody(browser, explored, size, dark):
    browser.show((explored.folder / "report.html").as_uri(), *size, dark=dark)
    assert browser.overflow() <= 0
    assert browser.complaints() == []
    assert browser.run("return document.title") == "s: study"
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    count = "return document.querySelectorAll('.leaf[data-state=%s]').length"
    states = {state: browser.run(count % state) for state in ("kept", "dropped", "failed")}
    assert states == {"kept": 2, "dropped": 43, "failed": 3}
    assert "onerror" in browser.text("#failures")
    light = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in light[4:-1].split(",")) < 382) == dark
    browser.run("document.querySelector('#filters label.dropped input').click()")
    assert browser.run(count % "dropped") == 0


def test_a_choose_that_keeps_nothing_is_named(tmp_path):
    first = simple(keep=fx.above(1e9))
    study = run(fx.choose(scaled(first, 2.0), by="total", keep=fx.top(1)), tmp_path / "s")
    with pytest.raises(ValueError, match="kept none of its 3 branches, of which 0 failed"):
        _ = study.best
    with pytest.raises(ValueError, match="not among the scores"):
        run(simple(keep=lambda scores: [7]), tmp_path / "t")


def test_two_functions_of_one_name_both_count():
    def one(x):
        return (lambda y: y + 1)(x) + second(x)

    def other(x):
        return (lambda y: y + 1)(x) + third(x)

    def scaled_by(factor):
        def second(x):
            return x * factor

        return second

    second, third = scaled_by(2), scaled_by(3)
    other.__name__ = other.__qualname__ = one.__qualname__
    assert identity.digest(scaled_by(2)) == identity.digest(scaled_by(2))
    assert identity.digest(scaled_by(2)) != identity.digest(scaled_by(3))
    assert identity.digest(one) != identity.digest(other)


def test_the_trainer_is_a_stage(tmp_path, packed):
    pytest.importorskip("torch")
    flow = fx.Flow(packed)
    rates = fx.explore("lr", [0.01, 0.1])
    made = fx.train(flow.dataset, flow.dataset, epochs=1, lr=rates, width=4, batch=8, size=32)
    study = run(fx.choose(made, by="accuracy", keep=fx.top(1)), tmp_path / "s", workers=1)
    assert set(study.best.metrics) == {"loss", "train_accuracy", "accuracy", "val_loss"}
    assert 0 <= study.best.value <= 1 and len(study.best.state) > 10
    made = fx.train(flow.dataset, epochs=fx.explore("epochs", [1, -1]), width=4, batch=8, size=32)
    study = run(fx.choose(made, by="loss", keep=fx.bottom(1)), tmp_path / "t", workers=1)
    assert "forebay train failed" in study.table()[1]["why"]


def test_frozen_features_and_evaluation_are_stages(tmp_path, packed):
    torch = pytest.importorskip("torch")
    flow = fx.Flow(packed, seed=3)

    def backbone() -> Any:
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))

    def head() -> Any:
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(144, 4))

    @fx.stage
    def fitted(feats, lr):
        model = head()
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(feats.features), feats.labels).backward()
            optimizer.step()
        return fx.report({"model": model})

    learn, check = (flow.images(8, samples=slice(begin, begin + 20)) for begin in (0, 20))
    feats, val = (fx.features(one, backbone, batch_size=7) for one in (learn, check))
    made = fitted(feats, fx.explore("lr", [0.001, 0.1]))
    measured = fx.evaluate(made, val, head, batch_size=6)
    study = run(fx.choose(measured, by="accuracy", keep=fx.top(1)), tmp_path / "s")
    stages = computed(tmp_path / "s")
    assert stages.count("features") == 2 and stages.count("evaluate") == 2
    # The same by hand, in one batch.
    dataset = forebay.Dataset(packed).subset(range(20, 40))
    resize = [forebay.transforms.Resize(8), forebay.transforms.CenterCrop(8)]
    ((pixels, labels),) = forebay.Loader(dataset, batch_size=20, transform=resize)
    mean, std = (torch.tensor(one).reshape(3, 1, 1) for one in (built_in.MEAN, built_in.STD))
    model = head()
    model.load_state_dict(study.best.state["model"])
    with torch.inference_mode():
        logits = model(backbone().eval()((pixels.float() / 255 - mean) / std))
    assert study.best.value == (logits.argmax(1) == labels).double().mean()
    loss = float(torch.nn.functional.cross_entropy(logits, labels))
    assert study.best.metrics["loss"] == pytest.approx(loss, rel=1e-5)
