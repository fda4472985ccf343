"""The settings of the site: Sphinx makes it of the Markdown pages of the repository (`make docs`), as they are.

What a site needs and the pages do not have is added here: the table of contents, made of the sections of the index
(`docs/README.md`), and an `index.html`. Nothing of the site is loaded from a network.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent

project = "Floodmark"
html_title = "Floodmark"
root_doc = "README"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
include_patterns = [
    "README.md",
    "docs/*.md",
    "docs/**/*.md",
    "examples/*.md",
    "examples/**/*.md",
    "harness/**/README.md",
]
exclude_patterns = ["**/tests"]
html_theme = "furo"
html_copy_source = False
html_show_copyright = False
html_show_sourcelink = False
html_show_sphinx = False
myst_heading_anchors = 4
# Blocks that are not valid in the language that they name, as JSON with dots, are shown without colours.
suppress_warnings = ["misc.highlighting_failure"]

_SECTION = re.compile(r"^## (?P<title>.+)\n(?P<text>(?:(?!## ).*\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"\]\((?P<page>[\w/.-]+)\.md\)")


def contents(index: str) -> Iterator[str]:
    """A hidden table of contents for each section of the index, in its order, and for what the index does not list."""
    yield _table_of_contents("", ["docs/README", "docs/tour"])
    for section in _SECTION.finditer(index):
        pages = list(dict.fromkeys(f"docs/{entry['page']}" for entry in _ENTRY.finditer(section["text"])))
        yield _table_of_contents(section["title"], pages)
    yield _table_of_contents("Decisions", ["docs/decisions/*"])
    yield _table_of_contents("Examples", ["examples/README", "examples/**"])
    yield _table_of_contents("Folders of the code", ["harness/**"])


def _table_of_contents(title: str, pages: list[str]) -> str:
    caption = f":caption: {title}" if title else ""
    listed = "".join(f"/{page}\n" for page in pages)
    return f"\n```{{toctree}}\n:hidden:\n:glob:\n{caption}\n\n{listed}```\n"


def _add_contents(app: Any, page: str, source: list[str]) -> None:
    if page == root_doc:
        app.env.note_dependency(str(DOCS / "README.md"))
        source[0] += "".join(contents((DOCS / "README.md").read_text(encoding="utf-8")))


def _open_with_the_front_page(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        shutil.copy(Path(app.outdir) / f"{root_doc}.html", Path(app.outdir) / "index.html")


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _add_contents)
    app.connect("build-finished", _open_with_the_front_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
