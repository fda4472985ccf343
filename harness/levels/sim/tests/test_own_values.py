"""A user's lookup is judged by what it must return: as stated, or as its calm twin returned it (U1)."""

from __future__ import annotations

import gc
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from harness.engine.expectation import find_expected, questions_of, with_versions
from harness.engine.level import Opening, RunSite
from harness.engine.perform import perform
from harness.history.event import Call, Change, Event, In, Res
from harness.history.read import open_history
from harness.history.verdict import Outcome
from harness.levels.sim.level import SimulatedLevel, ask_in_child, ask_simulated
from harness.levels.sim.run import customers
from harness.levels.sim.tests import own_lookups
from harness.scenario.file import apply_settings, load_many
from harness.scenario.order import Order
from harness.scenario.outcome import RunOutcome
from harness.scenario.plan import Expected, JudgedValues
from harness.scenario.workloads.lookups import LookupSource, expected_results
from harness.sut.calm_twin import ASKED_MAX
from harness.system.errors import SutError
from harness.system.forked import in_child

MODULE = own_lookups.__name__
SMALL = (
    "workload.records=30",
    f"workload.keys={own_lookups.KEYS}",
    "workload.checkpoint_every=12",
    "expects.records=60",
    "expects.checkpoints=2",
)
CUT = (*SMALL, "faults.cut.when.call=10", "faults.cut.for=60ms")
RIGHT = (
    "retries",
    "several",
    "none_for_every_third_key",
    "one_dict",
    "tuples",
    "with_the_record",
    "with_the_service_time",
    "caches",
)


def order(
    function: str, *settings: str, scenario: str = "calm", expected: str | None = None, seed: int = 1
) -> Order:
    [found] = load_many([scenario])
    name = function if function == "reference" else f"{MODULE}:{function}"
    chosen = settings or SMALL
    return Order(scenario=apply_settings(found, chosen), level="sim", seed=seed, sut=name, expected=expected)


def known(asked: Order) -> tuple[Expected, JudgedValues]:
    """What the twin makes of it, in this process."""
    rows = customers(asked.scenario, asked.seed)
    return find_expected(asked, rows, ask=lambda questions: ask_simulated(questions, rows=rows, row_bytes=0))


def performed(asked: Order, folder: Path) -> RunOutcome:
    with SimulatedLevel().open(Opening()) as play:
        return perform(asked, play=play, site=RunSite(run_id="run", folder=folder / "run"))


def of(outcome: RunOutcome, invariant: str) -> Outcome:
    return next(v.outcome for v in outcome.judgement.invariants if v.invariant == invariant)


# ----------------------------------------------------------------------------------------------- the twin


@pytest.mark.parametrize(
    "settings",
    [
        ("workload.fanout=4",),
        ("workload.keys_like=composite",),
        ("workload.keys_like=unicode", "workload.rows_like=odd"),
    ],
)
def test_the_twin_of_the_reference_agrees_with_the_catalogues_expectation_u1(
    settings: tuple[str, ...],
) -> None:
    asked = order("reference", *SMALL, "workload.keys=40", *settings)
    rows = customers(asked.scenario, asked.seed)
    source = LookupSource(workload=asked.scenario.workload, seed=asked.seed, subtask=0)
    records = [record for record, _ in source.records]

    lines = ask_simulated(questions_of(asked, records), rows=rows, row_bytes=0)

    table = expected_results(rows)
    answers = {own_key(line["key"]): line["v"] for line in lines if line["k"] == "answer"}
    assert answers == {record.key: table.get(record.key, []) for record in records}


def own_key(told: Any) -> Any:
    return tuple(told) if isinstance(told, list) else told


def test_each_key_is_asked_for_once_and_some_twice_u1() -> None:
    own_lookups.asked.clear()

    expected, values = known(order("retries"))

    assert (values.calls, len(own_lookups.asked)) == (own_lookups.KEYS + 3, own_lookups.KEYS + 3)
    assert expected.by_key
    assert f"{own_lookups.KEYS} of {own_lookups.KEYS} keys" in values.says


@pytest.mark.parametrize("function", ["with_the_record", "with_the_service_time"])
def test_a_function_that_uses_more_than_the_key_is_asked_for_each_record_u1(function: str) -> None:
    expected, values = known(order(function))

    assert not expected.by_key
    assert len(expected.of_records) == 60
    assert "60 of 60 records" in values.says


