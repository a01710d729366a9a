"""The servers that tests use answer like docs/decisions/0012-http.md and servers/ say."""

import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from servers import ceph, processes
from servers import nginx as nginx_server
from servers.curl import curl, curl_error
from servers.nginx import Nginx
from servers.processes import wait_for
from servers.s3 import S3

CONTENT = bytes(range(256)) * 40


@pytest.fixture(scope="module")
def path(nginx: Nginx) -> str:
    """Returns the path, below nginx's URLs, of a file of CONTENT."""
    name = f"servers-{os.getpid()}.bin"
    (nginx.folder / name).write_bytes(CONTENT)
    return name


@pytest.fixture(scope="module")
def bucket(s3: S3) -> str:
    """Returns a bucket that holds an object "a" of CONTENT."""
    name = s3.make_bucket()
    assert s3.request("PUT", f"/{name}/a", body=CONTENT).status == 200
    return name


RANGES = {
    "10-19": CONTENT[10:20],
    "-5": CONTENT[-5:],
    "10200-": CONTENT[10200:],
    "10000-99999": CONTENT[10000:],
}


@pytest.mark.parametrize("asked", RANGES)
def test_nginx_answers_one_range(nginx: Nginx, path: str, asked: str) -> None:
    answer = curl(f"{nginx.url}/{path}", "--range", asked)
    assert (answer.status, answer.body) == (206, RANGES[asked])


@pytest.mark.parametrize("asked", RANGES)
def test_ceph_answers_one_range(s3: S3, bucket: str, asked: str) -> None:
    answer = s3.request("GET", f"/{bucket}/a", headers={"Range": f"bytes={asked}"})
    assert (answer.status, answer.body) == (206, RANGES[asked])


def test_nginx_answers_two_ranges_in_parts(nginx: Nginx, path: str) -> None:
    answer = curl(f"{nginx.url}/{path}", "--range", "0-9,100-109")
    assert answer.status == 206
    assert answer.headers["content-type"].startswith("multipart/byteranges")
    assert CONTENT[:10] in answer.body and CONTENT[100:110] in answer.body


def test_nginx_answers_many_ranges(nginx: Nginx, path: str) -> None:
    many = curl(
        f"{nginx.url}/{path}", "--range", ",".join(f"{i * 50}-{i * 50 + 9}" for i in range(200))
    )
    assert (many.status, many.body.count(b"Content-Range: bytes ")) == (206, 200)
    more_than_the_file = curl(f"{nginx.url}/{path}", "--range", "0-9999,0-9999")
    assert (more_than_the_file.status, more_than_the_file.body) == (200, CONTENT)
    one_valid = curl(f"{nginx.url}/{path}", "--range", "0-9,99999-")
    assert (one_valid.status, one_valid.body) == (206, CONTENT[:10])


def test_ceph_answers_only_the_first_of_two_ranges(s3: S3, bucket: str) -> None:
    answer = s3.request("GET", f"/{bucket}/a", headers={"Range": "bytes=0-9,100-109"})
    assert (answer.status, answer.body) == (206, CONTENT[:10])
    assert answer.headers["content-range"] == f"bytes 0-9/{len(CONTENT)}"


def test_a_range_beyond_the_end_is_refused(nginx: Nginx, path: str, s3: S3, bucket: str) -> None:
    assert curl(f"{nginx.url}/{path}", "--range", "99999-").status == 416
    answer = s3.request("GET", f"/{bucket}/a", headers={"Range": "bytes=99999-"})
    assert answer.status == 416


def test_nginx_heeds_if_range_and_ceph_does_not(
    nginx: Nginx, path: str, s3: S3, bucket: str
) -> None:
    other = {"Range": "bytes=0-9", "If-Range": '"other"'}
    options = [word for name, value in other.items() for word in ("--header", f"{name}: {value}")]
    assert curl(f"{nginx.url}/{path}", *options).status == 200
    assert s3.request("GET", f"/{bucket}/a", headers=other).status == 206


def test_places_of_nginx(nginx: Nginx, path: str) -> None:
    whole = curl(f"{nginx.url}/no-ranges/{path}", "--range", "0-9")
    assert (whole.status, whole.body) == (200, CONTENT)
    moved = curl(f"{nginx.url}/moved/{path}")
    assert (moved.status, moved.headers["location"]) == (302, f"{nginx.url}/{path}")
    assert curl(f"{nginx.url}/moved/{path}", "--location").body == CONTENT
    too_many_redirects = 47
    assert curl_error(f"{nginx.url}/loop/{path}", "--location") == too_many_redirects


def test_a_private_place_asks_for_a_password(nginx: Nginx, path: str) -> None:
    url = f"{nginx.url}/private/{path}"
    assert curl(url).status == 401
    user = f"{nginx_server.USER}:{nginx_server.PASSWORD}"
    assert curl(url, "--user", user).body == CONTENT


def test_a_slow_place_is_slow(nginx: Nginx) -> None:
    (nginx.folder / "slow.bin").write_bytes(bytes(300_000))
    url = f"{nginx.url}/slow/slow.bin"
    timed_out = 28
    assert curl_error(url, "--max-time", "1") == timed_out


def test_tls_of_nginx(nginx: Nginx, path: str) -> None:
    trusted = ("--cacert", str(nginx.ca_file))
    url = f"{nginx.tls_url}/{path}"
    version = ("--output", "/dev/null", "--write-out", "%{http_version}")
    said = subprocess.run(
        ["curl", "--silent", *trusted, *version, url], capture_output=True, text=True
    )
    assert said.stdout == "2"
    assert curl(url, *trusted, "--http1.1").body == CONTENT
    untrusted = 60
    assert curl_error(url) == untrusted
    assert curl_error(f"{nginx.expired_url}/{path}", *trusted) == untrusted
    assert curl_error(url.replace("localhost", "127.0.0.1"), *trusted) == untrusted


