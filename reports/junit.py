"""`junit.xml`: every run, readable by any CI server and any strict parser; of those shown in full, every invariant.

Answers to pytest's own JUnit plugin. Invariant: a test case fails if and only if `read_run` calls the run not as
expected: a planted defect that was convicted passes, and an `unknown` or `vacuous` that decides is an error.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import assert_never

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from harness.history.values import visible
from harness.history.verdict import InvariantVerdict, Outcome
from harness.judge.explanation.text import guarantee_lines, recovery_lines
from harness.scenario.outcome import RunOutcome, Threshold
from reports.banner import Banner
from reports.campaign_view import CampaignView, Kind, Row
from reports.conviction import as_text
from reports.reading import Tone, counts_towards, title_of
from reports.run_section import RunSection
from reports.sweep_strip import point_in_words

Result = Failure | Error | Skipped

_MISSING_NAMED = 1_000
"""Up to so many runs of a scenario that were not made have a test case each; `not run` counts all."""


def junit_text(view: CampaignView, *, title: str) -> str:
    """The XML document: a suite for each run shown in full, then one for each scenario with its other runs.

    A last suite says of an incomplete campaign how many of how many runs were made, and is red; what the job cannot
    meet is skipped there.
    """
    document = JUnitXml(visible(title))
    for section in view.sections:
        document.append(_suite(section))  # add_testsuite would merge runs with equal names
    shown = set(view.shown)
    for kind in view.kinds:
        rows = [row for row in kind.rows if row.index not in shown]
        if rows or kind.missing:
            document.append(_rest(kind, rows, view))
    if view.incomplete is not None or view.extent.left_out or len(view.rows) > len(view.sections):
        document.append(_whole_campaign(view))
    document.update_statistics()
    buffer = io.BytesIO()
    document.write(buffer, pretty=True)
    return buffer.getvalue().decode("utf-8")


def _rest(kind: Kind, rows: Sequence[Row], view: CampaignView) -> TestSuite:
    """The runs of one scenario that are not shown in full, a test case each, and those that were not made."""
    suite = TestSuite(visible(f"{kind.name} at {kind.level}: {len(rows)} more runs"))
    for name, value in (("sut", kind.sut), ("runs", str(len(rows))), ("not run", str(kind.not_run))):
        suite.add_property(name, visible(value))
    classname = visible(f"{kind.scenario}.{kind.level}")
    for row in rows:
        case = TestCase(f"seed {row.run.seed}", classname, round(row.run.took_s, 4))
        if row.tone is not Tone.GOOD:
            case.result = [_of_row(row, view)]
        suite.add_testcase(case)
    for told in kind.missing:
        for seed in told.seeds[:_MISSING_NAMED]:
            case = TestCase(f"seed {seed}", classname, 0.0)
            case.result = [Skipped(visible(f"not run: {told.why}"))]
            suite.add_testcase(case)
    suite.time = round(sum(row.run.took_s for row in rows), 3)
    return suite


def _of_row(row: Row, view: CampaignView) -> Failure | Error:
    """The failure of a run whose cause another run shows in full."""
    kind = Failure if row.tone is Tone.BAD else Error
    cause = view.cause_of.get(row.index)
    words = row.run.cause or str(row.run.verdict)
    result = kind(visible(words), str(row.run.verdict))
    has = "no run has its details"
    if cause is not None and cause.section is not None:
        has = f"{_suite_name(view.sections[cause.section].outcome)} has the details of this cause"
    result.text = visible(f"{has}.\nAgain: {row.run.again}")
    return result


def _whole_campaign(view: CampaignView) -> TestSuite:
    suite = TestSuite("the campaign as a whole")
    suite.add_property("asked", str(view.extent.asked))
    suite.add_property("made", str(len(view.rows)))
    for name, value in _broke(view.banner):
        suite.add_property(name, visible(value))
    for cause in view.causes:
        suite.add_property("cause", visible(f"{len(cause.rows)} x {cause.words}"))
    case = TestCase(f"{len(view.rows)} of {view.extent.asked} runs were made", "campaign", view.extent.took_s)
    if view.incomplete is not None:
        case.result = [Error(visible(view.incomplete), "incomplete")]
    suite.add_testcase(case)
    for left_out in view.extent.left_out:
        case = TestCase(left_out.scenario, "left out", 0.0)
        case.result = [Skipped(visible(left_out.why))]
        suite.add_testcase(case)
    return suite


def _suite(section: RunSection) -> TestSuite:
    outcome = section.outcome
    suite = TestSuite(visible(_suite_name(outcome)))
    properties = [*_properties(outcome), *_broke(section.banner)]
    if section.job is not None:
        properties += [("view", "outside"), *(("loss", loss.line) for loss in section.job.losses)]
        properties += [("assumed", " ".join(section.job.assumed))]
        properties += [("not claimed", " ".join(section.job.not_claimed))]
    for name, value in properties:
        suite.add_property(name, visible(value))
    cases = [_case(section, verdict) for verdict in outcome.judgement.invariants]
    cases += [_of_threshold(outcome, threshold) for threshold in outcome.thresholds]
    cases.append(_whole(section, shown=any(_is_red(case) for case in cases)))
    for case in cases:
        suite.add_testcase(case)
    suite.time = round(outcome.duration_s, 3)
    return suite


def _suite_name(outcome: RunOutcome) -> str:
    variant = f" --mutant {outcome.mutant}" if outcome.mutant else ""
    return f"{outcome.scenario}{point_in_words(outcome)} at {outcome.level_in_words}{variant} seed {outcome.seed}"


def _properties(outcome: RunOutcome) -> Iterator[tuple[str, str]]:
    yield "run id", outcome.run_id
    yield "seed", str(outcome.seed)
    yield "level", outcome.level_in_words
    yield "world", f"{outcome.world.kind}: {outcome.world.server}, {outcome.world.proxy}"
    yield "sut", outcome.sut
    yield "again", outcome.again
    if outcome.mutant:
        yield "mutant", outcome.mutant
    if outcome.pitfalls:
        yield "pitfalls", " ".join(f"{told.name}: {told.says} {told.advice}" for told in outcome.pitfalls)
    if (guarantee := outcome.judgement.guarantee) is not None:
        yield "guarantee", "; ".join(line.strip() for line in guarantee_lines(guarantee))
    if (recovery := outcome.judgement.recovery) is not None:
        yield "recovery", "; ".join(line.strip() for line in recovery_lines(recovery))


def _broke(banner: Banner) -> Iterator[tuple[str, str]]:
    """The one sentence of what broke, as the page's banner has it."""
    if banner.broke:
        yield "broke", banner.broke


