"""The checkers in the order of the page; a new one is its file and one line here."""

from __future__ import annotations

from harness.checkers.checkpoint_cut import CheckpointCut
from harness.checkers.effect_once import EffectOnce
from harness.checkers.evidence import Evidence
from harness.checkers.exactly_once import ExactlyOnce
from harness.checkers.fencing import Fencing
from harness.checkers.invariant import Invariant
from harness.checkers.monotone import Monotone
from harness.checkers.no_crossing import NoCrossing
from harness.checkers.ordered import Ordered
from harness.checkers.restore_equivalence import RestoreEquivalence
from harness.checkers.segments import Segments

__all__ = ["CHECKERS"]

CHECKERS: tuple[Invariant, ...] = (
    Ordered(),
    Segments(),
    Monotone(),
    NoCrossing(),
    ExactlyOnce(),
    EffectOnce(),
    CheckpointCut(),
    RestoreEquivalence(),
    Fencing(),
    Evidence(),
)
