"""What a process of a job makes of the job's secret, made anew from the standards.

The key is HKDF-SHA256 (RFC 5869) of the stretched secret; the certificate is DER (X.690, RFC 5280,
RFC 8410) that the key signs. Nothing here comes from the code under test.
"""

import functools
import hashlib
import hmac
import ssl
import subprocess
from base64 import b64encode
from pathlib import Path

from .processes import ENVIRONMENT

CERTIFICATE_PURPOSE = b"forebay cache certificate 2"
DATAGRAM_PURPOSE = b"forebay datagrams 1"
ED25519 = bytes.fromhex("300506032b6570")  # the algorithm's identifier
PRIVATE_KEY = bytes.fromhex("302e020100300506032b657004220420")  # what stands before the key
NAME = b"forebay cache"


@functools.cache
def stretched(secret: bytes) -> bytes:
    """Returns the key that scrypt (RFC 7914) makes of the secret."""
    return hashlib.scrypt(
        secret, salt=b"forebay secret 1", n=1 << 15, r=8, p=1, maxmem=1 << 26, dklen=32
    )


def derived_key(secret: bytes) -> bytes:
    """Returns the 32 bytes that HKDF-SHA256 derives from the stretched secret."""
    extracted = hmac.digest(bytes(32), stretched(secret), hashlib.sha256)
    return hmac.digest(extracted, CERTIFICATE_PURPOSE + b"\x01", hashlib.sha256)


def tag(secret: bytes, datagram: bytes) -> bytes:
    """Returns the tag that stands before a datagram of the job."""
    return hmac.digest(stretched(secret), DATAGRAM_PURPOSE + datagram, hashlib.sha256)


def der(kind: int, *parts: bytes) -> bytes:
    """Returns a value in DER, whose kind is a byte."""
    content = b"".join(parts)
    size = len(content)
    return bytes([kind, *([size] if size < 128 else [0x81, size])]) + content


def signed(key_file: Path, content: bytes) -> bytes:
    """Returns the signature that OpenSSL's command makes of these bytes."""
    document = key_file.with_suffix(".document")
    document.write_bytes(content)
    command: list[str | Path] = [
        "openssl",
        "pkeyutl",
        "-sign",
        "-rawin",
        "-inkey",
        key_file,
        "-in",
        document,
    ]
    return subprocess.run(command, check=True, capture_output=True, env=ENVIRONMENT).stdout


def write_certificate(secret: bytes, folder: Path) -> tuple[Path, Path]:
    """Writes the certificate and the key of a job into files, and returns them."""
    key = PRIVATE_KEY + derived_key(secret)
    key_file, file = folder / "job.key", folder / "job.crt"
    key_file.write_text(
        f"-----BEGIN PRIVATE KEY-----\n{b64encode(key).decode()}\n-----END PRIVATE KEY-----\n"
    )
    command: list[str | Path] = ["openssl", "pkey", "-in", key_file, "-pubout", "-outform", "DER"]
    public = subprocess.run(command, check=True, capture_output=True, env=ENVIRONMENT).stdout
    name = der(0x30, der(0x31, der(0x30, bytes.fromhex("0603550403"), der(0x0C, NAME))))
    life = der(0x30, der(0x17, b"000101000000Z"), der(0x18, b"99991231235959Z"))
    version, number = der(0xA0, der(2, b"\x02")), der(2, b"\x01")
    content = der(0x30, version, number, ED25519, name, life, name, public)
    signature = der(3, b"\x00", signed(key_file, content))
    file.write_text(ssl.DER_cert_to_PEM_cert(der(0x30, content, ED25519, signature)))
    return file, key_file


def server_context(file: Path, key_file: Path) -> ssl.SSLContext:
    """Returns what a server of the job uses, which wants its clients to show the same."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(file, key_file)
    context.load_verify_locations(file)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(file: Path, key_file: Path) -> ssl.SSLContext:
    """Returns what a client of the job uses."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_cert_chain(file, key_file)
    context.load_verify_locations(file)
    return context
