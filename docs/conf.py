"""The site's settings: ./dev docs builds it with Sphinx (docs/decisions/0008-documentation.md)."""

project = "Forebay"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

html_theme = "furo"
html_title = "Forebay"
html_copy_source = False
html_show_copyright = False

myst_heading_anchors = 3
# Blocks of many languages, and printed output: what a lexer cannot read is shown as it is.
highlight_language = "none"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
