"""`summary.md`: the report for a pull request or a job summary, short enough for either.

Answers to Bowtie's step summary. Invariant: text from a run is escaped or in a code span, so it cannot mention a
person, add a link or break a table; the summary has at most `MARKDOWN_CHARS_MAX` characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.explanation.text import closing_lines
from harness.history.values import brief, visible, without_credentials
from harness.runs.outcome import CountedRun, FaultRecord, RunOutcome
from harness.verdict import InvariantVerdict
from reports.conviction import as_text, by_its_lineage, conviction_of
from reports.reading import Causes, Tone, counts_towards, headline_of
from reports.run_section import RunSection
from reports.sweep_strip import crash_point_of, strip_lines, strips_of

__all__ = ["MARKDOWN_CHARS_MAX", "markdown_text", "plain_text"]

MARKDOWN_CHARS_MAX = 60_000
"""A comment on GitHub may have 65 536."""

_SPECIAL = re.compile(r"([\\`*_\[\]#|<>&~$])")
_RUNS_TOLD = (10, 5, 2, 1)
"""How many runs are shown in full, the worst first: the first number that fits."""
_ROWS = 10
_LINES_OF_FAILURE = 60
_SIGNS = {Tone.GOOD: "✅", Tone.BAD: "❌", Tone.OPEN: "❔"}
_WORST_FIRST = (Tone.BAD, Tone.OPEN, Tone.GOOD)


def markdown_text(sections: Sequence[RunSection], *, title: str, counted: Sequence[CountedRun] = ()) -> str:
    """The summary; if it is too long, fewer runs are shown, and the text says how many are missing."""
    for told in _RUNS_TOLD:
        text = "\n".join(_lines(sections, title=title, told=told, counted=counted)) + "\n"
        if len(text) <= MARKDOWN_CHARS_MAX:
            return text
    few = _lines(sections[:_ROWS], title=title, told=0, all_runs=sections, counted=counted)
    short = "\n".join(few) + "\n"
    return short[:MARKDOWN_CHARS_MAX]


def _lines(
    sections: Sequence[RunSection],
    *,
    title: str,
    told: int,
    all_runs: Sequence[RunSection] | None = None,
    counted: Sequence[CountedRun] = (),
) -> Iterator[str]:
    everything = sections if all_runs is None else all_runs
    headline = headline_of([section.outcome for section in everything], counted)
    yield f"## {_SIGNS[headline.tone]} {_plain(title)}: {headline.word}"
    yield ""
    yield _plain(headline.sentence)
    yield ""
    if counted:
        yield f"{len(everything)} of the {len(counted)} runs are shown here; the page and `run.json` list all."
        yield ""
    for strip in strips_of([section.outcome for section in everything]):
        yield from (
            "```text",
            *(line.replace("`", "'") for line in map(visible, strip_lines(strip))),
            "```",
            "",
        )
    yield from _table(sections)
    if len(everything) > len(sections):
        yield f"\n{len(everything) - len(sections)} more runs are in the report."
    causes = Causes.of([section.outcome for section in everything])
    yield from (f"\n{_plain(sentence)}." for sentence in causes.sentences())
    firsts = [section for index, section in enumerate(sections) if causes.first_of(index) is None]
    for section in sorted(firsts, key=lambda section: _WORST_FIRST.index(section.reading.tone))[:told]:
        yield ""
        yield from _run_lines(section)


def _table(sections: Sequence[RunSection]) -> Iterator[str]:
    yield "| | scenario | level | subject | seed | effective faults | took |"
    yield "|---|---|---|---|--:|---|--:|"
    for section in sections:
        outcome = section.outcome
        effective = sum(fault.bites for fault in outcome.faults)
        cells = (
            f"{_SIGNS[section.reading.tone]} {section.reading.word}",
            _code(outcome.scenario) + _point(outcome),
            _plain(outcome.level_in_words),
            _subject(outcome),
            str(outcome.seed),
            f"{effective} of {len(outcome.faults)}" if outcome.faults else "none planned",
            f"{outcome.duration_s:.1f} s",
        )
        yield f"| {' | '.join(cells)} |"


def _point(outcome: RunOutcome) -> str:
    point = crash_point_of(outcome)
    return "" if point is None else f" {point[1]} message {point[0]}"


def _subject(outcome: RunOutcome) -> str:
    return _code(outcome.sut) + (f" with planted {_code(outcome.mutant)}" if outcome.mutant else "")


def _run_lines(section: RunSection) -> Iterator[str]:
    outcome = section.outcome
    yield f"### {_code(outcome.scenario)}: {section.reading.word}"
    yield ""
    yield _plain(section.reading.sentence)
    if section.job is not None and section.job.losses:
        yield "\n**What the job's table shows**\n"
        yield from (f"- {_plain(loss.line)}" for loss in section.job.losses)
    if section.threats:
        yield "\n**Threats to validity**\n"
        yield from (f"- {_plain(line)}" for line in section.threats)
    if outcome.faults:
        yield "\n**Faults**\n"
        yield from (f"- {_fault(fault)}" for fault in outcome.faults)
    if outcome.thresholds:
        yield "\n**Thresholds**\n"
        yield from (f"- {threshold.verdict}: {_plain(threshold.says)}" for threshold in outcome.thresholds)
    if outcome.pitfalls:
        yield "\n**Pitfalls**\n"
        yield from (
            f"- {_code(told.name)}: {_plain(f'{told.says} {told.advice}')}" for told in outcome.pitfalls
        )
    for verdict in outcome.judgement.convicted():
        yield from _failure(section, verdict)
    others = [v for v in outcome.judgement.invariants if counts_towards(outcome, v)]
    yield "\n" + ", ".join(f"{verdict.invariant} {verdict.outcome}" for verdict in others)
    yield from _standing(outcome)
    if section.job is not None:
        yield "\n<details><summary>Seen from outside: what was judged, assumed, and not claimed</summary>\n"
        yield from (f"- {_plain(name)}: {_plain(told)}" for name, told in section.job.facts)
        yield from (f"- assumed: {_plain(line)}" for line in section.job.assumed)
        yield from (f"- not claimed: {_plain(line)}" for line in section.job.not_claimed)
        yield "\n</details>"
    yield f"\nAgain: {_code(outcome.again)}"


def _fault(fault: FaultRecord) -> str:
    evidence = _code(brief(without_credentials(fault.evidence), limit=200))
    effect = f"effective, evidence {evidence}" if fault.bites else "**left no evidence**"
    never = "**never began**" if fault.armed_us is None else effect
    return f"{_code(fault.id)} ({_plain(fault.kind)}): {never}"


def _failure(section: RunSection, verdict: InvariantVerdict) -> Iterator[str]:
    text = as_text(by_its_lineage(conviction_of(section.outcome, verdict, section.view, limit=1)))
    lines = text.splitlines()
    kept = lines[:_LINES_OF_FAILURE]
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", text) or [""]))
    expected = " (as it should be)" if verdict.invariant in section.outcome.convicts else ""
    yield f"\n<details><summary>{verdict.invariant} violated{expected}</summary>\n"
    yield f"{fence}text"
    yield from kept
    if len(lines) > len(kept):
        yield f"... {len(lines) - len(kept)} more lines in the report"
    yield f"{fence}\n\n</details>"


def _standing(outcome: RunOutcome) -> Iterator[str]:
    """The guarantee and the time to recover, with the terminal's lines."""
    lines = closing_lines(outcome.judgement)[1:]
    if lines:
        yield ""
        yield from (f"- {_plain(line)}" for line in lines)


def plain_text(text: str) -> str:
    """Text on one line in which nothing is markup: for other tables of Markdown."""
    return _plain(text)


def _plain(text: str) -> str:
    """Text on one line in which Markdown, HTML, mentions and links are escaped."""
    flat = " ".join(visible(text).split())
    return _SPECIAL.sub(r"\\\1", flat).replace("@", "`@`").replace("://", ":`//`")


def _code(text: str) -> str:
    """Text as a code span that does not break a table cell."""
    flat = " ".join(visible(text).split()).replace("`", "'").replace("|", "\\|")
    return f"`{flat or ' '}`"
