"""Requests by the program curl, which are independent of the code under test."""

import re
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """An answer to a request; the names of its headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


def curl(url: str, *options: str) -> Answer:
    """Sends a request with curl and returns the last answer."""
    command = ["curl", "--silent", "--show-error", "--include", "--max-time", "20", *options, url]
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == 0, done.stderr
    return answer_of(done.stdout)


def curl_error(url: str, *options: str) -> int:
    """Returns curl's error code; 0 if there is an answer."""
    command = ["curl", "--silent", "--output", "/dev/null", "--max-time", "20", *options, url]
    return subprocess.run(command).returncode


def answer_of(output: bytes) -> Answer:
    """Reads the output of curl --include, and returns the last answer in it.

    Before it there may be redirects, or "100 Continue" for a large body.
    """
    head, _, body = output.partition(b"\r\n\r\n")
    while re.match(rb"HTTP/[\d.]+ \d\d\d", body):
        head, _, body = body.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    return Answer(int(status.split()[1]), headers, body)
