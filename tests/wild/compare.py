"""Compares Forebay with Pillow over a folder of public image files.

    python tests/wild/compare.py FOLDER [--markdown] [--records FILE]

gather.py makes FOLDER. The program prints tables by format, repository and reason and, without
--markdown, also each file for which the two differ. The last line is one JSON object. --records
writes one JSON object for each file to a file.
"""

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from PIL import features

from decoders import Worker, kind_of

OURS = ("forebay", "damaged")  # the steps that Forebay takes part in
CATEGORIES = ("equal", "differs", "pillow only", "forebay only", "neither")
HEADINGS = {
    "equal": "both, same pixels",
    "differs": "both, other pixels",
    "pillow only": "Pillow only",
    "forebay only": "Forebay only",
    "neither": "neither",
}
Record = dict[str, Any]


def files_of(folder: Path) -> list[Path]:
    """Returns all files of the repositories in a folder, sorted."""
    return sorted(path for path in folder.glob("*/**/*") if path.is_file())


def compare(folder: Path, worker: Worker) -> Iterator[Record]:
    """Yields a record for each file: its path, format, outcomes and category."""
    for path in files_of(folder):
        with path.open("rb") as file:
            kind = kind_of(file.read(16))
        record = {"path": str(path.relative_to(folder)), "format": kind, **worker.decode(path)}
        record["category"] = category_of(record)
        yield record


def category_of(record: Record) -> str:
    """Returns the category of a file, which is one of CATEGORIES."""
    pillow, ours = ("size" in record.get(name, {}) for name in ("pillow", "forebay"))
    if pillow and ours:
        return "differs" if record["differences"]["forebay-pillow"] else "equal"
    if pillow:
        return "pillow only"
    return "forebay only" if ours else "neither"


def reason_of(record: Record) -> str:
    """Returns why a file is in its category, without details that differ from file to file."""
    if record["category"] == "differs":
        return blame(record)
    other = "pillow" if record["category"] == "forebay only" else "forebay"
    text = record.get(other, {"error": f"{other} was not reached"})["error"]
    text = re.sub(r"^decode: image \d+: ", "", text)
    text = re.sub(r"0x[0-9a-fA-F]+|b?'[^']*'|<[^>]*>", "…", text)
    return re.sub(r"-?\d[\d,.]*", "N", text)


def blame(record: Record) -> str:
    """Returns which decoder's pixels differ from those of the system's libjpeg-turbo."""
    if record.get("libjpeg") is None:
        return f"{record['format']}: not determined"
    if "error" in record["libjpeg"]:
        return f"JPEG: the system's libjpeg-turbo refuses it ({record['libjpeg']['error']})"
    apart = record["differences"]
    who = [name for name in ("forebay", "pillow") if apart[f"{name}-libjpeg"]]
    return f"JPEG: not the system's libjpeg-turbo's pixels: {' and '.join(who)}"


def count_table(title: str, rows: dict[str, Counter[str]]) -> list[str]:
    """Makes a Markdown table of counts, whose last row holds the sums."""
    total: Counter[str] = Counter()
    lines = [f"| {title} | files | " + " | ".join(HEADINGS.values()) + " |"]
    lines.append("| --- |" + " ---: |" * (1 + len(CATEGORIES)))
    for name, counts in rows.items():
        total += counts
        lines.append(count_row(name, counts))
    return [*lines, count_row("all", total), ""]


def count_row(name: str, counts: Counter[str]) -> str:
    """Makes one row of count_table()."""
    numbers = [counts.total(), *(counts[category] for category in CATEGORIES)]
    return f"| {name} | " + " | ".join(f"{number:,}" for number in numbers) + " |"


def reasons_of(records: Iterable[Record], category: str) -> dict[tuple[str, str], list[Record]]:
    """Groups the records of a category by format and reason, the most frequent first."""
    found: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        if record["category"] == category:
            found[record["format"], reason_of(record)].append(record)
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def reason_table(records: list[Record], category: str) -> list[str]:
    """Makes a Markdown table of the reasons why files are in a category."""
    reasons = reasons_of(records, category)
    if not reasons:
        return []
    whose = {"pillow only": "Forebay's message", "forebay only": "Pillow's message"}
    lines = [f"{HEADINGS[category][0].upper()}{HEADINGS[category][1:]}:", ""]
    heading = f"| format | {whose.get(category, 'what differs')} | files |"
    rule = "| --- | --- | ---: |"
    if category == "pillow only":
        heading, rule = f'{heading} taken with `damaged="decode"` |', f"{rule} ---: |"
    lines += [heading, rule]
    for (kind, reason), some in reasons.items():
        lines.append(f"| {kind} | {reason.replace('|', chr(92) + '|')} | {len(some):,} |")
        if category == "pillow only":
            lines[-1] += f" {sum(takes_damaged(record) for record in some):,} |"
    return [*lines, ""]


