"""One core that serves ranges of a file: Forebay's share of a cache beside nginx.

nginx has `tcp_nopush` off: with it, answers of 66 and 110 kB over loopback took 29 ms each, also
for the client wrk, while the server idled.
"""

import contextlib
import json
import os
import secrets
import shutil
import signal
import statistics
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lib.comparison import Comparison, Side, show_table
from lib.program import ROOT
from lib.remote_servers import free_port, listens, wait_until
from lib.side_process import cpu_seconds

PROGRAMS = ROOT / "build/release/bench"
FILE_BYTES = 512_000_000
CONNECTIONS = 16
SERVER_CORE, CLIENT_CORE = "0", "1"
SECONDS = 1.5  # of a turn
HOST = "127.0.0.1"
CONFIG = """
daemon off;
worker_processes 1;
worker_rlimit_nofile 4096;
user root;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 1024; multi_accept on; }}
http {{
  access_log off;
  sendfile on;
  tcp_nodelay on;
  keepalive_requests 1000000000;
  open_file_cache max=100 inactive=1h;
  open_file_cache_valid 1h;
  default_type application/octet-stream;
  ssl_protocols TLSv1.3;
  server {{
    listen {host}:{port} {tls} backlog=1024;
    root {files};
    {certificate}
  }}
}}
"""


class Asked(NamedTuple):
    """What a request asks for."""

    name: str
    bytes: int  # of a range
    ranges: int


SIZES = (
    Asked("16k", 16 << 10, 1),
    Asked("110k", 110_000, 1),
    Asked("4m", 4 << 20, 1),
    Asked("8x16k", 16 << 10, 8),
    Asked("8x110k", 110_000, 8),
)


class Server(NamedTuple):
    """A server that runs: its process, and how it is asked for the file."""

    process: subprocess.Popen
    port: int
    target: str
    pem: Path | None = None


class Serving(Side):
    """A server's turns, each with a client that asks for ranges of one kind after another."""

    def __init__(self, server: Server, file: Path) -> None:
        self.server, self.file = server, file

    def turn(self) -> dict[str, dict[str, float]]:
        """What the client counted, and "server_cpu_seconds", by the names of SIZES."""
        return {asked.name: self._ask(asked) for asked in SIZES}

    def _ask(self, asked: Asked) -> dict[str, float]:
        server = self.server
        client = PROGRAMS / "bench_range_client"
        command = ["taskset", "-c", CLIENT_CORE, client, HOST, server.port, server.target,
                   self.file, asked.bytes, asked.ranges, CONNECTIONS, SECONDS]  # fmt: skip
        if server.pem:
            command.append(server.pem)
        before = cpu_seconds(server.process.pid)
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        used = cpu_seconds(server.process.pid) - before
        return {**json.loads(done.stdout), "server_cpu_seconds": used}


@contextmanager
def run_nginx(folder: Path, files: Path, pem: Path | None) -> Iterator[Server]:
    """Runs an nginx that serves `files`, on one core; `pem`: by TLS with this certificate."""
    folder.mkdir()
    port = free_port(HOST)
    certificate = f"ssl_certificate {pem}; ssl_certificate_key {pem};" if pem else ""
    tls = "ssl" if pem else ""
    text = CONFIG.format(folder=folder, files=files, host=HOST, port=port, tls=tls,
                         certificate=certificate)  # fmt: skip
    config, log = folder / "nginx.conf", folder / "nginx.log"
    config.write_text(text)
    nginx = shutil.which("nginx", path=f"/usr/sbin:{os.environ['PATH']}")
    process = subprocess.Popen(["taskset", "-c", SERVER_CORE, str(nginx), "-e", log, "-p", folder,
                                "-c", config], start_new_session=True)  # fmt: skip
    try:
        wait_until(lambda: listens(port, HOST), process, log)
        yield Server(process, port, "/file", pem)
    finally:
        end(process)


@contextmanager
def run_forebay(folder: Path, tier: str, file: Path, secret: str) -> Iterator[Server]:
    """Runs a process that holds the file in its share of a cache, and serves it on one core."""
    command = ["taskset", "-c", SERVER_CORE, str(PROGRAMS / "bench_serve"), str(folder), tier,
               str(file), *([secret] if secret else [])]  # fmt: skip
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               start_new_session=True)  # fmt: skip
    assert process.stdin and process.stdout
    try:
        said = json.loads(process.stdout.readline())
        pem = folder.with_name(f"{folder.name}.pem") if secret else None
        yield Server(process, said["port"], said["target"], pem)
        process.stdin.close()
        if process.wait(timeout=20) != 0:
            raise RuntimeError("the process that serves failed")
    finally:
        end(process)


def end(process: subprocess.Popen) -> None:
    """Ends a server and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def show(title: str, taken: dict[str, list[dict[str, dict[str, float]]]]) -> None:
    """Prints a table for each kind of request; medians of the turns."""
    for asked in SIZES:
        rows = {
            name: [
                statistics.median(measure(turn[asked.name]) for turn in turns)
                for measure in (
                    lambda one: one["requests"] / one["seconds"],
                    lambda one: one["bytes"] / one["seconds"] / 1e9,
                    lambda one: one["server_cpu_seconds"] / one["requests"] * 1e6,
                    lambda one: 100 * one["server_cpu_seconds"] / one["seconds"],
                    lambda one: 100 * one["cpu_seconds"] / one["seconds"],
                )
            ]
            for name, turns in taken.items()
        }
        columns = {"requests / s": "14.0f", "GB / s": "9.2f", "CPU us each": "13.1f",
                   "server %": "10.0f", "client %": "10.0f"}  # fmt: skip
        show_table(f"{title} {asked.name}", columns, rows)


def compare(root: Path, rounds: int, *, tls: bool) -> dict[str, float]:
    """Both servers, with the file in the page cache (disk) and in a tmpfs (memory)."""
    figures = {}
    end_of_name = "_tls" if tls else ""
    for tier in ("disk", "memory"):
        name = f"forebay-bench-{os.getpid()}-{tier}"
        files = (root if tier == "disk" else Path("/dev/shm")) / f"{name}-files"
        files.mkdir()
        file = files / "file"
        try:
            file.write_bytes(os.urandom(FILE_BYTES))
            secret = secrets.token_hex(32) if tls else ""
            with (
                run_forebay(root / name, tier, file, secret) as ours,
                run_nginx(root / f"{name}-nginx", files, ours.pem) as nginx,
            ):
                sides: dict[str, Any] = {"forebay": ours, "nginx": nginx}
                comparison = Comparison("cache", sides, needed=sides)
                comparison.open(lambda side: Serving(sides[side], file))  # noqa: B023
                taken = comparison.rounds(rounds)
        finally:
            shutil.rmtree(files)
            shutil.rmtree(root / f"{name}-nginx", ignore_errors=True)
        show(f"{tier}{end_of_name}", taken)
        for asked in SIZES:
            pairs = [
                (one[asked.name], other[asked.name])
                for one, other in zip(taken["forebay"], taken["nginx"], strict=True)
            ]
            for kind, key in (("", "seconds"), ("_cpu", "server_cpu_seconds")):
                figures[f"serve_vs_nginx_{asked.name}_{tier}{end_of_name}{kind}_x"] = (
                    statistics.median(
                        one["requests"] / one[key] / (other["requests"] / other[key])
                        for one, other in pairs
                    )
                )
    return figures
