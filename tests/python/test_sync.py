"""Training in several processes with forebay.sync, under a real launcher."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sync_worker import STRATEGIES

WORKER = Path(__file__).with_name("sync_worker.py")
PROCESSES = 2
SCENARIOS = (
    "like_ddp", "gathered_like_ddp", "each_way_like_ddp", "all_learn", "first_weights",
    "comes_late", "rate_after_a_restart", "refusals", "gradients_stay", "in_another_memory",
    "changes", "averaged_weights", "ends_apart", "saved_by_tools", "kept_gradients", "frozen_later",
    "unusual_optimizers", "buffers_at_the_end", "scale_is_agreed", "outer_optimizers",
    "steps_are_the_jobs", "fused_optimizers", "compiled_step", "waits_quietly",
)  # fmt: skip


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The results of all scenarios on each rank of a job of torchrun."""
    return results_of(tmp_path_factory.mktemp("sync"), PROCESSES, SCENARIOS)


def results_of(folder: Path, processes: int, scenarios: Sequence[str]) -> list[dict[str, Any]]:
    result = folder / "rank"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*launcher, f"--nproc-per-node={processes}", str(WORKER), str(result), *scenarios],
        env=environment(FOLDER=str(folder)), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(Path(f"{result}{rank}").read_text()) for rank in range(processes)]


def test_allreduce_is_ddp_bit_for_bit(found: list[dict[str, Any]]):
    for rank in found:
        assert rank["like_ddp"]
        assert rank["gathered_like_ddp"]


def test_gradients_are_ddps_when_the_backward_pass_ends(found: list[dict[str, Any]]):
    for rank in found:
        assert all(rank["each_way_like_ddp"].values()), rank["each_way_like_ddp"]


@pytest.mark.parametrize("number", range(len(STRATEGIES)), ids=[repr(s) for s in STRATEGIES])
def test_a_strategy_learns(found: list[dict[str, Any]], number: int):
    for rank, own in enumerate(found):
        result = own["all_learn"][number]
        assert result["before"] > 1.5
        assert result["after"] < 1.1  # by chance: 1.6
        stats = result["stats"]
        assert stats["steps"] == 240
        assert stats["trouble"] == ""
        if not STRATEGIES[number].sums:
            link = stats["links"][1 - rank]
            assert link["sent_bytes"] > 0
            assert link["received_bytes"] > 0
            assert link["lost"] == ""
            assert sum(stats["staleness"]) > 0


@pytest.mark.parametrize("number", range(len(STRATEGIES)), ids=[repr(s) for s in STRATEGIES])
def test_a_strategy_goes_on_from_a_checkpoint(found: list[dict[str, Any]], number: int):
    results = [rank["all_learn"][number] for rank in found]
    assert results[0]["kept"] == results[1]["kept"]
    assert all(amount > 0 for amount in results[0]["kept"])
    keeps = {"local": 2, "ps": 1}.get(STRATEGIES[number].name, 0)
    for result in results:
        assert len(result["kept"]) == keeps
        assert result["same"]


@pytest.mark.parametrize("number", range(len(STRATEGIES)), ids=[repr(s) for s in STRATEGIES])
def test_all_end_with_the_same_weights(found: list[dict[str, Any]], number: int):
    assert len({rank["all_learn"][number]["weights"] for rank in found}) == 1


def test_all_start_with_the_weights_of_rank_0(found: list[dict[str, Any]]):
    assert found[0]["first_weights"] == found[1]["first_weights"]


def test_all_go_on_from_the_newest_checkpoint(found: list[dict[str, Any]]):
    first, newest = (rank["comes_late"] for rank in found)
    assert first["sums"] == newest["sums"]
    assert newest["sums"][:-2] == newest["own"] != first["own"]  # the last two are local steps'
    assert max(first["loss"], newest["loss"]) < 1.4  # by chance: 1.6
    for rank in found:
        assert rank["rate_after_a_restart"] == {"moved": False, "kept": 1}


def test_any_optimizer_may_be_the_outer_one(found: list[dict[str, Any]]):
    first, second = (rank["outer_optimizers"] for rank in found)
    for kind in ("builtin", "torch", "adamw"):
        assert first[kind] == second[kind]  # also what all processes share, during the job
    for ours, theirs in zip(first["builtin"], first["torch"], strict=True):
        assert ours["weights"] == pytest.approx(theirs["weights"], abs=1e-5)
    assert max(one["loss"] for one in first["adamw"]) < 1.3  # by chance: 1.6
    assert first["adamw"][0]["weights"] != first["torch"][0]["weights"]
    for own in (first, second):
        assert own["whole"] == own["resumed"] == own["late"]
        assert own["fails"] == "after 5 steps: a mistake of the outer optimizer"
        assert own["rates"].startswith("ValueError: outer_rate is 0.5 and outer_momentum 0.9, but")
        assert own["none"].startswith("ValueError: sync: outer must return a torch.optim.Optimizer")
        assert own["differ"].startswith("ValueError: sync: the processes' outer optimizers differ")
        assert own["fragments"].startswith("ValueError: sync: the outer optimizer's state is of o")
    assert first["whole"] == second["whole"]
    assert first["uneven"] == second["uneven"]


