"""The calm twin: the job is run once without faults, must work, and shows its pace and what its table should hold.

Invariants: it is run once for each job, input and world; a job that does not work undisturbed is told with the last
lines of its output, and no fault is tried on it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from harness.history.verdict import Outcome
from harness.levels.job.calm_twin import CalmRun
from harness.levels.job.job_database import AUDIT
from harness.levels.job.life import JobLife
from harness.levels.job.life_parts import Pace
from harness.levels.job.outside_record import record_of
from harness.levels.job.sink_rows import expected_of
from harness.levels.job.spark_engine import find_checkpoints
from harness.levels.job.traffic import requests_over
from harness.system.errors import WorldError

_INBOX: Final = "inbox"
_TLS_IS_OFF: Final = "usessl=false"
"""Of the URL that the job is given for JDBC, which a job may print."""


def calm_of(life: JobLife) -> CalmRun:
    """What a life without faults shows. Raises WorldError if the job did not work."""
    order, rows_us, expected = life.parts.order, life.seen.row_times, life.parts.expected
    if life.interrupted:
        raise KeyboardInterrupt
    if life.how is None:
        raise _does_not_work(life, f"{life.gave_up}{_elsewhere(life)}")
    if life.log.broken:
        message = f"the database's log of changes cannot be read: {life.log.broken}"
        raise WorldError(message, fix="floodmark doctor shows what the world lacks")
    if not rows_us or life.seen.columns is None or not life.readings:
        raise _does_not_work(
            life, f"it ended, and no row is in table {order.job.sink.table}{_elsewhere(life)}"
        )
    if not requests_over(life.faults.traffic.messages, "sink"):
        why = "it wrote rows, and the proxy saw no message of it: it speaks TLS or compresses, or goes past the proxy"
        raise _does_not_work(life, why)
    if life.how == "exit" and life.writes_after_exit:
        why = "its main process exited with code 0, and another process of it went on writing: run it in the foreground"
        raise _does_not_work(life, why)
    gaps = [later - earlier for earlier, later in pairwise(rows_us)]
    pace = Pace(
        first_row_us=max(0, rows_us[0] - life.began_us),
        gap_us=max(gaps, default=0),
        took_us=max(0, life.ended_us - life.began_us),
    )
    table = life.readings[-1].tables.get(order.job.sink.table, ())
    found = dict(expected_of(life.seen.columns.row(row) for row in table))
    wanted = expected if expected is not None else {text: found.get(text, []) for text in life.offered_ids}
    twin = CalmRun(
        pace=pace,
        expected=wanted,
        messages=tuple(life.faults.traffic.messages),
        keeps_files=any(life.parts.ground.state.iterdir()),
        keeps_tables=_keeps_tables(life),
        batches=max((one.batches for one in find_checkpoints(life.parts.ground.state)), default=0),
        life=life,
    )
    _refuse_wrong(twin)
    return twin


def _refuse_wrong(twin: CalmRun) -> None:
    """Raises WorldError if the calm run breaks a claim of the job."""
    is_stated = twin.life.parts.expected is not None
    record = record_of(twin.life, twin, expect_from="given" if is_stated else "none")
    judgement = record.judge(record.header, record.events)
    if judgement.outcome is not Outcome.FAIL:
        return
    wrong = next(one for one in judgement.invariants if one.outcome is Outcome.FAIL)
    first = f": {wrong.anomalies[0].say}" if wrong.anomalies else ""
    raise _does_not_work(twin.life, f"without any fault {wrong.invariant} fails{first}")


def _keeps_tables(life: JobLife) -> bool:
    sink = life.parts.order.job.sink
    not_state = {sink.table, sink.dead_letters, AUDIT, _INBOX}
    return any(change.table not in not_state for one in life.seen.transactions for change in one.changes)


def _elsewhere(life: JobLife) -> str:
    """What it wrote to other tables."""
    sink = life.parts.order.job.sink
    counts: dict[str, int] = {}
    for transaction in life.seen.transactions:
        for change in transaction.changes:
            if change.op == "insert" and change.table not in {sink.table, AUDIT, _INBOX}:
                counts[change.table] = counts.get(change.table, 0) + 1
    if not counts or life.seen.row_times:
        return ""
    told = ", ".join(f"{table} ({count} rows)" for table, count in counts.items())
    return f"; it wrote to {told}: should [sink] name that table?"


def _does_not_work(life: JobLife, why: str) -> WorldError:
    words = life.starts.last_words()
    said, hint = words.lower().replace(_TLS_IS_OFF, ""), ""
    if "ssl" in said or "tls" in said:
        hint = "; the proxy has to read MySQL's packets, so TLS must be off in the job"
    if "eoferror" in said or "stdin" in said:
        hint = "; it asked for input, and there is no terminal: tell it by `env` in the job file"
    if "modulenotfounderror" in said:
        hint = (
            f"; it ran under {life.starts.command[0]}:"
            " if its packages are in another environment, name that one's `python` in `command`"
        )
    for secret in (life.parts.world.app.password, life.parts.world.root.password):
        words = words.replace(secret, "***")
    return WorldError(f"the job does not work undisturbed: {why}; {words}", fix=f"mend the job first{hint}")
