"""Faults of calls and of sources are believed by the events that they left; the same run without them shows nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from harness.faults.model.fault import FoundFault, OutsideFault
from harness.faults.real.evidence import RecordedFault, Seen
from harness.faults.tests.entries import made
from harness.history.event import Call, Close, In, Kill, Res, Wm
from harness.history.notes import Acted, Line, Measured
from harness.history.tests.lines import line


def fault(do: str, **fields: Any) -> FoundFault:
    fault: FoundFault = made(do, **({"subtask": 1} | fields))
    return fault


def found(fault: FoundFault, lines: Sequence[Line]) -> RecordedFault | None:
    return fault.recorded(lines)


def acted(what: str) -> Line:
    return line(Acted, 100, fault="f", what=what, facts={"id": 5})


RAISED = line(Res, 200, id=5, r="fail", final=True, error="Poisoned: record 5 is poisoned")
ANSWERED = line(Res, 200, id=5, r="ok", final=True, v=["x"])
TIMED_OUT = line(Res, 200, id=5, r="timeout", final=True, v=["none"])


@pytest.mark.parametrize(
    ("how", "came"),
    [
        ("raises", RAISED),
        ("silent", TIMED_OUT),
        ("silent", line(Close, 200)),
        ("kills", line(Kill, 200)),
    ],
    ids=["raises", "silent, timed out", "silent to the end", "kills"],
)
def test_a_poisoned_call_is_believed_by_what_came_of_it(how: str, came: Line) -> None:
    it = found(fault("poison", how=how), [acted(how), came])

    assert it is not None
    assert (it.began_us, it.measured_us, it.ended_us) == (100, 200, 200)
    assert it.evidence == {"subtask": 1, "what": how, "calls": 1, "records": [5]}


@pytest.mark.parametrize(
    ("how", "came"),
    [
        ("raises", ANSWERED),
        ("raises", replace(RAISED, error="ValueError: something else")),
        ("silent", ANSWERED),
        ("kills", ANSWERED),
        ("raises", replace(RAISED, a=2)),
    ],
    ids=["answered", "another error", "not silent", "alive", "another attempt"],
)
def test_a_poisoned_call_that_went_through_is_not_believed(how: str, came: Line) -> None:
    it = found(fault("poison", how=how), [acted(how), came])

    assert it is not None
    assert (it.measured_us, it.evidence) == (None, {})


@pytest.mark.parametrize("do", ["duplicate_completion", "missing_completion", "answer_at_timeout"])
def test_a_completion_gone_wrong_is_believed_by_the_note_behind_it(do: str) -> None:
    fields = {"how": "at"} if do == "answer_at_timeout" else {}
    measured = line(Measured, 200, fault="f", what="completion", facts={"id": 5})

    it, nothing = (
        found(fault(do, **fields), [acted("x"), measured]),
        found(fault(do, **fields), [acted("x"), replace(measured, facts={"id": 6})]),
    )

    assert it is not None
    assert (it.evidence["calls"], it.measured_us) == (1, 200)
    assert nothing is not None
    assert nothing.evidence == {}


@pytest.mark.parametrize("do", ["poison", "duplicate_completion", "missing_completion"])
def test_a_fault_that_picked_no_call_is_none(do: str) -> None:
    fields = {"how": "raises"} if do == "poison" else {}

    assert found(fault(do, **fields), [RAISED, ANSWERED]) is None


def taken(kinds: str, *, step: int = 1000, keys: str = "") -> list[In | Wm]:
    """An attempt's input: `r` a record, `w` a watermark."""
    return [
        line(In, step * n, pos=n, id=n, key=int(keys[n]) if keys else 1)
        if kind == "r"
        else line(Wm, step * n, pos=n, w=n)
        for n, kind in enumerate(kinds)
    ]


def test_a_burst_is_believed_if_so_many_watermarks_stand_before_its_record() -> None:
    it = found(fault("watermark_burst", count=4), taken("rrwwwwwrr"))

    assert it is not None
    assert it.evidence == {"subtask": 1, "watermarks": 5, "within_ms": 5.0}
    assert (it.began_us, it.ended_us) == (2000, 7000)


