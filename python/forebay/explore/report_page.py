"""The page about a study: one file, report.html, without anything from elsewhere."""

import html
import json
from collections import Counter
from pathlib import Path
from typing import Any

from forebay.explore.driver import Driver
from forebay.explore.plan import Plan

_TEMPLATE = Path(__file__).with_name("report_page.html")


def write_report(folder: Path, plan: Plan, driver: Driver, summary: dict[str, Any]) -> None:
    """Writes report.html into the study's folder."""
    readers: Counter[int] = Counter()
    for choice in plan.choices:
        for member in choice.members.values():
            readers.update(_chain(plan, member.result) | _chain(plan, member.judge))
    choices = []
    for choice in plan.choices:
        rows = []
        for _, member in sorted(choice.members.items()):
            chain = _chain(plan, member.result) | _chain(plan, member.judge)
            own = sorted({plan.tasks[task].stage.name for task in chain if readers[task] == 1})
            shared = sorted({plan.tasks[task].stage.name for task in chain if readers[task] > 1})
            rows.append(
                {
                    "config": {name: _text(value) for name, value in member.config.items()},
                    "state": member.state,
                    "score": member.score,
                    "why": member.why,
                    "shared": shared,
                    "own": own,
                }
            )
        by = choice.choose.by
        choices.append(
            {
                "selector": str(choice.choose.selector),
                "by": by if isinstance(by, str) else by.stage.name,
                "outer": {name: _text(value) for name, value in choice.outer.items()},
                "rows": rows,
            }
        )
    failures = [
        {"stage": plan.tasks[task].stage.name, "error": error, "traceback": traceback}
        for task, (error, traceback) in driver.judging.failures.items()
    ]
    data = {"summary": summary, "choices": choices, "failures": failures}
    # "</" must not end the script element that holds the data.
    text = json.dumps(data).replace("</", "<\\/")
    page = _TEMPLATE.read_text(encoding="utf-8")
    page = page.replace("{{title}}", html.escape(folder.name)).replace("{{data}}", text)
    (folder / "report.html").write_text(page, encoding="utf-8")


def _chain(plan: Plan, task: int) -> set[int]:
    """The task and all before it."""
    seen: set[int] = set()
    open_tasks = [task]
    while open_tasks:
        one = open_tasks.pop()
        if one not in seen:
            seen.add(one)
            open_tasks.extend(plan.tasks[one].inputs)
    return seen


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
