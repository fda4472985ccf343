"""What a journal writes on the tape of a simulated run, and that it writes nothing after a kill."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from harness.database.simulated.hub import Hub
from harness.database.simulated.tape import CALLBACK, MemoryRecorder, Tape
from harness.history.event import Call, In, Out, Owm, Res, Snap
from harness.history.journal import Journal
from harness.history.values import END_OF_TIME, told_watermark
from harness.sut.positions import named
from harness.system.choices import Draw
from harness.system.process_identity import ProcessIdentity


def tape() -> Tape:
    return Tape(Hub(Draw(1, "test"), limit_ms=1000, steps_max=1000))


def journal(on: Tape) -> Journal:
    return Journal(MemoryRecorder(on), subtask=0, attempt=1)


def settle(one: Journal, *, ending: str = "ok") -> None:
    one.settled(id=7, attempt=1, ending=ending, final=True, values=["x"], error=None)


def test_events_are_numbered_without_a_gap() -> None:
    on = tape()
    one = journal(on)

    one.started(checkpoint=None, position=0, process=ProcessIdentity(pid=0, started=0))
    one.event(In, pos=0, id=7, key="k", ts=None, expect=["x"])
    one.called(id=7, attempt=1)
    settle(one)
    one.event(Out, id=7, j=0, v="x", ts=None)

    assert [event.n for event in on.events] == [1, 2, 3, 4, 5]
    assert on.numbered == len(on.events)


def test_an_event_that_gets_lost_leaves_a_gap() -> None:
    class Loses(MemoryRecorder):
        def _write(self, number: int, event: Any) -> None:
            if not isinstance(event, Call):
                super()._write(number, event)

    on = tape()
    one = Journal(Loses(on), subtask=0, attempt=1)

    one.called(id=7, attempt=1)
    settle(one)

    assert [event.n for event in on.events] == [2]
    assert on.numbered == 2


def test_an_attempt_that_was_cut_off_writes_nothing() -> None:
    on = tape()
    recorder = MemoryRecorder(on)
    one = Journal(recorder, subtask=0, attempt=1)

    recorder.cut()
    one.event(Out, id=7, j=0, v="x", ts=None)
    one.closed()

    assert on.events == []
    assert on.numbered == 0


def test_what_is_recorded_does_not_change_with_the_value() -> None:
    on, value = tape(), {"name": "a", "list": [1]}
    one = journal(on)

    one.event(Out, id=7, j=0, v=value, ts=None)
    value["name"] = "b"
    value["list"].append(2)  # type: ignore[attr-defined]

    recorded = on.events[0]
    assert isinstance(recorded, Out)
    assert recorded.v == {"name": "a", "list": [1]}


def test_the_final_watermark_is_called_end_in_elements_too() -> None:
    on = tape()
    one = journal(on)

    one.event(Owm, w=told_watermark(END_OF_TIME))
    elements: list[dict[str, Any]] = [{"lookup": {"id": 1}}, {"w": END_OF_TIME, "pos": 2}]
    one.event(Snap, c=1, pos=3, elements=named(elements))

    watermark, snap = on.events
    assert isinstance(watermark, Owm)
    assert watermark.w == "end"
    assert isinstance(snap, Snap)
    assert snap.elements == [{"id": 1}, {"w": "end", "pos": 2}]


def test_an_outcome_carries_nonce_and_version_of_the_answer_and_not_of_the_question_trust6() -> None:
    on = tape()
    one = journal(on)

    one.called(id=7, attempt=1)
    asked = one.nonce_of(7)
    one.answered(asked, 99, 3)
    settle(one)

    call, outcome = on.events
    assert isinstance(call, Call)
    assert isinstance(outcome, Res)
    assert (call.nonce, outcome.nonce, outcome.ver) == (asked, 99, 3)


def test_a_timeout_echoes_no_nonce() -> None:
    on = tape()
    one = journal(on)

    one.called(id=7, attempt=1)
    one.answered(one.nonce_of(7), one.nonce_of(7), None)
    settle(one, ending="timeout")

    outcome = on.events[1]
    assert isinstance(outcome, Res)
    assert outcome.nonce is UNSET


def test_what_a_callback_of_the_loop_emits_is_written_as_a_foreign_threads() -> None:
    on = tape()
    recorder = MemoryRecorder(on)
    one = Journal(recorder, subtask=0, attempt=1)

    one.event(Out, id=7, j=0, v="x", ts=None)
    recorder.thread = CALLBACK
    one.event(Out, id=7, j=1, v="y", ts=None)

    assert [event.thread for event in on.events] == ["task", "client"]
