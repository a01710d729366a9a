"""Servers that die, freeze or lie: an epoch has the same batches, or ends with a clear error."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import forebay
from conftest import FOREBAY, run_forebay, skip_without
from places import (
    EPOCHS,
    HASTY,
    begin_epochs,
    epoch,
    error_in,
    error_of,
    on_web,
    read_a_thousand_at_once,
    s3_options,
)
from servers import ceph
from servers.chaos import ChaosProxy, Fault
from servers.liar import Asked, Liar, Lie
from servers.nginx import Nginx, run_again, run_nginx
from servers.processes import LOOPBACK, free_port
from servers.s3 import S3

Chaos = Callable[..., ChaosProxy]

pytestmark = pytest.mark.usefixtures("nginx")  # skips where nginx is not installed


@pytest.fixture
def own(tmp_path: Path, photos: Path) -> Iterator[Nginx]:
    """Returns an nginx of the test's own, which has the photographs as "set"."""
    with run_nginx(tmp_path) as server:
        (server.folder / "set").symlink_to(photos)
        yield server


def test_a_killed_server_that_comes_back_changes_no_batch(own: Nginx, photos: Path) -> None:
    dataset = forebay.Dataset(f"{own.url}/set", {"max_attempts": 30})
    with ThreadPoolExecutor(1) as pool:
        running = begin_epochs(pool, dataset, lambda: os.killpg(own.group, signal.SIGKILL))
        time.sleep(0.5)
        assert not running.done()
        with run_again(own):
            assert running.result() == epoch(photos, count=EPOCHS)


def test_a_killed_server_that_stays_away_ends_the_epoch(own: Nginx) -> None:
    dataset = forebay.Dataset(f"{own.url}/set", HASTY)
    with ThreadPoolExecutor(1) as pool:
        running = begin_epochs(pool, dataset, lambda: os.killpg(own.group, signal.SIGKILL))
        message = error_in(running)
    host = own.url.removeprefix("http://")
    assert f"{own.url}/set/chunks/" in message
    assert f"({host}, tried " in message
    assert "connect to server" in message
    assert "check that the server runs" in message


@pytest.mark.parametrize("seconds", [0.5, 3])
def test_a_frozen_server_that_goes_on_changes_no_batch(
    own: Nginx, photos: Path, seconds: float
) -> None:
    dataset = forebay.Dataset(f"{own.url}/set", {"read_timeout": 1, "max_attempts": 30})
    with ThreadPoolExecutor(1) as pool:
        running = begin_epochs(pool, dataset, lambda: os.killpg(own.group, signal.SIGSTOP))
        time.sleep(seconds)
        assert not running.done()
        os.killpg(own.group, signal.SIGCONT)
        assert running.result() == epoch(photos, count=EPOCHS)


@pytest.mark.parametrize("fault", ["killed", "frozen"])
def test_a_gateway_that_comes_back_changes_no_batch(
    fault: str, s3: S3, bucket: str, photos: Path
) -> None:
    port = free_port()
    options = {"read_timeout": 1, "max_attempts": 60}
    options |= s3_options(s3, f"http://{LOOPBACK}:{port}")
    with ThreadPoolExecutor(1) as pool, ExitStack() as gateways:
        group = gateways.enter_context(ceph.run_gateway(s3, port))
        dataset = forebay.Dataset(f"s3://{bucket}/set", options)
        sent = signal.SIGKILL if fault == "killed" else signal.SIGSTOP
        running = begin_epochs(pool, dataset, lambda: os.killpg(group, sent))
        time.sleep(2)
        assert not running.done()
        if fault == "killed":
            gateways.enter_context(ceph.run_gateway(s3, port))
        else:
            os.killpg(group, signal.SIGCONT)
        assert running.result() == epoch(photos, count=EPOCHS)


def test_a_gateway_that_stays_away_ends_the_epoch(s3: S3, bucket: str) -> None:
    port = free_port()
    options = {**s3_options(s3, f"http://{LOOPBACK}:{port}"), **HASTY}
    with ThreadPoolExecutor(1) as pool, ceph.run_gateway(s3, port) as group:
        dataset = forebay.Dataset(f"s3://{bucket}/set", options)
        running = begin_epochs(pool, dataset, lambda: os.killpg(group, signal.SIGKILL))
        message = error_in(running)
    assert f"s3://{bucket}/set/chunks/" in message and f"({LOOPBACK}:{port}, tried " in message
    assert "check that the server runs" in message


