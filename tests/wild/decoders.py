"""Decodes a file with Pillow, Forebay and the system's libjpeg-turbo, in a process of its own.

Worker watches that process, so that a crash, a hang or an excessive use of memory is an outcome
like any other. compare.py and test_wild.py use it.
"""

import ctypes
import functools
import io
import multiprocessing
import resource
import subprocess
import tempfile
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import forebay

SECONDS_MAX = 60  # the limit for one file and decoder
MEMORY_BYTES_MAX = 6 << 30  # the address space of the whole process
STEPS = ("pillow", "forebay", "damaged", "libjpeg")  # "damaged": Forebay's damaged="decode"
JPEG_STEPS = ("damaged", "libjpeg")

Pixels = NDArray[np.uint8]
Outcome = dict[str, Any]  # "size" ([width, height]) or "error"; libjpeg's also "warnings"


class RefusedError(Exception):
    """A decoder does not take a file; the message is the decoder's own."""


@functools.cache
def build_libjpeg() -> Path:
    """Builds libjpeg_pixels.cc into a library with the headers of the system's libjpeg-turbo."""
    folder = Path(tempfile.mkdtemp(prefix="forebay-wild-"))
    library = folder / "libjpeg_pixels.so"
    source = Path(__file__).with_name("libjpeg_pixels.cc")
    command = ["c++", "-O2", "-shared", "-fPIC", str(source), "-ljpeg", "-o", str(library)]
    subprocess.run(command, check=True)
    return library


@functools.cache
def open_libjpeg(library: Path) -> ctypes.CDLL:
    """Loads the functions of libjpeg_pixels.cc."""
    functions = ctypes.CDLL(str(library))
    functions.libjpeg_version.restype = ctypes.c_char_p
    return functions


def kind_of(content: bytes) -> str:
    """Returns the format that a file's first bytes claim."""
    if content.startswith(b"\xff\xd8"):
        return "JPEG"
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    return "WebP" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else "other"


def decode_with_pillow(content: bytes) -> Pixels:
    """Decodes a file like torchvision's ImageFolder does, with Pillow's default settings."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            return np.asarray(image.convert("RGB"))
    except Exception as error:  # Pillow raises many kinds, also SyntaxError and struct.error
        raise RefusedError(f"{type(error).__name__}: {error}") from None


def decode_with_forebay(content: bytes, damaged: str = "refuse") -> Pixels:
    """Decodes a file with forebay.decode() into RGB pixels."""
    try:
        return forebay.decode(content, damaged=damaged)
    except forebay.DataError as error:
        raise RefusedError(str(error)) from None


def decode_with_libjpeg(content: bytes, library: Path) -> tuple[Pixels, list[str]]:
    """Decodes a JPEG into RGB pixels, and returns each different warning besides.

    CMYK becomes RGB in the way that Pillow converts it, since libjpeg does not convert it.
    """
    functions = open_libjpeg(library)
    pixels = ctypes.POINTER(ctypes.c_uint8)()
    numbers = [ctypes.c_int() for _ in range(3)]
    buffer = ctypes.create_string_buffer(4096)
    taken = functions.libjpeg_decode(
        content,
        ctypes.c_size_t(len(content)),
        ctypes.byref(pixels),
        *map(ctypes.byref, numbers),
        buffer,
    )
    text = buffer.value.decode(errors="replace")
    if not taken:
        raise RefusedError(text)
    width, height, components = (number.value for number in numbers)
    made = np.ctypeslib.as_array(pixels, (height, width, components)).copy()
    functions.libjpeg_release(pixels)
    return to_rgb(made), text.splitlines()


def to_rgb(pixels: Pixels) -> Pixels:
    """Converts grey, RGB or CMYK to RGB, with CMYK inverted like Adobe's programs store it."""
    if pixels.shape[2] == 1:
        return np.repeat(pixels, 3, axis=2)
    if pixels.shape[2] == 4:
        image = Image.fromarray(255 - pixels, "CMYK")
        return np.asarray(image.convert("RGB"))
    return pixels


def difference(one: Pixels, other: Pixels) -> dict[str, float] | None:
    """Returns None for equal pixels, else the largest and mean difference (-1 if sizes differ)."""
    if one.shape != other.shape:
        return {"max": -1, "mean": -1}
    if np.array_equal(one, other):
        return None
    apart = np.abs(one.astype(np.int16) - other)
    return {"max": int(apart.max()), "mean": round(float(apart.mean()), 4)}


def run_step(step: str, content: bytes, library: Path) -> tuple[Outcome, Pixels | None]:
    """Returns one decoder's outcome and pixels."""
    extra: Outcome = {}
    try:
        if step == "pillow":
            pixels = decode_with_pillow(content)
        elif step == "forebay":
            pixels = decode_with_forebay(content)
        elif step == "damaged":
            pixels = decode_with_forebay(content, "decode")
        else:
            pixels, told = decode_with_libjpeg(content, library)
            extra = {"warnings": told}
    except RefusedError as error:
        return {"error": str(error)}, None
    except MemoryError:
        return {"error": "MemoryError"}, None
    return {"size": [pixels.shape[1], pixels.shape[0]], **extra}, pixels


def work(connection: Connection, library: Path) -> None:
    """Answers each path with the outcome of every step, and then with the differences."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    while (path := connection.recv()) is not None:
        content = Path(path).read_bytes()
        made: dict[str, Pixels | None] = {}
        for step in STEPS:
            if step in JPEG_STEPS and kind_of(content) != "JPEG":
                connection.send(None)
                continue
            outcome, made[step] = run_step(step, content, library)
            connection.send(outcome)
        connection.send(differences(made))


def differences(made: dict[str, Pixels | None]) -> dict[str, dict[str, float] | None]:
    """Returns the differences between each two decoders that took the file, by "ONE-OTHER"."""
    pairs = (
        ("forebay", "pillow"),
        ("forebay", "libjpeg"),
        ("pillow", "libjpeg"),
        ("damaged", "libjpeg"),
    )
    taken = {name: pixels for name, pixels in made.items() if pixels is not None}
    return {
        f"{one}-{other}": difference(taken[one], taken[other])
        for one, other in pairs
        if one in taken and other in taken
    }


class Worker:
    """A process that decodes files and is started again after a crash or a hang.

    Only one thread may use it.
    """

    def __init__(self) -> None:
        """Starts no process before the first file."""
        self._library = build_libjpeg()
        self._context = multiprocessing.get_context("spawn")
        self._process: Any = None
        self._connection: Any = None

    def libjpeg_version(self) -> str:
        """Returns the version of the system's libjpeg-turbo."""
        return open_libjpeg(self._library).libjpeg_version().decode()

    def decode(self, path: Path) -> dict[str, Any]:
        """Returns each step's outcome by its name, and "differences".

        After a crash or a hang, the steps that did not run and the differences are missing.
        """
        if self._process is None:
            self._start()
        self._connection.send(str(path))
        answers: dict[str, Any] = {}
        for step in (*STEPS, "differences"):
            answers[step], goes_on = self._answer()
            if not goes_on:
                break
        return answers

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def _start(self) -> None:
        self._connection, other = self._context.Pipe()
        self._process = self._context.Process(target=work, args=(other, self._library), daemon=True)
        self._process.start()
        other.close()

    def _answer(self) -> tuple[Any, bool]:
        try:
            if self._connection.poll(SECONDS_MAX):
                return self._connection.recv(), True
            problem = f"hangs: more than {SECONDS_MAX} s"
        except (EOFError, ConnectionError):
            self._process.join()
            problem = f"crashes: exit code {self._process.exitcode}"
        self.close()
        return {"error": problem}, False
