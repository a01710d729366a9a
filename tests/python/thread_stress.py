"""Calls the whole package from several threads at once, on objects that they all share.

`python thread_stress.py WORK SECONDS` runs without PyTorch, so that it can also test a module that
is built with a sanitizer. It makes the data in the folder WORK if they are not there.
"""

import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

THREADS = 6


def in_threads(work: Callable[[int], None], seconds: float, threads: int = THREADS) -> None:
    """Runs `work` in threads and raises what one of them raised, or an error if one does not end.

    Args:
        work: Gets the thread's number.
        seconds: How long `work` takes; a thread that needs two minutes more counts as hung.
        threads: The number of threads.
    """
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failed.append(error)

    running = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(seconds + 120)
        assert not thread.is_alive(), "a thread hangs"
    if failed:
        raise failed[0]


class Everything:
    """Holds a loader of each kind, datasets and decoders, and makes random calls of them."""

    def __init__(self, packed: Path, folder: Path) -> None:
        import numpy as np

        import forebay
        from forebay import transforms as T

        self.decode = forebay.decode
        self.dataset = forebay.Dataset(packed)
        self.in_place = forebay.Dataset(folder)
        self.files = [self.dataset.read(number) for number in range(4)]
        count = len(self.dataset)
        train, whole = T.train(32), T.evaluate(24, 24)
        self.loaders = [
            forebay.Loader(packed, 8, True, transform=train, num_workers=2),
            forebay.Loader(folder, 8, transform=[*whole, lambda image: -image], num_workers=1),
            forebay.Loader(self.dataset, 8, sampler=range(count - 5), fields=["index", "file"]),
            forebay.Loader(self.dataset.weighted(np.arange(count)), 8, True, fields=["key"]),
        ]
        self.states = [loader.state_dict() for loader in self.loaders]

    def call(self, rng: random.Random, trace: Path) -> None:
        """Makes one random call.

        Args:
            rng: Chooses the call.
            trace: A file that only this thread uses.
        """
        number = rng.randrange(len(self.loaders))
        loader = self.loaders[number]
        sample = rng.randrange(len(self.dataset))
        calls: list[Callable[[], Any]] = [
            lambda: list(loader),
            lambda: next(iter(loader), None),
            lambda: [next(batches, None) for batches in [iter(loader)] for _ in range(4)],
            lambda: len(loader),
            lambda: loader.stats(),
            lambda: loader.bad_samples,
            lambda: loader.epoch,
            lambda: loader.set_epoch(rng.randrange(4)),
            lambda: self.states.__setitem__(number, loader.state_dict()),
            lambda: loader.load_state_dict(self.states[number]),
            lambda: loader.close(),
            lambda: self._traced(loader, trace),
            lambda: self.dataset[sample],
            lambda: self.dataset.column("width").sum(),
            lambda: self.in_place.find(self.in_place.key(sample)),
            lambda: self.dataset.split(0.5, 0.5),
            lambda: self.decode(self.files, threads=2),
        ]
        rng.choice(calls)()

    def run(self, seconds: float, traces: Path) -> None:
        """Makes calls from all threads; afterwards every loader must give a whole epoch.

        Args:
            seconds: How long the threads make calls.
            traces: A folder for the threads' trace files.
        """
        end = time.monotonic() + seconds

        def work(number: int) -> None:
            rng = random.Random(number)
            while time.monotonic() < end:
                try:
                    self.call(rng, traces / f"{number}.json")
                except RuntimeError as error:
                    assert "ended by a newer iter()" in str(error), error

        in_threads(work, seconds)
        for loader in self.loaders:
            loader.close()
            loader.set_epoch(2**20)  # no call went to this epoch, so it begins at its start
            assert len(list(loader)) == len(loader)
            loader.close()

    @staticmethod
    def _traced(loader: Any, path: Path) -> None:
        with loader.trace(path):
            next(iter(loader), None)


def main() -> None:
    """Makes the data where they are missing and runs the calls."""
    work, seconds = Path(sys.argv[1]), float(sys.argv[2])
    if not (work / "set").exists():
        from conftest import CLASSES, make_jpeg, pack

        pack({f"class{i % CLASSES}/{i:03}.jpg": make_jpeg(i) for i in range(70)}, work)
    sys.modules["torch"] = None  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as traces:
        Everything(work / "set", work / "images").run(seconds, Path(traces))
    print(f"{THREADS} threads, {seconds} s: passed")


if __name__ == "__main__":
    main()
