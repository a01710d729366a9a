"""The proxy that misbehaves: it forwards without change, and each fault does what it says."""

import hashlib
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from servers.chaos import Action, ChaosProxy, Fault, Request
from servers.curl import curl, curl_error
from servers.nginx import Nginx, run_nginx
from servers.processes import listens, wait_for
from servers.s3 import S3

CONTENT = bytes(range(256)) * 40
PARTIAL, TIMED_OUT, EMPTY, RECEIVE, SEND = 18, 28, 52, 56, 55

Chaos = Callable[..., ChaosProxy]


@pytest.fixture(scope="module")
def path(nginx: Nginx) -> str:
    """Returns the path, below nginx's URLs, of a file of CONTENT."""
    name = f"chaos-{os.getpid()}.bin"
    (nginx.folder / name).write_bytes(CONTENT)
    return name


@pytest.fixture
def proxy(chaos: Chaos, nginx: Nginx) -> ChaosProxy:
    """Returns a proxy before nginx."""
    return chaos(nginx.url)


def received(url: str, tmp_path: Path, *options: str) -> tuple[int, bytes]:
    """Returns curl's error code and what it got of the body."""
    body = tmp_path / "body"
    body.write_bytes(b"")
    code = subprocess.run(
        ["curl", "--silent", "--output", body, "--max-time", "20", *options, url]
    ).returncode
    return code, body.read_bytes()


def test_without_faults_nothing_changes(proxy: ChaosProxy, nginx: Nginx, path: str) -> None:
    for options in ((), ("--range", "5-9"), ("--range", "0-9,20-29"), ("--head",)):
        direct, through = (
            curl(f"{nginx.url}/{path}", *options),
            curl(f"{proxy.url}/{path}", *options),
        )
        assert through.status == direct.status
        assert len(through.body) == len(direct.body)
        assert through.headers.keys() == direct.headers.keys()


