"""Loading from nginx and from Ceph's S3 gateway, over links of several rates, beside other loaders.

Sides make batches of 64 random resized crops of 224 pixels from PHOTOS, each taken several times
(docs/benchmarks.md says what is counted). Servers and sides run on this machine; a link is a pair
of network interfaces with a limited rate (tests/python/servers/links.py), whose bytes are counted
at the side's end with all headers. `forebay` reads the parts of images that crops need,
`forebay_whole` reads whole images. Needs root.

Forebay's parts of images against its whole images (RATE: 50, 200, 1000 Mbit/s; `_s3` is Ceph),
in epochs after one that has read the indexes:
payload_saving, payload_saving_s3: the share of the bytes of images that is not asked for
wire_saving, wire_saving_s3: the share of the bytes on the interface that is saved
first_wire_saving…: the same of the first epoch, which reads the indexes
roi_RATE_x, roi_s3_RATE_x: images per second, over those with whole images
goodput, goodput_s3: bytes of whole images per second over the rate of the 200 Mbit/s link
local_x, local_s3_x: images per CPU second from a server on loopback, over those from the disk
Against others, from the server that suits each, with an epoch that begins with opening:
vs_PEER_200_x: images per second over 200 Mbit/s, over the peer's
vs_PEER_cpu_x: images per CPU second of all the side's processes without a limit, over the peer's
pack_s3_x: how long `forebay pack` takes from a folder to a folder, over S3 to S3
first_batch_s3_PEER_x: how long the peer takes from opening to its first batch, from S3 over 200
  Mbit/s, with 1.28 million samples, over Forebay, which keeps nothing from before; a peer is
  stopped after FIRST_SECONDS_MAX
first_batch_s3_s, first_batch_s3_again_s: seconds that Forebay takes, at first and with the indexes
  that it kept; first_batch_s3_mb: what its interface received until then
usage: ./dev bench remote PHOTOS [--rounds N] [--only PART …]
"""

import argparse
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from lib.comparison import Comparison, DisagreementError, Side, report, show_table
from lib.peer_metadata import EXTEND, run_alias
from lib.peers_environment import install_peers
from lib.program import ROOT, forebay
from lib.remote_process import RemoteProcess
from lib.remote_servers import Link, Servers, run_servers
from lib.side_process import run_once
from lib.sides.side import Data

LARGE_METADATA = ROOT / "build/release/bench/bench_large_metadata"
RATES = (200, 50, 1000)  # Mbit/s
COPIES = 4  # of each photograph, in the smaller set
LARGE_COPIES = 12  # so that peers read for longer than they need to begin
FIRST_SECONDS_MAX = 120
PEERS = {"webdataset": "nginx", "streaming": "ceph", "litdata": "ceph"}
OURS = {
    "roi": ("forebay", "nginx"),
    "whole": ("forebay_whole", "nginx"),
    "roi_s3": ("forebay", "ceph"),
    "whole_s3": ("forebay_whole", "ceph"),
}
PARTS = ("links", "peers", "cpu", "pack", "first")
SAMPLES = 1_281_167  # of ImageNet
Epochs = list[dict[str, Any]]
Figures = dict[str, float]


class Scene(NamedTuple):
    """What all parts of the benchmark use."""

    root: Path  # files of all kinds
    small: Data
    large: Data
    link: Link
    servers: Servers
    peers: tuple[str, ...]  # those that could be installed and could pack
    rounds: int


def prepare(photos: Path, root: Path, copies: int) -> Data:
    """Copies the photographs into a folder of their own below `root`, each several times."""
    data = Data(root)
    data.fill(photos, copies)
    return data


def pack_all(large: Data) -> Comparison:
    """Packs the larger set by every side; those that cannot are left out and said."""
    packing = Comparison("remote", ("forebay", *PEERS))
    packing.each(lambda name: run_once(name, "photos", large.root, {0, 1}, "pack"))
    return packing


