"""Finished runs on a terminal: what one must know of a run on one screen, or all that is known of it.

Answers to pytest's summary and Hypothesis' counterexample. Invariants: text of a run is never interpreted as markup and
never prints a control byte; no sentence or command is cut off; without a terminal, or with `NO_COLOR`, only the colours
are missing; a run that failed has at most 25 lines, one that passed at most 8, the lines of its command included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import fill, indent
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.history.values import brief, visible, without_credentials
from harness.history.verdict import Outcome
from harness.judge.explanation.text import closing_lines
from harness.scenario.outcome import CountedRun, FaultRecord, FaultTime, RunOutcome
from reports.banner import gravest
from reports.conviction import (
    Conviction,
    as_text,
    by_its_lineage,
    consequences,
    convictions_of,
    events_of,
    variant_in_words,
)
from reports.job_section import JobSection
from reports.reading import (
    Causes,
    Reading,
    Tone,
    counted_in,
    counts_towards,
    headline_of,
    is_of_job,
    title_of,
)
from reports.run_section import RunSection, section_of
from reports.sweep_strip import Strip, point_in_words, strip_lines, strips_of

_COLOURS = {Tone.GOOD: "green", Tone.BAD: "red", Tone.OPEN: "yellow"}
_OUTCOME_COLOURS = {
    Outcome.PASS: "green",
    Outcome.FAIL: "red",
    Outcome.UNKNOWN: "yellow",
    Outcome.VACUOUS: "yellow",
    Outcome.NOT_CLAIMED: "dim",
}
_ANOMALIES_SHOWN = 1
"""Anomalies shown for each invariant; the report has more."""
_RUNS_IN_FULL = 4
"""If there are more runs, those that went as expected get one line each."""
_GREEN_SHOWN = 3
"""How many runs have their own lines if all went as expected."""
_WIDTH_WITHOUT_TERMINAL = 110
_EVENTS_SHOWN = 10
_LINES_SHOWN = 3
"""How many threats, losses, pitfalls and further violations are shown where not all are."""


class _Terminal(Console):
    """Where the reader of the stream has gone, it raises BrokenPipeError; rich would end the process with code 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def terminal(stream: TextIO, *, color: bool | None = None) -> Console:
    """A console on `stream`; with `color` None it is coloured on a terminal, unless `NO_COLOR` or `TERM=dumb`."""
    is_terminal = stream.isatty()
    return _Terminal(
        file=stream,
        highlight=False,
        markup=False,
        emoji=False,
        no_color=None if color is None else not color,
        force_terminal=True if color else None,
        width=None if is_terminal else _WIDTH_WITHOUT_TERMINAL,
    )


def print_outcomes(
    outcomes: Sequence[RunOutcome],
    *,
    console: Console,
    counted: Sequence[CountedRun] = (),
    is_whole: bool = False,
) -> None:
    """Read the histories and print the runs, and the total of all runs (`counted`) if there are several.

    `is_whole`: all that is known of them, as the report tells it.

    Of the runs that ended early for one cause, only the first is printed with details. If all of several went as
    expected and have nothing to tell, a few lines stand for all, so that they fit a screen.
    """
    sections = [section_of(outcome) for outcome in outcomes]
    outcomes = [section.outcome for section in sections]
    several, strips = len(counted or outcomes) != 1, strips_of(outcomes)
    # A run with a planted defect is no ordinary pass: it shows its conviction.
    ordinary = (
        section.reading.tone is Tone.GOOD and not (section.outcome.convicts or section.outcome.pitfalls)
        for section in sections
    )
    if several and sections and all(ordinary):
        for section in sections[:_GREEN_SHOWN]:
            _print_heading(section, console)
        if len(sections) > _GREEN_SHOWN:
            _say(_text(f"and {len(sections) - _GREEN_SHOWN} more runs, all as expected"), console)
        for strip in strips:
            for line in strip_lines(strip):
                _say(_text(line), console)
        _say(_headline(headline_of(outcomes, counted)), console)
        return
    causes = Causes.of(outcomes)
    _print_runs(sections, strips, causes, console, details=_print_all if is_whole else _print_few)
    for strip in strips:
        for line in strip_lines(strip):
            _say(_text(line), console)
    for sentence in causes.sentences():
        _say(_text(sentence), console)
    if several:
        _say(_headline(headline_of(outcomes, counted)), console)


def _print_runs(
    sections: Sequence[RunSection],
    strips: Sequence[Strip],
    causes: Causes,
    console: Console,
    *,
    details: Callable[[RunSection, Console], None],
) -> None:
    """The runs of which a strip does not say enough."""
    few = len(sections) <= _RUNS_IN_FULL
    told_by_strip = {run for strip in strips for run in strip.told_after(few=few)}
    for index, section in enumerate(sections):
        if index in told_by_strip and not few:
            continue
        _print_heading(section, console)
        has_details = causes.first_of(index) is None and index not in told_by_strip
        if has_details and (few or section.reading.tone is not Tone.GOOD):
            details(section, console)


