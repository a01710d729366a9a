"""Prep servers: batches that `forebay prep` prepares elsewhere, and what may go wrong there."""

import contextlib
import hashlib
import json
import os
import pickle
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import forebay
from conftest import IMAGES, pack, run_forebay, write_secret
from forebay import transforms
from servers.job_secret import client_context, server_context, write_certificate
from servers.prep_server import PrepServer

BATCH = 4
EPOCHS = 3
SECONDS_MOST = 150
TRANSFORM = [
    transforms.RandomResizedCrop(96),
    transforms.RandomHorizontalFlip(),
    transforms.TrivialAugmentWide(),
    transforms.Normalize(),
    transforms.RandomErasing(),
]


def loader(dataset: forebay.Dataset | Path | str, **options: Any) -> forebay.Loader:
    """A loader whose batches take some time to make."""
    given = {"shuffle": True, "seed": 5, "transform": TRANSFORM, "num_workers": 1, **options}
    return forebay.Loader(dataset, BATCH, **given)


def digest(batch: Any) -> str:
    """A batch as a short text."""
    images, labels = batch
    numbers = images.contiguous().view(torch.uint8).numpy()
    return hashlib.sha256(numbers.tobytes() + labels.numpy().tobytes()).hexdigest()


def batches(one: forebay.Loader, epochs: int = EPOCHS, pause: float = 0) -> list[str]:
    """All batches of some epochs; the loop pauses after each."""
    out = []
    for _ in range(epochs):
        for batch in one:
            out.append(digest(batch))
            time.sleep(pause)
    return out


def batches_until(one: forebay.Loader, done: Callable[[dict[str, Any]], Any]) -> list[str]:
    """All batches until the first prep server's figures satisfy `done`."""
    out = []
    end = time.monotonic() + SECONDS_MOST
    while time.monotonic() < end:
        out += batches(one, 1)
        if done(one.prep_servers()[0]):
            return out
    raise AssertionError(one.prep_servers())