def open_side(
    scene: Scene, name: str, side: str, server: str, *, limited: bool, epochs: tuple[int, int]
) -> RemoteProcess:
    """Starts a side's process; `epochs`: how many warm it up, and how many it is for."""
    stored = side.removesuffix("_whole")
    data = scene.small if epochs[0] else scene.large
    url = str(data.of(stored))
    if server != "disk":
        url = scene.servers.url(server, f"{data.root.name}/{stored}")
    if side == "webdataset":
        shards = sorted(data.of(stored).iterdir())
        url += f"/{{{shards[0].stem}..{shards[-1].stem}}}.tar"
    link = scene.link if limited else None
    return RemoteProcess(name, side, url, scene.root, link, scene.servers.variables(), epochs)


def check(comparison: Comparison, reference: str) -> None:
    """Leaves out peers unless they make like pixels in an epoch; Forebay's must be the same."""

    def look(name: str) -> dict[str, Any]:
        return comparison.sides[name].run(1, check=True)[0]  # type: ignore[attr-defined]

    seen = comparison.each(look)
    expected = seen[reference]

    def agree(name: str) -> None:
        one = seen[name]
        if one["images"] != expected["images"]:
            raise DisagreementError(f"{one['images']} images instead of {expected['images']}")
        if name not in PEERS and one["hash"] != expected["hash"]:
            raise DisagreementError(f"other pixels than those of {reference}")
        comparison.sides[name].check(*(abs(one[key] - expected[key]) for key in ("mean", "std")))

    comparison.each(agree)


def warm(turns: list[Epochs]) -> Epochs:
    """The epochs after the first of each turn, which may be its only one."""
    return [epoch for turn in turns for epoch in (turn[1:] or turn)]


def rate(epochs: Epochs, seconds: str) -> float:
    """Images per second of this kind, the median of the epochs."""
    return statistics.median(epoch["images"] / epoch[seconds] for epoch in epochs)


def total(epochs: Epochs, *keys: str) -> float:
    """A sum over epochs."""
    return sum(epoch[key] for epoch in epochs for key in keys)


def show(title: str, taken: Mapping[str, list[Epochs]], mbit: int | None) -> None:
    """Prints a table of what the sides took."""
    rows = {}
    for name, turns in taken.items():
        epochs = warm(turns)
        images = total(epochs, "images")
        row = [rate(epochs, "wall_seconds"), images / total(epochs, "cpu_seconds"),
               statistics.median(turn[0]["first_batch_seconds"] for turn in turns)]  # fmt: skip
        if mbit:
            moved = total(epochs, "received", "sent")
            seconds = total(epochs, "wall_seconds")
            row += [moved / images / 1e3, 100 * moved * 8 / seconds / mbit / 1e6]
        rows[name] = row
    columns = {"/ s": "10.1f", "/ CPU s": "10.0f", "first s": "9.2f"}
    if mbit:
        columns |= {"kB each": "10.1f", "% of link": "11.1f"}
    show_table(title, columns, rows)


def link_figures(taken: Mapping[str, list[Epochs]], mbit: int) -> Figures:
    """Forebay's parts of images against whole images over a link."""
    figures: Figures = {}
    for end in ("", "_s3"):
        roi, whole = warm(taken[f"roi{end}"]), warm(taken[f"whole{end}"])
        figures[f"roi{end}_{mbit}_x"] = rate(roi, "wall_seconds") / rate(whole, "wall_seconds")
        if mbit != 200:
            continue
        first = {key: [turn[0] for turn in taken[key + end]] for key in ("roi", "whole")}

        def each(epochs: Epochs, *keys: str) -> float:
            return total(epochs, *keys) / total(epochs, "images")

        figures[f"payload_saving{end}"] = 1 - each(roi, "bytes_read") / each(whole, "bytes_read")
        wires = [each(epochs, "received", "sent") for epochs in (roi, whole, *first.values())]
        figures[f"wire_saving{end}"] = 1 - wires[0] / wires[1]
        figures[f"first_wire_saving{end}"] = 1 - wires[2] / wires[3]
        figures[f"goodput{end}"] = statistics.median(
            epoch["bytes_read"] * 8 / epoch["wall_seconds"] / mbit / 1e6 for epoch in whole
        )
    return figures


