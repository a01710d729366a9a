"""The servers of bench/remote.py, with what each side stored: nginx, and Ceph's S3 gateway."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lib.program import ROOT

sys.path.insert(0, str(ROOT / "tests/python"))  # the tests start the same servers
from servers.ceph import run_ceph, run_gateway  # noqa: E402
from servers.links import Link, Network, unreachable  # noqa: E402
from servers.nginx import run_nginx, start_server  # noqa: E402
from servers.processes import free_port, kill, listens, wait_until  # noqa: E402
from servers.s3 import REGION, S3  # noqa: E402

__all__ = ["S3", "Link", "Network", "Servers", "free_port", "kill", "listens", "run_gateway",
           "run_servers", "start_server", "unreachable", "wait_until"]  # fmt: skip


@dataclass(frozen=True)
class Servers:
    """Both servers, while they run.

    Attributes:
        web: http://HOST:PORT, which serves what lies in `web_folder`, also through links.
        s3: The store.
        bucket: A bucket of it.
    """

    web: str
    web_folder: Path
    s3: S3
    bucket: str

    def publish(self, name: str, folder: Path) -> None:
        """Makes a folder available from both servers, below its name."""
        place = self.web_folder / name
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(folder)
        self.s3.upload(folder, self.bucket, f"{name}/")

    def url(self, server: str, name: str) -> str:
        """The URL of a published folder from "nginx" or "ceph"."""
        return f"{self.web}/{name}" if server == "nginx" else f"s3://{self.bucket}/{name}"

    def variables(self) -> dict[str, str]:
        """The variables by which programs find the store, in every client's spelling."""
        return {
            "AWS_ACCESS_KEY_ID": self.s3.key.access,
            "AWS_SECRET_ACCESS_KEY": self.s3.key.secret,
            "AWS_ENDPOINT_URL": self.s3.endpoint,
            "S3_ENDPOINT_URL": self.s3.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
        }


@contextmanager
def run_servers(folder: Path, host: str) -> Iterator[Servers]:
    """Runs both on this address, with their files in an empty folder, while the context lasts."""
    for name in ("nginx", "ceph"):
        (folder / name).mkdir(parents=True)
    with run_nginx(folder / "nginx", host) as nginx, run_ceph(folder / "ceph", host) as s3:
        yield Servers(nginx.url, nginx.folder, s3, s3.make_bucket())
