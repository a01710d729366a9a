"""A job's cache whose members lie, whose disks fail, and whose server meets too many clients."""

import contextlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import forebay
from conftest import leave_out, run_forebay
from places import epoch, on_web
from servers import lying_member
from servers.cache_process import SECRET, Process
from servers.job_secret import client_context, write_certificate
from servers.liar import Lie
from servers.lying_member import LyingMembers, Member
from servers.network import in_own_network, run
from servers.nginx import Nginx, make_certificates, run_nginx
from servers.processes import wait_for


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    """Returns a list for processes, which are killed at the end."""
    started: list[Process] = []
    yield started
    for one in started:
        one.process.kill()
        one.process.wait(timeout=60)


@pytest.fixture(scope="session")
def many(photos: Path) -> Path:
    """Returns the photographs, twice, in so many chunks that each of some members owns a few."""
    root = photos.parent / "twice"
    for copy in "ab":
        shutil.copytree(photos.parent / "images", root / "images" / copy, copy_function=os.link)
    run_forebay("pack", root / "images", root / "set", "--chunk-bytes", "65536")
    return root / "set"


@pytest.fixture(scope="session")
def expected(many: Path) -> list[list[str]]:
    """Returns the hashes of the batches of an undisturbed epoch of whole images, and of crops."""
    return [epoch(many, regions="never"), epoch(many)]


@pytest.fixture
def web(nginx: Nginx, many: Path) -> str:
    """Returns the URL of the photographs on nginx."""
    return f"{nginx.url}/{on_web(nginx, many)}"


HALF = len(lying_member.FALSE) // 2


@pytest.mark.parametrize(
    "lies",
    [
        pytest.param(lying_member.FALSE[:HALF], id="false bytes"),
        pytest.param(lying_member.FALSE[HALF:], id="false answers"),
        pytest.param(lying_member.ENDLESS, id="endless"),
        pytest.param(lying_member.SLOW, id="slow"),
    ],
)
def test_members_that_lie_change_no_batch(
    lies: list[Lie],
    web: str,
    many: Path,
    expected: list[list[str]],
    tmp_path: Path,
    processes: list[Process],
) -> None:
    with LyingMembers(SECRET, many, lies) as liars:
        honest = Process(web, tmp_path, SECRET)
        processes.append(honest)
        honest.begin(liars.members)
        stats = honest.end(expected)
        # On a busy machine some may seem to be gone, and come back.
        for _ in range(5):
            asked = liars.asked()
            if all(asked.values()):
                break
            honest.begin()
            honest.end(expected)
    assert [name for name, names in asked.items() if not names] == []
    # Nobody asked where a redirect led.
    assert not any("lure" in names for names in asked.values())
    assert stats["peer_failures"] > 0


def test_lies_about_who_is_there_change_no_batch(
    web: str, many: Path, expected: list[list[str]], tmp_path: Path, processes: list[Process]
) -> None:
    with LyingMembers(SECRET, many, [lying_member.no_lie]) as liar:
        for name in "ab":
            processes.append(Process(web, tmp_path / name, SECRET))
        honest = [one.member for one in processes]
        for number, saying in enumerate(("noise", "deaths", "inventions")):
            for one in processes:
                one.begin([] if number else [*honest, *liar.members])
            liar.asked(saying, honest)
            for one in processes:
                one.end(expected)
        # The file that tells a machine's other processes of the members stays small.
        notices = [tmp_path / name / "forebay-cache/server" for name in "ab"]
        assert all(notice.stat().st_size < 4 << 20 for notice in notices)


class Client:
    """A connection to a machine's server that knows the job's secret, or speaks plain HTTP."""

    def __init__(self, member: Member, context: ssl.SSLContext | None) -> None:
        self.socket = socket.create_connection(member[1:3], timeout=30)
        if context is not None:
            self.socket = context.wrap_socket(self.socket)

    def ask(self, target: bytes, ranges: bytes = b"bytes=0-9") -> bytes:
        """Sends a request; returns all that comes until the server hangs up."""
        answer = b""
        with self.socket, contextlib.suppress(ConnectionError, ssl.SSLError):
            self.socket.sendall(
                b"GET " + target + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                b"Range: " + ranges + b"\r\n\r\n"
            )
            while piece := self.socket.recv(1 << 16):
                answer += piece
        return answer


def target(path: str, size: int) -> bytes:
    """Returns how members name a file of this size."""
    return f"/{urllib.parse.quote(path, safe='')}?size={size}&modified=0&etag=".encode()


