"""WebDataset reads what Forebay packs."""

from pathlib import Path

import numpy as np
import webdataset

import forebay
from conftest import pack


def test_webdataset_reads_the_chunks(images: dict[str, bytes], tmp_path: Path):
    path = pack(images, tmp_path, "--tar-fields", "--chunk-bytes", "100000")
    chunks = sorted(str(chunk) for chunk in (path / "chunks").glob("*.tar"))
    assert len(chunks) > 1
    samples = list(webdataset.WebDataset(chunks, shardshuffle=False).decode("rgb8"))
    assert sorted(sample["__key__"] for sample in samples) == sorted(forebay.Dataset(path).keys())
    for sample in samples:
        assert sample["cls"] == int(sample["__key__"][5])
        assert np.array_equal(sample["jpg"], forebay.decode(images[sample["__key__"] + ".jpg"]))