def links(scene: Scene) -> Figures:
    """Forebay over links."""
    figures: Figures = {}
    comparison = Comparison("remote", OURS, needed=OURS)
    try:
        comparison.open(
            lambda name: open_side(scene, name, *OURS[name], limited=True, epochs=(1, 2))
        )
        scene.link.limit(10_000)
        check(comparison, "whole")
        for mbit in RATES:
            scene.link.limit(mbit)
            taken = comparison.rounds(1 if mbit < 200 else scene.rounds)
            show(f"{mbit} Mbit/s", taken, mbit)
            figures |= link_figures(taken, mbit)
    finally:
        comparison.end()
    return figures


def compare_peers(scene: Scene, *, limited: bool) -> dict[str, list[Epochs]]:
    """Epochs of Forebay and its peers, each from its opening on."""
    sides = {name: OURS[name] for name in ("roi", "roi_s3")}
    sides |= {name: (name, PEERS[name]) for name in scene.peers}
    comparison = Comparison("remote", sides, needed=("roi", "roi_s3"))
    try:
        comparison.open(
            lambda name: open_side(scene, name, *sides[name], limited=limited, epochs=(0, 1))
        )
        if limited:
            scene.link.limit(10_000)
            check(comparison, "roi")
            scene.link.limit(200)
        return comparison.rounds(scene.rounds)
    finally:
        comparison.end()


def over_peers(taken: Mapping[str, list[Epochs]], what: str, seconds: str) -> Figures:
    """Forebay's images per second of this kind over each peer's, from the same server."""
    rates = {name: rate(warm(turns), seconds) for name, turns in taken.items()}
    return {
        f"vs_{peer}_{what}_x": rates["roi_s3" if PEERS[peer] == "ceph" else "roi"] / rates[peer]
        for peer in set(rates) & set(PEERS)
    }


def peers(scene: Scene) -> Figures:
    """Forebay and its peers over a link."""
    taken = compare_peers(scene, limited=True)
    show("peers, 200 Mbit/s", taken, 200)
    return over_peers(taken, "200", "wall_seconds")


def cpu(scene: Scene) -> Figures:
    """CPU time without a limit, against the local disk and against peers."""
    sides = {"disk": ("forebay", "disk"), "roi": OURS["roi"], "roi_s3": OURS["roi_s3"]}
    comparison = Comparison("remote", sides, needed=sides)
    try:
        comparison.open(
            lambda name: open_side(scene, name, *sides[name], limited=False, epochs=(1, 4))
        )
        check(comparison, "disk")
        taken = comparison.rounds(scene.rounds)
    finally:
        comparison.end()
    show("no limit", taken, None)
    rates = {name: rate(warm(turns), "cpu_seconds") for name, turns in taken.items()}
    taken = compare_peers(scene, limited=False)
    show("peers, no limit", taken, None)
    figures = {f"local{end}_x": rates[f"roi{end}"] / rates["disk"] for end in ("", "_s3")}
    return figures | over_peers(taken, "cpu", "cpu_seconds")


def pack(scene: Scene) -> Figures:
    """How long packing takes from a folder to a folder, and from S3 to S3, in turns."""
    folder = scene.small.folder
    scene.servers.s3.upload(folder, scene.servers.bucket, "raw/")
    bucket = f"s3://{scene.servers.bucket}"
    took: dict[str, list[float]] = {"disk": [], "s3": []}
    for number in range(scene.rounds):
        target = scene.root / f"packed_{number}"
        for name, source, out in (
            ("disk", folder, target),
            ("s3", f"{bucket}/raw", f"{bucket}/packed_{number}"),
        ):
            start = time.monotonic()
            forebay("pack", source, out, variables=scene.servers.variables())
            took[name].append(time.monotonic() - start)
        # HEAD names the snapshot by its hash, and the snapshot names the chunks by theirs.
        head = scene.servers.s3.request("GET", f"/{scene.servers.bucket}/packed_{number}/HEAD").body
        if head != (target / "HEAD").read_bytes():
            sys.exit("bench remote: packing from S3 to S3 made another dataset")
        shutil.rmtree(target)
    rows = {name: [statistics.median(times)] for name, times in took.items()}
    show_table("packing", {"s": "10.2f"}, rows)
    return {"pack_s3_x": rows["disk"][0] / rows["s3"][0]}