def _print_heading(section: RunSection, console: Console) -> None:
    outcome = section.outcome
    variant = variant_in_words(outcome.mutant)
    point = point_in_words(outcome)
    heading = (
        f"{outcome.scenario}{point and ' '}{point}",
        f"level {outcome.level_in_words}",
        f"seed {outcome.seed}",
        variant,
    )
    _say(_text("  ".join(filter(None, heading)), style="bold"), console)
    _say(_headline(section.reading), console)
    if section.reading.tone is Tone.BAD and section.job is None and section.banner.broke:
        _say(_text(f"  broke: {section.banner.broke}", style="bold"), console)


def _print_few(section: RunSection, console: Console) -> None:
    """What one must know, on a screen."""
    outcome, sentence = section.outcome, section.reading.sentence
    is_good = section.reading.tone is Tone.GOOD
    losses = [] if section.job is None else [loss.line for loss in section.job.losses]
    _print_first("the job's table", losses, console)
    pitfalls = [
        f"{told.name}: {'' if told.says.rstrip('.') in sentence else f'{told.says} '}{told.advice}"
        for told in outcome.pitfalls
    ]
    _print_first("pitfall", pitfalls, console)
    _print_first("threshold", [f"{told.verdict}: {told.says}" for told in outcome.thresholds], console)
    _print_counterexample(section, console)
    if is_good:
        for line in closing_lines(outcome.judgement)[1:2]:
            _say(_text(f"  {line}"), console)
    effects = [
        f"{fault.id} {_evidence(fault.first) if fault.bites else 'left no evidence'}"
        for fault in outcome.faults
    ]
    if effects:
        more = f"; and {len(effects) - _LINES_SHOWN} more" if len(effects) > _LINES_SHOWN else ""
        _say(_text(f"  faults: {'; '.join(effects[:_LINES_SHOWN])}{more}"), console)
    _print_first("threat", section.threats, console)
    if not is_good:
        _say(_text(f"  again: {outcome.again}"), console)
        console.print()


def _print_first(heading: str, lines: Sequence[str], console: Console) -> None:
    """The first of these lines, and how many there are beside."""
    for place, line in enumerate(lines[:_LINES_SHOWN], start=1):
        left = len(lines) - place
        more = f" (and {left} more: --verbose)" if place == _LINES_SHOWN and left else ""
        text = _text(f"  {heading}: {_indented(line)}{more}")
        text.stylize("yellow", end=len(heading) + 3)
        _say(text, console)


def _print_counterexample(section: RunSection, console: Console) -> None:
    """The gravest violation with its events, and a line for each other one."""
    told_all = _told(section)
    ranks = [verdict.invariant for verdict in gravest(section.outcome)]
    told_all = sorted(told_all, key=lambda told: ranks.index(told.invariant))
    own = [told for told in told_all if not told.follows or told.expected]
    for told in own[:1]:
        for story in told.stories[:1]:
            subject = f": {story.subject}" if story.subject else ""
            _say(_text(f"  {told.invariant} {told.title}: {story.kind}{subject}", style="bold"), console)
            if section.reading.tone is Tone.GOOD:  # else the line that says what broke has said it
                _say(_text(f"    {_indented(story.say)}"), console)
            for line in events_of(story, most=_EVENTS_SHOWN):
                _say(_text(f"    {line}"), console)
    further = [f"{told.invariant} {told.title}: {told.stories[0].say}" for told in own[1:] if told.stories]
    _print_first("also violated", further, console)
    if folded := consequences([told for told in told_all if not told.expected]):
        _say(_text(f"  {folded}"), console)


def _print_all(section: RunSection, console: Console) -> None:
    outcome = section.outcome
    if section.job is not None:
        _print_lines("what the job's table shows", [loss.line for loss in section.job.losses], console)
    _print_lines("threats to validity", [*section.threats, *section.limits], console)
    told_whole = _told(section)
    for told in told_whole:
        if not told.follows or told.expected:
            console.print()
            _say(_text(indent(as_text(told), "  ")), console)
    if folded := consequences([told for told in told_whole if not told.expected]):
        console.print()
        _say(_text(f"  {folded}"), console)
    console.print()
    console.print(_verdicts(outcome))
    for line in closing_lines(outcome.judgement)[1:]:
        _say(_text(f"  {line}"), console)
    if outcome.faults:
        console.print(_faults(outcome.faults, origin_us=section.view.origin_us))
    _print_lines("thresholds", [f"{told.verdict}: {told.says}" for told in outcome.thresholds], console)
    _print_lines(
        "pitfalls", [f"{told.name}: {told.says} {told.advice}" for told in outcome.pitfalls], console
    )
    if section.job is not None:
        _print_seen(section.job, console)
    _print_counts(f"counted in {counted_in(outcome)}", outcome.accounting, console)
    _print_counts("counted in the history", outcome.judgement.accounting, console)
    _say(_text(f"  again: {outcome.again}"), console)
    console.print()


