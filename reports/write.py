"""Writes the folder of a report: page, JUnit, JSON, Markdown and the histories.

Invariant: an earlier report in the folder is kept; a file gets its name only when it is complete (temporary file,
flush to disk, rename), and the page, JUnit, JSON and Markdown contain none of the given secrets.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.history.values import without_secrets
from harness.scenario.outcome import CountedRun, Extent, RunOutcome
from harness.system.whole_file import disk_errors_told, whole_file, write_whole
from reports.campaign_view import view_of
from reports.earlier import set_aside
from reports.junit import junit_text
from reports.markdown import markdown_text
from reports.page import page_text
from reports.run_document import document_of, document_text
from reports.run_section import StoredHistory

_HISTORIES = "history"
_CHUNK = 1 << 20


def _on_standard_error(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


def write_report(
    outcomes: Sequence[RunOutcome],
    folder: Path,
    *,
    title: str,
    secrets: Sequence[str] = (),
    counted: Sequence[CountedRun] = (),
    extent: Extent | None = None,
    tell: Callable[[str], object] = _on_standard_error,
) -> Path:
    """Write the report of `outcomes` into `folder`; returns the path of the page.

    `counted`: every run of a campaign of which `outcomes` are only some; `extent`: how much of it was made.

    The folder holds `index.html`, `junit.xml`, `run.json`, `summary.md` and the histories. A report that is there
    already goes to a folder in it, and `tell` gets a sentence about that. `secrets` are replaced in all texts. Raises
    WorldError if the folder cannot be written.
    """
    with disk_errors_told(f"the report could not be written to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        with set_aside(folder, staying=[outcome.history for outcome in outcomes]) as earlier:
            taken: list[str] = []
            stored = [_stored(outcome, folder, taken) for outcome in outcomes]
            view = view_of(outcomes, counted=counted, extent=extent, stored=stored.__getitem__)
            texts = {
                "run.json": document_text(document_of(view, title=title, earlier=earlier)),
                "junit.xml": junit_text(view, title=title),
                "summary.md": markdown_text(view, title=title),
                "index.html": page_text(view, title=title, earlier=earlier),
            }
            for name, text in texts.items():
                write_whole(folder / name, without_secrets(text, secrets))
    if earlier:
        tell(f"floodmark: the report that was in {folder} before is in {folder / earlier}")
    return folder / "index.html"


def _stored(outcome: RunOutcome, folder: Path, taken: list[str]) -> StoredHistory | None:
    """The history in the folder, copied there if necessary; None if the run left no history."""
    source = outcome.history
    if not source.is_file():
        return None
    if source.resolve().is_relative_to(folder.resolve()):
        target = source.resolve()
    else:
        target = folder.resolve() / _HISTORIES / _free_name(outcome, taken)
        target.parent.mkdir(exist_ok=True)
        _copy(source, target)
    digest, size = _fingerprint(target)
    return StoredHistory(file=target.relative_to(folder.resolve()).as_posix(), sha256=digest, size=size)


def _free_name(outcome: RunOutcome, taken: list[str]) -> str:
    """`<run id>.jsonl`; a second run with the same id gets a number."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", outcome.run_id).strip("-") or "run"
    suffix = "".join(s for s in outcome.history.suffixes if s in {".jsonl", ".gz", ".zst"}) or ".jsonl"
    name = f"{stem}{suffix}"
    if name in taken:
        name = f"{stem}-{len(taken) + 1}{suffix}"
    taken.append(name)
    return name


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as read, whole_file(target) as written:
        while chunk := read.read(_CHUNK):
            written.write(chunk)


def _fingerprint(path: Path) -> tuple[str, int]:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size
