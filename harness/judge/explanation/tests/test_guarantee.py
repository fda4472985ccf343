"""The guarantee is the strongest that was shown and is not refuted; what was not seen is never claimed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.history.verdict import Anomaly, Guarantee, InvariantVerdict, Judgement, Outcome
from harness.judge.explanation.guarantee import DELIVERY, ORDER, guarantee_of, next_steps
from tools.cases import each

SEEN = dict.fromkeys(("V1", "V3", "V5", "V8", "V9", "V12", "V13", "V16"), Outcome.PASS) | {
    "V2": Outcome.NOT_CLAIMED
}


def guarantee(
    *failed: str, restores: int = 0, omitted: int = 0, outcomes: Mapping[str, Outcome] | None = None
) -> Guarantee:
    """Of a history in which all was seen, but for `outcomes`, and `failed` (`V8 duplicate`) convicts."""
    kinds: dict[str, list[str]] = {}
    for conviction in failed:
        name, kind = conviction.split()
        kinds.setdefault(name, []).append(kind)
    found = SEEN | dict(outcomes or {}) | dict.fromkeys(kinds, Outcome.FAIL)
    verdicts = tuple(
        InvariantVerdict(
            invariant=name,
            outcome=outcome,
            anomalies=tuple(Anomaly(kind=kind, say=kind, events=(1,)) for kind in kinds.get(name, ())),
            why="" if outcome in {Outcome.PASS, Outcome.FAIL} else f"the reason of {name}",
            observed=9,
            omitted=omitted if name in kinds else 0,
        )
        for name, outcome in found.items()
    )
    return guarantee_of(
        Judgement(outcome=Outcome.PASS, invariants=verdicts, accounting={"restores": restores})
    )


def why(found: Guarantee, level: str) -> str:
    (step,) = [step for step in found.not_reached if step.level == level]
    return f"refuted by {', '.join(step.refuted_by)}" if step.refuted_by else step.why


def test_where_everything_holds_it_is_the_strongest() -> None:
    found = guarantee()

    assert (found.delivery, found.order, found.not_reached) == ("fenced-exactly-once", "ordered", ())


@each(
    ("convicted", "delivery"),
    [
        ("V8 duplicate", "at-least-once"),
        ("V8 phantom", "at-least-once"),
        ("V8 lost", "at-most-once"),
        ("V8 wrong-value", "none"),
        ("V8 row-missing", "at-most-once"),
        ("V8 row-doubled", "at-least-once"),
        ("V8 row-foreign", "at-least-once"),
        ("V8 row-altered", "none"),
        ("V8 inconsistent", "none"),
        ("V8 stale", "none"),
        ("V8 future", "none"),
        ("V9 row-missing", "at-most-once"),
        ("V9 row-deleted", "at-most-once"),
        ("V9 row-doubled", "at-least-once"),
        ("V9 row-foreign", "at-least-once"),
        ("V9 row-altered", "none"),
        ("V9 double-effect", "at-least-once"),
        ("V9 phantom-effect", "at-least-once"),
        ("V9 no-effect", "at-most-once"),
        ("V9 wrong-effect", "none"),
        ("V12 early-commit", "effectively-once"),
        ("V13 zombie-effect", "exactly-once-visible"),
    ],
)
def test_a_conviction_refutes_what_is_above_it(convicted: str, delivery: str) -> None:
    found = guarantee(convicted)

    assert found.delivery == delivery
    assert why(found, "fenced-exactly-once") == f"refuted by {convicted}"


def test_rows_in_another_order_refute_only_the_order() -> None:
    found = guarantee("V8 row-disordered")

    assert (found.delivery, found.order) == ("fenced-exactly-once", "per-key")
    assert why(found, "ordered") == "refuted by V8 row-disordered"


def test_losses_and_duplicates_together_leave_no_delivery() -> None:
    assert guarantee("V8 lost", "V8 duplicate").delivery == "none"


@each("outcome", [Outcome.VACUOUS, Outcome.UNKNOWN, Outcome.NOT_CLAIMED])
@each(("name", "delivery"), [("V8", "none"), ("V12", "effectively-once"), ("V13", "exactly-once-visible")])
def test_what_was_not_seen_is_not_claimed(name: str, delivery: str, outcome: Outcome) -> None:
    found = guarantee(outcomes={name: outcome})

    assert found.delivery == delivery
    assert f"{name} is {outcome}: the reason of {name}" in why(found, "fenced-exactly-once")


def test_effects_that_are_not_claimed_do_not_hold_delivery_back_and_are_said() -> None:
    found = guarantee(outcomes={"V9": Outcome.NOT_CLAIMED})

    assert found.delivery == "fenced-exactly-once"
    assert "does not cover rows in the database" in found.remarks[0]


def test_an_invariant_that_nobody_judged_shows_nothing() -> None:
    verdict = InvariantVerdict(invariant="V8", outcome=Outcome.PASS, observed=3)

    found = guarantee_of(Judgement(outcome=Outcome.PASS, invariants=(verdict,)))

    assert (found.delivery, found.order) == ("effectively-once", "none")
    assert why(found, "ordered") == "V1 was not judged"


def test_a_duplicate_in_an_unfinished_run_does_not_show_that_nothing_is_lost() -> None:
    found = guarantee("V8 duplicate", outcomes={"V16": Outcome.UNKNOWN})

    assert found.delivery == "none"
    assert "not known to have finished normally" in why(found, "at-least-once")


def test_anomalies_that_are_not_listed_may_be_of_any_class() -> None:
    assert guarantee("V8 lost", omitted=4).delivery == "none"


@pytest.mark.parametrize(
    ("outcomes", "order"),
    [
        ({"V1": Outcome.NOT_CLAIMED, "V2": Outcome.PASS, "V3": Outcome.NOT_CLAIMED}, "unordered-strict"),
        ({"V1": Outcome.NOT_CLAIMED, "V2": Outcome.PASS}, "unordered-strict and per-key"),
        ({"V1": Outcome.NOT_CLAIMED, "V3": Outcome.NOT_CLAIMED}, "unordered-safe"),
        (
            {"V1": Outcome.NOT_CLAIMED, "V2": Outcome.PASS, "V3": Outcome.VACUOUS, "V5": Outcome.VACUOUS},
            "none",
        ),
        ({"V5": Outcome.VACUOUS}, "ordered"),
    ],
)
def test_the_order_is_what_was_seen(outcomes: dict[str, Outcome], order: str) -> None:
    assert guarantee(outcomes=outcomes).order == order


@pytest.mark.parametrize(
    ("convicted", "order"),
    [("V1 reordered", "per-key"), ("V3 key-reordered", "unordered-safe"), ("V5 crossed", "none")],
)
def test_a_conviction_refutes_the_orders_above_it(convicted: str, order: str) -> None:
    found = guarantee(convicted)

    assert convicted in why(found, "ordered")
    assert found.order == order


def test_reads_are_at_least_once_across_a_restore_and_that_is_no_breach() -> None:
    found = guarantee(restores=2)

    assert found.delivery == "fenced-exactly-once"
    assert any("lookups read at-least-once across a restore" in remark for remark in found.remarks)


def test_a_conviction_outside_the_lattice_is_said_beside_it() -> None:
    found = guarantee("V10 missing")

    assert found.delivery == "fenced-exactly-once"
    assert "Also violated, though that refutes no delivery and no order here: V10." in found.remarks


def test_the_next_steps_are_the_lowest_and_whatever_else_is_refuted() -> None:
    found = guarantee("V1 reordered", "V8 lost", "V13 zombie-commit")

    assert [step.level for step in next_steps(found)] == [
        "at-least-once",
        "fenced-exactly-once",
        "unordered-strict",
        "ordered",
    ]


def test_the_levels_are_those_of_the_catalogue() -> None:
    assert (DELIVERY[0], DELIVERY[-1]) == ("at-most-once", "fenced-exactly-once")
    assert ORDER == ("unordered-safe", "unordered-strict", "per-key", "ordered")
