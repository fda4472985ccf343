"""What passes from the operator to the journal and the sink."""

from __future__ import annotations

from typing import Any

from harness.sut.coordination import JournalledSubtask
from harness.sut.dead_letter import DeadLetter
from harness.sut.phases import Phases
from reference_impl.elements import Record


class Listed:
    """A journal and a sink in one: every call with its arguments, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **arguments: self.calls.append((name, arguments))


class NoPhases:
    def reach(self, phase: str) -> None:
        """Nothing waits for a phase."""


def emitted(*letters: DeadLetter) -> list[tuple[str, dict[str, Any]]]:
    listed, phases = Listed(), NoPhases()
    subtask = JournalledSubtask(journal=listed, sink=listed, phases=_as_phases(phases), expect=None)
    for position, letter in enumerate(letters):
        subtask.emit(Record(value=letter, timestamp=None, position=position))
    return listed.calls


def _as_phases(phases: Any) -> Phases:
    return phases  # type: ignore[no-any-return]  # only `reach` is called


def test_a_dead_letter_is_journalled_before_the_sink_gets_it_with_its_error_t5() -> None:
    calls = emitted(DeadLetter(id=7, error="ValueError: no"))

    assert calls == [("dead", {"id": 7}), ("write_dead_letter", {"id": 7, "error": "ValueError: no"})]


def test_a_letter_that_the_operator_emits_twice_is_one_death_and_two_rows_t5() -> None:
    """So the table has more rows than the history has deaths, and V20 convicts."""
    calls = emitted(
        DeadLetter(id=7, error="E: x"), DeadLetter(id=7, error="E: x"), DeadLetter(id=8, error="E: y")
    )

    assert [(name, arguments["id"]) for name, arguments in calls] == [
        ("dead", 7),
        ("write_dead_letter", 7),
        ("write_dead_letter", 7),
        ("dead", 8),
        ("write_dead_letter", 8),
    ]