def _case(section: RunSection, verdict: InvariantVerdict) -> TestCase:
    outcome = section.outcome
    title = title_of(verdict.invariant)
    case = TestCase(visible(f"{verdict.invariant} {title}".strip()))
    case.classname = visible(f"{outcome.scenario}.{outcome.level}")
    case.time = 0.0
    result = _result(section, verdict)
    if result is not None:
        case.result = [result]
    elif verdict.outcome is Outcome.FAIL:
        case.system_out = visible(f"{section.reading.sentence}\n\n{_told(section, verdict)}")
    return case


def _result(section: RunSection, verdict: InvariantVerdict) -> Result | None:
    """The result of the test case of one invariant; None means passed."""
    outcome = section.outcome
    if outcome.convicts:
        return _of_planted_defect(section, verdict)
    match verdict.outcome:
        case Outcome.PASS:
            return None
        case Outcome.FAIL:
            return _red(Failure, section, verdict)
        case Outcome.NOT_CLAIMED if not counts_towards(outcome, verdict):
            return Skipped(visible(f"not claimed: {verdict.why}"))
        case _ if counts_towards(outcome, verdict):
            return _red(Error, section, verdict)
        case _:
            return Skipped(visible(f"{verdict.outcome}, does not decide this scenario: {verdict.why}"))


