"""A link of a given rate between this machine and a network namespace on it, for benchmarks.

Clients run in the namespace and servers outside it. Both ends of the link are limited by a token
bucket (`tc tbf`), and packets are never larger than the link's, so what an interface counts is what
a real one would. Needs root.
"""

import json
import os
import subprocess
from types import TracebackType

BURST_BYTES_MIN = 32 << 10
BURST_MS = 2
QUEUE_MS = 50  # how long a packet waits for its turn at most, before it is dropped


class LinkError(RuntimeError):
    """The link cannot be made; the message says why."""


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise LinkError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Link:
    """The link, while the context lasts; `host` is the address of its outer end."""

    def __init__(self) -> None:
        number = os.getpid() % 16000
        self.host = f"10.{200 + number // 4096}.{number // 16 % 256}.{number % 16 * 16 + 1}"
        self._client = self.host.rsplit(".", 1)[0] + f".{number % 16 * 16 + 2}"
        self._namespace = f"forebay{os.getpid()}"
        self._outer = f"fb{os.getpid()}"

    def __enter__(self) -> "Link":
        _ip("netns", "add", self._namespace)
        try:
            _ip("link", "add", self._outer, "type", "veth", "peer", "name", "link0",
                "netns", self._namespace)  # fmt: skip
            _ip("address", "add", f"{self.host}/30", "dev", self._outer)
            _ip("-n", self._namespace, "address", "add", f"{self._client}/30", "dev", "link0")
            for words in ((self._outer,), ("link0", "-n", self._namespace)):
                name, *where = words
                _ip(*where, "link", "set", "dev", name, "gso_max_segs", "1", "up")
            _ip("-n", self._namespace, "link", "set", "dev", "lo", "up")
        except LinkError:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _ip("netns", "delete", self._namespace)  # this also deletes both ends

    def command(self) -> list[str]:
        """The words before a command that make it run in the namespace."""
        return ["ip", "netns", "exec", self._namespace]

    def limit(self, mbit: int) -> None:
        """Limits the rate in each direction, in Mbit/s; headers of all layers count too."""
        burst = max(BURST_BYTES_MIN, mbit * 125 * BURST_MS)
        bucket = f"tbf rate {mbit}mbit burst {burst} latency {QUEUE_MS}ms".split()
        for where, name in (([], self._outer), (self.command(), "link0")):
            subprocess.run([*where, "tc", "qdisc", "replace", "dev", name, "root", *bucket],
                           check=True)  # fmt: skip

    def bytes(self) -> tuple[int, int]:
        """Bytes that the client's interface has received and sent so far, with all headers."""
        said = _ip("-n", self._namespace, "-json", "-stats", "link", "show", "dev", "link0")
        counts = json.loads(said)[0]["stats64"]
        return counts["rx"]["bytes"], counts["tx"]["bytes"]
