"""Machines in network namespaces hold a job's cache: one dies, or the origin is away."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from queue import Empty, Queue
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from conftest import leave_out, skip_without
from places import HASTY, epoch
from servers import nginx as web_server
from servers.links import LinkError, Network, unreachable
from servers.nginx import Nginx, run_again, run_nginx
from servers.processes import free_port

AWAY_S = 10
MANY = 12  # epochs, which are not read ahead as a whole
# A rank: for each line of its input it waits until the cache has so many machines, and reads so
# many epochs. It says when the first batch came, and at the end which batches there were.
RANK = """
import json, os, signal, sys, time
import torch.distributed
import forebay
from places import epoch
path, folder, room, options = json.loads(sys.argv[1])
torch.distributed.init_process_group("gloo")
cache = forebay.Cache(folder, disk_bytes=room)
dataset = forebay.Dataset(path, options, cache=cache)
def say(what):
    print(json.dumps(what), flush=True)
say("ready")
for line in sys.stdin:
    members, count = json.loads(line)
    while cache.stats()["members"] != members:
        time.sleep(0.02)
    try:
        hashes = epoch(dataset, count=count, regions="never", after_first=lambda: say("begun"))
    except OSError as error:
        say(["error", str(error)])
    else:
        say([hashes, cache.stats()])
os._exit(0)
"""


class Result(NamedTuple):
    """What a rank says of its epochs: the hashes of the batches, and what the cache did."""

    hashes: list[str]
    stats: dict[str, Any]


class Rank:
    """A process of a job, in the namespace of its machine."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.log = log
        self.process = subprocess.Popen(
            command,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                **environment,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("w"),
            text=True,
        )
        self.lines: Queue[str] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def ask(self, members: int, epochs: int) -> None:
        """Lets it read epochs, once the cache has so many machines."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([members, epochs]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Returns what it says next."""
        try:
            return json.loads(self.lines.get(timeout=100))
        except Empty:
            raise AssertionError(self.log.read_text()) from None

    def result(self) -> Result:
        """Returns what it says at the end of its epochs."""
        if (said := self.answer()) == "begun":
            said = self.answer()
        return Result(*said)


