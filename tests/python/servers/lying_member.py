"""Machines of a job's cache that have the job's secret and turn against the job, in one process.

`python -m servers.lying_member {...}` starts them; `LyingMembers` does so for a test. Each lie is a
machine of its own, which answers pings as an honest one does, so that the others keep asking it.
"""

import contextlib
import json
import re
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any

from .job_secret import server_context, tag, write_certificate
from .liar import HEAD_BYTES_MAX, Asked, Lie
from .processes import LOOPBACK

PING, ACK, GOSSIP = 0, 2, 5  # kinds of datagrams
ALIVE, SUSPECT, DEAD = 0, 1, 2  # states of members
TAG_BYTES = 32
PIECE = b"x" * 65536
INCARNATION_MAX = 1 << 63
Member = tuple[str, str, int, int, int]  # id, host, port, room_bytes, incarnation


def crc32c(content: bytes) -> int:
    """Returns the CRC-32C of some bytes (RFC 3720, B.4)."""
    table = crc32c_table()
    crc = 0xFFFFFFFF
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


_TABLE: list[int] = []


def crc32c_table() -> list[int]:
    """Returns the checksum's table."""
    if not _TABLE:
        for value in range(256):
            for _ in range(8):
                value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
            _TABLE.append(value)
    return _TABLE


def answer(content: bytes, *lines: str, status: str = "206 Partial Content") -> bytes:
    """Returns an answer with these bytes and more lines in its head."""
    head = [f"HTTP/1.1 {status}", "Connection: close", f"Content-Length: {len(content)}", *lines]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + content


def damaged(asked: Asked) -> bytes:
    """Returns the bytes of the first range with some of them changed."""
    content = bytearray(asked.part())
    for at in range(0, len(content), 1000):
        content[at] ^= 255
    return bytes(content)


def place(asked: Asked, shift: int = 0) -> str:
    """Returns the header that says where the bytes lie."""
    first, end = asked.ranges[0]
    return f"Content-Range: bytes {first + shift}-{end - 1 + shift}/{len(asked.content)}"


def too_few_bytes(asked: Asked) -> Iterator[bytes]:
    yield answer(asked.part()[:-1], place(asked))


def too_many_bytes(asked: Asked) -> Iterator[bytes]:
    yield answer(asked.part() + PIECE, place(asked))


