"""Two ends of one epoch: a host of one core, and a near side with a part of another core.

Batches come as files in memory that both see, or over TCP with --sent.

The host makes batches of 256 random resized crops of 224 pixels from PHOTOS, each taken several
times. The near side's core is limited by a control group's quota. The consumer waits for a fixed
time after each batch, or trains a small network. Every batch's checksum must be that of the host
alone. Needs root, cgroup v1 and two cores.

The same is measured with DDLP's policies, whose batches come in another order (docs/prep.md): MTE
and WRR. The policies of a point take turns within each round.

a, b: seconds that the host and the near side's core take for a batch, measured right before each
point: both go through epochs of their own at the same time, as what one does may make the other
slower. bound: the time of an epoch of N batches if nothing else took any,
max(N / (1/a + 1/b), N g), where g is what the consumer takes
of_bound_QUOTA_G: seconds of an epoch over the bound; QUOTA: the near side's part of a core; G: the
  consumer's time over the host's
gain_QUOTA_G: how much faster than the host alone, which is a bound's gain of a/b at most
cpu_saving_QUOTA_G: by how much the host's CPU seconds of all epochs but the first fall, in which
  memory is touched for the first time; share_QUOTA_G: the near side's batches of these
energy_saving_QUOTA_G: by how much energy falls in a model: a host's busy core takes 10 W, and the
  near side's is a slow one of 1 W, such as a storage device's, that is busy 1/QUOTA times as long
memory_saving_QUOTA_G: by how much the host's memory traffic falls in a model: for a batch that it
  makes, stored bytes are copied once and pixels are written; of one that comes as a file, pixels
  are copied. A copy reads and writes; what lies between stays in caches
receive_QUOTA_G: CPU seconds that the host takes for a batch that it receives, about
of_bound_POLICY_QUOTA_G, gain_POLICY_QUOTA_G: the same with the policy mte or wrr
mte_of_form_QUOTA_G: seconds of MTE's epoch over its own closed form, N a b / (a + b - g), where g
  is what the consumer takes: sending is hidden behind it (src/plan/two_ended.cc). Where it takes as
  long as a, the form is N g
vs_best_policy_QUOTA_G: seconds of the better of MTE and WRR over ours
dali_…: with --dali, DALI's seconds for a batch, measured, are the host's in a simulator
  (prong_pacing.cc), where the near side takes four times as long and the consumer three tenths.
  DALI's batches are normalised numbers
All are medians of the rounds.
usage: ./dev bench prong PHOTOS [--batches N] [--quotas Q …] [--paces G …] [--rounds N] [--sent]
           [--dali]
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
from typing import Any, NamedTuple

from lib.comparison import report, show_table
from lib.peers_environment import install_peers
from lib.program import ROOT
from lib.side_process import SideProcess
from lib.sides.side import Data
from lib.sync_job import control_group

BATCH = 256
BATCH_BYTES = BATCH * 3 * 224 * 224
PERIOD_US = 20_000  # short, so that a quota's pauses are short beside a batch
HOST_CORE, NEAR_CORE = 0, 1
HOST_WATTS, NEAR_WATTS = 10, 1  # of a busy core, in the model
WARM_UP = 5  # batches of the near side's core before its quota begins
FOREBAY = os.environ["FOREBAY_BIN"]
PACING = ROOT / "build/release/bench/bench_prong_pacing"
PROGRAM = Path(__file__).parent / "lib/prong_program.py"
TIMES = ("a", "b", "alone", "ours", "mte", "wrr")  # of a Point; a is of a batch
SETTINGS: dict[str, Any] = {
    "batch": BATCH, "sides": [], "policy": "interleave", "seconds": 0, "epochs": 3, "tells": False
}  # fmt: skip
POLICIES = {"ours": "interleave", "mte": "mte", "wrr": "wrr"}


def pack(photos: Path, batches: int, folder: Path) -> Path:
    """Packs so many batches of photographs, each under several names."""
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
    """The seconds for a batch of the host and of the near side's core, while both are at work."""
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
def near_side(data: Path, group: Path, is_sent: bool) -> Iterator[tuple[str, int]]:
    """Runs a near side in a control group; gives its URL and its process."""
    command = [*inside(group, NEAR_CORE), FOREBAY, "prep", str(data), "--serve"]
    words = ["--listen", "127.0.0.1:0", "--threads", "1"]
    # There is room for all that MTE keeps.
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
    """The epoch after the first that took least time."""
    return min(result["epochs"][1:], key=lambda epoch: epoch["seconds"])


def check_same(result: Any, alone: Any) -> None:
    """Every batch must be that of the host alone; policies may change their order."""
    in_order = result["policy"] == "interleave"
    for number, (one, other) in enumerate(zip(result["epochs"], alone["epochs"], strict=True)):
        sums, expected = one["sums"], other["sums"]
        if sums != expected if in_order else sorted(sums) != sorted(expected):
            sys.exit(f"prong: batches of epoch {number} differ from those of the host alone")


class Point(NamedTuple):
    """What one round measured: seconds of the fastest epoch, and sums of all after the first."""

    a: float
    b: float
    alone: float
    ours: float
    mte: float
    wrr: float
    alone_cpu: float  # seconds of all these epochs, like the next two
    ours_cpu: float
    near_cpu: float
    batches: int
    share: float  # the near side's
    late: float
    stored_bytes: float  # of a batch


