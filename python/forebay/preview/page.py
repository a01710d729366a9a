"""The page of `forebay show`: one file of HTML without scripts, which loads nothing.

Texts come from data and from users, so each is escaped here. A picture is an SVG around a PNG; its
boxes and keypoints have the coordinates of the Loader's batches.
"""

import base64
import html
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.preview.pixels import colour_of, png_of_map, png_of_objects, png_of_picture, step_of

# How many classes the legend names.
_LEGEND_MAX = 60
# Smaller pictures are enlarged; each pixel then becomes a square.
_SMALL_SIDE = 100

_STYLE = """
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --text: #1b1f24;
  --quiet: #57606a; --line: #d5dae0; --bad: #b42318; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171b; --card: #1d2127; --text: #e8ebef; --quiet: #a3adb8; --line: #363d46;
    --bad: #ff8a7d; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 100rem; padding: 1rem; background: var(--page);
  color: var(--text); font: 1rem/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
header { margin-bottom: .5rem; }
h1 { font-size: 1.35rem; margin: 0 0 .5rem; }
h2 { font-size: 1rem; margin: 0; }
p { margin: 0; }
.quiet, figcaption, dt { color: var(--quiet); }
.quiet, figcaption { font-size: .875rem; font-weight: 400; }
.bad { color: var(--bad); }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .2rem 1rem; margin: 0; }
dd { margin: 0; }
dd ol { margin: 0; padding-left: 1.5rem; }
code { font-size: .875rem; }
nav { position: sticky; top: 0; z-index: 1; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem;
  padding: .25rem 0; background: var(--page); }
nav:empty { display: none; }
input { width: 1.1rem; height: 1.1rem; margin: 0 .3rem 0 0; vertical-align: -.2rem; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: .5rem 0; padding: 0;
  list-style: none; font-size: .875rem; }
.legend svg { width: .8rem; height: .8rem; margin-right: .35rem; vertical-align: -.1rem; }
section { margin-bottom: .75rem; padding: .75rem; background: var(--card);
  border: 1px solid var(--line); border-radius: .5rem; }
.row { display: grid; gap: .75rem; margin-top: .5rem; align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(min(12.5rem, 45%), 1fr)); }
figure { margin: 0; min-width: 0; }
figure svg { display: block; width: 100%; height: auto; max-height: 24rem; background: var(--page);
  overflow: hidden; }
.small, .masks { image-rendering: pixelated; }
.boxes rect { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; }
.boxes text { font-weight: 600; fill: #fff; stroke: #000; stroke-width: .2em;
  stroke-linejoin: round; paint-order: stroke; }
.points circle { stroke-width: 2; vector-effect: non-scaling-stroke; }
@media (max-width: 40rem) { body { padding: .5rem; } .row > :first-child { grid-column: 1 / -1; }
  .row > :first-child text { font-size: .6em; } }
body:has(#boxes:not(:checked)) .boxes, body:has(#masks:not(:checked)) .masks,
body:has(#points:not(:checked)) .points { display: none; }
"""
# The browser loads nothing from outside the page, so no text can become a request.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


@dataclass(frozen=True)
class Picture:
    """A picture and its targets, in pixels of the picture.

    Attributes:
        pixels: uint8 [height, width, 3].
        target: Any of: "boxes" [objects, 4] (left, top, right, bottom), "labels" [objects], "masks"
            [objects, height, width], "keypoints" [objects, points, 3], "mask" [height, width],
            "captions".
    """

    pixels: NDArray[np.uint8]
    target: Mapping[str, Any] = field(default_factory=dict)