@pytest.mark.parametrize("kinds", ["rrwrr", "rrrr", "wwwwrrwr"], ids=["one", "none", "elsewhere"])
def test_a_burst_that_was_not_sent_is_not_believed(kinds: str) -> None:
    it = found(fault("watermark_burst", count=4), taken(kinds))

    assert it is not None
    assert it.evidence == {}


@pytest.mark.parametrize("silent_ms", [1001, 1901], ids=["behind its rate by a second", "nearly in time"])
def test_a_silence_is_believed_by_its_length(silent_ms: int) -> None:
    it = found(fault("idle_input", **{"for": "2s"}), _taken_after(silent_ms))

    assert it is not None
    assert it.evidence == {"subtask": 1, "silent_ms": silent_ms, "asked_ms": 2000}


@pytest.mark.parametrize("silent_ms", [1, 990], ids=["none", "less than half of it"])
def test_a_silence_that_was_short_is_not_believed(silent_ms: int) -> None:
    it = found(fault("idle_input", **{"for": "2s"}), _taken_after(silent_ms))

    assert it is not None
    assert it.evidence == {}


def _taken_after(silent_ms: int) -> list[In | Wm]:
    """Four records, the third of which was taken so long after the second."""
    plain = taken("rrrr")
    return [*plain[:2], *(replace(after, t=after.t + (silent_ms - 1) * 1000) for after in plain[2:])]


def test_a_hot_key_is_believed_by_its_share_and_not_if_it_was_asked_for_as_ever() -> None:
    hot = fault("hot_key", share="90%", delay="1s")

    it = found(hot, taken("r" * 10, keys="1100000100"))
    nothing = found(hot, taken("r" * 10, keys="1112013201"))
    as_before = found(hot, taken("r" * 10, keys="0000000000"))

    assert it is not None
    assert it.evidence == {
        "subtask": 1, "records": 8, "hot": 7, "share_percent": 88, "share_before_percent": 0
    }  # fmt: skip
    assert nothing is not None
    assert nothing.evidence == {}
    assert as_before is not None
    assert as_before.evidence == {}


@pytest.mark.parametrize(
    "it",
    [
        fault("watermark_burst", count=4),
        fault("idle_input", **{"for": "2s"}),
        fault("hot_key", share="90%", delay="1s"),
    ],
    ids=lambda it: it.do,
)
def test_a_fault_whose_record_was_never_taken_is_none(it: FoundFault) -> None:
    assert found(it, taken("rr")) is None
    assert found(it, [replace(one, pos=one.pos + 7) for one in taken("rrrr")]) is None


def _in_batches(lines: Sequence[In | Wm], *starts: int) -> list[In | Wm]:
    """The same input, taken by attempts 1, 5, ..., each of which begins at one of `starts`."""
    return [replace(one, a=1 + 4 * sum(start <= one.pos for start in starts)) for one in lines]


def test_records_are_counted_over_attempts_that_take_a_few_each() -> None:
    burst = found(fault("watermark_burst", count=4), _in_batches(taken("rrwwwwwrr"), 1, 4))
    idle = found(fault("idle_input", **{"for": "2s"}), _in_batches(_taken_after(1500), 1))

    assert burst is not None
    assert burst.evidence["watermarks"] == 5
    assert idle is not None
    assert idle.evidence["silent_ms"] == 1500


def test_the_time_between_two_attempts_is_no_silence_of_the_source() -> None:
    idle = found(fault("idle_input", **{"for": "2s"}), _in_batches(_taken_after(1500), 2))

    assert idle is not None
    assert idle.evidence == {}


@pytest.mark.parametrize(("began", "count"), [(150, 1), (50, 0)], ids=["after the change", "before it"])
def test_deleted_rows_are_believed_by_empty_answers_to_later_lookups(began: int, count: int) -> None:
    deletes: OutsideFault = made("change_rows", count=1, how="delete")
    lines: list[Line] = [
        line(In, 20, id=5, key=0),
        line(Res, 30, id=4, try_=1, r="ok", v=[{}], ver=0),
        line(Call, began, id=5, try_=1),
        line(Res, 200, id=5, try_=1, r="ok", v=[]),
    ]
    facts = {"what": "", "change": "end", "ver": 1, "keys": [0]}

    evidence = deletes.evidence(Seen(armed_us=100, healed_us=400, facts=[facts], events=lines))

    assert evidence.get("without_rows", 0) == count
    assert bool(evidence) == bool(count)
