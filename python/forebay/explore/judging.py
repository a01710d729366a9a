"""The branches of a run: their scores, what becomes of them, and why."""

import math
from dataclasses import dataclass, field
from typing import Any

from forebay import _core
from forebay.explore.earlier import Earlier
from forebay.explore.journal import Journal
from forebay.explore.plan import Choice, Member, Plan, Planned

Actions = list[_core.ExploreAction]


@dataclass
class Progress:
    """What is known of a run while it goes on."""

    finished: int = 0
    failed: int = 0
    spent_s: float = 0  # in stages
    notes: list[str] = field(default_factory=list)
    current: dict[int, str] = field(default_factory=dict)  # by worker


class Judging:
    """Tells the engine the scores of branches, and keeps record of what it decides about them."""

    def __init__(self, plan: Plan, journal: Journal, earlier: Earlier, progress: Progress) -> None:
        self.failures: dict[int, tuple[str, str]] = {}  # by task: the error and its traceback
        self._made: dict[int, dict[str, float]] = {}  # by task: its metrics
        # By task: the branches that may end early by what it reports, and the report's number.
        self._watching: dict[int, list[tuple[Choice, Member, int]]] = {}
        self._plan = plan
        self._engine = plan.engine
        self._journal = journal
        self._earlier = earlier
        self._progress = progress

    def known_scores(self) -> Actions:
        """Gives the engine the scores of new branches that earlier runs, or this one, know."""
        actions: Actions = []
        while self._plan.new_members:
            choice, member = self._plan.new_members.pop(0)
            if choice.proposals is not None and choice.proposals.is_new(member.listed):
                params = choice.proposals.asked[member.listed].params
                self._journal.add("proposed", key=choice.proposals.key, params=params)
            metrics = self._known(member.judge)
            if metrics is not None:
                actions += self._score(choice, member, metrics)
            if choice.choose.selector.early_stop.kind != "none":
                actions += self._watch(choice, member)
            self._plan.propose(choice)
        return actions

    def _known(self, task: int) -> dict[str, float] | None:
        # A task that this run has made need not be stored yet.
        made = self._made.get(task)
        return self._earlier.metrics(self._plan.tasks[task].identity) if made is None else made

    def made(self, task: int, metrics: dict[str, float]) -> Actions:
        """Gives the engine the scores of all branches that this task is the judge of."""
        self._made[task] = metrics
        actions: Actions = []
        if self._plan.tasks[task].epoch is not None:
            actions += self._reported(task, 0, metrics)
        for number, listed in self._engine.judged_by(task):
            choice = self._plan.choices[number]
            if choice.members[listed].score is None:
                actions += self._score(choice, choice.members[listed], metrics)
        return actions

    def propose(self, choice: Choice) -> Actions:
        """Adds what a sampler proposes in place of branches that have ended."""
        if choice.proposals is None:
            return []
        self._plan.propose(choice)
        return self.known_scores() + self._engine.start()

    # Branches that end early

    def awaits(self, task: int) -> bool:
        """Whether a training in one task may end by what it reports on its way."""
        return task in self._watching and self._plan.tasks[task].epoch is None

    def reported(self, task: int, step: int, metrics: dict[str, float]) -> Actions:
        """Takes what a training reports on its way."""
        if not self.awaits(task):
            return []
        identity = self._plan.tasks[task].identity
        self._journal.add("reported", id=identity, step=step, metrics=metrics)
        return self._reported(task, step, metrics)

    def _watch(self, choice: Choice, member: Member) -> Actions:
        """Tells the engine what is known of a branch's reports, and waits for the others."""
        actions: Actions = []
        for task, step in reversed(self._plan.reports_of(member).items()):
            self._watching.setdefault(task, []).append((choice, member, step))
            if step == 0:
                reports = self._earlier.reports(self._plan.tasks[task].identity)
                for at, metrics in sorted(reports.items()):
                    actions += self._report(choice, member, at, metrics)
            elif (known := self._known(task)) is not None:
                actions += self._report(choice, member, step, known)
        return actions

    def _reported(self, task: int, step: int, metrics: dict[str, float]) -> Actions:
        actions: Actions = []
        for choice, member, own_step in self._watching.get(task, []):
            actions += self._report(choice, member, own_step or step, metrics)
        return actions

    def _report(
        self, choice: Choice, member: Member, step: int, metrics: dict[str, float]
    ) -> Actions:
        score = metrics.get(member.metric)
        if score is None or math.isnan(score):
            return []
        if choice.proposals is not None:
            choice.proposals.report(member.listed, step, score)
        member.reported = step, score
        return self._engine.reported(choice.number, member.listed, step, score)

    def _score(self, choice: Choice, member: Member, metrics: dict[str, float]) -> Actions:
        score = metrics.get(member.metric)
        if score is not None and not math.isnan(score):
            member.score = score
            if choice.proposals is not None:
                choice.proposals.tell(member.listed, "complete", score)
            return self._engine.scored(choice.number, member.listed, score)
        known = ", ".join(metrics) or "no numbers; a stage returns a number, or fx.report(…)"
        member.why = (
            f"its score {member.metric} is NaN"
            if score is not None
            else f"it reports no {member.metric}; it reports {known}"
        )
        return self._engine.branch_lost(choice.number, member.listed)

    def settle(self, kind: str, choice: Choice, listed: int) -> None:
        """Keeps record of a branch that the engine has dropped, skipped, stopped or lost."""
        member = choice.members[listed]
        if kind == "violated":
            assert choice.choose.shape is not None
            explore, shape = choice.choose.shape
            note = (
                f"the scores along {explore.name!r} are not as declared ({shape}): "
                f"{member.config} contradicts it, so all branches of this choose are run"
            )
            self.note(note)
            return
        member.state = "failed" if kind == "branch lost" else kind
        if kind == "stopped" and member.reported is not None:
            step, score = member.reported
            member.why = f"{choice.choose.selector} ended it at report {step} with {score:.4g}"
        if choice.proposals is not None:
            choice.proposals.tell(member.listed, "pruned" if kind == "stopped" else "fail")
        if kind == "branch lost" and not member.why:
            failed = self.failed_before(member.judge)
            if failed is not None:
                member.why = f"{describe(self._plan.tasks[failed])}: {self.failures[failed][0]}"
        self._record(choice, member)

    def note(self, text: str) -> None:
        """Keeps record of something that users should know."""
        self._progress.notes.append(text)
        self._journal.add("note", text=text)

    def chosen(self, choice: Choice) -> Actions:
        """Takes a choice that the engine has decided, and adds what waited for it.

        Raises:
            ValueError: The function that selects returned something else than listed numbers.
        """
        listed = self._engine.kept(choice.number)
        function = choice.choose.selector.function
        if function is not None:
            scores = {one: choice.members[one].score or 0.0 for one in sorted(listed)}
            wanted = [int(one) for one in _as_list(function(dict(scores)))]
            if unknown := [one for one in wanted if one not in scores]:
                raise ValueError(f"choose: keep returned {unknown}, which are not among the scores")
            listed = list(dict.fromkeys(wanted))
            self._engine.keep_only(choice.number, listed)
        choice.kept = [choice.members[one] for one in listed]
        for member in choice.kept:
            member.state = "kept"
            self._record(choice, member)
        self._plan.decided(choice)
        if choice is not self._plan.choices[0]:
            self._engine.release(choice.number)
        return self.known_scores() + self._engine.start()

    def alone_seconds(self, final: Choice) -> float:
        """What the branches that have scores would have taken one by one, without sharing."""
        total = 0.0
        for member in final.members.values():
            if member.score is None:
                continue
            seen, open_tasks = set(), [member.result, member.judge]
            while open_tasks:
                task = open_tasks.pop()
                if task not in seen:
                    seen.add(task)
                    total += self._earlier.seconds(self._plan.tasks[task].identity)
                    open_tasks.extend(self._plan.tasks[task].inputs)
        return total

    def failed_before(self, task: int) -> int | None:
        """The task that failed among this one and those before it."""
        open_tasks = [task]
        while open_tasks:
            one = open_tasks.pop()
            if one in self.failures:
                return one
            open_tasks.extend(self._plan.tasks[one].inputs)
        return None

    def _record(self, choice: Choice, member: Member) -> None:
        self._journal.add(
            "branch",
            choice=choice.number,
            listed=member.listed,
            config=member.config,
            state=member.state,
            score=member.score,
            why=member.why,
        )


def describe(planned: Planned) -> str:
    """A task in words."""
    settings = ", ".join(f"{name}={_short(value)}" for name, value in planned.config.items())
    epoch = "" if planned.epoch is None else f" epoch {planned.epoch}"
    return f"{planned.stage.name}({settings}){epoch}"


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _as_list(value: Any) -> list[Any]:
    return [value] if isinstance(value, int) else list(value)
