"""V8 where rows are of keys: counts, sums, windows, newest rows. The finished table must be the expected one, whole.

A row that many records make shows no lost or doubled record by itself, and may be rewritten as often as the job likes:
so only the finished table convicts. The log adds which transaction made a row wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from harness.history.outside import ExpectedRow, TableRow
from harness.history.values import shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.invariant import Findings
from harness.judge.checkers.outside.finish import Finish
from harness.judge.checkers.outside.job_trace import OutsideTrace
from harness.judge.checkers.outside.slots import SlotKey, cells, digest, named, told_values, unlike


class KeyDifference(NamedTuple):
    """How the rows of a key differ from the expected ones."""

    kind: str
    events: tuple[int, ...]
    say: str


def find_whole_table(trace: OutsideTrace, finish: Finish) -> Findings:
    """V8 of a history whose rows are of keys."""
    whole = trace.whole(1)
    found = differing_keys(trace) if whole else {}
    changed = _changed(trace) if whole and trace.whole(2) else {}
    told = [*found.items(), *changed.items()] if finish.done else []
    ends = {finish.at, *(trace.readings[1].read.get("table", finish.at),)}
    return Findings(
        anomalies=tuple(
            Anomaly(kind=one.kind, id=cells(slot[0]), events=tuple(sorted({*one.events, *ends})), say=one.say)
            for slot, one in told
        ),
        unread=tuple(_unread(trace, finish, found)),
        observed=(trace.replay.effects if trace.has_log else 0)
        + sum(len(reading.slots) for reading in trace.readings.values()),
        exposed=bool(trace.records.by_key) and bool(trace.visible),
    )


def _unread(trace: OutsideTrace, finish: Finish, found: Mapping[SlotKey, KeyDifference]) -> Iterator[str]:
    if unread := trace.unread(1):
        yield f"reading 1 is not whole: {', '.join(unread)} not read to the end"
    if trace.disagreement:
        yield f"log and table disagree: {trace.disagreement[0]}"
    if found and not finish.done:
        yield f"the job was not finished, and so far {next(iter(found.values())).say}"
    again = any(start.n > finish.at for start in trace.starts.values()) and finish.done
    if (trace.readings[2].begun or again) and (rest := trace.unread(2)):
        yield f"the job was started once more, and reading 2 is not whole: {', '.join(rest)} not read to the end"


def differing_keys(trace: OutsideTrace) -> dict[SlotKey, KeyDifference]:
    """The keys whose rows in reading 1 are not the expected ones."""
    reading, found = trace.readings[1], {}
    for slot in dict.fromkeys([*trace.slots_wanted(), *reading.shown]):
        due, there = trace.records.due.get(slot[0], []), reading.shown.get(slot, [])
        missing, surplus = _beyond(due, there), _beyond(there, due)
        if missing or surplus:
            found[slot] = _difference(trace, slot, missing, surplus)
    return found


def _difference(
    trace: OutsideTrace, slot: SlotKey, missing: Sequence[ExpectedRow], surplus: Sequence[TableRow]
) -> KeyDifference:
    due, there = trace.records.due.get(slot[0], []), trace.readings[1].shown.get(slot, [])
    who, columns = named(slot, "key"), trace.header.sink.values
    least = trace.replay.least(slot) if trace.has_log else None
    if missing and surplus:
        kind = "wrong-value"
        say = f"in the table {who} has {unlike(columns, surplus[0].v, [row.v for row in missing])}"
        say += f" and {_rows(len(surplus) - 1)} more that are wrong" if len(surplus) > 1 else ""
    elif surplus:
        kind = "duplicate" if due else "phantom"
        right = f"where {len(due)} {'is' if len(due) == 1 else 'are'} right" if due else "where none is right"
        say = f"{who} has {_rows(len(there))} in the table, {right}: {told_values(columns, surplus[0].v)} is too many"
    else:
        kind = "deleted" if least is not None and least < len(missing) else "lost"
        lacks = "no row" if not there else f"only {_rows(len(there))}"
        say = f"{who} has {lacks} in the table, where {told_values(columns, missing[0].v)} is right"
    cause, by = _cause(trace, slot)
    events = {*(row.n for row in [*due, *there]), *by}
    return KeyDifference(kind, tuple(sorted(events)), say + cause)


def _cause(trace: OutsideTrace, slot: SlotKey) -> tuple[str, tuple[int, ...]]:
    """Which transaction made the rows of a key wrong, as far as the log shows it, and its event."""
    if not trace.has_log:
        return "", ()
    logged = trace.replay.slots.get(slot)
    if logged is None or logged.changed is None:
        return "; no transaction ever wrote it", ()
    effect = logged.spoilt or logged.changed
    whose = "" if effect.start is None else f" of start {effect.start}"
    by = f"transaction {shown(effect.tx)}{whose}"
    if logged.spoilt is not None:
        return f"; it was right until {by} changed it", (effect.n,)
    return f"; no transaction made it right, and {by} changed it last", (effect.n,)


def _changed(trace: OutsideTrace) -> dict[SlotKey, KeyDifference]:
    """The keys that a further start gave other rows."""
    first, second = (trace.readings[number].shown for number in (1, 2))
    found, columns = {}, trace.header.sink.values
    for slot in {**first, **second}:
        before, after = first.get(slot, []), second.get(slot, [])
        gone, new = _beyond(before, after), _beyond(after, before)
        if gone or new:
            now = told_values(columns, new[0].v) if new else f"{_rows(len(gone))} less"
            was = f", where it had {told_values(columns, gone[0].v)}" if gone and new else ""
            say = f"{named(slot, 'key')} has {now} in the table after the job was started once more{was}"
            found[slot] = KeyDifference("changed-again", tuple(sorted(row.n for row in [*gone, *new])), say)
    return found


def _beyond(rows: Sequence[Any], others: Sequence[ExpectedRow | TableRow]) -> list[Any]:
    """The rows that are not among the others, each of these standing for one."""
    left = Counter(digest(row.v) for row in others)
    beyond = []
    for row in rows:
        value = digest(row.v)
        if left[value] > 0:
            left[value] -= 1
        else:
            beyond.append(row)
    return beyond


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"
