"""`forebay bench` measures real epochs over the user's own images."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import forebay
from conftest import FOREBAY


def bench(path: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(
        [FOREBAY, "bench", str(path), *options], env=environment, capture_output=True, text=True
    )


def test_a_folder_is_measured_in_place_packed_and_by_dataloader(folder: Path):
    options = ("--seconds", "0", "--size", "32", "--threads", "2")
    made = bench(folder, "--json", *options)
    assert made.returncode == 0, made.stderr
    result = json.loads(made.stdout)
    dataset = forebay.Dataset(folder)
    assert (result["images"], result["measured"]) == (len(dataset), len(dataset))
    assert result["bytes_each"] == pytest.approx(dataset.column("bytes").mean())
    for side in ("in_place", "packed", "peer", "read", "pack"):
        assert result[f"{side}_per_second"] > 0
    assert result["peer"].startswith("DataLoader")
    assert {result["in_place_limit"].split()[0], result["packed_limit"].split()[0]} <= {
        "decoding", "reading",
    }  # fmt: skip
    for_people = bench(folder, *options).stdout
    assert "Forebay, in place" in for_people and "Forebay, packed" in for_people


def test_a_packed_dataset_is_measured_as_it_is(packed: Path):
    made = bench(packed, "--json", "--seconds", "0", "--size", "32")
    assert made.returncode == 0, made.stderr
    result = json.loads(made.stdout)
    assert result["packed_per_second"] > 0 and "in_place_per_second" not in result


def test_another_python_on_the_path_is_not_taken(packed: Path, tmp_path: Path):
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho another Python >&2\nexit 7\n")
    other.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)}
    made = bench(packed, "--json", "--seconds", "0", "--size", "32", **variables)
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["peer"].startswith("DataLoader")
    made = bench(packed, FOREBAY_PYTHON=str(other))  # the named Python is used
    assert made.returncode == 7


def test_what_is_not_there_is_told(tmp_path: Path):
    made = bench(tmp_path / "nowhere")
    assert made.returncode == 1
    assert made.stderr.startswith("forebay bench: ") and "nowhere" in made.stderr
    assert "Traceback" not in made.stderr
