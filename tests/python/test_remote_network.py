"""Networks that lose, delay or swallow packets, and names that do not resolve.

Each test has a network of its own, in which its nginx and its client run.
"""

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import forebay
from places import EPOCHS, HASTY, begin_epochs, epoch, error_of
from servers.network import NameServer, filter_packets, in_own_network, limit_rate
from servers.nginx import Nginx, run_nginx
from servers.processes import wait_for

pytestmark = pytest.mark.usefixtures("nginx")  # skips where nginx is not installed
InNetwork = Callable[[Callable[[Nginx], None]], None]


@pytest.fixture
def in_network(tmp_path: Path, photos: Path) -> InNetwork:
    """Returns a function that runs a test in a network of its own, with an nginx."""

    def run(test: Callable[[Nginx], None]) -> None:
        def work() -> None:
            with run_nginx(tmp_path) as server:
                (server.folder / "set").symlink_to(photos)
                test(server)

        in_own_network(work)

    return run


# Packets of one direction: those that a server of this port sends, or those that it gets.
DIRECTIONS = ["tcp sport", "tcp dport"]


def drop(direction: str, server: Nginx) -> None:
    """Drops all packets of one direction."""
    filter_packets(f"{direction} {server.url.rpartition(':')[2]} drop")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_connections_that_lose_their_other_end(
    direction: str, in_network: InNetwork, photos: Path
) -> None:
    def test(server: Nginx) -> None:
        options = {"connect_timeout": 1, "read_timeout": 1, "max_attempts": 30}
        dataset = forebay.Dataset(f"{server.url}/set", options)
        with ThreadPoolExecutor(1) as pool:
            running = begin_epochs(pool, dataset, lambda: drop(direction, server))
            time.sleep(2.5)
            assert not running.done()
            filter_packets("")
            assert running.result() == epoch(photos, count=EPOCHS)

    in_network(test)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_connections_that_never_get_it_back(direction: str, in_network: InNetwork) -> None:
    def test(server: Nginx) -> None:
        dataset = forebay.Dataset(f"{server.url}/set", HASTY)
        drop(direction, server)
        for message in (error_of(dataset), error_of(f"{server.url}/set", HASTY)):
            host = server.url.removeprefix("http://")
            assert f"{server.url}/set" in message and f"({host}, tried 2 times" in message
            assert re.search("too slow|timed out|timeout was reached", message, re.IGNORECASE)
            assert "connect_timeout and read_timeout" in message

    in_network(test)


@pytest.mark.parametrize("percent", [3, pytest.param(15, marks=pytest.mark.nightly)])
def test_lost_packets_change_no_batch(percent: int, in_network: InNetwork, photos: Path) -> None:
    def test(server: Nginx) -> None:
        port = server.url.rpartition(":")[2]
        filter_packets(f"tcp sport {port} numgen random mod 100 < {percent} drop")
        assert epoch(f"{server.url}/set") == epoch(photos)
        filter_packets(f"tcp dport {port} numgen random mod 100 < {percent} drop")
        assert epoch(f"{server.url}/set") == epoch(photos)

    in_network(test)


@pytest.mark.parametrize("rate", ["20mbit", pytest.param("2mbit", marks=pytest.mark.nightly)])
def test_a_slow_link_changes_no_batch(rate: str, in_network: InNetwork, photos: Path) -> None:
    def test(server: Nginx) -> None:
        limit_rate(rate)
        assert epoch(f"{server.url}/set") == epoch(photos)

    in_network(test)


def named(server: Nginx) -> str:
    return server.url.replace("127.0.0.1", "store.test") + "/set"


@pytest.mark.parametrize("mood", ["silent", "failing"])
def test_a_name_that_resolves_again(
    mood: str, in_network: InNetwork, photos: Path, tmp_path: Path
) -> None:
    def test(server: Nginx) -> None:
        names = NameServer(tmp_path, mood)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(epoch, named(server))
            wait_for(lambda: names.asked > 0)
            assert not running.done()
            names.mood = "helpful"
            assert running.result() == epoch(photos)
        names.close()

    in_network(test)


@pytest.mark.parametrize("mood", ["silent", "failing", "ignorant"])
def test_a_name_that_never_resolves(mood: str, in_network: InNetwork, tmp_path: Path) -> None:
    def test(server: Nginx) -> None:
        names = NameServer(tmp_path, mood)
        message = error_of(named(server), HASTY)
        assert named(server) in message and "(store.test:" in message
        assert "tried 2 times" in message
        if mood != "silent":
            assert "Could not resolve host: store.test" in message
            assert "check the host's name, and this machine's DNS" in message
        else:
            assert "resolv" in message.lower() and "; check " in message
        names.close()

    in_network(test)
