"""Opens a history file for the fast readers, in whichever form its name says.

The counterpart of `files`, above the readers that it chooses from.
"""

from __future__ import annotations

from pathlib import Path

from harness.history.fast_read import FastHistory, FastText
from harness.history.files import needs_columns
from harness.history.text import COLUMNAR

__all__ = ["open_fast"]


def open_fast(path: Path) -> FastHistory:
    """A fast reader of the file at `path`; the header is read at once. Raises UsageError if it cannot be read."""
    if path.suffix in COLUMNAR:
        with needs_columns(path):
            from harness.history.fast_columns import FastColumns  # noqa: PLC0415  (most histories need no Arrow)

        return FastColumns(path)
    return FastText(path)
