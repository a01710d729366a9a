"""Links of a given rate between this machine and network namespaces on it.

Clients run in the namespaces and servers outside them. Both ends of a link are limited by a token
bucket (`tc tbf`). Needs root.
"""

import contextlib
import itertools
import json
import os
import subprocess
from collections.abc import Iterator

BURST_BYTES_MIN = 32 << 10
# The largest packets that a system hands to a network card, 64 KiB, with the headers of the 45
# small ones that they become. A bucket cuts what is larger than its burst, which costs the sender
# processor time that a card would not.
LARGE_PACKET_BYTES = 72 << 10
BURST_MS = 2
QUEUE_MS = 50  # how long a packet waits for its turn at most, before it is dropped
NUMBERS = itertools.count()  # numbers this process's networks, which may exist at the same time


class LinkError(RuntimeError):
    """The link cannot be made; the message says why."""


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise LinkError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def _limit(command: list[str], name: str, mbit: int, burst_min: int = BURST_BYTES_MIN) -> None:
    """Limits what leaves an interface, in Mbit/s; headers of all layers count too."""
    burst = max(burst_min, mbit * 125 * BURST_MS)
    bucket = f"tbf rate {mbit}mbit burst {burst} latency {QUEUE_MS}ms".split()
    subprocess.run([*command, "tc", "qdisc", "replace", "dev", name, "root", *bucket], check=True)


def _inside(namespace: str) -> list[str]:
    """The words before a command that make it run in the namespace."""
    return ["ip", "netns", "exec", namespace]


class Link:
    """The link to one namespace, while the context lasts; `host` is the address of its outer end.

    Packets are never larger than the link's, so what an interface counts is what a real one would.
    """

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
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        _ip("netns", "delete", self._namespace)  # this also deletes both ends

    def command(self) -> list[str]:
        """The words before a command that make it run in the namespace."""
        return _inside(self._namespace)

    def limit(self, mbit: int) -> None:
        """Limits the rate in each direction, in Mbit/s; headers of all layers count too."""
        _limit([], self._outer, mbit)
        _limit(self.command(), "link0", mbit)

    def bytes(self) -> tuple[int, int]:
        """Bytes that the client's interface has received and sent so far, with all headers."""
        said = _ip("-n", self._namespace, "-json", "-stats", "link", "show", "dev", "link0")
        counts = json.loads(said)[0]["stats64"]
        return counts["rx"]["bytes"], counts["tx"]["bytes"]


@contextlib.contextmanager
def unreachable(host: str, port: int) -> Iterator[None]:
    """Drops all packets to a port of an address of this machine while the context lasts."""
    table = f"inet forebay{os.getpid()}"
    chain = "{ type filter hook input priority 0; }"
    rules = f"add table {table}\nadd chain {table} c {chain}\n"
    rules += f"add rule {table} c ip daddr {host} tcp dport {port} drop"
    subprocess.run(["nft", rules], check=True)
    try:
        yield
    finally:
        subprocess.run(["nft", f"delete table {table}"], check=True)


class Network:
    """Namespaces that stand for machines, each with a link to a bridge, while the context lasts.

    The links carry packets as large as the system makes them, like network cards that cut packets
    themselves. `host` is the address of this machine on the bridge, where the servers are.

    Attributes:
        machines: How many namespaces.
    """

    def __init__(self, machines: int) -> None:
        self.machines = machines
        own = next(NUMBERS)
        number = (2 * os.getpid() + own) % 12000
        self._net = f"10.{140 + number // 256}.{number % 256}"
        self._bridge = f"fb{os.getpid()}b{own}"
        self._links = [f"fb{os.getpid()}n{own}m{machine}" for machine in range(machines)]
        self.host = f"{self._net}.1"

    def address(self, machine: int) -> str:
        """The address of a machine."""
        return f"{self._net}.{machine + 2}"

    def __enter__(self) -> "Network":
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
            _ip("address", "add", f"{self.host}/24", "dev", self._bridge)
            _ip("link", "set", "dev", self._bridge, "up")
            for machine, name in enumerate(self._links):
                _ip("netns", "add", name)
                _ip("link", "add", name, "type", "veth", "peer", "name", "link0", "netns", name)
                _ip("link", "set", "dev", name, "master", self._bridge, "up")
                place = f"{self.address(machine)}/24"
                _ip("-n", name, "address", "add", place, "dev", "link0")
                for interface in ("link0", "lo"):
                    _ip("-n", name, "link", "set", "dev", interface, "up")
        except LinkError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for words in [["netns", "delete", name] for name in self._links]:
            with contextlib.suppress(LinkError):
                _ip(*words)  # this also deletes both ends of its link
        with contextlib.suppress(LinkError):
            _ip("link", "delete", self._bridge)

    def command(self, machine: int) -> list[str]:
        """The words before a command that make it run on a machine."""
        return _inside(self._links[machine])

    def limit(self, mbit: int) -> None:
        """Limits the rate of each machine's link in each direction, in Mbit/s."""
        for machine, name in enumerate(self._links):
            _limit([], name, mbit, LARGE_PACKET_BYTES)
            _limit(self.command(machine), "link0", mbit, LARGE_PACKET_BYTES)

    @contextlib.contextmanager
    def without(self, machine: int) -> Iterator[None]:
        """Takes a machine's link away while the context lasts; nobody is told."""
        _ip("link", "set", "dev", self._links[machine], "down")
        try:
            yield
        finally:
            _ip("link", "set", "dev", self._links[machine], "up")
