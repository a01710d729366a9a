"""nginx on free ports, with certificates of a CA that is made for it.

`run_nginx` starts one that belongs to its caller, for tests that kill it; others use the fixture
`nginx`.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .processes import LOOPBACK, PROGRAM_PATH, free_port, kill, listens, run, start, wait_until

PACKAGES = {"nginx": "nginx-light", "openssl": "openssl", "curl": "curl"}
USER, PASSWORD = "reader", "open sesame"

CONFIG = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
{user}
events {{ worker_connections {connections_max}; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush on;
  default_type application/octet-stream;
  client_body_temp_path {folder}/temp;
  proxy_temp_path {folder}/temp;
  fastcgi_temp_path {folder}/temp;
  uwsgi_temp_path {folder}/temp;
  scgi_temp_path {folder}/temp;
  ssl_session_cache off;
  server {{
    listen {host}:{port} backlog=4096;
    listen {host}:{tls_port} ssl http2 backlog=4096;
    ssl_certificate {folder}/server.pem;
    ssl_certificate_key {folder}/server.key;
    include {folder}/locations.conf;
  }}
  server {{
    listen {host}:{expired_port} ssl http2;
    ssl_certificate {folder}/expired.pem;
    ssl_certificate_key {folder}/server.key;
    include {folder}/locations.conf;
  }}
  server {{
    listen {host}:{old_tls_port} ssl;
    ssl_protocols TLSv1;
    ssl_ciphers ALL:@SECLEVEL=0;
    ssl_certificate {folder}/server.pem;
    ssl_certificate_key {folder}/server.key;
    include {folder}/locations.conf;
  }}
}}
"""

# Each place below / serves the same files, in another manner.
LOCATIONS = """
location / {{ root {files}; }}
location /slow/ {{ alias {files}/; limit_rate 100k; }}
location /no-ranges/ {{ alias {files}/; max_ranges 0; }}
location /private/ {{ alias {files}/; auth_basic "tests"; auth_basic_user_file {folder}/users; }}
location /moved/ {{ rewrite ^/moved/(.*)$ /$1 redirect; }}
location /to-tls/ {{ rewrite ^/to-tls/(.*)$ {tls_url}/$1 redirect; }}
location /from-tls/ {{ rewrite ^/from-tls/(.*)$ {url}/$1 redirect; }}
location /loop/ {{ return 302 $request_uri; }}
location /moved-for-good/ {{ rewrite ^/moved-for-good/(.*)$ /$1 permanent; }}
location /login/ {{ return 302 /page?then=$request_uri; }}
location /page {{ default_type text/html; return 200 "<!DOCTYPE html><p>Who are you?"; }}
location /listed/ {{ alias {files}/; autoindex on; }}
location /zips/ {{ alias {files}/; gzip on; gzip_types *; gzip_min_length 0; }}
location /zipped-unless-refused/ {{
  if ($http_accept_encoding = identity) {{ rewrite ^/zipped-unless-refused/(.*)$ /$1 last; }}
  rewrite ^/zipped-unless-refused/(.*)$ /zipped/$1 last;
}}
location /zipped/ {{
  proxy_pass {url}/zips/;
  proxy_http_version 1.1;
  proxy_set_header Accept-Encoding gzip;
  proxy_set_header Connection "";
  add_header Via "1.1 a-proxy" always;
}}
"""


@dataclass(frozen=True)
class Nginx:
    """A running nginx. What lies in `folder` is served below each URL, also through symbolic links.

    Below the URLs, the places slow/ (100 KB/s a connection), no-ranges/, private/
    (basic authentication by USER and PASSWORD), moved/ and moved-for-good/ (redirect to the file),
    listed/ (shows folders as pages), zipped/ (a proxy that always compresses) and
    zipped-unless-refused/ (one that heeds "Accept-Encoding: identity") serve the same files;
    loop/ redirects to itself, login/ to a page, to-tls/ to the file at `tls_url` and from-tls/ to
    the file at `url`.
    """

    url: str  # http://HOST:PORT
    tls_url: str  # https://localhost:PORT, also HTTP/2; the certificate holds for localhost alone
    expired_url: str  # like tls_url, with a certificate that is no longer valid
    old_tls_url: str  # like tls_url, with TLS 1.0 alone
    ca_file: Path
    folder: Path
    group: int  # the process group of nginx, for tests that kill one of their own

    def describe(self) -> dict[str, Any]:
        """Returns the fields for `described`, to be stored as JSON."""
        return {**vars(self), "ca_file": str(self.ca_file), "folder": str(self.folder)}


def described(fields: dict[str, Any]) -> Nginx:
    """Returns the server of a description."""
    paths = {name: Path(fields[name]) for name in ("ca_file", "folder")}
    return Nginx(**{**fields, **paths})


def make_certificates(folder: Path) -> None:
    """Makes ca.pem, server.pem, expired.pem and server.key; the certificates are for localhost."""

    def openssl(*arguments: str) -> None:
        run(["openssl", *arguments], cwd=folder)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
            "-subj", "/CN=Forebay's tests")  # fmt: skip
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (folder / "server.ext").write_text("subjectAltName=DNS:localhost\n")
    for name, days in (("server", "2"), ("expired", "-1")):
        openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-extfile", "server.ext", "-days", days,
                "-out", f"{name}.pem")  # fmt: skip


