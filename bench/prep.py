"""How much a prep server speeds up a host: one core for the host, a part of another for the server.

Batches come as files in memory that both see, or over TCP with --sent.

The host makes batches of 256 random resized crops of 224 pixels from PHOTOS, each taken several
times. The prep server's core is limited by a control group's quota. The consumer waits for a fixed
time after each batch, or trains a small network. Every batch's checksum must be the same as without
the prep server. Needs root, cgroup v1 and two cores.

DDLP's policies MTE and WRR, whose batches come in another order (docs/prep.md), are measured as
well. The policies of a point take turns within each round.

a, b: seconds for a batch of the host and of the prep server's core, measured right before each
point, while both go through epochs of their own, because each may slow the other down. bound: the
shortest possible time of an epoch of N batches, max(N / (1/a + 1/b), N g), where g is the
consumer's time for a batch
of_bound_QUOTA_G: seconds of an epoch over the bound; QUOTA: the prep server's part of a core; G:
  the consumer's time over the host's
gain_QUOTA_G: how much faster than the host alone; at most a/b
cpu_saving_QUOTA_G: by how much the host's CPU seconds fall, over all epochs but the first, which
  touches memory for the first time; share_QUOTA_G: the prep server's share of these batches
energy_saving_QUOTA_G: by how much energy falls in a model: a busy core of the host takes 10 W, and
  the prep server has a slow core of 1 W, like a storage device's, that is busy 1/QUOTA times as
  long
memory_saving_QUOTA_G: by how much the host's memory traffic falls in a model: for a batch that it
  makes, stored bytes are copied once and pixels are written; for a batch that comes as a file,
  pixels are copied. A copy reads and writes; all other data stays in caches
receive_QUOTA_G: about how many CPU seconds the host takes to receive a batch
of_bound_POLICY_QUOTA_G, gain_POLICY_QUOTA_G: these figures with the policy mte or wrr
mte_of_form_QUOTA_G: seconds of MTE's epoch over its own closed form, N a b / (a + b - g), in which
  sending is hidden by the consumer's time g (src/prep/policy/tail_policies.cc). If g is at least
  a, the form is N g
vs_best_policy_QUOTA_G: seconds of the better of MTE and WRR over ours
dali_…: with --dali, from a simulator (prep_pacing.cc) whose host takes DALI's measured seconds for
  a batch, the prep server four times as long, and the consumer three tenths of it. DALI's batches
  are normalised numbers
All are medians of the rounds. --full: longer epochs and all consumers; it reuses the points of the
same photographs in bench/results/prep.jsonl. Delete this file when the measured code has changed.
usage: ./dev bench prep PHOTOS [--batches N] [--quotas Q …] [--paces G …] [--rounds N] [--sent]
           [--dali] [--full]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import forebay
from lib.comparison import report, show_table
from lib.peers_environment import install_peers
from lib.prep_points import BATCH, Point, Points, figures_of
from lib.program import ROOT
from lib.side_process import SideProcess
from lib.sides.side import Data
from lib.sync_job import control_group

PERIOD_US = 20_000  # short, so that a quota's pauses are short beside a batch
HOST_CORE, NEAR_CORE = 0, 1
WARM_UP = 5  # batches of the prep server's core before its quota begins
FOREBAY = os.environ["FOREBAY_BIN"]
PACING = ROOT / "build/release/bench/bench_prep_pacing"
PROGRAM = Path(__file__).parent / "lib/prep_program.py"
TIMES = ("a", "b", "alone", "ours", "mte", "wrr")  # of a Point; a and b are for a batch
SETTINGS: dict[str, Any] = {
    "batch": BATCH, "servers": [], "policy": "interleave", "seconds": 0, "epochs": 3, "tells": False
}  # fmt: skip
FULL_PACES = ["net", "0", "0.25", "0.5", "1", "2", "4"]
RESULTS = ROOT / "bench/results/prep.jsonl"
POLICIES = {"ours": "interleave", "mte": "mte", "wrr": "wrr"}


def pack(photos: Path, batches: int, folder: Path) -> Path:
    """Packs photographs for so many batches, each photograph under several names."""
    files = sorted(path for path in photos.rglob("*") if path.is_file())
    source = folder / "photos"
    for number in range(batches * BATCH):
        name = source / f"{number % 10}" / f"{number}.jpg"
        name.parent.mkdir(parents=True, exist_ok=True)
        name.symlink_to(files[number % len(files)].resolve())
    out = folder / "photos.forebay"
    subprocess.run([FOREBAY, "pack", source, out], check=True, stdout=subprocess.DEVNULL)
    return out


def limit(group: Path, quota: float) -> None:
    """Limits a control group to a part of a core."""
    (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
    (group / "cpu.cfs_quota_us").write_text(str(int(PERIOD_US * quota)))


def inside(group: Path | None, core: int) -> list[str]:
    """The beginning of a command that runs on a core, in a control group."""
    enter = "" if group is None else f"echo $$ > {group}/cgroup.procs && "
    return ["taskset", "-c", str(core), "sh", "-c", f'{enter}exec "$@"', "sh"]


def command_of(settings: dict[str, Any], group: Path | None, core: int) -> list[str]:
    """The command of a host."""
    return [*inside(group, core), sys.executable, str(PROGRAM), json.dumps(settings)]


def run(settings: dict[str, Any]) -> Any:
    """Runs a host to its end."""
    command = command_of(settings, None, HOST_CORE)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure_rates(settings: dict[str, Any], quota: float) -> tuple[float, float]:
    """The host's and the prep server's seconds for a batch, while both are at work."""
    endless = {**settings, "epochs": 1_000_000, "tells": True}
    with control_group() as group:
        command = command_of(endless, group, NEAR_CORE)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as near:
            assert near.stdout is not None
            for _ in range(WARM_UP):
                near.stdout.readline()
            limit(group, quota)
            host = run(settings)
            near.terminate()
            times = [float(line) for line in near.stdout if line.endswith("\n")]
    first, last = host["epochs"][1], host["epochs"][-1]
    begin, end = first["began"], last["began"] + last["seconds"]
    times = [time for time in times if begin <= time <= end]
    a = (end - begin) / (host["batches"] * (len(host["epochs"]) - 1))
    return a, (times[-1] - times[0]) / (len(times) - 1)


def cpu_seconds(process: int) -> float:
    """The CPU time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def prep_server(data: Path, group: Path, is_sent: bool) -> Iterator[tuple[str, int]]:
    """Runs a prep server in a control group; gives its URL and its process's number."""
    command = [*inside(group, NEAR_CORE), FOREBAY, "prep", str(data), "--serve"]
    words = ["--listen", "127.0.0.1:0", "--threads", "1"]
    # Room for all batches that MTE keeps.
    words += [] if is_sent else ["--folder", str(data.parent), "--folder-bytes", "5GB"]
    words += ["--processes", "1"]
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.stdout.readline().split()[-1], process.pid
        finally:
            process.terminate()


