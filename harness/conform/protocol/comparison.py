"""Compares two systems' answers to one command, with exactly the freedom that the protocol allows.

These may differ: where `blocked` and `unblocked` stand, and waits that end within a command; the order inside
a segment of a snapshot; how many mails wait, as long as both or neither have some; message texts; everything
else that a failing command did; and, once each side has re-issued records in its own order (`reissued`), the
order of records between two watermarks. `compare` is pure: it returns None for what the protocol allows, else
the first difference. `report` prints lines that can be pasted: each side's column has exactly the lines that
it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import msgspec

from harness.conform.protocol.driver import Command, command_line
from harness.conform.protocol.events import (
    Blocked,
    Closed,
    DrainEnded,
    ErrorAnswer,
    Event,
    FunctionCall,
    Snapshot,
    Stats,
    Status,
    TaskFailed,
    Timeout,
    Unblocked,
    Watermark,
    shortened,
)
from harness.conform.protocol.script import Script
from harness.conform.protocol.script_drawing import FLAWED
from harness.system.json_types import Json

_T = TypeVar("_T")

_key: Callable[[object], bytes] = msgspec.json.Encoder(order="deterministic").encode


class MismatchKind(StrEnum):
    """The kind of a difference."""

    REFUSAL = "one refuses, or both with different codes"
    FAILURE = "one fails, or both with different errors"
    OUTPUTS = "what leaves, or in which order"
    CALLS = "calls and timeouts, or their order"
    NUMBERS = "the numbers of the calls"
    INTERLEAVING = "calls among emissions"
    BLOCKED = "blocked or not"
    SNAPSHOT = "what a snapshot holds"
    STATS = "the counters"
    CLOSED = "what close leaves"
    LEFT_BREACH = "left breaks the protocol"
    RIGHT_BREACH = "right breaks the protocol"
    ONCE = "seen once, not when it was run again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """The first difference between two answers, with both shown."""

    kind: MismatchKind
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The state before the command: whether an element waits for a slot, whether the task has failed."""

    blocked: bool = False
    failed: bool = False
    mode: str = "ordered"
    reissued: bool = False
    """Each side re-issued records in its own order: call numbers and the order inside a segment may differ.
    """


class _Answer:
    """One answer, with its events grouped by what is compared together."""

    def __init__(self, events: Sequence[Event], *, blocked: bool) -> None:
        self.refusal: ErrorAnswer | None = None
        self.failure: TaskFailed | None = None
        self.stats: Stats | None = None
        self.closed: Closed | None = None
        self.blocked = blocked
        self.waited = blocked
        self.outputs: list[Event] = []
        self.calls: list[FunctionCall | Timeout] = []
        self.mixed: list[Event] = []
        self.snapshots: list[Snapshot] = []
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case FunctionCall() | Timeout():
                self.calls.append(event)
                self.mixed.append(event)
            case Blocked() | Unblocked():
                self.blocked = isinstance(event, Blocked)
                self.waited = True
            case Snapshot():
                self.snapshots.append(event)
            case ErrorAnswer():
                self.refusal = event
            case TaskFailed():
                self.failure = event
            case Stats():
                self.stats = event
            case Closed():
                self.closed = event
            case _:
                self.outputs.append(event)
                self.mixed.append(event)


def compare(
    command: Command, left: Sequence[Event], right: Sequence[Event], *, moment: Moment
) -> Mismatch | None:
    """The first difference that the protocol does not allow; None if there is none."""
    if alike(left, right):
        return None
    ours, theirs = _Answer(left, blocked=moment.blocked), _Answer(right, blocked=moment.blocked)
    codes = [answer.refusal.error if answer.refusal else "none" for answer in (ours, theirs)]
    # A command with several flaws may be refused for any of them; a bad state counts before an unknown call.
    if codes[0] != codes[1] and not (command in FLAWED and "none" not in codes):
        return _differ(MismatchKind.REFUSAL, *codes)
    errors = [answer.failure.error if answer.failure else "none" for answer in (ours, theirs)]
    if errors[0] != errors[1]:
        return _differ(MismatchKind.FAILURE, *errors)
    if ours.failure or ours.refusal or moment.failed:
        return None
    return next((found for judge in _JUDGES if (found := judge(ours, theirs, moment))), None)


