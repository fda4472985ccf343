"""Judgements of history files as text: for people, for a pull request, for GitHub's annotations.

Invariant: every format tells the same verdict; a sentence comes from the judge and is only escaped here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.checkers.judge import Malformed
from harness.explanation.explain import ANOMALIES_IN_FULL
from harness.explanation.text import anomaly_lines, closing_lines, events_of, rest_of
from harness.invariants import INVARIANTS
from harness.verdict import Anomaly, InvariantVerdict, Judgement, Outcome

__all__ = ["github", "markdown", "pretty", "verdict_word"]

Judged = Judgement | Malformed

_HELD_BACK = {Outcome.PASS, Outcome.NOT_CLAIMED}
"""Nothing more to say about these than their name."""

_MARKUP = re.compile(r"[&\\`*_\[\]<>|#]")


def pretty(name: str, judged: Judged) -> Iterator[str]:
    """Lines for a terminal: the verdict first, then each invariant, its anomalies explained, what still holds."""
    yield f"{verdict_word(judged)}  {name}"
    for warning in judged.warnings:
        yield f"  warning: {warning}"
    if isinstance(judged, Malformed):
        yield from (f"  line {breach.line}: {breach.say}" for breach in judged.breaches)
        return
    for verdict in judged.invariants:
        why = f"  {_first_line(verdict.why)}" if verdict.why else ""
        yield f"  {verdict.invariant:<4} {verdict.outcome:<11}{_observed(verdict)}{why}".rstrip()
        for anomaly in _in_full(verdict):
            yield from (f"       {line}" for line in anomaly_lines(anomaly))
        if rest := rest_of(verdict):
            yield f"       {rest}"
    yield from (f"  {line}" for line in (*_restriction(judged), *closing_lines(judged)))
    counts = ", ".join(f"{count} {named.replace('_', ' ')}" for named, count in judged.accounting.items())
    yield f"  seen: {counts}"


def markdown(name: str, judged: Judged) -> Iterator[str]:
    """A section for a pull request: the table, and below it the explanations as they are elsewhere."""
    yield f"### {verdict_word(judged)}: {_cell(name)}"
    yield ""
    yield from (f"- warning: {_cell(warning)}" for warning in judged.warnings)
    if isinstance(judged, Malformed):
        yield from (f"- line {breach.line}: {_cell(breach.say)}" for breach in judged.breaches)
        return
    if judged.warnings:
        yield ""
    yield "| invariant | verdict | what was found |"
    yield "|---|---|---|"
    for verdict in judged.invariants:
        yield f"| {verdict.invariant} | {verdict.outcome} | {_cell(_first_line(verdict.why))} |"
        for anomaly in _in_full(verdict):
            yield f"| | {anomaly.kind} | {_cell(anomaly.say)} ({events_of(anomaly)}) |"
        if rest := rest_of(verdict):
            yield f"| | | {rest} |"
    yield ""
    told = [
        line
        for verdict in judged.invariants
        for anomaly in _in_full(verdict)
        for line in anomaly_lines(anomaly)
    ]
    # Indented, for a fence could be closed by a payload.
    yield from (f"    {line}" for line in (*told, *_restriction(judged), *closing_lines(judged)))
    yield ""


def github(name: str, judged: Judged) -> Iterator[str]:
    """Workflow commands, which GitHub shows beside the file."""
    file = _property(name)
    if isinstance(judged, Malformed):
        for breach in judged.breaches:
            yield f"::error file={file},line={breach.line},title=malformed::{_data(breach.say)}"
        return
    for warning in judged.warnings:
        yield f"::warning file={file}::{_data(warning)}"
    for verdict in judged.invariants:
        for anomaly in _in_full(verdict):
            say = _data("\n".join(anomaly_lines(anomaly)))
            yield f"::error file={file},title={verdict.invariant} {anomaly.kind}::{say}"
        if rest := rest_of(verdict):
            yield f"::error file={file},title={verdict.invariant}::{rest}"
        if verdict.outcome not in _HELD_BACK | {Outcome.FAIL}:
            title = f"title={verdict.invariant} {verdict.outcome}"
            yield f"::notice file={file},{title}::{_data(_first_line(verdict.why))}"
    closing = (verdict_word(judged), *_restriction(judged), *closing_lines(judged))
    yield f"::notice file={file},title=floodmark::{_data(chr(10).join(closing))}"


def verdict_word(judged: Judged) -> str:
    """The verdict as the first word that a reader sees."""
    return "MALFORMED" if isinstance(judged, Malformed) else judged.outcome.upper()


def _observed(verdict: InvariantVerdict) -> str:
    return f" ({verdict.observed} observed)" if verdict.outcome is not Outcome.NOT_CLAIMED else ""


def _in_full(verdict: InvariantVerdict) -> Sequence[Anomaly]:
    return verdict.anomalies[:ANOMALIES_IN_FULL]


def _restriction(judged: Judgement) -> Sequence[str]:
    """A verdict over fewer invariants than there are must say so."""
    names = [verdict.invariant for verdict in judged.invariants]
    return [] if len(names) == len(INVARIANTS) else [f"Judged by {' '.join(names)} only, as was asked for."]


def _first_line(text: str) -> str:
    """A traceback is cut to what it says in the end."""
    lines = text.strip().splitlines()
    return text if len(lines) <= 1 else f"{lines[0]} {lines[-1]}"


def _cell(text: str) -> str:
    """Nothing in a payload may end a cell, open a tag or begin a link."""
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", text).replace("\n", " ")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