def plain(dataset: forebay.Dataset | Path | str, count: int, **options: Any) -> list[str]:
    """The first `count` batches, prepared without a prep server."""
    one = loader(dataset, **options)
    return batches(one, -(-count // len(one)))[:count]


@contextmanager
def prep_server(dataset: Path | str, *options: str, **more: Any) -> Iterator[PrepServer]:
    """A prep server for a test."""
    server = PrepServer(dataset, *options, **more)
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def expected(packed: Path) -> list[str]:
    """The batches without a prep server."""
    return batches(loader(packed))


def test_the_former_name_of_the_figures_warns(folder: Path):
    with pytest.warns(DeprecationWarning, match=r"renamed to Loader\.prep_servers\(\)"):
        assert loader(folder).near_sides() == []


def test_batches_are_the_same(packed: Path, folder: Path):
    with prep_server(packed) as server:
        assert server.said == f"{packed}: {IMAGES} samples, for programs of this user\n"
        one = loader(packed, prep=server.url)
        got = batches_until(one, lambda figures: figures["batches"] > 3)
        assert got == plain(packed, len(got))
        (figures,) = one.prep_servers()
        assert figures["is_up"] and figures["trouble"] == "" and figures["name"] == server.url
        assert figures["bytes"] > 3 * BATCH * 3 * 96 * 96 * 4 and figures["checked"] > 0
        one.close()
        assert "batches were prepared" in server.stop()
    assert loader(folder).prep_servers() == []


def test_several_prep_servers(packed: Path, expected: list[str]):
    with prep_server(packed) as first, prep_server(packed) as second:
        one = loader(packed, prep=[first.url, second.url])
        assert batches(one) == expected
        assert [server["is_up"] for server in one.prep_servers()] == [True, True]


def test_each_rank_gets_its_own_batches(packed: Path):
    with prep_server(packed) as server:
        for rank in range(2):
            share = {"rank": rank, "world_size": 2}
            got = batches_until(loader(packed, prep=server.url, **share), lambda of: of["batches"])
            assert got == plain(packed, len(got), **share)


def test_data_in_place_and_stored_order(folder: Path):
    options = {"shuffle": False, "transform": [*TRANSFORM[:2], transforms.Normalize()]}
    with prep_server(folder) as server:
        got = batches_until(loader(folder, prep=server.url, **options), lambda of: of["batches"])
        assert got == plain(folder, len(got), **options)


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_labels_that_were_given_are_the_hosts(folder: Path, kind: str):
    plain_set = forebay.Dataset(folder)
    table = {
        key: i + 0.5 if kind == "numbers" else f"c{i:02}" for i, key in enumerate(plain_set.keys())
    }
    del table[plain_set.key(3)]
    labelled = plain_set.with_labels(table, missing="drop")
    with prep_server(folder) as server:
        one = loader(labelled, prep=server.url)
        got = batches_until(one, lambda figures: figures["batches"] > 3)
        assert got == plain(labelled, len(got))
        seen = torch.cat([labels for _, labels in one])
        assert sorted(seen.tolist()) == sorted(labelled.targets.tolist())


def test_python_functions_run_on_the_host(packed: Path):
    def double(images: torch.Tensor) -> torch.Tensor:
        return images * 2

    options = {"transform": [transforms.RandomResizedCrop(64), double]}
    with prep_server(packed) as server:
        got = batches_until(loader(packed, prep=server.url, **options), lambda of: of["batches"])
        assert got == plain(packed, len(got), **options)


def pack_and_damage(images: dict[str, bytes], folder: Path) -> Path:
    """Packs some images, and damages several of them there."""
    damaged = pack(dict(list(images.items())[:30]), folder)
    chunk = next((damaged / "chunks").iterdir())
    content = bytearray(chunk.read_bytes())
    for at in range(len(content) // 3, len(content), len(content) // 9):
        content[at : at + 40] = bytes(40)
    chunk.write_bytes(content)
    return damaged


def test_bad_samples_are_replaced_and_listed(images: dict[str, bytes], tmp_path: Path):
    damaged = pack_and_damage(images, tmp_path)
    with pytest.warns(UserWarning, match="cannot be used"):
        alone = loader(damaged)
        without = batches(alone, 2)
    with prep_server(damaged) as server, pytest.warns(UserWarning, match="cannot be used"):
        one = loader(damaged, prep=server.url)
        assert batches(one, 2) == without
        assert {b["sample"] for b in one.bad_samples} == {b["sample"] for b in alone.bad_samples}


def test_a_state_resumes_with_and_without(packed: Path, expected: list[str]):
    with prep_server(packed) as server:
        one = loader(packed, prep=server.url)
        got = []
        for batch in one:
            got.append(digest(batch))
            if len(got) == 7:
                break
        state = one.state_dict()
        for other in (loader(packed), loader(packed, prep=server.url)):
            other.load_state_dict(state)
            assert got + batches(other) == expected


def test_a_copy_in_another_process_uses_it_too(packed: Path, expected: list[str]):
    with prep_server(packed) as server:
        one = loader(packed, prep=forebay.Prep([server.url]))
        assert batches(pickle.loads(pickle.dumps(one))) == expected


def test_a_prep_server_may_die_and_come_back(packed: Path, expected: list[str]):
    server = PrepServer(packed)
    try:
        one = loader(packed, prep=server.url)
        got = []
        for epoch in range(EPOCHS):
            for number, batch in enumerate(one):
                got.append(digest(batch))
                if number == 6 and epoch == 0:
                    server.kill()
                if number == 3 and epoch == 1:
                    server = PrepServer(packed, port=server.port)
        assert got == expected
    finally:
        server.kill()


def test_a_prep_server_that_hangs_holds_nobody_up(packed: Path, expected: list[str]):
    with prep_server(packed) as server:
        one = loader(packed, prep=server.url)
        got = []
        began = time.monotonic()
        for epoch in range(EPOCHS):
            for number, batch in enumerate(one):
                got.append(digest(batch))
                if number == 5 and epoch == 0:
                    server.pause()
                if number == 5 and epoch == 1:
                    server.go_on()
        assert got == expected
        assert time.monotonic() - began < 60  # far less than any limit of a connection


def test_one_that_hangs_at_the_beginning_is_left_out(packed: Path, expected: list[str]):
    with prep_server(packed) as server:
        server.pause()
        one = loader(packed, prep=server.url)
        began = time.monotonic()
        assert batches(one) == expected
        assert time.monotonic() - began < 40  # a connection that hangs is given up after 60 s
        server.go_on()


def test_one_that_is_not_there_is_left_out(packed: Path, expected: list[str]):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        one = loader(packed, prep=f"http://127.0.0.1:{held.getsockname()[1]}")
        assert batches(one) == expected
        (figures,) = one.prep_servers()
        assert not figures["is_up"] and figures["trouble"] and figures["batches"] == 0


def test_the_batches_of_a_batch_sampler_are_the_hosts(packed: Path):
    with prep_server(packed) as server, pytest.warns(UserWarning) as told:
        one = forebay.Loader(packed, batch_sampler=[[0, 1], [2]], fields=["index"], prep=server.url)
        assert [index.tolist() for (index,) in one] == [[0, 1], [2]]
    assert [str(one.message) for one in told] == [
        "forebay.Loader: prep: prep servers cannot yet prepare the batches of a batch_sampler, so "
        "this machine prepares all batches"
    ]


POLICIES = [("interleave", "epoch"), ("interleave", "any"), ("mte", "any"), ("wrr", "any")]


def with_policy(dataset: Path, way: tuple[str, str], *servers: PrepServer) -> forebay.Loader:
    """A loader whose prep servers prepare batches by a policy."""
    policy, order = way
    urls = [server.url for server in servers]
    return loader(dataset, prep=forebay.Prep(urls, policy=policy, order=order))


def by_epoch(digests: list[str]) -> list[list[str]]:
    """The digests of each epoch's batches, sorted, so that orders do not count."""
    each = len(digests) // EPOCHS
    return [sorted(digests[at : at + each]) for at in range(0, len(digests), each)]


@pytest.mark.parametrize("way", POLICIES)
def test_each_batch_comes_once_in_any_order(packed: Path, expected: list[str], way: Any):
    with prep_server(packed) as first, prep_server(packed) as second:
        one = with_policy(packed, way, first, second)
        assert by_epoch(batches(one)) == by_epoch(expected)
        for number, _ in enumerate(one):  # left early
            if number == 4:
                break
        assert one.epoch == EPOCHS
        rest = batches(one, 1)
        assert sorted(rest) == sorted(plain(packed, (EPOCHS + 2) * len(rest))[-len(rest) :])
        figures = one.prep_servers()
        assert all(server["is_up"] for server in figures)
        assert sum(server["batches"] + server["late"] for server in figures) > 0


@pytest.mark.parametrize("way", POLICIES)
def test_a_state_in_any_order_resumes_everywhere(packed: Path, expected: list[str], way: Any):
    with prep_server(packed) as server:
        one = with_policy(packed, way, server)
        got = batches(one, 1)
        each = len(got)
        for batch in one:
            got.append(digest(batch))
            if len(got) == each + 7:
                break
        state = json.loads(json.dumps(one.state_dict()))
        assert ("over" in state) <= (way[1] == "any")
        others = [loader(packed), loader(packed, prep=server.url)]
        for other in (*others, *(with_policy(packed, to, server) for to in POLICIES)):
            other.load_state_dict(state)
            assert other.epoch == 1
            assert by_epoch(got + batches(other, EPOCHS - 1)) == by_epoch(expected)


def test_a_state_with_batches_before_their_turn(packed: Path):
    one = loader(packed)
    each = len(one)
    state = {**one.state_dict(), "position": BATCH}
    all_of_it = batches(one, 1)
    other = loader(packed)
    other.load_state_dict({**state, "over": [[2 * BATCH, 4 * BATCH], [5 * BATCH, IMAGES]]})
    assert batches(other, 1) == [all_of_it[1], all_of_it[4]]
    assert other.state_dict()["position"] == IMAGES and other.epoch == 1
    assert batches(other, 1) == plain(packed, 2 * each)[each:]
    hostile: list[Any] = [
        7, "x", [1], [[8]], [[8, 12, 16]], [["8", "12"]], [[8, 8]], [[12, 8]], [[4, 8]], [[0, 4]],
        [[9, 12]], [[8, 11]], [[8, 10**9]], [[8, 2**70]], [[-8, 12]], [[8.5, 12]], [[True, 12]],
        [[8, 12], [8, 12]], [[16, 20], [8, 12]], [[8, 16], [12, 20]], [[8, 12]] * 100_000,
    ]  # fmt: skip
    for over in hostile:
        with pytest.raises(ValueError, match=r"load_state_dict: (a position|positions|the state)"):
            loader(packed).load_state_dict({**state, "over": over})
    chosen = loader(packed, shuffle=None, sampler=range(IMAGES))
    with pytest.raises(ValueError, match="before their turn"):
        chosen.load_state_dict({**chosen.state_dict(), "over": [[8, 12]]})


@pytest.mark.parametrize("way", POLICIES[1:])
def test_a_prep_server_dies_in_any_order(packed: Path, expected: list[str], way: Any):
    server = PrepServer(packed)
    try:
        one = with_policy(packed, way, server)
        got = []
        for epoch in range(EPOCHS):
            for number, batch in enumerate(one):
                got.append(digest(batch))
                if number == 4 and epoch == 0:
                    server.kill()
                if number == 3 and epoch == 1:
                    server = PrepServer(packed, port=server.port)
        assert by_epoch(got) == by_epoch(expected)
    finally:
        server.kill()


def test_policies_and_orders_that_do_not_fit(packed: Path):
    place = "http://127.0.0.1:9"
    for policy in ("mte", "wrr"):
        assert forebay.Prep(place, policy=policy).order == "any"
        with pytest.raises(ValueError, match='use order="any", or policy="interleave"'):
            forebay.Prep(place, policy=policy, order="epoch")
        with pytest.raises(ValueError, match="one process"):
            loader(packed, prep=forebay.Prep(place, policy=policy), rank=0, world_size=2)
    assert forebay.Prep(place).order == "epoch"
    with pytest.raises(ValueError, match="the policy is 'none'"):
        forebay.Prep(place, policy="none")
    with pytest.raises(ValueError, match="the order is 'none'"):
        forebay.Prep(place, order="none")


def test_secrets(packed: Path, expected: list[str], tmp_path: Path, monkeypatch: Any):
    secret = "a secret of the tests, long enough"
    write_secret(tmp_path / "secret", secret + "\n")
    with prep_server(packed, "--secret-file", str(tmp_path / "secret")) as server:
        assert server.url.startswith("https://")
        assert batches(loader(packed, prep=forebay.Prep(server.url, secret))) == expected
        monkeypatch.setenv("FOREBAY_PREP_SECRET", secret)
        got = batches_until(loader(packed, prep=server.url), lambda figures: figures["batches"])
        assert got == plain(packed, len(got))
        one = loader(packed, prep=forebay.Prep(server.url, "another secret of the tests"))
        with pytest.warns(UserWarning, match="does not help: .*do both have the same secret"):
            assert batches(one) == expected
        assert not one.prep_servers()[0]["is_up"]
    with pytest.raises(ValueError, match="asks for a secret, and none is given"):
        batches(loader(packed, prep=forebay.Prep("https://192.0.2.7:7311", "")))
    shown = Path(f"/proc/{os.getpid()}/cmdline").read_text()
    assert secret not in shown


def test_without_a_secret_only_programs_of_the_same_user_are_served(
    packed: Path, tmp_path: Path, monkeypatch: Any
):
    """Another user of the machine has another home folder."""
    with prep_server(packed) as server:
        got = batches_until(loader(packed, prep=server.url), lambda figures: figures["batches"])
        assert got == plain(packed, len(got))
        with (
            pytest.raises(ssl.SSLError),
            socket.create_connection(("127.0.0.1", server.port)) as raw,
            client_of_nobody().wrap_socket(raw) as stranger,
        ):
            stranger.sendall(b"GET /jobs HTTP/1.1\r\n\r\n")
            stranger.recv(100)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        with pytest.raises(
            FileNotFoundError, match="has not started a prep server on this machine"
        ):
            batches(loader(packed, prep=server.url))


NAMED = """
import sys, time, forebay
from forebay import transforms
loader = forebay.Loader(sys.argv[1], 8, transform=transforms.train(64), prep=sys.argv[2])
for epoch in range(1000):
    for batch in loader:
        time.sleep(0.01)
    print(loader.prep_servers()[0]["is_up"], flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give names other addresses")
def test_a_server_that_comes_back_at_another_address_is_found_by_its_name(
    packed: Path, tmp_path: Path
):
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 storage-of-this-test\n")
    with prep_server(packed) as server:
        url = f"https://storage-of-this-test:{server.port}"
        with subprocess.Popen(
            ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(hosts),
             sys.executable, "-c", NAMED, str(packed), url],
            stdout=subprocess.PIPE, text=True,
        ) as job:  # fmt: skip
            try:
                assert job.stdout is not None
                assert any(line == "True\n" for line in job.stdout)
                server.kill()
                assert any(line == "False\n" for line in job.stdout)
                hosts.write_text("127.0.0.2 storage-of-this-test\n")
                with prep_server(packed, port=server.port, address="127.0.0.2"):
                    assert any(line == "True\n" for line in job.stdout)
            finally:
                job.kill()


def client_of_nobody() -> ssl.SSLContext:
    """A client without the secret."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_what_cannot_work_is_said(packed: Path, photos: Path, folder: Path):
    with prep_server(photos) as server, pytest.raises(ValueError, match="another dataset"):
        batches(loader(packed, prep=server.url))
    for place in ("storage:7311", "http://", "ftp://localhost:1", "http://localhost"):
        with pytest.raises(ValueError, match="does not name a prep server"):
            loader(packed, prep=place)
    with pytest.raises(ValueError, match="https://"):
        loader(packed, prep="http://192.0.2.7:7311")
    with pytest.raises(ValueError, match="prep is 7"):
        loader(packed, prep=7)
    with pytest.raises(ValueError, match="prep is"):
        loader(packed, prep=[])
    said = run_forebay("prep", packed, "--serve", "--listen", "0.0.0.0:0", code=1).stderr
    assert "serving other machines needs --secret-file" in said
    said = run_forebay("prep", packed / "none", "--serve", code=1).stderr
    assert "none" in said
    said = run_forebay("prep", packed, code=2).stderr
    assert "--serve" in said
    write_secret(packed.parent / "short", "short")
    short = ["--secret-file", packed.parent / "short"]
    assert "16" in run_forebay("prep", packed, "--serve", *short, code=1).stderr


class LiarSide:
    """A server between a loader and a prep server, which changes the prep server's batches."""

    def __init__(self, to_port: int, change: Any) -> None:
        self._change = change
        self._to = to_port
        own = Path(os.environ["XDG_STATE_HOME"], "forebay/secret").read_bytes().strip()
        with tempfile.TemporaryDirectory() as folder:
            files = write_certificate(own, Path(folder))
            self._as_server, self._as_client = server_context(*files), client_context(*files)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):  # either end may hang up
            plain = socket.create_connection(("127.0.0.1", self._to))
            server = self._as_client.wrap_socket(plain)
            self._pass_on(self._as_server.wrap_socket(client, server_side=True), server)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            while head := self._message(client):
                server.sendall(head)
                answer = self._message(server)
                client.sendall(self._change(answer) if len(answer) > 20_000 else answer)

    @staticmethod
    def _message(sender: socket.socket) -> bytes:
        got = b""
        while b"\r\n\r\n" not in got:
            if not (more := sender.recv(65536)):
                return b""
            got += more
        head, rest = got.split(b"\r\n\r\n", 1)
        lengths = [line for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")]
        length = int(lengths[0].split(b": ")[1]) if lengths else 0
        while len(rest) < length:
            rest += sender.recv(1 << 20)
        return head + b"\r\n\r\n" + rest

    def close(self) -> None:
        """No further connection is taken."""
        self._socket.close()


@pytest.mark.parametrize("where", [200, 1000, -5])
def test_damaged_batches_are_not_used(packed: Path, where: int):
    def damage(answer: bytes) -> bytes:
        changed = bytearray(answer)
        changed[where] ^= 4
        return bytes(changed)

    with prep_server(packed) as server:
        liar = LiarSide(server.port, damage)
        one = loader(packed, prep=liar.url)
        got = batches_until(one, lambda figures: "sends damaged" in figures["trouble"])
        assert got == plain(packed, len(got))
        (figures,) = one.prep_servers()
        assert figures["batches"] == 0 and not figures["is_up"]
        liar.close()


@pytest.mark.parametrize("way", POLICIES)
def test_a_prep_server_that_lies_is_not_used_any_more(
    images: dict[str, bytes], tmp_path: Path, way: Any
):
    """It has different images with the same fingerprint, so checksums do not help."""
    some = dict(list(images.items())[:40])
    (tmp_path / "a").mkdir()
    true = tmp_path / "a" / "images"
    for name, content in some.items():
        (true / name).parent.mkdir(parents=True, exist_ok=True)
        (true / name).write_bytes(content)
    # In place a fingerprint depends on keys, labels and lengths, not on the images' bytes.
    false = tmp_path / "b" / "images"
    for name, content in some.items():
        changed = bytearray(content)
        (false / name).parent.mkdir(parents=True, exist_ok=True)
        changed[len(changed) // 2 :] = content[len(content) // 2 :]
        at = content.find(b"\xff\xdb") + 10
        changed[at] = 1 + (changed[at] + 40) % 200
        (false / name).write_bytes(changed)
    with prep_server(false) as server:
        expected = plain(true, 50)
        for _ in range(100):  # a prep server with a slow start may not be asked again
            one = with_policy(true, way, server)
            got = batches(one, 5)
            for at in range(0, 50, 10):
                assert sorted(got[at : at + 10]) == sorted(expected[at : at + 10])
            if "wrong batch" in one.prep_servers()[0]["trouble"]:
                break
        (figures,) = one.prep_servers()
        assert not figures["is_up"]
        assert figures["batches"] == 0


def pack_large(folder: Path, tmp_path: Path) -> Path:
    """Packs images so large that a trainer of a small network waits for batches."""
    packed = tmp_path / "large"
    for number, path in enumerate(sorted(folder.rglob("*.jpg"))[:24]):
        large = tmp_path / "images" / f"class{number % 3}" / path.name
        large.parent.mkdir(parents=True, exist_ok=True)
        Image.open(path).resize((1200, 1200)).save(large, quality=95)
    run_forebay("pack", tmp_path / "images", packed)
    return packed


def test_several_learners_learn_the_same(folder: Path, tmp_path: Path):
    packed = pack_large(folder, tmp_path)
    words = ["train", packed, "--epochs", 3, "--learners", 2, "--batch", 2, "--width", 1]
    words += ["--size", 32, "--threads", 2, "--feed-threads", 1, "--log", tmp_path / "log"]
    run_forebay(*words, "--out", tmp_path / "alone")
    secret = write_secret(tmp_path / "secret", "a secret of at least so many letters")
    with prep_server(packed, "--secret-file", str(secret)) as server:
        with_prep = ["--prep", server.url, "--prep-secret-file", secret]
        run_forebay(*words, "--out", tmp_path / "both", *with_prep)
    weights = [tmp_path / name / "model.safetensors" for name in ("alone", "both")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    summary = json.loads((tmp_path / "log").read_text().splitlines()[-1])
    (of_server,) = summary["prep"]["servers"]
    assert of_server["is_up"] and of_server["trouble"] == ""
    assert summary["prep"]["host_steps"] + of_server["steps"] == summary["steps"] == 18


def test_the_trainer_learns_the_same(folder: Path, tmp_path: Path):
    packed = pack_large(folder, tmp_path)
    words = ["train", packed, "--epochs", 10, "--batch", 4, "--width", 1, "--size", 32]
    words += ["--crop", "resized", "--crop-scale-min", 0.9, "--threads", 1, "--feed-threads", 1]
    run_forebay(*words, "--out", tmp_path / "alone")
    secret = write_secret(tmp_path / "secret", "a secret of at least so many letters")
    log = tmp_path / "log"
    with prep_server(packed, "--secret-file", str(secret)) as server:
        with_prep = ["--prep", server.url, "--prep-secret-file", secret, "--log", log]
        done = run_forebay(*words, "--out", tmp_path / "both", *with_prep)
        with_prep[-1] = tmp_path / "log of wrr"
        run_forebay(*words, "--out", tmp_path / "wrr", *with_prep, "--prep-policy", "wrr")
    weights = [tmp_path / name / "model.safetensors" for name in ("alone", "both")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert "prep servers: " in done.stderr and "1 of 1 up" in done.stderr
    summary = json.loads(log.read_text().splitlines()[-1])
    (of_server,) = summary["prep"]["servers"]
    assert of_server["name"] == server.url and of_server["is_up"] and of_server["trouble"] == ""
    assert of_server["steps"] > 0
    assert summary["prep"]["host_steps"] + of_server["steps"] == summary["steps"]
    in_any_order = json.loads((tmp_path / "log of wrr").read_text().splitlines()[-1])
    assert in_any_order["steps"] == summary["steps"]
    assert in_any_order["prep"]["servers"][0]["steps"] > 0
    assert in_any_order["prep"]["servers_at"] < 6 and in_any_order["prep"]["host_at"] < 6
    assert ", at step " in done.stderr and "(host: " in done.stderr
    assert 0 < summary["cpu_s"] < 1000 and summary["energy_j"] > 0
    tensors = summary["steps"] * 4 * 3 * 32 * 32 * 2  # bytes, of batches of 4; float32 has more
    assert summary["memory_bytes"] > tensors + 2 * of_server["bytes"] > tensors


def test_what_the_trainer_is_told_wrongly(packed: Path, tmp_path: Path):
    words = ["train", packed, "--epochs", 1, "--batch", 8, "--width", 2]
    for more, said in (
        (["--prep", "nowhere"], '"nowhere" does not name a prep server'),
        (["--prep", "https://192.0.2.7:9"], "asks for a secret"),
        (["--prep", "https://127.0.0.1:9", "--prep-secret-file", tmp_path / "none"], "cannot open"),
    ):
        assert said in run_forebay(*words, *more, code=1).stderr


def test_batches_come_as_files(packed: Path, tmp_path: Path):
    shared = tmp_path / "shared"
    shared.mkdir()
    with prep_server(packed, "--folder", str(shared)) as server:
        one = loader(packed, prep=server.url)
        got = batches_until(one, lambda figures: figures["files"] > 3)
        server.kill()  # its folder is left
        assert got == plain(packed, len(got))
        (left,) = shared.iterdir()
        assert left.stat().st_mode & 0o777 == 0o700
        with prep_server(packed, "--folder", str(shared), port=server.port) as again:
            assert not left.exists()
            before = one.prep_servers()[0]["files"]
            more = batches_until(one, lambda figures: figures["files"] > before + 3)
            assert got + more == plain(packed, len(got) + len(more))
            one.close()
            again.stop()
    assert not list(shared.iterdir())


def test_folders_that_cannot_be_used(packed: Path, tmp_path: Path):
    words = ["prep", packed, "--serve", "--listen", "127.0.0.1:0", "--folder"]
    assert "missing" in run_forebay(*words, tmp_path / "missing", code=1).stderr
    assert "is not a folder" in run_forebay(*words, packed / "HEAD", code=1).stderr


_FORMS: dict[str, dict[str, Any]] = {
    "float32": {},
    "float16, channels last": {"dtype": "float16", "channels_last": True},
    "bfloat16": {"dtype": "bfloat16"},
    "odd sizes": {"size": (33, 47)},
    "masked": {"shuffle": False, "drop_last": False},
    "erased": {"more": [transforms.RandomErasing()]},
    "bytes": {"bytes": True},
}


@pytest.mark.filterwarnings("ignore:.*cannot be used")
@pytest.mark.parametrize("form", _FORMS)
def test_numbers_that_the_host_makes_of_bytes(
    packed: Path, images: dict[str, bytes], tmp_path: Path, form: str
):
    if form == "masked":
        packed = pack_and_damage(images, tmp_path)
    given = dict(_FORMS[form])
    steps: list[Any] = [transforms.RandomResizedCrop(given.pop("size", 64))]
    if not given.pop("bytes", False):
        steps += [transforms.Normalize((0.1, 0.5, 0.9), (0.3, 0.01, 2.0))]
    given["transform"] = steps + given.pop("more", [])
    with prep_server(packed) as server:
        one = loader(packed, prep=server.url, **given)
        got = batches_until(one, lambda figures: figures["batches"] >= 2)
        (figures,) = one.prep_servers()
    assert got == plain(packed, len(got), **given)
    values = BATCH * 3 * (33 * 47 if form == "odd sizes" else 64 * 64)
    least = values * (4 if form == "erased" else 1)
    received = figures["bytes"] / (figures["batches"] + figures["late"] + figures["checked"] + 3)
    assert figures["bytes"] >= figures["batches"] * least and received < 1.5 * least
