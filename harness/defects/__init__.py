"""Planted defects: the reference, its sink, its pool, its task or the harness with one thing wrong.

They show that the checkers and the property tests convict. There is one table, `DEFECTS`, for every level and for the
property tests; each file here holds the wrong classes of one component and their entries. Invariant: a defect is in
what is under test, or in the harness, never in the checker that must convict it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from harness.defects.barriers import OF_BARRIERS
from harness.defects.calls import OF_CALLS
from harness.defects.checkpoints import OF_CHECKPOINTS
from harness.defects.defect import HARNESS_CHECKS, Defect, PropertyDefect
from harness.defects.harness import OF_THE_HARNESS
from harness.defects.keyed_state import OF_KEYED_STATE
from harness.defects.lookups import OF_LOOKUPS
from harness.defects.mailboxes import OF_MAILBOXES
from harness.defects.operator_state import OF_OPERATOR_STATE
from harness.defects.operators import OF_OPERATORS
from harness.defects.pools import OF_POOLS
from harness.defects.sinks import OF_SINKS
from harness.defects.subtask_checkpoints import OF_SUBTASK_CHECKPOINTS
from harness.defects.tasks import OF_TASKS
from harness.defects.timers import OF_TIMERS
from harness.defects.ttl import OF_TTL
from harness.defects.two_phase_sinks import OF_TWO_PHASE_SINKS
from harness.errors import UsageError
from harness.sut.variant import HONEST, Variant

__all__ = ["DEFECTS", "HARNESS_CHECKS", "IN_RUNS", "Defect", "PropertyDefect", "find_defect", "variant_of"]

_BY_COMPONENT: tuple[Defect | PropertyDefect, ...] = (
    *OF_CHECKPOINTS,
    *OF_SINKS,
    *OF_CALLS,
    *OF_POOLS,
    *OF_LOOKUPS,
    *OF_OPERATORS,
    *OF_MAILBOXES,
    *OF_TASKS,
    *OF_KEYED_STATE,
    *OF_TTL,
    *OF_OPERATOR_STATE,
    *OF_TIMERS,
    *OF_BARRIERS,
    *OF_SUBTASK_CHECKPOINTS,
    *OF_TWO_PHASE_SINKS,
    *OF_THE_HARNESS,
)


def _place(defect: Defect | PropertyDefect) -> int:
    """Numbered defects first, then those that a run can show, then those that only a property convicts."""
    if isinstance(defect, PropertyDefect):
        return 200
    return defect.number or 100


DEFECTS: Mapping[str, Defect | PropertyDefect] = MappingProxyType(
    {defect.name: defect for defect in sorted(_BY_COMPONENT, key=_place)}
)
"""All of them by name: in the order of their numbers, then by component."""

IN_RUNS: Mapping[str, Defect] = MappingProxyType(
    {name: defect for name, defect in DEFECTS.items() if isinstance(defect, Defect)}
)
"""Those of `DEFECTS` that a run, or the kill matrix, can show."""


def find_defect(name: str) -> Defect:
    """The defect `name`, which a run can show. Raises UsageError with the names that there are."""
    if name in IN_RUNS:
        return IN_RUNS[name]
    message = f"there is no mutant called {name!r}"
    if name in DEFECTS:
        message = f"the mutant {name!r} shows in no run: only a property test convicts it (docs/reference/mutants.md)"
    raise UsageError(message, fix=f"one of: {', '.join(IN_RUNS)}")


def variant_of(name: str | None) -> Variant:
    """The parts that the defect `name` replaces; None: the reference's own. Raises UsageError as `find_defect`."""
    return HONEST if name is None else find_defect(name).variant
