"""A proxy on loopback that makes the faults that a test asks for; chaos_proxy.py is its process.

with ChaosProxy(nginx.url) as proxy:
    proxy.program(Fault(match="GET /photos/", action="reset", at=1000, times=2))
    ...                # a client that talks to proxy.url
    proxy.counts().requests
"""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from urllib.parse import urlsplit

# What may happen at one byte of a body:
#   corrupt   all bits of the byte are inverted
#   drop      the connection is closed before the byte
#   reset     the connection is reset before the byte
#   stall     nothing is forwarded from the byte on, and the connection stays open
#   drip      from the byte on, one byte comes every 100 ms
#   truncate  the body ends before the byte, and Content-Length says so
Action = Literal["", "corrupt", "drop", "reset", "stall", "drip", "truncate"]


@dataclass(frozen=True)
class Fault:
    """What happens to some requests.

    It meets the requests whose first line ("GET /path HTTP/1.1") contains a match of the regular
    expression `match`, after `skip` of them, and then `times` of them. Of several faults a request
    meets the first that is not used up. In a proxy with raw=True every connection counts as one
    request whose first line is empty; what the client sends is the request's body, and what the
    server sends is the answer's.
    """

    match: str = ""
    skip: int = 0
    times: int = 1  # -1: all
    delay_s: float = 0.0  # before the request is forwarded or answered
    status: int = 0  # if not 0, the proxy answers with it, `headers` and `body`, and asks nobody
    body: str = ""
    headers: dict[str, str | None] = field(
        default_factory=dict
    )  # replaced in answers; None: left out
    action: Action = ""
    at: int = 0  # the byte of the body that the action is about, from 0
    upload: bool = False  # the action is about the request's body instead of the answer's


@dataclass(frozen=True)
class Counts:
    """What went through the proxy; the bytes are those on its clients' side, with all headers."""

    connections: int
    requests: int
    bytes_to_server: int
    bytes_to_client: int


@dataclass(frozen=True)
class Request:
    """A request that the proxy met, in the order of their arrival."""

    line: str  # "GET /path HTTP/1.1"
    range: str  # the value of the header Range, or ""
    fault: int  # the number of the fault that it met among those of `program`, from 0; -1: none


class ChaosProxy:
    """A proxy for one server. It speaks HTTP/1.1, or with raw=True only forwards bytes (TLS).

    It forwards without change until `program` is called. Several threads may use its `url`, and one
    the object itself.
    """

    def __init__(self, server_url: str, *, raw: bool = False) -> None:
        """Starts a proxy for the server of this URL, whose path is kept in `url`."""
        parts = urlsplit(server_url)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "servers.chaos_proxy", parts.netloc, "raw" if raw else "http"],
            cwd=Path(__file__).resolve().parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        host = parts.hostname
        self._raw = raw
        self.url = f"{parts.scheme}://{host}:{self._ask('port')}{parts.path}"

    def _ask(self, question: str, value: Any = None) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([question, value]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def program(self, *faults: Fault) -> None:
        """Replaces all faults; requests under way keep theirs."""
        for fault in faults:
            if self._raw and (fault.status or fault.headers or fault.action == "truncate"):
                raise ValueError(f"a raw proxy does not read HTTP, so it cannot do this: {fault}")
            if fault.upload and fault.action == "truncate":
                raise ValueError("only answers can be truncated")
        self._ask("program", [asdict(fault) for fault in faults])

    def counts(self) -> Counts:
        """Returns what went through so far."""
        return Counts(**self._ask("counts"))

    def requests(self) -> list[Request]:
        """Returns all requests so far."""
        return [Request(**request) for request in self._ask("requests")]

    def close(self) -> None:
        """Ends the proxy and its connections."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> "ChaosProxy":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
