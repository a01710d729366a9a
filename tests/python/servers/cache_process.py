"""Processes of a job with caches of their own, which read epochs when a test says so."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from .lying_member import Member

SECRET = "5ec2e7" * 10
MEMORY_BYTES_MAX = 400 << 20  # that epochs of a few megabytes may take

# A process of a job: opens the cache, says which machine it is of, reads the members from its
# input, then reads epochs, and prints the hashes of their batches, what the cache did, and how much
# memory it took more than before.
PROCESS = """
import json, resource, sys
import forebay, forebay.data.cache, forebay.data.cache_rendezvous
from places import epoch
url, folder, secret = sys.argv[1:]
machine = forebay.data.cache_rendezvous.Machine("127.0.0.1", secret)
cache = forebay.data.cache._copy((folder, 10**9, 0, False), machine)
own = cache.core.machine
own = [own.id, own.host, own.port, own.room_bytes, own.incarnation]
dataset = forebay.Dataset(url, cache=cache)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
before = peak()
print(json.dumps(own), flush=True)
for line in sys.stdin:
    members = json.loads(line)
    if members:
        others = [member for member in members if member[0] != own[0]]
        cache.core.join([forebay._core.Member(*member) for member in [own, *others]])
    hashes = [epoch(dataset, **more) for more in ({"regions": "never"}, {})]
    print(json.dumps([hashes, cache.stats(), peak() - before]), flush=True)
"""


class Process:
    """A process of a job with a cache of its own."""

    def __init__(self, url: str, folder: Path, secret: str = "", limits: str = "") -> None:
        self.process = subprocess.Popen(
            [*limits.split(), sys.executable, "-c", PROCESS, url, folder, secret],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self.member: Member = tuple(self._line())

    def _line(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def begin(self, members: list[Member] | None = None) -> None:
        """Lets the process join these members and read its epochs."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(members) + "\n")
        self.process.stdin.flush()

    def end(self, expected: list[list[str]]) -> dict[str, Any]:
        """Compares the batches and the memory of what it has read; returns what the cache did."""
        hashes, stats, memory = self._line()
        assert hashes == expected
        assert memory < MEMORY_BYTES_MAX
        return dict(stats)
