"""What servers and proxies answer in place of a file, and what a user is told about it."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import forebay
from conftest import FOREBAY, run_forebay
from places import HASTY, environment, epoch, error_of, on_web, s3_options
from servers.chaos import ChaosProxy, Fault
from servers.nginx import Nginx
from servers.s3 import S3

Chaos = Callable[..., ChaosProxy]
VERSIONS = (
    b'<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    b"<Status>Enabled</Status></VersioningConfiguration>"
)


@pytest.mark.parametrize("place", ["", "listed/"])
@pytest.mark.parametrize("slash", ["", "/"])
def test_a_web_folder_is_named_as_one(
    place: str, slash: str, nginx: Nginx, folder: Path, tmp_path: Path
) -> None:
    """Without an index nginx refuses a folder; with one it answers with a page."""
    url = f"{nginx.url}/{place}{on_web(nginx, folder)}"
    with pytest.raises(forebay.DataError) as error:
        forebay.Dataset(url + slash)
    verified = run_forebay("verify", url + slash, code=1).stderr
    packed = run_forebay("pack", url + slash, tmp_path / "set", code=1).stderr
    for said in (str(error.value), verified, packed):
        assert f"{url}: it is a folder on a web server" in said
        assert "web servers do not list their folders; name a packed dataset" in said
        assert f"{url}/shard-{{000..010}}.tar" in said
        assert "credentials" not in said


def test_a_proxy_that_compresses_is_named(nginx: Nginx, packed: Path) -> None:
    """It asks its server for compressed answers, whatever its client asks for."""
    url = f"{nginx.url}/zipped/{on_web(nginx, packed)}"
    for message in (error_of(url), run_forebay("verify", url, code=1).stderr):
        assert f"{url}/HEAD: the file comes compressed" in message
        assert "Content-Encoding: gzip" in message and "Accept-Encoding: identity" in message
        assert "a proxy or CDN in front of it (Via: 1.1 a-proxy): turn compression off" in message


def test_a_proxy_that_compresses_ranges_is_named(nginx: Nginx, photos: Path, chaos: Chaos) -> None:
    """The dataset was opened before the proxy began to compress."""
    proxy = chaos(nginx.url)
    dataset = forebay.Dataset(f"{proxy.url}/{on_web(nginx, photos)}", storage_options=dict(HASTY))
    for status in (200, 206):
        proxy.program(
            Fault(match="chunks", status=status, body="zip", times=-1,
                  headers={"Content-Encoding": "br", "Content-Range": "bytes 0-2/3"})
        )  # fmt: skip
        with pytest.raises(OSError, match="Content-Encoding: br"):
            epoch(dataset)


def test_requests_ask_for_the_bytes_as_they_are(nginx: Nginx, packed: Path) -> None:
    """This proxy compresses for all clients but those that refuse it."""
    url = f"{nginx.url}/zipped-unless-refused/{on_web(nginx, packed)}"
    assert run_forebay("verify", url).stdout.endswith("no damage\n")


def test_requests_to_stores_ask_so_without_signing_it(
    s3: S3, bucket: str, photos: Path, chaos: Chaos
) -> None:
    """Proxies change this header, so a signature must not depend on it."""
    proxy = chaos(s3.endpoint)
    assert epoch(f"s3://{bucket}/set", s3_options(s3, proxy.url)) == epoch(photos)


def test_redirects_are_followed_to_the_file(nginx: Nginx, packed: Path) -> None:
    name = on_web(nginx, packed)
    for place in ("moved", "moved-for-good"):
        run_forebay("verify", f"{nginx.url}/{place}/{name}")


def test_a_redirect_to_a_page_is_named(nginx: Nginx, packed: Path, photos: Path) -> None:
    """A page to log in answers 200; its query may hold a secret."""
    url = f"{nginx.url}/login/{on_web(nginx, packed)}"
    for message in (error_of(url), run_forebay("verify", url, code=1).stderr):
        assert f"the server redirects to {nginx.url}/page, which is a page for browsers" in message
        assert "then=" not in message


def test_a_page_that_is_the_file_is_one(nginx: Nginx, tmp_path: Path) -> None:
    """Files may have any type: only a redirect to another name makes a page suspicious."""
    (tmp_path / "HEAD").write_text("not Forebay's")
    with pytest.raises(forebay.DataError, match="HEAD: it is not a HEAD file of Forebay"):
        forebay.Dataset(f"{nginx.url}/{on_web(nginx, tmp_path)}")


AWS_REDIRECT = """<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>PermanentRedirect</Code><Message>The bucket you are attempting to access must be
addressed using the specified endpoint.</Message><Endpoint>b.s3-eu-west-1.amazonaws.com</Endpoint>
</Error>"""


def test_an_endpoint_of_another_region(s3: S3, bucket: str, chaos: Chaos) -> None:
    """AWS names the region and the host, but the user fixed the address."""
    proxy = chaos(s3.endpoint)
    region: dict[str, str | None] = {"x-amz-bucket-region": "eu-west-1"}
    proxy.program(Fault(status=301, body=AWS_REDIRECT, headers=region, times=-1))
    message = error_of(f"s3://{bucket}/set", s3_options(s3, proxy.url))
    assert "the server answered 301 (PermanentRedirect: The bucket" in message
    assert "Endpoint: b.s3-eu-west-1.amazonaws.com)" in message
    assert "the bucket is in the region eu-west-1: name no endpoint_url" in message


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirect_of_a_store_names_the_place(
    status: int, s3: S3, bucket: str, chaos: Chaos
) -> None:
    proxy = chaos(s3.endpoint)
    to: dict[str, str | None] = {"Location": "https://u:p@store.example/b?X-Amz-Signature=5ec2e7"}
    proxy.program(Fault(status=status, headers=to, times=-1))
    message = error_of(f"s3://{bucket}/set", s3_options(s3, proxy.url))
    assert "it redirects to https://store.example/b, but a signed request is for one" in message
    assert "5ec2e7" not in message and "u:p" not in message


@pytest.mark.parametrize("command", ["cp", "pack"])
def test_a_bucket_with_versions_gets_true_advice(
    command: str, s3: S3, packed: Path, folder: Path
) -> None:
    """Ceph ignores conditional writes there."""
    name = s3.make_bucket()
    assert s3.request("PUT", f"/{name}?versioning=", body=VERSIONS).status == 200
    source = packed if command == "cp" else folder
    done = subprocess.run(
        [FOREBAY, command, source, f"s3://{name}/set"],
        capture_output=True,
        text=True,
        env=environment(s3),
    )
    assert done.returncode == 1
    assert "(If-None-Match) in this bucket, which keeps versions of objects" in done.stderr
    assert "use a bucket without versions, or write the dataset to a local folder" in done.stderr
    assert "with another program, HEAD last" in done.stderr