def publish_large(scene: Scene) -> None:
    """Makes datasets of SAMPLES samples, most of which share their bytes, and publishes them."""
    data = scene.large
    # The chunks that the loader reads at the same time must be different ones.
    forebay("pack", scene.small.folder, scene.root / "small_chunks", "--chunk-bytes", 16 << 20)
    made = [LARGE_METADATA, scene.root / "small_chunks", data.of("forebay_large"), SAMPLES]
    subprocess.run([str(word) for word in made], check=True, stdout=subprocess.DEVNULL)
    for name in scene.peers:
        if name in EXTEND:
            EXTEND[name](data.of(name), data.of(f"{name}_large"), SAMPLES)
    for folder in data.root.glob("*_large"):
        scene.servers.publish(folder.name, folder)


class FirstBatch(Side):
    """A side that is started anew for each turn, and ends after its first batch."""

    def __init__(self, scene: Scene, name: str, variables: Mapping[str, str]) -> None:
        self.scene, self.name, self.variables = scene, name, variables

    def turn(self) -> dict[str, Any]:
        """RemoteProcess.first_batch(); a peer that takes too long counts with FIRST_SECONDS_MAX."""
        side = self.name.removesuffix("_again")
        kept = self.scene.root / "kept_again"
        if side == self.name:
            shutil.rmtree(kept, ignore_errors=True)
        process = RemoteProcess(
            self.name,
            side,
            self.scene.servers.url("ceph", f"{side}_large"),
            self.scene.root,
            self.scene.link,
            {**self.variables, "FOREBAY_INDEX_CACHE": str(kept)},
        )
        try:
            return process.first_batch(FIRST_SECONDS_MAX)
        finally:
            process.end()


def first(scene: Scene) -> Figures:
    """The time to the first batch of very many samples from S3."""
    publish_large(scene)
    folder = scene.root / "alias"
    folder.mkdir()
    scene.link.limit(200)
    names = ["forebay", "forebay_again", *(name for name in scene.peers if name in EXTEND)]
    comparison = Comparison("remote", names)
    with run_alias(folder, scene.link.host, scene.servers) as alias:
        ends = {"AWS_ENDPOINT_URL": alias.endpoint, "S3_ENDPOINT_URL": alias.endpoint}
        variables = scene.servers.variables() | ends
        comparison.open(lambda name: FirstBatch(scene, name, variables))
        taken = comparison.rounds(1)
        # The peers take minutes.
        comparison.names = ["forebay", "forebay_again"]
        for name, turns in comparison.rounds(scene.rounds).items():
            taken[name] += turns
    rows = {
        name: [
            statistics.median(turn[key] for turn in turns)
            for key in ("first_batch_seconds", "received")
        ]
        for name, turns in taken.items()
    }
    show_table("first batch", {"s": "10.2f", "bytes": "12.0f"}, rows)
    figures = {
        "first_batch_s3_s": rows["forebay"][0],
        "first_batch_s3_mb": rows["forebay"][1] / 1e6,
        "first_batch_s3_again_s": rows["forebay_again"][0],
    }
    for name in set(rows) & set(EXTEND):
        figures[f"first_batch_s3_{name}_x"] = rows[name][0] / rows["forebay"][0]
    return figures


def main() -> None:
    """Prints tables and, last, one JSON object."""
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("usage: ")[1])
    parser.add_argument("photos", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the context is left
    install_peers()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        small = prepare(given.photos, root / "small", COPIES)
        large = prepare(given.photos, root / "large", LARGE_COPIES)
        packing = pack_all(large)
        forebay("pack", small.folder, small.of("forebay"))
        link = stack.enter_context(Link())
        servers = stack.enter_context(run_servers(root / "servers", link.host))
        for data in (small, large):
            for name in packing.names:
                if data.of(name).exists():
                    servers.publish(f"{data.root.name}/{name}", data.of(name))
        able = tuple(name for name in packing.names if name in PEERS)
        scene = Scene(root, small, large, link, servers, able, given.rounds)
        parts = {"links": links, "peers": peers, "cpu": cpu, "pack": pack, "first": first}
        figures: Figures = {}
        for name in given.only:
            figures |= parts[name](scene)
        report({"photos": len(small.files()), **figures, "not_compared": packing.missing})


if __name__ == "__main__":
    main()
