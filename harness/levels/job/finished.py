"""The rule by which a job is held to be done: it exited, it said so, its rows are there, or it has settled.

Invariant: what is not yet certain is not held to be done; a job that restarts slowly is waited for.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.levels.job.job_file import JobFile
from harness.levels.job.records import JobInput, SourceRecord
from harness.levels.job.sink_rows import SinkReplay, by_id, id_text
from harness.levels.job.spark_engine import SparkEnd, find_checkpoints, spark_is_behind

ExpectedRows = Mapping[str, Sequence[Sequence[object]]]
"""The values of the rows that a record must yield, by the text of its id; one that is not in it may yield anything.

Where rows are of keys: those of each key, by its text; one that is not in it has none.
"""
How = Literal["exit", "file", "all-rows", "settled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSignals:
    """What is known of a run at one moment; times in microseconds."""

    now_us: int
    offered_us: int | None
    """When the last record was offered; None: not all have been."""
    exited_well_us: int | None
    """When the newest start was seen to have exited with code 0; None: it was not."""
    lives: bool
    """Whether the newest start does."""
    older_lives: bool
    """Whether a start does that was made before the newest."""
    said_done: bool
    """Whether the done file was made after the last offer."""
    replay: SinkReplay | None
    last_row_us: int | None
    last_event_us: int | None
    """When a start, exit or fault was last noted."""
    last_start_us: int | None
    faults_settled: bool
    """Whether no fault is just beginning or healing."""
    last_fault_us: int | None
    """When a fault last began or healed; None: none has."""
    rounds: int
    """How many rounds of sentinels were offered."""
    quiet_us: int
    """How long the sink must have been quiet."""
    start_up_us: int
    """How long a start may take to its first row."""
    state: Path
    spark_end: SparkEnd
    """What the source holds, in the words of a checkpoint of Spark."""


def how_finished(
    job: JobFile, given: JobInput, seen: EndSignals, expected: ExpectedRows | None
) -> How | None:
    """How the job shows that it is done; None: it is not. `expected`: None in the calm twin, of rows not known yet.

    However it ends, it is not done until it was quiet since a fault last began or healed.
    """
    if seen.offered_us is None or not seen.faults_settled:
        return None
    if seen.last_fault_us is not None and seen.now_us - seen.last_fault_us < seen.quiet_us:
        return None
    match job.job.ends:
        case "exit":
            if not has_exited_well(seen):
                return "all-rows" if _polls_behind_the_end(job, given, seen, expected) else None
            # An older start may do what is left to do: the newest may have exited because that one holds the lock.
            return None if seen.older_lives and not is_quiet(seen) else "exit"
        case "file":
            return "file" if seen.said_done else None
    if not seen.lives or not is_quiet(seen):
        return None
    return _by_table(job, given, seen, expected)


def _by_table(job: JobFile, given: JobInput, seen: EndSignals, expected: ExpectedRows | None) -> How | None:
    """How the table of a quiet job shows that it is done."""
    if job.sink.rows == "key":
        # Rows of keys do not show that the last record was taken: the table is the expected one, or Spark says it.
        if expected is not None:
            return None if any(wrong_keys(seen.replay, expected)) else "all-rows"
        is_idle = find_checkpoints(seen.state) and not spark_is_behind(seen.state, seen.spark_end)
        return "settled" if is_idle else None
    if expected is not None and not any(missing_records(given.records, seen.replay, expected)):
        return "all-rows"
    # The last of two rounds at least: the first one may have come through where others still wait for more rows.
    sentinels = given.sentinels[seen.rounds - 1] if seen.rounds > 1 and seen.replay is not None else ()
    passed = {one.part for one in sentinels if seen.replay is not None and seen.replay.of(one.id)}
    is_last_seen = seen.replay is not None and all(
        part in passed or _is_seen(of_part, seen.replay, expected)
        for part, of_part in given.last_of_parts.items()
    )
    is_behind = job.job.engine != "plain" and spark_is_behind(seen.state, seen.spark_end)
    return "settled" if is_last_seen and not is_behind else None


def needs_sentinels(
    job: JobFile, given: JobInput, seen: EndSignals, expected: ExpectedRows, *, recover_us: int
) -> bool:
    """Whether a job that is not done, and never says so, has been quiet so long that its last rows may be lost.

    Rows that a further record would change, such as those of a key, are left alone.
    """
    if (
        job.job.ends != "settles"
        or not seen.faults_settled
        or not seen.lives
        or seen.rounds == len(given.sentinels)
    ):
        return False
    if seen.offered_us is None or seen.now_us - (seen.last_event_us or 0) < recover_us or not is_quiet(seen):
        return False
    is_of_records = job.sink.write != "upsert" or all(
        record.fails or expected.get(id_text(record.id)) for record in given.records
    )
    return is_of_records and not (job.job.engine != "plain" and spark_is_behind(seen.state, seen.spark_end))


def _polls_behind_the_end(
    job: JobFile, given: JobInput, seen: EndSignals, expected: ExpectedRows | None
) -> bool:
    """Whether a start has nothing left to read of a table, of which it may ask only what is behind its position."""
    had_nothing = (seen.last_row_us or 0) <= (seen.last_start_us or 0)
    if job.source.kind != "table" or expected is None or seen.offered_us is None or not had_nothing:
        return False
    began_behind = (seen.last_start_us or 0) >= seen.offered_us
    return (
        began_behind and seen.lives and is_quiet(seen) and _by_table(job, given, seen, expected) == "all-rows"
    )


def has_exited_well(seen: EndSignals) -> bool:
    """Whether the newest start exited with code 0 when all had been offered, and no fault is beginning or healing."""
    if seen.offered_us is None or seen.exited_well_us is None or not seen.faults_settled:
        return False
    return seen.exited_well_us >= seen.offered_us


def is_quiet(seen: EndSignals) -> bool:
    """Whether nothing has happened for so long that a working job would have shown something."""
    last_us = max(seen.last_row_us or 0, seen.last_event_us or 0, seen.offered_us or 0)
    of_start_us = (seen.last_start_us or 0) + seen.start_up_us
    has_row_since_start = (seen.last_row_us or 0) > (seen.last_start_us or 0)
    return seen.now_us - last_us >= seen.quiet_us and (
        has_row_since_start or seen.now_us - of_start_us >= seen.quiet_us
    )


def missing_records(
    records: Sequence[SourceRecord], replay: SinkReplay | None, expected: ExpectedRows
) -> Iterator[SourceRecord]:
    """The records of which something is missing in the table; one that is meant to fail is none."""
    for record in records:
        if not record.fails and _lacks(record, replay, expected):
            yield record


def wrong_keys(replay: SinkReplay | None, expected: ExpectedRows) -> Iterator[str]:
    """The texts of the keys that have other rows in the table than they must have in the end."""
    there = {} if replay is None else by_id(replay.all_rows())
    for text in {**expected, **there}:
        if _counted(row.v for row in there.get(text, ())) != _counted(expected.get(text, ())):
            yield text


def _counted(rows: Iterable[Sequence[object]]) -> Counter[str]:
    return Counter(json.dumps(list(values), default=str) for values in rows)


def _lacks(record: SourceRecord, replay: SinkReplay | None, expected: ExpectedRows) -> bool:
    wanted = expected.get(id_text(record.id))
    there = [] if replay is None else replay.of(record.id)
    if wanted is None:
        return not there
    return bool(_counted(wanted) - _counted(row.v for row in there))


def _is_seen(of_part: Sequence[SourceRecord], replay: SinkReplay, expected: ExpectedRows | None) -> bool:
    """Whether the last record of a partition that yields something is in the table; `of_part`: the last one first."""
    for record in of_part:
        if record.fails or (expected is not None and expected.get(id_text(record.id)) == []):
            continue
        if expected is None:
            return bool(replay.of(record.id))
        return not _lacks(record, replay, expected)
    return True
