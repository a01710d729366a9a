"""What a program may do with a dataset on a server before its first batch."""

import pickle
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import pytest

import forebay
from places import CROP, Place, through
from servers.chaos import ChaosProxy, Fault
from servers.nginx import Nginx


@pytest.fixture
def place(nginx: Nginx, photos: Path) -> Place:
    """Returns the photographs on the web server."""
    if not (nginx.folder / "photos").exists():
        (nginx.folder / "photos").symlink_to(photos)
    return Place(f"{nginx.url}/photos", None, nginx.url)


class AlarmError(Exception):
    pass


def test_a_signal_ends_the_wait_for_a_server_that_stands_still(
    place: Place, chaos: Callable[..., ChaosProxy]
) -> None:
    def ring(*_: object) -> None:
        raise AlarmError

    proxy = chaos(place.server)
    far = through(place, proxy)
    # A list needs to know where its samples lie before anything is read.
    dataset = forebay.Dataset(far.url, far.options, index_cache="off")
    loader = forebay.Loader(dataset, 4, sampler=[5, 3, 40, 7, 11, 2, 1, 0], transform=CROP)
    proxy.program(Fault(action="stall", times=-1))
    old = signal.signal(signal.SIGALRM, ring)
    begin = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(AlarmError):
            next(iter(loader))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert time.monotonic() - begin < 10  # a server is given up after some minutes
    proxy.program()
    assert len(list(loader)) == 2
    loader.close()


def test_a_pickle_holds_in_another_folder(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    options = MappingProxyType({"read_timeout": 20})
    pickled = pickle.dumps(forebay.Dataset(place.url, options, index_cache="kept"))
    monkeypatch.chdir(tmp_path / "there")
    copy = pickle.loads(pickled)
    assert copy.read(7) == forebay.Dataset(place.url, index_cache="off").read(7)
    assert (tmp_path / "here" / "kept").exists()
    assert not (tmp_path / "there" / "kept").exists()
