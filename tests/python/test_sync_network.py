"""Jobs of forebay.sync on machines with links of their own, which are network namespaces."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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


def test_machines_with_two_processes_each_exchange_over_their_link(
    network: Network, tmp_path: Path
):
    variables = {
        "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": network.address(0),
        "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "link0", "FOLDER": str(tmp_path),
    }  # fmt: skip
    processes = [
        subprocess.Popen(
            [*network.command(rank // 2), sys.executable, str(WORKER), str(tmp_path / "rank"),
             "machines_with_two_each"],
            env=environment(RANK=str(rank), LOCAL_RANK=str(rank % 2), **variables),
            stderr=subprocess.PIPE, text=True,
        )
        for rank in range(4)
    ]  # fmt: skip
    try:
        said = [process.communicate(timeout=200)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * 4, said
    check_machines_with_two_each(
        [json.loads((tmp_path / f"rank{rank}").read_text()) for rank in range(4)]
    )
