"""A flow: stages, explores and chooses, written down before anything runs."""

import inspect
import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from forebay.data.dataset import Dataset
from forebay.data.sources import absolute
from forebay.explore.selectors import Selector, selector_of
from forebay.explore.settings import Explore, Schedule
from forebay.explore.stages import Stage

Free = list["Explore | Choose"]
SHAPES = ("increasing", "decreasing", "peak", "valley")


class Call:
    """A stage's call with its arguments: what the stage will return."""

    def __init__(self, stage: Stage, *args: Any, **kwargs: Any) -> None:
        try:
            bound = inspect.signature(stage.function).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"stage {stage.name}: {error}") from None
        bound.apply_defaults()
        self.stage = stage
        self.args, self.kwargs = bound.args, bound.kwargs
        self.free = _free_in([self.args, self.kwargs])

    def __repr__(self) -> str:
        return f"<{self.stage.name}(…), {' x '.join(map(str, self.free)) or 'one branch'}>"

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            f"what stage {self.stage.name} returns is not known before the flow runs; take it "
            "apart in the stage that gets it"
        )


class Choose:
    """The branches of a stage that are kept."""

    def __init__(
        self,
        of: "Call | Choose",
        by: str | Call,
        selector: Selector,
        over: Sequence["Explore | Choose"],
        shape: tuple[Explore, str] | None,
        name: str,
    ) -> None:
        self.of = of
        self.by = by
        self.selector = selector
        self.over = list(over)
        self.shape = shape
        self.name = name
        self.sampler = next(
            (one.sampler for one in over if isinstance(one, Explore) and one.sampler), None
        )
        self.free: Free = [one for one in of.free if one not in over]
        if not selector.keeps_one:
            self.free.append(self)

    @property
    def is_heuristic(self) -> bool:
        """Whether a branch that this choose never judges might be better than those it keeps."""
        return self.sampler is not None or self.selector.early_stop.kind != "none"

    def __repr__(self) -> str:
        return f"<choose {self.name}: {self.selector} by {self.by}>"


Node = Call | Choose | Explore


def choose(
    of: Any,
    *,
    by: str | Callable[..., Any],
    keep: Selector | Callable[..., Any],
    over: Sequence[str] | None = None,
    shape: dict[str, str] | None = None,
) -> Choose:
    """Keeps the best branches of a stage. What follows in the flow gets these alone.

    Args:
        of: What a stage returns.
        by: The name of a number that the stage reports, or a function that gets what the stage
            returns (its state) and returns the score.
        keep: fx.top(k), fx.bottom(k), fx.above(t), fx.first(k, above=t), fx.within(a, b), or a
            function that gets all scores by number and returns the numbers to keep. With
            mode="heuristic" also fx.asha(keep) and fx.median(keep), which end trainings early.
        over: The names of the explores that are judged against each other; the others stay
            open, with a choice for each of their values. By default all.
        shape: What is known of the scores along an explore whose values are in order, with all
            other settings equal: {"lr": "peak"}; one of "increasing", "decreasing", "peak" and
            "valley". Branches that cannot be kept if that holds are not run. It is checked on
            each score; if a score contradicts it, all branches are run, and the study says so.

    Raises:
        ValueError: There is nothing to choose from, or a name is not that of an open explore.
    """
    if not isinstance(of, (Call, Choose)):
        raise TypeError(f"choose works on what a stage returns, not on {of!r}")
    names = {one.name: one for one in of.free}
    for name in [*(over or ()), *(shape or ())]:
        if name not in names:
            raise ValueError(
                f"choose: there is no open explore {name!r} before it; there is "
                f"{', '.join(names) or 'none'}"
            )
    closed = [one for one in of.free if over is None or one.name in over]
    if not closed:
        raise ValueError("choose: there is nothing to choose from, because no explore is open")
    score: str | Call
    if isinstance(by, str):
        score = by
    elif callable(by):
        score = Call(by if isinstance(by, Stage) else Stage(by, None, ""), of)
    else:
        raise TypeError(f"choose: by is {by!r}, but must be a metric's name or a function")
    selector = selector_of(keep)
    _check_early_stop(of, score, selector)
    _check_sampled(of, selector, closed, shape)
    return Choose(of, score, selector, closed, _shape_of(shape, names, closed), "choose")


def _check_early_stop(of: Call | Choose, score: str | Call, selector: Selector) -> None:
    if selector.early_stop.kind == "none":
        return
    if not isinstance(of, Call) or not of.stage.is_generator or not isinstance(score, str):
        raise ValueError(
            f"choose: {selector} works on the reports of a training, so `of` must be the call of a "
            "stage that yields fx.report(…) after each epoch, and `by` a number that it reports"
        )


