"""The merge: nothing invented, nothing dropped in silence, and a lost commit settled by the database alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.history.event import (
    Close,
    Commit,
    Done,
    Effect,
    End,
    Event,
    FaultEvent,
    Kill,
    OfAttempt,
    Owm,
    Row,
    Start,
    TableRead,
    Wm,
)
from harness.history.journal import Journal
from harness.history.merge import Leftovers, history_text, merge, read_leftovers
from harness.history.notes import Armed, CommitBegun, Deciding, Dies, Line, LostConnection
from harness.history.read import open_text
from harness.history.recorder import Recorder, attempt_file, encode_line
from harness.history.tests.lines import line
from harness.system.process_identity import ProcessIdentity


def left(path: Path, *lines: Line, torn: bytes = b"") -> None:
    """Write `lines`, numbered, as an attempt would."""
    numbered = [encode_line(replace(one, n=number)) for number, one in enumerate(lines)]
    path.write_bytes(b"".join(text + b"\n" for text in numbered) + torn)


def merged(
    lines: Sequence[Line], *, committed: Mapping[tuple[int, int], int] | None = None, **rest: Any
) -> list[Event]:
    leftovers = Leftovers(lines=tuple(lines), warnings=(), missing=0)
    return merge(leftovers, **{"faults": [], "committed": committed or {}, "effects": [], **rest})


def test_files_are_merged_in_the_order_of_the_one_clock(tmp_path: Path) -> None:
    left(tmp_path / "subtask-000-attempt-0001.jsonl", line(End, 10), line(Close, 30))
    left(tmp_path / "subtask-001-attempt-0001.jsonl", line(End, 20), line(Close, 40))
    left(tmp_path / "harness.jsonl", Armed(t=25, fault="cut", cycle=0, logged=False))

    leftovers = read_leftovers(tmp_path)

    assert [one.t for one in leftovers.lines] == [10, 20, 25, 30, 40]
    assert leftovers.warnings == ()
    assert [one.fault for one in leftovers.lines if isinstance(one, Armed)] == ["cut"]


def test_a_torn_last_line_is_dropped_and_said(tmp_path: Path) -> None:
    left(tmp_path / "a.jsonl", line(End, 1), torn=b'{"i":1,"t":2,"k":"ou')

    leftovers = read_leftovers(tmp_path)

    assert [type(one) for one in leftovers.lines] == [End]
    (warning,) = leftovers.warnings
    assert "a.jsonl" in warning
    assert "cut off" in warning


def test_a_file_that_holds_nothing_but_a_torn_line_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"i":0')
    (tmp_path / "b.jsonl").write_bytes(b"")

    leftovers = read_leftovers(tmp_path)

    assert leftovers.lines == ()
    assert len(leftovers.warnings) == 1


def test_a_missing_line_is_reported_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"".join(encode_line(line(End, n)) + b"\n" for n in (0, 1, 4, 5)))

    leftovers = read_leftovers(tmp_path)

    (warning,) = leftovers.warnings
    assert "2 events are missing before line 4" in warning
    assert leftovers.missing == 2


def test_events_are_numbered_from_1_on_a_clock_that_starts_with_the_run() -> None:
    assert merged([line(End, 500), line(Close, 700)]) == [line(End, 0, n=1), line(Close, 200, n=2)]


def test_notes_are_no_events() -> None:
    events = merged([LostConnection(t=1, link="sink", code=2013), line(End, 2)])

    assert [type(event) for event in events] == [End]


COMMITTING = CommitBegun(t=5, s=1, a=2, c=3)


def test_a_lost_commit_is_settled_by_the_epoch_row_of_its_attempt() -> None:
    (event,) = merged([COMMITTING], committed={(1, 3): 2})

    assert event == Commit(n=1, t=0, s=1, a=2, c=3)


@pytest.mark.parametrize(
    "committed",
    [{}, {(1, 3): 1}, {(1, 3): 4}, {(0, 3): 2}, {(1, 2): 2}],
    ids=["none", "older", "newer", "s", "c"],
)
def test_an_epoch_row_of_another_settles_nothing(committed: Mapping[tuple[int, int], int]) -> None:
    assert merged([COMMITTING], committed=committed) == []


def test_a_commit_that_was_recorded_is_not_settled_again() -> None:
    events = merged([COMMITTING, Commit(n=0, t=9, s=1, a=2, c=3)], committed={(1, 3): 2})

    assert events == [Commit(n=1, t=4, s=1, a=2, c=3)]


def test_of_several_tries_to_commit_an_epoch_the_last_is_the_one_that_took_effect() -> None:
    """Two attempts in turn tried to commit what the first had prepared; the database has it once."""
    events = merged([COMMITTING, replace(COMMITTING, t=9)], committed={(1, 3): 2})

    assert events == [Commit(n=1, t=4, s=1, a=2, c=3)]


DECIDING = Deciding(t=5, c=3)


def test_a_decision_is_a_done_where_the_database_knows_it() -> None:
    assert merged([DECIDING, replace(DECIDING, t=7)], completed={3}) == [Done(n=1, t=2, c=3)]


@pytest.mark.parametrize("completed", [set(), {2, 4}], ids=["nothing", "others"])
def test_a_decision_that_did_not_reach_the_database_is_none(completed: set[int]) -> None:
    assert merged([DECIDING], completed=completed) == []


def test_the_kill_of_an_attempt_that_ended_itself_precedes_its_successor_however_late_the_harness_looks() -> (
    None
):
    dies = Dies(t=20, s=1, a=1, fault="kill", phase="snap.end", hit=1, how="sigkill")
    events = merged(
        [line(End, 10), dies, line(Start, 30, a=2), line(Kill, 40, a=1, by="kill"), line(Close, 50, a=2)]
    )

    assert [(type(one), one.t) for one in events] == [
        (End, 0),
        (Kill, 10),
        (Start, 20),
        (Close, 40),
    ]


def test_a_kill_keeps_its_time_where_the_attempt_did_not_announce_it_or_went_on_or_has_no_successor_yet() -> (
    None
):
    later: list[Line] = [
        Dies(t=10, s=1, a=1, fault="kill", phase="snap.end", hit=1, how="sigkill"),
        line(End, 20),  # it went on after it had announced its end
        line(Start, 30, a=2),
        line(Kill, 40, a=1),
    ]
    zombie: list[Line] = [line(End, 10), line(Start, 30, a=2), line(Kill, 40, a=1)]
    dies = Dies(t=20, s=1, a=1, fault="kill", phase="snap.end", hit=1, how="sigkill")
    in_time: list[Line] = [line(End, 10), dies, line(Kill, 30, a=1), line(Start, 40, a=2)]

    assert [type(one) for one in merged(later)] == [End, Start, Kill]
    assert [type(one) for one in merged(zombie)] == [End, Start, Kill]
    assert [(type(one), one.t) for one in merged(in_time)] == [(End, 0), (Kill, 20), (Start, 30)]


def test_a_kill_that_was_noticed_late_stands_behind_the_begin_of_its_fault() -> None:
    """Both have the time of the note by which the attempt announced its end."""
    dies = Dies(t=20, s=1, a=1, fault="kill", phase="drain", hit=1, how="sigkill")
    fault = FaultEvent(n=0, t=20, f="kill", phase="begin")

    events = merged(
        [line(End, 20), dies, line(Start, 30, a=2), line(Kill, 40, a=1, by="kill")], faults=[fault]
    )

    assert [type(one) for one in events] == [FaultEvent, End, Kill, Start]


def test_faults_stand_at_their_time_and_effects_last_in_the_databases_order() -> None:
    fault = FaultEvent(n=0, t=20, f="cut", phase="begin")
    events = merged(
        [line(End, 10), line(Close, 30)],
        faults=[fault],
        effects=[line(Effect, seq=1), line(Effect, seq=2)],
    )

    assert [type(event) for event in events] == [End, FaultEvent, Close, Effect, Effect]
    assert [event.seq for event in events if isinstance(event, Effect)] == [1, 2]
    assert [event.n for event in events] == [1, 2, 3, 4, 5]
    assert {event.t for event in events[3:]} == {20}
    assert fault == FaultEvent(n=0, t=20, f="cut", phase="begin")


def test_the_rows_of_tables_stand_last_as_they_were_read_and_are_a_legal_history() -> None:
    header = {
        "history": 1,
        "operator": {"mode": "ordered", "capacity": 1, "timeout_ms": 0},
        "tables": {"output": {"holds": ["outputs"]}},
    }
    row, read = Row(n=0, t=0, table="output", id=1, j=0, v="A"), TableRead(n=0, t=0, table="output", rows=1)

    events = merged([line(Start, 500, s=0, pos=0)], effects=[row, read])
    reader = open_text(history_text(header, events))

    assert [type(event) for event in reader.events()] == [Start, Row, TableRead]
    assert reader.breaches == []


def test_a_run_that_left_nothing_merges_to_nothing(tmp_path: Path) -> None:
    assert merge(read_leftovers(tmp_path), faults=[], committed={}, effects=[]) == []


def test_the_text_of_a_history_is_a_header_and_one_event_a_line() -> None:
    text = history_text({"floodmark": 1}, [line(End, 0, n=1)])

    header, event = text.decode().splitlines()
    assert json.loads(header) == {"floodmark": 1}
    assert json.loads(event) == {"n": 1, "t": 0, "k": "end", "s": 1, "a": 1}


def told_by_a_journal(folder: Path) -> Leftovers:
    """An attempt's file: a journal's start, watermark in and out, and close."""
    with Recorder(attempt_file(folder, subtask=0, attempt=1)) as recorder:
        journal = Journal(recorder, subtask=0, attempt=1)
        journal.started(checkpoint=None, position=0, process=ProcessIdentity(pid=1, started=1))
        journal.event(Wm, pos=0, w=5)
        journal.event(Owm, w=5)
        journal.committed(1)
        journal.closed()
    return read_leftovers(folder)


def test_every_event_that_a_journal_made_is_told(tmp_path: Path) -> None:
    assert told_by_a_journal(tmp_path).missing == 0


def test_an_event_that_a_recorder_drops_without_a_gap_is_missing_trust9(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Recorder.event

    def dropping(self: Recorder, kind: type[OfAttempt], **fields: Any) -> None:
        if kind is not Owm:
            honest(self, kind, **fields)

    monkeypatch.setattr(Recorder, "event", dropping)

    leftovers = told_by_a_journal(tmp_path)

    assert leftovers.missing == 1
    assert leftovers.warnings == ("1 events were made that no file holds, by the journals' own counts",)
