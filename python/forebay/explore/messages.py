"""What the process that runs a study and its workers tell each other."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Input:
    """A result that a task reads: in memory, in a file, or in both. `place` is what to open."""

    task: int
    place: str
    is_file: bool
    load: bool = False  # copy it from the file into memory first, and say so (Loaded)


@dataclass
class Reference:
    """Stands for the result of another task among a task's arguments."""

    task: int


@dataclass
class Work:
    """A task for a worker."""

    task: int
    identity: str
    seed_identity: str  # what its random numbers depend on
    stage: bytes  # a pickled function
    arguments: bytes  # pickled (args, kwargs), with References
    inputs: list[Input] = field(default_factory=list)
    epoch: int | None = None  # makes this epoch alone, after the epoch of `resumes`
    resumes: int | None = None  # the task whose result it goes on from
    twice: bool = False  # run it twice and compare the results
    waits: bool = False  # after each report for GoOn or Cancel


@dataclass
class Place:
    """Where a worker stores the result that it made."""

    in_memory: bool
    file: str | None


@dataclass
class Cancel:
    """The worker may end its task after the next report."""


@dataclass
class GoOn:
    """Answers Reported: the training goes on, unless Cancel has come before."""


@dataclass
class Began:
    """The worker has read the task's inputs, and begins to compute."""


@dataclass
class Reported:
    """A generator's report number `step` (from 1) on its way."""

    step: int
    metrics: dict[str, float]


@dataclass
class Made:
    """The worker has the result; Place follows."""

    seconds: float
    bytes: int
    metrics: dict[str, float]


@dataclass
class Stored:
    """The result lies where Place said; `descriptor` is the worker's for its memory."""

    descriptor: int | None
    failure: str = ""  # why it could not be stored in the file


@dataclass
class Loaded:
    """The result of `task` was copied into memory."""

    task: int
    descriptor: int
    seconds: float


@dataclass
class Taken:
    """The driver has taken over the last descriptor that the worker sent."""


@dataclass
class Failed:
    """The task raised an error."""

    error: str
    traceback: str


@dataclass
class Damaged:
    """The result of `input` could not be read from its file."""

    input: int
    error: str


@dataclass
class Stopped:
    """The task was ended because of Cancel."""


Message = Any  # one of the classes above
