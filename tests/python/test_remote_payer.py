"""Who pays for requests, and how a store encrypts new objects, with Ceph's gateway."""

import subprocess
from pathlib import Path

import pytest

import forebay
from conftest import FOREBAY, run_forebay
from places import environment, epoch, error_of, on_web, s3_options
from servers.nginx import Nginx, run_logging_proxy
from servers.s3 import S3
from test_remote_pack import large  # noqa: F401

PAYER = "x-amz-request-payer"
SSE = "x-amz-server-side-encryption"
KEY_ID = "x-amz-server-side-encryption-aws-kms-key-id"
REQUESTER = (
    b'<RequestPaymentConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    b"<Payer>Requester</Payer></RequestPaymentConfiguration>"
)
KMS = ("--sse", "aws:kms", "--sse-kms-key-id", "key-1")


def of_stranger(s3: S3) -> S3:
    """Returns the server as its other user reaches it."""
    return S3(s3.endpoint, s3.stranger_key, s3.key, s3.config)


@pytest.fixture(scope="module")
def paid(s3: S3, photos: Path) -> str:
    """Returns a bucket that all users may read, if they pay for it, with the photographs."""
    bucket = s3.make_bucket()
    s3.upload(photos, bucket, "set/")
    for path in ("", *(f"/{key}" for key in s3.keys(bucket))):
        acl = {"x-amz-acl": "authenticated-read"}
        assert s3.request("PUT", f"/{bucket}{path}?acl=", body=b"", headers=acl).status == 200
    answer = s3.request("PUT", f"/{bucket}?requestPayment=", body=REQUESTER)
    assert answer.status == 200
    return bucket


def test_only_a_requester_who_pays_is_served(s3: S3, paid: str, photos: Path) -> None:
    stranger = of_stranger(s3)
    options = s3_options(stranger)
    assert "the server answered 403" in error_of(f"s3://{paid}/set", options)
    for more in (
        {"requester_pays": True},
        {"request_payer": "requester"},
        {"s3_additional_kwargs": {"RequestPayer": "requester"}},
    ):
        assert epoch(f"s3://{paid}/set", {**options, **more}) == epoch(photos)
    run_forebay("ls", f"s3://{paid}/set", env=environment(stranger), code=1)
    run_forebay("verify", f"s3://{paid}/set", "--request-payer", "requester",
                env=environment(stranger))  # fmt: skip


def test_each_request_says_who_pays_and_signs_it(s3: S3, paid: str, tmp_path: Path) -> None:
    (tmp_path / "proxy").mkdir()
    with run_logging_proxy(tmp_path / "proxy", s3.endpoint, [PAYER]) as (url, asked):
        env = environment(of_stranger(s3), url)
        run_forebay("cp", f"s3://{paid}/set", tmp_path / "copy", "--request-payer", "requester",
                    env=env)  # fmt: skip
        with_option = asked()
        run_forebay("ls", f"s3://{paid}/set", env=env, code=1)
        without = asked()[len(with_option) :]
    assert with_option and without
    assert all(request.values == ("requester",) for request in with_option)
    assert all(PAYER in request.signed for request in with_option)
    assert all(request.values == ("-",) for request in without)
    assert all(request.accept_encoding == "identity" for request in with_option)
    assert not any("accept-encoding" in request.signed for request in with_option)


def heads(s3: S3, bucket: str, prefix: str) -> list[dict[str, str]]:
    """Returns the headers of all objects below a prefix."""
    keys = sorted(key for key in s3.keys(bucket) if key.startswith(prefix))
    assert keys
    return [s3.request("HEAD", f"/{bucket}/{key}").headers for key in keys]