def _check_sampled(
    of: Call | Choose, selector: Selector, closed: Sequence[Any], shape: dict[str, str] | None
) -> None:
    used = {one.sampler for one in closed if isinstance(one, Explore)} - {None}
    if not used:
        return
    others = [one.name for one in closed if getattr(one, "sampler", None) not in used]
    left = [one.name for one in of.free if one not in closed and getattr(one, "sampler", 0) in used]
    if len(used) > 1 or others or left:
        named = ", ".join([*others, *left]) or "several samplers"
        raise ValueError(
            "choose: explores with a sampler are judged by one choose, together with all others "
            f"of the same sampler and with nothing else; {named} stands in the way (see over=, or "
            "give the explore the sampler too)"
        )
    if selector.kind not in ("top", "bottom") or shape:
        raise ValueError("choose: explores with a sampler need fx.top(k) or fx.bottom(k), no shape")


def _shape_of(
    shape: dict[str, str] | None, names: dict[str, Any], closed: Sequence[Any]
) -> tuple[Explore, str] | None:
    if not shape:
        return None
    if len(shape) != 1:
        raise ValueError("choose: shape is known along one explore, not along several")
    ((name, kind),) = shape.items()
    explore = names[name]
    if kind not in SHAPES:
        raise ValueError(f"choose: the shape {kind!r} is not one of {', '.join(SHAPES)}")
    if explore not in closed or not isinstance(explore, Explore) or not explore.is_ordered:
        raise ValueError(
            f"choose: the values of {name!r} are in no order, or not judged here; use fx.log, "
            "fx.linear or a sorted list"
        )
    return explore, kind


def branches_of(choose: Choose) -> int:
    """The most branches that a choose and the chooses before it can have."""
    if choose.sampler is not None:
        return choose.sampler.trials
    return math.prod(width_of(one) for one in choose.over)


def width_of(one: Explore | Choose) -> int:
    """The most branches into which an explore, or a choose that keeps several, parts."""
    if isinstance(one, Explore):
        return len(one.values)
    limit = branches_of(one)
    if one.selector.kind in ("top", "bottom", "first"):
        return min(one.selector.count, limit)
    return limit


def _free_in(values: Any) -> Free:
    """The explores and chooses in the values that later stages are repeated for."""
    found: Free = []
    for node in nodes_in(values):
        inside = [node, *_free_in(node.values)] if isinstance(node, Explore) else node.free
        for one in inside:
            if one not in found:
                same = [other for other in found if other.name == one.name]
                if same and isinstance(one, Explore):
                    raise ValueError(
                        f"two explores are called {one.name!r}; use one explore in both places, or "
                        "give them different names"
                    )
                found.append(one)
    return found


def nodes_in(values: Any) -> Iterator[Node]:
    """The nodes in nested lists, tuples and dicts."""
    if isinstance(values, (Call, Choose, Explore)):
        yield values
    elif isinstance(values, (list, tuple)) and not isinstance(values, Schedule):
        for value in values:
            yield from nodes_in(value)
    elif isinstance(values, dict):
        for value in values.values():
            yield from nodes_in(value)


class Source:
    """A dataset as an argument of stages. It stands for its content, not for its place."""

    def __init__(self, path: str, fingerprint: str, options: dict[str, Any], seed: int) -> None:
        self.path = path
        self.seed = seed  # of the flow
        self._fingerprint = fingerprint
        self._options = options

    def open(self) -> Dataset:
        """Opens the dataset."""
        return Dataset(self.path, **self._options)

    def __forebay_identity__(self) -> Any:
        options = {k: v for k, v in self._options.items() if k not in ("cache", "index_cache")}
        return self._fingerprint, options


class Flow:
    """Where a flow begins: a dataset and a seed.

    Args:
        path: A dataset as forebay.Dataset takes it.
        seed: Changes the random numbers of all stages.
        options: Further arguments of forebay.Dataset.

    Raises:
        The errors of forebay.Dataset.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, seed: int = 0, **options: Any
    ) -> None:
        self.seed = seed
        self._source: Source | None = None
        if path is not None:
            opened = Dataset(path, **options)
            self._source = Source(absolute(path), str(opened.core.fingerprint), options, seed)

    @property
    def dataset(self) -> Source:
        """The dataset, for stages that read it themselves with `dataset.open()`."""
        if self._source is None:
            raise ValueError("this flow has no dataset; give its path to fx.Flow")
        return self._source

    def images(self, size: Any, *, classes: Any = None, samples: Any = None) -> Call:
        """A stage that decodes all images: `.images` and `.labels`; see forebay.explore.Images.

        Args:
            size: Side of the square to which each image is cropped and resized; may be explored.
            classes: Names of the classes whose samples are taken; None: all.
            samples: A slice of these samples; None: all.
        """
        from forebay.explore.built_in import images

        made: Call = images(self.dataset, size, classes, samples)
        return made