def test_gradients_stay_where_they_are(found: list[dict[str, Any]]):
    for rank in found:
        own = rank["gradients_stay"]
        assert own["same"]
        assert own["said"].startswith("ValueError: sync: the gradient of step 3 is not finite")


def test_a_model_may_lie_in_another_memory(found: list[dict[str, Any]]):
    for rank in found:
        own = rank["in_another_memory"]
        assert own["apart"] < 1e-5
        late = own["losses"].pop(2)  # late gradients with momentum make the weights swing
        assert late < 1.5  # by chance: 1.6
        assert max(own["losses"]) < 1.2
        assert own["said"].startswith("ValueError: sync: the gradient of step 0 is not finite")
        # A process that has ended once lost what the sums of others gave it.
        assert own["ended elsewhere"] == pytest.approx(own["ended"], abs=1e-5)


def test_the_strategy_changes_while_all_learn(found: list[dict[str, Any]]):
    changes = [rank["changes"] for rank in found]
    # After a change, all processes have the same weights, except for changes to Ako and local
    # steps, which go on with each process's own weights. They begin with the weights that former
    # local steps have in common, also after the steps at the beginning, which exchange nothing.
    same = [one == other for one, other in zip(changes[0]["made"], changes[1]["made"], strict=True)]
    assert same == [False, False, False, False, True, True, True]
    assert changes[0]["shared"] == changes[1]["shared"]
    begins_with_shared = [len(shared) > 0 for shared in changes[0]["shared"]]
    assert begins_with_shared == [True, False, True, True, False, False, False]
    before, after = changes[0]["momenta"]
    assert before == after > 0
    assert changes[0]["weights"] == changes[1]["weights"]
    for own in changes:
        assert own["strategy"] == "AllReduce()"
        assert own["stats"]["steps"] == own["steps"]
        assert own["stats"]["trouble"] == ""
        assert own["stats"]["reduced_bytes"] > 0
        assert own["loss"] < 0.9
    # All processes chose at the beginning, and after the change from Ako() to itself.
    assert all(own["left"] == 0 for own in changes)
    assert all(rank["ends_apart"] for rank in found)


def test_a_model_may_have_the_mean_of_all_weights(found: list[dict[str, Any]]):
    pairs = list(zip(*(rank["averaged_weights"] for rank in found), strict=True))
    for one, other in pairs:
        assert one["own"] == one["before"] != other["own"]  # the own weights come back
        assert one["last"] != other["last"]
        assert one["end"] == other["end"]
    updates, gradients, swapped, waits, streams = pairs
    for one, other in (gradients, swapped):  # these strategies do not know the mean
        assert one["averaged"] == one["own"]
        assert other["averaged"] == other["own"]
    for one, other in (waits, streams):
        assert one["averaged"] == other["averaged"]
        assert one["averaged"] not in (one["own"], other["own"])
    apart = {name: math.dist(*(side[name] for side in updates)) for name in ("own", "averaged")}
    assert apart["averaged"] < apart["own"]
    # No exchange is on its way at the end of the strategy that waits for each exchange.
    mean = [(a + b) / 2 for a, b in zip(waits[0]["last"], waits[1]["last"], strict=True)]
    assert waits[0]["end"] == pytest.approx(mean, abs=1e-6)


