"""The cache that the machines of a job hold together, beside local disks and other loaders.

A machine is a process in a network namespace of its own, with a link of its own to the others and
to the servers (tests/python/servers/links.py). Sides make batches of 64 random resized crops of 224
pixels from PHOTOS, each taken several times (docs/benchmarks.md says what is counted). Needs root.

fits: four machines, and a cache that has room for the whole set
origin_bytes_1_KIND: bytes from the origin in the first epoch, over the distinct ones that the ranks
  need; KIND: `whole` images or `crops`
origin_bytes_2_KIND: the same for the second epoch: 0 for whole images; crops need other bytes
origin_bytes_both_KIND: both epochs' bytes from the origin, over the distinct ones of both
…_s3: from Ceph's S3 gateway instead of nginx, for whole images and caches on disks
counted_KIND: what the ranks count as coming from the origin, over what its log has
vs_local_KIND_x: images per second of an epoch after the first, over those of the same ranks which
  have the set on a local disk each; vs_local_KIND_cpu_x: the same per CPU second; `memory` instead
  of `disk` in names: what is held is in memory
server: one core that serves ranges of a file, beside nginx, by HTTP and by TLS
serve_vs_nginx_SIZE_TIER_x: requests per second over nginx's; SIZE: one range of 16 or 110 kB or
  4 MiB, or eight ranges in a request; TIER: the file in the page cache (disk) or in a tmpfs;
  …_tls_x: by TLS; …_cpu_x: the same per CPU second of the server
order: whole images, and a cache of half the set; what is fetched in epochs 2 to 4
vs_belady: bytes from the origin, over the least that is possible for the same requests
vs_lru_x, vs_own_shares_x: what a cache would fetch that drops what was not used for the longest
  time, or of which each machine has an equal part alone, over what was fetched
SHARE_…: the same for a simulated cache that keeps what came first, with this share of the set
dies: eight machines that train at half of what they reach, and a cache that holds the whole set
recovery_s: from a kill -9 of one machine until the others are back at 90 % of what they reach
  later on; recovery_s_max: the worst of the rounds; recovery_silent_s: its link is taken away
again_share: bytes that are read again from the origin, over what the dead machine held
away_refuses_longest_gap_s: the longest time in which a rank had no batch while the origin refused
  connections for 10 s; away_hangs_…: while it did not answer; …_gap_before_s: in the 10 s before
peers: four machines, three epochs over 200 Mbit/s from opening on
vs_PEER_epochs_x: how long the peer takes, with a folder of its own on each machine, over Forebay
PART_seconds: how long a part took
--full: the peers take as many turns as the other sides, instead of one
usage: ./dev bench cache PHOTOS [--rounds N] [--only PART …] [--full]
"""

import argparse
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from lib import cache_deaths, cache_peers, cache_policies, serving
from lib.cache_job import Job, total
from lib.comparison import Comparison, DisagreementError, report, show_table
from lib.origin_log import (
    Asked,
    Origin,
    asked_bytes,
    distinct_bytes,
    run_gateway_origin,
    run_origin,
)
from lib.peers_environment import install_peers
from lib.program import forebay
from lib.remote_servers import Network, run_servers
from lib.sides.side import Data

MACHINES = 4
COPIES = 12  # of each photograph
LINK_MBIT = 10_000  # 1000 would be less than what four local disks give the same ranks
REGIONS = {"whole": "never", "crops": "auto"}
SHARES = (0.1, 0.25, 0.5, 0.75)  # of the set, that simulated caches have room for
EPOCHS = 4  # of the part `order`
PARTS = ("fits", "server", "order", "dies", "peers")
Figures = dict[str, Any]
Epoch = dict[str, Any]


class Scene(NamedTuple):
    """What all parts of the benchmark use."""

    root: Path  # files of all kinds
    data: Data
    network: Network
    origin: Origin
    rounds: int
    full: bool

    def packed(self) -> Path:
        """The packed set."""
        return self.data.of("forebay")

    def stored_bytes(self) -> int:
        """The bytes of its chunks."""
        return sum(path.stat().st_size for path in self.packed().rglob("*") if path.is_file())

    def job(
        self,
        name: str,
        options: Callable[[int], Mapping[str, Any]],
        variables: Mapping[str, str] | None = None,
    ) -> Job:
        """A job of forebay.Loader on all machines."""
        return Job(name, "forebay", self.network, self.root / "jobs", options, variables or {})


def same_pixels(name: str, epoch: Epoch, expected: Epoch) -> None:
    """Raises DisagreementError unless each rank has the same batches in both epochs."""
    for rank, (one, other) in enumerate(zip(epoch["ranks"], expected["ranks"], strict=True)):
        if one["hash"] != other["hash"]:
            raise DisagreementError(f"{name}: rank {rank} has other pixels")


