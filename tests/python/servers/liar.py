"""A web server on loopback that answers some requests with whatever bytes a test wants."""

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HEAD_BYTES_MAX = 64 << 10


@dataclass(frozen=True)
class Asked:
    """A request for a file, and the right answer to it."""

    method: str
    content: bytes  # the whole file
    ranges: list[tuple[int, int]]  # first and end (exclusive); empty: the whole file is wanted

    def part(self) -> bytes:
        """Returns the bytes of the first range, or the whole file."""
        first, end = self.ranges[0] if self.ranges else (0, len(self.content))
        return self.content[first:end]

    def head(self, length: int | None = None, range_text: str | None = None) -> bytes:
        """Returns the head of an answer with the first range.

        `length` is the Content-Length (-1: none), and `range_text` the Content-Range, if they
        differ from the right ones.
        """
        lines = ["HTTP/1.1 206 Partial" if self.ranges else "HTTP/1.1 200 OK", "Connection: close"]
        if length != -1:
            lines.append(f"Content-Length: {len(self.part()) if length is None else length}")
        if self.ranges:
            first, end = self.ranges[0]
            right = f"bytes {first}-{end - 1}/{len(self.content)}"
            lines.append(f"Content-Range: {right if range_text is None else range_text}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def honest(self) -> bytes:
        """Returns the right answer."""
        return self.head() + (b"" if self.method == "HEAD" else self.part())


Lie = Callable[[Asked], Iterator[bytes]]


class Liar:
    """Serves the files of a folder over HTTP/1.1, one request a connection.

    Requests whose first line has a match of `match` get the bytes that `lie` yields, the
    first `times` of them (-1: all); then the connection is closed. Of several ranges it answers
    the first.
    """

    def __init__(
        self, folder: Path, lie: Lie, times: int = -1, match: str = "^GET .*chunks"
    ) -> None:
        self.folder, self.lie, self.match = folder, lie, match
        self.left = times
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Liar":
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES_MAX:
                piece = client.recv(HEAD_BYTES_MAX)
                if not piece:
                    return
                head += piece
            self._answer(head.decode("latin-1"), client)
            # Closing with unread bytes would reset the connection.
            client.shutdown(socket.SHUT_WR)
            client.recv(1)

    def _answer(self, head: str, client: socket.socket) -> None:
        method, path = head.split()[:2]
        file = self.folder / path.lstrip("/")
        if not file.is_file():
            client.sendall(b"HTTP/1.1 404 None\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        wanted = re.search(r"(?im)^range: bytes=([\d,-]+)", head)
        pairs = [text.split("-") for text in wanted[1].split(",")] if wanted else []
        asked = Asked(method, file.read_bytes(), [(int(a), int(b) + 1) for a, b in pairs])
        if re.search(self.match, head) and self._takes_turn():
            for piece in self.lie(asked):
                client.sendall(piece)
        else:
            client.sendall(asked.honest())

    def _takes_turn(self) -> bool:
        with self.lock:
            if self.left == 0:
                return False
            self.left -= 1  # from -1 on it never reaches 0
            return True
