"""Credentials that end or change, wrong clocks and redirects, with Ceph's gateway."""

import json
import pickle
import re
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import forebay
from conftest import FOREBAY, skip_without
from places import (
    HASTY,
    environment,
    epoch,
    epoch_around,
    error_of,
    read_a_thousand_at_once,
    s3_options,
)
from servers import ceph
from servers.chaos import ChaosProxy, Fault
from servers.s3 import S3, Key

Chaos = Callable[..., ChaosProxy]


@pytest.fixture
def keyless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Leads to files of the test's own, which do not exist yet, as the only place of keys."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return monkeypatch


def write_key(path: Path, key: Key) -> None:
    """Puts a key into a file of credentials, as one change."""
    fresh = path.with_suffix(".new")
    fresh.write_text(
        f"[default]\naws_access_key_id = {key.access}\naws_secret_access_key = {key.secret}\n"
    )
    fresh.rename(path)


def keyless_options(s3: S3, endpoint: str) -> dict:
    return {"client_kwargs": s3_options(s3, endpoint)["client_kwargs"]}


def patient_options(s3: S3, endpoint: str) -> dict:
    """Returns options with which a request outlives the exchange of its keys."""
    return {**keyless_options(s3, endpoint), "max_attempts": 30}


def test_a_key_that_is_exchanged_in_its_file(
    s3: S3, bucket: str, photos: Path, chaos: Chaos, keyless: object, tmp_path: Path
) -> None:
    old, proxy, file = ceph.make_key(s3.config), chaos(s3.endpoint), tmp_path / "credentials"
    write_key(file, old)
    dataset = forebay.Dataset(f"s3://{bucket}/set", patient_options(s3, proxy.url))

    def rotate() -> None:
        ceph.remove_key(s3.config, old)
        write_key(file, s3.key)

    assert epoch_around(proxy, dataset, rotate) == epoch(photos)


def test_a_key_that_was_removed_ends_the_epoch(
    s3: S3, bucket: str, keyless: object, tmp_path: Path
) -> None:
    old = ceph.make_key(s3.config)
    write_key(tmp_path / "credentials", old)
    options = {**keyless_options(s3, s3.endpoint), **HASTY}
    dataset = forebay.Dataset(f"s3://{bucket}/set", options)
    ceph.remove_key(s3.config, old)
    message = error_of(dataset)
    assert f"s3://{bucket}/set/" in message and s3.endpoint[7:] in message
    assert "403 (InvalidAccessKeyId" in message and "check the credentials" in message
    assert old.secret not in message


def given_out(key: Key, lifetime: timedelta) -> str:
    """Returns what a container service answers."""
    end = datetime.now(timezone.utc) + lifetime
    return json.dumps(
        {
            "AccessKeyId": key.access,
            "SecretAccessKey": key.secret,
            "Token": "",
            "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
    )


def test_a_service_gives_out_new_keys(
    s3: S3, bucket: str, photos: Path, chaos: Chaos, keyless: pytest.MonkeyPatch
) -> None:
    old, proxy, service = ceph.make_key(s3.config), chaos(s3.endpoint), chaos(s3.endpoint)
    service.program(Fault(status=200, body=given_out(old, timedelta(hours=1)), times=-1))
    keyless.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.url}/keys")
    dataset = forebay.Dataset(f"s3://{bucket}/set", patient_options(s3, proxy.url))

    def rotate() -> None:
        ceph.remove_key(s3.config, old)
        service.program(Fault(status=200, body=given_out(s3.key, timedelta(hours=1)), times=-1))

    assert epoch_around(proxy, dataset, rotate) == epoch(photos)


def test_a_service_gives_out_keys_that_have_ended(
    s3: S3, bucket: str, chaos: Chaos, keyless: pytest.MonkeyPatch
) -> None:
    service = chaos(s3.endpoint)
    service.program(Fault(status=200, body=given_out(s3.key, timedelta(hours=-1)), times=-1))
    keyless.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.url}/keys")
    message = error_of(f"s3://{bucket}/set", keyless_options(s3, s3.endpoint))
    assert f"s3://{bucket}/set" in message and "container" in message
    assert re.search("expired|ended", message)
    assert s3.key.secret not in message


def test_a_private_bucket_asks_for_keys(s3: S3, bucket: str) -> None:
    options = {**keyless_options(s3, s3.endpoint), "anon": True}
    message = error_of(f"s3://{bucket}/set", options)
    assert f"s3://{bucket}/set" in message and s3.endpoint[7:] in message
    assert "the server answered 403" in message and "check the credentials" in message


def test_no_secret_is_in_a_saved_state(s3: S3, bucket: str) -> None:
    options = {**s3_options(s3), "token": ""}
    with forebay.Loader(f"s3://{bucket}/set", 8, storage_options=options) as loader:
        next(iter(loader))
        state = loader.state_dict()
    for shown in (repr(state), repr(pickle.dumps(state)), repr(loader), repr(loader.dataset)):
        assert s3.key.secret not in shown and s3.key.access not in shown


@pytest.mark.parametrize("days", ["-1", "+1"])
def test_a_wrong_clock_is_named(days: str, s3: S3, bucket: str) -> None:
    skip_without({"faketime": "faketime"})
    done = subprocess.run(
        ["faketime", "-m", "-f", f"{days}d", FOREBAY, "ls", f"s3://{bucket}/set"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**environment(s3), "FAKETIME_DONT_FAKE_MONOTONIC": "1"},
    )
    side = "ahead of" if days == "+1" else "behind"
    assert done.returncode == 1
    assert f"s3://{bucket}/set" in done.stderr and s3.endpoint[7:] in done.stderr
    assert "the server answered 403" in done.stderr
    assert re.search(rf"clock is 14(39|40|41) minutes {side} the server's: set it", done.stderr)


def test_a_signature_does_not_follow_a_redirect(s3: S3, bucket: str, chaos: Chaos) -> None:
    first, second = chaos(s3.endpoint), chaos(s3.endpoint)
    to_second: dict[str, str | None] = {"Location": f"{second.url}/elsewhere"}
    first.program(Fault(status=307, headers=to_second, times=-1))
    message = error_of(f"s3://{bucket}/set", s3_options(s3, first.url))
    assert f"s3://{bucket}/set" in message and first.url[7:] in message
    assert "the server answered 307" in message
    assert f"it redirects to {second.url}/elsewhere, but a signed request is for one" in message
    assert "set the storage option endpoint_url" in message
    assert second.counts().connections == 0


def test_a_thousand_requests_with_few_descriptors(s3: S3, bucket: str, photos: Path) -> None:
    read_a_thousand_at_once(f"s3://{bucket}/set", photos, environment(s3))