def test_new_objects_are_encrypted_with_the_users_key(
    s3: S3,
    packed: Path,
    large: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Also those that are sent in parts, and those of a pack."""
    bucket = s3.make_bucket()
    env = environment(s3)
    run_forebay("cp", packed, f"s3://{bucket}/copy", *KMS, env=env)
    run_forebay("cp", large, f"s3://{bucket}/large", *KMS, env=env)
    run_forebay("pack", packed.parent / "images", f"s3://{bucket}/pack", *KMS, env=env)
    for head in heads(s3, bucket, ""):
        assert head[SSE] == "aws:kms" and head[KEY_ID] == "key-1"
    for name in ("copy", "large", "pack"):
        run_forebay("verify", f"s3://{bucket}/{name}", env=env)
    run_forebay("cp", f"s3://{bucket}/large", tmp_path / "back", env=env)
    (chunk,) = (large / "chunks").iterdir()
    assert (tmp_path / "back" / "chunks" / chunk.name).read_bytes() == chunk.read_bytes()


def test_the_headers_go_only_where_objects_are_made(
    s3: S3,
    large: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    """S3 refuses them with parts and with reads."""
    bucket = s3.make_bucket()
    (tmp_path / "proxy").mkdir()
    with run_logging_proxy(tmp_path / "proxy", s3.endpoint, [SSE, KEY_ID]) as (url, asked):
        run_forebay("cp", large, f"s3://{bucket}/kms", *KMS, env=environment(s3, url))
        with_key = asked()
        run_forebay("cp", large, f"s3://{bucket}/own", "--target-storage-option", "region=default",
                    "--sse", "AES256", env=environment(s3, url))  # fmt: skip
        without_key = asked()[len(with_key) :]
    for requests, values, names in (
        (with_key, ("aws:kms", "key-1"), {SSE, KEY_ID}),
        (without_key, ("AES256", "-"), {SSE}),
    ):
        kinds = {True: 0, False: 0}
        for request in requests:
            method, _, target = request.line.partition(" ")
            makes = target.endswith("?uploads=") and method == "POST"
            makes |= method == "PUT" and "partNumber=" not in target
            kinds[makes] += 1
            assert request.values == (values if makes else ("-", "-")), request
            assert request.signed & {SSE, KEY_ID} == (names if makes else set()), request
        assert all(kinds.values())
        assert any("partNumber=" in request.line for request in requests)


def test_an_unknown_key_is_the_stores_error(s3: S3, packed: Path) -> None:
    target = f"s3://{s3.make_bucket()}/set"
    done = run_forebay("cp", packed, target, "--sse", "aws:kms", "--sse-kms-key-id", "no-key",
                       env=environment(s3), code=1)  # fmt: skip
    assert "kms-keyid: no-key" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--request-payer", "owner"), "requester"),
        (("--sse", "aes256"), "AES256"),
        (("--sse-kms-key-id", "key-1"), "--sse"),
        (("--sse", "AES256", "--sse-kms-key-id", "key-1"), "give sse=aws:kms too"),
        (("--sse", "aws:kms", "--sse-kms-key-id", "a\r\nx-amz-acl: public-read"), "the ARN of a"),
        (("--storage-option", "anon=true", "--request-payer", "requester"), "must be signed"),
    ],
)
def test_what_cannot_be_is_refused(words: tuple[str, ...], said: str, packed: Path, s3: S3) -> None:
    done = subprocess.run(
        [FOREBAY, "cp", packed, "s3://bucket/set", *words],
        capture_output=True,
        text=True,
        env=environment(s3),
    )
    assert done.returncode != 0 and said in done.stderr


def test_a_web_server_is_only_read(packed: Path, nginx: Nginx, s3: S3) -> None:
    """An option for writing is ignored for its URLs; one that says who pays is refused."""
    url = f"{nginx.url}/{on_web(nginx, packed)}"
    run_forebay("cp", url, f"s3://{s3.make_bucket()}/set", "--sse", "AES256", env=environment(s3))
    with pytest.raises(ValueError, match="does not take requester_pays"):
        forebay.Dataset(url, storage_options={"requester_pays": True})
