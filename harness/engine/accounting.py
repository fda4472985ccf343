"""The counts beside a verdict: what SQL counts in the tables, and whether it agrees with what was judged.

Invariant: a printed number that contradicts the history or the verdict is a defect of the harness, never a result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from harness.history.event import Event, In, Res, Row, TableRead
from harness.history.header import Header
from harness.history.outside import OutsideEvent, OutsideHeader, PartRead, TableRow
from harness.history.verdict import Judgement, Outcome
from harness.scenario.claims import DEAD_LETTERS, OUTPUTS
from harness.scenario.model import Scenario
from harness.scenario.plan import Expected
from harness.scenario.workloads.lookups import offered_records
from harness.scenario.workloads.shape import Key, key_of
from harness.system.errors import HarnessError

_WRONG = ("doubled", "disordered", "missing")
"""The counts that are 0 beside a pass."""


def accounting_of(
    counts: Mapping[str, int],
    events: Iterable[Event],
    *,
    scenario: Scenario,
    seed: int,
    rows: Sequence[list[object]] | None,
    expected: Expected | None = None,
) -> dict[str, int]:
    """What is printed beside a verdict: the counts by SQL, and how many records were offered, and are missing.

    `rows`: those of the looked-up table; a record of a key without rows, or that is expected to yield nothing, is not
    offered. None: they are not known, and each record that may yield something is. Empty if nothing could be
    counted; without `missing` if a table could not.
    """
    if not counts:
        return {}
    known = None if expected is None else expected.known()
    offered = offered_records(scenario, seed=seed, rows=rows or (), known=known)
    accounting = {"offered": offered, **counts}
    if "records" in counts and "dead_letters" in counts:
        without = _without_result(events, answered=None if rows is None else {key_of(row[0]) for row in rows})
        accounting["missing"] = max(0, offered - counts["records"] - counts["dead_letters"] - without)
        accounting |= {"without_result": without} if without else {}
    return accounting


def _without_result(events: Iterable[Event], *, answered: Collection[Key] | None) -> int:
    """How many records have no row because their call or timeout ended without a result, though one was expected.

    So it is with a substitute of no rows, and with a user's lookup, whose results nobody knows: of those, records of
    keys that have rows (`answered`; None: all).
    """
    stored: set[Any] = set()
    expects: dict[Any, bool] = {}
    empty: set[Any] = set()
    for event in events:
        if type(event) is Row:
            stored.add(event.id)
        elif type(event) is In:
            known = event.expect is not UNSET
            expects[event.id] = (
                bool(event.expect) if known else answered is None or key_of(event.key) in answered
            )
        elif type(event) is not Res or not event.final or event.r not in {"ok", "timeout"}:
            continue
        elif event.error is UNSET and (event.v is UNSET or not event.v):
            empty.add(event.id)
    return sum(expects.get(record, False) for record in empty - stored)


def hold_together(
    accounting: Mapping[str, int], header: Header, events: Sequence[Event], judgement: Judgement
) -> None:
    """Raises HarnessError if a count contradicts the rows in the history, or a pass."""
    said = [
        f"SQL counts {accounting[name]} {name.replace('_', ' ')}, the history holds {count}"
        for name, count in _counted(header, events).items()
        if name in accounting and accounting[name] != count
    ]
    if judgement.outcome is Outcome.PASS:
        wrong = [f"{accounting[name]} {name}" for name in _WRONG if accounting.get(name)]
        said += [f"the verdict is a pass, and SQL counts {' and '.join(wrong)}"] if wrong else []
    if said:
        raise HarnessError("; ".join(said), fix="please report it, with the run's history")


def hold_outside_together(
    accounting: Mapping[str, int],
    header: OutsideHeader,
    events: Sequence[OutsideEvent],
    judgement: Judgement,
) -> None:
    """Raises HarnessError if a count of a job's table contradicts its last reading in the history, or a pass."""
    if "rows" not in accounting:
        return
    reads = [event.reading for event in events if isinstance(event, PartRead) and event.of == "table"]
    last = max(reads, default=0)  # not that of the last row: a further start may have left no row at all
    rows = [event for event in events if isinstance(event, TableRow) and event.reading == last]
    said = []
    if len(rows) != accounting["rows"]:
        said.append(f"SQL counts {accounting['rows']} rows, the history holds {len(rows)}")
    allows_doubles = header.claims.delivery == "at-least-once"
    if judgement.outcome is Outcome.PASS and accounting.get("doubled") and not allows_doubles:
        said.append(f"the verdict is a pass, and SQL counts {accounting['doubled']} doubled")
    if said:
        raise HarnessError("; ".join(said), fix="please report it, with the run's history")


def _counted(header: Header, events: Iterable[Event]) -> dict[str, int]:
    """The same counts from the rows in the history, of the tables that it holds whole."""
    outputs: Counter[tuple[Any, Any]] = Counter()
    letters = 0
    read: dict[str, int] = {}
    for event in events:
        if type(event) is Row:
            if event.table == OUTPUTS:
                outputs[event.id, event.j] += 1
            elif event.table == DEAD_LETTERS:
                letters += 1
        elif type(event) is TableRead:
            read[event.table] = event.rows
    counts: dict[str, int] = {}
    if OUTPUTS in read and OUTPUTS in (header.tables or {}):
        counts |= {
            "rows": outputs.total(),
            "records": len({record for record, _ in outputs}),
            "doubled": sum(count > 1 for count in outputs.values()),
        }
    if DEAD_LETTERS in read:
        counts["dead_letters"] = letters
    return counts