def test_a_frozen_server_ends_the_epoch(own: Nginx) -> None:
    dataset = forebay.Dataset(f"{own.url}/set", HASTY)
    os.killpg(own.group, signal.SIGSTOP)
    message = error_of(dataset)
    assert f"{own.url}/set/" in message
    assert "too slow" in message and "read_timeout" in message
    assert f"({own.url.removeprefix('http://')}, tried 2 times" in message


def repeated(piece: bytes) -> Iterator[bytes]:
    while True:
        yield piece


def drip(pieces: bytes) -> Iterator[bytes]:
    for byte in pieces:
        time.sleep(0.1)
        yield bytes([byte])


def lie_too_long(asked: Asked) -> Iterator[bytes]:
    yield asked.head(len(asked.part()) + 1000) + asked.part()


def lie_too_short(asked: Asked) -> Iterator[bytes]:
    yield asked.head(len(asked.part()) // 2) + asked.part()


def lie_about_the_total(asked: Asked) -> Iterator[bytes]:
    first, end = asked.ranges[0]
    total = len(asked.content) + 1
    yield asked.head(range_text=f"bytes {first}-{end - 1}/{total}") + asked.part()


def other_range(asked: Asked) -> Iterator[bytes]:
    first, end = asked.ranges[0]
    text = f"bytes {first + 1}-{end}/{len(asked.content)}"
    yield asked.head(range_text=text) + asked.content[first + 1 : end + 1]


def over_long(asked: Asked) -> Iterator[bytes]:
    yield asked.head(-1) + asked.part() + b"x" * 100_000


def endless(asked: Asked) -> Iterator[bytes]:
    yield asked.head(-1) + asked.part()
    yield from repeated(b"x" * 10_000)


def chunked(asked: Asked) -> bytes:
    head = asked.head(-1).replace(b"Connection", b"Transfer-Encoding: chunked\r\nConnection")
    return head + b"%x\r\n%b\r\n" % (len(asked.part()), asked.part())


def chunked_without_end(asked: Asked) -> Iterator[bytes]:
    yield chunked(asked)[:-100]


def chunked_endless(asked: Asked) -> Iterator[bytes]:
    yield chunked(asked)
    yield from repeated(b"2710\r\n%b\r\n" % (b"x" * 10_000))


def whole_file(asked: Asked) -> Iterator[bytes]:
    yield Asked(asked.method, asked.content, []).honest()


def parts(asked: Asked) -> bytes:
    head = asked.head(-1).split(b"Content-Range")[0]
    return head + b"Content-Type: multipart/byteranges; boundary=B\r\n\r\n"


def endless_lines_between_parts(asked: Asked) -> Iterator[bytes]:
    yield parts(asked)
    yield from repeated(b"\r\n" * 1000)


def endless_head_of_a_part(asked: Asked) -> Iterator[bytes]:
    yield parts(asked) + b"\r\n--B\r\n"
    yield from repeated(b"A: b\r\n" * 1000)


def huge_header(asked: Asked) -> Iterator[bytes]:
    yield b"HTTP/1.1 206 Partial\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n"


def endless_header(asked: Asked) -> Iterator[bytes]:
    yield b"HTTP/1.1 206 Partial\r\nX: "
    yield from repeated(b"x" * 10_000)


def endless_headers(asked: Asked) -> Iterator[bytes]:
    yield b"HTTP/1.1 206 Partial\r\n"
    yield from repeated(b"A: b\r\n")


def endless_headers_without_colon(asked: Asked) -> Iterator[bytes]:
    yield b"HTTP/1.1 206 Partial\r\n"
    yield from repeated(b"nothing\r\n")


def endless_continue(asked: Asked) -> Iterator[bytes]:
    yield from repeated(b"HTTP/1.1 100 Continue\r\n\r\n")


def dripping_head(asked: Asked) -> Iterator[bytes]:
    yield from drip(asked.honest())


def dripping_body(asked: Asked) -> Iterator[bytes]:
    yield asked.head()
    yield from drip(asked.part())


def one_byte_and_end(asked: Asked) -> Iterator[bytes]:
    yield asked.head() + asked.part()[:1]


def garbage(asked: Asked) -> Iterator[bytes]:
    yield os.urandom(5000)


def other_protocol(asked: Asked) -> Iterator[bytes]:
    yield b"SSH-2.0-OpenSSH_9.2\r\n"


def nothing(asked: Asked) -> Iterator[bytes]:
    yield b""


# Each lie, and what the error says if the server never answers better; None: it does no harm.
LIES: dict[Lie, str | None] = {
    lie_too_long: None,
    lie_too_short: "ended before the bytes that were asked for",
    lie_about_the_total: "it was replaced after it was listed; open the dataset again",
    other_range: "the server sent bytes",
    over_long: None,
    endless: None,
    chunked_without_end: "transfer closed with outstanding read data remaining",
    chunked_endless: None,
    whole_file: None,
    endless_lines_between_parts: "bytes between its parts",
    endless_head_of_a_part: "bytes between its parts",
    huge_header: "a header without end",
    endless_header: "a header without end",
    endless_headers: "more than 200 headers",
    endless_headers_without_colon: "Header without colon",
    endless_continue: "Too large response headers",
    dripping_head: "too slow",
    dripping_body: "too slow",
    one_byte_and_end: "transfer closed with",
    garbage: "HTTP/0.9",
    other_protocol: "HTTP/0.9",
    nothing: "Empty reply",
}
DRIPPING = (dripping_head, dripping_body)
# What ends by itself has the time that a busy machine may take for it.
LASTING = {**HASTY, "connect_timeout": 10, "read_timeout": 3}
FINAL = (lie_about_the_total,)  # one such answer is enough to end the epoch


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_lie_changes_no_batch(lie: Lie, photos: Path) -> None:
    cause = LIES[lie]
    if cause is not None:
        with Liar(photos, lie) as server:
            message = error_of(server.url, HASTY if lie in DRIPPING else LASTING)
        assert f"{server.url}/chunks/" in message
        assert f"({server.url.removeprefix('http://')}" in message
        assert cause in message
        assert "; check " in message or "; open " in message
    if lie not in FINAL:
        with Liar(photos, lie, times=10 if cause is None else 2) as server:
            assert epoch(server.url, {"read_timeout": 1}) == epoch(photos)


def lie_about_the_size(asked: Asked) -> Iterator[bytes]:
    yield asked.head(len(asked.content) + 5) + asked.part()


@pytest.mark.parametrize(
    "lie",
    [lie_about_the_size, garbage, nothing, huge_header, endless_headers, dripping_head],
    ids=lambda lie: lie.__name__,
)
def test_lies_from_the_first_request_on(lie: Lie, photos: Path) -> None:
    with Liar(photos, lie, match="/HEAD ") as server:
        message = error_of(server.url, HASTY if lie in DRIPPING else LASTING)
    assert f"{server.url}/" in message
    assert lie is lie_about_the_size or f"({server.url.removeprefix('http://')}" in message


def test_one_byte_at_a_time_changes_no_batch(photos: Path) -> None:
    def bytewise(asked: Asked) -> Iterator[bytes]:
        answer = asked.honest()
        yield from (answer[i : i + 1] for i in range(len(answer)))

    with Liar(photos, bytewise, times=3) as server:
        assert epoch(server.url) == epoch(photos)


def test_a_redirect_does_not_leave_tls(nginx: Nginx, photos: Path) -> None:
    name = on_web(nginx, photos)
    trusted = {"verify": str(nginx.ca_file)}
    assert epoch(f"{nginx.tls_url}/moved/{name}", trusted) == epoch(photos)
    assert epoch(f"{nginx.url}/to-tls/{name}", trusted) == epoch(photos)
    message = error_of(f"{nginx.tls_url}/from-tls/{name}", trusted)
    assert 'Protocol "http"' in message
    assert "use the address that it redirects to" in message
    message = error_of(f"{nginx.url}/loop/{name}")
    assert "redirects" in message and "use the address" in message
    assert f"({nginx.url.removeprefix('http://')})" in message


def test_what_tls_refuses(nginx: Nginx, photos: Path) -> None:
    name = on_web(nginx, photos)
    trusted = {"verify": str(nginx.ca_file), **HASTY}
    other_name = nginx.tls_url.replace("localhost", "127.0.0.1")
    for url, options, cause in (
        (nginx.expired_url, trusted, "certificate has expired"),
        (other_name, trusted, "no alternative certificate subject name matches"),
        (nginx.tls_url, HASTY, "unable to get local issuer certificate"),
    ):
        message = error_of(f"{url}/{name}", options)
        assert f"{url}/{name}" in message and f"({url.removeprefix('https://')})" in message
        assert cause in message
        assert "a file of certificates to trust (the storage option verify)" in message


def test_tls_and_plain_text_that_meet(nginx: Nginx, photos: Path) -> None:
    name = on_web(nginx, photos)
    plain = nginx.url.replace("http://", "https://")
    message = error_of(f"{plain}/{name}", {"verify": str(nginx.ca_file), **HASTY})
    assert "wrong version number" in message
    assert "check that the server speaks TLS there" in message
    tls = nginx.tls_url.replace("https://", "http://")
    message = error_of(f"{tls}/{name}")
    assert f"{tls}/{name}" in message and f"({tls.removeprefix('http://')})" in message
    assert "the server answered 400" in message


def test_a_certificate_that_is_not_valid_yet(nginx: Nginx, photos: Path) -> None:
    skip_without({"faketime": "faketime"})
    url = f"{nginx.tls_url}/{on_web(nginx, photos)}"
    command = ["faketime", "-m", "-f", "-3d", FOREBAY, "ls", url]
    done = subprocess.run(
        [*command, "--storage-option", f"verify={nginx.ca_file}"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "FAKETIME_DONT_FAKE_MONOTONIC": "1"},
    )
    assert done.returncode == 1
    assert url in done.stderr and "certificate is not yet valid" in done.stderr


# A setting of OpenSSL under which its programs speak TLS 1.0, which Debian's does not allow.
OLD_TLS = """
openssl_conf = all
[all]
ssl_conf = ssl
[ssl]
system_default = default
[default]
MinProtocol = TLSv1
CipherString = ALL:@SECLEVEL=0
"""


def test_old_tls_is_refused(nginx: Nginx, photos: Path, tmp_path: Path) -> None:
    url = f"{nginx.old_tls_url}/{on_web(nginx, photos)}"
    (tmp_path / "openssl.cnf").write_text(OLD_TLS)
    env = {**os.environ, "OPENSSL_CONF": str(tmp_path / "openssl.cnf")}
    old = ["curl", "--silent", "--fail", "--tlsv1.0", "--tls-max", "1.0", "--cacert"]
    served = subprocess.run([*old, nginx.ca_file, f"{url}/HEAD"], capture_output=True, env=env)
    assert served.stdout == (photos / "HEAD").read_bytes(), "curl does not speak TLS 1.0 either"
    options = ["--storage-option", f"verify={nginx.ca_file}"]
    refused = run_forebay(
        "ls", url, *options, "--storage-option", "max_attempts=2", env=env, code=1
    )
    assert url in refused.stderr and "check that the server speaks TLS there" in refused.stderr


def test_places_that_are_told_apart(nginx: Nginx, photos: Path) -> None:
    name = on_web(nginx, photos)
    # A server without ranges sends whole files.
    assert epoch(f"{nginx.url}/no-ranges/{name}") == epoch(photos)
    message = error_of(f"{nginx.url}/private/{name}")
    assert f"{nginx.url}/private/{name}" in message
    assert "the server answered 401" in message
    assert "Forebay sends no name and no password to web servers" in message


def test_a_handshake_that_is_cut(nginx: Nginx, photos: Path, chaos: Chaos) -> None:
    name = on_web(nginx, photos)
    trusted = {"verify": str(nginx.ca_file)}
    proxy = chaos(nginx.tls_url, raw=True)
    proxy.program(Fault(action="drop", at=100), Fault(action="reset", at=0), Fault(action="drop"))
    assert epoch(f"{proxy.url}/{name}", trusted) == epoch(photos)
    proxy.program(Fault(action="drop", at=100, times=-1))
    message = error_of(f"{proxy.url}/{name}", {**trusted, **HASTY})
    assert f"{proxy.url}/{name}" in message
    assert "SSL" in message and "tried 2 times" in message and "; check " in message


def test_a_port_where_nobody_listens() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    message = error_of(f"{url}/set", HASTY)
    assert f"{url}/set" in message and f"({url.removeprefix('http://')}, tried 2 times" in message
    assert "connect to server; check that the server runs" in message


@pytest.mark.nightly
def test_usual_patience_has_an_end(own: Nginx, photos: Path) -> None:
    dataset = forebay.Dataset(f"{own.url}/set")
    os.killpg(own.group, signal.SIGKILL)
    assert "tried 8 times" in error_of(dataset)
    with run_again(own):
        assert epoch(dataset) == epoch(photos)


def test_a_thousand_requests_with_few_descriptors(tmp_path: Path, photos: Path) -> None:
    with run_nginx(tmp_path, connections_max=40) as server:
        (server.folder / "set").symlink_to(photos)
        read_a_thousand_at_once(f"{server.url}/set", photos)


@pytest.mark.parametrize(
    "proxy", ["http://me:pa55word@127.0.0.1:99999", "socks9://me:pa55word@p:1"]
)
def test_a_proxy_that_cannot_be_is_said_once_and_without_its_password(proxy: str) -> None:
    env = {**os.environ, "http_proxy": proxy, "no_proxy": ""}
    said = run_forebay("inspect", "http://192.0.2.1/set", env=env, code=1).stderr
    assert "Unsupported proxy" in said and "correct the proxy's address" in said
    assert "pa55word" not in said and "me:" not in said
    assert "attempt" not in said
