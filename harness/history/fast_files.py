"""Opens a history file with the fast reader that its suffix calls for; the counterpart of `files`."""

from __future__ import annotations

from pathlib import Path

from harness.history.fast_read import FastHistory, FastText
from harness.history.files import needs_columns
from harness.history.text import is_columnar


def open_fast(path: Path) -> FastHistory:
    """A fast reader of the file at `path`, whose header it has read. Raises UsageError if that is unreadable."""
    if is_columnar(path):
        with needs_columns(path):
            from harness.history.fast_columns import FastColumns  # noqa: PLC0415  (most histories need no Arrow)

        return FastColumns(path)
    return FastText(path)
