"""The banner says what broke, for which record and why, and holds the numbers against the verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.history.verdict import Anomaly, InvariantVerdict, Outcome
from harness.scenario.outcome import RunOutcome
from reports.banner import Banner, banner_of, banner_of_all
from reports.campaign_view import view_of
from reports.history_view import read_view
from reports.junit import junit_text
from reports.markdown import markdown_text, plain_text
from reports.page import page_text
from reports.reading import headline_of
from reports.run_document import document_of
from reports.run_section import section_of
from reports.tests.job_sample import doubled, killed_twice
from reports.tests.sample import judgement_of, lost_outcome, outcome_of, pass_outcome, write_history

RAISED = "subtask 1 has failed 4 times: the lookup raised KeyError: 13 for record 4 (src/jobs/enrich.py:7)"


def told(outcome: RunOutcome) -> Banner:
    return banner_of(outcome, read_view(outcome.history, judgement=outcome.judgement))


def violated(path: Path, anomaly: Anomaly, *, invariant: str = "V8") -> RunOutcome:
    verdict = InvariantVerdict(invariant=invariant, outcome=Outcome.FAIL, anomalies=(anomaly,))
    return outcome_of(path, judgement_of(**{invariant: verdict}))


def test_what_the_users_function_raised_is_named_with_its_record_and_line(tmp_path: Path) -> None:
    assert (
        told(pass_outcome(tmp_path, error=RAISED)).broke
        == "lookup raised KeyError: 13 at record 4, enrich.py:7"
    )


@pytest.mark.parametrize("runs", [1, 2])
def test_every_file_of_a_report_has_the_banners_sentence(tmp_path: Path, runs: int) -> None:
    view = view_of([lost_outcome(tmp_path), pass_outcome(tmp_path, seed=8)][:runs])
    of_run, of_all = view.sections[0].banner.broke, view.banner.broke

    document = document_of(view, title="t")
    suites = ET.fromstring(junit_text(view, title="t"))  # noqa: S314 - our own text

    assert of_all.startswith("record 1194 was accepted, answered and lost: snapshot 8 omits it")
    assert (document.broke, document.runs[0].broke) == (of_all, of_run)
    assert [p.get("value") for p in suites.iter("property") if p.get("name") == "broke"] == [of_run]
    assert f"**{plain_text(of_all)}.**" in markdown_text(view, title="t")
    assert f"{of_all[1:]}." in page_text(view, title="t")


def test_the_end_of_a_long_exception_is_told_for_it_says_what_is_wrong(tmp_path: Path) -> None:
    raised = f"RuntimeError: Task <Task {'x' * 300}> got Future <Future pending> attached to a different loop"
    error = f"subtask 0 has failed 4 times: the lookup raised {raised} for record 4 (shop/enrich.py:7)"

    broke = told(pass_outcome(tmp_path, error=error)).broke

    assert broke.startswith("lookup raised RuntimeError: Task <Task xxx")
    assert broke.endswith("<Future pending> attached to a different loop at record 4, enrich.py:7")


def test_a_lost_record_is_told_with_the_snapshot_that_omits_it(tmp_path: Path) -> None:
    assert (
        told(lost_outcome(tmp_path)).broke
        == "record 1194 was accepted, answered and lost: snapshot 8 omits it"
    )


def test_no_cause_is_said_that_the_events_do_not_show(tmp_path: Path) -> None:
    """The same loss in a history without a restart: no snapshot is blamed."""
    history = tmp_path / "h.jsonl"
    events = write_history(history, records=40)
    lost = Anomaly(kind="lost", say="gone", events=(events[0]["n"],), s=0, id=7)

    broke = told(violated(history, lost)).broke

    assert broke == "record 7 was accepted, answered and lost: it left the operator, and no table shows it"


def test_a_record_that_a_checkpoint_omits_is_not_called_lost_v10(tmp_path: Path) -> None:
    """V8 says whether it is lost; here the run did not restart from that checkpoint."""
    history = tmp_path / "h.jsonl"
    events = write_history(history, records=40)
    missing = Anomaly(
        kind="missing", say="record 7 is neither stored nor resolved", events=(events[0]["n"],), s=0, id=7
    )

    broke = told(violated(history, missing, invariant="V10")).broke

    assert broke == "record 7 is neither stored nor resolved"


def test_a_record_whose_lookup_returned_nothing_was_not_lost_by_the_operator(tmp_path: Path) -> None:
    history = tmp_path / "h.jsonl"
    who = '"s":0,"a":1,"id":7'
    history.write_text(
        f'{{"history":1}}\n{{"n":1,"t":1,"k":"in","pos":0,{who}}}\n'
        f'{{"n":2,"t":2,"k":"call","try":1,{who}}}\n'
        f'{{"n":3,"t":3,"k":"res","try":1,"r":"ok","final":true,"v":[],{who}}}\n',
        encoding="utf-8",
    )

    broke = told(violated(history, Anomaly(kind="lost", say="gone", events=(1,), s=0, id=7))).broke

    assert broke == "the lookup returned nothing for record 7, of which results are expected"


def test_a_double_names_both_attempts_and_the_restore_between(tmp_path: Path) -> None:
    history = tmp_path / "h.jsonl"
    common = '"s":0,"a":%d,"id":7,"j":0,"v":"x"}'
    history.write_text(
        '{"history":1}\n{"n":1,"t":1,"k":"in","s":0,"a":1,"pos":0,"id":7}\n'
        f'{{"n":2,"t":2,"k":"out",{common % 1}\n'
        '{"n":3,"t":3,"k":"restore","s":0,"a":2,"c":4,"elements":[{"id":7}]}\n'
        f'{{"n":4,"t":4,"k":"out",{common % 2}\n',
        encoding="utf-8",
    )

    broke = told(violated(history, Anomaly(kind="duplicate", say="twice", events=(2, 4), s=0, id=7))).broke

    assert broke == (
        "record 7 was doubled: attempt 1 emitted it, and attempt 2 again after checkpoint 4 was restored"
    )


def test_doubled_rows_of_a_table_are_counted_in_plain_words(tmp_path: Path) -> None:
    history = tmp_path / "h.jsonl"
    row = '"k":"row","table":"output","id":7,"j":0,"v":"x"}\n'
    history.write_text(f'{{"history":1}}\n{{"n":1,"t":1,{row}{{"n":2,"t":2,{row}', encoding="utf-8")
    twice = Anomaly(
        kind="row-doubled", say="2 rows, for 1 visible in O*", events=(1, 2), id=7, table="output"
    )

    assert told(violated(history, twice)).broke == 'record 7 was doubled: table "output" holds 2 rows of it'


@pytest.mark.parametrize(
    ("how", "told_as"),
    [
        ('"r":"timeout"', "was not answered in time after 5.0 s"),
        ('"r":"err","error":"OperationalError: 1205"', "failed with OperationalError: 1205 after 5.0 s"),
    ],
)
def test_a_call_that_failed_its_attempt_is_told_with_how_it_ended(
    tmp_path: Path, how: str, told_as: str
) -> None:
    history = tmp_path / "h.jsonl"
    who = '"s":0,"a":1,"id":7'
    history.write_text(
        f'{{"history":1}}\n{{"n":1,"t":1,"k":"in","pos":0,{who}}}\n'
        f'{{"n":2,"t":2,"k":"call","try":1,{who}}}\n'
        f'{{"n":3,"t":5000002,"k":"res","try":1,"final":true,{how},{who}}}\n'
        f'{{"n":4,"t":5000002,"k":"failed","error":"TimeoutError",{who}}}\n',
        encoding="utf-8",
    )
    failed = Anomaly(kind="unexplained-failure", say="it fails", events=(3, 4), s=0, id=7)

    assert told(violated(history, failed, invariant="V24")).broke == (
        f"the call for record 7 {told_as}, which no fault explains, and failed attempt 1 of subtask 0"
    )


def test_an_anomaly_of_no_record_is_told_in_the_checkers_words(tmp_path: Path) -> None:
    history = tmp_path / "h.jsonl"
    write_history(history, records=20)

    broke = told(
        violated(history, Anomaly(kind="gap", say="none for 9 s", events=(1,)), invariant="V18")
    ).broke

    assert broke == "none for 9 s"


def test_what_a_job_doubled_is_told_with_its_moment(tmp_path: Path) -> None:
    banner = told(killed_twice(tmp_path))

    assert banner.broke.startswith(
        "record 140 (key 20) and 9 more were doubled: transaction 116 of start 3 at 3.700 s"
    )
    assert {number.name: number.count for number in banner.numbers} == {
        "offered": 200, "visible": 210, "missing": 0, "doubled": 10,
    }  # fmt: skip


def test_what_a_job_doubled_is_told_to_its_end_which_is_the_cause(tmp_path: Path) -> None:
    outcome = doubled(tmp_path)
    history, held = Path(outcome.history), "answer of INSERT"
    assert held in history.read_text()
    history.write_text(history.read_text().replace(held, f"{held}, {'a fact, ' * 30}"))

    broke = told(outcome).broke

    assert len(broke) > 220
    assert broke.endswith("and start 1 ended (SIGKILL) at 0.000 s")


@pytest.mark.parametrize(
    ("error", "broke"),
    [
        (f"it failed; the last time: {'x' * 150}; {'y' * 150}", f"it failed; the last time: {'x' * 150} …"),
        (f"{'x' * 150}. {'y' * 150}", f"{'x' * 150}. …"),
        (f"It failed. {'word ' * 60}", f"It failed. {'word ' * 41}…"),
        ("word " * 60, f"{'word ' * 44}…"),
        ("z" * 300, f"{'z' * 220} …"),
    ],
)
def test_a_long_error_is_cut_where_a_part_of_its_sentence_or_else_a_word_ends(
    tmp_path: Path, error: str, broke: str
) -> None:
    assert told(pass_outcome(tmp_path, error=error)).broke == broke


def test_nothing_broke_in_a_run_that_passed(tmp_path: Path) -> None:
    banner = told(pass_outcome(tmp_path))

    assert (banner.broke, banner.contradiction) == ("", "")
    assert not any(number.odd for number in banner.numbers)


@pytest.mark.parametrize("name", ["missing", "doubled", "disordered"])
def test_a_green_banner_says_which_numbers_speak_against_it(tmp_path: Path, name: str) -> None:
    outcome = pass_outcome(tmp_path)
    banner = told(replace(outcome, accounting={**outcome.accounting, name: 285}))

    assert f"285 {name}" in banner.contradiction
    assert [(number.name, number.count) for number in banner.numbers if number.odd] == [(name, 285)]


def test_a_green_planted_defect_says_that_its_damage_is_real(tmp_path: Path) -> None:
    page = page_text(
        view_of([lost_outcome(tmp_path, mutant="m", convicts=("V8",))]),
        title="one",
    )

    assert 'class="verdict good"' in page
    assert "Green means that the planted defect was found. Its damage is real: 5 missing." in page


def test_over_a_run_with_a_planted_defect_and_one_without_stands_what_it_did_and_that_it_was_caught_h4(
    tmp_path: Path,
) -> None:
    clean = pass_outcome(tmp_path)
    planted = replace(lost_outcome(tmp_path, mutant="forgets", convicts=("V8",)), scenario=clean.scenario)
    outcomes = [clean, planted]

    banner = banner_of_all([(one, told(one)) for one in outcomes], headline_of(outcomes), whole=True)

    assert banner.rest.startswith("We planted a bug (forgets), and it was caught: 5 lost of ")
    assert "Without it the same scenario passes. 2 runs: 2 as expected" in banner.rest
    assert not banner.contradiction


def test_over_several_runs_the_first_that_broke_leads_and_their_numbers_are_added(tmp_path: Path) -> None:
    outcomes = [pass_outcome(tmp_path), lost_outcome(tmp_path)]
    banner = banner_of_all([(o, told(o)) for o in outcomes], headline_of(outcomes), whole=True)

    told_first = "record 1194 was accepted, answered and lost: snapshot 8 omits it"
    assert banner.broke.startswith(f"{told_first} (worker-killed")
    assert ("visible", 1277) in [(number.name, number.count) for number in banner.numbers]


def test_the_sentence_of_what_broke_is_not_told_again_and_again(tmp_path: Path) -> None:
    """In the banner, and where the reasoning ends in it: not in headings, leads, threats and tables."""
    error = pass_outcome(tmp_path, error=RAISED)
    lost = section_of(lost_outcome(tmp_path))

    assert page_text(view_of([error]), title="one").count("raised KeyError: 13") <= 2
    page = page_text(view_of([lost.outcome]), title="one")
    assert page.count("record 1194 was accepted, answered and lost") == 1
    assert page.count("record 1194 was accepted and output 0 of it is visible in no epoch") <= 2