def test_two_answers_to_one_question_leave_all_values_unjudged_u1() -> None:
    expected, values = known(order("counts"))

    assert expected == Expected(source="calm")
    assert "not deterministic" in values.says
    assert "it returned [" in values.says


def test_a_key_whose_call_fails_without_a_fault_is_expected_to_yield_nothing_u1() -> None:
    expected, values = known(order("fails_for_one"))

    assert dict(expected.of_keys)[3] == []
    assert len(expected.of_keys) == own_lookups.KEYS
    [threat] = values.threats
    assert "for 1 of 12 keys" in threat
    assert "key 3: ValueError: not three" in threat


def test_a_call_that_fails_once_and_not_again_leaves_its_key_unknown_u1() -> None:
    own_lookups.calls[0] = 0

    expected, _ = known(order("fails_first"))

    assert len(expected.of_keys) == own_lookups.KEYS - 1


@pytest.mark.parametrize(
    ("function", "why"),
    [("fails", "ValueError: nothing for key"), ("never_ends", "no call ended within 10 s")],
)
def test_a_function_that_never_answers_is_refused_u1(function: str, why: str) -> None:
    with pytest.raises(SutError, match=f"your function fails without any fault: {why}"):
        known(order(function))


def test_a_function_that_always_fails_is_refused_with_its_line_u1() -> None:
    with pytest.raises(SutError, match=r"nothing for key .*own_lookups\.py:\d+\) for record") as refused:
        known(order("fails"))

    assert "correct it there" in refused.value.fix


def test_what_is_no_json_is_refused_before_the_run_u1() -> None:
    with pytest.raises(SutError, match="lookup returned set for record"):
        known(order("returns_a_set"))


@pytest.mark.sweep
def test_of_a_million_keys_a_sample_by_seed_is_asked_and_the_sentence_tells_of_how_many_u1() -> None:
    """The cost is bounded by `ASKED_MAX`, whatever the table."""
    asked = order("retries", *SMALL, "workload.keys=1000000", "workload.records=1000", "workload.subtasks=1")
    source = LookupSource(workload=asked.scenario.workload, seed=asked.seed, subtask=0)
    records = [record for record, _ in source.records]
    rows = [[record.key, f"customer {record.key}", "city", 1] for record in records]

    _, values = find_expected(
        asked, rows, ask=lambda questions: ask_simulated(questions, rows=rows, row_bytes=0)
    )

    assert values.calls == ASKED_MAX + ASKED_MAX // 10
    assert f"{ASKED_MAX} of {len({record.key for record in records})} keys, drawn by the seed" in values.says
    again = [question.record["key"] for question in questions_of(asked, records).keys]
    assert again == [question.record["key"] for question in questions_of(asked, records).keys]


def test_a_key_that_a_fault_changes_has_no_expected_results_u1() -> None:
    asked = order("retries", *SMALL, "workload.keys=30", scenario="rows-change")

    expected, _ = known(asked)

    assert not {key for key, _ in expected.of_keys} & set(range(10))
    assert expected.by_key


def test_what_the_twin_leaves_in_a_module_is_not_seen_here_u1() -> None:
    own_lookups.asked.clear()
    asked = order("retries")
    rows = customers(asked.scenario, asked.seed)
    source = LookupSource(workload=asked.scenario.workload, seed=asked.seed, subtask=0)

    lines = ask_in_child(
        questions_of(asked, [record for record, _ in source.records]), rows=rows, row_bytes=0
    )

    assert lines[-1]["k"] == "end"
    assert own_lookups.asked == []


# ---------------------------------------------------------------------------------------------- expected


def test_stated_results_are_by_key_unless_more_of_the_record_is_read_u1() -> None:
    by_key, values = known(order("retries", expected=f"{MODULE}:stated"))
    by_record, _ = known(order("retries", expected=f"{MODULE}:stated_with_the_record"))

    assert (by_key.source, by_key.by_key, len(by_key.of_keys)) == ("given", True, own_lookups.KEYS)
    assert (by_record.by_key, len(by_record.of_records)) == (False, 60)
    assert (values.calls, f"`{MODULE}:stated`" in values.says) == (0, True)


def test_expected_of_the_lookups_module_is_found_u1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_lookups, "expected", own_lookups.stated, raising=False)

    expected, values = known(order("retries"))

    assert expected.source == "given"
    assert f"`{MODULE}:expected`" in values.says


