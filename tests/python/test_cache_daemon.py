"""A cache that outlives jobs: `forebay cache --serve`, what it says of itself, lists of members."""

import itertools
import json
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import forebay
from conftest import run_forebay, write_secret
from places import Place, environment, epoch, on_web, through
from servers import network
from servers.chaos import ChaosProxy
from servers.daemon import Daemon
from servers.nginx import Nginx, run_nginx
from servers.processes import free_port, wait_for
from servers.s3 import S3

SECRET = "a secret of the tests, long enough"

# An ordinary job of one machine, whose user knows nothing of the daemon.
JOB = """
import json, sys
from places import epoch
import forebay
path, options, folder, rank, world, epochs = json.loads(sys.argv[1])
dataset = forebay.Dataset(path, options, cache=folder, cache_bytes="1GB")
def begun():
    print("begun", flush=True)
hashes = epoch(dataset, count=epochs, rank=rank, world_size=world, regions="never",
               after_first=begun)
print(json.dumps([hashes, dataset.cache.stats()]))
"""


class Job:
    """A job that runs."""

    def __init__(
        self,
        place: Place,
        folder: Path,
        rank: int = 0,
        world: int = 1,
        epochs: int = 1,
        prefix: Sequence[str] = (),
    ) -> None:
        arguments = json.dumps([place.url, place.options, str(folder), rank, world, epochs])
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-c", JOB, arguments],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def wait_for_first_batch(self) -> None:
        """Waits until it has its first batch."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "begun\n"

    def result(self) -> tuple[list[str], dict[str, Any]]:
        """Waits for its end; returns its batches' hashes, and what its cache did."""
        said, _ = self.process.communicate(timeout=120)
        assert self.process.returncode == 0
        hashes, stats = json.loads(said.splitlines()[-1])
        return hashes, stats


@pytest.fixture
def daemons() -> Iterator[Callable[..., Daemon]]:
    """Returns a function that starts daemons, which are killed at the end."""
    started: list[Daemon] = []

    def start(*arguments: Any, **options: Any) -> Daemon:
        started.append(Daemon(*arguments, **options))
        return started[-1]

    yield start
    for daemon in started:
        daemon.kill()


@pytest.fixture
def counted(nginx: Nginx, photos: Path, chaos: Callable[..., ChaosProxy]) -> tuple[Place, Any]:
    """Returns the photographs behind a proxy that counts, and that proxy."""
    proxy = chaos(nginx.url)
    place = through(Place(f"{nginx.url}/{on_web(nginx, photos)}", None, nginx.url), proxy)
    return place, proxy


def stored_bytes(photos: Path) -> int:
    return sum(path.stat().st_size for path in (photos / "chunks").iterdir())


