"""The page of a difference of two runs: what `floodmark diff` says, in the style of a report, in one file.

Invariant: it is made from the document of `floodmark diff --format json` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.system.whole_file import disk_errors_told, write_whole
from reports.page import style_of, templates


def write_difference(document: Mapping[str, Any], path: Path) -> None:
    """Writes the page. Raises WorldError if it cannot be written."""
    with disk_errors_told(
        f"the page cannot be written to {path}", fix="free disk space, or name another file"
    ):
        page = (
            templates()
            .get_template("difference.html.j2")
            .render(
                document=document,
                first=document["first"],
                measures=[one for one in document["measures"] if one["left"] != one["right"]],
                style=style_of("page.css"),
            )
        )
        write_whole(path, page)
