"""Claims about blame: only what the database lost is taken off the system under test, and never as a pass."""

from __future__ import annotations

from dataclasses import replace

from harness.engine.two_servers import blamed_on_database
from harness.history.event import Row
from harness.history.verdict import Anomaly, InvariantVerdict, Judgement, Outcome
from harness.scenario.claims import OUTPUTS

HONEST = InvariantVerdict(invariant="V22", outcome=Outcome.PASS, observed=9)
PASSES = InvariantVerdict(invariant="V1", outcome=Outcome.PASS)


def lost(*ids: int, omitted: int = 0) -> InvariantVerdict:
    anomalies = tuple(Anomaly(kind="lost", say="it is missing", events=(1,), id=one) for one in ids)
    return InvariantVerdict(invariant="V8", outcome=Outcome.FAIL, anomalies=anomalies, omitted=omitted)


def judged(*verdicts: InvariantVerdict, outcome: Outcome = Outcome.FAIL) -> Judgement:
    return Judgement(outcome=outcome, invariants=verdicts)


def blamed(found: Judgement, *, there: int | None = None, substrate: InvariantVerdict = HONEST) -> Judgement:
    rows = [] if there is None else [Row(n=1, t=0, table=OUTPUTS, id=there, j=0, v="x")]
    return blamed_on_database(found, rows, substrate=substrate, epochs={(0, 5), (0, 6)}, ids={7, 8, 9})


def test_a_record_that_the_database_lost_makes_the_run_undecided() -> None:
    judgement = blamed(judged(PASSES, lost(7, 8)))

    assert judgement.outcome is Outcome.UNKNOWN
    assert [(one.invariant, one.outcome) for one in judgement.invariants] == [
        ("V1", Outcome.PASS),
        ("V8", Outcome.UNKNOWN),
        ("V22", Outcome.PASS),
    ]
    assert "blamed on the database" in judgement.invariants[1].why


def test_a_record_that_it_had_never_acknowledged_still_convicts() -> None:
    assert blamed(judged(PASSES, lost(7, 10))).outcome is Outcome.FAIL


def test_more_than_what_it_lost_still_convicts_though_only_some_are_listed() -> None:
    assert blamed(judged(lost(7, 8, omitted=1))).outcome is Outcome.UNKNOWN
    assert blamed(judged(lost(7, 8, omitted=2))).outcome is Outcome.FAIL


def test_a_record_that_was_written_again_is_no_excuse_for_another() -> None:
    assert blamed(judged(lost(7, 8, omitted=1)), there=9).outcome is Outcome.FAIL


def test_a_double_is_nobodys_but_who_wrote_it() -> None:
    doubled = replace(lost(7), anomalies=(Anomaly(kind="duplicate", say="twice", events=(1,), id=7),))

    assert blamed(judged(doubled)).outcome is Outcome.FAIL


def test_an_epoch_that_it_lost_is_taken_off_and_another_is_not() -> None:
    def never(c: int) -> InvariantVerdict:
        anomaly = Anomaly(kind="never-committed", say="not there", events=(1,), s=0, c=c)
        return InvariantVerdict(invariant="V12", outcome=Outcome.FAIL, anomalies=(anomaly,))

    assert blamed(judged(never(5))).outcome is Outcome.UNKNOWN
    assert blamed(judged(never(4))).outcome is Outcome.FAIL


def test_a_pass_over_a_database_that_broke_its_word_is_none() -> None:
    broken = replace(HONEST, outcome=Outcome.UNKNOWN)

    assert blamed(judged(PASSES, outcome=Outcome.PASS), substrate=broken).outcome is Outcome.UNKNOWN
