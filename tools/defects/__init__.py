"""Every planted defect, a file a component: the twelve of `harness.sut.defects` and all others, which no user needs.

`--mutant tools.defects:late_results` reaches the defect `late-results`, as any `MODULE:ATTR`. `python -m
tools.kill_matrix` tries all that name their invariants, `python -m tools.defects.strangers_trial` the others, and
property tests in `tests` convict what no run shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from harness.sut.defects import DEFECTS as TWELVE
from harness.sut.defects.defect import Defect
from harness.sut.variant import Variant
from tools.defects.acknowledgements import OF_ACKNOWLEDGEMENTS
from tools.defects.answers import OF_ANSWERS
from tools.defects.barriers import OF_BARRIERS
from tools.defects.calls import OF_CALLS
from tools.defects.checkpoints import OF_CHECKPOINTS
from tools.defects.coordinators import OF_COORDINATORS
from tools.defects.dead_letters import OF_DEAD_LETTERS
from tools.defects.failovers import OF_FAILOVERS
from tools.defects.fences import OF_FENCES
from tools.defects.harness import OF_THE_HARNESS
from tools.defects.inputs_and_keys import OF_INPUTS_AND_KEYS
from tools.defects.key_order import OF_KEY_ORDER
from tools.defects.keyed_state import OF_KEYED_STATE
from tools.defects.kinds import PropertyDefect, Stranger
from tools.defects.lookups import OF_LOOKUPS
from tools.defects.mailboxes import OF_MAILBOXES
from tools.defects.operator_state import OF_OPERATOR_STATE
from tools.defects.operators import OF_OPERATORS
from tools.defects.policies import OF_POLICIES
from tools.defects.pools import OF_POOLS
from tools.defects.rescaling import OF_RESCALING
from tools.defects.retries import OF_RETRIES
from tools.defects.runners import OF_RUNNERS
from tools.defects.sinks import OF_SINKS
from tools.defects.slots import OF_SLOTS
from tools.defects.sources import OF_SOURCES
from tools.defects.subtask_checkpoints import OF_SUBTASK_CHECKPOINTS
from tools.defects.table_rows import OF_TABLE_ROWS
from tools.defects.tasks import OF_TASKS
from tools.defects.timers import OF_TIMERS
from tools.defects.ttl import OF_TTL
from tools.defects.two_phase_sinks import OF_TWO_PHASE_SINKS

__all__ = ["DEFECTS", "IN_RUNS", "MAILBOXES", "OURS", "RUNNER_DEFECTS", "STRANGERS", "mutant_named"]

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
    *OF_POLICIES,
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


DEFECTS: Final[Mapping[str, Defect | PropertyDefect | Stranger]] = MappingProxyType(
    {defect.name: defect for defect in sorted(_BY_COMPONENT, key=_place)}
)
"""All of them by name: in the order of their numbers, then by component."""
assert len(DEFECTS) == len(_BY_COMPONENT), "two planted defects have one name"

IN_RUNS: Final[Mapping[str, Defect]] = MappingProxyType(
    {name: defect for name, defect in DEFECTS.items() if isinstance(defect, Defect)}
)
"""Those of `DEFECTS` that a run, or the kill matrix, can show."""
OURS: Final = tuple(name for name, defect in IN_RUNS.items() if "sim" in defect.levels)
"""Those that a run at level sim can show: the rows of the kill matrix."""
STRANGERS: Final[Mapping[str, Stranger]] = MappingProxyType(
    {name: defect for name, defect in DEFECTS.items() if isinstance(defect, Stranger)}
)
"""Those of `DEFECTS` for which no invariant is named."""
RUNNER_DEFECTS: Final[Mapping[str, Defect]] = MappingProxyType({defect.name: defect for defect in OF_RUNNERS})
"""Those of one runner of level spark; no random scenario, and no other level, can show them."""
MAILBOXES: Final[Mapping[str, PropertyDefect]] = MappingProxyType(
    {defect.name: defect for defect in OF_MAILBOXES}
)
"""Other mailboxes: no run convicts them, but `floodmark diff` may run them."""


def mutant_named(name: str) -> str:
    """What `--mutant` takes for the defect `name`: one of the twelve as it is, any other as `MODULE:ATTR`."""
    return name if name in TWELVE else f"{__name__}:{_attribute(name)}"


def _attribute(name: str) -> str:
    return name.replace("-", "_")


_IN_A_RUN: Mapping[str, Defect] = {
    **IN_RUNS,
    **RUNNER_DEFECTS,
    **{name: stranger.defect for name, stranger in STRANGERS.items()},
    **{
        name: Defect(name=name, about=one.about, variant=Variant(build_mailbox=one.wrong), levels=())
        for name, one in MAILBOXES.items()
    },
}
globals().update({_attribute(name): defect for name, defect in _IN_A_RUN.items()})
