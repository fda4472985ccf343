"""What a record must yield: by its outcome in the attempt that decides, or by what its `in` says.

Answers to "Outcome" and "Expected outputs" of `docs/history.md`. Invariant: `None` in the
place of a list of outputs means unknown, which is not the empty list: then only the `j`s can be judged.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from harness.checkers.chain import Chain
from harness.checkers.effective_output import Shown, outputs
from harness.checkers.history_trace import Settled, Subtask
from harness.checkers.subtask_input import SubtaskInput
from harness.history.event import Dead, Id, Res

__all__ = ["Expectation", "ExpectedOutputs", "outputs_by"]


def outputs_by(outcome: Settled, expect: list[Any] | UnsetType) -> list[Any] | None:
    """The outputs that an outcome calls for; None: unknown."""
    match outcome:
        case Dead() | Res(r="fail"):
            return []
        case Res(r="timeout"):
            return [] if outcome.error is not UNSET or outcome.v is UNSET else outcome.v
        case _:
            known = expect if expect is not UNSET else outcome.v
            return None if known is UNSET else known


class Expectation(NamedTuple):
    """What one record must yield in the end."""

    outputs: list[Any] | None
    """None: unknown."""
    outcome: Settled | None
    """What decides; None: nothing does, or the deciding attempt has no outcome of it."""
    begun: bool
    """Some output of it is in O*."""

    @property
    def substituted(self) -> bool:
        """Whether a timeout's answer stands in for the real one."""
        return isinstance(self.outcome, Res) and self.outcome.r == "timeout" and bool(self.outputs)


class ExpectedOutputs:
    """The expectation of each record of a subtask; computed once, memory grows with records."""

    def __init__(self, subtask: Subtask, *, source: SubtaskInput, output: list[Shown], chain: Chain) -> None:
        self._subtask = subtask
        self._source = source
        self._first: dict[Id, int] = {}
        for _, out in outputs(output):
            self._first.setdefault(out.id, out.a)
        self._standing = _latest_standing(chain)
        self._known: dict[Id, Expectation] = {}

    def of(self, record: Id) -> Expectation:
        """What the record must yield."""
        if record not in self._known:
            self._known[record] = self._decide(record)
        return self._known[record]

    def _decide(self, record: Id) -> Expectation:
        expect = self._source.expect(record)
        deciding = self._first.get(record)
        if deciding is None:
            outcome = self._standing.get(record)
        else:
            outcome = self._subtask.attempts[deciding].outcomes.get(record)
        unsettled = None if expect is UNSET else expect
        wanted = unsettled if outcome is None else outputs_by(outcome, expect)
        return Expectation(wanted, outcome, deciding is not None)


def _latest_standing(chain: Chain) -> dict[Id, Settled]:
    """For each record its latest outcome that stands in the chain."""
    latest: dict[Id, Settled] = {}
    for attempt, _ in chain.links:
        for record, outcome in attempt.outcomes.items():
            known = latest.get(record)
            if chain.holds(attempt.a, outcome.n) and (known is None or outcome.n > known.n):
                latest[record] = outcome
    return latest
