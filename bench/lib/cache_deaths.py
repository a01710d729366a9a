"""One of a job's eight machines dies, and the origin is away, while all train on a warm cache.

A rank sleeps after each batch, as a training step would take its time, for so long that all of them
together need PACE of what they reach without steps. So neither the cores nor the links are what
limits them, and throughput falls only where a rank waits for its data.
"""

import shutil
import signal
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lib.cache_job import Job
from lib.comparison import show_table
from lib.origin_log import Origin, asked_bytes, run_origin
from lib.remote_servers import Network
from lib.timeline import Batch, longest_gap_s, rates, read_timeline, recovery_s, usual_rate

MACHINES = 8
BATCH = 4
PACE = 0.5
LINK_MBIT = 1000
SETTLE_S = 4  # until what was read ahead without steps is used
BEFORE_S = 5
AWAY_S = 10
BACK_S = 3  # after the return of the origin
USUAL_S = (8.0, 18.0)  # after a death: when the others have what they can reach
DIP_S = 5  # after a death: when a dip counts as its consequence
SILENT = 5  # the rank whose link is taken away
Figures = dict[str, Any]


class Scene(NamedTuple):
    """What the jobs use."""

    folder: Path
    network: Network
    origin: Origin
    url: str
    room: int  # bytes that each machine gives


class Training:
    """A job whose ranks train on a warm cache.

    Attributes:
        held_bytes: What each rank's machine holds.
        flat_rate: Images per second of all ranks without steps.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.job.epoch()
        warm = self.job.epoch()
        self.held_bytes = [rank["stats"]["cache_disk_held_bytes"] for rank in warm["ranks"]]
        self.flat_rate = warm["images"] / warm["wall_seconds"]
        self.job.train(MACHINES * BATCH / (PACE * self.flat_rate))
        time.sleep(SETTLE_S)

    def batches(self, without: int | None = None) -> list[list[Batch]]:
        """What the ranks had until now, but for one rank; all others must live."""
        ranks = [rank for rank in range(MACHINES) if rank != without]
        for rank in ranks:
            self.job.check_lives(rank)
        return [read_timeline(self.job.timeline(rank)) for rank in ranks]


@contextmanager
def training(scene: Scene, name: str) -> Iterator[Training]:
    """A job, which is killed and removed when the context is left."""
    options = {"path": scene.url, "disk_bytes": scene.room, "batch": BATCH, "regions": "never"}
    job = Job(name, "forebay", scene.network, scene.folder, lambda _: options, {})
    try:
        yield Training(job)
    finally:
        job.kill()
        shutil.rmtree(job.folder)


def without_origin(job: Training, away: AbstractContextManager[None]) -> list[float]:
    """How the ranks do while the origin is away.

    Returns:
        The longest time in which a rank had no batch, in the AWAY_S before and in these, and the
        throughput over that before.
    """
    time.sleep(AWAY_S)
    begin = time.monotonic()
    with away:
        time.sleep(AWAY_S)
        end = time.monotonic()
    time.sleep(BACK_S)
    batches = job.batches()
    before, during = (begin - AWAY_S, begin), (begin, end)
    return [
        longest_gap_s(batches, *before),
        longest_gap_s(batches, *during),
        usual_rate(batches, *during) / usual_rate(batches, *before),
    ]


def death(scene: Scene, job: Training, rank: int, *, silent: bool) -> Figures:
    """How the others do after a rank was killed, or, if silent, its link was taken away."""
    time.sleep(BEFORE_S)
    scene.origin.asked()
    at = time.monotonic()
    with ExitStack() as stack:
        if silent:
            stack.enter_context(scene.network.without(rank))
        else:
            job.job.send(rank, signal.SIGKILL)
        time.sleep(USUAL_S[1])
        batches = job.batches(without=rank)
        asked, _ = scene.origin.asked()
        job.job.kill()  # before the link comes back
    usual = usual_rate(batches, *(at + seconds for seconds in USUAL_S))
    noticed = [one.at - at for each in batches for one in each if one.members == MACHINES]
    return {
        "without steps": job.flat_rate,
        "usual": usual,
        "recovery": recovery_s(rates(batches, at, at + USUAL_S[1]), usual),
        "lowest": min(rates(batches, at, at + DIP_S)) / usual,
        "before": min(rates(batches, at - BEFORE_S, at)) * (MACHINES - 1) / MACHINES / usual,
        "gap": longest_gap_s(batches, at, at + DIP_S),
        "gap before": longest_gap_s(batches, at - BEFORE_S, at),
        "agreed": max(noticed),
        "again": asked_bytes(asked) / job.held_bytes[rank],
    }


def compare(folder: Path, packed: Path, room: int, rounds: int) -> Figures:
    """The figures of so many killed machines, of one that is cut off, and of an origin away."""
    with Network(MACHINES) as network, run_origin(folder / "origin8", network.host) as origin:
        (origin.folder / "forebay").symlink_to(packed)
        network.limit(LINK_MBIT)
        scene = Scene(folder / "deaths", network, origin, f"{origin.url}/forebay", room)
        with training(scene, "silent") as job:
            gone = {"refuses": without_origin(job, origin.away()),
                    "hangs": without_origin(job, origin.unreachable())}  # fmt: skip
            silent = death(scene, job, SILENT, silent=True)
        killed = []
        for number in range(rounds):
            with training(scene, f"killed{number}") as job:
                # The first one's process has the store in which the ranks met.
                killed.append(death(scene, job, 3 * number % MACHINES, silent=False))
    rows = {f"killed {number}": one for number, one in enumerate(killed, 1)} | {"silent": silent}
    columns = {"without steps": "15.0f", "usual": "8.0f", "recovery": "10.1f", "lowest": "9.2f",
               "before": "8.2f", "gap": "7.2f", "gap before": "12.2f", "agreed": "8.1f",
               "again": "8.2f"}  # fmt: skip
    shown = {name: [one[column] for column in columns] for name, one in rows.items()}
    show_table("dies", columns, shown, width=12)
    show_table("away", {"gap before": "12.2f", "gap": "7.2f", "rate": "7.2f"}, gone, width=12)
    return figures_of(killed, silent, gone)


def figures_of(killed: Sequence[Figures], silent: Figures, gone: dict[str, list[float]]) -> Figures:
    """The figures for programs."""
    made: Figures = {"recovery_silent_s": silent["recovery"]}
    for name, figure in (("recovery_s", "recovery"), ("again_share", "again")):
        made[name] = statistics.median(one[figure] for one in killed)
        made[f"{name}_max"] = max(one[figure] for one in killed)
    made["dies_longest_gap_s"] = max(one["gap"] for one in killed)
    for name, (before, during, rate) in gone.items():
        made[f"away_{name}_longest_gap_s"] = during
        made[f"away_{name}_longest_gap_before_s"] = before
        made[f"away_{name}_rate_x"] = rate
    return made
