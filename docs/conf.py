"""Sphinx's settings for the site that ./dev docs builds (docs/decisions/0009-documentation.md)."""

from typing import Any

from numpy.typing import ArrayLike
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

project = "Forebay"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

html_theme = "furo"
html_title = "Forebay"
html_copy_source = False
html_show_copyright = False

myst_heading_anchors = 3
# Blocks without a language are printed output or a shell's.
highlight_language = "none"
# `name` in a docstring is code.
default_role = "code"

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
maximum_signature_line_length = 80
napoleon_numpy_docstring = False

_NOTHING = "\\ "  # in reStructuredText


def keep_colons(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Keeps Napoleon from reading what stands before a first colon as a type.

    Napoleon does so in the first line of a property's docstring and of Returns. Here the types are
    in annotations.
    """
    for number in range(len(lines) - 1, -1, -1):
        if lines[number].strip() == "Returns:":
            lines.insert(number + 1, lines[number].replace("Returns:", "    " + _NOTHING))
    if what in ("attribute", "property"):
        lines.insert(0, _NOTHING)


def name_array_like(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, arguments: str | None, result: str
) -> tuple[str | None, str]:
    """Shows NumPy's ArrayLike by its name, not as the ten types that it stands for."""
    if arguments is not None:
        for mode in ("smart", "fully-qualified"):
            arguments = arguments.replace(stringify_annotation(ArrayLike, mode), "ArrayLike")
    return arguments, result


def setup(app: Sphinx) -> None:
    """Registers both functions with Sphinx, which calls this."""
    app.connect("autodoc-process-docstring", keep_colons, priority=400)
    app.connect("autodoc-process-signature", name_array_like)
