"""Writes the corpus of the safetensors fuzzer: small files that reach each part of the decoder."""

import struct
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "corpus" / "safetensors"
FILES = {
    "empty": ("{}", 0),
    "metadata": ('{"__metadata__":{"format":"pt"}}', 0),
    "tensor": ('{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8),
    "two_tensors": (
        '{"__metadata__":{"k":"v"},"b":{"dtype":"I64","shape":[],"data_offsets":[0,8]},'
        '"a":{"dtype":"BF16","shape":[2,1],"data_offsets":[8,12]}}',
        12,
    ),
    "no_elements": ('{"a":{"dtype":"U8","shape":[0,3],"data_offsets":[0,0]}}', 0),
    "gap": ('{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', 2),
    "nested": ('{"a":[[[[[[[[]]]]]]]]}', 0),
    "cut_off": ('{"a":{"dtype":"F32"', 0),
}


def main() -> None:
    """Replaces the corpus."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (header, data_bytes) in FILES.items():
        text = header.encode()
        (FOLDER / name).write_bytes(struct.pack("<Q", len(text)) + text + bytes(range(data_bytes)))


if __name__ == "__main__":
    main()
