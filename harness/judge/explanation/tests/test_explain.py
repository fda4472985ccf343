"""A judgement that is explained keeps its verdicts; the first anomalies become contradictions; nothing raises."""

from __future__ import annotations

import gzip
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.history.read import read_whole
from harness.history.verdict import ANOMALIES_IN_FULL, Anomaly, InvariantVerdict, Judgement, Outcome
from harness.judge.checkers.invariant import in_full
from harness.judge.checkers.judge import judge_file
from harness.judge.checkers.tests.small_histories import (
    called,
    ended,
    history,
    left,
    settled,
    stall,
    start,
    text,
    took,
)
from harness.judge.explanation import explain
from harness.judge.explanation.explain import explained_events, explained_file
from harness.judge.explanation.text import anomaly_lines, closing_lines, rest_of
from tools.cases import each

UNDISTURBED = "no fault began, and no attempt was killed"
HOSTILE = "\x1b[2J\u202e\x00</script>`|"


def written(folder: Path, *parts: Any, **header: Any) -> Path:
    path = folder / "history.jsonl"
    path.write_bytes(text(history(*parts, **header)) + b"\n")
    return path


def judged(path: Path) -> Judgement:
    judgement = judge_file(path)
    assert isinstance(judgement, Judgement), judgement
    return judgement


def doubled(*ids: Any) -> list[Any]:
    """Each record leaves twice."""
    parts = [[took(id_, pos), settled(id_), left(id_)] for pos, id_ in enumerate(ids)]
    return [start(), *parts, ended()]


def found(judgement: Judgement, name: str) -> InvariantVerdict:
    return next(verdict for verdict in judgement.invariants if verdict.invariant == name)


def test_the_verdicts_stay_as_they_were(tmp_path: Path) -> None:
    path = written(tmp_path, doubled("a", "b"))
    judgement = judged(path)

    explained = explained_file(judgement, path)

    bare = tuple(
        replace(verdict, anomalies=tuple(replace(a, explanation=None) for a in verdict.anomalies))
        for verdict in explained.invariants
    )
    assert bare == judgement.invariants
    assert explained.outcome is judgement.outcome


def test_a_history_in_memory_is_explained_as_its_file_is(tmp_path: Path) -> None:
    path = written(tmp_path, doubled("a"), stall("begin"), stall("end"))
    judgement = judged(path)

    assert explained_events(judgement, *read_whole(path)) == explained_file(judgement, path)


def test_a_compressed_file_is_explained_as_the_plain_one_is(tmp_path: Path) -> None:
    path = written(tmp_path, doubled("a"))
    packed = path.with_name("history.jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))

    assert explained_file(judged(packed), packed) == explained_file(judged(path), path)


def test_at_most_ten_anomalies_of_an_invariant_are_told_in_full_and_the_rest_counted(tmp_path: Path) -> None:
    path = written(tmp_path, doubled(*range(13)))

    verdict = found(explained_file(judged(path), path), "V8")

    told = [anomaly.explanation is not None for anomaly in verdict.anomalies]
    assert told == [True] * ANOMALIES_IN_FULL + [False] * 3
    assert rest_of(verdict) == "13 found in all; not explained: 3 duplicate"


def test_json_has_let_and_then_beside_the_fields_of_the_page(tmp_path: Path) -> None:
    path = written(tmp_path, doubled("a"))

    printed = json.loads(json.dumps(explained_file(judged(path), path).as_json()))

    (verdict,) = [v for v in printed["invariants"] if v["invariant"] == "V8"]
    (anomaly,) = verdict["anomalies"]
    assert {"class", "s", "id", "events", "say", "explanation"} == anomaly.keys()
    assert anomaly["explanation"]["let"][0].startswith('e1 = record "a" comes in at position 0')
    assert anomaly["explanation"]["then"][-1].endswith("a contradiction.")
    assert printed["guarantee"]["delivery"] == "at-least-once"
    assert printed["recovery"] == {"costs": [], "omitted": 0, "why": UNDISTURBED}


def test_a_history_without_a_fault_or_a_second_attempt_is_not_read_again(tmp_path: Path) -> None:
    path = written(tmp_path, start(), took("a", 0), settled("a"), ended())
    judgement = judged(path)
    path.unlink()

    explained = explained_file(judgement, path)

    assert explained.guarantee is not None
    assert explained.guarantee.delivery == "effectively-once"
    assert explained.recovery is not None
    assert explained.recovery.why == "no fault began, and no attempt followed another"


def test_a_fault_that_was_active_is_told_with_its_evidence_and_blamed_for_nothing(tmp_path: Path) -> None:
    path = written(
        tmp_path, start(), took("a", 0), stall("begin"), settled("a"), left("a"), stall("end"), ended()
    )

    (anomaly,) = found(explained_file(judged(path), path), "V8").anomalies

    assert anomaly.explanation is not None
    assert anomaly.explanation.let[-1] == 'z1 = fault "pause" (events 3 to 8, evidence {"held": 1})'
    assert "z1 was active meanwhile; e2 and e3 fell into it." in anomaly.explanation.then


def test_the_guarantee_names_only_disturbances_that_left_evidence(tmp_path: Path) -> None:
    parts = [start(), took("a", 0), settled("a"), stall("begin"), stall("end"), stall("begin", f="mute")]
    path = written(tmp_path, parts, stall("end", f="mute", evidence={}), ended())

    guarantee = explained_file(judged(path), path).guarantee

    assert guarantee is not None
    assert guarantee.under == ('fault "pause"',)


def test_an_unreadable_file_is_no_error_and_claims_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, doubled("a"), stall("begin"))
    judgement = judged(path)
    path.unlink()

    explained = explained_file(judgement, path)

    assert all(a.explanation is None for verdict in explained.convicted() for a in verdict.anomalies)
    assert explained.recovery is not None
    assert "could not be read" in explained.recovery.why


