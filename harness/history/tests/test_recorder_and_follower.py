"""Recorder and follower: what is recorded is on disk, whole and numbered; what is followed is whole lines only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from harness.history.event import Close, End, In, Out
from harness.history.follower import Follower
from harness.history.journal import Journal
from harness.history.notes import Alive, LostConnection, Stops
from harness.history.recorder import Recorder, attempt_file, decode_lines
from harness.system.errors import HarnessError
from harness.system.process_identity import ProcessIdentity


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def journal(folder: Path, *, subtask: int = 0, attempt: int = 1) -> Journal:
    recorder = Recorder(attempt_file(folder, subtask=subtask, attempt=attempt))
    return Journal(recorder, subtask=subtask, attempt=attempt)


def test_an_event_is_on_disk_when_record_returns(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.jsonl") as recorder:
        recorder.event(End, s=0, a=1)

        assert [(line["k"], line["s"], line["a"]) for line in lines(recorder.path)] == [("end", 0, 1)]


def test_lines_are_numbered_from_0_in_the_order_of_the_clock(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.jsonl") as recorder:
        for _ in range(20):
            recorder.event(End, s=0, a=1)

    found = lines(tmp_path / "a.jsonl")
    assert [line["i"] for line in found] == list(range(20))
    assert [line["t"] for line in found] == sorted(line["t"] for line in found)


def record_50(recorder: Recorder) -> None:
    for _ in range(50):
        recorder.event(End, s=0, a=1)


def test_threads_that_share_a_recorder_tear_and_lose_no_line(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.jsonl") as recorder:
        threads = [Thread(target=record_50, args=[recorder]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)

    found = lines(tmp_path / "a.jsonl")
    assert [line["i"] for line in found] == list(range(200))
    assert [line["t"] for line in found] == sorted(line["t"] for line in found)


def test_a_second_attempt_of_the_same_number_cannot_write_into_the_firsts_file(tmp_path: Path) -> None:
    path = attempt_file(tmp_path, subtask=0, attempt=1)
    with Recorder(path), pytest.raises(FileExistsError):
        Recorder(path)


def test_a_line_is_its_event_with_its_number_as_i_and_what_is_unknown_is_absent(tmp_path: Path) -> None:
    told = journal(tmp_path, subtask=2, attempt=3)
    told.event(In, pos=4, id=5, key="k", ts=None)
    told.event(In, pos=4, id=5, key=[1], ts=6, expect=["v"])
    told.called(id=5, attempt=1)
    told.settled(id=5, attempt=1, ending="ok", final=True, values=["v", None], error=None)
    told.settled(id=5, attempt=2, ending="fail", final=False, values=None, error="why")
    told.event(Out, id=5, j=0, v={"b": 1.5}, ts=6)
    told.note(LostConnection(link="sink", code="n"))

    written = lines(attempt_file(tmp_path, subtask=2, attempt=3))
    of, called, main = {"s": 2, "a": 3}, {"id": 5, "try": 1}, {"thread": "MainThread"}
    assert [{name: value for name, value in line.items() if name != "t"} for line in written] == [
        {"i": 0, "k": "in", **of, "pos": 4, "id": 5, "key": "k", "ts": None},
        {"i": 1, "k": "in", **of, "pos": 4, "id": 5, "key": [1], "ts": 6, "expect": ["v"]},
        {"i": 2, "k": "call", **of, **called, "nonce": told.nonce_of(5), **main},
        {"i": 3, "k": "res", **of, **called, "r": "ok", "final": True, "v": ["v", None], **main},
        {"i": 4, "k": "res", **of, "id": 5, "try": 2, "r": "fail", "final": False, "error": "why", **main},
        {"i": 5, "k": "out", **of, "id": 5, "j": 0, "v": {"b": 1.5}, "ts": 6, **main},
        {"i": 6, "k": "~lost", **of, "link": "sink", "code": "n"},
    ]


def test_a_line_is_read_whatever_the_order_of_its_fields() -> None:
    text = b'{"i":3,"t":5,"k":"close","s":0,"a":1}\n{"k":"~stops","i":4,"t":6,"s":0,"a":1,"f":"x"}\n{"i":5'

    assert decode_lines(text) == [Close(n=3, t=5, s=0, a=1), Stops(n=4, t=6, s=0, a=1, fault="x")]


def test_a_line_that_breaks_the_format_is_an_error_of_ours() -> None:
    with pytest.raises(HarnessError, match='missing required field `s`.*"close"'):
        decode_lines(b'{"i":0,"t":5,"k":"close","a":1}\n')


def test_an_event_that_did_not_fit_on_the_disk_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.write
    with Recorder(tmp_path / "a.jsonl") as recorder:
        monkeypatch.setattr(os, "write", lambda file, data: whole(file, data[: len(data) // 2]))

        with pytest.raises(OSError, match="disk is full"):
            recorder.event(End, s=0, a=1)


def test_the_follower_counts_what_each_kind_of_line_tells(tmp_path: Path) -> None:
    told = journal(tmp_path, subtask=1, attempt=1)
    told.started(checkpoint=None, position=0, process=ProcessIdentity(pid=77, started=15))
    told.event(In, pos=0, id=5, key=1, ts=0)
    told.called(id=5, attempt=1)
    told.event(In, pos=1, id=7, key=1, ts=0)
    told.called(id=7, attempt=1)
    told.settled(id=5, attempt=1, ending="ok", final=True, values=[1], error=None)
    told.event(Out, id=5, j=0, v=1, ts=0)
    told.committed(1)
    told.note(LostConnection(link="lookups", code=2013))

    progress = Follower(tmp_path).poll()

    assert (progress.taken[1], progress.calls[1], progress.in_flight, progress.emitted) == (2, 2, 1, 1)
    assert (progress.commits[1, 1], progress.epoch) == (1, 1)
    assert [(link, code) for _, link, code in progress.losses] == [("lookups", 2013)]
    assert [call.ending for call in progress.timed.calls("lookups")] == ["ok", None]
    view = progress.attempts[1, 1]
    assert (view.process, view.over) == (ProcessIdentity(pid=77, started=15), False)


@pytest.mark.parametrize("ending", ["closed", "failed"])
def test_an_attempt_is_over_by_its_own_word(tmp_path: Path, ending: str) -> None:
    told = journal(tmp_path)
    told.started(checkpoint=None, position=0, process=ProcessIdentity(pid=77, started=15))
    told.closed() if ending == "closed" else told.failed("enough")

    assert Follower(tmp_path).poll().attempts[0, 1].over


def test_the_follower_reads_a_line_once_and_only_when_it_is_whole(tmp_path: Path) -> None:
    path = attempt_file(tmp_path, subtask=0, attempt=1)
    line = b'{"i":0,"t":9,"k":"out","s":0,"a":1,"id":1,"j":0,"v":1}\n'
    follower = Follower(tmp_path)
    with path.open("wb", buffering=0) as file:
        file.write(line + line[:20])
        assert follower.poll().emitted == 1

        assert follower.poll().emitted == 1

        file.write(line[20:])
        assert follower.poll().emitted == 2


def test_progress_counts_the_newest_attempt_in_flight_and_a_subtask_begins_with_its_first_record(
    tmp_path: Path,
) -> None:
    first, second = journal(tmp_path, attempt=1), journal(tmp_path, attempt=2)
    first.event(In, pos=0, id=1, key=1, ts=0)
    first.called(id=1, attempt=1)
    first.called(id=3, attempt=1)
    second.event(In, pos=0, id=1, key=1, ts=0)
    second.called(id=1, attempt=1)

    progress = Follower(tmp_path).poll()

    assert progress.in_flight == 1
    assert progress.began_us == {0: lines(attempt_file(tmp_path, subtask=0, attempt=1))[0]["t"]}


def test_a_line_that_says_only_that_the_loop_runs_is_no_progress_trust7(tmp_path: Path) -> None:
    told, follower = journal(tmp_path), Follower(tmp_path)
    told.note(LostConnection(link="lookups", code=2003))
    last_us = follower.poll().last_us
    told.note(Alive())

    assert last_us is not None
    assert follower.poll().last_us == last_us


def test_an_epoch_is_as_high_as_its_slowest_subtask(tmp_path: Path) -> None:
    quick, slow = journal(tmp_path, subtask=0), journal(tmp_path, subtask=1)
    for checkpoint in (1, 2, 3):
        quick.committed(checkpoint)
    slow.committed(1)

    assert Follower(tmp_path).poll().epoch == 1
