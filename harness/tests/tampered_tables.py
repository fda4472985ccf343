"""What a verdict must say of a table that somebody changed between the run and its reading, at every level (T1).

One case is one change of one table by a `harness.database.table_editor.TableEditor`, with the anomaly that names it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.database.table_editor import TableEditor, TouchedRow
from harness.history.verdict import Judgement, Outcome
from harness.scenario.model import Scenario

SINKS = ("atomic", "two-phase", "idempotent")
"""The sinks there are; in a history's header the third one is `rollback` with tables that keep the first row."""
TABLES = {"output": ("V8", "V9"), "dead_letter": ("V20",), "audit": ("V9",)}
"""Each table, and the invariants that are unknown if it cannot be read."""


def scenario_with(sink: str, *, records: int = 12, rate: str = "1000/s") -> Scenario:
    """Two subtasks; two records of the second one go to the dead letters."""
    poison = {"do": "poison", "subtask": 1, "how": "raises", "times": 100}
    return Scenario.model_validate(
        {
            "scenario": "tampered",
            "about": "A small one, whose tables are changed after the run.",
            "levels": ["sim", "live", "spark"],
            "operator": {"mode": "ordered", "timeout": "5s", "on_error": "dead-letter"},
            "workload": {"records": records, "rate": rate, "service": "5ms", "checkpoint_every": 5},
            "sink": sink,
            "faults": [
                {"id": f"poison-{record}", "when": {"record": record}, **poison}
                for record in (3, records - 2)
            ],
            "decisive": ["V8", "V9", "V20"],
            "budget": "60s",
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One change of one table, and the anomalies that must name the row: (invariant, class)."""

    table: str
    act: str
    shows: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return f"{self.act} {self.table}"


_SHOWN = (
    Case(table="output", act="delete", shows=(("V8", "row-missing"), ("V9", "row-deleted"))),
    Case(table="output", act="double", shows=(("V8", "row-doubled"), ("V9", "row-doubled"))),
    Case(table="output", act="alter", shows=(("V8", "row-altered"), ("V9", "row-altered"))),
    Case(table="output", act="add", shows=(("V8", "row-foreign"), ("V9", "row-foreign"))),
    Case(table="dead_letter", act="delete", shows=(("V20", "row-missing"),)),
    Case(table="dead_letter", act="double", shows=(("V20", "row-doubled"),)),
    Case(table="dead_letter", act="alter", shows=(("V20", "row-altered"),)),
    Case(table="dead_letter", act="add", shows=(("V20", "row-foreign"),)),
    Case(table="audit", act="delete", shows=(("V9", "no-effect"),)),
    Case(table="audit", act="double", shows=(("V9", "double-effect"),)),
    Case(table="audit", act="alter", shows=(("V9", "wrong-effect"),)),
    Case(table="audit", act="add", shows=(("V9", "phantom-effect"),)),
)
_SWAPPED = Case(table="output", act="swap", shows=(("V8", "row-disordered"),))
"""With a key a row that is written again keeps its first place, so that table claims no order."""

UNSEEN = {
    "atomic": ("dead_letter", "audit"),
    "two-phase": ("dead_letter", "audit"),
    "idempotent": tuple(TABLES),
}
"""By sink, the tables in which two rows may change places unseen: they claim no order of writing."""


def cases(sink: str) -> tuple[Case, ...]:
    """The changes that the tables of `sink` must show."""
    return _SHOWN if sink == "idempotent" else (*_SHOWN, _SWAPPED)


class Touching:
    """A `before_reading` that makes one change. Mutable: knows the row afterwards."""

    def __init__(self, act: str, table: str) -> None:
        self._act = act
        self._table = table
        self.touched: TouchedRow

    def __call__(self, hand: TableEditor) -> None:
        touched: Any = getattr(hand, self._act)(self._table)
        self.touched = touched[0] if isinstance(touched, tuple) else touched


def hides(table: str) -> Callable[[TableEditor], None]:
    """A `before_reading` that makes the table unreadable."""
    return lambda hand: hand.hide(table)


def names_the_row(judgement: Judgement, case: Case, touched: TouchedRow) -> None:
    """Asserts that the run fails, and that each anomaly of `case` names the row that was touched."""
    assert judgement.outcome is Outcome.FAIL
    for invariant, kind in case.shows:
        [verdict] = [verdict for verdict in judgement.invariants if verdict.invariant == invariant]
        named = [(a.kind, a.id, a.j, a.table) for a in verdict.anomalies]
        assert verdict.outcome is Outcome.FAIL
        if kind.startswith("row-"):
            assert (kind, touched.id, touched.j, case.table) in named
        else:  # a class of the audit, which names the record
            assert (kind, touched.id) in [(name, record) for name, record, *_ in named]
