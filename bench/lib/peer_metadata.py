"""Datasets of very many samples for bench/remote.py's peers, of which one shard exists.

All shards of their index are copies of that one. A proxy before the store (run_alias) gives it
under each of their names, since which shards a loader reads first is its own choice.
"""

import copy
import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lib.remote_servers import S3, Servers, free_port, kill, listens, start_server, wait_until

# The store must not check signatures, as they are of other names.
CONFIG = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {folder}/temp;
  proxy_temp_path {folder}/temp;
  fastcgi_temp_path {folder}/temp;
  uwsgi_temp_path {folder}/temp;
  scgi_temp_path {folder}/temp;
  proxy_buffering off;
  proxy_http_version 1.1;
  proxy_set_header Authorization "";
  proxy_set_header Connection "";
  server {{
    listen {host}:{port};
    rewrite /shard[.][0-9]+[.]mds$ /{bucket}/streaming_large/shard break;
    rewrite /chunk-0-[0-9]+[.]bin$ /{bucket}/litdata_large/shard break;
    location / {{ proxy_pass {endpoint}; }}
  }}
}}
"""
EVERYONE_READS = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "*"}],
}


def extend_streaming(stored: Path, out: Path, samples: int) -> None:
    """Writes Streaming's index.json of as many samples to a folder, and `shard`."""
    index = json.loads((stored / "index.json").read_text())
    first = index["shards"][0]
    index["shards"] = []
    for number in range(-(-samples // first["samples"])):
        shard = copy.deepcopy(first)
        shard["raw_data"]["basename"] = f"shard.{number:05}.mds"
        index["shards"].append(shard)
    _write(out, index, stored / first["raw_data"]["basename"])


def extend_litdata(stored: Path, out: Path, samples: int) -> None:
    """Writes LitData's index.json of as many samples to a folder, and `shard`."""
    index = json.loads((stored / "index.json").read_text())
    first = index["chunks"][0]
    index["chunks"] = [
        {**first, "filename": f"chunk-0-{number}.bin"}
        for number in range(-(-samples // first["chunk_size"]))
    ]
    _write(out, index, stored / first["filename"])


def _write(out: Path, index: dict[str, Any], shard: Path) -> None:
    out.mkdir()
    (out / "shard").symlink_to(shard)
    (out / "index.json").write_text(json.dumps(index))


EXTEND: dict[str, Callable[[Path, Path, int], None]] = {
    "streaming": extend_streaming,
    "litdata": extend_litdata,
}


@contextmanager
def run_alias(folder: Path, host: str, servers: Servers) -> Iterator[S3]:
    """Runs the proxy on this address, with its files in an empty folder; anyone may read then."""
    policy = servers.s3.request(
        "PUT", f"/{servers.bucket}?policy=", body=json.dumps(EVERYONE_READS).encode()
    )
    assert policy.status in (200, 204), policy
    port, log = free_port(host), folder / "nginx.log"
    config = folder / "nginx.conf"
    config.write_text(
        CONFIG.format(
            folder=folder, host=host, port=port, bucket=servers.bucket, endpoint=servers.s3.endpoint
        )
    )
    proxy = start_server(config, log)
    try:
        wait_until(lambda: listens(port, host), proxy, log)
        yield dataclasses.replace(servers.s3, endpoint=f"http://{host}:{port}")
    finally:
        kill(proxy)
