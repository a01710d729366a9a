"""Near sides: batches that `forebay prep` prepares elsewhere, and what may go wrong there."""

import contextlib
import hashlib
import json
import os
import pickle
import socket
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
from conftest import IMAGES, pack, run_forebay
from forebay import transforms
from servers.near_side import NearSide

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


def loader(dataset: Path | str, **options: Any) -> forebay.Loader:
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
    """All batches until what the first near side did is enough."""
    out = []
    end = time.monotonic() + SECONDS_MOST
    while time.monotonic() < end:
        out += batches(one, 1)
        if done(one.near_sides()[0]):
            return out
    raise AssertionError(one.near_sides())


def plain(dataset: Path | str, count: int, **options: Any) -> list[str]:
    """The first `count` batches, prepared without a near side."""
    one = loader(dataset, **options)
    return batches(one, -(-count // len(one)))[:count]


@contextmanager
def near_side(dataset: Path | str, *options: str, **more: Any) -> Iterator[NearSide]:
    """A near side for a test."""
    side = NearSide(dataset, *options, **more)
    try:
        yield side
    finally:
        side.kill()


@pytest.fixture(scope="module")
def expected(packed: Path) -> list[str]:
    """The batches without a near side."""
    return batches(loader(packed))


def test_batches_are_the_same(packed: Path, folder: Path):
    with near_side(packed) as side:
        assert side.said == f"{packed}: {IMAGES} samples\n"
        one = loader(packed, prep=side.url)
        got = batches_until(one, lambda figures: figures["batches"] > 3)
        assert got == plain(packed, len(got))
        (figures,) = one.near_sides()
        assert figures["is_up"] and figures["trouble"] == "" and figures["name"] == side.url
        assert figures["bytes"] > 3 * BATCH * 3 * 96 * 96 * 4 and figures["checked"] > 0
        one.close()
        assert "batches were prepared" in side.stop()
    assert loader(folder).near_sides() == []


def test_several_near_sides(packed: Path, expected: list[str]):
    with near_side(packed) as first, near_side(packed) as second:
        one = loader(packed, prep=[first.url, second.url])
        assert batches(one) == expected
        assert [side["is_up"] for side in one.near_sides()] == [True, True]


def test_each_rank_gets_its_own_batches(packed: Path):
    with near_side(packed) as side:
        for rank in range(2):
            share = {"rank": rank, "world_size": 2}
            got = batches_until(loader(packed, prep=side.url, **share), lambda of: of["batches"])
            assert got == plain(packed, len(got), **share)


def test_data_in_place_and_stored_order(folder: Path):
    options = {"shuffle": False, "transform": [*TRANSFORM[:2], transforms.Normalize()]}
    with near_side(folder) as side:
        got = batches_until(loader(folder, prep=side.url, **options), lambda of: of["batches"])
        assert got == plain(folder, len(got), **options)


def test_python_functions_run_on_the_host(packed: Path):
    def double(images: torch.Tensor) -> torch.Tensor:
        return images * 2

    options = {"transform": [transforms.RandomResizedCrop(64), double]}
    with near_side(packed) as side:
        got = batches_until(loader(packed, prep=side.url, **options), lambda of: of["batches"])
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
    with near_side(damaged) as side, pytest.warns(UserWarning, match="cannot be used"):
        one = loader(damaged, prep=side.url)
        assert batches(one, 2) == without
        assert {b["sample"] for b in one.bad_samples} == {b["sample"] for b in alone.bad_samples}


def test_a_state_resumes_with_and_without(packed: Path, expected: list[str]):
    with near_side(packed) as side:
        one = loader(packed, prep=side.url)
        got = []
        for batch in one:
            got.append(digest(batch))
            if len(got) == 7:
                break
        state = one.state_dict()
        for other in (loader(packed), loader(packed, prep=side.url)):
            other.load_state_dict(state)
            assert got + batches(other) == expected


def test_a_copy_in_another_process_uses_it_too(packed: Path, expected: list[str]):
    with near_side(packed) as side:
        one = loader(packed, prep=forebay.Prep([side.url]))
        assert batches(pickle.loads(pickle.dumps(one))) == expected


def test_a_near_side_may_die_and_come_back(packed: Path, expected: list[str]):
    side = NearSide(packed)
    try:
        one = loader(packed, prep=side.url)
        got = []
        for epoch in range(EPOCHS):
            for number, batch in enumerate(one):
                got.append(digest(batch))
                if number == 6 and epoch == 0:
                    side.kill()
                if number == 3 and epoch == 1:
                    side = NearSide(packed, port=side.port)
        assert got == expected
    finally:
        side.kill()


def test_a_near_side_that_hangs_holds_nobody_up(packed: Path, expected: list[str]):
    with near_side(packed) as side:
        one = loader(packed, prep=side.url)
        got = []
        began = time.monotonic()
        for epoch in range(EPOCHS):
            for number, batch in enumerate(one):
                got.append(digest(batch))
                if number == 5 and epoch == 0:
                    side.pause()
                if number == 5 and epoch == 1:
                    side.go_on()
        assert got == expected
        assert time.monotonic() - began < 60  # far less than any limit of a connection


def test_one_that_hangs_at_the_beginning_is_left_out(packed: Path, expected: list[str]):
    with near_side(packed) as side:
        side.pause()
        one = loader(packed, prep=side.url)
        began = time.monotonic()
        assert batches(one) == expected
        assert time.monotonic() - began < 40  # a connection that hangs is given up after 60 s
        side.go_on()


def test_one_that_is_not_there_is_left_out(packed: Path, expected: list[str]):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        one = loader(packed, prep=f"http://127.0.0.1:{held.getsockname()[1]}")
        assert batches(one) == expected
        (figures,) = one.near_sides()
        assert not figures["is_up"] and figures["trouble"] and figures["batches"] == 0


POLICIES = [("interleave", "epoch"), ("interleave", "any"), ("mte", "any"), ("wrr", "any")]


def with_policy(dataset: Path, way: tuple[str, str], *sides: NearSide) -> forebay.Loader:
    """A loader whose near sides prepare batches by a policy."""
    policy, order = way
    urls = [side.url for side in sides]
    return loader(dataset, prep=forebay.Prep(urls, policy=policy, order=order))


def by_epoch(digests: list[str]) -> list[list[str]]:
    """The digests of each epoch's batches, sorted, so that orders do not count."""
    each = len(digests) // EPOCHS
    return [sorted(digests[at : at + each]) for at in range(0, len(digests), each)]


@pytest.mark.parametrize("way", POLICIES)
def test_each_batch_comes_once_in_any_order(packed: Path, expected: list[str], way: Any):
    with near_side(packed) as first, near_side(packed) as second:
        one = with_policy(packed, way, first, second)
        assert by_epoch(batches(one)) == by_epoch(expected)
        for number, _ in enumerate(one):  # left early
            if number == 4:
                break
        assert one.epoch == EPOCHS
        rest = batches(one, 1)
        assert sorted(rest) == sorted(plain(packed, (EPOCHS + 2) * len(rest))[-len(rest) :])
        figures = one.near_sides()
        assert all(side["is_up"] for side in figures)
        assert sum(side["batches"] + side["late"] for side in figures) > 0


@pytest.mark.parametrize("way", POLICIES)
def test_a_state_in_any_order_resumes_everywhere(packed: Path, expected: list[str], way: Any):
    with near_side(packed) as side:
        one = with_policy(packed, way, side)
        got = batches(one, 1)
        each = len(got)
        for batch in one:
            got.append(digest(batch))
            if len(got) == each + 7:
                break
        state = json.loads(json.dumps(one.state_dict()))
        assert ("over" in state) <= (way[1] == "any")
        others = [loader(packed), loader(packed, prep=side.url)]
        for other in (*others, *(with_policy(packed, to, side) for to in POLICIES)):
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
def test_a_near_side_dies_in_any_order(packed: Path, expected: list[str], way: Any):
    side = NearSide(packed)
    try:
        one = with_policy(packed, way, side)
        got = []
        for epoch in range(EPOCHS):
            for number, batch in enumerate(one):
                got.append(digest(batch))
                if number == 4 and epoch == 0:
                    side.kill()
                if number == 3 and epoch == 1:
                    side = NearSide(packed, port=side.port)
        assert by_epoch(got) == by_epoch(expected)
    finally:
        side.kill()


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
    (tmp_path / "secret").write_text(secret + "\n")
    with near_side(packed, "--secret-file", str(tmp_path / "secret")) as side:
        assert side.url.startswith("https://")
        assert batches(loader(packed, prep=forebay.Prep(side.url, secret))) == expected
        monkeypatch.setenv("FOREBAY_PREP_SECRET", secret)
        got = batches_until(loader(packed, prep=side.url), lambda figures: figures["batches"])
        assert got == plain(packed, len(got))
        one = loader(packed, prep=forebay.Prep(side.url, "another secret of the tests"))
        assert batches(one) == expected
        assert not one.near_sides()[0]["is_up"]
        with pytest.raises(ValueError, match="asks for a secret, and none is given"):
            batches(loader(packed, prep=forebay.Prep(side.url, "")))
    shown = Path(f"/proc/{os.getpid()}/cmdline").read_text()
    assert secret not in shown


def test_what_cannot_work_is_said(packed: Path, photos: Path, folder: Path):
    with near_side(photos) as side, pytest.raises(ValueError, match="another dataset"):
        batches(loader(packed, prep=side.url))
    for place in ("storage:7311", "http://", "ftp://localhost:1", "http://localhost"):
        with pytest.raises(ValueError, match="does not name a near side"):
            loader(packed, prep=place)
    with pytest.raises(ValueError, match="https://"):
        loader(packed, prep="http://192.0.2.7:7311")
    with pytest.raises(ValueError, match="prep is 7"):
        loader(packed, prep=7)
    with pytest.raises(ValueError, match="prep is"):
        loader(packed, prep=[])
    said = run_forebay("prep", packed, "--serve", "--listen", "0.0.0.0:0", code=1).stderr
    assert "without a secret" in said
    said = run_forebay("prep", packed / "none", "--serve", code=1).stderr
    assert "none" in said
    said = run_forebay("prep", packed, code=2).stderr
    assert "--serve" in said
    (packed.parent / "short").write_text("short")
    short = ["--secret-file", packed.parent / "short"]
    assert "16" in run_forebay("prep", packed, "--serve", *short, code=1).stderr


class LiarSide:
    """A server between a loader and a near side, which changes what the latter sends."""

    def __init__(self, to_port: int, change: Any) -> None:
        self._change = change
        self._to = to_port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
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
        server = socket.create_connection(("127.0.0.1", self._to))
        with client, server, contextlib.suppress(OSError):  # either side may hang up
            while head := self._message(client):
                server.sendall(head)
                answer = self._message(server)
                client.sendall(self._change(answer) if len(answer) > 20_000 else answer)

    @staticmethod
    def _message(side: socket.socket) -> bytes:
        got = b""
        while b"\r\n\r\n" not in got:
            if not (more := side.recv(65536)):
                return b""
            got += more
        head, rest = got.split(b"\r\n\r\n", 1)
        lengths = [line for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")]
        length = int(lengths[0].split(b": ")[1]) if lengths else 0
        while len(rest) < length:
            rest += side.recv(1 << 20)
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

    with near_side(packed) as side:
        liar = LiarSide(side.port, damage)
        one = loader(packed, prep=liar.url)
        got = batches_until(one, lambda figures: "sends damaged" in figures["trouble"])
        assert got == plain(packed, len(got))
        (figures,) = one.near_sides()
        assert figures["batches"] == 0 and not figures["is_up"]
        liar.close()


@pytest.mark.parametrize("way", POLICIES)
def test_a_near_side_that_lies_is_not_used_any_more(
    images: dict[str, bytes], tmp_path: Path, way: Any
):
    """One whose images differ says that it has the same dataset; checksums do not help then."""
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
    with near_side(false) as side:
        expected = plain(true, 50)
        for _ in range(100):  # a near side that begins slowly may not be asked again
            one = with_policy(true, way, side)
            got = batches(one, 5)
            for at in range(0, 50, 10):
                assert sorted(got[at : at + 10]) == sorted(expected[at : at + 10])
            if "wrong batch" in one.near_sides()[0]["trouble"]:
                break
        (figures,) = one.near_sides()
        assert not figures["is_up"]
        assert figures["batches"] == 0


def test_the_trainer_learns_the_same(folder: Path, tmp_path: Path):
    # Large images for a small network: the trainer waits for what prepares them.
    packed = tmp_path / "large"
    for number, path in enumerate(sorted(folder.rglob("*.jpg"))[:24]):
        large = tmp_path / "images" / f"class{number % 3}" / path.name
        large.parent.mkdir(parents=True, exist_ok=True)
        Image.open(path).resize((1200, 1200)).save(large, quality=95)
    run_forebay("pack", tmp_path / "images", packed)
    words = ["train", packed, "--epochs", 10, "--batch", 4, "--width", 1, "--size", 32]
    words += ["--crop", "resized", "--crop-scale-min", 0.9, "--threads", 1, "--feed-threads", 1]
    run_forebay(*words, "--out", tmp_path / "alone")
    secret = tmp_path / "secret"
    secret.write_text("a secret of at least so many letters")
    log = tmp_path / "log"
    with near_side(packed, "--secret-file", str(secret)) as side:
        with_prep = ["--prep", side.url, "--prep-secret-file", secret, "--log", log]
        done = run_forebay(*words, "--out", tmp_path / "both", *with_prep)
        with_prep[-1] = tmp_path / "log of wrr"
        run_forebay(*words, "--out", tmp_path / "wrr", *with_prep, "--prep-policy", "wrr")
    weights = [tmp_path / name / "model.safetensors" for name in ("alone", "both")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert "near sides: " in done.stderr and "1 of 1 there" in done.stderr
    summary = json.loads(log.read_text().splitlines()[-1])
    (of_side,) = summary["prep"]["sides"]
    assert of_side["name"] == side.url and of_side["is_up"] and of_side["trouble"] == ""
    assert of_side["steps"] > 0
    assert summary["prep"]["host_steps"] + of_side["steps"] == summary["steps"]
    in_any_order = json.loads((tmp_path / "log of wrr").read_text().splitlines()[-1])
    assert in_any_order["steps"] == summary["steps"]
    assert in_any_order["prep"]["sides"][0]["steps"] > 0
    assert in_any_order["prep"]["near_at"] < 6 and in_any_order["prep"]["host_at"] < 6
    assert ", at step " in done.stderr and "(host: " in done.stderr
    assert 0 < summary["cpu_s"] < 1000 and summary["energy_j"] > 0
    tensors = summary["steps"] * 4 * 3 * 32 * 32 * 2  # bytes, of batches of 4; float32 has more
    assert summary["memory_bytes"] > tensors + 2 * of_side["bytes"] > tensors


def test_what_the_trainer_is_told_wrongly(packed: Path, tmp_path: Path):
    words = ["train", packed, "--epochs", 1, "--batch", 8, "--width", 2]
    for more, said in (
        (["--prep", "nowhere"], '"nowhere" does not name a near side'),
        (["--prep", "https://127.0.0.1:9"], "asks for a secret"),
        (["--prep", "https://127.0.0.1:9", "--prep-secret-file", tmp_path / "none"], "cannot open"),
    ):
        assert said in run_forebay(*words, *more, code=1).stderr


def test_batches_come_as_files(packed: Path, tmp_path: Path):
    shared = tmp_path / "shared"
    shared.mkdir()
    with near_side(packed, "--folder", str(shared)) as side:
        one = loader(packed, prep=side.url)
        got = batches_until(one, lambda figures: figures["files"] > 3)
        side.kill()  # its folder stays
        assert got == plain(packed, len(got))
        (left,) = shared.iterdir()
        assert left.stat().st_mode & 0o777 == 0o700
        with near_side(packed, "--folder", str(shared), port=side.port) as again:
            assert not left.exists()
            before = one.near_sides()[0]["files"]
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
    with near_side(packed) as side:
        one = loader(packed, prep=side.url, **given)
        got = batches_until(one, lambda figures: figures["batches"] >= 2)
        (figures,) = one.near_sides()
    assert got == plain(packed, len(got), **given)
    values = BATCH * 3 * (33 * 47 if form == "odd sizes" else 64 * 64)
    least = values * (4 if form == "erased" else 1)
    received = figures["bytes"] / (figures["batches"] + figures["late"] + figures["checked"] + 3)
    assert figures["bytes"] >= figures["batches"] * least and received < 1.5 * least
