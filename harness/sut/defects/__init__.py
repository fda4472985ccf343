"""Planted defects: the reference, its sink, its pool, its task or the harness with one thing wrong.

They show that the checkers and the property tests convict. There is one table, `DEFECTS`, for every level and for the
property tests; each file here holds the wrong classes of one component and their entries. Invariant: a defect is in
what is under test, or in the harness, never in the checker that must convict it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from harness.sut.defects.acknowledgements import OF_ACKNOWLEDGEMENTS
from harness.sut.defects.answers import OF_ANSWERS
from harness.sut.defects.barriers import OF_BARRIERS
from harness.sut.defects.calls import OF_CALLS
from harness.sut.defects.checkpoints import OF_CHECKPOINTS
from harness.sut.defects.coordinators import OF_COORDINATORS
from harness.sut.defects.dead_letters import OF_DEAD_LETTERS
from harness.sut.defects.defect import HARNESS_CHECKS, Defect, PropertyDefect, RunnerDefect, Stranger
from harness.sut.defects.failovers import OF_FAILOVERS
from harness.sut.defects.fences import OF_FENCES
from harness.sut.defects.harness import OF_THE_HARNESS
from harness.sut.defects.inputs_and_keys import OF_INPUTS_AND_KEYS
from harness.sut.defects.key_order import OF_KEY_ORDER
from harness.sut.defects.keyed_state import OF_KEYED_STATE
from harness.sut.defects.lookups import OF_LOOKUPS
from harness.sut.defects.mail_programs import MAILBOXES
from harness.sut.defects.mailboxes import OF_MAILBOXES
from harness.sut.defects.operator_state import OF_OPERATOR_STATE
from harness.sut.defects.operators import OF_OPERATORS
from harness.sut.defects.pools import OF_POOLS
from harness.sut.defects.rescaling import OF_RESCALING
from harness.sut.defects.retries import OF_RETRIES
from harness.sut.defects.runners import OF_RUNNERS
from harness.sut.defects.sinks import OF_SINKS
from harness.sut.defects.slots import OF_SLOTS
from harness.sut.defects.sources import OF_SOURCES
from harness.sut.defects.subtask_checkpoints import OF_SUBTASK_CHECKPOINTS
from harness.sut.defects.table_rows import OF_TABLE_ROWS
from harness.sut.defects.tasks import OF_TASKS
from harness.sut.defects.timers import OF_TIMERS
from harness.sut.defects.ttl import OF_TTL
from harness.sut.defects.two_phase_sinks import OF_TWO_PHASE_SINKS
from harness.sut.registry import load_attribute
from harness.sut.variant import HONEST, Variant
from harness.system.errors import SutError, UsageError

__all__ = [
    "DEFECTS",
    "HARNESS_CHECKS",
    "IN_RUNS",
    "MAILBOXES",
    "RUNNER_DEFECTS",
    "STRANGERS",
    "Defect",
    "PropertyDefect",
    "Stranger",
    "find_defect",
    "find_of_run",
    "own_variant",
    "variant_of",
]

_BY_COMPONENT: tuple[Defect | PropertyDefect | Stranger, ...] = (
    *OF_CHECKPOINTS,
    *OF_SINKS,
    *OF_ACKNOWLEDGEMENTS,
    *OF_CALLS,
    *OF_RETRIES,
    *OF_POOLS,
    *OF_LOOKUPS,
    *OF_OPERATORS,
    *OF_KEY_ORDER,
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
    *OF_TABLE_ROWS,
    *OF_DEAD_LETTERS,
    *OF_COORDINATORS,
    *OF_FENCES,
    *OF_FAILOVERS,
    *OF_SOURCES,
    *OF_ANSWERS,
    *OF_SLOTS,
    *OF_INPUTS_AND_KEYS,
    *OF_RESCALING,
)


def _place(defect: Defect | PropertyDefect | Stranger) -> int:
    """Numbered defects first, then those that a run can show, those that only a property convicts, and strangers."""
    if isinstance(defect, Stranger):
        return 300
    if isinstance(defect, PropertyDefect):
        return 200
    return defect.number or 100


DEFECTS: Mapping[str, Defect | PropertyDefect | Stranger] = MappingProxyType(
    {defect.name: defect for defect in sorted(_BY_COMPONENT, key=_place)}
)
"""All of them by name: in the order of their numbers, then by component."""
assert len(DEFECTS) == len(_BY_COMPONENT), "two planted defects have one name"

IN_RUNS: Mapping[str, Defect] = MappingProxyType(
    {name: defect for name, defect in DEFECTS.items() if isinstance(defect, Defect)}
)
"""Those of `DEFECTS` that a run, or the kill matrix, can show."""


STRANGERS: Mapping[str, Stranger] = MappingProxyType(
    {name: defect for name, defect in DEFECTS.items() if isinstance(defect, Stranger)}
)
"""Those of `DEFECTS` for which no invariant is named."""


RUNNER_DEFECTS: Mapping[str, RunnerDefect] = MappingProxyType({defect.name: defect for defect in OF_RUNNERS})
"""Those of one runner of level spark; no random scenario, and no other level, can show them."""


def find_of_run(name: str) -> Defect | RunnerDefect | Stranger:
    """The defect `name`, which a run with some runner can show, or a user's own: `MODULE:ATTR`.

    Raises UsageError with the names that there are, SutError for an attribute that is no defect.
    """
    if ":" in name:
        about, breaks = "a defect of yours", "what its author says"
        return Stranger(name=name, about=about, component="yours", breaks=breaks, variant=own_variant(name))
    return RUNNER_DEFECTS[name] if name in RUNNER_DEFECTS else find_defect(name)


def own_variant(name: str) -> Variant:
    """A user's own defect `MODULE:ATTR`: a `Variant` or a `build_operator`. Raises SutError if it is neither."""
    found = load_attribute(name, option="--mutant", kind="ATTR")
    if isinstance(found, Variant):
        return found
    if callable(found):
        return Variant(build_operator=found)
    message = f"--mutant {name} is {type(found).__name__}, neither a Variant nor a build_operator"
    raise SutError(message, fix="see harness/sut/variant.py for what a defect may replace")


def find_defect(name: str) -> Defect | Stranger:
    """The defect `name`, which a run can show. Raises UsageError with the names that there are."""
    if name in IN_RUNS:
        return IN_RUNS[name]
    if name in STRANGERS:
        return STRANGERS[name]
    message = f"there is no mutant called {name!r}"
    if name in RUNNER_DEFECTS:
        message = f"the mutant {name!r} shows in a run with --runner {RUNNER_DEFECTS[name].runner} only"
    if name in DEFECTS:
        message = f"the mutant {name!r} shows in no run: only a property test convicts it (docs/reference/mutants.md)"
    raise UsageError(message, fix=f"one of: {', '.join(IN_RUNS)}")


def variant_of(name: str | None) -> Variant:
    """The parts that the defect `name` replaces; None: the reference's own. Raises UsageError as `find_defect`.

    Also those of another mailbox, which no run convicts, but which `floodmark diff` may run.
    """
    if name in MAILBOXES:
        return replace(HONEST, build_mailbox=MAILBOXES[name].wrong)
    return HONEST if name is None else find_of_run(name).variant
