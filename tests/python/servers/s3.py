"""An S3 server and its keys, and signed requests to it, which curl signs."""

import json
import os
import re
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

    `key` belongs to the owner of the buckets that `make_bucket` makes by default, and
    `stranger_key` to a user who may not read them.
    """

    endpoint: str  # http://HOST:PORT
    key: Key
    stranger_key: Key
    config: Path  # ceph.conf; ceph.py's make_key and remove_key need it

    def describe(self) -> dict[str, Any]:
        """Returns the fields for `described`, to be stored as JSON."""
        return {**asdict(self), "config": str(self.config)}

    def write_profiles(self, folder: Path) -> dict[str, str]:
        """Writes the keys as the profiles "owner" and "stranger" of AWS's programs into a folder.

        Returns the environment in which commands find these profiles, this server and no other
        keys.
        """
        lines = []
        for profile, key in (("owner", self.key), ("stranger", self.stranger_key)):
            lines.append(f"[{profile}]")
            lines.append(f"aws_access_key_id = {key.access}")
            lines.append(f"aws_secret_access_key = {key.secret}")
        (folder / "credentials").write_text("\n".join(lines) + "\n")
        return {
            **os.environ,  # conftest.py has removed what this machine's user has of AWS's variables
            "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"),
            "AWS_CONFIG_FILE": str(folder / "config"),
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
        }

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

    def make_bucket(self, key: Key | None = None) -> str:
        """Makes a bucket with a name of its own, owned by the key's user; returns the name."""
        name = f"test-{secrets.token_hex(8)}"
        assert self.request("PUT", f"/{name}", key=key).status == 200
        return name

    def keys(self, bucket: str) -> set[str]:
        """Returns the keys of all objects in a bucket, which has at most 1000."""
        answer = self.request("GET", f"/{bucket}?list-type=2")
        assert answer.status == 200 and b"<IsTruncated>false" in answer.body
        return set(re.findall(r"<Key>([^<]*)</Key>", answer.body.decode()))

    def objects(self, bucket: str, prefix: str) -> dict[str, bytes]:
        """Returns the contents of all objects whose keys begin with PREFIX, by what follows it."""
        return {
            key.removeprefix(prefix): self.request("GET", f"/{bucket}/{quote(key)}").body
            for key in sorted(self.keys(bucket))
            if key.startswith(prefix)
        }

    def uploads(self, bucket: str) -> list[str]:
        """Returns the names of the uploads in parts that were begun and have not ended."""
        answer = self.request("GET", f"/{bucket}?uploads=")
        assert answer.status == 200
        return re.findall(r"<UploadId>([^<]*)</UploadId>", answer.body.decode())

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