def test_conditions_that_ceph_honours(s3: S3, bucket: str) -> None:
    a = f"/{bucket}/a"
    etag = s3.request("HEAD", a).headers["etag"]
    assert s3.request("GET", a, headers={"If-Match": '"other"'}).status == 412
    assert s3.request("GET", a, headers={"If-None-Match": etag}).status == 304
    assert s3.request("PUT", a, body=b"x", headers={"If-None-Match": "*"}).status == 412
    # Ceph compares the quotes too.
    assert s3.request("PUT", a, body=CONTENT, headers={"If-Match": etag}).status == 412
    unquoted = etag.strip('"')
    assert s3.request("PUT", a, body=CONTENT, headers={"If-Match": unquoted}).status == 200


def test_of_many_conditional_puts_ceph_lets_one_win(s3: S3, bucket: str) -> None:
    def put(number: int) -> int:
        headers = {"If-None-Match": "*"}
        return s3.request("PUT", f"/{bucket}/raced", body=b"%d" % number, headers=headers).status

    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(put, range(16)))
    assert sorted(statuses) == [200] + [412] * 15
    winner = b"%d" % statuses.index(200)
    assert s3.request("GET", f"/{bucket}/raced").body == winner


def test_conditions_that_ceph_ignores(s3: S3, bucket: str) -> None:
    a = f"/{bucket}/multipart"
    assert s3.request("PUT", a, body=b"before").status == 200
    started = s3.request("POST", f"{a}?uploads=")
    upload = re.findall(rb"<UploadId>(.*)</UploadId>", started.body)[0].decode()
    part = s3.request("PUT", f"{a}?partNumber=1&uploadId={upload}", body=CONTENT)
    order = (
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
        f"<ETag>{part.headers['etag']}</ETag></Part></CompleteMultipartUpload>"
    )
    done = s3.request(
        "POST", f"{a}?uploadId={upload}", body=order.encode(), headers={"If-None-Match": "*"}
    )
    assert done.status == 200
    assert s3.request("GET", a).body == CONTENT
    assert s3.request("HEAD", a).headers["etag"].endswith('-1"')
    assert s3.request("DELETE", a, headers={"If-Match": '"other"'}).status == 204
    assert s3.request("HEAD", a).status == 404


def test_keys_of_ceph(s3: S3, bucket: str) -> None:
    a = f"/{bucket}/a"
    refused = s3.request("GET", a, key=s3.stranger_key)
    assert (refused.status, b"AccessDenied" in refused.body) == (403, True)
    key = ceph.make_key(s3.config)
    assert s3.request("GET", a, key=key).body == CONTENT
    ceph.remove_key(s3.config, key)
    refused = s3.request("GET", a, key=key)
    assert (refused.status, b"InvalidAccessKeyId" in refused.body) == (403, True)


def test_upload_of_a_folder(s3: S3, tmp_path: Path) -> None:
    names = ("a.jpg", "b/c ü+'.jpg", 'd"\\.bin')
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    bucket = s3.make_bucket()
    s3.upload(tmp_path, bucket, "images/")
    listing = s3.request("GET", f"/{bucket}?list-type=2&prefix=images%2F").body.decode()
    assert len(re.findall("<Key>", listing)) == len(names)
    assert s3.request("GET", f"/{bucket}/images/b/c%20%C3%BC%2B%27.jpg").body == names[1].encode()


def test_a_server_ends_with_the_process_that_it_is_for(tmp_path: Path, nginx: Nginx) -> None:
    """This process stands for a run of pytest that is killed."""
    program = (
        "import json, pathlib, sys, time; from servers import keeper;"
        "print(json.dumps(keeper.shared('nginx', pathlib.Path(sys.argv[1]))), flush=True);"
        "time.sleep(60)"
    )
    environment = {name: v for name, v in os.environ.items() if name != "PYTEST_XDIST_WORKER"}
    run = subprocess.Popen(
        [sys.executable, "-c", program, tmp_path / "servers"],
        cwd=Path(processes.__file__).parents[1],
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert run.stdout is not None
    with run.stdout:
        server = nginx_server.described(json.loads(run.stdout.readline()))
    assert curl(f"{server.url}/nothing").status == 404
    run.send_signal(signal.SIGKILL)
    run.wait()
    wait_for(lambda: not any((tmp_path / "servers").glob("nginx/*")))
    refused = 7
    assert curl_error(server.url) == refused


def test_the_workers_of_a_run_share_a_server(nginx: Nginx, servers_folder: Path) -> None:
    from servers import keeper

    assert nginx_server.described(keeper.shared("nginx", servers_folder)) == nginx


def test_an_error_of_the_start_is_told_to_every_caller(tmp_path: Path) -> None:
    from servers import keeper

    (tmp_path / "ceph.json").write_text(json.dumps({"error": "mon ended with status 1"}))
    with pytest.raises(processes.StartError, match="mon ended"):
        keeper.shared("ceph", tmp_path)


@pytest.mark.usefixtures("nginx")
def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    config = tmp_path / "nginx.conf"
    config.write_text("nonsense;")
    log = tmp_path / "nginx.log"
    server = nginx_server.start_server(config, log)
    with pytest.raises(processes.StartError, match='unknown directive "nonsense"'):
        processes.wait_until(lambda: False, server, log)
