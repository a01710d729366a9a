"""Ceph's S3 gateway (RADOS Gateway) over a cluster of one disk, on free ports of loopback.

The cluster is one monitor, one OSD on a sparse file and one gateway, with small caches. It does not
replicate, and its parts trust each other. It starts in about six seconds.
"""

import secrets
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .processes import LOOPBACK, StartError, free_port, kill, listens, run, start, wait_until
from .s3 import S3, Key

PACKAGES = {
    "ceph": "ceph-common",
    "ceph-mon": "ceph-mon",
    "ceph-osd": "ceph-osd",
    "radosgw": "radosgw",
    "curl": "curl",
}
CONFIG = (Path(__file__).parent / "ceph.conf.in").read_text()


def new_key() -> Key:
    """Draws an access key of AWS's form."""
    return Key(secrets.token_hex(10).upper(), secrets.token_hex(20))


def user_command(config: Path, *arguments: str) -> None:
    """Runs radosgw-admin, which changes users and keys."""
    run(["radosgw-admin", "-c", config, "-n", "client.admin", *arguments])


def make_key(config: Path) -> Key:
    """Makes another key for the owner of the buckets; `remove_key` makes it invalid."""
    key = new_key()
    user_command(config, "key", "create", "--uid=owner", "--key-type=s3",
                 f"--access-key={key.access}", f"--secret-key={key.secret}")  # fmt: skip
    return key


def remove_key(config: Path, key: Key) -> None:
    """Removes a key that `make_key` made; requests that it signs are then refused."""
    user_command(config, "key", "rm", "--uid=owner", "--key-type=s3", f"--access-key={key.access}")


@contextmanager
def run_ceph(folder: Path, host: str = LOOPBACK) -> Iterator[S3]:
    """Runs a cluster with its gateway, whose data are in `folder`, while the context lasts.

    Args:
        folder: Is empty.
        host: The address of this machine that the gateway listens on.
    """
    cluster = uuid.uuid4()
    monitor_port, port = free_port(), free_port(host)
    config = folder / "ceph.conf"
    config.write_text(
        CONFIG.format(
            folder=folder, cluster=cluster, monitor_port=monitor_port, host=host, port=port
        )
    )
    (folder / "keyring").touch()
    for name in ("mon", "osd", "rgw", "run"):
        (folder / name).mkdir()
    server = S3(f"http://{host}:{port}", new_key(), new_key(), config)
    with ExitStack() as running:
        start_monitor(config, monitor_port, str(cluster), running)
        start_disk(config, str(cluster), running)
        start_gateway(config, server, running)
        yield server


@contextmanager
def run_gateway(
    server: S3, port: int, host: str = LOOPBACK, asked: Path | None = None
) -> Iterator[int]:
    """Runs another gateway of a server's cluster, while the context lasts.

    Returns its process group, for tests that freeze or kill it. It keeps no cache, since the
    cluster would wait for a dead gateway whose cache has to be told of a change.

    Args:
        server: Has the cluster.
        port: Where it listens.
        host: The address of this machine that it listens on.
        asked: The log in which it writes down its requests, if any.
    """
    log = server.config.parent / f"gateway-{port}.log"
    options = ["--rgw-frontends", f"beast endpoint={host}:{port} tcp_nodelay=1"]
    if asked is not None:
        options += ["--debug-rgw=1/0", f"--log-file={asked}"]
    command = ["radosgw", "-f", "-n", "client.rgw", "-c", str(server.config), *options]
    with ExitStack() as running:
        gateway = start_daemon([*command, "--rgw-cache-enabled=false"], log, running)
        wait_until(lambda: listens(port, host), gateway, log)
        yield gateway.pid


def start_daemon(command: Sequence[str | Path], log: Path, running: ExitStack) -> subprocess.Popen:
    """Starts one of the cluster's processes, which ends when `running` is left."""
    daemon = start(command, log)
    running.callback(kill, daemon)
    return daemon


def start_monitor(config: Path, port: int, cluster: str, running: ExitStack) -> None:
    """Makes the monitor's data and starts it."""
    folder = config.parent
    run(["monmaptool", "--create", "--fsid", cluster, "--set-min-mon-release", "pacific",
         "--addv", "a", f"[v2:127.0.0.1:{port}]", folder / "monmap"])  # fmt: skip
    run(["ceph-mon", "-i", "a", "-c", config, "--mkfs", "--monmap", folder / "monmap"])
    log = folder / "mon.log"
    monitor = start_daemon(["ceph-mon", "-f", "-i", "a", "-c", config], log, running)
    wait_until(lambda: listens(port), monitor, log)


def start_disk(config: Path, cluster: str, running: ExitStack) -> None:
    """Makes the OSD's data and starts it."""
    orders = f"osd new {cluster} 0\nosd crush add osd.0 1.0 root=default host=local\n"
    run(["ceph", "-c", config, "--connect-timeout", "20"], input=orders)
    run(["ceph-osd", "-i", "0", "-c", config, "--mkfs", "--osd-uuid", cluster])
    log = config.parent / "osd.log"
    disk = start_daemon(["ceph-osd", "-f", "-i", "0", "-c", config], log, running)
    # A gateway that starts before the OSD serves looks for it only after five seconds.
    ask = ("ceph", "-c", config, "--connect-timeout", "20", "osd", "stat")
    wait_until(lambda: " 1 up" in run(ask), disk, log)


def start_gateway(config: Path, server: S3, running: ExitStack) -> None:
    """Starts the gateway, makes its two users, and waits until it serves the first."""
    log = config.parent / "rgw.log"
    gateway = start_daemon(["radosgw", "-f", "-n", "client.rgw", "-c", config], log, running)
    for user, key in (("owner", server.key), ("stranger", server.stranger_key)):
        user_command(config, "user", "create", f"--uid={user}", f"--display-name={user}",
                     f"--access-key={key.access}", f"--secret-key={key.secret}")  # fmt: skip

    def serves() -> bool:
        try:
            return server.request("GET", "/").status == 200
        except StartError:
            return False

    wait_until(serves, gateway, log)