def closes_midway(asked: Asked) -> Iterator[bytes]:
    whole = answer(asked.part(), place(asked))
    yield whole[: len(whole) - len(asked.part()) // 2]


def another_range(asked: Asked) -> Iterator[bytes]:
    yield answer(asked.part(), place(asked, shift=1))


def another_file(asked: Asked) -> Iterator[bytes]:
    first, end = asked.ranges[0]
    yield answer(asked.part(), f"Content-Range: bytes {first}-{end - 1}/{len(asked.content) + 1}")


def other_bytes(asked: Asked) -> Iterator[bytes]:
    """The checksum is that of the right bytes."""
    checksum = f"Forebay-Crc32c: {crc32c(asked.part()):08x}"
    yield answer(damaged(asked), place(asked), checksum)


def other_bytes_without_checksum(asked: Asked) -> Iterator[bytes]:
    yield answer(damaged(asked), place(asked))


def other_bytes_and_their_checksum(asked: Asked) -> Iterator[bytes]:
    content = damaged(asked)
    yield answer(content, place(asked), f"Forebay-Crc32c: {crc32c(content):08x}")


def checksums_that_are_none(asked: Asked) -> Iterator[bytes]:
    yield answer(asked.part(), place(asked), "Forebay-Crc32c: " + ",".join(["zz"] * 500))


def too_many_parts(asked: Asked) -> Iterator[bytes]:
    yield b"HTTP/1.1 206 P\r\nContent-Type: multipart/byteranges; boundary=b\r\n\r\n"
    while True:
        yield f"\r\n--b\r\n{place(asked)}\r\n\r\n".encode() + asked.part()


def a_part_without_end(asked: Asked) -> Iterator[bytes]:
    yield b"HTTP/1.1 206 P\r\nContent-Type: multipart/byteranges; boundary=b\r\n\r\n\r\n--b\r\n"
    while True:
        yield b"x-more: " + PIECE


def no_parts(asked: Asked) -> Iterator[bytes]:
    yield answer(b"\r\n--b--\r\n", "Content-Type: multipart/byteranges; boundary=b")


def a_body_without_end(asked: Asked) -> Iterator[bytes]:
    yield f"HTTP/1.1 206 P\r\n{place(asked)}\r\n\r\n".encode()
    while True:
        yield PIECE


def a_whole_file_without_end(asked: Asked) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    while True:
        yield b"10000\r\n" + PIECE + b"\r\n"


def headers_without_end(asked: Asked) -> Iterator[bytes]:
    yield b"HTTP/1.1 206 P\r\n"
    while True:
        yield b"x: y\r\n" * 1000


def a_header_without_end(asked: Asked) -> Iterator[bytes]:
    yield b"HTTP/1.1 206 P\r\nx: "
    while True:
        yield PIECE


def heads_without_end(asked: Asked) -> Iterator[bytes]:
    while True:
        yield b"HTTP/1.1 100 Continue\r\n\r\n" * 1000


def one_byte_a_second(asked: Asked) -> Iterator[bytes]:
    whole = answer(asked.part(), place(asked))
    head = len(whole) - len(asked.part())
    yield whole[:head]
    for at in range(head, len(whole)):
        yield whole[at : at + 1]
        time.sleep(1)


def nothing(asked: Asked) -> Iterator[bytes]:
    time.sleep(600)
    yield b""


def compressed(asked: Asked) -> Iterator[bytes]:
    yield answer(zlib.compress(bytes(100 << 20)), place(asked), "Content-Encoding: deflate")


def a_redirect(asked: Asked) -> Iterator[bytes]:
    yield answer(b"", "Location: /lure", status="302 Found")


def refuses(asked: Asked) -> Iterator[bytes]:
    yield answer(b"busy", "Retry-After: 60", status="503 Service Unavailable")


def no_answer_of_http(asked: Asked) -> Iterator[bytes]:
    yield b"\x00\xff\x16\x03" * 1000


def no_lie(asked: Asked) -> Iterator[bytes]:
    yield answer(asked.part(), place(asked))


# Those that can be seen at once.
FALSE: list[Lie] = [
    too_few_bytes,
    too_many_bytes,
    closes_midway,
    another_range,
    another_file,
    other_bytes,
    other_bytes_without_checksum,
    other_bytes_and_their_checksum,
    checksums_that_are_none,
    no_parts,
    compressed,
    a_redirect,
    refuses,
    no_answer_of_http,
]
ENDLESS: list[Lie] = [
    too_many_parts,
    a_part_without_end,
    a_body_without_end,
    a_whole_file_without_end,
    headers_without_end,
    a_header_without_end,
    heads_without_end,
]
SLOW: list[Lie] = [one_byte_a_second, nothing]
LIES = {lie.__name__: lie for lie in [*FALSE, *ENDLESS, *SLOW, no_lie]}


def encode_text(text: str) -> bytes:
    """Returns a text of at most 255 bytes as it stands in datagrams."""
    return bytes([len(text.encode())]) + text.encode()


def encode_member(member: Member) -> bytes:
    """Returns a member as it stands in datagrams."""
    name, host, port, room_bytes, incarnation = member
    return (
        encode_text(name) + encode_text(host) + struct.pack("<HQQ", port, room_bytes, incarnation)
    )


def encode_message(
    kind: int,
    sequence: int,
    sender: Member,
    probe: int = 0,
    news: Sequence[tuple[Member, int]] = (),
) -> bytes:
    """Returns a datagram without its tag; `news` are members with their states."""
    head = struct.pack("<BBQ", 1, kind, sequence) + encode_member(sender)
    if kind < GOSSIP:
        head += struct.pack("<I", probe)
    for member, state in news:
        head += encode_member(member) + bytes([state])
        head += struct.pack("<I", 1) if state == SUSPECT else b""
    return head


def probe_of_ping(datagram: bytes) -> int | None:
    """Returns the number of a ping; None for every other datagram."""
    if datagram[1] != PING:
        return None
    at = 10
    for _ in range(2):  # the sender's id and host
        at += 1 + datagram[at]
    return int(struct.unpack_from("<I", datagram, at + 2 + 8 + 8)[0])


class Machine:
    """A machine that tells one lie: a server with TLS, and a socket for datagrams beside it."""

    def __init__(self, lie: str, options: dict[str, Any], context: ssl.SSLContext) -> None:
        self.lie = LIES[lie]
        self.folder = Path(options["folder"])
        self.secret = options["secret"].encode()
        self.context = context
        self.asked: Counter[str] = Counter()
        self.sequence = 0
        self.lock = threading.Lock()
        host = options["host"]
        self.listener = socket.create_server((host, 0), backlog=512)
        port = self.listener.getsockname()[1]
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind((host, port))
        self.member: Member = (f"{lie} {port}", host, port, options["room_bytes"], 1)
        threading.Thread(target=self._accept, daemon=True).start()
        threading.Thread(target=self._answer_pings, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), self.context.wrap_socket(client, True) as secure:
            head = b""
            while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES_MAX:
                piece = secure.recv(HEAD_BYTES_MAX)
                if not piece:
                    return
                head += piece
            for piece in self.lie(self._asked(head.decode("latin-1"))):
                secure.sendall(piece)

    def _asked(self, head: str) -> Asked:
        method, target = head.split()[:2]
        name = urllib.parse.unquote(target.partition("?")[0]).rpartition("/")[2]
        with self.lock:
            self.asked[name] += 1
        wanted = re.search(r"(?im)^range: bytes=([\d,-]+)", head)
        pairs = [text.split("-") for text in wanted[1].split(",")] if wanted else []
        file = self.folder / "chunks" / name
        content = file.read_bytes() if file.is_file() else b"none"
        return Asked(method, content, [(int(a), int(b) + 1) for a, b in pairs])

    def _answer_pings(self) -> None:
        while True:
            datagram, sender = self.datagrams.recvfrom(2048)
            probe = probe_of_ping(datagram[TAG_BYTES:])
            if probe is not None:
                self.send(ACK, sender, probe)

    def send(
        self,
        kind: int,
        to: tuple[str, int],
        probe: int = 0,
        news: Sequence[tuple[Member, int]] = (),
    ) -> None:
        """Sends a datagram of the job."""
        with self.lock:
            self.sequence += 1
            message = encode_message(kind, self.sequence, self.member, probe, news)
        self.datagrams.sendto(tag(self.secret, message) + message, to)


def deaths(machine: Machine, honest: list[Member]) -> None:
    """Says again and again that the honest machines are dead, with the highest incarnation."""
    news = [((*member[:4], INCARNATION_MAX), DEAD) for member in honest]
    for _ in range(200):
        for member in honest:
            machine.send(GOSSIP, member[1:3], 0, [one for one in news if one[0][0] != member[0]])
            machine.send(GOSSIP, member[1:3], 0, news)
        time.sleep(0.01)


def inventions(machine: Machine, honest: list[Member]) -> None:
    """Says that there are thousands of machines with much room, some at places that are none."""
    hosts = ["127.0.0.1", "127.0.0.1:9/set?", "fe80::1%/set?", "nobody", "a" * 253, "\n\n"]
    for number in range(0, 6000, 4):
        news: list[tuple[Member, int]] = [
            ((f"{number + i}", hosts[i % 6 if i else number % 6], 9, 1 << 62, 1), ALIVE)
            for i in range(4)
        ]
        for member in honest:
            machine.send(GOSSIP, member[1:3], 0, news)
        time.sleep(0.001)


def noise(machine: Machine, honest: list[Member]) -> None:
    """Sends datagrams that say nothing, with the job's tag and without it."""
    random = Random(7)
    for _ in range(20_000):
        message = random.randbytes(random.randrange(1300))
        for member in honest:
            right = tag(machine.secret, message)
            machine.datagrams.sendto(random.choice([right, bytes(32)]) + message, member[1:3])


SAYINGS = {saying.__name__: saying for saying in [deaths, inventions, noise]}


def main() -> None:
    """Runs the machines, and answers each line of the input."""
    options = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        context = server_context(*write_certificate(options["secret"].encode(), Path(folder)))
    if options["certificate"]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*options["certificate"])
    crc32c_table()
    machines = [Machine(lie, options, context) for lie in options["lies"]]
    print(json.dumps([machine.member for machine in machines]), flush=True)
    for line in sys.stdin:
        saying, honest = json.loads(line)
        if saying:
            SAYINGS[saying](machines[0], [tuple(member) for member in honest])
        asked = {machine.lie.__name__: machine.asked for machine in machines}
        print(json.dumps(asked), flush=True)


class LyingMembers:
    """A process with machines that each tell one of these lies about the files of a dataset.

    They show the job's certificate, or another one with its key.
    """

    def __init__(
        self,
        secret: str,
        folder: Path,
        lies: list[Lie],
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        options = {
            "secret": secret,
            "folder": str(folder),
            "lies": [lie.__name__ for lie in lies],
            "certificate": certificate and [str(path) for path in certificate],
            "host": LOOPBACK,
            "room_bytes": 1 << 40,  # so they own nearly all
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "servers.lying_member", json.dumps(options)],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.members: list[Member] = [tuple(member) for member in self._line()]

    def __enter__(self) -> "LyingMembers":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)

    def _line(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def asked(self, saying: str = "", honest: Sequence[Member] = ()) -> dict[str, dict[str, int]]:
        """Returns for each lie how often it was told about which files.

        Before that the first machine says something to these others: "deaths", "inventions" or
        "noise".
        """
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([saying, honest]) + "\n")
        self.process.stdin.flush()
        asked: dict[str, dict[str, int]] = self._line()
        return asked


if __name__ == "__main__":
    main()
