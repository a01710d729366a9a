"""The process of chaos.ChaosProxy: `python -m servers.chaos_proxy HOST:PORT http|raw`.

It reads questions, each a line of JSON, from its standard input and answers each with a line; it
ends when the input ends. A thread serves each connection, with one request after the other.
"""

import contextlib
import json
import os
import re
import select
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from .chaos import Fault, Request

PIECE_BYTES = 64 << 10
HEAD_BYTES_MAX = 64 << 10
DRIP_S = 0.1


class EndedError(Exception):
    """The connection is over: by the action of a fault, or without one because a side closed it."""

    def __init__(self, action: str = "") -> None:
        super().__init__(action)
        self.action = action


class SendError(EndedError):
    """The connection is over because the receiver does not take more."""


class Program:
    """The faults to come, what was counted and which requests came. All threads may use it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.faults: list[Fault] = []
        self.left: list[int] = []  # how many requests each fault will still meet
        self.skips: list[int] = []
        self.counts = Counter(connections=0, requests=0, bytes_to_server=0, bytes_to_client=0)
        self.requests: list[Request] = []

    def set_faults(self, faults: list[Fault]) -> None:
        """Replaces all faults."""
        with self.lock:
            self.faults = faults
            self.left = [fault.times for fault in faults]
            self.skips = [fault.skip for fault in faults]

    def meet(self, line: str, range_header: str) -> Fault:
        """Counts a request and returns the fault that it meets, which may do nothing."""
        with self.lock:
            met = self._find(line)
            self.counts["requests"] += 1
            self.requests.append(Request(line, range_header, met))
            return Fault() if met < 0 else self.faults[met]

    def _find(self, line: str) -> int:
        for index, fault in enumerate(self.faults):
            if self.left[index] == 0 or not re.search(fault.match, line):
                continue
            if self.skips[index] > 0:
                self.skips[index] -= 1
            else:
                self.left[index] -= 1
                return index
        return -1

    def add(self, name: str, count: int) -> None:
        """Adds to a count."""
        with self.lock:
            self.counts[name] += count

    def answer(self, question: str, value: Any) -> Any:
        """Answers a question of ChaosProxy."""
        if question == "program":
            self.set_faults([Fault(**fields) for fields in value])
            return None
        with self.lock:
            if question == "counts":
                return dict(self.counts)
            return [asdict(request) for request in self.requests]


class Head:
    """The first line and the headers of a request or an answer."""

    def __init__(self, text: bytes) -> None:
        lines = text.decode("latin-1").split("\r\n")
        self.line = lines[0]
        self.headers = [line.partition(":")[::2] for line in lines[1:] if line]

    def get(self, name: str) -> str:
        """Returns the value of a header in lower case, or "" if there is none."""
        for own, value in self.headers:
            if own.lower() == name:
                return value.strip().lower()
        return ""

    def replace(self, headers: dict[str, str | None]) -> None:
        """Replaces headers, adds those that are not there, and leaves out those that are None."""
        names = {name.lower() for name in headers}
        self.headers = [pair for pair in self.headers if pair[0].lower() not in names]
        self.headers += [
            (name, f" {value}") for name, value in headers.items() if value is not None
        ]

    def encode(self) -> bytes:
        """Returns the head as it is sent."""
        lines = [self.line, *(f"{name}:{value}" for name, value in self.headers)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Peer:
    """One end of a connection; `received` and `sent` name the counts of its bytes."""

    def __init__(self, sock: socket.socket, program: Program, received: str, sent: str) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.program = program
        self.received, self.sent = received, sent
        self.rest = b""  # was received with a head, and comes after it
        self.buffer = memoryview(bytearray(PIECE_BYTES))

    def send(self, data: bytes | memoryview) -> None:
        """Sends all of the bytes."""
        if self.sent:  # counted before the receiver can ask for the counts
            self.program.add(self.sent, len(data))
        try:
            self.sock.sendall(data)
        except OSError:
            raise SendError from None

    def receive(self, count_max: int = PIECE_BYTES) -> memoryview:
        """Returns the next bytes, at least one and at most so many; valid until the next call."""
        if self.rest:
            data, self.rest = self.rest[:count_max], self.rest[count_max:]
            return memoryview(data)
        try:
            count = self.sock.recv_into(self.buffer[:count_max])
        except OSError:
            raise EndedError from None
        if count == 0:
            raise EndedError
        if self.received:
            self.program.add(self.received, count)
        return self.buffer[:count]

    def until(self, end: bytes) -> bytes:
        """Returns the bytes before `end`, and goes on after it."""
        data = b""
        while end not in data:
            if len(data) > HEAD_BYTES_MAX:
                raise EndedError
            data += self.receive()
        data, _, after = data.partition(end)
        self.rest = after + self.rest
        return data

    def pieces(self, count: int) -> Iterator[memoryview]:
        """Returns the next `count` bytes, or with -1 all until the peer closes, piece by piece."""
        while count != 0:
            try:
                data = self.receive(PIECE_BYTES if count < 0 else min(count, PIECE_BYTES))
            except EndedError:
                if count < 0:
                    return
                raise
            count -= len(data) if count > 0 else 0
            yield data

    def chunks(self) -> Iterator[memoryview]:
        """Returns a chunked body without its framing, piece by piece."""
        while count := int(self.until(b"\r\n").split(b";")[0], 16):
            yield from self.pieces(count)
            self.until(b"\r\n")
        while self.until(b"\r\n"):  # trailers
            pass


def send_piece(out: Peer, data: bytes | memoryview, chunked: bool) -> None:
    """Sends bytes of a body, as a chunk if the body is chunked."""
    if data:
        out.send(b"%x\r\n%b\r\n" % (len(data), bytes(data)) if chunked else data)


def pour(pieces: Iterator[memoryview], out: Peer, fault: Fault, chunked: bool = False) -> None:
    """Sends a body on, and does what the fault says at its byte."""
    position = 0
    action = fault.action
    for piece in pieces:
        before = fault.at - position
        position += len(piece)
        if not action or before >= len(piece):
            send_piece(out, piece, chunked)
            continue
        send_piece(out, piece[:before], chunked)
        rest = bytes(piece[before:])
        if action == "corrupt":
            send_piece(out, bytes([rest[0] ^ 0xFF]) + rest[1:], chunked)
            action = ""
        elif action == "drip":
            drip(rest, out, chunked)
            fault, action = Fault(at=position), "drip"
        elif action == "truncate":
            for _ in pieces:  # what the server still sends
                pass
        else:
            raise EndedError(action)
    if chunked:
        out.send(b"0\r\n\r\n")


def drip(data: bytes, out: Peer, chunked: bool) -> None:
    """Sends one byte every 100 ms."""
    for index in range(len(data)):
        time.sleep(DRIP_S)
        send_piece(out, data[index : index + 1], chunked)


class Connection:
    """A client's connection and the one to the server."""

    def __init__(self, client: socket.socket, server: tuple[str, int], program: Program) -> None:
        self.program = program
        self.client = Peer(client, program, "bytes_to_server", "bytes_to_client")
        self.address = server
        self.server: Peer | None = None

    def connect(self) -> Peer:
        """Returns the connection to the server, which is made when it is first needed."""
        if self.server is None:
            try:
                self.server = Peer(socket.create_connection(self.address), self.program, "", "")
            except OSError:
                raise EndedError from None
        return self.server

    def serve(self, raw: bool) -> None:
        """Serves the connection to its end."""
        action = ""
        try:
            if raw:
                self.serve_raw()
            else:
                while self.serve_request():
                    pass
        except EndedError as ended:
            action = ended.action
        finally:
            self.end(action)

    def end(self, action: str) -> None:
        """Closes both connections, in the manner of a fault's action if that is the reason."""
        if action == "stall":
            wait_for_close(self.client.sock)
        elif action == "reset":
            self.client.sock.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        for peer in (self.client, self.server):
            if peer is not None:
                with contextlib.suppress(OSError):
                    peer.sock.shutdown(socket.SHUT_RD)  # wakes the other thread of a raw connection
                peer.sock.close()

    def serve_request(self) -> bool:
        """Serves a request, and returns whether another may follow."""
        request = Head(self.client.until(b"\r\n\r\n"))
        fault = self.program.meet(request.line, request.get("range"))
        time.sleep(fault.delay_s)
        if fault.status:
            if request.get("expect") == "":
                for _ in self.request_body(request):
                    pass
            self.answer_alone(request, fault)
            return request.get("expect") == ""
        server = self.connect()
        server.send(request.encode())
        if request.get("expect"):
            answer = Head(server.until(b"\r\n\r\n"))
            if answer.line.split()[1] != "100":
                self.forward_answer(request, answer, fault)
                return False
            self.client.send(answer.encode())
        chunked = request.get("transfer-encoding") == "chunked"
        # A server that refuses a request may not read all of it.
        with contextlib.suppress(SendError):
            pour(self.request_body(request), server, fault if fault.upload else Fault(), chunked)
        answer = Head(server.until(b"\r\n\r\n"))
        self.forward_answer(request, answer, fault)
        return "close" not in (answer.get("connection"), request.get("connection"))

    def request_body(self, request: Head) -> Iterator[memoryview]:
        """Returns a request's body piece by piece."""
        if request.get("transfer-encoding") == "chunked":
            return self.client.chunks()
        return self.client.pieces(int(request.get("content-length") or 0))

    def answer_alone(self, request: Head, fault: Fault) -> None:
        """Answers with the fault's status, headers and body."""
        body = fault.body.encode()
        head = Head(b"HTTP/1.1 %d Chaos" % fault.status)
        head.replace({"Content-Length": str(len(body)), **fault.headers})
        self.client.send(head.encode() + (b"" if request.line.startswith("HEAD ") else body))

    def forward_answer(self, request: Head, answer: Head, fault: Fault) -> None:
        """Forwards an answer, whose head has been read, and does what the fault says to it."""
        assert self.server is not None
        server = self.server
        chunked = answer.get("transfer-encoding") == "chunked"
        length = int(answer.get("content-length") or -1)
        none = request.line.startswith("HEAD ") or answer.line.split()[1] in ("204", "304")
        if fault.action == "truncate" and length >= 0:
            answer.replace({"Content-Length": str(min(fault.at, length))})
        answer.replace(fault.headers)
        self.client.send(answer.encode())
        if none:
            return
        body = server.chunks() if chunked else server.pieces(length)
        pour(body, self.client, Fault() if fault.upload else fault, chunked)
        if not chunked and length < 0:
            raise EndedError

    def serve_raw(self) -> None:
        """Forwards bytes in both directions until one side closes."""
        fault = self.program.meet("", "")
        time.sleep(fault.delay_s)
        server = self.connect()
        back = threading.Thread(
            target=self.forward_raw, args=(server, self.client, fault), daemon=True
        )
        back.start()
        self.forward_raw(self.client, server, fault)
        back.join()

    def forward_raw(self, source: Peer, out: Peer, fault: Fault) -> None:
        """Forwards one direction of a raw connection, and closes both directions at its end."""
        upload = source is self.client
        try:
            pour(source.pieces(-1), out, fault if upload == fault.upload else Fault())
        except EndedError as ended:
            self.end(ended.action)
        else:
            with contextlib.suppress(OSError):
                out.sock.shutdown(socket.SHUT_WR)


def wait_for_close(sock: socket.socket) -> None:
    """Waits until the other side has closed the connection."""
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    poll.poll()


def accept(listener: socket.socket, server: tuple[str, int], raw: bool, program: Program) -> None:
    """Serves each connection in a thread of its own."""
    while True:
        client, _ = listener.accept()
        program.add("connections", 1)
        connection = Connection(client, server, program)
        threading.Thread(target=connection.serve, args=(raw,), daemon=True).start()


def main() -> None:
    """Serves until the standard input ends."""
    host, _, port = sys.argv[1].partition(":")
    program = Program()
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    arguments = (listener, (host, int(port)), sys.argv[2] == "raw", program)
    threading.Thread(target=accept, args=arguments, daemon=True).start()
    for line in sys.stdin:
        question, value = json.loads(line)
        port = listener.getsockname()[1]
        reply = port if question == "port" else program.answer(question, value)
        print(json.dumps(reply), flush=True)
    os._exit(0)  # connections may wait without end


if __name__ == "__main__":
    main()