def needs(scene: Scene, regions: str) -> tuple[list[int], list[Epoch]]:
    """The distinct bytes that one and two epochs of all ranks need, and these epochs' pixels."""
    url = f"{scene.origin.url}/forebay"
    job = scene.job("plain", lambda _: {"path": url, "regions": regions})
    try:
        scene.origin.asked()
        needed, asked, epochs = [], list[Asked](), []
        for _ in range(2):
            epochs.append(job.epoch(check=True))
            asked += scene.origin.asked()[0]
            needed.append(distinct_bytes(asked))
        return needed, epochs
    finally:
        job.end()
        shutil.rmtree(job.folder)


def show_epochs(title: str, taken: Mapping[str, list[Epoch]]) -> dict[str, list[float]]:
    """Prints images per second and per CPU second, the medians of the turns; returns them."""
    rows = {
        name: [
            statistics.median(turn["images"] / turn[key] for turn in turns)
            for key in ("wall_seconds", "cpu_seconds")
        ]
        for name, turns in taken.items()
    }
    show_table(title, {"/ s": "10.0f", "/ CPU s": "10.0f"}, rows)
    return rows


def show_counts(title: str, epochs: Sequence[Epoch]) -> None:
    """Prints what all ranks did with the cache until the end of each of the first epochs."""
    columns = {"origin MB": "cache_origin_bytes", "peers MB": "cache_peer_hit_bytes",
               "disk MB": "cache_disk_hit_bytes", "memory MB": "cache_memory_hit_bytes",
               "refused MB": "cache_refused_bytes"}  # fmt: skip
    counts = {"asked": "cache_peer_requests", "failed": "cache_peer_failures"}
    rows = {
        f"until epoch {number}": [total(epoch, stat) / 1e6 for stat in columns.values()]
        + [total(epoch, stat) for stat in counts.values()]
        for number, epoch in enumerate(epochs, 1)
    }
    forms = dict.fromkeys(columns, "12.1f") | dict.fromkeys(counts, "9.0f")
    show_table(title, forms, rows)


def over_local(taken: Mapping[str, list[Epoch]], side: str, key: str) -> float:
    """Images per second of this kind over those from local disks, the median of the rounds."""
    return statistics.median(
        other[key] / one[key] for one, other in zip(taken[side], taken["local"], strict=True)
    )


def fits_kind(
    scene: Scene,
    kind: str,
    needed: Sequence[int],
    pixels: Sequence[Epoch],
    *,
    ends: Mapping[str, str],
) -> Figures:
    """The part `fits` for whole images or for crops; the rest is what needs() returned."""
    regions, room = REGIONS[kind], 2 * scene.stored_bytes()
    url = f"{scene.origin.url}/forebay"
    options: dict[str, Callable[[int], dict[str, Any]]] = {
        "local": lambda rank: {"path": str(scene.root / f"local{rank}")},
        "disk": lambda _: {"path": url, "disk_bytes": room},
        "memory": lambda _: {"path": url, "memory_bytes": room},
    }
    comparison = Comparison("cache", options, needed=options)
    figures: Figures = {"needed_mb_" + kind: needed[0] / 1e6}
    try:
        comparison.open(
            lambda name: scene.job(name, lambda rank: {"regions": regions, **options[name](rank)})
        )
        for name, job in comparison.sides.items():
            assert isinstance(job, Job)
            scene.origin.asked()
            epochs, logs = [], []
            for expected in pixels:
                epochs.append(job.epoch(check=True))
                same_pixels(name, epochs[-1], expected)
                logs.append(scene.origin.asked())
            if name == "local":
                continue
            first, second = (asked_bytes(asked) for asked, _ in logs)
            figures[f"origin_bytes_1_{kind}{ends[name]}"] = first / needed[0]
            figures[f"origin_bytes_2_{kind}{ends[name]}"] = second / needed[0]
            figures[f"origin_bytes_both_{kind}{ends[name]}"] = (first + second) / needed[1]
            show_counts(f"{kind}, {name}", epochs)
            counted = total(epochs[-1], "cache_origin_bytes")
            figures[f"counted_{kind}{ends[name]}"] = counted / (first + second)
        taken = comparison.rounds(scene.rounds)
    finally:
        comparison.end()
        shutil.rmtree(scene.root / "jobs")
    show_epochs(f"fits, {kind}", taken)
    for name, end in ends.items():
        figures[f"vs_local_{kind}{end}_x"] = over_local(taken, name, "wall_seconds")
        figures[f"vs_local_{kind}{end}_cpu_x"] = over_local(taken, name, "cpu_seconds")
    return figures


def fits_s3(scene: Scene, needed: int, pixels: Sequence[Epoch]) -> Figures:
    """What whole images take from Ceph's gateway, where the cache has room for the whole set."""
    folder, host = scene.root / "fits-s3", scene.network.host
    with run_servers(folder, host) as servers, run_gateway_origin(servers.s3, folder, host) as s3:
        servers.publish("forebay", scene.packed())
        options = {"path": servers.url("ceph", "forebay"), "regions": "never",
                   "disk_bytes": 2 * scene.stored_bytes()}  # fmt: skip
        variables = {**servers.variables(), "AWS_ENDPOINT_URL": s3.endpoint}
        job = scene.job("s3", lambda _: options, variables)
        try:
            epochs, fetched = [], []
            for expected in pixels:
                epochs.append(job.epoch(check=True))
                same_pixels("s3", epochs[-1], expected)
                fetched.append(asked_bytes(s3.asked()))
        finally:
            job.end()
    show_counts("whole, s3", epochs)
    return {
        "origin_bytes_1_whole_s3": fetched[0] / needed,
        "origin_bytes_2_whole_s3": fetched[1] / needed,
        "counted_whole_s3": total(epochs[-1], "cache_origin_bytes") / sum(fetched),
    }


