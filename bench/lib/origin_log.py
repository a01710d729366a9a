"""Servers that write down which ranges of which files they were asked for, as a job's origin."""

import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from lib.remote_servers import (
    S3,
    free_port,
    kill,
    listens,
    run_gateway,
    start_server,
    unreachable,
    wait_until,
)

CONFIG = """
daemon off;
worker_processes 1;
user root;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 4096; }}
http {{
  log_format asked "$remote_addr $status $body_bytes_sent $uri $http_range";
  access_log {folder}/access.log asked;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000;
  default_type application/octet-stream;
  client_body_temp_path {folder}/temp;
  proxy_temp_path {folder}/temp;
  fastcgi_temp_path {folder}/temp;
  uwsgi_temp_path {folder}/temp;
  scgi_temp_path {folder}/temp;
  server {{
    listen {host}:{port} backlog=4096;
    location / {{ root {folder}/files; }}
  }}
}}
"""
# In Ceph's log, which has spaces in other fields.
GOT = re.compile(r'"GET (\S+) HTTP/1\.1" 206 (\d+) .* bytes=(\S+) latency=')
SPAN = re.compile(r"(\d+)-(\d+)")
Spans = list[tuple[int, int]]  # begin and end


class Asked(NamedTuple):
    """A request for ranges of a chunk.

    Attributes:
        client: The address of who asked.
        file: The chunk's name.
        spans: Begin and end of each range.
        sent: Bytes of the answer's body.
    """

    client: str
    file: str
    spans: Spans
    sent: int


def spans_of(header: str) -> Spans:
    """The ranges that a Range header asks for."""
    return [(int(begin), int(end) + 1) for begin, end in SPAN.findall(header)]


class NewLines:
    """What was written to a log since the last call."""

    def __init__(self, log: Path) -> None:
        self._log = log.open()
        self._begun = ""  # a line that is not yet there as a whole

    def read(self) -> list[str]:
        """The lines since the last call."""
        lines = (self._begun + self._log.read()).split("\n")
        self._begun = lines.pop()
        return lines


class Gateway:
    """A gateway of Ceph, while it runs.

    Attributes:
        endpoint: http://HOST:PORT.
    """

    def __init__(self, endpoint: str, log: Path) -> None:
        self.endpoint, self._new = endpoint, NewLines(log)

    def asked(self) -> list[Asked]:
        """The requests for ranges of chunks since the last call."""
        chunks = []
        for found in filter(None, map(GOT.search, self._new.read())):
            path, sent, ranges = found.groups()
            if "/chunks/" in path:
                chunks.append(Asked("", path.rsplit("/", 1)[1], spans_of(ranges), int(sent)))
        return chunks


class Origin:
    """An nginx, while it runs.

    Attributes:
        url: http://HOST:PORT, which serves what lies in `folder`, also through links.
    """

    def __init__(self, folder: Path, host: str) -> None:
        (folder / "files").mkdir(parents=True)
        self.folder, self._own = folder / "files", folder
        self._host, self._port = host, free_port(host)
        self.url = f"http://{host}:{self._port}"
        text = CONFIG.format(folder=folder, host=host, port=self._port)
        (folder / "nginx.conf").write_text(text)
        self._start()
        self._new = NewLines(folder / "access.log")

    def _start(self) -> None:
        log = self._own / "nginx.log"
        self._server = start_server(self._own / "nginx.conf", log)
        try:
            wait_until(lambda: listens(self._port, self._host), self._server, log)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Ends the server at once."""
        kill(self._server)

    @contextmanager
    def away(self) -> Iterator[None]:
        """The server does not run while the context lasts, so that connections are refused."""
        self.end()
        try:
            yield
        finally:
            self._start()

    def unreachable(self) -> AbstractContextManager[None]:
        """All packets to the server are dropped while the context lasts."""
        return unreachable(self._host, self._port)

    def asked(self) -> tuple[list[Asked], int]:
        """The requests for chunks since the last call, and the bytes of the other answers."""
        chunks, other = [], 0
        for line in self._new.read():
            client, status, sent, path, ranges = line.split(" ", 4)
            if "/chunks/" not in path or status != "206":
                other += int(sent)
                continue
            chunks.append(Asked(client, path.rsplit("/", 1)[1], spans_of(ranges), int(sent)))
        return chunks, other


def asked_bytes(requests: Iterable[Asked]) -> int:
    """The bytes of all their ranges."""
    return sum(end - begin for one in requests for begin, end in one.spans)


def distinct_bytes(requests: Iterable[Asked]) -> int:
    """The bytes of all their ranges, where those that several asked for count once."""
    files: dict[str, Spans] = defaultdict(list)
    for one in requests:
        files[one.file] += one.spans
    total = 0
    for spans in files.values():
        seen = 0
        for begin, end in sorted(spans):
            total += max(0, end - max(begin, seen))
            seen = max(seen, end)
    return total


@contextmanager
def run_origin(folder: Path, host: str) -> Iterator[Origin]:
    """Runs the server on this address, with its files in an empty folder."""
    if shutil.which("nginx", path="/usr/sbin:/usr/bin") is None:
        sys.exit("bench cache: needs nginx (Debian package nginx-light)")
    origin = Origin(folder, host)
    try:
        yield origin
    finally:
        origin.end()


@contextmanager
def run_gateway_origin(s3: S3, folder: Path, host: str) -> Iterator[Gateway]:
    """Runs another gateway of the store on this address, with its log in this folder."""
    port, log = free_port(host), folder / "asked.log"
    with run_gateway(s3, port, host, log):
        yield Gateway(f"http://{host}:{port}", log)