def alike(left: Sequence[Event], right: Sequence[Event]) -> bool:
    """Whether two answers are identical; 1, 1.0 and true differ here, although Python calls them equal."""
    return left == right and (not left or _key(left) == _key(right))


def segments(elements: Sequence[Json], *, mode: str) -> list[list[bytes]]:
    """A snapshot's elements in comparable form: except in ordered mode, records between watermarks are sorted."""
    if mode == "ordered":
        return [[_key(element)] for element in elements]
    return _between(elements, lambda element: "value" not in element)


def _outputs(ours: _Answer, theirs: _Answer, moment: Moment) -> Mismatch | None:
    if moment.reissued and _groups(ours.outputs) == _groups(theirs.outputs):
        return None
    if _keys(ours.outputs) == _keys(theirs.outputs):
        return None
    return _differ(MismatchKind.OUTPUTS, ours.outputs, theirs.outputs)


def _calls(ours: _Answer, theirs: _Answer, moment: Moment) -> Mismatch | None:
    names = [[_name(call) for call in answer.calls] for answer in (ours, theirs)]
    if names[0] == names[1]:
        return None
    permuted = sorted(names[0]) == sorted(names[1])
    if permuted and moment.reissued:
        return None
    return _differ(MismatchKind.NUMBERS if permuted else MismatchKind.CALLS, ours.calls, theirs.calls)


def _interleavings(ours: _Answer, theirs: _Answer, moment: Moment) -> Mismatch | None:
    """Calls and emissions interleave freely in an answer with a wait, since `unblocked` may stand anywhere in it."""
    if ours.waited or theirs.waited or moment.reissued or _named(ours.mixed) == _named(theirs.mixed):
        return None
    return _differ(MismatchKind.INTERLEAVING, ours.mixed, theirs.mixed)


def _blocks(ours: _Answer, theirs: _Answer, _moment: Moment) -> Mismatch | None:
    if ours.blocked == theirs.blocked:
        return None
    words = ["blocked" if answer.blocked else "not blocked" for answer in (ours, theirs)]
    return _differ(MismatchKind.BLOCKED, *words)


def _snapshots(ours: _Answer, theirs: _Answer, moment: Moment) -> Mismatch | None:
    if [taken.id for taken in ours.snapshots] != [taken.id for taken in theirs.snapshots]:
        return _differ(MismatchKind.SNAPSHOT, ours.snapshots, theirs.snapshots)
    for mine, other in zip(ours.snapshots, theirs.snapshots, strict=True):
        held = [segments(taken.elements, mode=moment.mode) for taken in (mine, other)]
        # With a free order of timeouts, each side may have emitted another record when the wait ended.
        late = moment.blocked and (moment.reissued or _one_is_later(*held))
        if held[0] != held[1] and not late:
            return _differ(MismatchKind.SNAPSHOT, mine.elements, other.elements)
    return None


def _one_is_later(one: list[list[bytes]], other: list[list[bytes]]) -> bool:
    """Whether the longer list contains the shorter: a snapshot after `unblocked` may be later on one side."""
    flat = [[key for part in held for key in part] for held in (one, other)]
    less, more = sorted(flat, key=len)
    return all(less.count(key) <= more.count(key) for key in less)


def _stats(ours: _Answer, theirs: _Answer, _moment: Moment) -> Mismatch | None:
    counts = [
        stats and (stats.queue, stats.calls_running, stats.timers, stats.mails > 0, stats.now)
        for stats in (ours.stats, theirs.stats)
    ]
    return None if counts[0] == counts[1] else _differ(MismatchKind.STATS, ours.stats, theirs.stats)


def _closings(ours: _Answer, theirs: _Answer, _moment: Moment) -> Mismatch | None:
    left = [(closed.timers, closed.dropped_mails > 0) for closed in (ours.closed, theirs.closed) if closed]
    return None if len(set(left)) <= 1 else _differ(MismatchKind.CLOSED, ours.closed, theirs.closed)


