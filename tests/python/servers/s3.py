"""An S3 server and its keys, and signed requests to it, which curl signs."""

import json
import secrets
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .curl import Answer, answer_of
from .processes import StartError

REGION = "default"


@dataclass(frozen=True)
class Key:
    """What signs requests."""

    access: str
    secret: str


@dataclass(frozen=True)
class S3:
    """A running S3 server, with addresses of the form ENDPOINT/BUCKET/KEY.

    `key` belongs to the owner of all buckets that `make_bucket` makes, and `stranger_key` to a user
    who may not read them.
    """

    endpoint: str  # http://127.0.0.1:PORT
    key: Key
    stranger_key: Key
    config: Path  # ceph.conf; ceph.py's make_key and remove_key need it

    def describe(self) -> dict[str, Any]:
        """Returns the fields for `described`, to be stored as JSON."""
        return {**asdict(self), "config": str(self.config)}

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        key: Key | None = None,
    ) -> Answer:
        """Sends a request for "/BUCKET/KEY?QUERY" and returns the answer, whatever its status is.

        The path must be percent-encoded already, and the query sorted by name.
        """
        command = [*signing(key or self.key), "--include", "--request", method, "--max-time", "60"]
        for name, value in (headers or {}).items():
            command += ["--header", f"{name}: {value}"]
        if method == "HEAD":
            command.append("--head")
        if body is not None:
            command += ["--data-binary", "@-"]
        done = subprocess.run(
            [*command, self.endpoint + path], input=body or b"", capture_output=True
        )
        if done.returncode != 0:
            raise StartError(f"{method} {path}: {done.stderr.decode()}")
        return answer_of(done.stdout)

    def make_bucket(self) -> str:
        """Makes a bucket with a name of its own and returns the name."""
        name = f"test-{secrets.token_hex(8)}"
        assert self.request("PUT", f"/{name}").status == 200
        return name

    def upload(self, folder: Path, bucket: str, prefix: str = "") -> None:
        """Puts each file below `folder` into the bucket; its key is PREFIX and its path there."""
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        lines = []
        for path in files:
            key = quote(prefix + path.relative_to(folder).as_posix(), safe="/-._~")
            lines.append(f"upload-file = {json.dumps(str(path), ensure_ascii=False)}")
            lines.append(f'url = "{self.endpoint}/{bucket}/{key}"')
        command = [*signing(self.key), "--fail", "--parallel", "--parallel-max", "8", "--globoff"]
        done = subprocess.run(
            [*command, "--config", "-"], input="\n".join(lines), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def described(fields: dict[str, Any]) -> S3:
    """Returns the server of a description."""
    return S3(
        fields["endpoint"],
        Key(**fields["key"]),
        Key(**fields["stranger_key"]),
        Path(fields["config"]),
    )


def signing(key: Key) -> list[str]:
    """Returns the start of a curl command whose requests are signed with this key."""
    return [
        *("curl", "--silent", "--show-error", "--path-as-is"),
        *("--aws-sigv4", f"aws:amz:{REGION}:s3", "--user", f"{key.access}:{key.secret}"),
        # The gateway asks for a hash of the body, or for the word that none is sent.
        *("--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD"),
    ]
