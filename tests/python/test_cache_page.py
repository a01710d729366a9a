"""The page of `forebay cache --serve` in a real browser: a desktop's, and a phone's."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import forebay
from conftest import write_secret
from places import epoch, on_web
from servers.browser import Browser
from servers.daemon import Daemon
from servers.nginx import Nginx
from servers.processes import free_port

DESKTOP, PHONE = (1280, 800), (360, 740)
HOSTILE = "<img src=x onerror=document.title='hacked'>"
SECRET = "a secret of the tests, long enough"


@contextmanager
def daemon_of(datasets: list[str], folder: Path, *options: str) -> Iterator[Daemon]:
    """Runs a daemon while the context lasts."""
    daemon = Daemon(datasets, folder, *options)
    try:
        yield daemon
    finally:
        daemon.kill()


def read_through(url: str, folder: Path) -> None:
    """Reads an epoch like a job that uses the machine's daemon."""
    cache = forebay.Cache(folder, disk_bytes="1GB")
    epoch(url, cache=cache, regions="never")
    assert not cache.stats()["serves"]


def cell(row: str, column: int) -> str:
    """Returns a selector of a cell of the first machine's tables."""
    return f"main article:first-child tr:has(th.{row}) td:nth-of-type({column})"


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_is_readable_and_asks_nobody_else(
    browser: Browser, nginx: Nginx, photos: Path, tmp_path: Path, size: tuple[int, int], dark: bool
) -> None:
    url = f"{nginx.url}/{on_web(nginx, photos)}"
    with daemon_of([url], tmp_path, "--disk-bytes", "1GB", "--memory-bytes", "1MB") as daemon:
        read_through(url, tmp_path)
        browser.show(daemon.page(), *size, dark=dark)
        browser.wait_for(lambda page: page.text("#state") == "live")
        browser.wait_for(lambda page: "MB" in page.text(cell("disk", 1)))
        assert browser.overflow() <= 0
        assert browser.smallest_text()[0] >= 12
        assert url in browser.text("main article .quiet:last-of-type")
        # Each table has a name, and each row.
        assert browser.run("return [...document.querySelectorAll('table')].every(t => t.caption)")
        assert browser.run(
            "return [...document.querySelectorAll('tbody tr:not([aria-hidden])')]"
            ".every(r => r.querySelector('th[scope=row]'))"
        )
        asked = browser.run("return performance.getEntriesByType('resource').map(e => e.name)")
        assert set(asked) == {daemon.page("status.json")}
        assert browser.complaints() == []
        light = browser.run("return getComputedStyle(document.body).backgroundColor")
        assert (sum(int(part) for part in light[4:-1].split(",")) < 382) == dark


def test_figures_change_while_one_looks_and_an_end_is_said(
    browser: Browser, nginx: Nginx, photos: Path, tmp_path: Path
) -> None:
    url = f"{nginx.url}/{on_web(nginx, photos)}"
    place = f"127.0.0.1:{free_port()}"
    options = ("--disk-bytes", "1GB", "--status", place)
    with daemon_of([url], tmp_path, *options) as daemon:
        browser.show(daemon.page(), *PHONE)
        browser.wait_for(lambda page: page.text(cell("origin", 1)) == "0 B")
        assert browser.text("#rate") == "–"
        read_through(url, tmp_path)
        browser.wait_for(lambda page: "MB" in page.text(cell("origin", 1)))
        read_through(url, tmp_path)
        browser.wait_for(
            lambda page: (
                "MB"
                in page.text("main article:first-child table:nth-of-type(2) tr:has(th.disk) td")
            )
        )
        browser.wait_for(lambda page: page.text("#rate") not in ("–", "0.0 %"))
        points = "return document.querySelector('polyline').points.length"
        browser.wait_for(lambda page: page.run(points) > 3)
    browser.wait_for(lambda page: page.text("#state").startswith("Not reachable since "))
    assert browser.run("return document.body.classList.contains('stale')")
    # What was seen last stays, and a new daemon at the same place is live again.
    assert "MB" in browser.text(cell("origin", 1))
    with daemon_of([url], tmp_path, *options):
        browser.wait_for(lambda page: page.text("#state") == "live")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_names_and_messages_are_only_ever_text(
    browser: Browser, photos: Path, tmp_path: Path
) -> None:
    dataset = tmp_path / HOSTILE / "set"
    shutil.copytree(photos, dataset)
    folder = tmp_path / f"{HOSTILE}-folder"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=True)
    try:
        with daemon_of([str(dataset)], folder, "--disk-bytes", "1GB") as daemon:
            read_through(str(dataset), folder)
            browser.show(daemon.page(), *PHONE)
            browser.wait_for(lambda page: "No space left" in page.text("main"))
            text = browser.text("main")
            assert text.count(HOSTILE) >= 2  # the dataset, the folder
            assert browser.run("return document.querySelectorAll('main img').length") == 0
            assert browser.run("return document.title") == "Forebay cache"
            assert browser.overflow() <= 0
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_page_of_another_site_gets_nothing(
    browser: Browser, nginx: Nginx, photos: Path, tmp_path: Path
) -> None:
    """Chromium takes every name below localhost for this machine, as after DNS rebinding."""
    url = f"{nginx.url}/{on_web(nginx, photos)}"
    with daemon_of([url], tmp_path, "--memory-bytes", "5MB") as daemon:
        browser.show(daemon.page("status.json").replace("127.0.0.1", "evil.localhost"), *PHONE)
        assert "this server is addressed by its IP address" in browser.text("body")
        browser.show(daemon.page("status.json").replace("127.0.0.1", "localhost"), *PHONE)
        assert '"machines"' in browser.text("body")
        browser.show(daemon.url, *PHONE)
        assert "open the address that the server printed" in browser.text("body")


def test_every_machine_is_shown_and_one_that_dies_is_said_so(
    browser: Browser, nginx: Nginx, photos: Path, tmp_path: Path
) -> None:
    url = f"{nginx.url}/{on_web(nginx, photos)}"
    places = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    secret = write_secret(tmp_path / "secret", SECRET)

    def options(number: int) -> tuple[str, ...]:
        return ("--memory-bytes", "5MB", "--members", ",".join(places),
                "--address", places[number], "--secret-file", str(secret))  # fmt: skip

    with daemon_of([url], tmp_path / "0", *options(0)) as first:
        with daemon_of([url], tmp_path / "1", *options(1)):
            first.sees(2)
            browser.show(first.page(), *DESKTOP)
            browser.wait_for(lambda page: page.text("#count") == "2")
            browser.wait_for(lambda page: str(tmp_path / "1") in page.text("main"))
        browser.wait_for(lambda page: "Gone since " in page.text("article.gone"))
        assert places[1] in browser.text("article.gone")
        assert browser.text("#state") == "live"
        assert browser.text("#count") == "1"