def test_what_a_member_may_ask_for(
    many: Path, expected: list[list[str]], tmp_path: Path, processes: list[Process]
) -> None:
    context = client_context(*write_certificate(SECRET.encode(), tmp_path))
    server = Process(str(many), tmp_path / "cache", SECRET)
    processes.append(server)
    chunk = next((many / "chunks").iterdir())
    size = chunk.stat().st_size
    (many.parent / "secret").write_text("not of this job")
    (many.parent / "set-2").mkdir(exist_ok=True)
    (many.parent / "set-2/secret").write_text("not of this job")
    right = target(str(chunk), size)

    def ask(*request: bytes) -> bytes:
        return Client(server.member, context).ask(*request)

    assert ask(right).startswith(b"HTTP/1.1 206 ")
    assert ask(right).endswith(chunk.read_bytes()[:10])
    paths = (
        f"{many}/../secret",
        f"{many}/chunks/../../secret",
        f"{many}/./chunks/{chunk.name}",
        f"{many.parent}/secret",
        f"{many}-2/secret",
        f"{many}/../set-2/secret",
        "/etc/passwd",
        "/",
        "",
        "../secret",
        f"file://{chunk}",
        "http://127.0.0.1:9/x",
        f"{many}\0/../secret",
    )
    plain = str(chunk).encode()
    raw = (
        plain,
        b"/" + plain,
        b"/%2e%2e/%2e%2e/etc/passwd?size=9&modified=0&etag=",
        right.replace(b"%2F", b"%2f"),
        right.replace(b"%2F", b"/"),
        right + b"&size=1",
        right.replace(b"size=", b"size=0"),
        right + b"\0",
        b"/" + b"a" * 100_000,
        b"*",
        b"http://127.0.0.1/" + right,
    )
    ranges = (
        b"bytes=0-" + str(size).encode(),
        b"bytes=0-18446744073709551615",
        b"bytes=5-4",
        b"bytes=0-9,5-14",
        b"bytes=10-19,0-9",
        b"bytes=" + b",".join(b"%d-%d" % (2 * i, 2 * i) for i in range(65)),
        b"bytes=-5",
        b"",
    )
    requests = [(target(path, 15), b"bytes=0-9") for path in paths]
    requests += [(one, b"bytes=0-9") for one in raw]
    requests += [(right, one) for one in ranges]
    # At once, because a server waits a moment for files that it may be told of.
    with ThreadPoolExecutor(len(requests)) as pool:
        answers = pool.map(lambda one: ask(*one), requests)
        given = [one for one, answer in zip(requests, answers, strict=True) if b" 206 " in answer]
    assert given == []
    # This file is below the dataset's place and does not exist: the server sends only a head.
    assert ask(target(f"{many}/chunks/" + "x" * 4000, 15)).endswith(b"\r\n\r\n")
    # A size that the file does not have, so that the range is outside of it.
    assert ask(target(str(chunk), 1 << 50), b"bytes=%d-%d" % (size, size + 9)).endswith(b"\r\n\r\n")
    server.begin()
    assert server.end(expected)["trouble"] == ""


def test_what_the_system_trusts_is_no_member(
    many: Path, expected: list[list[str]], tmp_path: Path, processes: list[Process]
) -> None:
    """A server whose certificate the system's authorities have signed gets no request."""
    make_certificates(tmp_path)
    trusted = tmp_path / "trusted"
    trusted.mkdir()
    for name in ("ca-certificates.crt", "ca.pem"):
        (trusted / name).write_bytes((tmp_path / "ca.pem").read_bytes())
    certificate = (tmp_path / "server.pem", tmp_path / "server.key")
    (tmp_path / "nginx").mkdir()

    def work() -> None:
        run("openssl", "rehash", str(trusted))
        run("mount", "--bind", str(trusted), "/etc/ssl/certs")
        with (
            run_nginx(tmp_path / "nginx") as nginx,
            LyingMembers(SECRET, many, [lying_member.no_lie], certificate) as stranger,
        ):
            (nginx.folder / "set").symlink_to(many)
            url = f"https://localhost:{stranger.members[0][2]}/x"
            run("curl", "-sS", "-r", "0-3", url)  # the system does trust it
            before = stranger.asked()
            assert before["no_lie"] == {"x": 1}
            process = Process(f"{nginx.url}/set", tmp_path / "cache", SECRET)
            processes.append(process)
            process.begin(stranger.members)
            stats = process.end(expected)
            assert stats["peer_requests"] > 0
            assert stranger.asked() == before

    in_own_network(work)


def descriptors(process: Process) -> int:
    """Returns how many files and connections a process has open."""
    return len(os.listdir(f"/proc/{process.process.pid}/fd"))