def test_requests_on_one_connection_are_counted(proxy: ChaosProxy, path: str) -> None:
    url = f"{proxy.url}/{path}"
    command = ["curl", "--silent", "--user-agent", "x", "--range", "0-99", url, url, url]
    body = subprocess.run(command, capture_output=True).stdout
    assert body == CONTENT[:100] * 3
    counts = proxy.counts()
    assert (counts.connections, counts.requests) == (1, 3)
    host = proxy.url.removeprefix("http://")
    sent = (
        f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nRange: bytes=0-99\r\nUser-Agent: x\r\nAccept: */*"
    )
    assert counts.bytes_to_server == 3 * (len(sent) + 4)
    assert 300 < counts.bytes_to_client < 300 + 3 * 500
    assert proxy.requests() == [Request(f"GET /{path} HTTP/1.1", "bytes=0-99", -1)] * 3


def test_a_fault_meets_the_requests_that_it_says(proxy: ChaosProxy, path: str) -> None:
    url = f"{proxy.url}/{path}"
    proxy.program(
        Fault(match="^HEAD ", times=9, status=403),
        Fault(match=path, skip=1, times=2, status=503, headers={"Retry-After": "7"}, body="busy"),
        Fault(match=path, status=429),
    )
    answers = [curl(url) for _ in range(5)]
    # The first request meets the last fault, since it is the one that the second fault skips.
    assert [answer.status for answer in answers] == [429, 503, 503, 200, 200]
    assert (answers[1].headers["retry-after"], answers[1].body) == ("7", b"busy")
    assert curl(url, "--head").status == 403
    assert [request.fault for request in proxy.requests()] == [2, 1, 1, -1, -1, 0]


def test_corrupt(proxy: ChaosProxy, path: str, tmp_path: Path) -> None:
    proxy.program(Fault(action="corrupt", at=1000))
    code, body = received(f"{proxy.url}/{path}", tmp_path)
    changed = [index for index, byte in enumerate(body) if byte != CONTENT[index]]
    assert (code, len(body), changed) == (0, len(CONTENT), [1000])


@pytest.mark.parametrize(("action", "code"), [("drop", PARTIAL), ("reset", RECEIVE)])
def test_cut(proxy: ChaosProxy, path: str, tmp_path: Path, action: Action, code: int) -> None:
    proxy.program(Fault(action=action, at=1000))
    got, body = received(f"{proxy.url}/{path}", tmp_path)
    assert got == code
    assert body == CONTENT[: len(body)] and len(body) <= 1000
    assert received(f"{proxy.url}/{path}", tmp_path) == (0, CONTENT)


def test_stall(proxy: ChaosProxy, path: str, tmp_path: Path) -> None:
    proxy.program(Fault(action="stall", at=1000))
    code, body = received(f"{proxy.url}/{path}", tmp_path, "--max-time", "5")
    assert (code, body) == (TIMED_OUT, CONTENT[:1000])


def test_drip(proxy: ChaosProxy, path: str, tmp_path: Path) -> None:
    proxy.program(Fault(action="drip", at=1000))
    url = f"{proxy.url}/{path}"
    code, body = received(url, tmp_path, "--range", "0-1999", "--max-time", "2")
    assert code == TIMED_OUT
    assert body == CONTENT[: len(body)] and 1000 <= len(body) < 1050
    proxy.program(Fault(action="drip", at=1000))
    assert received(url, tmp_path, "--range", "0-1004") == (0, CONTENT[:1005])


def test_truncate(proxy: ChaosProxy, path: str) -> None:
    proxy.program(Fault(action="truncate", at=1000))
    url = f"{proxy.url}/{path}"
    answer = curl(url, "--range", "0-4999")
    assert (answer.status, answer.body) == (206, CONTENT[:1000])
    assert answer.headers["content-length"] == "1000"
    assert answer.headers["content-range"] == f"bytes 0-4999/{len(CONTENT)}"
    assert curl(url).body == CONTENT


def test_headers(proxy: ChaosProxy, path: str, tmp_path: Path) -> None:
    url = f"{proxy.url}/{path}"
    proxy.program(
        Fault(headers={"Content-Range": "bytes 7-16/99", "ETag": '"other"', "Last-Modified": None})
    )
    answer = curl(url, "--range", "0-9")
    assert answer.headers["content-range"] == "bytes 7-16/99"
    assert answer.headers["etag"] == '"other"'
    assert "last-modified" not in answer.headers and answer.body == CONTENT[:10]
    proxy.program(
        Fault(headers={"Content-Length": "20000"}), Fault(headers={"Content-Length": "9"})
    )
    code, body = received(url, tmp_path, "--max-time", "5")
    assert (code, body) == (TIMED_OUT, CONTENT)
    assert received(url, tmp_path) == (0, CONTENT[:9])


def test_delay(proxy: ChaosProxy, path: str) -> None:
    url = f"{proxy.url}/{path}"
    proxy.program(Fault(delay_s=60), Fault(delay_s=0.5))
    assert curl_error(url, "--max-time", "1") == TIMED_OUT
    assert curl(url).body == CONTENT


def test_faults_of_uploads(chaos: Chaos, s3: S3, tmp_path: Path) -> None:
    bucket = s3.make_bucket()
    proxy = chaos(s3.endpoint)
    through = S3(proxy.url, s3.key, s3.stranger_key, s3.config)
    large = os.urandom(3_000_000)
    (tmp_path / "large").write_bytes(large)
    # curl waits for "100 Continue" before it sends a body of this size.
    through.upload(tmp_path, bucket)
    assert s3.request("GET", f"/{bucket}/large").body == large
    assert through.request("GET", f"/{bucket}?list-type=2").status == 200
    proxy.program(Fault(match="^PUT", action="corrupt", at=5, upload=True))
    assert through.request("PUT", f"/{bucket}/b", body=b"0123456789").status == 200
    assert s3.request("GET", f"/{bucket}/b").body == b"01234\xca6789"
    proxy.program(Fault(match="^PUT", action="reset", at=1_000_000, upload=True))
    with pytest.raises(AssertionError):
        through.upload(tmp_path, bucket, "second/")
    assert s3.request("HEAD", f"/{bucket}/second/large").status == 404


def test_a_chunked_upload_is_forwarded(chaos: Chaos, s3: S3, tmp_path: Path) -> None:
    proxy = chaos(s3.endpoint)
    proxy.program(Fault(action="corrupt", at=500_000, upload=True))
    url = f"{proxy.url}/{s3.make_bucket()}/a"
    command = ["curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}",
               "--upload-file", "-", "--header", "Expect:", url]  # fmt: skip
    said = subprocess.run(command, input=bytes(1_000_000), capture_output=True).stdout
    assert said in (b"403", b"411")  # it is not signed, and its length is not told


@pytest.mark.usefixtures("nginx")
def test_a_dead_server_is_a_closed_connection(chaos: Chaos, tmp_path: Path) -> None:
    with run_nginx(tmp_path) as own:
        proxy = chaos(own.url)
        (own.folder / "a").write_bytes(CONTENT)
        assert curl(f"{proxy.url}/a").body == CONTENT
    assert curl_error(f"{proxy.url}/a") == EMPTY
    proxy.program(Fault(status=200))
    assert curl(f"{proxy.url}/a").status == 200


def test_tls_through_a_raw_proxy(chaos: Chaos, nginx: Nginx, path: str) -> None:
    proxy = chaos(nginx.tls_url, raw=True)
    url, trusted = f"{proxy.url}/{path}", ("--cacert", str(nginx.ca_file))
    assert curl(url, *trusted).body == CONTENT
    assert proxy.counts().bytes_to_client > len(CONTENT)
    proxy.program(Fault(action="reset", at=5000), Fault(action="corrupt", at=5000))
    assert curl_error(url, *trusted) in (RECEIVE, SEND)
    assert curl_error(url, *trusted) in (RECEIVE, PARTIAL)
    proxy.program(Fault(action="stall", at=100))
    assert curl_error(url, *trusted, "--max-time", "1") == TIMED_OUT
    assert curl(url, *trusted).body == CONTENT
    with pytest.raises(ValueError, match="does not read HTTP"):
        proxy.program(Fault(status=503))


def test_many_connections_at_once(proxy: ChaosProxy, nginx: Nginx) -> None:
    content = os.urandom(1 << 20)
    name = f"many-{os.getpid()}.bin"
    (nginx.folder / name).write_bytes(content)
    wanted = hashlib.sha256(content).digest()
    right = []

    def client() -> None:
        for _ in range(4):
            body = subprocess.run(
                ["curl", "--silent", f"{proxy.url}/{name}"], capture_output=True
            ).stdout
            right.append(hashlib.sha256(body).digest() == wanted)

    threads = [threading.Thread(target=client) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 64
    assert proxy.counts().requests == 64


def test_the_process_ends_with_the_proxy(nginx: Nginx) -> None:
    with ChaosProxy(nginx.url) as proxy:
        port = int(proxy.url.rpartition(":")[2])
    wait_for(lambda: not listens(port))
