"""Networks of a test's own: threads whose only device is loopback, with packet filters and DNS."""

import ctypes
import os
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from conftest import leave_out

from .processes import PROGRAM_PATH

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables", "mount": "mount"}
Result = TypeVar("Result")


def in_own_network(work: Callable[[], Result]) -> Result:
    """Runs `work` in a thread with a network and mounts of its own, and returns what it returns.

    Servers and threads that `work` starts share them; they vanish with the last of these. The test
    is left out where the kernel or the user's rights do not allow that.
    """
    outcome: list[Result] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            enter_own_network()
            outcome.append(work())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return outcome[0]


def enter_own_network() -> None:
    """Gives this thread a network and mounts of its own."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=PROGRAM_PATH) is None]
    if missing:
        leave_out(f"these programs are missing: {' '.join(missing)} (./dev installs them)")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET | CLONE_NEWNS) != 0:
        leave_out(f"no network of its own: {os.strerror(ctypes.get_errno())} (needs root)")
    run("mount", "--make-rprivate", "/")
    run("ip", "link", "set", "lo", "up")


def run(*command: str) -> None:
    """Runs a program in this thread's network."""
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PATH": PROGRAM_PATH}
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"


def filter_packets(rule: str) -> None:
    """Replaces the rule for packets that arrive; "" lets all pass.

    "tcp sport 80 drop" drops those that a server of port 80 sends, for example.
    """
    run("nft", "flush ruleset")
    if rule:
        chain = "add chain ip t c { type filter hook input priority 0; }"
        run("nft", f"add table ip t\n{chain}\nadd rule ip t c {rule}")


def limit_rate(rate: str) -> None:
    """Makes loopback as slow as a link of this rate, such as "10mbit"."""
    run("tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", rate, "burst", "256k",
        "latency", "500ms")  # fmt: skip


class NameServer:
    """A DNS server on 127.0.0.1 of this thread's network, which the network's programs ask.

    It knows one name. `mood` says how it answers: "silent" (not at all), "failing" (SERVFAIL),
    "ignorant" (the name does not exist) or "helpful" (127.0.0.1).
    """

    def __init__(self, folder: Path, mood: str) -> None:
        self.mood = mood
        self.asked = 0
        resolv = folder / "resolv.conf"
        resolv.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        run("mount", "--bind", str(resolv), os.path.realpath("/etc/resolv.conf"))
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            question, client = self.socket.recvfrom(4096)
            if not question:
                return
            self.asked += 1
            if self.mood != "silent":
                self.socket.sendto(self._answer(question), client)

    def _answer(self, question: bytes) -> bytes:
        end = question.index(b"\0", 12) + 5  # after the name, its type and class
        is_ipv4 = question[end - 4 : end - 2] == b"\0\1"
        code = {"failing": 2, "ignorant": 3}.get(self.mood, 0)
        count = 1 if self.mood == "helpful" and is_ipv4 else 0
        head = struct.pack(">2sHHHHH", question[:2], 0x8180 | code, 1, count, 0, 0)
        address = struct.pack(">HHHIH4s", 0xC00C, 1, 1, 0, 4, b"\x7f\0\0\1") if count else b""
        return head + question[12:end] + address

    def close(self) -> None:
        """Ends the server."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"", ("127.0.0.1", 53))
        self.socket.close()
