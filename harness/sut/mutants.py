"""Planted defects: the reference with one thing wrong, to show that the checkers bite.

Answers to mutation testing. Invariant: a defect is in the reference, its sink or the
harness, never in a checker; each names the invariant that must convict it and the scenario meant for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Unpack

from harness.database.sink import EpochSink, SplitSink
from harness.errors import UsageError
from harness.sut.registry import REFERENCE, REFERENCE_EMITTER
from reference_impl.async_wait_build import Mode, Parts, build_operator
from reference_impl.chain import ChainedOperator
from reference_impl.emitter.build import build_operator as build_emitter_operator
from reference_impl.mutants import BUILDERS

__all__ = ["MUTANTS", "BuildTaskOperator", "Mutant", "find_mutant", "operator_builder", "sink_class"]


class BuildTaskOperator(Protocol):
    """Builds an operator that a task can drive, of whatever design."""

    def __call__(self, *, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> ChainedOperator:
        """An operator of that mode and capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One planted defect."""

    name: str
    about: str
    convicted_by: tuple[str, ...]
    """The invariants meant for it; one of them must fail (V23: the run must be vacuous)."""
    scenario: str
    """The scenario meant for it."""
    sink: type[EpochSink] = EpochSink
    bypasses_proxy: bool = False
    arms_nothing: bool = False


_ALL = (
    Mutant(
        name="snapshot-omits-completed",
        about="the snapshot leaves out entries that are completed but not yet emitted",
        convicted_by=("V10", "V8"),
        scenario="kill-between-snapshot-and-commit",
    ),
    Mutant(
        name="sink-outside-transaction",
        about="the sink writes each output at once, outside the epoch's transaction",
        convicted_by=("V9",),
        scenario="kill-between-snapshot-and-commit",
        sink=SplitSink,
    ),
    Mutant(
        name="watermarks-at-once",
        about="watermarks are forwarded at once instead of queueing behind their records",
        convicted_by=("V5", "V2"),
        scenario="latency-spike-unordered",
    ),
    Mutant(
        name="unordered-emission",
        about="ordered mode emits in the order of completion",
        convicted_by=("V1",),
        scenario="latency-spike-ordered",
    ),
    Mutant(
        name="proxy-bypassed",
        about="the lookups go past the proxy, so network faults act on nobody (a defect of the harness)",
        convicted_by=("V23",),
        scenario="latency-spike-ordered",
        bypasses_proxy=True,
    ),
    Mutant(
        name="faults-do-nothing",
        about="no fault is ever armed (a defect of the harness)",
        convicted_by=("V23",),
        scenario="latency-spike-ordered",
        arms_nothing=True,
    ),
)

MUTANTS = {mutant.name: mutant for mutant in _ALL}


def find_mutant(name: str) -> Mutant:
    """The mutant `name`. Raises UsageError with what there is."""
    if name not in MUTANTS:
        message = f"there is no mutant called {name!r}"
        raise UsageError(message, fix=f"one of: {', '.join(MUTANTS)}")
    return MUTANTS[name]


def operator_builder(name: str | None, *, sut: str = REFERENCE) -> BuildTaskOperator:
    """What builds the operator of the system under test, or of the reference's mutant `name`."""
    if sut == REFERENCE_EMITTER:
        return build_emitter_operator
    return BUILDERS.get(name, build_operator) if name else build_operator


def sink_class(name: str | None) -> type[EpochSink]:
    """The sink of the reference, or of its mutant `name`."""
    return find_mutant(name).sink if name else EpochSink
