"""All checkers, in the order of `docs/reference/history.md`. A new checker is one file and one line here."""

from __future__ import annotations

from harness.judge.checkers.calls_and_outcomes import CallsAndOutcomes
from harness.judge.checkers.capacity import Capacity
from harness.judge.checkers.checkpoint_cut import CheckpointCut, CheckpointGap
from harness.judge.checkers.effect_once import EffectOnce
from harness.judge.checkers.epochs import Epochs, Fencing
from harness.judge.checkers.errors_visible import ErrorsVisible
from harness.judge.checkers.evidence import Evidence
from harness.judge.checkers.exactly_once import ExactlyOnce
from harness.judge.checkers.explained_failures import ExplainedFailures
from harness.judge.checkers.integrity import Integrity
from harness.judge.checkers.invariant import Invariant
from harness.judge.checkers.liveness import Liveness
from harness.judge.checkers.mailbox_discipline import MailboxDiscipline
from harness.judge.checkers.not_held import NotHeld
from harness.judge.checkers.order import Ordered, PerKeyOrder, Segments
from harness.judge.checkers.restore_equivalence import RestoreEquivalence
from harness.judge.checkers.watermarks import Monotone, NoCrossing, NoPhantomWatermark

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
