"""Jobs of forebay.sync on machines with links of their own, which are network namespaces."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import leave_out, skip_without
from servers.links import LinkError, Network
from test_sync import WORKER, check_machines_with_two_each, environment, free_port


@pytest.fixture
def network() -> Iterator[Network]:
    """Two machines, each with a link of 100 Mbit/s."""
    skip_without({"ip": "iproute2", "tc": "iproute2"})
    try:
        with Network(2) as made:
            made.limit(100)
            yield made
    except LinkError as error:
        leave_out(f"no network namespaces: {error} (needs root)")


def start(
    network: Network, processes: int, scenario: str, folder: Path, **more: str
) -> list[subprocess.Popen[str]]:
    """Starts the processes of a job, of which each machine has the same number."""
    here = processes // network.machines
    variables = {
        "WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(here),
        "MASTER_ADDR": network.address(0), "MASTER_PORT": str(free_port()),
        "GLOO_SOCKET_IFNAME": "link0", "FOLDER": str(folder),
    } | more  # fmt: skip
    return [
        subprocess.Popen(
            [*network.command(rank // here), sys.executable, str(WORKER), str(folder / "rank"),
             scenario],
            env=environment(RANK=str(rank), LOCAL_RANK=str(rank % here), **variables),
            stderr=subprocess.PIPE, text=True,
        )
        for rank in range(processes)
    ]  # fmt: skip


def results(started: list[subprocess.Popen[str]], scenario: str, folder: Path) -> list[Any]:
    try:
        said = [process.communicate(timeout=200)[1] for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0] * len(started), said
    ranks = range(len(started))
    return [json.loads((folder / f"rank{rank}").read_text())[scenario] for rank in ranks]


def test_machines_with_two_processes_each_exchange_over_their_link(
    network: Network, tmp_path: Path
):
    scenario = "machines_with_two_each"
    check_machines_with_two_each(results(start(network, 4, scenario, tmp_path), scenario, tmp_path))


@pytest.mark.parametrize("strategy", ["allreduce", "local"])
def test_a_machine_that_falls_silent_is_named(network: Network, tmp_path: Path, strategy: str):
    scenario = "machine_falls_silent"
    started = start(network, 2, scenario, tmp_path, STRATEGY=strategy)
    ready = [tmp_path / "ready0", tmp_path / "ready1"]
    until = time.monotonic() + 100
    while not all(one.exists() for one in ready) and time.monotonic() < until:
        time.sleep(0.05)
    with network.without(1):
        (tmp_path / "cut").touch()
        first, second = results(started, scenario, tmp_path)
    late = "SyncError: sync: other processes did not finish step 150 within 3 s (wait_seconds)"
    if strategy == "allreduce":
        for rank, one in enumerate((first, second)):
            assert one["said"].startswith(late)
            assert one["said"].endswith(f"missing: rank {1 - rank}")
    else:  # only one side has the store, so never both go on
        assert first["warned"] == ["sync: rank 0 has lost rank 1, and goes on alone"]
        assert first["left"] == 1
        assert second["said"].startswith("SyncError: sync: processes were lost, and so was the st")