class Job:
    """Machines with ranks, and a server with photographs, which have a network of their own."""

    def __init__(self, network: Network, nginx: Nginx, folder: Path) -> None:
        self.network, self.nginx, self.folder = network, nginx, folder
        self.ranks: list[Rank] = []

    def start(self, ranks: int = 1, room: int = 1 << 30, options: Any = None) -> None:
        """Starts so many ranks on each machine."""
        world = self.network.machines * ranks
        port = str(free_port(self.network.host))
        for rank in range(world):
            machine, local = divmod(rank, ranks)
            place = (f"{self.nginx.url}/many", str(self.folder / str(machine)), room, options)
            command = [sys.executable, "-c", RANK, json.dumps(place)]
            environment = {
                **{"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(local)},
                **{"LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": self.network.address(0)},
                **{"MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "link0"},
            }
            log = self.folder / f"rank {rank}.log"
            self.ranks.append(Rank([*self.network.command(machine), *command], environment, log))
        assert [rank.answer() for rank in self.ranks] == ["ready"] * world

    def epochs(self, ranks: list[int], members: int, count: int) -> list[Result]:
        """Lets these ranks read epochs; returns their results."""
        for rank in ranks:
            self.ranks[rank].ask(members, count)
        return [self.ranks[rank].result() for rank in ranks]

    def settle(self, ranks: list[int], members: int) -> list[Result]:
        """Lets these ranks read epochs until one takes nothing from the origin."""
        results = self.epochs(ranks, members, 1)
        for _ in range(10):
            before, results = results, self.epochs(ranks, members, 1)
            if total(results, "origin_bytes") == total(before, "origin_bytes"):
                return results
        raise AssertionError("each of ten epochs took bytes from the origin")

    def begin(self, members: int, count: int = MANY) -> None:
        """Lets all ranks begin to read epochs; returns when all have their first batches."""
        for rank in self.ranks:
            rank.ask(members, count)
        assert [rank.answer() for rank in self.ranks] == ["begun"] * len(self.ranks)

    def end(self) -> None:
        """Kills all ranks."""
        for rank in self.ranks:
            rank.process.kill()
            rank.process.wait(timeout=60)


@pytest.fixture
def job(many_chunks: Path, tmp_path: Path) -> Iterator[Callable[[int], Job]]:
    """Returns a function that makes a job of so many machines."""
    skip_without({**web_server.PACKAGES, "ip": "iproute2", "nft": "nftables"})
    with ExitStack() as stack:

        def make(machines: int) -> Job:
            try:
                network = stack.enter_context(Network(machines))
            except LinkError as error:
                leave_out(f"no network namespaces: {error} (needs root)")
            (tmp_path / "nginx").mkdir()
            nginx = stack.enter_context(run_nginx(tmp_path / "nginx", network.host))
            (nginx.folder / "many").symlink_to(many_chunks)
            made = Job(network, nginx, tmp_path)
            stack.callback(made.end)
            return made

        yield make


def agree(
    results: list[Result], many_chunks: Path, ranks: list[int], world: int, count: int
) -> None:
    """Compares the batches of these ranks with those of a job that reads from the disk."""
    for rank, result in zip(ranks, results, strict=True):
        expected = epoch(many_chunks, rank=rank, world_size=world, count=count, regions="never")
        assert result.hashes == expected


def total(results: list[Result], stat: str) -> int:
    """Returns the sum of what these ranks' caches have counted since they began."""
    return sum(result.stats[stat] for result in results)


@pytest.mark.parametrize("death", ["killed", "stopped", "unplugged"])
def test_an_owner_that_dies_costs_its_share_alone(
    job: Callable[[int], Job], many_chunks: Path, death: str
) -> None:
    machines = job(3)
    machines.start()
    share = machines.settle([0, 1, 2], 3)[1].stats["disk_held_bytes"]
    assert share > 0
    machines.begin(3)
    with ExitStack() as stack:
        if death == "unplugged":
            stack.enter_context(machines.network.without(1))
        else:
            number = signal.SIGKILL if death == "killed" else signal.SIGSTOP
            machines.ranks[1].process.send_signal(number)
        results = [machines.ranks[rank].result() for rank in (0, 2)]
        agree(results, many_chunks, [0, 2], 3, MANY)
        before = machines.epochs([0, 2], 2, 0)
        after = machines.settle([0, 2], 2)
        # A machine that answers too late on a busy system is bypassed, too.
        if total(after, "peer_failures") == total(before, "peer_failures"):
            assert total(after, "origin_bytes") - total(before, "origin_bytes") <= share


def test_a_machine_whose_server_process_is_killed_goes_on_with_what_it_held(
    job: Callable[[int], Job], many_chunks: Path
) -> None:
    machines = job(2)
    machines.start(ranks=2)
    warm = machines.settle([0, 1, 2, 3], 2)
    killed = next(rank for rank in (2, 3) if warm[rank].stats["serves"])
    held = warm[killed].stats["disk_held_bytes"]
    assert held > 0
    others = [rank for rank in range(4) if rank != killed]
    machines.begin(2)
    machines.ranks[killed].process.kill()
    results = [machines.ranks[rank].result() for rank in others]
    agree(results, many_chunks, others, 4, MANY)
    results = machines.settle(others, 2)
    assert [result.stats["serves"] for result in results].count(True) == 2
    assert total(results, "found_bytes") > 0.9 * held  # which is in whole blocks


@contextlib.contextmanager
def away(nginx: Nginx, how: str, after: ExitStack) -> Iterator[None]:
    """nginx refuses connections, or does not answer, while the context lasts; then it serves on."""
    url = urlsplit(nginx.url)
    assert url.hostname and url.port
    if how == "hangs":
        with unreachable(url.hostname, url.port):
            yield
        return
    os.killpg(nginx.group, signal.SIGKILL)
    yield
    after.enter_context(run_again(nginx))


@pytest.mark.parametrize("how", ["refuses", "hangs"])
def test_machines_that_hold_all_go_on_without_the_origin(
    job: Callable[[int], Job], many_chunks: Path, how: str
) -> None:
    machines = job(2)
    machines.start()
    before = machines.settle([0, 1], 2)
    with ExitStack() as stack, away(machines.nginx, how, stack):
        results = machines.epochs([0, 1], 2, MANY)
    agree(results, many_chunks, [0, 1], 2, MANY)
    assert total(results, "origin_bytes") == total(before, "origin_bytes")


@pytest.mark.parametrize("how", [pytest.param("refuses", marks=pytest.mark.nightly), "hangs"])
def test_machines_that_hold_half_wait_for_an_origin_that_is_away_for_ten_seconds(
    job: Callable[[int], Job], many_chunks: Path, how: str
) -> None:
    stored = sum(path.stat().st_size for path in (many_chunks / "chunks").iterdir())
    machines = job(2)
    machines.start(room=stored // 4)
    machines.begin(2)
    with ExitStack() as stack:
        with away(machines.nginx, how, stack):
            time.sleep(AWAY_S)
            assert all(rank.lines.empty() for rank in machines.ranks)
        results = [rank.result() for rank in machines.ranks]
    agree(results, many_chunks, [0, 1], 2, MANY)


def test_an_origin_that_stays_away_ends_the_epochs_with_an_error_that_names_it(
    job: Callable[[int], Job], many_chunks: Path
) -> None:
    stored = sum(path.stat().st_size for path in (many_chunks / "chunks").iterdir())
    machines = job(2)
    machines.start(room=stored // 4, options=HASTY)
    machines.begin(2)
    with ExitStack() as stack, away(machines.nginx, "refuses", stack):
        for rank in machines.ranks:
            what, message = rank.answer()
            assert what == "error"
            assert machines.nginx.url in message
            assert "Connection refused" in message or "connect" in message
