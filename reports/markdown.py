"""`summary.md`: the report for a pull request or a job summary, short enough for either.

Answers to Bowtie's step summary. Invariant: text from a run is escaped or in a code span, so it cannot mention a
person, add a link or break a table; the summary has at most `MARKDOWN_CHARS_MAX` characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.history.values import brief, visible, without_credentials
from harness.history.verdict import InvariantVerdict
from harness.judge.explanation.text import closing_lines
from harness.scenario.outcome import FaultRecord
from reports.campaign_view import COLUMNS, CampaignView, ranges
from reports.conviction import as_text, by_its_lineage, consequences, conviction_of
from reports.reading import Tone, counts_towards
from reports.run_section import RunSection
from reports.sweep_strip import point_in_words, strip_lines

MARKDOWN_CHARS_MAX = 60_000
"""A comment on GitHub may have 65 536."""

_SPECIAL = re.compile(r"([\\`*_\[\]#|<>&~$])")
_RUNS_TOLD = (10, 5, 2, 1)
"""How many runs are shown in full, the worst first: the first number that fits."""
_ROWS = 100
_FEW_ROWS = 10
"""Lines of a table at most; of very long names, fewer."""
_SEEDS_CHARS = 80
_SCENARIOS_NAMED = 3
_CUT = "\n\nThe rest is in the report.\n"
_LINES_OF_FAILURE = 60
_SIGNS = {Tone.GOOD: "✅", Tone.BAD: "❌", Tone.OPEN: "❔"}


def markdown_text(view: CampaignView, *, title: str) -> str:
    """The summary; if it is too long, fewer runs are told, and the text says how many are missing."""
    for told, rows in (*((told, _ROWS) for told in _RUNS_TOLD), (0, _FEW_ROWS)):
        text = "\n".join(_lines(view, title=title, told=told, rows=rows)) + "\n"
        if len(text) <= MARKDOWN_CHARS_MAX:
            return text
    return text[: MARKDOWN_CHARS_MAX - len(_CUT)] + _CUT


def _lines(view: CampaignView, *, title: str, told: int, rows: int) -> Iterator[str]:
    """`told`: how many runs have their details; `rows`: how many lines a table has at most."""
    headline = view.headline
    yield f"## {_SIGNS[headline.tone]} {plain_text(title)}: {headline.word}"
    yield ""
    if view.banner.broke:
        yield f"**{plain_text(view.banner.broke)}.**"
        yield ""
    yield plain_text(headline.sentence)
    yield ""
    for strip in view.strips:
        yield from (
            "```text",
            *(line.replace("`", "'") for line in map(visible, strip_lines(strip))),
            "```",
            "",
        )
    if not view.is_one:
        yield from _campaign(view, rows=rows)
    yield from _table(view.sections[:rows])
    if len(view.sections) > rows:
        yield f"\n{len(view.sections) - rows} more runs are shown in the report."
    order = [cause.section for cause in view.causes if cause.section is not None]
    for section in [*order, *view.alone][:told]:
        yield ""
        yield from _run_lines(view.sections[section])


def _campaign(view: CampaignView, *, rows: int) -> Iterator[str]:
    """Totals by scenario, with every run as a sign, and the causes."""
    extent = view.extent
    took = f" in {extent.took_s:.1f} s" if extent.took_s else ""
    yield f"{len(view.rows)} of {extent.asked} runs made{took}; each is in the page, in `run.json` and in `junit.xml`."
    yield ""
    names = [*map(str, COLUMNS), "not as expected", "not run", "events", "took"]
    yield f"| scenario | level | runs | {' | '.join(names)} | seeds not as expected |"
    yield f"|---|---|{'--:|' * (len(names) + 1)}---|"
    for kind in view.kinds[:rows]:
        counts = [kind.counts.get(outcome, 0) for outcome in COLUMNS]
        numbers = [len(kind.rows), *counts, kind.unexpected, kind.not_run, kind.events]
        bad = ranges(sorted(row.run.seed for row in kind.rows if row.tone is not Tone.GOOD))
        cells = (
            _code(kind.scenario) + (f" with {_code(kind.mutant)}" if kind.mutant else ""),
            plain_text(kind.level),
            *map(str, numbers),
            f"{kind.took_s:.1f} s",
            bad if len(bad) <= _SEEDS_CHARS else f"{bad[:_SEEDS_CHARS]}...",
        )
        yield f"| {' | '.join(cells)} |"
    if len(view.kinds) > rows:
        yield f"\n{len(view.kinds) - rows} more scenarios are in the report."
    yield ""
    if view.causes:
        yield "| | cause | runs | scenarios | found |"
        yield "|---|---|--:|---|---|"
        for cause in view.causes[:rows]:
            scenarios = ", ".join(map(_code, cause.scenarios[:_SCENARIOS_NAMED]))
            more = len(cause.scenarios) - _SCENARIOS_NAMED
            scenarios += f" and {more} more" if more > 0 else ""
            told = (
                _SIGNS[cause.tone],
                plain_text(cause.words),
                str(len(cause.rows)),
                scenarios,
                plain_text(cause.also),
            )
            yield f"| {' | '.join(told)} |"
        if len(view.causes) > rows:
            yield f"\n{len(view.causes) - rows} more causes are in the report."
        yield ""
    if len(view.sections) < len(view.rows):
        yield f"Shown in full, {'the first run of each cause' if view.causes else 'one of them'}:"
        yield ""


def _table(sections: Sequence[RunSection]) -> Iterator[str]:
    yield "| | scenario | level | subject | seed | effective faults | took |"
    yield "|---|---|---|---|--:|---|--:|"
    for section in sections:
        outcome = section.outcome
        effective = sum(fault.bites for fault in outcome.faults)
        cells = (
            f"{_SIGNS[section.reading.tone]} {section.reading.word}",
            _code(outcome.scenario) + point_in_words(outcome),
            plain_text(outcome.level_in_words),
            _code(outcome.sut) + (f" with planted {_code(outcome.mutant)}" if outcome.mutant else ""),
            str(outcome.seed),
            f"{effective} of {len(outcome.faults)}" if outcome.faults else "none planned",
            f"{outcome.duration_s:.1f} s",
        )
        yield f"| {' | '.join(cells)} |"


def _run_lines(section: RunSection) -> Iterator[str]:
    outcome = section.outcome
    yield f"### {_code(outcome.scenario)}: {section.reading.word}"
    yield ""
    yield plain_text(section.reading.sentence)
    if section.job is not None and section.job.losses:
        yield "\n**What the job's table shows**\n"
        yield from (f"- {plain_text(loss.line)}" for loss in section.job.losses)
    if threats := [*section.threats, *section.limits]:
        yield "\n**Threats to validity**\n"
        yield from (f"- {plain_text(line)}" for line in threats)
    if outcome.faults:
        yield "\n**Faults**\n"
        yield from (f"- {_fault(fault)}" for fault in outcome.faults)
    if outcome.thresholds:
        yield "\n**Thresholds**\n"
        yield from (
            f"- {threshold.verdict}: {plain_text(threshold.says)}" for threshold in outcome.thresholds
        )
    if outcome.pitfalls:
        yield "\n**Pitfalls**\n"
        yield from (
            f"- {_code(told.name)}: {plain_text(f'{told.says} {told.advice}')}" for told in outcome.pitfalls
        )
    for verdict in outcome.judgement.convicted():
        if not verdict.follows or verdict.invariant in outcome.convicts:
            yield from _failure(section, verdict)
    if folded := consequences([told for told in section.convictions if not told.expected]):
        yield f"\n{plain_text(folded)}"
    others = [v for v in outcome.judgement.invariants if counts_towards(outcome, v)]
    yield "\n" + ", ".join(f"{verdict.invariant} {verdict.outcome}" for verdict in others)
    if standing := closing_lines(outcome.judgement)[1:]:  # the guarantee and the time to recover
        yield ""
        yield from (f"- {plain_text(line)}" for line in standing)
    if section.job is not None:
        yield "\n<details><summary>Seen from outside: what was judged, assumed, and not claimed</summary>\n"
        yield from (f"- {plain_text(name)}: {plain_text(told)}" for name, told in section.job.facts)
        yield from (f"- assumed: {plain_text(line)}" for line in section.job.assumed)
        yield from (f"- not claimed: {plain_text(line)}" for line in section.job.not_claimed)
        yield "\n</details>"
    yield f"\nAgain: {_code(outcome.again)}"


def _fault(fault: FaultRecord) -> str:
    evidence = _code(brief(without_credentials(fault.evidence), limit=200))
    effect = f"effective, evidence {evidence}" if fault.bites else "**left no evidence**"
    never = "**never began**" if fault.armed_us is None else effect
    return f"{_code(fault.id)} ({plain_text(fault.kind)}): {never}"


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


def plain_text(text: str) -> str:
    """Text on one line in which Markdown, HTML, mentions and links are escaped."""
    flat = " ".join(visible(text).split())
    return _SPECIAL.sub(r"\\\1", flat).replace("@", "`@`").replace("://", ":`//`")


def _code(text: str) -> str:
    """Text as a code span that does not break a table cell."""
    flat = " ".join(visible(text).split()).replace("`", "'").replace("|", "\\|")
    return f"`{flat or ' '}`"
