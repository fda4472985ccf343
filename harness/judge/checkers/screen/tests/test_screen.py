"""The screen says what the exact checkers say, or nothing; and of a regular history it says it all."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.event import Change, Event, Row, TableRead
from harness.judge.checkers.registry import CHECKERS
from harness.judge.checkers.screen.screen import Screen
from harness.judge.checkers.screen.tests.screening import acquitted, both_ways, evenly_told, told
from harness.judge.checkers.tests.blind_mutations import mutated
from harness.judge.checkers.tests.legal_histories import legal_history
from harness.judge.checkers.tests.small_histories import (
    answered,
    called,
    done,
    ended,
    event,
    history,
    left,
    owm,
    restart,
    settled,
    snap,
    start,
    took,
    wm,
)  # fmt: skip
from harness.system.choices import Choices
from tools.cases import each, in_sweep_after

ALL = {checker.name for checker in CHECKERS}
MODES = ["ordered", "unordered"]
SINKS = ["rollback", "append", "atomic", "two-phase"]
EACH = 4


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sink", SINKS)
def test_a_legal_history_is_acquitted_without_asking_any_checker(sink: str, mode: str) -> None:
    seen = 0
    for seed in range(EACH):
        lines = evenly_told(legal_history(seed, sink=sink, mode=mode))
        found = told(lines)
        assert found is not None
        if found.header.operator.coalesces_watermarks:
            continue

        assert acquitted(found) == ALL, seed
        seen += 1
    assert seen >= EACH // 2


@each("mode", MODES)
@each("sink", SINKS)
def test_a_legal_history_is_judged_alike_with_the_screen_and_without(sink: str, mode: str) -> None:
    for seed in range(EACH):
        found = told(legal_history(seed, sink=sink, mode=mode))
        assert found is not None

        screened, exact = both_ways(found)

        assert screened == exact, seed


@pytest.mark.parametrize("batch", in_sweep_after(3, range(25)))
def test_what_is_corrupted_blindly_is_judged_alike_or_is_left_to_the_exact_reading(batch: int) -> None:
    for seed in range(batch * 8, batch * 8 + 8):
        found = told(mutated(legal_history(seed), Choices(seed, "blind mutations")))
        if found is not None and found.sound:
            screened, exact = both_ways(found)

            assert screened == exact, seed
        elif found is not None:
            assert acquitted(found) is None, seed


@pytest.mark.parametrize("size", [1, 7, 100])
def test_in_what_batches_the_events_come_makes_no_difference(size: int) -> None:
    found = told(evenly_told(legal_history(2, plain=True)))
    assert found is not None
    screen = Screen(found.header)

    for at in range(0, len(found.events), size):
        screen.feed(found.events[at : at + size])
    screen.finish()

    assert not screen.account.suspected


def test_what_is_settled_is_forgotten() -> None:
    """A thousand records, a snap, its completion and a `retire` every hundred."""
    parts: list[Any] = [start()]
    for pos in range(1000):
        parts += [took(pos, pos), settled(pos)]
        if pos % 100 == 99:
            parts += [snap(pos, pos + 1), done(pos), event("retire", c=pos - 1)]
    found = told(history(*parts, ended()))
    assert found is not None
    screen = Screen(found.header)

    screen.feed(found.events)

    strand = screen.strands[0]
    assert not strand.life.open
    assert len(strand.saved) == 1
    assert not strand.source.kept


def test_what_was_retired_before_a_subtask_began_must_not_be_restored_either() -> None:
    """Found by mutation: the screen had asked the subtasks that it knew by then, and no other."""
    found = told(
        history(
            event("retire", c=1), start(), took("a", 0), snap(1, 1, {"id": "a"}), done(1),
            restart(1, 1, {"id": "a"}), settled("a", a=2), ended(a=2),
        )
    )  # fmt: skip
    assert found is not None

    screened, exact = both_ways(found)

    assert [verdict.invariant for verdict in exact.convicted()] == ["V11"]
    assert screened == exact


def test_a_checkpoint_that_is_completed_twice_is_counted_as_the_checkers_count_it() -> None:
    found = told(history(start(), took("a", 0), settled("a"), snap(1, 1), done(1), done(1), ended()))
    assert found is not None

    screened, exact = both_ways(found)

    assert screened == exact


def test_a_suspicion_of_one_invariant_leaves_the_others_acquitted() -> None:
    found = told(
        history(
            start(), took("a", 0), took("b", 1), settled("a"), settled("b"), ended(), operator={"capacity": 2}
        )
    )
    assert found is not None

    assert acquitted(found) == ALL - {"V14"}
    assert both_ways(found)[0] == both_ways(found)[1]


def test_a_history_that_broke_off_is_acquitted_but_for_what_its_end_would_have_told() -> None:
    found = told(history(start(), took("a", 0), wm(5, 1), settled("a"), owm(5), took("b", 2)))
    assert found is not None

    assert acquitted(found) == ALL - {"V6", "V8", "V16"}
    assert both_ways(found)[0] == both_ways(found)[1]


def test_a_checkpoint_that_is_completed_and_aborted_is_left_to_the_exact_checker_of_the_cut_trust3() -> None:
    cut = [start(), took("a", 0), settled("a"), snap(1, 1)]
    abort = event("abort", c=1)

    for lines in (history(cut, done(1), abort, ended()), history(cut, abort, done(1), ended())):
        found = told(lines)
        assert found is not None
        assert acquitted(found) == ALL - {"V10"}


def test_checkpoints_of_which_each_has_one_end_are_acquitted_trust3() -> None:
    cuts = [snap(2, 1), event("abort", c=2), snap(3, 1), done(3), event("abort", c=1)]

    found = told(history(start(), took("a", 0), settled("a"), cuts, ended()))

    assert found is not None
    assert acquitted(found) == ALL


@pytest.mark.parametrize("kind", ["row", "read", "change"])
def test_a_row_of_no_table_and_a_change_that_ends_without_a_begin_are_left_to_the_exact_checkers(
    kind: str,
) -> None:
    events: dict[str, Event] = {
        "row": Row(n=99, t=999, table="t", id="a"),
        "read": TableRead(n=99, t=999, table="t", rows=0),
        "change": Change(n=99, t=999, phase="end", ver=1),
    }
    found = told(history(start(), took("a", 0), settled("a"), ended()))
    assert found is not None

    assert acquitted(found) == ALL
    assert acquitted(found._replace(events=[*found.events, events[kind]])) is None


def vouched(*parts: Any, **header: Any) -> set[str] | None:
    """What the screen acquits of a well-formed history; both ways of judging it must agree."""
    found = told(history(*parts, **header))
    assert found is not None
    assert found.sound
    screened, exact = both_ways(found)
    assert screened == exact
    return acquitted(found)


def acknowledged(c: int, a: int = 1) -> dict[str, Any]:
    return event("ack", c=c, a=a)


RESUMED = [snap(2, 0), acknowledged(2), restart(1, 0)]


def test_a_checkpoint_that_every_newest_attempt_acknowledged_is_acquitted_trust3() -> None:
    first = [start(), snap(1, 0), acknowledged(1), done(1), restart(1, 0)]
    second = [
        took("a", 0, a=2),
        settled("a", a=2),
        snap(2, 1, a=2),
        acknowledged(2, a=2),
        done(2),
        ended(a=2),
    ]

    assert vouched(first, second) == ALL


@pytest.mark.parametrize(
    "parts",
    [
        [start(), snap(1, 0), acknowledged(1), done(1), snap(2, 0), done(2), ended()],
        [start(), acknowledged(1), snap(1, 0), done(1), ended()],
        [start(), snap(1, 0), acknowledged(1), done(1), RESUMED, done(2), ended(a=2)],
    ],
    ids=["none", "before the snap", "stale"],
)  # fmt: skip
def test_a_checkpoint_without_an_acknowledgement_is_left_to_the_exact_checker_trust3(
    parts: list[Any],
) -> None:
    assert vouched(parts) == ALL - {"V10"}


RETRY = {"max_tries": 3, "retry": {"backoff": "fixed", "initial_ms": 1, "on": ["fail", "empty"]}}


def test_calls_that_are_never_retried_are_acquitted_trust4() -> None:
    assert vouched(start(), took("a", 0), settled("a"), ended(), operator=RETRY) == ALL


@pytest.mark.parametrize(
    "answers",
    [
        [answered("a", r="fail", final=False, v=[]), called("a", **{"try": 2}, ms=2), answered("a", **{"try": 2})],
        [answered("a", v=[])],
        [answered("a", retry=True)],
    ],
    ids=["not final", "empty", "by its own word"],
)  # fmt: skip
def test_an_outcome_that_may_be_retried_is_left_to_the_exact_checker_trust4(answers: list[Any]) -> None:
    parts = [start(), took("a", 0), called("a"), answers, left("a"), ended()]

    assert vouched(parts, operator=RETRY) == ALL - {"V15"}


BY: Any = {"by": "outside"}
BEGIN, END = (
    event("fault", f="crash", phase="begin"),
    event("fault", f="crash", phase="end", evidence={"pid": 1}),
)
AFTER = [start(a=2), ended(a=2)]


@each(
    "parts",
    [
        [start(), ended()],
        [start(), event("kill", **BY), AFTER],
        [start(), BEGIN, event("kill", by="crash"), END, AFTER],
        [start(), event("failed", error="x", by="planted"), event("kill"), AFTER],
        [start(), start(a=2, **BY), event("failed", error="x"), event("kill"), ended(a=2)],
    ],
    ids=["nothing fails", "outside", "a fault that is on", "a failure that is reaped", "a zombie"],
)
@each("explained", ["alone", "together"])
def test_what_names_its_cause_is_acquitted_trust2(parts: list[Any], explained: str) -> None:
    found = vouched(start(s=1), took("a", 0, s=1), settled("a", s=1), ended(s=1), parts, explained=explained)

    assert found is not None
    assert "V24" in found


@pytest.mark.parametrize(
    "parts",
    [
        [start(), event("kill"), AFTER],
        [start(), event("failed", error="x"), AFTER],
        [start(), AFTER],
        [start(), event("close"), AFTER],
        [BEGIN, END, start(), event("kill", by="crash"), AFTER],
    ],
    ids=["kill", "failed", "restart", "closed", "a fault of before"],
)
def test_what_fails_without_a_cause_is_left_to_the_exact_checker_trust2(parts: list[Any]) -> None:
    found = vouched(start(s=1), took("a", 0, s=1), settled("a", s=1), ended(s=1), parts, explained="alone")

    assert found is not None
    assert "V24" not in found
