"""Runs a flow, and what comes out of it: the study."""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forebay import _core
from forebay.data.cache import size_in_bytes
from forebay.explore import results
from forebay.explore.calling import call, filled
from forebay.explore.driver import Driver, Limits
from forebay.explore.earlier import Earlier
from forebay.explore.flow import Call, Choose, Source, branches_of, nodes_in
from forebay.explore.journal import Journal
from forebay.explore.plan import Choice, Member, Plan
from forebay.explore.progress import Screen
from forebay.explore.report_page import write_report
from forebay.explore.resuming import write_flow
from forebay.explore.stages import Report, Running
from forebay.pytorch import load_torch

_DISK_SHARE = 0.5  # of the free space, if no limit is given


class TooManyBranchesError(ValueError):
    """A flow has more branches than allowed."""


@dataclass(frozen=True)
class Branch:
    """A branch of a study that was kept."""

    config: dict[str, Any]
    value: float
    path: Path

    @property
    def state(self) -> Any:
        """What its last stage returned or reported; read from the study's folder.

        Raises:
            DataError: The file is damaged; run the study again to compute it again.
            FileNotFoundError: The result was removed.
        """
        return self._report.state

    @property
    def metrics(self) -> dict[str, float]:
        """All numbers that its last stage reported."""
        return self._report.metrics

    @property
    def _report(self) -> Report:
        report: Report = results.from_file(self.path)
        return report


@dataclass(frozen=True)
class Study:
    """The outcome of a run."""

    folder: Path
    kept: list[Branch]
    rows: list[dict[str, Any]]
    summary: dict[str, Any]

    @property
    def best(self) -> Branch:
        """The first of the branches that are kept.

        Raises:
            ValueError: No branch is kept.
        """
        if not self.kept:
            failed = sum(row["state"] == "failed" for row in self.rows)
            notes = "".join(f"; {note}" for note in self.summary["notes"])
            first = next((f" ({row['why']})" for row in self.rows if row["state"] == "failed"), "")
            raise ValueError(
                f"no branch was kept: of {len(self.rows)} branches, {failed} failed{first}; "
                f"study.table() says why{notes}"
            )
        return self.kept[0]

    def table(self) -> list[dict[str, Any]]:
        """One dict for each branch of the last choose, in listed order.

        `config`, `state` ("kept", "dropped", "skipped", "stopped" or "failed"), `score` (None
        without one), `why` and the `mode` of the run. `pandas.json_normalize(study.table())` makes
        a data frame of it.
        """
        return [dict(row) for row in self.rows]


