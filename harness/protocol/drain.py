"""The end of a life whose two sides cannot be told the same any more: each is drained by itself, totals compared.

For restores beyond the capacity, or into ordered mode, of records whose order is each side's own (A25, A62): who is
admitted first is free, but in the end each record was called, each result left once, between the same watermarks.
Invariant: it ends: every step ends a call, and there is a limit on steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.protocol.comparison import Kind, Mismatch, Moment, compare
from harness.protocol.conversation import Phase
from harness.protocol.difference import Exchange
from harness.protocol.driver import Command
from harness.protocol.events import Call, Event
from harness.protocol.twins import Twins

__all__ = ["drained", "is_of_a_drain"]

STEPS_MAX = 1_000
_DRAINED = "drained"
_IDLE: Command = {"cmd": "advance", "to": -(1 << 40)}
"""Told to the side that is done while the other is not: refused, so it changes nothing."""


@dataclass(slots=True, kw_only=True)
class _Side:
    """Mutable: one side's drain; `events` is all that it said since its `open`."""

    events: list[Event]
    waiting: list[Call] = field(default_factory=list)

    def hear(self, said: Sequence[Event]) -> None:
        self.waiting.extend(event for event in said if type(event) is Call)

    def next(self) -> Command:
        """End the call that runs longest, with a result that names its record."""
        if not self.waiting:
            return _IDLE
        call = self.waiting.pop(0)
        return {"cmd": "complete", "call": call.call, "results": [[_DRAINED, call.value]]}


def drained(twins: Twins, *, opened: Exchange, keep: Callable[[Exchange], None]) -> Mismatch | None:
    """End all calls of both sides, and compare what happened since `open` as a whole."""
    left, right = _Side(events=[*opened.left]), _Side(events=[*opened.right])
    left.hear(left.events)
    right.hear(right.events)
    for _ in range(STEPS_MAX):
        if not left.waiting and not right.waiting:
            break
        commands = left.next(), right.next()
        ours, theirs = twins.tell(*commands)
        keep(
            Exchange(
                life=opened.life, left_command=commands[0], right_command=commands[1], left=ours, right=theirs
            )
        )
        for side, said, command in ((left, ours, commands[0]), (right, theirs, commands[1])):
            if command is not _IDLE:
                side.events.extend(said)
                side.hear(said)
    return _totals(twins, left, right)


def _totals(twins: Twins, left: _Side, right: _Side) -> Mismatch | None:
    failed = [driver.phase is Phase.FAILED for driver in (twins.left, twins.right)]
    if failed[0] or failed[1]:
        words = ["failed" if one else "did not fail" for one in failed]
        return (
            None if all(failed) else Mismatch(kind=Kind.FAILURE, detail=f"left {words[0]}, right {words[1]}")
        )
    if left.waiting or right.waiting or twins.left.conversation.blocked or twins.right.conversation.blocked:
        return Mismatch(
            kind=Kind.BLOCKED, detail=f"not drained after {STEPS_MAX} completions, or no call left"
        )
    moment = Moment(mode="unordered", reissued=True)
    return compare({"cmd": "complete"}, left.events, right.events, moment=moment)


def is_of_a_drain(command: Command) -> bool:
    """Whether a command was told by a drain, not by a script."""
    results = command.get("results")
    drained_call = isinstance(results, list) and bool(results) and results[0][:1] == [_DRAINED]
    return drained_call or command == _IDLE
