"""The invariants V1 to V24: the title, the sentence and the checker of each. A new one is a row here and its checker.

V17 has no row: it measures the cost of each fault and kill and is never a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantFacts:
    """One invariant of `docs/reference/history.md`."""

    title: str
    """Its short name, for tables and headings."""
    says: str
    checker: str | None
    """`module:class` in `harness.judge.checkers`; None: it is judged on the history of a probe, with two servers."""


CATALOGUE: Final[Mapping[str, InvariantFacts]] = {
    "V1": InvariantFacts(
        title="ordered",
        says="Ordered mode: results leave in the order of their records, and watermarks keep their place.",
        checker="order:Ordered",
    ),
    "V2": InvariantFacts(
        title="within segments",
        says="Unordered mode: no result leaves before a watermark that came in ahead of its record.",
        checker="order:Segments",
    ),
    "V3": InvariantFacts(
        title="order per key",
        says="Results of one key leave in the order of that key's records.",
        checker="order:PerKeyOrder",
    ),
    "V4": InvariantFacts(
        title="watermarks rise",
        says="Watermarks leave in the order in which they came in; none goes back.",
        checker="watermarks:Monotone",
    ),
    "V5": InvariantFacts(
        title="no crossing",
        says="A watermark leaves only after everything that came in ahead of it is resolved.",
        checker="watermarks:NoCrossing",
    ),
    "V6": InvariantFacts(
        title="watermarks pass",
        says="Every watermark leaves, and none is held once nothing ahead of it is open.",
        checker="not_held:NotHeld",
    ),
    "V7": InvariantFacts(
        title="no phantom watermark",
        says="A watermark leaves only if it came in, as often as it did, and nothing follows the last one.",
        checker="watermarks:NoPhantomWatermark",
    ),
    "V8": InvariantFacts(
        title="exactly once",
        says="Every record's results are visible in the end, each once, with the right value and time.",
        checker="exactly_once:ExactlyOnce",
    ),
    "V9": InvariantFacts(
        title="one effect",
        says="The database shows the effect of every record once: not twice, not missing, not altered.",
        checker="effect_once:EffectOnce",
    ),
    "V10": InvariantFacts(
        title="checkpoint cut",
        says="A checkpoint cuts cleanly: each element before it has either left or is stored in it.",
        checker="checkpoint_cut:CheckpointCut",
    ),
    "V11": InvariantFacts(
        title="restore",
        says="A restart goes on from a completed checkpoint, with its elements and its source position.",
        checker="restore_equivalence:RestoreEquivalence",
    ),
    "V12": InvariantFacts(
        title="epochs",
        says="An epoch becomes visible whole, once, in order, and only when its checkpoint allows it.",
        checker="epochs:Epochs",
    ),
    "V13": InvariantFacts(
        title="fencing",
        says="Once a newer attempt has taken effect, nothing of an older one does.",
        checker="epochs:Fencing",
    ),
    "V14": InvariantFacts(
        title="capacity",
        says="No more elements are in flight than the capacity allows, with one more at most waiting to enter.",
        checker="capacity:Capacity",
    ),
    "V15": InvariantFacts(
        title="tries and timeouts",
        says="Each record's calls end in exactly one outcome, in time, within the allowed tries.",
        checker="calls_and_outcomes:CallsAndOutcomes",
    ),
    "V16": InvariantFacts(
        title="liveness",
        says="After the last fault has healed the operator makes progress until its end.",
        checker="liveness:Liveness",
    ),
    "V18": InvariantFacts(
        title="checkpoints go on",
        says="Checkpoints keep completing, however full the queue and however slow the database.",
        checker="checkpoint_cut:CheckpointGap",
    ),
    "V19": InvariantFacts(
        title="integrity",
        says="Every answer belongs to the call that asked for it.",
        checker="integrity:Integrity",
    ),
    "V20": InvariantFacts(
        title="errors are visible",
        says="A record that failed for good fails its task or goes to the dead letters; it is never swallowed.",
        checker="errors_visible:ErrorsVisible",
    ),
    "V21": InvariantFacts(
        title="one thread",
        says="Only the task's thread acts, between its start and its close, one record's results at a time.",
        checker="mailbox_discipline:MailboxDiscipline",
    ),
    "V22": InvariantFacts(
        title="database honest",
        says="The database keeps every commit that it acknowledged, unless a fault is there to make it lose some.",
        checker=None,
    ),
    "V23": InvariantFacts(
        title="evidence",
        says="Every fault left evidence that it took effect, and the run reached the counts that the scenario expects.",
        checker="evidence:Evidence",
    ),
    "V24": InvariantFacts(
        title="explained failures",
        says="No attempt fails, is killed or restarts unless a fault, the scenario or an outside event explains it.",
        checker="explained_failures:ExplainedFailures",
    ),
}
INVARIANTS: Final[Mapping[str, str]] = {name: of.says for name, of in CATALOGUE.items() if of.checker}
"""One sentence for each invariant that is judged on a run's history, in the order of `check --format json`."""
NOT_ON_A_HISTORY: dict[str, str] = {
    "V17": "the time to recover is a measurement; it is reported, not judged",
    "V22": "the database's own isolation is judged on a probe's history, not on a run's",
}
"""Numbers of the catalogue that no checker judges on a history, and why."""
