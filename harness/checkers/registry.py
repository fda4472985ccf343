"""All checkers, in the order of `docs/reference/history.md`. A new checker is one file and one line here."""

from __future__ import annotations

from harness.checkers.calls_and_outcomes import CallsAndOutcomes
from harness.checkers.capacity import Capacity
from harness.checkers.checkpoint_cut import CheckpointCut
from harness.checkers.checkpoint_gap import CheckpointGap
from harness.checkers.effect_once import EffectOnce
from harness.checkers.epochs import Epochs
from harness.checkers.errors_visible import ErrorsVisible
from harness.checkers.evidence import Evidence
from harness.checkers.exactly_once import ExactlyOnce
from harness.checkers.explained_failures import ExplainedFailures
from harness.checkers.fencing import Fencing
from harness.checkers.integrity import Integrity
from harness.checkers.invariant import Invariant
from harness.checkers.liveness import Liveness
from harness.checkers.mailbox_discipline import MailboxDiscipline
from harness.checkers.monotone import Monotone
from harness.checkers.no_crossing import NoCrossing
from harness.checkers.no_phantom_watermark import NoPhantomWatermark
from harness.checkers.not_held import NotHeld
from harness.checkers.ordered import Ordered
from harness.checkers.per_key_order import PerKeyOrder
from harness.checkers.restore_equivalence import RestoreEquivalence
from harness.checkers.segments import Segments

__all__ = ["CHECKERS"]

CHECKERS: tuple[Invariant, ...] = (
    Ordered(),
    Segments(),
    PerKeyOrder(),
    Monotone(),
    NoCrossing(),
    NotHeld(),
    NoPhantomWatermark(),
    ExactlyOnce(),
    EffectOnce(),
    CheckpointCut(),
    RestoreEquivalence(),
    Epochs(),
    Fencing(),
    Capacity(),
    CallsAndOutcomes(),
    Liveness(),
    CheckpointGap(),
    Integrity(),
    ErrorsVisible(),
    MailboxDiscipline(),
    Evidence(),
    ExplainedFailures(),
)
