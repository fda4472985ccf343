"""What finished runs leave: the folder of a report, and the output for programs.

Writes the folder of a report: page, JUnit, JSON, Markdown and the histories.

Invariant: an earlier report in the folder is kept; a file gets its name only when it is complete (temporary file,
flush to disk, rename), and the page, JUnit, JSON and Markdown contain none of the given secrets.

The output of `--format json|markdown|github`: finished runs for programs.

Answers to pytest-github-actions-annotate-failures. Invariant: `json` is one document with the schema of
`run.json`; `github` is at most ten annotations, the worst first, each on one line.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, assert_never

from harness.history.values import visible, without_secrets
from harness.scenario.outcome import CountedRun, Extent, HistoryFile, RunOutcome
from harness.system.errors import HistoryError
from harness.system.whole_file import disk_errors_told, whole_file, write_whole
from reports.campaign_view import view_of
from reports.conviction import as_text, conviction_of
from reports.junit import junit_text
from reports.markdown import markdown_text
from reports.page import page_text
from reports.past_report import PastRun, load_past
from reports.reading import Tone
from reports.run_document import document_of, document_text
from reports.run_section import RunSection

MachineFormat = Literal["json", "markdown", "github"]

ANNOTATIONS_MAX = 10
"""GitHub drops further annotations of one kind and step."""


def render(
    outcomes: Sequence[RunOutcome],
    form: MachineFormat,
    *,
    title: str = "Floodmark",
    counted: Sequence[CountedRun] = (),
    extent: Extent | None = None,
) -> str:
    """The runs in one of the formats, with a final newline; `counted`: all runs, if `outcomes` are some of them."""
    view = view_of(outcomes, counted=counted, extent=extent)
    match form:
        case "json":
            return document_text(document_of(view, title=title))
        case "markdown":
            return markdown_text(view, title=title)
        case "github":
            wrong = [section for section in view.sections if section.reading.tone is Tone.BAD]
            undecided = [section for section in view.sections if section.reading.tone is Tone.OPEN]
            found = [line for section in wrong + undecided for line in _annotations(section)]
            kept = found[:ANNOTATIONS_MAX]
            more = f" {len(found) - len(kept)} more are in the report." if len(found) > len(kept) else ""
            notice = f"::notice title=Floodmark::{_data(view.headline.sentence + more)}"
            return "\n".join([*kept, notice]) + "\n"
        case _:
            assert_never(form)


def _annotations(section: RunSection) -> Iterator[str]:
    outcome = section.outcome
    kind = "error" if section.reading.tone is Tone.BAD else "warning"
    where = f"{outcome.scenario} at {outcome.level}, seed {outcome.seed}"
    violated = outcome.judgement.convicted()
    if not violated or outcome.convicts:
        yield _annotation(kind, where, f"{section.reading.sentence}\nAgain: {outcome.again}")
        return
    for verdict in violated:
        if verdict.follows:
            continue
        told = as_text(conviction_of(outcome, verdict, section.view, limit=1))
        yield _annotation(kind, f"{verdict.invariant} violated in {where}", told)


def _annotation(kind: str, title: str, text: str) -> str:
    title = _data(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={title}::{_data(text)}"


def _data(text: str) -> str:
    return visible(text).replace("%", "%25").replace("\n", "%0A")


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


def _stored(outcome: RunOutcome, folder: Path, taken: list[str]) -> HistoryFile | None:
    """The history in the folder, copied there if necessary; None if the run left no history."""
    source = outcome.history
    if not source.is_file():
        return None
    if source.resolve().is_relative_to(folder.resolve()):
        target = source.resolve()
    else:
        # `<run id>.jsonl`; a second run with the same id gets a number
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", outcome.run_id).strip("-") or "run"
        suffix = "".join(s for s in outcome.history.suffixes if s in {".jsonl", ".gz", ".zst"}) or ".jsonl"
        name = f"{stem}{suffix}"
        if name in taken:
            name = f"{stem}-{len(taken) + 1}{suffix}"
        taken.append(name)
        target = folder.resolve() / _HISTORIES / name
        target.parent.mkdir(exist_ok=True)
        with source.open("rb") as read, whole_file(target) as written:
            while chunk := read.read(_CHUNK):
                written.write(chunk)
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return HistoryFile(
        file=target.relative_to(folder.resolve()).as_posix(), sha256=digest, bytes=target.stat().st_size
    )


_FOLDER: Final = "earlier"
_FILES: Final = ("index.html", "junit.xml", "run.json", "summary.md")
_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")


@contextmanager
def set_aside(folder: Path, *, staying: Collection[Path] = ()) -> Iterator[str]:
    """Moves the report in `folder` away before the block writes another; gives its new place in there, or nothing.

    The histories that its `run.json` lists go with it, so that its links stay right, except those `staying`, which the
    new report shows too. If the block fails, all come back.
    """
    with _locked(folder):
        found = [folder / name for name in _FILES if (folder / name).exists()]
        if not found:
            yield ""
            return
        runs: Sequence[
            PastRun
        ] = ()  # if `run.json` cannot be read, only the four files are known to be of a report
        with suppress(HistoryError):
            runs = load_past(folder / "run.json").runs
        place = _free_place(folder, next((run.run_id for run in runs if run.started_at), ""))
        leaving = [*found, *_histories(folder, runs, staying)]
        moved = [(path, place / path.relative_to(folder)) for path in leaving]
        try:
            for path, target in moved:
                target.parent.mkdir(parents=True, exist_ok=True)
                path.rename(target)
            yield place.relative_to(folder).as_posix()
        except BaseException:
            for path, target in moved:
                if target.exists():
                    target.rename(path)
            for left in (*sorted(place.rglob("*"), reverse=True), place, place.parent):
                if left.is_dir() and not any(left.iterdir()):
                    left.rmdir()
            raise


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Waits until no other process writes a report into `folder`."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network drives have no locks; the report is written all the same
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _free_place(folder: Path, run_id: str) -> Path:
    """`earlier/<id of its first run>`, with a number if that is there already."""
    name = _NAME.sub("-", run_id)[:80].strip("-") or "report"
    place, number = folder / _FOLDER / name, 1
    while place.exists():
        number += 1
        place = folder / _FOLDER / f"{name}-{number}"
    return place


def _histories(folder: Path, runs: Sequence[PastRun], staying: Collection[Path]) -> list[Path]:
    """The histories that it lists, each with what else lies in the run's own folder."""
    found: dict[Path, None] = {}
    kept = {path.resolve() for path in staying}
    for file in filter(None, (run.file for run in runs)):
        path = folder / file.file
        if path.resolve() in kept:
            continue
        if path.parent.parent == folder / "runs":
            path = path.parent
        inside = path.resolve().is_relative_to(folder.resolve())
        if ".." not in Path(file.file).parts and path.exists() and inside:
            found[path] = None
    return list(found)
