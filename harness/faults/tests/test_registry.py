"""Every kind is a class of its own file, and the model of a fault is made of them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from harness.faults.model.fault import FoundFault, OutsideFault
from harness.faults.parts.triggers import PHASE_FORMS, PHASES
from harness.faults.registry import FAULTS, fault_of
from harness.faults.tests.entries import made
from tools.cases import each

KINDS = each("kind", FAULTS)
VALUES: dict[str, Any] = {
    "link": "sink", "direction": "up", "delay": "200ms", "jitter": "200ms", "rate": "64kB/s", "bytes": 100,
    "gap": "50ms", "open": "200ms", "closed": "300ms", "code": 1205, "count": 10, "share": "90%",
    "shift": "-60m", "subtask": 0, "for": "900ms",
}  # fmt: skip


def least(kind: str) -> Any:
    fault = FAULTS[kind]
    return made(kind, **{name: [*fault.choices(name), VALUES.get(name)][0] for name in fault.needs()})


@KINDS
def test_a_kind_is_done_from_outside_or_found_in_what_attempts_recorded(kind: str) -> None:
    assert issubclass(FAULTS[kind], OutsideFault) is not issubclass(FAULTS[kind], FoundFault)


@KINDS
def test_a_default_is_not_written_back_and_what_was_given_is(kind: str) -> None:
    fault = least(kind)

    written = fault.model_dump(mode="json", by_alias=True)

    assert set(written) == {"id", "do", "when", *FAULTS[kind].needs()}
    assert fault_of(written) == fault


@KINDS
def test_null_is_absent(kind: str) -> None:
    fault = least(kind)
    nothing = dict.fromkeys(FAULTS[kind].takes())

    assert fault_of({**fault.model_dump(mode="json", by_alias=True), **nothing}) == fault


@KINDS
def test_what_it_needs_is_asked_for_with_an_example(kind: str) -> None:
    fields = FAULTS[kind].model_fields
    needed = [
        field for name, field in fields.items() if field.is_required() and name not in {"id", "do", "when"}
    ]

    assert all(field.examples for field in needed)


def test_a_fault_inside_an_attempt_cannot_wait_for_another_subtasks_checkpoint() -> None:
    with pytest.raises(ValidationError, match="the checkpoint is of subtask 0, the fault is of subtask 1"):
        made("loop_stall", subtask=1, when={"checkpoint": 3, "subtask": 0})


def test_every_phase_is_in_the_list_with_its_form() -> None:
    assert tuple(PHASE_FORMS) == PHASES


@KINDS
def test_a_kind_says_itself_what_it_can_cause_trust2(kind: str) -> None:
    assert "can" in vars(FAULTS[kind])


@each(
    ("fault", "effects"),
    [
        (made("latency", link="sink", delay="50ms", **{"for": "9s"}), ("late",)),
        (made("latency", link="sink", delay="50ms", **{"for": "10s"}), ("failed", "late")),
        (made("latency", link="lookups", delay="50ms", **{"for": "60s"}), ("late",)),
        (made("down", link="sink", repeat=4, every="3s", **{"for": "1s"}), ("failed", "res")),
        (made("read_only", **{"for": "20s"}), ("failed", "res")),
        (made("db_kill", **{"for": "1s"}), ("failed", "res")),
        (made("pause_worker", subtask=0, **{"for": "20s"}), ("failed", "late")),
        (made("poison", subtask=0, how="silent"), ("late",)),
        (made("poison", subtask=0, how="raises"), ()),
        (made("answer_at_timeout", subtask=0, how="after"), ("late",)),
        (made("answer_at_timeout", subtask=0, how="at"), ()),
    ],
    ids=str,
)
def test_only_a_fault_that_can_outlast_the_sinks_patience_can_fail_an_attempt_trust2(
    fault: Any, effects: tuple[str, ...]
) -> None:
    assert fault.effects == effects


def test_a_begin_names_the_subtask_that_the_fault_is_confined_to_trust2() -> None:
    stopped = made("pause_worker", subtask=1)

    assert stopped.claims["s"] == 1
    assert made("clock_jump", how="jump", shift="-60m").claims == {}


def test_a_zombie_is_confined_to_no_subtask_because_it_may_hold_locks_trust2() -> None:
    assert made("zombie", subtask=1).claims == {"stalls": True, "can": ["failed", "start", "res"]}