def run(
    flow: Choose,
    *,
    out: str | os.PathLike[str],
    memory: int | str = "4GB",
    disk: int | str | None = None,
    workers: int | None = None,
    threads: int = 1,
    seed: int | None = None,
    errors: str = "drop",
    timeout: float | None = None,
    check_pure: float = 0.0,
    branches_max: int = 100_000,
    order: str | None = None,
    mode: str = "exact",
    quiet: bool = False,
) -> Study:
    """Runs a flow up to a choose, and returns the branches that it keeps.

    A run that was interrupted, also by a power cut, goes on where it was when it is started again
    with the same `out`. A changed flow computes again only what depends on the change.

    Args:
        flow: What fx.choose() returned.
        out: Folder of the study, which is made. It gets results, a journal and report.html.
        memory: Most bytes of results in memory.
        disk: Most bytes of results on disk; by default half of what is free.
        workers: How many processes compute at the same time; by default one for each core and
            `threads`.
        threads: Threads of one stage. Results may differ between numbers of threads, so that
            those of a study with another number are not used.
        seed: Changes the random numbers of all stages; by default that of the flow.
        errors: With "drop", a branch with a stage that fails is lost, and the others go on; with
            "stop", the run ends.
        timeout: Seconds after which a stage fails, if the stage says nothing else.
        check_pure: The share of stages that run twice, to see whether they are pure, from 0 to 1.
        branches_max: A flow with more branches is refused before it starts.
        order: "depth" finishes branch after branch, "breadth" stage after stage, and "critical"
            begins with the longest branches. By default the one that is expected to be fastest.
        mode: With "exact", the branches that are kept are those that all branches one by one would
            have given. fx.sampler, fx.asha and fx.median need "heuristic", since a branch that
            they do not run to its end might be better.
        quiet: Shows nothing while it runs.

    Raises:
        ValueError: An argument makes no sense, or there are more than `branches_max` branches.
        TypeError: A stage's code or arguments cannot be compared with earlier ones.
        BlockingIOError: Another process runs this study.
        StageError: A stage failed, with errors="stop".
        NoRoomError: A result fits neither in memory nor on disk.
        OSError: The study cannot be written.
    """
    arguments = {name: value for name, value in locals().items() if name not in ("flow", "out")}
    _check(flow, errors, check_pure, order, mode)
    threads = _counted("threads", threads)
    workers = _counted("workers", workers or max(1, _core.usable_cores() // threads))
    branches = _counted_branches(flow, branches_max)
    memory_bytes = size_in_bytes("memory", memory)
    folder = Path(os.path.abspath(os.path.expanduser(out)))
    with contextlib.closing(Journal(folder)) as journal:
        engine = _core.ExploreEngine(workers, memory_bytes, _disk_bytes(folder, disk))
        earlier = Earlier(journal.events, folder)
        plan = Plan(engine, _seed_of(flow) if seed is None else seed, threads, earlier)
        final = plan.choice(flow, {})
        limits = Limits(workers, threads, errors == "stop", timeout, check_pure)
        driver = Driver(plan, folder, journal, earlier, limits, order)
        write_flow(folder, flow, arguments)
        journal.add("run", branches=branches, mode=mode, argv=sys.argv)
        return _run(plan, driver, final, journal, Screen(plan, driver, branches, mode, quiet))


def _run(plan: Plan, driver: Driver, final: Choice, journal: Journal, screen: Screen) -> Study:
    began_at = time.monotonic()
    with screen:
        for text in _changed_code(plan, driver.earlier):
            screen.note(text)
        driver.run(final, screen.show)
    study = _study(plan, driver, final, screen.mode, time.monotonic() - began_at)
    journal.add("end", **study.summary)
    write_report(driver.folder, plan, driver, study.summary)
    return study


def alone(
    flow: Choose, config: dict[str, Any], *, threads: int = 1, seed: int | None = None
) -> tuple[float, Any]:
    """Computes one branch in this process, without a study, workers or sharing.

    It gives the same score and state as a run with as many threads, bit for bit. For a debugger,
    and to compare.

    Args:
        flow: What fx.choose() returned; no choose may come before it.
        config: The value of each explore by its name.
        threads: PyTorch's threads; they are set back at the end.
        seed: As for run().

    Returns:
        The score and the state.
    """
    engine = _core.ExploreEngine(1, 2**63, 2**63)
    plan = Plan(engine, _seed_of(flow) if seed is None else seed, threads, None)
    final = plan.single(flow, config)
    with _threads(threads):
        made = _made_alone(plan)
    return made[final.judge].metrics[final.metric], made[final.result].state


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    torch = load_torch()
    before = torch.get_num_threads() if torch is not None else 0
    try:
        if torch is not None:
            torch.set_num_threads(count)
        yield
    finally:
        if torch is not None:
            torch.set_num_threads(before)


def _made_alone(plan: Plan) -> dict[int, Report]:
    made: dict[int, Report] = {}
    for planned in plan.tasks:
        states = {task: report.state for task, report in made.items()}
        one = Running(
            planned.seed_identity,
            planned.epoch or 0,
            None if planned.resumes is None else made[planned.resumes],
        )
        args = filled(planned.args, states, planned.epoch)
        kwargs = filled(planned.kwargs, states, planned.epoch)
        made[planned.number] = call(planned.stage.function, args, kwargs, one, epoch=planned.epoch)
    return made


def _check(flow: Any, errors: str, check_pure: float, order: str | None, mode: str) -> None:
    if not isinstance(flow, Choose):
        raise TypeError(f"run works on what fx.choose() returned, not on {flow!r}")
    if errors not in ("drop", "stop"):
        raise ValueError(f'errors is {errors!r}, but must be "drop" or "stop"')
    if not 0 <= check_pure <= 1:
        raise ValueError(f"check_pure is {check_pure!r}, but must be a share from 0 to 1")
    if order not in (None, "depth", "breadth", "critical"):
        raise ValueError(f'order is {order!r}, but must be "depth", "breadth" or "critical"')
    if any(one not in flow.over for one in flow.free if one is not flow):
        left = ", ".join(one.name for one in flow.free if one is not flow)
        raise ValueError(f"run: {left} is still open; the last choose must judge all explores")
    _check_mode(flow, mode)


def _check_mode(flow: Choose, mode: str) -> None:
    if mode not in ("exact", "heuristic"):
        raise ValueError(f'mode is {mode!r}, but must be "exact" or "heuristic"')
    if mode == "heuristic":
        return
    for node in _nodes_before(flow):
        if isinstance(node, Choose) and node.is_heuristic:
            what = "its explores have a sampler" if node.sampler else f"it keeps {node.selector}"
            raise ValueError(
                f"run: a choose may miss the best branch, because {what}; allow that with "
                'mode="heuristic"'
            )


def _counted(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 4096:
        raise ValueError(f"{name} is {value!r}, but must be an int from 1 to 4096")
    return value


def _counted_branches(flow: Choose, most: int) -> int:
    if (branches := branches_of(flow)) <= most:
        return branches
    factors = " x ".join(
        f"{len(one.values)} {one.name}" for one in flow.over if hasattr(one, "values")
    )
    raise TooManyBranchesError(
        f"the flow has {branches:,} branches ({factors}), more than branches_max={most:,}. "
        f"Judge some explores earlier (fx.choose(…, over=[…]) in the middle of the flow), take "
        f"fewer values, or give a larger branches_max; a thousand branches need about 1 MB of "
        f"memory in this process"
    )


def _disk_bytes(folder: Path, disk: int | str | None) -> int:
    if disk is not None:
        return size_in_bytes("disk", disk)
    held = sum(one.stat().st_size for one in (folder / "results").rglob("*") if one.is_file())
    return held + int(shutil.disk_usage(folder).free * _DISK_SHARE)


def _seed_of(flow: Choose) -> int:
    """The seed of the Flow whose dataset a stage gets; 0 if there is none."""
    for node in _nodes_before(flow):
        if isinstance(node, Call):
            for value in [*node.args, *node.kwargs.values()]:
                if isinstance(value, Source):
                    return value.seed
    return 0


def _nodes_before(flow: Choose) -> Iterator[Any]:
    """All nodes of a flow, from its end."""
    open_nodes: list[Any] = [flow]
    seen: set[int] = set()
    while open_nodes:
        node = open_nodes.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, Choose):
            open_nodes += [node.of, *([] if isinstance(node.by, str) else [node.by])]
        elif isinstance(node, Call):
            open_nodes.extend(nodes_in([node.args, node.kwargs]))
        else:
            open_nodes.extend(nodes_in(node.values))


def _changed_code(plan: Plan, earlier: Earlier) -> list[str]:
    """Which stages have other code than in the study's earlier runs, for people."""
    by_name: dict[str, list[dict[str, str]]] = {}
    for planned in plan.tasks:
        codes = by_name.setdefault(planned.stage.name, [])
        if planned.stage.code not in codes:
            codes.append(planned.stage.code)
    texts = []
    for name, codes in by_name.items():
        before = earlier.codes.get(name)
        if before is None or before in codes or len(codes) > 1:
            continue
        changed = {part for part, _ in set(before.items()) ^ set(codes[0].items())}
        texts.append(
            f"stage {name} is computed again, because its code has changed: "
            + ", ".join(sorted(changed))
        )
    return texts


def _study(plan: Plan, driver: Driver, final: Choice, mode: str, wall_seconds: float) -> Study:
    rows = [
        {
            "config": one.config,
            "state": one.state,
            "score": one.score,
            "why": one.why,
            "mode": mode,
        }
        for _, one in sorted(final.members.items())
    ]
    kept = [Branch(one.config, _score(one), driver.path(one.result)) for one in final.kept or []]
    stats = plan.engine.stats()
    lost = {text for choice in plan.choices for text in choice.lost}
    summary = {
        "mode": mode,
        "branches": len(rows),
        "stages": len(plan.tasks),
        "computed": driver.progress.finished,
        "failed": driver.progress.failed,
        "wall_seconds": wall_seconds,
        "stage_seconds": driver.progress.spent_s,
        "alone_seconds": driver.judging.alone_seconds(final),
        **{name: stats[name] for name in ("repeated_runs", "loads", "memory_peak_bytes")},
        "notes": driver.progress.notes + sorted(lost),
    }
    return Study(driver.folder, kept, rows, summary)


def _score(member: Member) -> float:
    assert member.score is not None
    return member.score
