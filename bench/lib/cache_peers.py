"""One job by Forebay with its cache, and by others with a folder of their own on each machine."""

import shutil
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lib.cache_job import Job
from lib.comparison import Comparison, DisagreementError, Side, show_table
from lib.origin_log import Origin
from lib.remote_servers import Network, Servers
from lib.side_process import run_once
from lib.sides.side import Data

EPOCHS = 3
LINK_MBIT = 200
FAST_MBIT = 10_000  # while nothing is timed
PEERS = {"webdataset": "nginx", "streaming": "ceph", "litdata": "ceph"}
OURS = {"forebay": "nginx", "forebay_s3": "ceph"}
# Peers leave out samples that do not go evenly into machines and workers.
LEFT_OUT_MAX = 0.03


class Scene(NamedTuple):
    """What the sides use."""

    root: Path
    data: Data
    network: Network
    origin: Origin
    ceph: Servers
    room: int  # bytes that each machine gives to the cache of Forebay


class Epochs(Side):
    """A side whose turns are jobs that begin with nothing."""

    differences_max = (0.1, 0.1)

    def __init__(self, scene: Scene, name: str) -> None:
        self.scene, self.name = scene, name
        self.looked: dict[str, float] = {}

    def turn(self) -> list[dict[str, Any]]:
        """Job.epoch() of each epoch, from opening on.

        A further epoch, which is not timed, is looked at.
        """
        scene = self.scene
        side = self.name.removesuffix("_s3")
        server = (PEERS | OURS)[self.name]
        url = f"{scene.origin.url}/{side}" if server == "nginx" else scene.ceph.url("ceph", side)
        if side == "webdataset":
            shards = sorted(scene.data.of(side).iterdir())
            url += f"/{{{shards[0].stem}..{shards[-1].stem}}}.tar"
        options = {"path": url, "disk_bytes": scene.room}
        scene.network.limit(LINK_MBIT)
        job = Job(self.name, side, scene.network, scene.root / "jobs", lambda _: options,
                  scene.ceph.variables())  # fmt: skip
        try:
            epochs = [job.epoch() for _ in range(EPOCHS)]
            scene.network.limit(FAST_MBIT)
            self.looked = _looked(job.epoch(check=True))
        finally:
            job.end()
            shutil.rmtree(job.folder)
        return epochs


def _looked(epoch: Mapping[str, Any]) -> dict[str, float]:
    """Images of all ranks, and the mean of what was seen of their numbers."""
    ranks = epoch["ranks"]
    means = {key: statistics.fmean(rank[key] for rank in ranks) for key in ("mean", "std")}
    return {"images": epoch["images"], **means}


def pack(scene: Scene) -> dict[str, str]:
    """Packs by every peer and publishes what all stored; returns why some are not compared."""
    packing = Comparison("cache", PEERS, needed=())
    packing.each(lambda name: run_once(name, "photos", scene.data.root, {0, 1}, "pack"))
    for name in ("forebay", *packing.names):
        if {**OURS, **PEERS}[name] == "ceph" or name == "forebay":
            scene.ceph.publish(name, scene.data.of(name))
        if not (place := scene.origin.folder / name).exists():
            place.symlink_to(scene.data.of(name))
    return packing.missing


def compare(scene: Scene, rounds: int) -> tuple[dict[str, float], dict[str, str]]:
    """The figures, and why some peers are not compared."""
    missing = pack(scene)
    names = [*OURS, *(name for name in PEERS if name not in missing)]
    comparison = Comparison("cache", names, needed=OURS)
    comparison.open(lambda name: Epochs(scene, name))
    taken = comparison.rounds(rounds)

    def agree(name: str) -> None:
        one, expected = (comparison.sides[side].looked for side in (name, "forebay"))  # type: ignore[attr-defined]
        if not 1 - LEFT_OUT_MAX <= one["images"] / expected["images"] <= 1 + LEFT_OUT_MAX:
            raise DisagreementError(f"{one['images']} images instead of {expected['images']}")
        comparison.sides[name].check(*(abs(one[key] - expected[key]) for key in ("mean", "std")))

    comparison.each(agree)
    rows, seconds = {}, {}
    for name in comparison.names:
        each = [
            statistics.median(turn[epoch]["wall_seconds"] for turn in taken[name])
            for epoch in range(EPOCHS)
        ]
        cpu = statistics.median(sum(e["cpu_seconds"] for e in turn) for turn in taken[name])
        seconds[name] = sum(each)
        rows[name] = [seconds[name], *each, cpu]
    columns = {"s": "9.1f", **{f"epoch {n + 1}": "10.1f" for n in range(EPOCHS)}, "CPU s": "9.1f"}
    show_table(f"{EPOCHS} epochs, {LINK_MBIT} Mbit/s", columns, rows, width=26)
    figures = {
        f"vs_{peer}_epochs_x": seconds[peer]
        / seconds["forebay_s3" if PEERS[peer] == "ceph" else "forebay"]
        for peer in comparison.names
        if peer in PEERS
    }
    return figures, missing | comparison.missing