@pytest.mark.parametrize("files", [20_000, 256])
def test_a_thousand_clients_of_one_server(
    files: int,
    web: str,
    many: Path,
    expected: list[list[str]],
    tmp_path: Path,
    processes: list[Process],
) -> None:
    """The others' epochs are the same, whether they are served or not, and nothing stays open."""
    for _ in range(2):
        processes.append(Process(web, tmp_path, limits=f"prlimit --nofile={files}"))
    server, other = processes
    server.begin()
    assert server.end(expected)["serves"]
    before = descriptors(server)
    chunk = next((many / "chunks").iterdir())
    size = chunk.stat().st_size
    asks = b"GET " + target(f"{web}/chunks/{chunk.name}", size) + b" HTTP/1.1\r\nHost: a\r\n"
    asks += b"Range: bytes=0-%d\r\n\r\n" % (size - 1)
    with contextlib.ExitStack() as stack:
        clients = []
        for number in range(1000):
            client = stack.enter_context(socket.create_connection(server.member[1:3], timeout=30))
            clients.append(client)
            with contextlib.suppress(ConnectionError):
                if number % 3 == 1:  # begins a request and does not go on
                    client.sendall(asks[: number % (len(asks) - 1)])
                if number % 3 == 2:  # asks and takes no answer
                    client.sendall(asks * 4)
        for process in (server, other):
            process.begin()
        for process in (server, other):
            process.end(expected)
        assert descriptors(server) < files
    wait_for(lambda: descriptors(server) <= before + 40)

    def peer_hit_bytes() -> int:
        other.begin()
        return int(other.end(expected)["peer_hit_bytes"])

    wait_for(lambda: peer_hit_bytes() > 0)


DISK_BYTES = 64 << 20


@contextlib.contextmanager
def failing_disk(folder: Path) -> Iterator[Path]:
    """Gives a disk (ext4 on the file `image`) that has a place below `folder`."""
    if os.geteuid() != 0:
        leave_out("mounting a disk needs root")
    image = folder / "image"
    place = folder / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    run("mkfs.ext4", "-q", "-O", "^has_journal", "-m", "0", str(image))
    # Without direct I/O the system would read zeros where the file has ended.
    attach = ["losetup", "-f", "--show", "--direct-io=on", str(image)]
    device = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
    try:
        run("mount", "-o", "errors=remount-ro", device, str(place))
        yield place
        run("umount", "-l", str(place))
    finally:
        run("losetup", "-d", device)


def let_fail(disk: Path) -> None:
    """Makes a disk fail, and drops what the system has of its files in memory."""
    os.sync()
    with (disk.parent / "image").open("r+b") as image:
        image.truncate(1 << 20)
    for file in (disk / "forebay-cache/held").iterdir():
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_a_disk_that_fails_makes_the_cache_smaller(
    web: str, expected: list[list[str]], tmp_path: Path, processes: list[Process]
) -> None:
    with failing_disk(tmp_path) as disk:
        for _ in range(2):
            processes.append(Process(web, disk))
        server, other = processes
        other.begin()
        other.end(expected)
        let_fail(disk)
        for process in (other, server):
            process.begin()
            stats = process.end(expected)
        assert stats["serves"]
        assert stats["damaged"] > 0
        assert "error" in stats["trouble"], stats
        # What could not be read makes nobody leave the server alone.
        failures = []
        for _ in range(2):
            other.begin()
            failures.append(other.end(expected)["peer_failures"])
        assert failures[0] == failures[1]
        for process in processes:
            process.process.kill()
            process.process.wait()


def test_bits_that_flip_are_found_by_whoever_reads(
    web: str, expected: list[list[str]], tmp_path: Path, processes: list[Process]
) -> None:
    for _ in range(2):
        processes.append(Process(web, tmp_path))
    server, other = processes
    other.begin()
    other.end(expected)
    for file in (tmp_path / "forebay-cache/held").iterdir():
        content = bytearray(file.read_bytes())
        for at in range(100, len(content), 50_000):
            content[at] ^= 1 << at % 8
        file.write_bytes(content)
    for process in (other, server):
        process.begin()
        stats = process.end(expected)
    assert stats["damaged"] > 0


def test_jobs_with_different_secrets_in_one_folder(
    web: str, expected: list[list[str]], tmp_path: Path, processes: list[Process]
) -> None:
    """The second job reads around the first one's server, and goes on with its folder."""
    for secret in (SECRET, "another" * 5, ""):
        processes.append(Process(web, tmp_path, secret))
    for process in processes:
        process.begin()
    stats = [process.end(expected) for process in processes]
    assert [one["serves"] for one in stats] == [True, False, False]
    assert stats[0]["served_requests"] == 0
    assert all(one["peer_hit_bytes"] == 0 for one in stats)
    processes[0].process.kill()
    processes[0].process.wait()
    for process in processes[1:]:
        process.begin()
    stats = [process.end(expected) for process in processes[1:]]
    assert sum(one["serves"] for one in stats) == 1
    for process in processes[1:]:
        assert process.process.stdin is not None
        process.process.stdin.close()
        assert process.process.wait(timeout=60) == 0
    assert not (tmp_path / "forebay-cache").exists()


