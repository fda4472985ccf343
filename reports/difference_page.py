"""The page of a difference of two runs: what `floodmark diff` says, in the style of a report, in one file.

Invariant: it is made from the document of `floodmark diff --format json` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from harness.errors import WorldError
from reports.page import templates

__all__ = ["write_difference"]

_STYLE = Path(__file__).parent / "templates" / "page.css"


def _page(document: Mapping[str, Any]) -> str:
    """The page as text."""
    return (
        templates()
        .get_template("difference.html.j2")
        .render(
            document=document,
            first=document["first"],
            measures=[one for one in document["measures"] if one["left"] != one["right"]],
            style=Markup(_STYLE.read_text(encoding="utf-8")),  # noqa: S704 - a file of ours
        )
    )


def write_difference(document: Mapping[str, Any], path: Path) -> None:
    """Writes the page. Raises WorldError if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_page(document), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        message = f"the page cannot be written to {path}: {error.strerror or error}"
        raise WorldError(message, fix="free disk space, or name another file") from error