def best(result: Any) -> Any:
    """The fastest epoch after the first."""
    return min(result["epochs"][1:], key=lambda epoch: epoch["seconds"])


def check_same(result: Any, alone: Any) -> None:
    """Every batch must be the same as without the prep server; policies may change the order."""
    in_order = result["policy"] == "interleave"
    for number, (one, other) in enumerate(zip(result["epochs"], alone["epochs"], strict=True)):
        sums, expected = one["sums"], other["sums"]
        if sums != expected if in_order else sorted(sums) != sorted(expected):
            sys.exit(f"prep: batches of epoch {number} differ from those of the host alone")


def measure_point(
    data: Path, quota: float, pace: str, first: int, *, epochs: int, is_sent: bool
) -> Point:
    """Measures the host alone, then with each policy; `first` rotates the policies' order."""
    settings = {**SETTINGS, "data": str(data), "epochs": epochs}
    a, b = measure_rates(settings, quota)
    seconds = None if pace == "net" else float(pace) * a
    alone = run({**settings, "seconds": seconds})
    results = {}
    names = list(POLICIES)
    for name in names[first % 3 :] + names[: first % 3]:
        with control_group() as group, prep_server(data, group, is_sent) as (url, process):
            begin = cpu_seconds(process)
            limit(group, quota)
            with_server = {"seconds": seconds, "servers": [url], "policy": POLICIES[name]}
            results[name] = run({**settings, **with_server})
            results[name]["near_cpu"] = cpu_seconds(process) - begin
        check_same(results[name], alone)
    ours = results["ours"]
    mte, wrr = best(results["mte"])["seconds"], best(results["wrr"])["seconds"]
    made = ours["epochs"][-1]["near"]
    received = made - ours["epochs"][0]["near"]
    late = sum(server["late"] for server in ours["servers"])
    measured = ours["batches"] * (len(ours["epochs"]) - 1)
    near_cpu = ours["near_cpu"] * received / max(made, 1)
    if not is_sent and any(server["files"] == 0 < server["batches"] for server in ours["servers"]):
        sys.exit("prep: batches were sent, because /dev/shm has no room for files; use --sent")
    stored = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
    alone_cpu, ours_cpu = (
        sum(epoch["cpu"] for epoch in one["epochs"][1:]) for one in (alone, ours)
    )
    return Point(
        a, b, best(alone)["seconds"], best(ours)["seconds"], mte, wrr, alone_cpu, ours_cpu,
        near_cpu, ours["batches"], measured, received / measured, late, stored / ours["batches"],
    )  # fmt: skip