def _of_threshold(outcome: RunOutcome, threshold: Threshold) -> TestCase:
    """The test case of one threshold: crossed is a failure, unknown an error; neither with a planted defect."""
    case = TestCase(f"threshold {threshold.name}")
    case.classname = visible(f"{outcome.scenario}.{outcome.level}")
    case.time = 0.0
    says = visible(f"{threshold.says}\nAgain: {outcome.again}")
    match threshold.verdict:
        case "holds":
            case.system_out = visible(threshold.says)
        case _ if outcome.convicts:
            case.result = [Skipped(visible(f"does not decide with a planted defect: {threshold.says}"))]
        case "crossed":
            case.result = [Failure(visible(threshold.says), "threshold")]
            case.result[0].text = says
        case "unknown":
            case.result = [Error(visible(threshold.says), "threshold")]
            case.result[0].text = says
        case _ as never:
            assert_never(never)
    return case


def _of_planted_defect(section: RunSection, verdict: InvariantVerdict) -> Result | None:
    """With a planted defect, only a missing conviction is a failure."""
    outcome = section.outcome
    meant = verdict.invariant in outcome.convicts
    if outcome.as_expected and (meant or verdict.outcome in {Outcome.FAIL, Outcome.PASS}):
        return None
    if meant and section.reading.tone is Tone.BAD:
        return Failure(visible(section.reading.sentence), "not-convicted")
    return Skipped(visible(f"{verdict.outcome}; {section.reading.sentence}"))


def _red(kind: type[Failure | Error], section: RunSection, verdict: InvariantVerdict) -> Failure | Error:
    told = _told(section, verdict)
    first = verdict.anomalies[0].say if verdict.anomalies else verdict.why
    early = section.outcome.error
    cause = "" if early is None else f"The run stopped early: {early}\n"
    result = kind(visible(f"{cause}{verdict.invariant} {verdict.outcome}: {first}"), str(verdict.outcome))
    lost = (
        [loss.line for loss in section.job.losses if loss.invariant == verdict.invariant]
        if section.job
        else []
    )
    result.text = visible("\n".join([*lost, f"{cause}{told}"]))
    return result


def _told(section: RunSection, verdict: InvariantVerdict) -> str:
    texts = (as_text(e) for e in section.convictions if e.invariant == verdict.invariant)
    undecided = f"{verdict.invariant} is {verdict.outcome}: {verdict.why}\nAgain: {section.outcome.again}"
    return next(texts, undecided)


def _whole(section: RunSection, *, shown: bool) -> TestCase:
    """The test case of the whole run, with its pitfalls.

    It fails for a pitfall, or if no invariant's case does (a run that stopped early).
    """
    case = TestCase("the run as a whole")
    case.classname = visible(f"{section.outcome.scenario}.{section.outcome.level}")
    case.time = round(section.outcome.duration_s, 3)
    if section.outcome.falls_by_pitfall:
        failure = Failure(visible(section.reading.sentence), "pitfall")
        advice = [f"{told.name}: {told.says} {told.advice}" for told in section.outcome.pitfalls]
        failure.text = visible("\n".join([*advice, f"Again: {section.outcome.again}"]))
        case.result = [failure]
    elif section.reading.tone is not Tone.GOOD and not shown:
        error = Error(visible(section.reading.sentence), section.reading.word)
        error.text = visible("\n".join([*section.threats, f"Again: {section.outcome.again}"]))
        case.result = [error]
    elif section.outcome.pitfalls:
        case.system_out = visible(section.reading.sentence)
    return case


def _is_red(case: TestCase) -> bool:
    return any(isinstance(result, Failure | Error) for result in case.result)
