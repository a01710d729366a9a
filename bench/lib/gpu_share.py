"""The share of a GPU that decoding takes from a trainer, by what other work loses."""

import itertools
import statistics
import threading
import time
from typing import Any

import torch

from lib.gpu_sides import Forebay, Photo

SECONDS = 2.0
ROUNDS = 5
MATRIX = 4096
TOGETHER = 20  # products between two looks at the clock


class _Decoding:
    """Decodes batches at a rate, in a thread and a stream of its own.

    Args:
        side: Decodes them.
        rate: Crops a second.
    """

    def __init__(self, side: Forebay, rate: float) -> None:
        self.side = side
        self.batch_seconds = len(side.batches[0]) / rate
        self.stream = torch.cuda.Stream(side.device)
        self.ends = threading.Event()
        self.late_seconds = 0.0
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            with torch.cuda.stream(self.stream):
                self._decode()
        except BaseException as error:  # noqa: BLE001 - for the thread that asks
            self.error = error

    def _decode(self) -> None:
        start = time.monotonic()
        last: Any = None
        for number, photos in enumerate(itertools.cycle(self.side.batches), 1):
            begun = self.side.begin(photos)
            if last is not None:
                self.side.wait(last)
            last = begun
            wait = start + number * self.batch_seconds - time.monotonic()
            self.late_seconds = max(self.late_seconds, -wait)
            if self.ends.wait(max(0.0, wait)):
                break
        self.side.wait(last)

    def __enter__(self) -> "_Decoding":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ends.set()
        self.thread.join()
        if self.error is not None:
            raise self.error


def _products_per_second(a: torch.Tensor, b: torch.Tensor) -> float:
    """Matrix products a second. The GPU always has some to do: the clock looks at earlier ones."""
    before: torch.cuda.Event | None = None
    start, products = time.monotonic(), 0
    while time.monotonic() - start < SECONDS:
        for _ in range(TOGETHER):
            torch.mm(a, b)
        event = torch.cuda.current_stream().record_event()
        if before is not None:
            before.synchronize()
        before = event
        products += TOGETHER
    torch.cuda.current_stream().synchronize()
    return products / (time.monotonic() - start)


def share_at(rate: float, photos: list[Photo], device: torch.device, batch: int) -> float:
    """The share of matrix products that is lost beside `rate` crops a second, by the median round.

    Raises:
        RuntimeError: The rate was not reached.
    """
    with torch.cuda.device(device):
        a = torch.randn(MATRIX, MATRIX, device=device, dtype=torch.bfloat16)
        b = torch.randn(MATRIX, MATRIX, device=device, dtype=torch.bfloat16)
        firsts = range(0, len(photos) - batch + 1, batch)
        side = Forebay(device, [photos[first : first + batch] for first in firsts])
        with _Decoding(side, rate):  # the decoder allocates its memory here
            _products_per_second(a, b)
        lost = []
        for _ in range(ROUNDS):
            alone = _products_per_second(a, b)
            with _Decoding(side, rate) as decoding:
                beside = _products_per_second(a, b)
            if decoding.late_seconds > SECONDS / 4:
                raise RuntimeError(f"{rate} crops a second were not reached beside the products")
            lost.append(1 - beside / alone)
    return statistics.median(lost)