def test_a_defect_of_an_explanation_hides_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("planted")

    path = written(tmp_path, *doubled(7))
    monkeypatch.setattr(explain, "survey", broken)
    before = judge_file(path)
    assert isinstance(before, Judgement)

    after = explained_file(before, path)

    assert after.invariants == before.invariants
    assert "ZeroDivisionError: planted" in after.warnings[-1]


def test_facts_that_cannot_be_found_leave_the_sentence_of_the_anomaly() -> None:
    def broken() -> list[str]:
        raise ZeroDivisionError("planted")

    anomaly = Anomaly(kind="lost", say="it is gone", events=(2,), then=broken, rule="nothing is lost")

    (found,) = in_full([anomaly])

    assert (found.say, found.then, found.rule) == ("it is gone", (), "")


def test_a_verdict_holds_the_facts_of_the_anomalies_that_are_explained_and_can_be_pickled(
    tmp_path: Path,
) -> None:
    judgement = judged(written(tmp_path, doubled(*range(13))))

    copy = pickle.loads(pickle.dumps(judgement))  # noqa: S301

    facts = [bool(anomaly.then) for anomaly in found(copy, "V8").anomalies]
    assert copy == judgement
    assert facts == [True] * ANOMALIES_IN_FULL + [False] * 3


def test_an_anomaly_without_facts_is_explained_by_its_sentence(tmp_path: Path) -> None:
    path = written(tmp_path, doubled("a"))
    anomaly = Anomaly(kind="brand-new", say="something odd came to pass", events=(2,), s=0)
    verdict = InvariantVerdict(invariant="V8", outcome=Outcome.FAIL, anomalies=(anomaly,))

    explained = explained_file(Judgement(outcome=Outcome.FAIL, invariants=(verdict,)), path)

    (told,) = explained.invariants[0].anomalies
    assert told.explanation is not None
    assert told.explanation.then[0] == "Something odd came to pass."
    assert told.explanation.then[-1].startswith("However, Every record's results are visible in the end")


@each("odd", [HOSTILE, "\ud800", 10**40, -(2**70), "x" * 100_000, "e1 \ue0003\ue001"])
def test_odd_ids_are_told_whole_or_cut_and_never_bare(tmp_path: Path, odd: int | str) -> None:
    path = written(tmp_path, doubled(odd))

    (anomaly,) = found(explained_file(judged(path), path), "V8").anomalies

    lines = anomaly_lines(anomaly)
    assert len(lines) > 5
    assert not {"\x1b", "\u202e", "\x00", "\ud800"} & set("".join(lines))
    assert all(len(line) < 1000 for line in lines)


def test_a_record_that_comes_back_thousands_of_times_costs_a_bounded_explanation(tmp_path: Path) -> None:
    calls = [called("a", **{"try": number}) for number in range(1, 900)]
    path = written(tmp_path, start(), took("a", 0), calls, ended())

    explained = explained_file(judged(path), path)

    told = [a.explanation for verdict in explained.convicted() for a in verdict.anomalies if a.explanation]
    assert told
    assert all(len(explanation.let) <= 16 and len(explanation.then) < 16 for explanation in told)


def test_the_closing_lines_say_what_holds_and_under_what(tmp_path: Path) -> None:
    path = written(tmp_path, doubled("a"))

    lines = closing_lines(explained_file(judged(path), path))

    assert lines == [
        "Still holds: V1 V14 V15 V16 V21",
        "Guarantee: at-least-once, ordered; seen without faults",
        "  at-most-once: refuted by V8 duplicate",
        "  No effects are claimed or shown, so the guarantee does not cover rows in the database.",
        f"Recovery (V17): not measured, because {UNDISTURBED}",
    ]
