"""Tests what tells where a loader's time goes: stats, traces, progress, and warnings."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

import forebay
from forebay import transforms as T
from forebay.loading import monitor

BUSY = {
    "samples": 12000.0, "bytes_read": 1.2e9, "wait_seconds": 20.0, "core_wait_seconds": 19.0,
    "prepare_cpu_seconds": 70.0,
    "starved_seconds": 4.0, "idle_seconds": 0.0, "read_cpu_seconds": 1.0, "reading_seconds": 3.0,
    "http_requests": 0.0,
}  # fmt: skip
FAR = {
    **BUSY, "starved_seconds": 60.0, "http_requests": 4000.0, "wire_bytes_received": 1.24e9,
    "whole_bytes": 1.2e9, "retries": 0.0, "hedges": 7.0, "link_latency_seconds": 0.021,
}  # fmt: skip


def test_the_bottleneck_is_named():
    decoding = monitor.describe(BUSY, 40, threads=2)
    assert decoding and "waited 50% of the last 40 s" in decoding
    assert "decoding is the bottleneck (300 images/s on 2 threads)" in decoding
    reading = monitor.describe({**BUSY, "starved_seconds": 60.0}, 40, threads=2)
    assert reading and "reading is the bottleneck (30 MB/s;" in reading and "75%" in reading
    link = monitor.describe(FAR, 40, threads=2)
    assert link and "the link is the bottleneck (31 MB/s, 100 requests/s, 21 ms to an" in link
    assert ", 7 hedges; decoding threads waited 75%" in link and "forebay pack" in link
    parts = monitor.describe({**FAR, "whole_bytes": 2.4e9}, 40, threads=2)
    assert parts and "Only the parts that crops need are read already" in parts
    python = monitor.describe({**BUSY, "core_wait_seconds": 5.0}, 40, threads=2)
    assert python and "Python is the bottleneck (75% of the wait" in python
    assert monitor.describe({**BUSY, "wait_seconds": 7.0}, 40, threads=2) is None
    assert monitor.describe(BUSY, 200, threads=2) is None  # waits for a tenth of the time


def test_a_loop_that_waits_is_warned_once(packed: Path, monkeypatch: pytest.MonkeyPatch):
    # After this time the loop has waited for decoding far longer than for Python's own part.
    monkeypatch.setattr(monitor, "_LOST_SECONDS_MIN", 0.3)
    monkeypatch.setattr(monitor, "_LOST_SHARE_MIN", 0.0)
    many = forebay.Dataset(packed).subset(list(range(70)) * 100)
    loader = forebay.Loader(many, 35, transform=T.train(224), num_workers=1, prefetch_factor=1)
    with pytest.warns(forebay.BottleneckWarning, match="decoding|reading") as caught:
        for _ in range(3):
            for _ in loader:
                pass
    assert len([one for one in caught if one.category is forebay.BottleneckWarning]) == 1


def test_stats_are_of_all_stages(packed: Path):
    loader = forebay.Loader(packed, 8, True, transform=T.train(32), num_workers=1)
    assert len(list(loader)) == 9
    stats = loader.stats()
    assert stats["samples"] == 70
    assert stats["bytes_read"] >= sum(loader.dataset.column("bytes"))
    assert all(stats[name] > 0 for name in ("whole_bytes", "requests", "ranges"))
    assert all(stats[f"{name}_seconds"] >= 0 for name in ("wait", "starved", "idle", "reading"))
    assert stats["prepare_cpu_seconds"] > 0
    link = ("http_requests", "retries", "hedges", "wire_bytes_received", "wire_bytes_sent")
    assert all(stats[name] == 0 for name in link) and "cost" not in stats
    assert loader.stats(price_per_gb=0.09)["cost"] == 0
    with pytest.raises(ValueError, match="price_per_gb is -1"):
        loader.stats(price_per_gb=-1)


def test_the_wait_for_functions_is_counted(packed: Path):
    def slow(batch: Any) -> Any:
        time.sleep(0.1)
        return batch

    loader = forebay.Loader(packed, 35, batch_transform=slow, fields=["index"])
    list(loader)
    stats = loader.stats()
    assert stats["wait_seconds"] - stats["core_wait_seconds"] >= 0.05


def test_a_trace_is_a_file_of_spans(packed: Path, tmp_path: Path):
    loader = forebay.Loader(packed, 8, True, transform=T.train(32), num_workers=2)
    with loader.trace(tmp_path / "trace.json"):
        for _ in loader:
            pass
    trace = json.loads((tmp_path / "trace.json").read_text())
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert {span["name"] for span in spans} >= {"prepare", "read"}
    batches = {span["args"]["batch"] for span in spans if span["name"] == "prepare"}
    assert batches == set(range(len(loader)))


def test_a_progress_bar_on_request(packed: Path, capsys: pytest.CaptureFixture[str]):
    loader = forebay.Loader(packed, 10, True, transform=T.train(16), progress=True)
    for _ in loader:
        pass
    assert "epoch 0: 100%" in capsys.readouterr().err
    given = iter(loader)
    next(given)
    state = loader.state_dict()
    loader.load_state_dict(state)
    for _ in loader:
        pass
    shown = capsys.readouterr().err
    assert "epoch 1" in shown and "7/7" in shown
