"""What batches rest on: ranges, rows by offset, the barrier that waits, what a driver finds of earlier ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.database.batch_sink import Begun, PartOfEpoch
from harness.database.endpoint import NOWHERE, Endpoint
from harness.database.epoch import SavedEpoch
from harness.engine.attempt import AttemptFailed
from harness.engine.watch import AttemptReaper
from harness.faults.kill_worker import InjectedFailure
from harness.history.event import Close, End, Ended, Start
from harness.history.follower import Follower
from harness.history.notes import Dies, InProcess, Reached
from harness.history.recorder import Recorder, attempt_file, decode_lines, driver_file
from harness.levels.spark.batch_attempt import (
    BatchProgress,
    BatchSource,
    JournalOfBatch,
    ShareOfBatch,
    run_batch,
)
from harness.levels.spark.batch_journal import BatchJournal
from harness.levels.spark.level import lacks_of_runner, refuse_of_runner
from harness.levels.spark.positions_source import PositionsReader, Ranges, source_option
from harness.levels.spark.run_attempts import EndedWorkers, RunAttempts
from harness.scenario.catalogue import catalogue
from harness.scenario.file import apply_settings, load
from harness.scenario.order import Order
from harness.scenario.plan import Crash, RunPlan, decode_plan
from harness.scenario.workloads.lookups import LookupSource
from harness.sut.variant import HONEST
from harness.system.clock import monotonic_us
from harness.system.errors import CannotHere
from harness.system.process_identity import ProcessIdentity, this_process

PART = PartOfEpoch(subtask=1, attempt=5, rows=[], dead=[], position=60, elements=[])
EVERY = 60


def plan_of(name: str = "calm", folder: Path = Path(), **fields: Any) -> RunPlan:
    scenario = apply_settings(load(catalogue()[name]), ("workload.records=130", "expects={}"))
    secret = Endpoint(host="h", port=1, user="u", password="their secret", database="d")
    given: dict[str, Any] = {
        "run_id": "r", "seed": 3, "sut": "reference", "mutant": None, "lookups": secret, "sink": secret,
        "folder": str(folder), "path": [], "table": [], "crashes": [], "runner": "micro-batch",
    }  # fmt: skip
    return RunPlan(scenario=scenario.model_dump(mode="json", by_alias=True), **{**given, **fields})


def share_of(**fields: Any) -> ShareOfBatch:
    saved = SavedEpoch(epoch=1, position=60, elements=[{"w": 1, "pos": 3}, {"lookup": {"id": 9}, "pos": 4}])
    given: dict[str, Any] = {
        "subtask": 0, "epoch": 2, "begin": 60, "end": 120, "length": 143, "number": 5, "origin_ms": 0,
        "saved": saved, "by": None, "driver": this_process(),
    }  # fmt: skip
    return ShareOfBatch(**{**given, **fields})


def test_every_position_is_in_one_epoch_and_the_last_epoch_of_a_subtask_ends_its_source() -> None:
    ranges = Ranges(plan_of())

    for subtask, source in enumerate(ranges.sources):
        mine = [
            one
            for epoch in range(1, ranges.last_epoch + 1)
            for one in ranges.of(epoch)
            if one.subtask == subtask
        ]
        assert [position for one in mine for position in range(one.begin, one.end)] == list(
            range(len(source))
        )
        assert [one.is_last for one in mine] == [False] * (len(mine) - 1) + [True]
        assert {one.end - one.begin for one in mine[:-1]} == {EVERY}


def test_an_offset_gives_the_same_rows_however_often_it_is_read_and_one_epoch_at_a_time() -> None:
    reader = PositionsReader(decode_plan(source_option(plan_of()).encode()))
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())

    partitions = reader.partitions(reader.initialOffset(), first)
    rows = [list(reader.read(partition)) for partition in partitions]

    assert first == {"epoch": 1}
    assert rows == [list(reader.read(partition)) for partition in partitions]
    source = LookupSource(workload=Ranges(plan_of()).scenario.workload, seed=3, subtask=1)
    lookup, _ = source[0]  # type: ignore[misc]  # the first element is a record
    assert json.loads(rows[1][0][3])["lookup"]["id"] == lookup.id
    assert [len(of_one) for of_one in rows] == [EVERY, EVERY]


def test_the_source_of_a_query_knows_no_password() -> None:
    option = source_option(plan_of())

    assert "their secret" not in option
    assert decode_plan(option.encode()).sink == NOWHERE


@pytest.mark.parametrize(
    ("fields", "resolves", "is_held"),
    [
        ({}, None, True),
        ({}, 8, True),
        ({}, 9, False),
        ({"saved": None}, None, False),
        ({"end": 143}, None, False),
    ],
    ids=["restored", "another is resolved", "it is resolved", "nothing restored", "the last range drains"],
)
def test_the_barrier_waits_until_the_first_restored_record_is_resolved(
    fields: dict[str, Any],
    resolves: int | None,
    is_held: bool,  # noqa: FBT001 - a case
) -> None:
    share = share_of(**fields)
    progress = BatchProgress(share)
    elements = LookupSource(workload=Ranges(plan_of()).scenario.workload, seed=3, subtask=0)
    source = BatchSource(elements, progress=progress, checkpoint_every=EVERY, origin_ms=0)
    if resolves is not None:
        progress.resolved(resolves)

    before_ms = elements.due_ms(share.end - 1)

    assert (source.due_ms(share.end - 1) > before_ms) is is_held
    assert source.due_ms(share.end - 2) == elements.due_ms(share.end - 2)


def test_nothing_behind_the_barrier_of_a_batch_is_ever_due() -> None:
    elements = LookupSource(workload=Ranges(plan_of()).scenario.workload, seed=3, subtask=0)
    source = BatchSource(elements, progress=BatchProgress(share_of()), checkpoint_every=EVERY, origin_ms=0)

    assert source.due_ms(120) - elements.due_ms(120) > 10**8


def test_a_late_batch_with_a_pause_inside_keeps_the_pause() -> None:
    elements = LookupSource(workload=Ranges(plan_of()).scenario.workload, seed=3, subtask=0)
    share = share_of()
    late, paced = (
        BatchSource(
            elements,
            progress=BatchProgress(share),
            checkpoint_every=EVERY,
            origin_ms=0,
            keeps_pace=keeps_pace,
        )
        for keeps_pace in (False, True)
    )
    now_ms = monotonic_us() // 1000

    assert late.due_ms(share.begin + 30) < now_ms
    assert paced.due_ms(share.begin) <= now_ms
    assert paced.due_ms(share.begin + 30) - paced.due_ms(share.begin) == elements.due_ms(
        share.begin + 30
    ) - elements.due_ms(share.begin)


def test_what_an_attempt_has_made_does_not_die_with_its_worker_in_another_attempt(tmp_path: Path) -> None:
    worker, driver = ProcessIdentity(pid=2**22 + 1, started=1), this_process()
    for subtask, attempt in ((1, 21), (0, 22)):
        path = attempt_file(tmp_path, subtask=subtask, attempt=attempt)
        with Recorder(path) as recorder:
            journal = JournalOfBatch(
                recorder,
                subtask=subtask,
                attempt=attempt,
                progress=BatchProgress(share_of(driver=driver)),
                by=None,
            )
            journal.started(checkpoint=None, position=0, process=worker)
            if subtask == 1:
                journal.closed()

    follower = Follower(tmp_path)
    reaper = AttemptReaper(Recorder(tmp_path / "harness.jsonl"))
    dead = [view for _ in range(2) for view in reaper.look(follower.poll(), again=follower.poll)]

    assert [(view.subtask, view.attempt) for view in dead] == [(0, 22)]


def test_a_crash_of_the_driver_acts_at_its_hit_counted_over_drivers_and_once(tmp_path: Path) -> None:
    crash = Crash(fault="k", subtask=1, phase="commit.post", hit=2, how="exception")
    plan = plan_of(folder=tmp_path, crashes=[crash])
    with BatchJournal(plan, start=1) as first:
        first.reach(PART, "commit.post")
    with BatchJournal(plan, start=2) as second, pytest.raises(InjectedFailure):
        second.reach(PART, "commit.post")
    with BatchJournal(plan, start=3) as third:
        third.reach(PART, "commit.post")

    lines = decode_lines(driver_file(tmp_path, start=2).read_bytes())
    assert [type(line) for line in lines] == [Reached, Dies]


def test_a_driver_knows_which_attempts_were_closed_and_which_batches_were_begun_before_it(
    tmp_path: Path,
) -> None:
    plan = plan_of(folder=tmp_path)
    with BatchJournal(plan, start=1) as first:
        assert first.begins(1, [0, 1])
        first.over(PART, is_last=False)
    with BatchJournal(plan, start=2) as second:
        assert second.is_closed(1, 5)
        assert not second.is_closed(1, 9)
        assert not second.begins(1, [0, 1])
        assert second.begins(2, [0, 1])


def test_a_subtask_whose_last_commit_was_the_drivers_last_act_is_told_to_have_ended(tmp_path: Path) -> None:
    saved = SavedEpoch(epoch=3, position=150, elements=[])
    with BatchJournal(plan_of(folder=tmp_path), start=2) as journal:
        journal.ends_again(Begun(subtask=1, number=13, origin_ms=0, saved=saved, token=9))

    start, *others = decode_lines(driver_file(tmp_path, start=2).read_bytes())
    assert [type(line) for line in others] == [InProcess, End, Ended, Close]
    assert isinstance(start, Start)
    assert (start.from_, start.pos, start.a) == (3, 150, 13)


def test_what_a_runner_cannot_do_is_refused_with_a_sentence() -> None:
    two_phase = load(catalogue()["commit-lost"])

    with pytest.raises(CannotHere, match="one transaction of the driver"):
        refuse_of_runner(Order(scenario=two_phase, level="spark", seed=1, runner="micro-batch"))
    refuse_of_runner(Order(scenario=two_phase, level="spark", seed=1))
    assert not list(lacks_of_runner(load(catalogue()["while-committing"])))


def test_an_attempt_that_spark_starts_after_its_run_is_over_records_nothing(tmp_path: Path) -> None:
    """Its database is gone by then, which would be recorded as a failure that nothing explains."""
    RunAttempts(str(tmp_path), ended=EndedWorkers(tmp_path / "ended.jsonl")).close()

    with pytest.raises(AttemptFailed, match="run r is over"):
        run_batch(plan_of(folder=tmp_path), share_of(), {}, tries=2, variant=HONEST)

    assert not attempt_file(tmp_path, subtask=0, attempt=7).exists()


def test_a_batch_that_spark_has_logged_completes_the_checkpoint_of_each_of_its_subtasks(
    tmp_path: Path,
) -> None:
    """A fault that waits for the checkpoint of subtask 1 never began while only subtask 0 had a note."""
    with BatchJournal(plan_of(folder=tmp_path), start=1) as journal:
        journal.complete(0, [])
        journal.complete(1, [0, 1])
        journal.complete(1, [0, 1])

    assert Follower(tmp_path).poll().commits == {(0, 1): 1, (1, 1): 1}
