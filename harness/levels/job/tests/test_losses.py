"""What another server had acknowledged, and the promoted one lacks, is the database's loss and not the job's."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from harness.history.tests.job_lines import job_history
from harness.history.verdict import InvariantVerdict, Outcome
from harness.levels.job.job_file import SinkTable
from harness.levels.job.outside_record import judge_of
from harness.levels.job.sink_rows import SinkColumns

SINK = SinkTable(values=("v",))


def _life(*lost: int) -> Any:
    """A run in which the rows of these ids were lost with the first server."""
    losses = [SimpleNamespace(table=SINK.table, rows=[{"id": id_, "v": "a"} for id_ in lost])]
    verdict = InvariantVerdict(invariant="V22", outcome=Outcome.FAIL)
    second = SimpleNamespace(losses=losses, verdict=lambda faults: verdict)
    order = SimpleNamespace(job=SimpleNamespace(sink=SINK), scenario=None)
    return SimpleNamespace(
        ground=SimpleNamespace(second=second),
        order=order,
        records=(),
        seen=SimpleNamespace(columns=SinkColumns(sink=SINK, types={}, offered={})),
    )


def _liveness(lost: Sequence[int], *offers: str) -> Outcome:
    """V16 of a job that is given up without a row, with these offers."""
    lines = "".join(f"{line}\n" for line in offers)
    history = job_history(f'start\n{lines}giveup why="silence"\nwhole reading=1\n')
    judgement = judge_of(_life(*lost))(*history)
    return next(one.outcome for one in judgement.invariants if one.invariant == "V16")


def test_a_job_that_misses_what_the_database_lost_is_not_convicted() -> None:
    assert _liveness([1], 'offer id=1 expect=[["a"]]') is Outcome.UNKNOWN
    assert _liveness([], 'offer id=1 expect=[["a"]]') is Outcome.FAIL
    assert _liveness([1], 'offer id=1 expect=[["a"]]', 'offer id=2 expect=[["a"]]') is Outcome.FAIL


def test_records_that_yield_no_row_do_not_hide_that_the_database_lost_the_rest() -> None:
    empty = ("offer id=2 fails=true", "offer id=3 expect=[]")

    assert _liveness([1], 'offer id=1 expect=[["a"]]', *empty) is Outcome.UNKNOWN
