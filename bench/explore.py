"""Explores CIFAR-10 as one flow, and as one job for each branch; the choices must be equal.

- probe: heads on a frozen backbone, 192 branches (sizes x borders x layers x heads). The jobs run
  one after the other in one warm process. probe_saving is 1 - time of the flow / time of the jobs,
  probe_of_bound the flow's time / the sum of its distinct stages' times, both with one worker.
- tree: 24 whole trainings that share beginnings, 130 of 288 epochs distinct. Two processes run the
  jobs, two workers the flow. tree_saving as above.
- memory: loading and computing again, at 25, 50 and 75 % of the peak, in the engine's simulation
  of random flows; against the optimum (10 results) and least-recently-used (40 results).
- overhead: trainings that share nothing, one worker, against a loop; overhead_x is the ratio, the
  mean of three alternating pairs.
- peers: 192 branches like those of probe, with heads that are trained for 16 epochs. vs_..._x is
  the time in which two processes of a peer reach the best score, over that of the flow with two
  workers; the median of three seeds. ..._reached is how many of them reached it within 3 times
  Forebay's time, where they end; with fewer than two, the figure is a lower bound. Optuna (TPE,
  successive halving) and Ray Tune (ASHA) compute all stages in each trial; optuna_cached keeps its
  features by hand. lib/explore_peers.py says when times begin and end.
- home: 96 trainings that share nothing, where sampling is better. asha_home_x is the time in which
  Optuna comes within two points of the best accuracy, over that of the whole flow.
usage: ./dev bench explore TRAIN [ROW ...]    (TRAIN: CIFAR-10's train/ as `forebay pack` makes it)
"""

import multiprocessing
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from forebay import explore as fx
from lib import explore_flows, explore_memory, explore_peers
from lib.comparison import report

PROBE_SAMPLES, TREE_SAMPLES, PLAIN_SAMPLES, HOME_SAMPLES = 2000, 3000, 4000, 2000
PLAIN_BRANCHES = 4


def run_flow(flow: Any, workers: int) -> tuple[float, fx.Study]:
    """Runs a flow in a new study; returns its wall time, with the start of the workers."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        study = fx.run(flow, out=Path(folder) / "study", workers=workers, quiet=True)
        return time.monotonic() - start, study


def scores_alone(flow: Any, configs: list[dict[str, Any]]) -> list[float]:
    """The scores of these branches, one job after the other in this process."""
    return [fx.alone(flow, config)[0] for config in configs]


def is_same(study: fx.Study, scores: list[float]) -> int:
    """Whether the jobs have the same scores, and so the same choice; 1 or 0."""
    return int(scores == [row["score"] for row in study.table()])


def backbone(train: str) -> Any:
    """The weights of a backbone that has learned the first five classes."""
    flow = fx.Flow(train)
    size = fx.explore("size", [32])
    images = flow.images(size, classes=explore_flows.HALVES[0], samples=slice(0, None, 5))
    once = fx.choose(explore_flows.pretrained(images), by="loss", keep=fx.bottom(1))
    return fx.alone(once, {"size": 32})[1]


def probe(train: str) -> dict[str, Any]:
    """Measures the first row."""
    flow = explore_flows.probe_flow(train, backbone(train), PROBE_SAMPLES)
    seconds, study = run_flow(flow, 1)
    configs = [row["config"] for row in study.table()]
    fx.alone(flow, configs[0])  # warm
    start = time.monotonic()
    scores = scores_alone(flow, configs)
    jobs = time.monotonic() - start
    print(f"probe: flow {seconds:.1f} s, jobs {jobs:.1f} s", flush=True)
    return {
        "probe_saving": 1 - seconds / jobs,
        "probe_of_bound": seconds / study.summary["stage_seconds"],
        "probe_same_choice": is_same(study, scores),
        "probe_best": study.best.value,
    }


def tree(train: str) -> dict[str, Any]:
    """Measures the second row."""
    flow = explore_flows.tree_flow(train, TREE_SAMPLES)
    seconds, study = run_flow(flow, 2)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        names = [str(number) for number in range(24)]
        list(pool.map(warm, [train] * 2))
        start = time.monotonic()
        scores = list(pool.map(tree_job, [train] * 24, names))
        jobs = time.monotonic() - start
    print(f"tree: flow {seconds:.1f} s, jobs {jobs:.1f} s", flush=True)
    return {
        "tree_saving": 1 - seconds / jobs,
        "tree_of_bound": 2 * seconds / study.summary["stage_seconds"],
        "tree_same_choice": is_same(study, scores),
        "tree_best": study.best.value,
    }


def warm(train: str) -> None:
    """Does each process's first work before its time counts."""
    fx.alone(explore_flows.tree_flow(train, 64), {"lr": "0"})


def tree_job(train: str, name: str) -> float:
    """One training from its beginning to its end."""
    return fx.alone(explore_flows.tree_flow(train, TREE_SAMPLES), {"lr": name})[0]


def memory(_train: str) -> dict[str, Any]:
    """Measures the third row."""
    of_optimum, lru = [], []
    for share in (0.25, 0.5, 0.75):
        for seed in range(40):
            for results in (10, 40):
                flow = explore_memory.random_flow(seed, results)
                _, peak = explore_memory.engine_cost(flow, 2**62, "anticipatory")
                limit = int(peak * share)
                own, _ = explore_memory.engine_cost(flow, limit, "anticipatory")
                if results == 40:
                    lru.append((explore_memory.engine_cost(flow, limit, "lru")[0], own))
                else:
                    of_optimum.append((own, explore_memory.optimum(flow, limit)))
    return {
        "amm_of_optimum": sum(a for a, _ in of_optimum) / sum(b for _, b in of_optimum),
        "lru_over_amm_x": sum(a for a, _ in lru) / sum(b for _, b in lru),
    }


def overhead(train: str) -> dict[str, Any]:
    """Measures the last row."""
    flow = explore_flows.plain_flow(train, PLAIN_SAMPLES, PLAIN_BRANCHES)
    configs = [{"part": str(number)} for number in range(PLAIN_BRANCHES)]
    fx.alone(flow, configs[0])  # warm
    ratios = []
    same = 1
    for _ in range(3):
        seconds, study = run_flow(flow, 1)
        start = time.monotonic()
        scores = scores_alone(flow, configs)
        ratios.append(seconds / (time.monotonic() - start))
        same = min(same, is_same(study, scores))
    print(f"overhead: {', '.join(f'{ratio:.3f}' for ratio in ratios)}", flush=True)
    return {"overhead_x": statistics.mean(ratios), "overhead_same_choice": same}


def peers(train: str) -> dict[str, Any]:
    """Measures the row with the peers."""
    return explore_peers.measure_shared(train, backbone(train), PROBE_SAMPLES)


def home(train: str) -> dict[str, Any]:
    """Measures the row where sampling is better."""
    return explore_peers.measure_home(train, HOME_SAMPLES)


ROWS = {
    "probe": probe,
    "tree": tree,
    "memory": memory,
    "overhead": overhead,
    "peers": peers,
    "home": home,
}


def main() -> None:
    """Measures the rows that are asked for, by default all."""
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(ROWS):
        sys.exit(__doc__)
    figures: dict[str, Any] = {}
    for row in sys.argv[2:] or ROWS:
        figures |= ROWS[row](sys.argv[1])
        for name, value in figures.items():
            print(f"{name:22} {value:.4g}", flush=True)
    report(figures)


if __name__ == "__main__":
    main()
