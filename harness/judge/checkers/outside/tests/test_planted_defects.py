"""A judge of histories seen from outside that has a defect is found out, by its canaries or by the second judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from harness.judge.canaries.canary import canaries, overlooked
from harness.judge.checkers.outside import delivery, errors, finish, slots, starts, whole_table
from harness.judge.checkers.outside.finish import Finish
from harness.judge.checkers.outside.job_trace import OutsideTrace
from harness.judge.checkers.outside.judge import judge_outside
from harness.judge.checkers.outside.replay import LoggedSlot, SlotOrder, TableReplay
from harness.judge.checkers.outside.slots import SlotRows
from harness.judge.checkers.outside.tests.test_two_outside_judges import differences
from harness.judge.checkers.outside.tests.wild_outside import wild_outside

Patch = Callable[[pytest.MonkeyPatch], None]


def _always(value: object) -> property:
    return property(lambda _: value)


_untouched = slots.Records.untouched


def _as_of_a_record(records: slots.Records, slot: slots.SlotKey) -> SlotRows:
    rows = _untouched(records, slot)
    rows.of_key = False
    return rows


BY_CANARIES: Mapping[str, Patch] = {
    "sees no double": lambda patch: patch.setattr(SlotRows, "is_doubled", _always(value=False)),
    "takes every key for right": lambda patch: patch.setattr(whole_table, "differing_keys", lambda _: {}),
    "sees nothing missing": lambda patch: patch.setattr(SlotRows, "missing", _always(0)),
    "sees a row missing where none is": lambda patch: patch.setattr(SlotRows, "missing", _always(1)),
    "takes every reading for whole": lambda patch: patch.setattr(OutsideTrace, "unread", lambda *_: []),
    "believes every finish": lambda patch: patch.setattr(finish, "_not_exited", lambda *_: ""),
    "believes no finish": lambda patch: patch.setattr(finish, "_not_exited", lambda *_: "it is not"),
    "believes log and table": lambda patch: patch.setattr(OutsideTrace, "disagreement", _always(())),
    "compares no order": lambda patch: patch.setattr(SlotOrder, "appear", lambda *_: None),
    "forgets effects": lambda patch: patch.setattr(TableReplay, "_note_effect", lambda *_: None),
    "explains every exit": lambda patch: patch.setattr(starts, "_is_explained", lambda *_: True),
    "explains no exit": lambda patch: patch.setattr(starts, "_is_explained", lambda *_: False),
    "excuses what was given up": lambda patch: patch.setattr(starts, "_fault_at", lambda *_: "a fault"),
    "swallows errors": lambda patch: patch.setattr(errors, "_swallowed", lambda *_: iter(())),
    "looks at no dead letter": lambda patch: patch.setattr(errors, "_of_letters", lambda *_: iter(())),
    "asks for no bite": lambda patch: patch.setattr(
        TableReplay, "bitten", lambda replay: [True] * replay._faults
    ),
    "excuses every dead letter": lambda patch: patch.setattr(
        OutsideTrace, "excused", property(lambda trace: frozenset(trace.readings[1].dead))
    ),
    "reads no further reading": lambda patch: patch.setattr(
        delivery._Delivery, "_changed", lambda *_: iter(())
    ),
}

BY_THE_SECOND_JUDGE: Mapping[str, Patch] = {
    "takes an exit by the harness for one by itself": lambda patch: patch.setattr(
        finish, "is_by_itself", lambda _: True
    ),
    "lets a wrong row of a key stand for the right one": lambda patch: patch.setattr(
        slots.Records, "untouched", _as_of_a_record
    ),
    "asks for no quiet": lambda patch: patch.setattr(finish, "_unsettled", lambda *_: ""),
    "counts a wrong row as missing": lambda patch: patch.setattr(
        SlotRows,
        "missing",
        property(lambda rows: int(not rows.size) if rows._needed is None else rows._needed - rows._right),
    ),
    "takes the first effect for the highest": lambda patch: patch.setattr(
        LoggedSlot, "now_missing", lambda *_: None
    ),
    "forgets that values of an upsert are open": lambda patch: patch.setattr(
        delivery._Delivery, "_undecided_values", lambda _: None
    ),
    "never asks for a second reading": lambda patch: patch.setattr(
        delivery._Delivery, "_started_again", lambda _: False
    ),
    "forgets the poison": lambda patch: patch.setattr(starts, "_poisoned", lambda _: ""),
    "takes every job for finished": lambda patch: patch.setattr(
        "harness.judge.checkers.outside.judge.finish_of", lambda _: Finish(done=True)
    ),
}


@pytest.mark.parametrize("defect", BY_CANARIES)
def test_a_canary_finds_a_judge_that(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BY_CANARIES[defect](monkeypatch)

    assert overlooked(judge_outside, canaries("jobs"))


@pytest.mark.sweep
@pytest.mark.parametrize("defect", BY_THE_SECOND_JUDGE)
def test_the_second_judge_finds_one_that(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BY_THE_SECOND_JUDGE[defect](monkeypatch)

    assert any(differences([wild_outside(seed)])[1] for seed in range(400))