class Drawer:
    """Draws pictures, and remembers which layers and classes they had.

    Args:
        names: The classes' names, by their numbers in the annotations.
    """

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        self._layers: set[str] = set()
        # How often each class was drawn, by (is it of a map of labels?, its number).
        self._classes: Counter[tuple[bool, int]] = Counter()

    def figure(self, picture: Picture, title: str) -> str:
        """A picture with its targets and its caption."""
        height, width = picture.pixels.shape[:2]
        labels = picture.target.get("labels", np.zeros(0, np.int64))
        about = f"{title} · {width} × {height}"
        if "labels" in picture.target:
            about += f" · {len(labels)} object{'s' * (len(labels) != 1)}"
        said = "".join(f"<br>“{_text(one)}”" for one in picture.target.get("captions", ()))
        drawn = [
            _image(png_of_picture(picture.pixels), height, width),
            *self._masks(picture.target, labels, height, width),
            *self._boxes(picture.target.get("boxes", ()), labels, height, width),
            *self._points(picture.target.get("keypoints", ()), labels, height, width),
        ]
        return (
            f'<figure><svg viewBox="0 0 {width} {height}" role="img" aria-label="{_text(about)}">'
            f"{''.join(drawn)}</svg><figcaption>{_text(about)}{said}</figcaption></figure>\n"
        )

    def _masks(
        self, target: Mapping[str, Any], labels: Any, height: int, width: int
    ) -> Iterable[str]:
        if len(target.get("masks", ())) > 0:
            self._layers.add("masks")
            self._classes.update((False, label) for label in labels.tolist())
            yield _image(png_of_objects(target["masks"], labels), height, width, "masks")
        if "mask" in target:
            self._layers.add("masks")
            found = np.unique(target["mask"]).tolist()
            self._classes.update((True, label) for label in found if label != 0)
            yield _image(png_of_map(target["mask"].astype(np.int64)), height, width, "masks")

    def _boxes(self, boxes: Any, labels: Any, height: int, width: int) -> Iterable[str]:
        if len(boxes) == 0:
            return
        self._layers.add("boxes")
        size = max(height, width) / 17
        yield f'<g class="boxes" font-size="{size:.4g}">'
        for (left, top, right, bottom), label in zip(boxes.tolist(), labels.tolist(), strict=True):
            name = self._name(label)
            self._classes[False, label] += 1
            colour = colour_of(label)
            yield (
                f'<rect x="{left:.9g}" y="{top:.9g}" width="{right - left:.9g}" '
                f'height="{bottom - top:.9g}" stroke="{colour}"><title>{_text(name)}</title></rect>'
            )
            if right - left > 2 * size:
                at = f'x="{left + size / 5:.4g}" y="{max(top, 0) + size:.4g}"'
                yield f"<text {at}>{_text(name)}</text>"
        yield "</g>"

    def _points(self, keypoints: Any, labels: Any, height: int, width: int) -> Iterable[str]:
        if len(keypoints) == 0:
            return
        self._layers.add("points")
        radius = max(height, width) / 90
        yield '<g class="points">'
        for points, label in zip(keypoints.tolist(), labels.tolist(), strict=True):
            colour = colour_of(label)
            for x, y, visibility in points:
                if visibility > 0:
                    seen = visibility > 1
                    yield (
                        f'<circle cx="{x:.9g}" cy="{y:.9g}" r="{radius:.4g}" '
                        f'stroke="{"#fff" if seen else colour}" '
                        f'fill="{colour if seen else "#fff"}"/>'
                    )
        yield "</g>"

    def _name(self, label: int) -> str:
        return self._names.get(label, f"label {label}")

    def toggles(self) -> str:
        """A checkbox for each kind of drawing that the pictures had."""
        titles = {"boxes": "boxes", "masks": "masks", "points": "keypoints"}
        return "".join(
            f'<label><input type="checkbox" id="{name}" checked>{title}</label>'
            for name, title in titles.items()
            if name in self._layers
        )

    def legend(self) -> str:
        """The colours of the classes that were drawn most often."""
        shown = [one for one, _ in self._classes.most_common(_LEGEND_MAX)]
        entries = [
            f'<li><svg viewBox="0 0 1 1"><rect width="1" height="1" fill="{colour_of(number)}"/>'
            f"</svg>{_text(f'mask {number}' if is_map else self._name(number))}</li>"
            for is_map, number in sorted(shown)
        ]
        if len(self._classes) > len(shown):
            entries.append(f"<li>and {len(self._classes) - len(shown)} more</li>")
        return f'<ul class="legend">{"".join(entries)}</ul>\n' if entries else ""


def no_picture(reason: str, title: str) -> str:
    """The figure in place of a picture that could not be made."""
    return (
        f'<figure><p class="bad">This sample cannot be used: {_text(reason)}</p>'
        f"<figcaption>{_text(title)}</figcaption></figure>\n"
    )


def section(key: str, class_name: str, figures: Iterable[str]) -> str:
    """One sample's pictures, side by side."""
    own = f' <span class="quiet">{_text(class_name)}</span>' if class_name else ""
    row = f'<div class="row">{"".join(figures)}</div>'
    return f"<section><h2>{_text(key)}{own}</h2>\n{row}</section>\n"


def page(
    title: str,
    facts: Mapping[str, str],
    steps: Iterable[str],
    drawer: Drawer,
    sections: Iterable[str],
) -> Iterable[str]:
    """The parts of the page.

    Args:
        title: Its title.
        facts: Facts about all samples, by name.
        steps: The members of the transform.
        drawer: The Drawer that drew the figures in the sections.
        sections: One for each sample.
    """
    said = "".join(
        f"<dt>{_text(name)}</dt><dd>{_text(fact)}</dd>\n" for name, fact in facts.items()
    )
    listed = "".join(f"<li><code>{_text(step)}</code></li>" for step in steps)
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{_text(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<header><h1>{_text(title)}</h1>\n"
        f"<dl>{said}<dt>Transform</dt><dd><ol>{listed}</ol></dd></dl></header>\n"
        f"<nav>{drawer.toggles()}</nav>\n{drawer.legend()}<main>\n"
    )
    yield from sections
    yield "</main>\n</body>\n</html>\n"


def _text(value: object) -> str:
    return html.escape(str(value))


def _image(png: bytes, height: int, width: int, kind: str = "") -> str:
    """A PNG that covers the picture. A shrunk one may reach beyond its right and lower sides."""
    step = step_of(height, width)
    kind = kind or ("small" if max(height, width) < _SMALL_SIDE else "picture")
    return (
        f'<image class="{kind}" width="{-(-width // step) * step}" '
        f'height="{-(-height // step) * step}" '
        f'href="data:image/png;base64,{base64.b64encode(png).decode()}"/>'
    )