def takes_damaged(record: Record) -> bool:
    """Returns whether Forebay decodes a JPEG with damaged="decode"."""
    return "size" in (record.get("damaged") or {})


def tables(records: list[Record]) -> list[str]:
    """Returns all tables as lines of Markdown."""
    by_format: dict[str, Counter[str]] = {kind: Counter() for kind in ("JPEG", "PNG", "WebP")}
    by_repository: dict[str, Counter[str]] = {}
    for record in records:
        by_format.setdefault(record["format"], Counter())[record["category"]] += 1
        repository = record["path"].split("/")[0].replace("+", "/", 1)
        by_repository.setdefault(repository, Counter())[record["category"]] += 1
    lines = count_table("first bytes", by_format) + count_table("repository", by_repository)
    for category in ("pillow only", "forebay only", "differs"):
        lines += reason_table(records, category)
    return lines


def listing(records: list[Record]) -> list[str]:
    """Lists the files that only one decoder takes or whose pixels differ, by kind and reason."""
    lines = []
    for category in ("pillow only", "differs", "forebay only"):
        for (kind, reason), some in reasons_of(records, category).items():
            lines += [f"## {HEADINGS[category]}: {kind}: {reason} ({len(some)})", ""]
            lines += [f"- {record['path']}{detail(record)}" for record in some] + [""]
    return lines


def detail(record: Record) -> str:
    """Returns the messages and differences of one file."""
    parts = []
    for name in ("forebay", "pillow"):
        if "error" in record.get(name, {}):
            parts.append(f"{name}: {record[name]['error']}")
    if (libjpeg := record.get("libjpeg")) is not None:
        told = libjpeg.get("error") or ", ".join(libjpeg["warnings"])
        parts.append(f"libjpeg-turbo: {told}" if told else "libjpeg-turbo takes it")
    apart = record.get("differences", {}).get("forebay-pillow")
    if apart:
        parts.append(f"differs by at most {apart['max']}, {apart['mean']} on average")
    return "".join(f"; {part}" for part in parts)


def breaks(record: Record) -> bool:
    """Returns whether Forebay crashed or hung."""
    ends = [(record.get(name) or {}).get("error", "") for name in OURS]
    return any(end.startswith(("crashes", "hangs")) for end in ends)


def damaged_of(records: Iterable[Record]) -> list[Record]:
    """Returns the JPEGs that only damaged="decode" and the system's libjpeg-turbo take."""
    return [
        record
        for record in records
        if "error" in record.get("forebay", {})
        and "damaged-libjpeg" in record.get("differences", {})
    ]


def summary(records: list[Record], worker: Worker) -> Record:
    """Returns the figures of the last line."""
    counts = Counter(record["category"] for record in records)
    jpegs = [record for record in records if "forebay-libjpeg" in record.get("differences", {})]
    damaged = damaged_of(records)
    return {
        "files": len(records),
        **{category.replace(" ", "_"): counts[category] for category in CATEGORIES},
        "forebay_crashes_or_hangs": sum(map(breaks, records)),
        "jpegs_compared_with_libjpeg": len(jpegs),
        "jpegs_unlike_libjpeg": sum(bool(r["differences"]["forebay-libjpeg"]) for r in jpegs),
        "damaged_jpegs_compared_with_libjpeg": len(damaged),
        "damaged_jpegs_unlike_libjpeg": sum(
            bool(record["differences"]["damaged-libjpeg"]) for record in damaged
        ),
        "pillow": version("pillow"),
        "pillow_libjpeg_turbo": features.version("libjpeg_turbo"),
        "libjpeg_turbo": worker.libjpeg_version(),
    }


def main() -> int:
    """Runs the comparison and returns 0, or 1 when Forebay crashed or hung."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--markdown", action="store_true", help="only the tables")
    parser.add_argument("--records", type=Path, help="write one JSON object a file here")
    options = parser.parse_args()
    worker = Worker()
    records = []
    for record in compare(options.folder, worker):
        records.append(record)
        if len(records) % 500 == 0:
            print(f"compare: {len(records)} files", file=sys.stderr)
    if options.records:
        options.records.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    print("\n".join(tables(records) + ([] if options.markdown else listing(records))))
    result = summary(records, worker)
    worker.close()
    print(json.dumps(result))
    return 1 if result["forebay_crashes_or_hangs"] else 0


if __name__ == "__main__":
    sys.exit(main())