AS_NOBODY = """
import os, sys
import forebay
forebay.Cache(sys.argv[1] + "/own", disk_bytes="1MB")  # imports all that is needed
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    forebay.Cache(sys.argv[1], disk_bytes="1GB")
except OSError as error:
    print(error)
for folder in sys.argv[2:]:
    try:
        os.listdir(folder)
        print("not private:", folder)
    except PermissionError:
        pass
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_another_user_can_neither_share_nor_read_a_folder(web: str, tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if Path(tempfile.gettempdir()) in folder.parents:
            folder.chmod(0o755)
    before = set(os.listdir("/dev/shm"))
    cache = forebay.Cache(tmp_path, disk_bytes="1GB", memory_bytes="1MB")
    epoch(web, cache=cache)
    memory = [f"/dev/shm/{name}" for name in set(os.listdir("/dev/shm")) - before]
    assert memory
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, tmp_path, tmp_path / "forebay-cache", *memory],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert (
        "forebay-cache: is not a folder that belongs to this user; name another one" in done.stdout
    ), done
    assert "not private" not in done.stdout


ASK_AS_NOBODY = """
import encodings.idna, http.client, os, sys  # modules that another user may not read
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    print(open(sys.argv[1]).read())
except PermissionError:
    print("private")
for token in ("", "0" * 64):
    server = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]))
    server.request("GET", "/figures", headers={
        "Range": "bytes=0-9", **({"Authorization": f"Bearer {token}"} if token else {})})
    print(server.getresponse().status)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_another_user_is_not_served(
    web: str, expected: list[list[str]], tmp_path: Path, processes: list[Process]
) -> None:
    """Processes of the same user find the secret in the folder; another user cannot read it."""
    for folder in (tmp_path, *tmp_path.parents):
        if Path(tempfile.gettempdir()) in folder.parents:
            folder.chmod(0o755)
    for _ in range(2):
        processes.append(Process(web, tmp_path))
        processes[-1].begin()
        stats = processes[-1].end(expected)
    assert stats["peer_hit_bytes"] > 0
    assert stats["origin_bytes"] == 0
    notice = tmp_path / "forebay-cache" / "server"
    port = json.loads(notice.read_text())["machine"]["port"]
    done = subprocess.run(
        [sys.executable, "-c", ASK_AS_NOBODY, notice, str(port)],
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["private", "401", "401"], done


# Opens two machines of a job again and again in one process, reads, and closes them.
ROUNDS = """
import gc, json, os, sys
import forebay, forebay.data.cache, forebay.data.cache_rendezvous
from places import epoch
url, folder, secret = sys.argv[1:]
def machine(name):
    own = forebay.data.cache_rendezvous.Machine("127.0.0.1", secret)
    return forebay.data.cache._copy((f"{folder}/{name}", 10**9, 10**5, False), own)
def one_round():
    caches = [machine(name) for name in "ab"]
    members = [cache.core.machine for cache in caches]
    for cache in caches:
        cache.core.join(members)
    datasets = [forebay.Dataset(url, cache=cache) for cache in caches]
    hashes = [epoch(dataset, regions="never") for dataset in datasets]
    assert hashes[0] == hashes[1]
    return sum(cache.stats()["peer_hit_bytes"] for cache in caches)
def held():
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    counts = [len(os.listdir(f"/proc/self/{kind}")) for kind in ("fd", "task")]
    return [*counts, len(os.listdir("/dev/shm")), resident]
for _ in range(2):
    assert one_round() > 0
gc.collect()
before = held()
later = []
for _ in range(6):
    one_round()
    gc.collect()
    later.append(held())
# The allocator's own free memory comes and goes: the least of some rounds is what stays.
print(json.dumps([before, [*later[-1][:3], min(each[3] for each in later[3:])]]))
"""


def test_nothing_stays_of_caches_that_were_closed(web: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ROUNDS, web, tmp_path, SECRET],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr
    before, after = json.loads(done.stdout)
    assert after[0] <= before[0] + 2  # descriptors
    assert after[1] <= before[1] + 2  # threads
    assert after[2] <= before[2]  # shared memory
    assert after[3] < before[3] + (32 << 20)
    assert list(tmp_path.glob("*/*")) == []
