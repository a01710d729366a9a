"""Turns a flow into tasks and choices for the engine: one task for all branches that share it.

A choice in the middle of a flow puts the branches after it off until it is decided.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from forebay import _core
from forebay.explore.flow import Call, Choose, Free, nodes_in, width_of
from forebay.explore.identity import digest
from forebay.explore.messages import Reference
from forebay.explore.samplers import Proposals, ValuesOf
from forebay.explore.settings import Explore, Schedule
from forebay.explore.stages import Stage

_FORMAT = "forebay.explore 0"
_T = TypeVar("_T")

# What each explore and each choose that keeps several branches stands for: an index.
Setting = dict["Explore | Choose", int]


@dataclass
class Planned:
    """A task: a stage, or one epoch of it, with known arguments."""

    number: int
    identity: str
    seed_identity: str  # of the whole training, which all its epochs have in common
    stage: Stage
    args: Any
    kwargs: Any
    inputs: list[int]
    config: dict[str, Any]
    epoch: int | None = None
    resumes: int | None = None


@dataclass
class Member:
    """A branch of a choice."""

    listed: int
    setting: Setting
    config: dict[str, Any]
    result: int
    judge: int
    metric: str  # which of the judge's metrics is the score
    state: str = "open"
    why: str = ""
    score: float | None = None
    reported: tuple[int, float] | None = None  # the last report on its way, and its score


@dataclass(eq=False)
class Choice:
    """A choose for one setting of the explores that stay open."""

    number: int
    choose: Choose
    outer: dict[str, Any]
    members: dict[int, Member] = field(default_factory=dict)
    kept: list[Member] | None = None  # when it is decided
    pending: int = 0  # branches that wait for another choice
    lost: list[str] = field(default_factory=list)  # why branches could not begin
    waiting: list[Any] = field(default_factory=list)  # what waits for this choice
    lines: dict[Any, int] = field(default_factory=dict)
    proposals: Proposals | None = None  # with a sampler
    setting: Setting = field(default_factory=dict)  # of what stays open


class NotYetError(Exception):
    """What a node stands for is not known before a choice is decided."""

    def __init__(self, choice: Choice, held: list[int]) -> None:
        super().__init__(choice.number)
        self.choice = choice
        self.held = held  # tasks that are known already, whose results will be read


class NothingChosenError(Exception):
    """A choice kept no branch, so that nothing can follow it."""


class Plan:
    """The tasks and choices of a flow so far."""

    def __init__(self, engine: _core.ExploreEngine, seed: int, threads: int, earlier: Any) -> None:
        """`earlier` gives what earlier runs know of an identity (Earlier.of), or is None.

        Random numbers depend on `seed`, results on `threads` too.
        """
        self.tasks: list[Planned] = []
        self.choices: list[Choice] = []
        self.new_members: list[tuple[Choice, Member]] = []  # for whoever knows earlier scores
        self.engine = engine
        self._seed = seed
        self._threads = threads
        self._earlier = earlier
        self._by_identity: dict[str, int] = {}
        self._calls: dict[Any, int] = {}
        self._configs: dict[Any, dict[str, Any]] = {}
        self._choices: dict[Any, Choice] = {}
        self._kinds: dict[tuple[str, bool], int] = {}
        self._values = ValuesOf()

    def choice(self, choose: Choose, setting: Setting) -> Choice:
        """The choice of a choose for a setting; the first call adds its branches."""
        key = (choose, _part(setting, [one for one in choose.free if one is not choose]))
        found = self._choices.get(key)
        if found is None:
            found = self._choices[key] = self._begin(choose, setting)
            if choose.sampler is None:
                self._add_branches(found, choose.over, dict(setting), 0)
                self._close_if_complete(found)
            else:
                found.pending += 1  # until all trials have ended
                self.propose(found)
        return found

    def propose(self, choice: Choice) -> None:
        """Adds branches that a sampler proposes, so that each worker may have one."""
        proposals = choice.proposals
        if proposals is None or choice.kept is not None:
            return
        while proposals.open_trials < self.engine.workers():
            listed = len(proposals.asked)
            proposal = proposals.ask()
            if proposal is None:
                break
            setting = dict(choice.setting)
            for one in choice.choose.over:
                assert isinstance(one, Explore)
                setting[one] = self._values.index(one, proposal.params[one.name])
            if not self._add_branch(choice, setting, listed):
                proposals.tell(listed, "fail")
        if proposals.is_complete and choice.pending > 0:
            choice.pending -= 1
            self._close_if_complete(choice)

    def single(self, choose: Choose, config: dict[str, Any]) -> Member:
        """Adds the one branch of a choose that has this configuration.

        Raises:
            ValueError: There is no such branch, or it depends on an earlier choose.
        """
        setting: Setting = {}
        for one in choose.over:
            if isinstance(one, Choose) or one.name not in config:
                raise ValueError(f"the configuration must give each explore a value; {one!r}")
            setting[one] = self._values.index_of_label(one, config[one.name])
        choice = self._begin(choose, setting)
        self._add_branch(choice, setting, 0)
        if not choice.members:
            raise ValueError("a branch that depends on an earlier choose cannot be computed alone")
        return choice.members[0]

    def decided(self, choice: Choice) -> None:
        """Adds what waited for this choice."""
        waiting, choice.waiting = choice.waiting, []
        for other, rest, setting, listed, held in waiting:
            for task in held:
                self.engine.unexpect_reader(task)
            other.pending -= 1
            self._add_branches(other, rest, setting, listed)
            self._close_if_complete(other)

    def _begin(self, choose: Choose, setting: Setting) -> Choice:
        selector, shape = choose.selector, choose.shape
        number = self.engine.add_choice(
            selector.kind,
            selector.count,
            selector.low,
            selector.high,
            shape[1] if shape else "none",
            early_stop=selector.early_stop.kind,
            grace=selector.early_stop.grace,
            factor=selector.early_stop.factor,
            startup=selector.early_stop.startup,
        )
        outer = {
            one.name: self._values.labels(one)[setting[one]]
            for one in choose.free
            if isinstance(one, Explore)
        }
        choice = Choice(number, choose, outer, setting=dict(setting))
        if choose.sampler is not None and self._earlier is not None:
            choice.proposals = Proposals(
                [one for one in choose.over if isinstance(one, Explore)],
                is_highest_best=selector.kind == "top",
                outer=outer,
                earlier=self._earlier.proposed,
            )
        self.choices.append(choice)
        return choice

    def _close_if_complete(self, choice: Choice) -> None:
        if choice.pending == 0:
            self.engine.close(choice.number)

    def _add_branches(self, choice: Choice, rest: Free, setting: Setting, listed: int) -> None:
        """Adds all branches for the explores in `rest`."""
        if not rest:
            self._add_branch(choice, setting, listed)
            return
        one, *after = rest
        if isinstance(one, Choose):
            before = self._choice_before(choice, one, rest, setting, listed)
            indexes = list(range(len(before.kept or []))) if before is not None else []
            if before is not None and not indexes:
                choice.lost.append(_nothing_of(before))
        else:
            indexes = _probe_order(one, choice.choose)
        for index in indexes:
            self._add_branches(
                choice, after, {**setting, one: index}, listed * width_of(one) + index
            )

    def _choice_before(
        self, choice: Choice, one: Choose, rest: Free, setting: Setting, listed: int
    ) -> Choice | None:
        try:
            before = self.choice(one, setting)
        except NotYetError as error:
            self._wait(choice, error, rest, setting, listed)
            return None
        if before.kept is None:
            self._wait(choice, NotYetError(before, []), rest, setting, listed)
            return None
        return before

    def _wait(
        self, choice: Choice, error: NotYetError, rest: Free, setting: Setting, listed: int
    ) -> None:
        for task in error.held:
            self.engine.expect_reader(task)
        choice.pending += 1
        error.choice.waiting.append((choice, rest, setting, listed, error.held))

    def _add_branch(self, choice: Choice, setting: Setting, listed: int) -> bool:
        """Adds a branch, now or when what it waits for is decided; False if it cannot begin."""
        choose = choice.choose
        try:
            result = self._resolve(choose.of, setting).task
            judge, metric = result, choose.by
            if isinstance(choose.by, Call):
                judge, metric = self._resolve(choose.by, setting).task, "value"
        except NotYetError as error:
            self._wait(choice, error, [], setting, listed)
            return True
        except NothingChosenError as error:
            choice.lost.append(str(error))
            return False
        assert isinstance(metric, str)
        config = self._config([choose.of], setting)
        member = Member(listed, setting, config, result, judge, metric)
        choice.members[listed] = member
        self.new_members.append((choice, member))
        line, position = 0, 0
        if choose.shape is not None:
            axis = choose.shape[0]
            others = tuple((id(one), index) for one, index in setting.items() if one is not axis)
            line = choice.lines.setdefault(others, len(choice.lines))
            position = setting[axis]
        self.engine.add_branch(choice.number, listed, result, judge, line, position)
        return True

    def _resolve(self, value: Any, setting: Setting) -> Any:
        """The value with explores, calls and chooses replaced by what they stand for."""
        if isinstance(value, Explore):
            return self._resolve(self._values.of(value)[setting[value]], setting)
        if isinstance(value, Call):
            return Reference(self._task(value, setting))
        if isinstance(value, Choose):
            return Reference(self._chosen(value, setting).result)
        if type(value) in (list, tuple):
            return type(value)(self._resolve_all(value, setting))
        if type(value) is dict:
            return dict(zip(value, self._resolve_all(value.values(), setting), strict=True))
        return value

    def _resolve_all(self, values: Any, setting: Setting) -> list[Any]:
        resolved, late = [], None
        for value in values:
            try:
                resolved.append(self._resolve(value, setting))
            except NotYetError as error:
                late = late or error
                late.held.extend(error.held if error is not late else [])
        if late is not None:
            late.held.extend(one.task for one in _inside(resolved, Reference))
            raise late
        return resolved

    def _chosen(self, choose: Choose, setting: Setting) -> Member:
        choice = self.choice(choose, setting)
        if choice.kept is None:
            raise NotYetError(choice, [])
        if not choice.kept:
            raise NothingChosenError(_nothing_of(choice))
        return choice.kept[setting.get(choose, 0)]

    def _task(self, call: Call, setting: Setting) -> int:
        key = (call, _part(setting, call.free))
        found = self._calls.get(key)
        if found is None:
            args, kwargs = self._resolve_all([call.args, call.kwargs], setting)
            config = self._configs[key] = self._config([call.args, call.kwargs], setting)
            found = self._calls[key] = self._tasks_of(call.stage, args, kwargs, config)
        return found

    def reports_of(self, member: Member) -> dict[int, int]:
        """The tasks that report a branch's score on its way, with the number of the report.

        An epoch that is a task of its own reports once; for a training in one task it is 0.
        """
        reports: dict[int, int] = {}
        task: int | None = member.judge
        while task is not None:
            epoch = self.tasks[task].epoch
            reports[task] = 0 if epoch is None else epoch + 1
            task = self.tasks[task].resumes
        return reports

    def _config(self, values: Any, setting: Setting) -> dict[str, Any]:
        """The values of all explores that the values depend on, also before chooses."""
        config: dict[str, Any] = {}
        for node in nodes_in(values):
            if isinstance(node, Explore):
                config[node.name] = self._values.labels(node)[setting[node]]
                config |= self._config(self._values.of(node)[setting[node]], setting)
            elif isinstance(node, Call):
                config |= self._configs[node, _part(setting, node.free)]
            else:
                config |= self._chosen(node, setting).config
        return config

    def _tasks_of(self, stage: Stage, args: Any, kwargs: Any, config: dict[str, Any]) -> int:
        """Adds the task of a stage, or one for each epoch; returns the last one."""
        inputs = [one.task for one in _inside([args, kwargs], Reference)]
        schedules = list(_inside([args, kwargs], Schedule)) if stage.is_generator else []
        try:
            code = digest(stage)
            settled = digest(self._identified([args, kwargs], bool(schedules)))
        except TypeError as error:
            raise TypeError(f"stage {stage.name}: {error}") from None
        seeds = digest(_FORMAT, code, settled, self._seed)
        identity = digest(seeds, self._threads)
        if not schedules:
            return self._add(Planned(0, identity, seeds, stage, args, kwargs, inputs, config))
        lengths = {len(one) for one in schedules}
        if len(lengths) > 1:
            raise ValueError(f"stage {stage.name} gets schedules of different lengths: {lengths}")
        last: int | None = None
        for epoch in range(lengths.pop()):
            identity = digest(identity, [one.value(epoch) for one in schedules])
            before = [] if last is None else [last]
            planned = Planned(
                0, identity, seeds, stage, args, kwargs, [*inputs, *before], config, epoch, last
            )
            last = self._add(planned)
        assert last is not None
        return last

    def _identified(self, value: Any, hides_schedules: bool) -> Any:
        """The arguments with identities in place of References."""
        if isinstance(value, Reference):
            return "result", self.tasks[value.task].identity
        if isinstance(value, Schedule):
            return "schedule" if hides_schedules else list(value)
        if type(value) in (list, tuple):
            return type(value)(self._identified(item, hides_schedules) for item in value)
        if type(value) is dict:
            return {key: self._identified(item, hides_schedules) for key, item in value.items()}
        return value

    def _add(self, planned: Planned) -> int:
        found = self._by_identity.get(planned.identity)
        if found is not None:
            return found
        kind = (planned.stage.name, planned.epoch is None)
        earlier = {} if self._earlier is None else self._earlier.of(planned.identity)
        planned.number = self.engine.add_task(
            planned.inputs, self._kinds.setdefault(kind, len(self._kinds)), **earlier
        )
        self._by_identity[planned.identity] = planned.number
        self.tasks.append(planned)
        return planned.number


def _nothing_of(choice: Choice) -> str:
    by = choice.choose.by if isinstance(choice.choose.by, str) else choice.choose.by.stage.name
    where = f" for {choice.outer}" if choice.outer else ""
    failed = sum(member.state == "failed" for member in choice.members.values())
    return (
        f"the choose by {by} in the middle of the flow kept none of its {len(choice.members)} "
        f"branches{where}, of which {failed} failed"
    )


def _probe_order(explore: Explore, choose: Choose) -> list[int]:
    """In which order the values are tried: with a known shape, the telling ones come first."""
    count = len(explore.values)
    if choose.shape is None or choose.shape[0] is not explore:
        return list(range(count))
    shape, kind = choose.shape[1], choose.selector.kind
    if shape in ("increasing", "decreasing"):
        is_best_last = (shape == "increasing") != (kind == "bottom")
        return list(range(count))[:: -1 if is_best_last else 1]
    order: list[int] = []
    gaps = [(0, count)]
    while gaps:  # halves, then quarters, and so on
        begin, end = gaps.pop(0)
        if begin < end:
            middle = (begin + end) // 2
            order.append(middle)
            gaps += [(begin, middle), (middle + 1, end)]
    return order


def _part(setting: Setting, free: Free) -> tuple[Any, ...]:
    return tuple((id(one), setting[one]) for one in free if one in setting)


def _inside(value: Any, kind: type[_T]) -> Iterator[_T]:
    """All values of a kind in nested lists, tuples and dicts."""
    if isinstance(value, kind):
        yield value
    elif type(value) in (list, tuple):
        for item in value:
            yield from _inside(item, kind)
    elif type(value) is dict:
        for item in value.values():
            yield from _inside(item, kind)
