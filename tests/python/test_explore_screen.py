"""What forebay.explore shows on a terminal while a flow runs."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import forebay
from forebay import explore as fx

SCRIPT = """
import sys, time
from forebay import explore as fx

@fx.stage
def talks(x):
    for percent in range(101):
        sys.stderr.write(f"\\r{percent} % of {x}")
    print()
    print("stage", x, "prints")
    time.sleep(0.3)
    sys.stdout.write("no end" if x == 2 else "")
    return x

flow = fx.choose(talks(fx.explore("x", range(3))), by="value", keep=fx.top(1))
fx.run(flow, out=sys.argv[1], workers=1)
print("the script ends")
"""


def screen_of(content: str) -> list[str]:
    """What a terminal without an end at its bottom shows after these bytes."""
    lines, row = [""], 0
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", content):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\x1b[1A":
            row -= 1
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part == "\r":
            pass  # texts below begin at a line's begin, or go on where it is empty
        elif not part.startswith("\x1b"):
            lines[row] += part
    return [line for line in lines if line]


def test_errors_are_shown_once_without_being_asked_for(tmp_path, capfd):
    @fx.stage
    def picky(x):
        raise ValueError(f"no {x % 2}")

    flow = fx.choose(picky(fx.explore("x", range(4))), by="value", keep=fx.top(1))
    study = fx.run(flow, out=tmp_path / "s", workers=1)
    said = capfd.readouterr().err
    assert said.count("explore: picky(x=0) failed: ValueError: no 0\n") == 1
    assert said.count("failed: ValueError") == 2
    with pytest.raises(ValueError, match=r"4 failed \(picky\(x=0\): ValueError: no 0\)"):
        _ = study.best


def test_what_stages_print_stays_on_the_screen_and_the_tree_does_not(tmp_path):
    pytest.importorskip("rich")
    (tmp_path / "script.py").write_text(SCRIPT)
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "script.py", "study"],
        cwd=tmp_path,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(forebay.__file__).absolute().parents[1]),
            "TERM": "xterm",
            "COLUMNS": "200",
            "LINES": "50",
        },
    )
    os.close(terminal)
    content = b""
    try:
        while piece := os.read(main, 65536):
            content += piece
    except OSError:
        pass  # the terminal has no writer any more
    os.close(main)
    assert process.wait() == 0
    text = content.decode()
    assert "choose top(1) by value" in text
    shown = screen_of(text)
    assert not [line for line in shown if "├" in line or "└" in line]
    talk = [[f"100 % of {x}", f"stage {x} prints"] for x in range(3)]
    assert shown[1:-2] == [*talk[0], *talk[1], *talk[2], "no end"]
    assert "explore: 3 stages done" in shown[-2] and shown[-1] == "the script ends"