def write_config(
    folder: Path, files: Path, host: str, ports: tuple[int, int, int, int], connections_max: int
) -> Path:
    """Writes nginx's configuration and returns its path."""
    config = folder / "nginx.conf"
    config.write_text(
        CONFIG.format(
            folder=folder,
            # Started by root, nginx would give up the right to read root's files.
            user="user root;" if os.geteuid() == 0 else "",
            host=host,
            port=ports[0],
            tls_port=ports[1],
            expired_port=ports[2],
            old_tls_port=ports[3],
            connections_max=connections_max,
        )
    )
    urls = {"url": f"http://{host}:{ports[0]}", "tls_url": f"https://localhost:{ports[1]}"}
    (folder / "locations.conf").write_text(LOCATIONS.format(folder=folder, files=files, **urls))
    (folder / "users").write_text(f"{USER}:{{PLAIN}}{PASSWORD}\n")
    return config


@contextmanager
def run_nginx(folder: Path, host: str = LOOPBACK, connections_max: int = 4096) -> Iterator[Nginx]:
    """Runs nginx, whose files are in `folder`, while the context lasts.

    Args:
        folder: Is empty.
        host: The address of this machine that it listens on.
        connections_max: How many connections it keeps at the same time.
    """
    files = folder / "files"
    files.mkdir()
    make_certificates(folder)
    ports = (free_port(host), free_port(host), free_port(host), free_port(host))
    config = write_config(folder, files, host, ports, connections_max)
    log = folder / "nginx.log"
    server = start_server(config, log)
    try:
        wait_until(lambda: all(listens(port, host) for port in ports), server, log)
        yield Nginx(
            url=f"http://{host}:{ports[0]}",
            tls_url=f"https://localhost:{ports[1]}",
            expired_url=f"https://localhost:{ports[2]}",
            old_tls_url=f"https://localhost:{ports[3]}",
            ca_file=folder / "ca.pem",
            folder=files,
            group=server.pid,
        )
    finally:
        kill(server)


LOGGING_PROXY = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
{user}
events {{ worker_connections 1024; }}
http {{
  log_format asked '$request_method $request_uri|$http_authorization|'
                   '$http_accept_encoding|{values}';
  access_log {folder}/asked.log asked;
  client_max_body_size 0;
  client_body_temp_path {folder}/temp;
  proxy_temp_path {folder}/temp;
  server {{
    listen {host}:{port};
    location / {{ proxy_pass {server}; proxy_set_header Host $http_host; }}
  }}
}}
"""


@dataclass(frozen=True)
class Asked:
    """A request as a proxy has seen it."""

    line: str  # "PUT /path?query"
    signed: set[str]  # the names of the headers that the signature covers
    accept_encoding: str
    values: tuple[str, ...]  # of the headers that were asked about; "-" for a missing one


@contextmanager
def run_logging_proxy(
    folder: Path, server: str, headers: list[str], host: str = LOOPBACK
) -> Iterator[tuple[str, Callable[[], list[Asked]]]]:
    """Runs an nginx in front of a server, which notes these headers of each request.

    Returns its URL, and a function that returns the requests so far.

    Args:
        folder: Is empty.
        server: The URL of the server, without a path.
        headers: Their names, in lower case.
        host: The address of this machine that it listens on.
    """
    port = free_port(host)
    values = "|".join(f"$http_{name.replace('-', '_')}" for name in headers)
    user = "user root;" if os.geteuid() == 0 else ""
    config = folder / "nginx.conf"
    config.write_text(
        LOGGING_PROXY.format(
            folder=folder, user=user, values=values, host=host, port=port, server=server
        )
    )

    def asked() -> list[Asked]:
        lines = (folder / "asked.log").read_text().splitlines()
        return [_asked(*line.split("|")) for line in lines]

    proxy = start_server(config, folder / "nginx.log")
    try:
        wait_until(lambda: listens(port, host), proxy, folder / "nginx.log")
        yield f"http://{host}:{port}", asked
    finally:
        kill(proxy)


def _asked(line: str, authorization: str, accept_encoding: str, *values: str) -> Asked:
    signed = authorization.partition("SignedHeaders=")[2].partition(",")[0]
    return Asked(line, set(signed.split(";")), accept_encoding, values)


@contextmanager
def run_again(nginx: Nginx) -> Iterator[None]:
    """Runs an nginx that was killed again, with its files and ports, while the context lasts."""
    log = nginx.folder.parent / "nginx.log"
    server = start_server(nginx.folder.parent / "nginx.conf", log)
    url = urlsplit(nginx.url)
    assert url.hostname and url.port
    port, host = url.port, url.hostname
    try:
        wait_until(lambda: listens(port, host), server, log)
        yield
    finally:
        kill(server)


def start_server(config: Path, log: Path) -> subprocess.Popen:
    """Starts nginx with a configuration of its own, apart from the system's."""
    program = shutil.which("nginx", path=PROGRAM_PATH)
    assert program is not None
    return start([program, "-e", log, "-p", config.parent, "-c", config], log)
