"""Judgements of history files as text: for people, for a pull request, for GitHub's annotations.

Invariant: every format tells the same verdict; a sentence comes from the judge and is only escaped here.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checkers.judge import Malformed
from harness.verdict import Anomaly, InvariantVerdict, Judgement, Outcome

__all__ = ["github", "markdown", "pretty", "verdict_word"]

Judged = Judgement | Malformed

_HELD_BACK = {Outcome.PASS, Outcome.NOT_CLAIMED}
"""Nothing more to say about these than their name."""


def pretty(name: str, judged: Judged) -> Iterator[str]:
    """Lines for a terminal: the verdict first, then each invariant, its anomalies with their events."""
    yield f"{verdict_word(judged)}  {name}"
    for warning in judged.warnings:
        yield f"  warning: {warning}"
    if isinstance(judged, Malformed):
        yield from (f"  line {breach.line}: {breach.say}" for breach in judged.breaches)
        return
    for verdict in judged.invariants:
        why = f"  {_first_line(verdict.why)}" if verdict.why else ""
        yield f"  {verdict.invariant:<4} {verdict.outcome:<11}{_observed(verdict)}{why}".rstrip()
        for anomaly in verdict.anomalies:
            yield f"       {anomaly.kind}: {anomaly.say} [{_events(anomaly)}]"
        if verdict.omitted:
            yield f"       and {verdict.omitted} more"
    counts = ", ".join(f"{count} {named.replace('_', ' ')}" for named, count in judged.accounting.items())
    yield f"  seen: {counts}"


def markdown(name: str, judged: Judged) -> Iterator[str]:
    """A section for a pull request."""
    yield f"### {verdict_word(judged)}: {_cell(name)}"
    yield ""
    yield from (f"- warning: {_cell(warning)}" for warning in judged.warnings)
    if isinstance(judged, Malformed):
        yield from (f"- line {breach.line}: {_cell(breach.say)}" for breach in judged.breaches)
        return
    yield "| invariant | verdict | what was found |"
    yield "|---|---|---|"
    for verdict in judged.invariants:
        yield f"| {verdict.invariant} | {verdict.outcome} | {_cell(_first_line(verdict.why))} |"
        for anomaly in verdict.anomalies:
            yield f"| | {anomaly.kind} | {_cell(anomaly.say)} ({_events(anomaly)}) |"
        if verdict.omitted:
            yield f"| | | and {verdict.omitted} more |"
    yield ""


def github(name: str, judged: Judged) -> Iterator[str]:
    """Workflow commands, which GitHub shows beside the file."""
    if isinstance(judged, Malformed):
        for breach in judged.breaches:
            yield f"::error file={_property(name)},line={breach.line},title=malformed::{_data(breach.say)}"
        return
    for warning in judged.warnings:
        yield f"::warning file={_property(name)}::{_data(warning)}"
    for verdict in judged.invariants:
        for anomaly in verdict.anomalies:
            title = f"title={verdict.invariant} {anomaly.kind}"
            say = _data(f"{anomaly.say} ({_events(anomaly)})")
            yield f"::error file={_property(name)},{title}::{say}"
        if verdict.outcome not in _HELD_BACK | {Outcome.FAIL}:
            title = f"title={verdict.invariant} {verdict.outcome}"
            yield f"::notice file={_property(name)},{title}::{_data(_first_line(verdict.why))}"
    yield f"::notice file={_property(name)},title=floodmark::{verdict_word(judged)}"


def verdict_word(judged: Judged) -> str:
    """The verdict as the first word that a reader sees."""
    return "MALFORMED" if isinstance(judged, Malformed) else judged.outcome.upper()


def _observed(verdict: InvariantVerdict) -> str:
    return f" ({verdict.observed} observed)" if verdict.outcome is not Outcome.NOT_CLAIMED else ""


def _events(anomaly: Anomaly) -> str:
    return ("event " if len(anomaly.events) == 1 else "events ") + ", ".join(map(str, anomaly.events))


def _first_line(text: str) -> str:
    """A traceback is cut to what it says in the end."""
    lines = text.strip().splitlines()
    return text if len(lines) <= 1 else f"{lines[0]} {lines[-1]}"


def _cell(text: str) -> str:
    """Nothing in a payload may end a cell, open a tag or begin a link."""
    for special in "\\`*_[]<>|#":
        text = text.replace(special, f"&#{ord(special)};")
    return text.replace("\n", " ")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
