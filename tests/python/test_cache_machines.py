"""Machines of one job that hold its cache together, each with a torchrun of its own."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import forebay
from forebay.data import cache_rendezvous
from places import Place, epoch, on_web
from servers.nginx import Nginx

# A rank: reads epochs, and writes the hashes of its batches, and what the cache did.
RANK = """
import json, os, pathlib, signal, sys
import torch.distributed
import forebay
from conftest import run_forebay
from places import epoch
path, options, folder, epochs, ends = json.loads(sys.argv[1])
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
own = pathlib.Path(folder) / os.environ["GROUP_RANK"]
cache = forebay.Cache(own, disk_bytes="1GB")
dataset = forebay.Dataset(path, options, cache=cache)
torch.distributed.init_process_group("gloo")
torch.distributed.barrier()
hashes = epoch(dataset, count=epochs, regions="never")
torch.distributed.barrier()
result = json.dumps([hashes, cache.stats(), own.stat().st_mode])
(pathlib.Path(folder) / f"result {rank}").write_text(result)
try:
    torch.distributed.barrier()
finally:
    # A rank whose barrier fails because another one was sooner ends in the same way.
    if ends == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if ends == "fails":
        raise RuntimeError("something went wrong")
torch.distributed.destroy_process_group()
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def run_job(
    place: Place, folder: Path, *, machines: int, ranks: int, job: str = "none", ends: str = "well"
) -> list[Any]:
    """Runs a job of so many machines with so many ranks each; returns each rank's result.

    At the end the ranks kill themselves if `ends` is "killed", and raise if it is "fails".
    """
    script = folder / "rank.py"
    script.write_text(RANK)
    port = free_port()
    arguments = json.dumps([place.url, place.options, str(folder), 3, ends])
    agents = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "torch.distributed.run", f"--nnodes={machines}"),
                *(f"--nproc-per-node={ranks}", f"--rdzv-id={job}", "--rdzv-backend=c10d"),
                *(f"--rdzv-endpoint=127.0.0.1:{port}", script, arguments),
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(machines)
    ]
    try:
        for agent in agents:
            said, _ = agent.communicate(timeout=200)
            assert (agent.returncode == 0) == (ends == "well"), said
    finally:
        for agent in agents:
            agent.kill()
    return [json.loads((folder / f"result {rank}").read_text()) for rank in range(machines * ranks)]


@pytest.fixture
def web(nginx: Nginx, many_chunks: Path) -> Place:
    """Returns the photographs on nginx."""
    return Place(f"{nginx.url}/{on_web(nginx, many_chunks)}", None, nginx.url)


def test_machines_hold_the_data_together(web: Place, many_chunks: Path, tmp_path: Path) -> None:
    results = run_job(web, tmp_path, machines=2, ranks=2)
    for rank, (hashes, _, _) in enumerate(results):
        more: dict[str, Any] = {"count": 3, "regions": "never"}
        assert hashes == epoch(many_chunks, rank=rank, world_size=4, **more)
    stats = [stats for _, stats, _ in results]
    assert [one["members"] for one in stats] == [2] * 4
    assert [one["serves"] for one in stats].count(True) == 2
    assert sum(one["peer_failures"] for one in stats) == 0
    stored = sum(path.stat().st_size for path in (many_chunks / "chunks").iterdir())
    assert sum(one["origin_bytes"] for one in stats) <= 1.01 * stored
    # Both hold a share.
    assert all(one["disk_held_bytes"] > 0 for one in stats if one["serves"])
    assert sum(one["peer_hit_bytes"] for one in stats) > stored / 2
    for number in range(2):
        assert not (tmp_path / str(number) / "forebay-cache").exists()


def test_a_job_that_starts_again_with_other_machines_goes_on_with_what_is_held(
    web: Place, many_chunks: Path, tmp_path: Path
) -> None:
    stored = sum(path.stat().st_size for path in (many_chunks / "chunks").iterdir())
    run_job(web, tmp_path, machines=1, ranks=2, job="restarted", ends="killed")
    # The second machine takes its share from the first.
    results = run_job(web, tmp_path, machines=2, ranks=1, job="restarted", ends="fails")
    stats = [stats for _, stats, _ in results]
    assert sum(one["origin_bytes"] for one in stats) == 0
    assert sum(one["found_bytes"] for one in stats) > 0.9 * stored
    assert all(one["disk_held_bytes"] > 0 for one in stats)
    # What the second machine alone holds is lost with it.
    results = run_job(web, tmp_path, machines=1, ranks=2, job="restarted")
    for rank, (hashes, _, _) in enumerate(results):
        assert hashes == epoch(many_chunks, rank=rank, world_size=2, count=3, regions="never")
    stats = [stats for _, stats, _ in results]
    assert sum(one["origin_bytes"] for one in stats) < 0.01 * stored, stats
    assert not (tmp_path / "0" / "forebay-cache").exists()


def test_a_job_of_several_machines_needs_a_way_to_meet(
    web: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    with pytest.raises(ValueError, match=r"init_process_group\(\) first, or .* torchrun"):
        forebay.Dataset(web.url, cache=tmp_path, cache_bytes="1GB")


def test_the_own_address_is_found_by_the_masters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    assert cache_rendezvous.own_address() in ("127.0.0.1", "::1")
    monkeypatch.setenv("MASTER_ADDR", "no such host")
    with pytest.raises(ValueError, match="give the cache its address"):
        cache_rendezvous.own_address()
    # A machine's name may stand for an address that others cannot reach.
    monkeypatch.setenv("MASTER_ADDR", socket.gethostname())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no network, and no address but its own")
    assert not cache_rendezvous.own_address().startswith("127.")
