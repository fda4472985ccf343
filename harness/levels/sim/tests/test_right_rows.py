"""Right rows at level sim: answers of the version of their time, of their own key, to their own call (T6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from harness.engine.cross_checks import refuse_other_expectations
from harness.history.event import Change, In, Res
from harness.history.verdict import Judgement, Outcome
from harness.judge.checkers.judge import judge
from harness.levels.sim.run import Simulated, customers, simulate_scenario
from harness.scenario.file import apply_settings, load_many
from harness.scenario.order import Order
from harness.sut.defects import variant_of
from harness.system.errors import HarnessError
from tools.cases import in_sweep_after
from tools.defects import mutant_named

SMALL = (
    "workload.records=60",
    "workload.checkpoint_every=20",
    "expects.records=120",
    "expects.checkpoints=2",
)
CHANGING = (
    *SMALL,
    "workload.keys=8",
    "faults.migration.count=4",
    "faults.migration.when.at=40ms",
    "faults.migration.for=40ms",
    "faults.migration.every=60ms",
    "faults.migration.repeat=2",
)

COMING_AND_GOING = (
    *SMALL,
    "workload.keys=16",
    "faults.deletions.count=8",
    "faults.deletions.when.at=40ms",
    "faults.deletions.for=30ms",
    "faults.deletions.every=50ms",
    "faults.deletions.repeat=3",
)

UNTOLD = (*SMALL, "workload.expected=untold", "workload.keys=8")


def order_of(name: str, settings: Sequence[str] = SMALL, *, mutant: str | None = None) -> Order:
    [scenario] = load_many([name])
    return Order(scenario=apply_settings(scenario, settings), level="sim", seed=5, mutant=mutant)


def simulated(name: str, settings: Sequence[str] = SMALL, *, mutant: str | None = None) -> Simulated:
    named = None if mutant is None else mutant_named(mutant)
    return simulate_scenario(order_of(name, settings, mutant=named), variant=variant_of(named))


def judged(name: str, settings: Sequence[str] = SMALL, *, mutant: str | None = None) -> Judgement:
    run = simulated(name, settings, mutant=mutant)
    return judge(run.header, run.events)


def kinds(judgement: Judgement, invariant: str) -> set[str]:
    """The classes of the anomalies by which `invariant` convicts."""
    [verdict] = [verdict for verdict in judgement.invariants if verdict.invariant == invariant]
    return {anomaly.kind for anomaly in verdict.anomalies}


def test_a_run_whose_rows_change_passes_and_tells_each_change_trust6() -> None:
    run = simulated("rows-change", CHANGING)

    changes = [event for event in run.events if isinstance(event, Change)]
    assert judge(run.header, run.events).outcome is Outcome.PASS
    assert run.header.versions
    assert run.header.by_key
    assert run.header.expect_from == "given"
    told = {(change.key, change.ver, change.phase) for change in changes}
    assert told == {(key, ver, phase) for key in range(4) for ver in (1, 2) for phase in ("begin", "end")}


def test_answers_are_read_from_every_version_and_tell_it_trust6() -> None:
    run = simulated("rows-change", CHANGING)

    key_of = {event.id: event.key for event in run.events if isinstance(event, In)}
    read: dict[Any, set[Any]] = {}
    for event in run.events:
        if isinstance(event, Res):
            read.setdefault(key_of[event.id], set()).add(event.ver)
    assert read[7] == {0}
    assert set().union(*(read[key] for key in range(4))) == {0, 1, 2}


def test_only_keys_that_never_change_have_an_expected_result_trust6() -> None:
    run = simulated("rows-change", CHANGING)

    expecting = {event.key for event in run.events if isinstance(event, In) and event.expect}
    assert expecting == set(range(4, 8))


def test_rows_that_are_deleted_give_no_results_until_they_are_inserted_again_trust6() -> None:
    run = simulated("rows-come-and-go", COMING_AND_GOING)

    keys: dict[Any, Any] = {event.id: event.key for event in run.events if isinstance(event, In)}
    found: dict[int, set[tuple[int, Any]]] = {}
    ended = 0
    for event in run.events:
        if isinstance(event, Change):
            ended = event.ver if event.phase == "end" else -1
        elif isinstance(event, Res) and ended >= 0 and keys[event.id] in range(8):
            assert isinstance(event.v, list)
            found.setdefault(ended, set()).add((len(event.v), event.ver))
    assert judge(run.header, run.events).outcome is Outcome.PASS
    assert (1, 0) in found[0]
    assert (1, 2) in found[2]
    assert (0, UNSET) in found[1] & found[3]


@pytest.mark.sweep
def test_a_key_without_rows_that_is_never_asked_for_again_convicts_trust6() -> None:
    assert kinds(judged("rows-come-and-go", mutant="misses-remembered", settings=()), "V8") == {
        "inconsistent"
    }


@pytest.mark.parametrize("count", [1, None], ids=["one", "all"])
def test_a_record_that_lost_its_expected_result_is_a_defect_of_the_harness_trust6(count: int | None) -> None:
    """Also where some keys change, whose records have none."""
    order = order_of("rows-change", CHANGING)
    rows, run = customers(order.scenario, order.seed), simulate_scenario(order)
    expecting = [event.n for event in run.events if isinstance(event, In) and event.expect]
    lost = expecting[:count]
    less = [
        replace(event, expect=UNSET) if isinstance(event, In) and event.n in lost else event
        for event in run.events
    ]

    refuse_other_expectations(order, rows, run.events)
    with pytest.raises(HarnessError, match="has no expected results"):
        refuse_other_expectations(order, rows, less)


def test_a_result_told_for_a_key_whose_rows_change_is_a_defect_of_the_harness_trust6() -> None:
    order = order_of("rows-change", CHANGING)
    rows, run = customers(order.scenario, order.seed), simulate_scenario(order)
    told = [replace(e, expect=[]) if isinstance(e, In) and e.expect is UNSET else e for e in run.events]

    with pytest.raises(HarnessError, match="which are not known"):
        refuse_other_expectations(order, rows, told)


def test_a_run_whose_rows_stay_claims_no_versions_and_tells_none() -> None:
    run = simulated("replies-overtake")

    assert not run.header.versions
    assert not any(event.ver for event in run.events if isinstance(event, Res))


MUTANTS = [
    ("rows-change", CHANGING, "stale-cache", "V8", "stale"),
    ("rows-change", CHANGING, "stale-snapshot", "V8", "stale"),
    ("rows-change", (*CHANGING, "workload.keys_like=wide", "workload.keys=16"), "key-in-8-bits", "V8", "future"),
    ("rows-change", CHANGING, "crossed-replies", "V8", "inconsistent"),
    ("keys-beyond-a-byte", SMALL, "key-in-8-bits", "V8", "wrong-value"),
    ("keys-beyond-two-bytes", SMALL, "key-in-16-bits", "V8", "wrong-value"),
    ("keys-beyond-two-bytes", SMALL, "key-as-double", "V8", "wrong-value"),
    ("values-odd", SMALL, "texts-in-latin-1", "V8", "wrong-value"),
    ("values-odd", SMALL, "texts-stripped", "V8", "wrong-value"),
    ("values-odd", SMALL, "null-as-text", "V8", "wrong-value"),
    ("values-odd", SMALL, "numbers-in-32-bits", "V8", "wrong-value"),
    ("keys-signed", SMALL, "key-without-sign", "V8", "wrong-value"),
    ("keys-unicode", SMALL, "key-folded", "V8", "wrong-value"),
    ("keys-composite", SMALL, "key-parts-joined", "V8", "wrong-value"),
    ("replies-overtake", SMALL, "crossed-replies", "V19", "foreign-response"),
    ("replies-overtake", UNTOLD, "crossed-replies", "V8", "inconsistent"),
]  # fmt: skip


CASES = [pytest.param(*case, id=f"{case[0]}: {case[2]}, {case[4]}") for case in MUTANTS]


@pytest.mark.parametrize(("name", "settings", "mutant", "invariant", "kind"), in_sweep_after(5, CASES))
def test_a_lookup_that_gets_wrong_rows_is_convicted_by_the_class_meant_for_it_trust6(
    name: str, settings: Sequence[str], mutant: str, invariant: str, kind: str
) -> None:
    assert kind in kinds(judged(name, settings, mutant=mutant), invariant)


@pytest.mark.parametrize(("name", "settings"), in_sweep_after(3, [case[:2] for case in MUTANTS]))
def test_the_reference_gets_the_rows_of_its_key_trust6(name: str, settings: Sequence[str]) -> None:
    verdicts = {verdict.invariant: verdict.outcome for verdict in judged(name, settings).invariants}

    assert verdicts["V8"] is Outcome.PASS
    assert verdicts["V19"] is Outcome.PASS