def test_expected_that_returns_no_list_is_refused_with_the_line_to_write_u1() -> None:
    with pytest.raises(SutError, match="it returned dict") as refused:
        known(order("retries", expected=f"{MODULE}:stated_as_a_dict"))

    assert "def expected(record, rows)" in refused.value.fix


# ------------------------------------------------------------------------------------------- whole runs


@pytest.mark.sweep
@pytest.mark.parametrize("function", ["swallows", "shares_an_attribute", "call_before"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_wrong_under_faults_or_together_is_convicted_by_the_twin_u1(
    tmp_path: Path, function: str, seed: int
) -> None:
    outcome = performed(order(function, *CUT, scenario="connections-cut", seed=seed), tmp_path)

    assert of(outcome, "V8") is Outcome.FAIL


@pytest.mark.sweep
@pytest.mark.parametrize("function", ["wrong_key", "doubles", "drops", "constant"])
def test_what_is_wrong_by_itself_is_named_and_with_expected_convicted_u1(
    tmp_path: Path, function: str
) -> None:
    believed = performed(order(function), tmp_path / "twin")
    convicted = performed(order(function, expected=f"{MODULE}:stated"), tmp_path / "stated")

    of_constant = ["never-asked"] if function == "constant" else []
    assert [pitfall.name for pitfall in believed.pitfalls] == [*of_constant, "not-its-row"]
    assert of(convicted, "V8") is Outcome.FAIL


@pytest.mark.sweep
@pytest.mark.parametrize("function", RIGHT)
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_a_right_function_passes_u1(tmp_path: Path, function: str, seed: int) -> None:
    outcome = performed(order(function, *CUT, scenario="connections-cut", seed=seed), tmp_path)

    assert outcome.judgement.outcome is Outcome.PASS
    assert outcome.pitfalls == ()


def test_a_swallowed_error_is_convicted_and_the_history_tells_where_the_values_are_from_u1(
    tmp_path: Path,
) -> None:
    outcome = performed(order("swallows", *CUT, scenario="connections-cut"), tmp_path)

    assert of(outcome, "V8") is Outcome.FAIL
    assert "12 of 12 keys; 15 calls took" in outcome.values
    reader = open_history(outcome.history)
    assert reader.header is not None
    assert (reader.header.expect_from, reader.header.by_key) == ("calm", True)
    assert all(event.expect is not UNSET for event in reader.events() if isinstance(event, In))


def test_results_that_are_tuples_are_compared_as_lists_u1(tmp_path: Path) -> None:
    outcome = performed(order("tuples"), tmp_path)

    assert outcome.judgement.outcome is Outcome.PASS
    assert outcome.pitfalls == ()


def test_without_expected_values_a_run_is_vacuous_u1(tmp_path: Path) -> None:
    outcome = performed(order("retries", expected="none"), tmp_path)

    assert outcome.judgement.outcome is Outcome.VACUOUS
    assert of(outcome, "V8") is Outcome.VACUOUS
    assert "not judged" in outcome.values


def test_a_function_without_fixed_values_is_at_best_vacuous_u1(tmp_path: Path) -> None:
    outcome = performed(order("counts"), tmp_path)

    assert outcome.judgement.outcome is Outcome.VACUOUS
    assert "not deterministic" in outcome.values


def test_equal_orders_give_equal_bytes_whatever_the_function_keeps_u1(tmp_path: Path) -> None:
    """A cache of the module would answer the second run from the first."""
    runs = [performed(order("caches"), tmp_path / name).history.read_bytes() for name in ("one", "other")]

    assert runs[0] == runs[1]


def test_a_function_that_ends_its_process_is_refused_u1(tmp_path: Path) -> None:
    with pytest.raises(SutError, match="ended its process, with exit code 0"):
        performed(order("ends_the_process"), tmp_path)


# ------------------------------------------------------------------------------- rows that a fault changes


CHANGING = (
    *SMALL,
    "workload.keys=8",
    "faults.migration.count=4",
    "faults.migration.when.at=60ms",
    "faults.migration.for=20ms",
    "faults.migration.repeat=2",
    "faults.migration.every=40ms",
)


@pytest.mark.parametrize("how", ["update", "delete"])
def test_a_cache_that_outlives_a_change_is_stale_u1(tmp_path: Path, how: str) -> None:
    changing = (*CHANGING, f"faults.migration.how={how}")

    outcome = performed(order("caches_for_ever", *changing, scenario="rows-change"), tmp_path)

    [verdict] = [v for v in outcome.judgement.invariants if v.invariant == "V8"]
    assert {anomaly.kind for anomaly in verdict.anomalies} == {"stale"}
    assert "judged by the versions of their rows" in outcome.values


@pytest.mark.sweep
@pytest.mark.parametrize("how", ["update", "delete"])
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("function", ["retries", "none_for_every_third_key", "one_or_none"])
def test_answers_of_rows_that_change_are_not_convicted_u1(
    tmp_path: Path, function: str, how: str, seed: int
) -> None:
    changing = (*CHANGING, f"faults.migration.how={how}")

    outcome = performed(order(function, *changing, scenario="rows-change", seed=seed), tmp_path)

    assert of(outcome, "V8") is Outcome.PASS


def test_an_answer_has_the_version_that_it_shows_and_of_several_the_one_in_force_u1() -> None:
    """With `delete` versions 1 and 3 are alike: there are no rows."""
    asked = order("retries", *CHANGING, "faults.migration.how=delete", scenario="rows-change")
    rows = [[0, "ann", "Oslo", 1]]
    ann = {"name": "ann", "tier": 1}
    events: list[Event] = [
        In(n=1, t=1, s=0, a=1, pos=0, id=5, key=0),
        Call(n=2, t=2, s=0, a=1, id=5, try_=1),
        Change(n=3, t=3, phase="begin", ver=1, key=0),
        Res(n=4, t=4, s=0, a=1, id=5, try_=1, r="ok", final=True, v=[]),
        Change(n=5, t=5, phase="end", ver=1, key=0),
        Change(n=6, t=6, phase="begin", ver=2, key=0),
        Change(n=7, t=7, phase="end", ver=2, key=0),
        Change(n=8, t=8, phase="begin", ver=3, key=0),
        Call(n=9, t=9, s=0, a=1, id=5, try_=2),
        Res(n=10, t=10, s=0, a=1, id=5, try_=2, r="ok", final=True, v=[]),
        Call(n=11, t=11, s=0, a=1, id=5, try_=3),
        Res(n=12, t=12, s=0, a=1, id=5, try_=3, r="ok", final=True, v=[ann]),
        Call(n=13, t=13, s=0, a=1, id=5, try_=4),
        Res(n=14, t=14, s=0, a=1, id=5, try_=4, r="ok", final=True, v=[{"name": "bob"}]),
    ]

    told = with_versions(events, scenario=asked.scenario, rows=rows, keys=[0])

    assert [event.ver for event in told if isinstance(event, Res)] == [1, 3, 0, UNSET]


# -------------------------------------------------------------------------------------------- the child


def test_a_child_gives_its_result_and_leaves_nothing_behind_u1() -> None:
    kept: list[int] = []

    def work() -> int:
        kept.append(1)
        return len(kept)

    assert in_child(work, what="it") == 1
    assert kept == []


def test_an_error_in_a_child_is_raised_here_u1() -> None:
    def work() -> None:
        raise SutError("it is so", fix="mend it")

    with pytest.raises(SutError, match="it is so") as raised:
        in_child(work, what="it")

    assert raised.value.fix == "mend it"


def test_a_child_leaves_ctrl_c_to_its_parent_and_stops_when_that_tells_it_u3() -> None:
    stop = threading.Event()

    def work() -> list[bool]:
        os.kill(os.getpid(), signal.SIGINT)  # as a terminal does
        alone = stop.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        return [alone, stop.is_set()]

    assert in_child(work, what="it", stop=stop) == [False, True]
    assert not stop.is_set()


# ------------------------------------------------------------------------------------------ same in any process


def test_a_task_that_a_lookup_leaves_behind_does_not_fail_its_run_whenever_it_would_be_collected(
    tmp_path: Path,
) -> None:
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        outcome = performed(order("forgets_a_task"), tmp_path)
    finally:
        gc.set_threshold(*before)

    assert of(outcome, "V24") is Outcome.PASS
    assert of(outcome, "V8") is Outcome.PASS


def test_a_lookup_that_gives_its_connection_back_too_early_gets_the_answers_of_others(tmp_path: Path) -> None:
    outcome = performed(order("gives_back_too_early", *SMALL, "workload.service=60ms"), tmp_path)

    assert of(outcome, "V8") is Outcome.FAIL