def asked_twice(proxy: ChaosProxy) -> list[str]:
    """Returns the bytes of chunks that the origin was asked for more than once, in words."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for request in proxy.requests():
        if "/chunks/" not in request.line:
            continue
        for begin, end in re.findall(r"(\d+)-(\d+)", request.range):
            spans.setdefault(request.line, []).append((int(begin), int(end)))
    twice = []
    for line, found in spans.items():
        found.sort()
        pairs = itertools.pairwise(found)
        twice += [f"{line} {one} {other}" for one, other in pairs if other[0] <= one[1]]
    return twice


def expected(photos: Path, **more: Any) -> list[str]:
    return epoch(photos, regions="never", **more)


def metrics(daemon: Daemon) -> dict[str, float]:
    """Returns the samples of /metrics by their names and labels, as Prometheus reads them."""
    found = {}
    for family in text_string_to_metric_families(daemon.get("metrics")):
        assert family.documentation and family.type in ("counter", "gauge"), family
        for sample in family.samples:
            labels = "".join(f"{{{key}={value}}}" for key, value in sample.labels.items())
            found[sample.name + labels] = sample.value
    return found


def test_jobs_one_after_the_other_and_at_once_read_each_byte_once(
    counted: tuple[Place, ChaosProxy],
    photos: Path,
    tmp_path: Path,
    daemons: Callable[..., Daemon],
) -> None:
    place, proxy = counted
    daemon = daemons([place.url], tmp_path, "--disk-bytes", "1GB")
    assert "serves" in daemon.said
    both = [Job(place, tmp_path, rank, 2) for rank in range(2)]
    for rank, job in enumerate(both):
        hashes, stats = job.result()
        assert hashes == expected(photos, rank=rank, world_size=2)
        assert not stats["serves"]
        assert stats["peer_failures"] == 0
        assert stats["origin_bytes"] == 0
    hashes, stats = Job(place, tmp_path).result()
    assert hashes == expected(photos)
    assert stats["origin_bytes"] == 0
    assert stats["peer_hit_bytes"] >= stored_bytes(photos) * 0.9
    assert asked_twice(proxy) == []
    own = daemon.figures()
    assert 0 < own["origin_bytes"] <= stored_bytes(photos)
    assert own["disk_held_bytes"] >= own["origin_bytes"]
    daemon.stop()
    assert not (tmp_path / "forebay-cache").exists()


def test_a_daemon_that_was_killed_goes_on_with_what_it_held(
    counted: tuple[Place, ChaosProxy],
    photos: Path,
    tmp_path: Path,
    daemons: Callable[..., Daemon],
) -> None:
    place, proxy = counted
    options = ("--disk-bytes", "1GB", "--memory-bytes", "1MB")
    daemon = daemons([place.url], tmp_path, *options)
    Job(place, tmp_path).result()
    held = daemon.figures()
    assert held["memory_held_bytes"] > 0
    daemon.kill()
    daemon = daemons([place.url], tmp_path, *options)
    own = daemon.figures()
    for tier in ("memory", "disk"):
        assert own[f"{tier}_held_bytes"] == held[f"{tier}_held_bytes"]
    hashes, stats = Job(place, tmp_path).result()
    assert hashes == expected(photos)
    assert daemon.figures()["origin_bytes"] == stats["origin_bytes"] == 0
    assert asked_twice(proxy) == []
    # While a job runs, one of its processes goes on, and the new daemon after it.
    job = Job(place, tmp_path, epochs=40)
    job.wait_for_first_batch()
    daemon.kill()
    wait_for(lambda: json.loads((tmp_path / "forebay-cache/server").read_text())["job"] == "")
    daemon = daemons([place.url], tmp_path, *options)
    assert "another process serves this folder" in daemon.said
    assert not daemon.figures()["serves"]
    hashes, _ = job.result()
    assert hashes == expected(photos, count=40)
    wait_for(lambda: bool(daemon.figures()["serves"]))
    assert daemon.figures()["disk_held_bytes"] > 0
    daemon.stop()
    assert not (tmp_path / "forebay-cache").exists()


def test_what_shall_be_kept_is_there_after_a_stop(
    counted: tuple[Place, ChaosProxy],
    photos: Path,
    tmp_path: Path,
    daemons: Callable[..., Daemon],
) -> None:
    place, proxy = counted
    daemon = daemons([place.url], tmp_path, "--disk-bytes", "1GB", "--keep")
    Job(place, tmp_path).result()
    daemon.stop()
    daemon = daemons([place.url], tmp_path, "--disk-bytes", "1GB", "--keep")
    assert daemon.figures()["found_bytes"] > 0
    hashes, _ = Job(place, tmp_path).result()
    assert hashes == expected(photos)
    assert daemon.figures()["origin_bytes"] == 0
    assert asked_twice(proxy) == []


def test_a_store_is_reached_with_options_and_the_environment(
    s3: S3, bucket: str, photos: Path, tmp_path: Path, daemons: Callable[..., Daemon]
) -> None:
    env = environment(s3)
    endpoint = env.pop("AWS_ENDPOINT_URL")
    options = ("--memory-bytes", "50MB", "--storage-option", f"endpoint_url={endpoint}")
    daemon = daemons([f"s3://{bucket}/set"], tmp_path, *options, env=env)
    place = Place(f"s3://{bucket}/set", {"client_kwargs": {"endpoint_url": endpoint}, "key":
                  s3.key.access, "secret": s3.key.secret}, endpoint)  # fmt: skip
    hashes, stats = Job(place, tmp_path).result()
    assert hashes == expected(photos)
    assert stats["origin_bytes"] == 0
    assert daemon.figures()["memory_held_bytes"] > 0


def test_metrics_are_what_prometheus_reads(
    counted: tuple[Place, ChaosProxy],
    tmp_path: Path,
    daemons: Callable[..., Daemon],
) -> None:
    place, _ = counted
    daemon = daemons([place.url], tmp_path, "--disk-bytes", "1GB", "--memory-bytes", "1MB")
    before = metrics(daemon)
    assert before["forebay_cache_serving"] == before["forebay_cache_members"] == 1
    assert before["forebay_cache_limit_bytes{tier=disk}"] == 1e9
    assert before["forebay_cache_read_bytes_total{from=origin}"] == 0
    for _ in range(2):
        Job(place, tmp_path).result()
    own, after = daemon.figures(), metrics(daemon)
    assert after["forebay_cache_held_bytes{tier=disk}"] == own["disk_held_bytes"] > 0
    assert after["forebay_cache_held_bytes{tier=memory}"] == own["memory_held_bytes"] > 0
    for source in ("memory", "disk", "origin"):
        assert after[f"forebay_cache_read_bytes_total{{from={source}}}"] > 0
    assert after["forebay_cache_served_bytes_total"] == own["served_bytes"] > 0
    assert after["forebay_cache_served_requests_total"] > 0
    assert after["forebay_cache_trouble"] == 0
    assert after["forebay_cache_uptime_seconds"] > before["forebay_cache_uptime_seconds"]


def status_of(url: str, method: str = "GET", data: bytes | None = None) -> int:
    try:
        request = urllib.request.Request(url, method=method, data=data)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def raw(url: str, text: bytes) -> bytes:
    """Sends these bytes and returns what comes until the server closes."""
    host, port = url.split("/")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        while more := client.recv(65536):
            answer += more
        return answer


def test_bad_requests_and_clients_that_hang_hold_nothing_up(
    counted: tuple[Place, ChaosProxy],
    photos: Path,
    tmp_path: Path,
    daemons: Callable[..., Daemon],
) -> None:
    place, _ = counted
    daemon = daemons([place.url], tmp_path, "--disk-bytes", "1GB")
    assert status_of(daemon.page()) == status_of(daemon.page(), "HEAD") == 200
    assert status_of(daemon.page("metrics") + "&x=1") == 200
    assert status_of(daemon.url + "metrics") == status_of(daemon.url) == 401
    for path in ("nothing", "../etc/passwd", "%2e%2e/etc/passwd", "metrics/"):
        assert status_of(daemon.page(path)) == 404
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert status_of(daemon.page(), method) == 405
    assert status_of(daemon.page(), "GET", b"a body") == 400
    assert raw(daemon.url, b"\x16\x03\x01\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert raw(daemon.url, b"GET / HTTP/1.1\r\nX: " + b"x" * 20000).startswith(b"HTTP/1.1 400 ")
    host, port = daemon.url.split("/")[2].split(":")
    hanging = [socket.create_connection((host, int(port)), timeout=10) for _ in range(200)]
    for client in hanging:
        client.send(b"GET / HTTP/1.1\r\n")
    hashes, stats = Job(place, tmp_path).result()
    assert hashes == expected(photos)
    assert stats["peer_failures"] == stats["origin_bytes"] == 0
    # Their time ends, and others have their places again.
    wait_for(lambda: answers(daemon.page()))
    for client in hanging:
        client.close()
    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(lambda _: status_of(daemon.page("status.json")), range(200))) == {200}


def answers(url: str) -> bool:
    try:
        return status_of(url) == 200
    except OSError:
        return False


def test_what_makes_no_sense_is_refused(
    counted: tuple[Place, ChaosProxy], tmp_path: Path, daemons: Callable[..., Daemon]
) -> None:
    place, _ = counted

    def said(*words: str, code: int = 1) -> str:
        done = run_forebay("cache", place.url, "--folder", tmp_path, *words, code=code)
        return done.stderr

    serve = ("--serve", "--disk-bytes", "1GB")
    assert "--serve is required" in said("--disk-bytes", "1GB", code=2)
    assert "--disk-bytes or --memory-bytes" in said("--serve")
    assert "--keep goes with --disk-bytes" in said("--serve", "--memory-bytes", "1MB", "--keep")
    assert "/dev/shm has room for" in said("--serve", "--memory-bytes", "900TB")
    assert "ADDRESS:PORT" in said(*serve, "--status", "here")
    assert "none of the 1 machines" in said(*serve, "--members", "192.0.2.1:7400")
    assert "twice" in said(*serve, "--members", "127.0.0.1:7400,127.0.0.1:7400")
    assert "set `address`" in said(*serve, "--members", "127.0.0.1:7400,127.0.0.1:7401")
    write_secret(tmp_path / "short", "short\n")
    secret = ("--secret-file", str(tmp_path / "short"))
    assert "16" in said(*serve, "--members", f"127.0.0.1:{free_port()}", *secret)
    daemon = daemons([place.url], tmp_path, "--disk-bytes", "1GB")
    taken = daemon.url.split("/")[2]
    assert taken.split(":")[1] in said(*serve, "--status", taken)
    done = run_forebay("cache", f"{place.url}-not", "--folder", tmp_path / "other", *serve, code=1)
    assert "not" in done.stderr
    assert not (tmp_path / "other/forebay-cache").exists()


def listed(count: int) -> list[str]:
    return [f"127.0.0.1:{free_port()}" for _ in range(count)]


def list_options(places: list[str], number: int, secret_file: Path) -> tuple[str, ...]:
    return ("--disk-bytes", "1GB", "--members", ",".join(places), "--address", places[number],
            "--secret-file", str(secret_file))  # fmt: skip


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    return write_secret(tmp_path / "secret", SECRET + "\n")


def test_daemons_of_a_list_make_one_cache(
    nginx: Nginx,
    many_chunks: Path,
    tmp_path: Path,
    secret_file: Path,
    chaos: Callable[..., ChaosProxy],
    daemons: Callable[..., Daemon],
) -> None:
    proxy = chaos(nginx.url)
    place = Place(f"{proxy.url}/{on_web(nginx, many_chunks)}", None, proxy.url)
    places = listed(3)

    def start(number: int) -> Daemon:
        folder = tmp_path / str(number)
        return daemons([place.url], folder, *list_options(places, number, secret_file))

    first = start(0)
    assert first.figures()["trouble"] == "none of the 2 other machines of the list answers"
    second = start(1)
    first.sees(2)
    assert first.figures()["trouble"] == ""
    # A job of each machine, which has no secret, has everything through its machine's daemon.
    jobs = [Job(place, tmp_path / str(number)) for number in range(2)]
    for job in jobs:
        hashes, stats = job.result()
        assert hashes == expected(many_chunks)
        assert stats["origin_bytes"] == stats["peer_failures"] == 0
        assert stats["members"] == 1
    assert asked_twice(proxy) == []
    own = [daemon.figures() for daemon in (first, second)]
    assert all(figures["disk_held_bytes"] > 0 for figures in own)
    assert all(figures["peer_hit_bytes"] > 0 for figures in own)
    # A third one is found by the two that were there, and takes its share from them.
    third = start(2)
    third.sees(3)
    Job(place, tmp_path / "2").result()
    assert third.figures()["origin_bytes"] == 0
    assert asked_twice(proxy) == []
    # The status of all machines comes from any of them.
    by_address = {machine["address"]: machine for machine in third.machines()}
    assert set(by_address) == set(places)
    assert by_address[places[0]]["disk_held_bytes"] == first.figures()["disk_held_bytes"]
    assert by_address[places[0]]["folder"] == str(tmp_path / "0/forebay-cache")
    # One that was killed is gone, and comes back with what it held.
    second.kill()
    wait_for(lambda: len(first.machines()) == 2)
    hashes, stats = Job(place, tmp_path / "0").result()
    assert hashes == expected(many_chunks)
    assert stats["peer_failures"] == 0
    second = start(1)
    first.sees(3)
    assert second.figures()["found_bytes"] > 0


def test_a_wrong_secret_is_no_member(
    counted: tuple[Place, ChaosProxy],
    tmp_path: Path,
    secret_file: Path,
    daemons: Callable[..., Daemon],
) -> None:
    place, _ = counted
    places = listed(2)
    other = tmp_path / "other secret"
    write_secret(other, "another secret of the tests")
    first = daemons([place.url], tmp_path / "0", *list_options(places, 0, secret_file))
    second = daemons([place.url], tmp_path / "1", *list_options(places, 1, other))
    wait_for(lambda: len(first.machines()) == len(second.machines()) == 1)
    for daemon in (first, second):
        assert "none of the 1 other machines" in daemon.figures()["trouble"]
    # Nobody without the secret has anything from a member's port.
    assert b"HTTP" not in raw(f"http://{places[0]}/", b"GET /figures HTTP/1.1\r\n\r\n")


@contextmanager
def machines(count: int) -> Iterator[list[str]]:
    """Makes networks of machines with the addresses 10.99.0.1 and so on; yields their names.

    They are linked with this thread's network, whose address is 10.99.0.254.
    """
    names = [f"forebay-{os.getpid()}-{number}" for number in range(1, count + 1)]
    network.run("ip", "link", "add", "bridge", "type", "bridge")
    network.run("ip", "address", "add", "10.99.0.254/24", "dev", "bridge")
    network.run("ip", "link", "set", "bridge", "up")
    try:
        for number, name in enumerate(names, 1):
            network.run("ip", "netns", "add", name)
            network.run("ip", "link", "add", f"to{number}", "type", "veth",
                        "peer", "name", "eth0", "netns", name)  # fmt: skip
            network.run("ip", "link", "set", f"to{number}", "master", "bridge", "up")
            inside = ("ip", "-n", name)
            network.run(*inside, "address", "add", f"10.99.0.{number}/24", "dev", "eth0")
            network.run(*inside, "link", "set", "eth0", "up")
            network.run(*inside, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            network.run("ip", "netns", "delete", name)


def test_machines_find_themselves_in_the_list_and_each_other_again(
    many_chunks: Path, tmp_path: Path, secret_file: Path, daemons: Callable[..., Daemon]
) -> None:
    places = ["10.99.0.1:7400", "10.99.0.2:7400"]

    def start(number: int, name: str, url: str) -> Daemon:
        return daemons(
            [url],
            tmp_path / str(number),
            *("--disk-bytes", "1GB", "--members", ",".join(places)),
            *("--secret-file", str(secret_file), "--status", f"10.99.0.{number}:7401"),
            prefix=("ip", "netns", "exec", name),
        )

    def work() -> None:
        (tmp_path / "nginx").mkdir()
        with machines(2) as names, run_nginx(tmp_path / "nginx", host="10.99.0.254") as nginx:
            url = f"{nginx.url}/{on_web(nginx, many_chunks)}"
            first, second = (start(number, name, url) for number, name in enumerate(names, 1))
            first.sees(2)
            second.sees(2)
            for number, name in enumerate(names, 1):
                job = Job(Place(url, None, ""), tmp_path / str(number), prefix=(
                          "ip", "netns", "exec", name))  # fmt: skip
                hashes, stats = job.result()
                assert hashes == expected(many_chunks)
                assert stats["origin_bytes"] == stats["peer_failures"] == 0
            stored = sum(path.stat().st_size for path in (many_chunks / "chunks").iterdir())
            own = [daemon.figures() for daemon in (first, second)]
            assert sum(figures["origin_bytes"] for figures in own) <= stored
            assert all(figures["peer_hit_bytes"] > 0 for figures in own)
            # Each is alone while the link is down, and says so.
            network.run("ip", "link", "set", "to2", "down")
            wait_for(lambda: "none of the 1 other" in first.figures()["trouble"])
            network.run("ip", "link", "set", "to2", "up")
            first.sees(2)

    network.in_own_network(work)


def test_a_list_in_python_makes_one_cache(nginx: Nginx, many_chunks: Path, tmp_path: Path) -> None:
    url = f"{nginx.url}/{on_web(nginx, many_chunks)}"
    places = listed(2)
    caches = [
        forebay.Cache(
            tmp_path / str(number),
            disk_bytes="1GB",
            members=places,
            address=places[number],
            secret=SECRET,
        )
        for number in range(2)
    ]
    wait_for(lambda: all(cache.stats()["members"] == 2 for cache in caches))
    more: dict[str, Any] = {"regions": "never", "count": 2}
    datasets = [forebay.Dataset(url, cache=cache) for cache in caches]
    for dataset in datasets:
        assert epoch(dataset, **more) == epoch(many_chunks, **more)
    stats = [cache.stats() for cache in caches]
    stored = sum(path.stat().st_size for path in (many_chunks / "chunks").iterdir())
    assert 0 < sum(one["origin_bytes"] for one in stats) <= stored
    assert all(one["disk_held_bytes"] > 0 for one in stats)
    assert all(one["trouble"] == "" for one in stats)


def test_a_list_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    def message(members: Any, **more: Any) -> str:
        with pytest.raises(ValueError) as error:
            forebay.Cache(tmp_path, disk_bytes="1GB", members=members, **more)
        return str(error.value)

    assert "must list each machine's" in message("127.0.0.1:7400")
    assert "must list each machine's" in message([])
    assert "is not HOST:PORT" in message(["10.0.0:7400"])
    assert "is not HOST:PORT" in message(["::1:7400"])
    assert "port must be known" in message(["127.0.0.1:0"])
    assert "need a secret" in message(["192.0.2.1:7400"], address="192.0.2.1")
    assert "secret needs members" in message(None, secret=SECRET)
    assert SECRET not in repr(forebay.Cache(tmp_path, disk_bytes="1GB", secret=SECRET,
                                            members=[f"127.0.0.1:{free_port()}"]))  # fmt: skip


def test_machines_of_a_list_of_names_find_each_other(
    many_chunks: Path, tmp_path: Path, secret_file: Path, daemons: Callable[..., Daemon]
) -> None:
    """On each machine its own name leads to 127.0.1.1, as on Debian, but elsewhere to its address.

    The first machine does not know the second one's address when it starts, and the second one has
    a wrong address of the first. The second comes back at another address.
    """
    hosts = [tmp_path / "hosts-1", tmp_path / "hosts-2"]
    hosts[0].write_text("127.0.0.1 localhost\n127.0.1.1 node-1\n")
    hosts[1].write_text("127.0.0.1 localhost\n127.0.1.1 Node-2\n10.99.0.77 node-1\n")

    def on(number: int, name: str) -> tuple[str, ...]:
        mount = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return ("ip", "netns", "exec", name, "unshare", "-m", "sh", "-c", mount,
                str(hosts[number - 1]))  # fmt: skip

    def start(number: int, name: str, url: str, address: str) -> Daemon:
        return daemons(
            [url],
            tmp_path / str(number),
            *("--disk-bytes", "1GB", "--members", "node-1:7400,Node-2:7400"),
            *("--secret-file", str(secret_file), "--status", f"{address}:7401"),
            prefix=on(number, name),
        )

    def work() -> None:
        (tmp_path / "nginx").mkdir()
        with machines(2) as names, run_nginx(tmp_path / "nginx", host="10.99.0.254") as nginx:
            url = f"{nginx.url}/{on_web(nginx, many_chunks)}"
            first = start(1, names[0], url, "10.99.0.1")
            second = start(2, names[1], url, "10.99.0.2")
            assert first.figures()["trouble"] == second.figures()["trouble"] != ""
            with hosts[0].open("a") as file:
                file.write("10.99.0.2 node-2\n")
            first.sees(2)
            second.sees(2)
            addresses = {machine["address"] for machine in second.machines()}
            assert addresses == {"10.99.0.1:7400", "10.99.0.2:7400"}
            for number, name in enumerate(names, 1):
                job = Job(Place(url, None, ""), tmp_path / str(number), prefix=on(number, name))
                hashes, stats = job.result()
                assert hashes == expected(many_chunks)
                assert stats["origin_bytes"] == stats["peer_failures"] == 0
            # Both have the same ids for both, so each byte was read once.
            stored = sum(path.stat().st_size for path in (many_chunks / "chunks").iterdir())
            assert sum(one.figures()["origin_bytes"] for one in (first, second)) <= stored
            second.kill()
            wait_for(lambda: len(first.machines()) == 1)
            inside = ("ip", "-n", names[1], "address")
            network.run(*inside, "delete", "10.99.0.2/24", "dev", "eth0")
            network.run(*inside, "add", "10.99.0.3/24", "dev", "eth0")
            second = start(2, names[1], url, "10.99.0.3")
            hosts[0].write_text(hosts[0].read_text().replace("10.99.0.2", "10.99.0.3"))
            first.sees(2)
            assert {machine["address"] for machine in first.machines()} == {
                "10.99.0.1:7400",
                "10.99.0.3:7400",
            }

    network.in_own_network(work)
