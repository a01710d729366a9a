"""How near to the optimum the engine's memory management comes, in its own simulation.

A random flow is run by the engine's forecast under each limit, with anticipatory management and
with least-recently-used. Counted is the time to load and to compute again what has left memory. The
optimum of the same flow in the same order is found by trying all choices of what stays.
"""

import random
from dataclasses import dataclass

from forebay import _core

RATE = 500e6  # bytes a second from disk


@dataclass
class Result:
    """A stage's result: what it reads, and what it costs."""

    inputs: list[int]
    size: int
    seconds: float

    @property
    def load_s(self) -> float:
        """How long it takes to load it, if it is on disk."""
        return self.size / RATE

    @property
    def is_on_disk(self) -> bool:
        """Whether the engine writes it to disk when it is made, without counting that."""
        return 10 * self.load_s < self.seconds


def random_flow(seed: int, results: int) -> list[Result]:
    """Results in the order in which they are made; later ones read earlier ones."""
    drawn = random.Random(seed)
    made: list[Result] = []
    for number in range(results):
        count = min(number, drawn.choice([0, 1, 1, 2])) if number else 0
        inputs = sorted(drawn.sample(range(number), count))
        size = int(10 ** drawn.uniform(6, 8.5))
        made.append(Result(inputs, size, 10 ** drawn.uniform(-2, 1)))
    return made


def engine_cost(flow: list[Result], memory: int, eviction: str) -> tuple[float, int]:
    """Seconds of loading, spilling and computing again, and the peak of memory, in the engine."""
    engine = _core.ExploreEngine(1, memory, 2**62, eviction, RATE)
    # Each kind's costs are known from a task of an earlier run that nobody reads.
    for number, one in enumerate(flow):
        engine.add_task([], number, True, False, one.size, one.seconds)
    first = len(flow)
    for number, one in enumerate(flow):
        task = engine.add_task([first + i for i in one.inputs], number)
        choice = engine.add_choice("above", 1, -1.0, 0.0, "none")
        engine.add_branch(choice, 0, task, task, 0, 0)
        engine.close(choice)
        engine.release(choice)
    found = engine.forecast("depth", 0)
    again_s = found["load_s"] + found["spill_s"] + found["repeated_s"]
    return again_s, found["memory_peak_bytes"]


# The results in memory, and those on disk.
State = tuple[frozenset[int], frozenset[int]]


def optimum(flow: list[Result], memory: int) -> float:
    """The least seconds of loading, spilling and computing again, over all choices of what stays.

    The rules are the engine's: a task reads results in memory or from disk. A result that is
    needed and does not get into memory is written to disk, and so is one that was made again.
    """
    last_read = {i: n for n, one in enumerate(flow) for i in one.inputs}
    states: dict[State, float] = {(frozenset(), frozenset()): 0.0}
    for number, one in enumerate(flow):
        following: dict[State, float] = {}
        for (held, disk), cost in states.items():
            again, made_again = _obtained(flow, one.inputs, held, disk)
            useful = [i for i in {*held, *one.inputs, number} if last_read.get(i, -1) > number]
            for kept in _largest_that_fit(flow, useful, memory):
                beside = {*made_again, *(held & {*kept, *one.inputs})} if made_again else set()
                if sum(flow[i].size for i in beside) > memory:
                    continue  # what was made again must fit while it is read
                written = disk | made_again | ({number} if one.is_on_disk else frozenset())
                leaving = [i for i in useful if i not in kept and i not in written]
                for mask in range(1 << len(leaving)):
                    spilled = frozenset(i for bit, i in enumerate(leaving) if mask >> bit & 1)
                    if number in leaving and number not in spilled:
                        continue  # a result that is needed goes to memory or to disk
                    spent = cost + again + sum(flow[i].load_s for i in spilled)
                    state = kept, written | spilled
                    if spent < following.get(state, float("inf")):
                        following[state] = spent
        states = following
    return min(states.values())


def _obtained(
    flow: list[Result], numbers: list[int], held: frozenset[int], disk: frozenset[int]
) -> tuple[float, frozenset[int]]:
    """The time to have these results, and those that are made again for it."""
    seconds, made = 0.0, frozenset[int]()
    for number in numbers:
        if number in held or number in made:
            continue
        if number in disk:
            seconds += flow[number].load_s
            continue
        more, others = _obtained(flow, flow[number].inputs, held | made, disk)
        seconds += flow[number].seconds + more
        made |= others | {number}
    return seconds, made


def _largest_that_fit(flow: list[Result], numbers: list[int], memory: int) -> list[frozenset[int]]:
    """All sets that fit and to which nothing can be added."""
    found = []
    for mask in range(1 << len(numbers)):
        chosen = [n for bit, n in enumerate(numbers) if mask >> bit & 1]
        free = memory - sum(flow[n].size for n in chosen)
        rest = [n for n in numbers if n not in chosen]
        if free >= 0 and all(flow[n].size > free for n in rest):
            found.append(frozenset(chosen))
    return found
