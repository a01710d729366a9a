"""Draws the plot of bench/sync.py, an SVG: each strategy's accuracy over time, by link rate."""

from pathlib import Path
from typing import Any

from lib.sync_trials import SIDES, Trials
from lib.sync_work import TASKS

COLOURS = {
    "ako": "#1f6f5c", "auto": "#c2571a", "ps": "#3c5a99", "streaming": "#8a6fb0",
    "allreduce": "#777777", "pairs": "#b59a3b",
}  # fmt: skip
TEXT = "#333333"


def plot(trials: Trials, path: Path) -> None:
    """Writes the plot of each strategy's best trials so far to `path`."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot
    from matplotlib.lines import Line2D

    matplotlib.rcParams |= {"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10}
    known = trials.known()
    tasks = [task for task in TASKS if any(task == own for own, _ in known)]
    rates = sorted({mbit for _, mbit in known})
    figure, grid = pyplot.subplots(
        len(tasks), len(rates), squeeze=False, layout="constrained",
        figsize=(3.2 * len(rates), 2.6 * len(tasks)),
    )  # fmt: skip
    for axes_of_task, task in zip(grid, tasks, strict=True):
        for axes, mbit in zip(axes_of_task, rates, strict=True):
            _draw(axes, trials, task, mbit)
    lines = {
        line.get_label(): line for line in figure.findobj(Line2D) if line.get_label() in COLOURS
    }
    figure.legend(
        handles=lines.values(), loc="outside upper right", ncols=len(lines), frameon=False,
        fontsize=8, labelcolor=TEXT,
    )  # fmt: skip
    figure.savefig(path)


def _draw(axes: Any, trials: Trials, task: str, mbit: int) -> None:
    for side in SIDES:
        if side not in COLOURS or (record := trials.known_best(task, mbit, side)) is None:
            continue
        seconds = [0.0] + [point[0] for point in record.points]
        accuracy = [0.1] + [point[2] for point in record.points]
        axes.plot(seconds, accuracy, color=COLOURS[side], label=side, linewidth=1.3)
    if not axes.lines:
        axes.set_axis_off()
        return
    axes.axhline(TASKS[task].accuracy, color=TEXT, linewidth=0.5, linestyle=":")
    axes.set_title(f"{task}, {mbit} Mbit/s", loc="left", color=TEXT, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=TEXT)
    axes.set_xlabel("seconds", color=TEXT)