_JUDGES = (_outputs, _calls, _interleavings, _blocks, _snapshots, _stats, _closings)


def _name(call: FunctionCall | Timeout) -> bytes:
    """A call or timeout without its number."""
    return _key(
        ["call", call.value, call.attempt] if isinstance(call, FunctionCall) else ["timeout", call.value]
    )


def _named(mixed: Sequence[Event]) -> list[bytes]:
    return [_name(event) if isinstance(event, FunctionCall | Timeout) else _key(event) for event in mixed]


def _keys(events: Sequence[Event]) -> list[bytes]:
    return [_key(event) for event in events]


def _groups(outputs: Sequence[Event]) -> list[list[bytes]]:
    return _between(outputs, lambda event: isinstance(event, Watermark | Status | DrainEnded))


def _between(things: Sequence[_T], is_barrier: Callable[[_T], bool]) -> list[list[bytes]]:
    """The keys sorted between barriers; the barriers keep their places."""
    parts: list[list[bytes]] = [[]]
    for thing in things:
        if is_barrier(thing):
            parts += [[_key(thing)], []]
        else:
            parts[-1].append(_key(thing))
    return [sorted(part) for part in parts]


def _differ(kind: MismatchKind, ours: object, theirs: object) -> Mismatch:
    return Mismatch(kind=kind, detail=f"left {_shown(ours)}, right {_shown(theirs)}")


def _shown(what: object) -> str:
    return what if isinstance(what, str) else _key(_bare(what)).decode()


def _bare(what: object) -> object:
    """Leaves out the opaque states."""
    if isinstance(what, list):
        return [_bare(one) for one in what]
    return {"id": what.id, "elements": what.elements} if isinstance(what, Snapshot) else what


WIDTH = 76
LAST_EXCHANGES = 40
"""How many of the last commands are shown side by side; the lines to paste are complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCommand:
    """One command as it was sent to each side, and both answers."""

    life: int
    left_command: Command
    right_command: Command
    left: Sequence[Event]
    right: Sequence[Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingScript:
    """A script on which two systems differ."""

    script: Script
    mismatch: Mismatch
    life: int
    exchanges: Sequence[ComparedCommand]
    """Up to the difference; if it is a breach, the last exchange has no answers."""


def report(difference: DifferingScript) -> str:
    """The difference as text: its kind, the last commands side by side, and the lines to paste."""
    mismatch, exchanges = difference.mismatch, difference.exchanges
    lines = [
        f"DIFFERENCE in {mismatch.kind} ({difference.script.name}, life {difference.life + 1})",
        f"  {mismatch.detail}",
        *(line for exchange in exchanges[-LAST_EXCHANGES:] for line in _side_by_side(exchange)),
        "  to paste into the left system:",
        *(_sent(exchange.left_command) for exchange in exchanges),
    ]
    if any(exchange.left_command != exchange.right_command for exchange in exchanges):
        lines += [
            "  to paste into the right system:",
            *(_sent(exchange.right_command) for exchange in exchanges),
        ]
    return "\n".join(lines)


def _side_by_side(exchange: ComparedCommand) -> Iterator[str]:
    left, right = _sent(exchange.left_command), _sent(exchange.right_command)
    yield f"  > {shortened(left)}"
    if left != right:
        yield f"  > {'':{WIDTH}} > {shortened(right)}"
    for row in range(max(len(exchange.left), len(exchange.right))):
        ours = said(exchange.left[row]) if row < len(exchange.left) else ""
        theirs = said(exchange.right[row]) if row < len(exchange.right) else ""
        yield f"  < {ours:{WIDTH}} {' ' if ours == theirs else '!'} {theirs}"


def _sent(command: Command) -> str:
    return command_line(command).decode().rstrip()


def said(event: Event) -> str:
    """An event as a line, shortened; of a snapshot without its opaque state."""
    if isinstance(event, Snapshot):
        shown = msgspec.json.encode(event.elements).decode()
        return shortened(f'{{"ev":"snapshot","id":{event.id},"elements":{shown}}}')
    return shortened(msgspec.json.encode(event).decode())