def fits(scene: Scene) -> Figures:
    """A cache that has room for the whole set."""
    for rank in range(MACHINES):
        shutil.copytree(scene.packed(), scene.root / f"local{rank}")
    scene.network.limit(LINK_MBIT)
    figures: Figures = {}
    for kind, regions in REGIONS.items():
        needed, pixels = needs(scene, regions)
        figures |= fits_kind(scene, kind, needed, pixels, ends={"disk": "", "memory": "_memory"})
        if kind == "whole":
            figures |= fits_s3(scene, needed[0], pixels)
    return figures


def server(scene: Scene) -> Figures:
    """One core that serves ranges."""
    return serving.compare(scene.root, scene.rounds, tls=False) | serving.compare(
        scene.root, scene.rounds, tls=True
    )


def asked_in(scene: Scene, name: str, options: Mapping[str, Any]) -> list[list[Asked]]:
    """What the origin is asked for in each epoch of a job that reads whole images."""
    url = f"{scene.origin.url}/forebay"
    job = scene.job(name, lambda _: {"path": url, "regions": "never", **options})
    try:
        scene.origin.asked()
        asked, epochs = [], []
        for _ in range(EPOCHS):
            epochs.append(job.epoch(check=True))
            asked.append(scene.origin.asked()[0])
    finally:
        job.end()
        shutil.rmtree(job.folder)
    if options:
        show_counts(f"order, {name}", epochs)
    return asked


def order(scene: Scene) -> Figures:
    """A set that is twice as large as the cache."""
    scene.network.limit(LINK_MBIT)
    plain = asked_in(scene, "plain", {})
    uses = cache_policies.uses_of([one for asked in plain for one in asked], EPOCHS)
    stored = scene.stored_bytes()
    figures: Figures = {}
    rows = {}
    for share in SHARES:
        fetched = {
            name: sum(policy(uses, round(share * stored))[1:])
            for name, policy in cache_policies.POLICIES.items()
        }
        rows[f"{share:.0%}"] = [count / 1e6 for count in fetched.values()]
        for name in ("belady", "lru", "own shares"):
            ratio = fetched[name] / fetched["keep first"]
            end = "vs_belady" if name == "belady" else f"vs_{name.replace(' ', '_')}_x"
            figures[f"{share}_{end}"] = 1 / ratio if name == "belady" else ratio
    show_table("order, MB", dict.fromkeys(cache_policies.POLICIES, "12.1f"), rows)
    room = {"disk_bytes": stored // 2 // MACHINES}
    fetched_bytes = sum(asked_bytes(asked) for asked in asked_in(scene, "half", room)[1:])
    for name, end in (
        ("belady", "vs_belady"),
        ("lru", "vs_lru_x"),
        ("own shares", "vs_own_shares_x"),
    ):
        least = sum(cache_policies.POLICIES[name](uses, stored // 2)[1:])
        figures[end] = fetched_bytes / least if name == "belady" else least / fetched_bytes
    return figures


def dies(scene: Scene) -> Figures:
    """A machine of eight dies, and the origin is away, while the cache has room for the set."""
    return cache_deaths.compare(scene.root, scene.packed(), 2 * scene.stored_bytes(), scene.rounds)


def peers(scene: Scene) -> Figures:
    """Forebay and its peers over slow links."""
    with run_servers(scene.root / "servers", scene.network.host) as servers:
        peers_scene = cache_peers.Scene(
            scene.root, scene.data, scene.network, scene.origin, servers, 2 * scene.stored_bytes()
        )
        figures, missing = cache_peers.compare(peers_scene, scene.rounds if scene.full else 1)
    return figures | {"not_compared": missing}


def main() -> None:
    """Prints tables and, last, one JSON object."""
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("usage: ")[1])
    parser.add_argument("photos", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--full", action="store_true")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the context is left
    install_peers()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        data = Data(root / "data")
        data.fill(given.photos, COPIES)
        forebay("pack", data.folder, data.of("forebay"))
        network = stack.enter_context(Network(MACHINES))
        origin = stack.enter_context(run_origin(root / "origin", network.host))
        (origin.folder / "forebay").symlink_to(data.of("forebay"))
        scene = Scene(root, data, network, origin, given.rounds, given.full)
        parts = {"fits": fits, "server": server, "order": order, "dies": dies, "peers": peers}
        figures: Figures = {}
        for name in given.only:
            begin = time.monotonic()
            figures |= parts[name](scene)
            figures[f"{name}_seconds"] = time.monotonic() - begin
            print(f"the part {name} took {figures[f'{name}_seconds']:.0f} s", flush=True)
        report({"photos": len(data.files()), **figures})


if __name__ == "__main__":
    main()