def with_dali(photos: Path, root: Path) -> dict[str, float]:
    """The policies' gains in a simulator whose host is as fast as DALI on one core."""
    install_peers()
    Data(root).fill(photos, 4)
    side = SideProcess("dali", "photos", root, {HOST_CORE})
    try:
        side.turn()
        took = side.turn()
    finally:
        side.end()
    a = BATCH * took["wall_seconds"] / took["images"]
    done = subprocess.run(
        [PACING, str(a), str(4 * a), str(0.3 * a)], stdout=subprocess.PIPE, text=True, check=True
    )
    found = {"dali_a": a}
    for policy, values in json.loads(done.stdout).items():
        found |= {f"dali_{policy}_{name}": value for name, value in values.items()}
    return found


def middle(values: list[float | None]) -> float | None:
    """The median of the measured values; None if there are none."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def measure(
    points: Points, quotas: Sequence[float], paces: Sequence[str], rounds: int, is_file: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Measures all points; gives the table's rows and the figures."""
    found: dict[tuple[float, str], list[Point]] = {}
    for number in range(rounds):
        for quota in quotas:
            for pace in paces:
                found.setdefault((quota, pace), []).append(points.of(quota, pace, number))
                print(".", end="", flush=True)
    print()
    rows: dict[str, Any] = {}
    figures: dict[str, Any] = {}
    for (quota, pace), of_rounds in found.items():
        all_figures = [figures_of(point, quota, pace, is_file) for point in of_rounds]
        middles = {name: middle([one[name] for one in all_figures]) for name in all_figures[0]}
        figures |= {f"{name}_{quota}_{pace}": value for name, value in middles.items()}
        seconds = [statistics.median(getattr(p, name) for p in of_rounds) for name in TIMES]
        late = sum(point.late for point in of_rounds) / len(of_rounds)
        rows[f"{quota} of a core, g = {pace}"] = [
            *seconds, *(value or 0 for value in middles.values()), late
        ]  # fmt: skip
    return rows, figures


def main(words: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="./dev bench prep", description=__doc__)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--batches", type=int)
    parser.add_argument("--quotas", type=float, nargs="+", default=[0.1, 0.25, 0.5, 1.0])
    parser.add_argument("--paces", nargs="+")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--sent", action="store_true")
    parser.add_argument("--dali", action="store_true")
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args(words)
    full = arguments.full
    if full and (arguments.sent or arguments.batches):
        parser.error("--full has files, and epochs of its own length")
    batches = arguments.batches or (90 if full else 50)
    paces = arguments.paces or (FULL_PACES if full else ["net", "0", "0.5", "1", "2"])

    def measure_one(quota: float, pace: str, number: int) -> Point:
        is_fast = pace != "net" and float(pace) < 1
        return measure_point(
            data, quota, pace, number, epochs=4 if full and is_fast else 3, is_sent=arguments.sent
        )

    with tempfile.TemporaryDirectory(prefix="forebay-prep-", dir="/dev/shm") as folder:
        data = pack(arguments.photos, batches, Path(folder))
        of_dali = with_dali(arguments.photos, Path(folder) / "dali") if arguments.dali else {}
        points = Points(RESULTS if full else None, forebay.Dataset(data).fingerprint, measure_one)
        is_file = not arguments.sent
        rows, figures = measure(points, arguments.quotas, paces, arguments.rounds, is_file)
        figures |= of_dali
    show_table(
        "prep server, consumer",
        {
            "a s": "8.3f", "b s": "8.3f", "alone s": "9.2f", "ours s": "8.2f", "mte s": "8.2f",
            "wrr s": "8.2f", "of bound": "10.3f", "gain": "8.3f", "mte/bound": "11.3f",
            "wrr/bound": "11.3f", "mte gain": "10.3f", "wrr gain": "10.3f", "mte/form": "10.3f",
            "best/ours": "11.3f", "share": "8.3f", "CPU saved": "11.3f",
            "energy": "8.3f", "memory": "8.3f",
            "receive s": "11.4f", "late": "6.1f",
        },
        rows,
        width=26,
    )  # fmt: skip
    report(figures)


if __name__ == "__main__":
    main()