@pytest.mark.parametrize(
    ("what", "said"),
    {
        "name": "ValueError: sync: strategy is 'gossip', but must be one of",
        "missing": "ValueError: sync: the optimizer does not hold these parameters: ['1.bias'",
        "adam": "ValueError: sync: the strategy ps needs one torch.optim.SGD, not Adam",
        "double": "ValueError: sync: parameter 1.weight is torch.float64; only float32, ",
        "wider": "ValueError: sync: ranks [1] differ from rank 0",
        "strategies": "ValueError: sync: ranks [1] differ from rank 0 in the strategy",
        "steps": "ValueError: sync: steps is -1",
        "optimizers": "ValueError: sync: ranks [1] differ from rank 0 in the strategy, in the opt",
        "server": "ValueError: servers is 2, but must be from 0 to 1",
        "delay": "ValueError: delay is 4, but must be from 0 to 3",
        "encoding": "ValueError: encoding is 'zip', but must be one of auto, float32, int8, top",
        "local_encoding": "ValueError: encoding is 'top', but must be 'float32' or 'int8'",
        "nan": "ValueError: sync: the gradient of step 2 is not finite",
        "moved": "RuntimeError: sync: the model's weights were moved",
        "counted": "ValueError: sync: ranks [1] differ from rank 0",
        "thawed": "RuntimeError: sync: the optimizer has a parameter of shape (5, 32) that did not",
        "twice": "ValueError: sync: parameter 1.weight is already attached; close the other",
        "wrapped": "ValueError: sync: the model is wrapped in DistributedDataParallel, so",
        "buffers": "ValueError: sync: buffers is 'rank 0', but must be one of mean, own",
        "wait 0": "ValueError: sync: wait_seconds is 0, but must be a number above 0",
        "wait -1": "ValueError: sync: wait_seconds is -1, but must be",
        "wait nan": "ValueError: sync: wait_seconds is nan, but must be",
        "wait 30": "ValueError: sync: wait_seconds is '30', but must be",
        "wait None": "ValueError: sync: wait_seconds is None, but must be",
        "servers": "ValueError: sync: ps has 2 servers, but the model has only 1 numbers",
        "closure": 'RuntimeError: sync: "ps" exchanges gradients before optimizer.step(), but the',
    }.items(),
)
def test_what_makes_no_sense_is_refused(found: list[dict[str, Any]], what: str, said: str):
    for rank in found:
        assert rank["refusals"][what].startswith(said)


def test_common_tools_save_an_attached_model(found: list[dict[str, Any]]):
    for rank in found:
        for when in ("during", "after"):
            assert all(rank["saved_by_tools"][when].values()), rank["saved_by_tools"]


def test_gradients_that_a_script_keeps_stay(found: list[dict[str, Any]]):
    for rank in found:
        own = rank["kept_gradients"]
        assert not any(own["same"])
        assert all(own["differ"])
        assert own["said"].startswith("RuntimeError: sync: backward(create_graph=True) makes")


def test_a_layer_that_is_frozen_later_stays(found: list[dict[str, Any]]):
    for rank in found:
        assert len(rank["frozen_later"]) == 3
        assert not any(rank["frozen_later"].values()), rank["frozen_later"]


def test_steps_of_unusual_optimizers_are_seen(found: list[dict[str, Any]]):
    first, second = (rank["unusual_optimizers"] for rank in found)
    for name, own in first.items():
        assert own["steps"] == 12, name
        assert own["weights"] == second[name]["weights"], name


def test_buffers_are_averaged_or_stay(found: list[dict[str, Any]]):
    first, second = (rank["buffers_at_the_end"] for rank in found)
    assert first["mean"]["end"] == second["mean"]["end"]
    mean = [(a + b) / 2 for a, b in zip(first["mean"]["own"], second["mean"]["own"], strict=True)]
    assert first["mean"]["end"] == pytest.approx(mean)
    for rank in (first, second):
        assert rank["own"]["own"] == rank["own"]["end"]
    assert first["own"]["end"] != second["own"]["end"]


def test_the_scale_of_gradients_is_agreed(found: list[dict[str, Any]]):
    first, second = (rank["scale_is_agreed"] for rank in found)
    assert first["strategy"] == "allreduce"
    assert first == second


def test_errors_count_the_jobs_steps(found: list[dict[str, Any]]):
    for rank in found:
        strategy, said = rank["steps_are_the_jobs"]
        assert strategy == "pairs"
        assert said.startswith("ValueError: sync: the gradient of step 20 is not finite")


def test_fused_optimizers_leave_out_steps_like_others(found: list[dict[str, Any]]):
    for rank, own in enumerate(found):
        results = own["fused_optimizers"]
        assert len(results) == 11
        for name, (other, fused) in results.items():
            left_out = rank == 1 or name.startswith("allreduce")
            assert other["steps"] == fused["steps"] == 40 - left_out, name
            assert fused["loss"] == pytest.approx(other["loss"], rel=0.05), name


def test_a_wait_for_attach_is_quiet(found: list[dict[str, Any]]):
    assert [own["waits_quietly"] for own in found] == ["", ""]


def test_a_script_may_compile_its_steps(found: list[dict[str, Any]]):
    for own in found:
        for name, (plain, compiled) in own["compiled_step"].items():
            assert plain == compiled, name


def test_machines_exchange_through_their_leaders(tmp_path: Path):
    ranks = results_of(tmp_path, 4, ["machines_with_two_each"])
    check_machines_with_two_each([rank["machines_with_two_each"] for rank in ranks])


