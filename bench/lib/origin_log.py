"""An nginx that writes down which ranges of which files it was asked for, as a job's origin."""

import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lib.remote_servers import free_port, kill, listens, start_server, wait_until

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


class Origin:
    """The server, while it runs.

    Attributes:
        url: http://HOST:PORT, which serves what lies in `folder`, also through links.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder / "files"
        self._log = (folder / "access.log").open()
        self._begun = ""  # a line that is not yet there as a whole

    def asked(self) -> tuple[list[Asked], int]:
        """The requests for chunks since the last call, and the bytes of the other answers."""
        chunks, other = [], 0
        lines = (self._begun + self._log.read()).split("\n")
        self._begun = lines.pop()
        for line in lines:
            client, status, sent, path, ranges = line.split(" ", 4)
            if "/chunks/" not in path or status != "206":
                other += int(sent)
                continue
            spans = [(int(begin), int(end) + 1) for begin, end in SPAN.findall(ranges)]
            chunks.append(Asked(client, path.rsplit("/", 1)[1], spans, int(sent)))
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
    (folder / "files").mkdir(parents=True)
    port = free_port(host)
    config = folder / "nginx.conf"
    config.write_text(CONFIG.format(folder=folder, host=host, port=port))
    server = start_server(config, folder / "nginx.log")
    try:
        wait_until(lambda: listens(port, host), server, folder / "nginx.log")
        yield Origin(f"http://{host}:{port}", folder)
    finally:
        kill(server)