def measure_point(data: Path, quota: float, pace: str, first: int, is_sent: bool) -> Point:
    """Measures the host alone and with each policy, one after the other, beginning with `first`."""
    settings = {**SETTINGS, "data": str(data)}
    a, b = measure_rates(settings, quota)
    seconds = None if pace == "net" else float(pace) * a
    alone = run({**settings, "seconds": seconds})
    results = {}
    names = list(POLICIES)
    for name in names[first % 3 :] + names[: first % 3]:
        with control_group() as group, near_side(data, group, is_sent) as (url, process):
            begin = cpu_seconds(process)
            limit(group, quota)
            with_side = {"seconds": seconds, "sides": [url], "policy": POLICIES[name]}
            results[name] = run({**settings, **with_side})
            results[name]["near_cpu"] = cpu_seconds(process) - begin
        check_same(results[name], alone)
    ours = results["ours"]
    mte, wrr = best(results["mte"])["seconds"], best(results["wrr"])["seconds"]
    made = ours["epochs"][-1]["near"]
    received = made - ours["epochs"][0]["near"]
    late = sum(side["late"] for side in ours["sides"])
    batches = ours["batches"] * (len(ours["epochs"]) - 1)
    near_cpu = ours["near_cpu"] * received / max(made, 1)
    if not is_sent and any(side["files"] == 0 < side["batches"] for side in ours["sides"]):
        sys.exit("prong: batches were sent, as there is no room for files in /dev/shm; --sent")
    stored = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
    alone_cpu, ours_cpu = (
        sum(epoch["cpu"] for epoch in one["epochs"][1:]) for one in (alone, ours)
    )
    return Point(
        a, b, best(alone)["seconds"], best(ours)["seconds"], mte, wrr, alone_cpu, ours_cpu,
        near_cpu, batches, received / batches, late, stored / ours["batches"],
    )  # fmt: skip


def figures_of(
    point: Point, quota: float, pace: str, batches: int, is_file: bool
) -> dict[str, float | None]:
    """A round's figures."""
    a, b = point.a, point.b
    bound = batches / (1 / a + 1 / b)
    received = 0 if pace == "net" else point.share * point.batches  # training takes CPU time too
    made_cpu = (1 - point.share) * point.alone_cpu
    receive = (point.ours_cpu - made_cpu) / received if received else None
    form = 0.0
    if pace != "net":
        g = float(pace) * a
        bound = max(bound, batches * g)
        form = batches * (g if g >= a else max(g, a * b / (a + b - g)))
    made_bytes = 2 * point.stored_bytes + BATCH_BYTES
    return {
        "of_bound": None if pace == "net" else point.ours / bound,
        "gain": point.alone / point.ours - 1,
        "of_bound_mte": None if pace == "net" else point.mte / bound,
        "of_bound_wrr": None if pace == "net" else point.wrr / bound,
        "gain_mte": point.alone / point.mte - 1,
        "gain_wrr": point.alone / point.wrr - 1,
        "mte_of_form": None if pace == "net" else point.mte / form,
        "vs_best_policy": min(point.mte, point.wrr) / point.ours,
        "share": point.share,
        "cpu_saving": 1 - point.ours_cpu / point.alone_cpu,
        "energy_saving": 1
        - (point.ours_cpu * HOST_WATTS + point.near_cpu / quota * NEAR_WATTS)
        / (point.alone_cpu * HOST_WATTS),
        "memory_saving": point.share * (1 - 2 * BATCH_BYTES / made_bytes) if is_file else None,
        "receive": receive,
    }


def with_dali(photos: Path, root: Path) -> dict[str, float]:
    """What the policies gain in a simulator whose host is as fast as DALI is on one core."""
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
    """The median; None where nothing was measured."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def measure(data: Path, arguments: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Measures all points; gives the table's rows and the figures."""
    rows: dict[str, Any] = {}
    figures: dict[str, Any] = {}
    for quota in arguments.quotas:
        for pace in arguments.paces:
            points = [
                measure_point(data, quota, pace, number, arguments.sent)
                for number in range(arguments.rounds)
            ]
            rounds = [
                figures_of(point, quota, pace, arguments.batches, not arguments.sent)
                for point in points
            ]
            found = {name: middle([one[name] for one in rounds]) for name in rounds[0]}
            figures |= {f"{name}_{quota}_{pace}": value for name, value in found.items()}
            seconds = [statistics.median(getattr(p, name) for p in points) for name in TIMES]
            rows[f"{quota} of a core, g = {pace}"] = [
                *seconds, *(value or 0 for value in found.values()),
                sum(point.late for point in points) / len(points),
            ]  # fmt: skip
            print(".", end="", flush=True)
    print()
    return rows, figures


def main(words: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="./dev bench prong", description=__doc__)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--quotas", type=float, nargs="+", default=[0.1, 0.25, 0.5, 1.0])
    parser.add_argument("--paces", nargs="+", default=["net", "0", "0.5", "1", "2"])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--sent", action="store_true")
    parser.add_argument("--dali", action="store_true")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="forebay-prong-", dir="/dev/shm") as folder:
        data = pack(arguments.photos, arguments.batches, Path(folder))
        of_dali = with_dali(arguments.photos, Path(folder) / "dali") if arguments.dali else {}
        rows, figures = measure(data, arguments)
        figures |= of_dali
    show_table(
        "near side, consumer",
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
