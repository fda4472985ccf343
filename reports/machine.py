"""The output of `--format json|markdown|github`: finished runs for programs.

Answers to pytest-github-actions-annotate-failures. Invariant: `json` is one document with the schema of
`run.json`; `github` is at most ten annotations, the worst first, each on one line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, assert_never

from harness.history.values import visible
from harness.scenario.outcome import CountedRun, Extent, RunOutcome
from reports.campaign_view import view_of
from reports.conviction import as_text, conviction_of
from reports.markdown import markdown_text
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
        told = as_text(conviction_of(outcome, verdict, section.view, limit=1))
        yield _annotation(kind, f"{verdict.invariant} violated in {where}", told)


def _annotation(kind: str, title: str, text: str) -> str:
    title = _data(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={title}::{_data(text)}"


def _data(text: str) -> str:
    return visible(text).replace("%", "%25").replace("\n", "%0A")