def _print_seen(job: JobSection, console: Console) -> None:
    """Three paragraphs instead of the page's lists."""
    facts = "; ".join(f"{name} {told}" for name, told in job.facts)
    for heading, text in (
        ("seen from outside", facts),
        ("assumed of the job", " ".join(job.assumed)),
        ("not claimed", " ".join(job.not_claimed)),
    ):
        told = fill(
            f"{heading}: {text}",
            width=_WIDTH_WITHOUT_TERMINAL,
            initial_indent="  ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines = _text(told)
        lines.stylize("yellow", end=len(heading) + 3)
        _say(lines, console)


def _told(section: RunSection) -> Sequence[Conviction]:
    """The convictions to print; only one anomaly for a planted defect that was convicted as expected."""
    outcome = section.outcome
    if section.job is not None:
        return [
            by_its_lineage(told) for told in convictions_of(outcome, section.view, limit=_ANOMALIES_SHOWN)
        ]
    if not (outcome.convicts and section.reading.tone is Tone.GOOD):
        return convictions_of(outcome, section.view, limit=_ANOMALIES_SHOWN)
    meant = [told for told in convictions_of(outcome, section.view, limit=1) if told.expected]
    return [by_its_lineage(told) for told in meant[:1]]


def _say(text: Text, console: Console) -> None:
    """Print without wrapping: a terminal wraps lines itself, a file keeps them whole."""
    console.print(text, soft_wrap=True)


def _headline(reading: Reading) -> Text:
    mark = _text(f"{reading.tone.sign} {reading.word.upper()}", style=f"bold {_COLOURS[reading.tone]}")
    return mark.append(_text(f"  {_indented(reading.sentence)}"))


def _print_lines(heading: str, lines: Sequence[str], console: Console) -> None:
    if lines:
        _say(_text(f"  {heading}:", style="yellow"), console)
    for line in lines:
        _say(_text(f"    - {_indented(line)}"), console)


def _indented(text: str) -> str:
    """`text`, whose further lines cannot be taken for a headline: what a user's code raises stands in them."""
    return text.replace("\n", "\n      ")


def _verdicts(outcome: RunOutcome) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True)
    for heading in ("invariant", "outcome"):
        table.add_column(heading, no_wrap=True)
    table.add_column("observed", justify="right")
    table.add_column("why")
    for verdict in outcome.judgement.invariants:
        if is_of_job(outcome.level) and verdict.outcome is Outcome.NOT_CLAIMED:
            continue  # "not claimed" below lists them
        aside = "" if counts_towards(outcome, verdict) else " (does not decide)"
        is_meant = verdict.outcome is Outcome.FAIL and verdict.invariant in outcome.convicts
        meant = " (as it should be)" if is_meant else ""
        table.add_row(
            _text(f"{verdict.invariant} {title_of(verdict.invariant)}"),
            _text(f"{verdict.outcome}{meant}{aside}", style=_OUTCOME_COLOURS[verdict.outcome]),
            str(verdict.observed or "-"),
            _text(verdict.why),
        )
    return table


def _faults(faults: Sequence[FaultRecord], *, origin_us: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True)
    for heading in ("fault", "planned", "armed", "seen", "healed", "effective"):
        table.add_column(heading, no_wrap=True)
    table.add_column("evidence")
    for fault in faults:
        for number, time in enumerate(fault.times or (fault.first,)):
            effective = bool(time.evidence)
            table.add_row(
                _text("" if number else f"{fault.id} ({fault.kind})"),
                _moment(time.planned_us, origin_us, never="-"),
                _moment(time.armed_us, origin_us),
                _moment(time.measured_us, origin_us, never="afterwards" if effective else "-"),
                _moment(time.healed_us, origin_us),
                _text("yes" if effective else "NO", style="green" if effective else "red"),
                _text(_evidence(time) if effective else "none found"),
            )
    return table


def _evidence(time: FaultTime) -> str:
    """The evidence, and the only witness of it, if there is only one."""
    told = brief(without_credentials(time.evidence), limit=160)
    if time.witnesses is None or len(time.witnesses) != 1:
        return told
    return f"{told} (only by {time.witnesses[0]})"


def _moment(at_us: int | None, origin_us: int, *, never: str = "never") -> str:
    return never if at_us is None else f"{(at_us - origin_us) / 1e6:.3f} s"


def _print_counts(heading: str, counts: Mapping[str, int], console: Console) -> None:
    if counts:
        said = "  ".join(f"{name} {count}" for name, count in counts.items())
        _say(_text(f"  {heading}: {said}"), console)


def _text(text: str, *, style: str = "") -> Text:
    return Text(visible(text), style=style)