def check_machines_with_two_each(own: list[dict[str, Any]]) -> None:
    names = [name for name in own[0] if name not in ("said", "across")]
    assert len(names) == 3
    for name in names:
        results = [one[name] for one in own]
        assert [one["place"] for one in results] == [[0, 2], [0, 2], [1, 2], [1, 2]]
        assert results[0]["during"] == results[1]["during"]
        assert results[2]["during"] == results[3]["during"]
        assert len({str(one["end"]) for one in results}) == 1
        assert len({str(one["buffers"]) for one in results}) == 1
        assert len({one["state"] for one in results}) == 1
        assert all(one["after"] < one["before"] for one in results)
    for one in own:
        assert one["said"].startswith("ValueError: sync: with replicas, the strategy must")
    across = [one["across"] for one in own]
    assert [one["place"] for one in across] == [[0, 2], [0, 2], [1, 2], [1, 2]]
    assert across[0]["weights"] == across[2]["weights"] != across[1]["weights"]
    assert across[1]["weights"] == across[3]["weights"]


def test_shards_are_exchanged_between_machines(tmp_path: Path):
    ranks = results_of(tmp_path, 4, ["machines_with_shards"])
    own = [rank["machines_with_shards"] for rank in ranks]
    said = {"gradients", "replicas", "all"}
    names = set(own[0]) - said - {"joined", "losses"}
    assert len(names) == 4
    for name in names:
        results = [one[name] for one in own]
        assert [one["place"] for one in results] == [[0, 2], [0, 2], [1, 2], [1, 2]]
        for when in ("first", "shard"):
            assert results[0][when] == results[2][when]
            assert results[1][when] == results[3][when]
            assert len(results[0][when]) > len(results[1][when])
        assert len({str(one["whole"]) for one in results}) == 1
        assert all(one["after"] < one["before"] - 0.1 for one in results)
    assert own[0]["joined"] == own[2]["joined"] != own[1]["joined"] == own[3]["joined"]
    for one in own:
        before, averaged, after = one["losses"]
        assert before == after != averaged
        assert one["gradients"].startswith(
            "ValueError: sync: with FSDP's shards, the strategy must"
        )
        assert one["replicas"].startswith("ValueError: sync: replicas hold equal models, but these")
        assert one["all"].startswith("ValueError: sync: ranks [1, 3] differ from rank 0 in")


def test_a_machine_that_comes_later_gets_the_model_from_another(tmp_path: Path):
    def machine(name: str) -> subprocess.Popen[str]:
        (tmp_path / name).mkdir()
        launcher = [
            sys.executable, "-m", "torch.distributed.run", "--nnodes=1:2", "--nproc-per-node=1",
            "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--monitor-interval=0.2",
            f"--rdzv-conf=last_call_timeout=1,is_host={int(name == 'first')}",
            f"--local-addr=127.0.0.{2 if name == 'first' else 1}",  # ranks are in this order
        ]  # fmt: skip
        variables = {"FOLDER": str(tmp_path / name), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        return subprocess.Popen(
            [*launcher, str(WORKER), str(tmp_path / "rank"), "waits_for_another"],
            env=environment(**variables), stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    port = free_port()
    machines = [machine("first")]
    try:
        until = time.monotonic() + 100
        while not (tmp_path / "first/checkpoint.pt").exists() and time.monotonic() < until:
            time.sleep(0.1)
        machines.append(machine("second"))
        said = [one.communicate(timeout=200)[1] for one in machines]
    finally:
        for one in machines:
            one.terminate()
    assert [one.returncode for one in machines] == [0, 0], said
    newcomer, other = (
        json.loads((tmp_path / f"rank{rank}").read_text())["waits_for_another"] for rank in range(2)
    )
    assert newcomer["own"] == 0
    assert newcomer["first"] == other["first"] == other["own"] >= 20
    assert newcomer["loss"] == other["loss"] < 1.5  # by chance: 1.6


@pytest.mark.parametrize("strategy", ["ako", pytest.param("pairs", marks=pytest.mark.nightly)])
def test_the_others_go_on_when_one_is_killed(tmp_path: Path, strategy: str):
    # Without torchrun, which would stop the other processes.
    variables = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, str(WORKER), str(tmp_path / "rank"), "one_dies"]
    workers = [
        subprocess.Popen(
            command, env=environment(RANK=str(rank), STRATEGY=strategy, **variables),
            stderr=subprocess.PIPE, text=True,
        )
        for rank in range(3)
    ]  # fmt: skip
    said = [worker.communicate(timeout=200)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, -signal.SIGKILL, 0], said
    for rank in (0, 2):
        found = json.loads((tmp_path / f"rank{rank}").read_text())["one_dies"]
        assert found["loss"] < 1
        assert found["stats"]["steps"] == 140
        assert found["stats"]["links"][1]["lost"]
        assert found["stats"]["links"][2 - rank]["lost"] == ""
        assert f"sync: rank {rank} keeps its own weights instead of the mean of all" in said[rank]
