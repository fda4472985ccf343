"""Runs one script on two systems command by command, translating the names of calls and snapshots for each side.

Slower than `stream`, and the one whose result counts. A command is sent to both sides or to neither; a call is never
translated by guessing. Each side restores from its own state; a snapshot whose contents differ, even legally, is
restored on neither. After each side has re-issued records in its own order, call numbers are not comparable (A19-A25);
where the sides then cannot get the same commands any more (A25, A62), each side is drained by itself and the totals
are compared. A drain ends: every step ends a call, and the number of steps is limited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from harness.conform.protocol.comparison import (
    ComparedCommand,
    DifferingScript,
    Mismatch,
    MismatchKind,
    Moment,
    compare,
    segments,
)
from harness.conform.protocol.conversation import ConversationPhase
from harness.conform.protocol.driver import Command, SideBreach, Twins
from harness.conform.protocol.events import Event, FunctionCall, Snapshot
from harness.conform.protocol.script import CallName, Life, Script, value_key


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPair:
    """The states that a life restores, one for each side."""

    left: msgspec.Raw | None = None
    right: msgspec.Raw | None = None
    free: bool = False
    """Several records are between two watermarks of a snapshot that is not ordered: each side may order them."""
    shuffled: bool = False
    """The sides do list them in different orders."""
    beyond: bool = False
    """More elements are restored than there are slots."""

    def must_drain(self, life: Life, *, shuffled: bool) -> bool:
        """Whether the order affects what can be compared: which records are admitted, or which is at the head."""
        return shuffled and (self.beyond or life.config.get("mode") != "unordered")


class Snapshots:
    """The snapshots that both sides have taken in a script. Mutable."""

    def __init__(self) -> None:
        self._taken: dict[int, tuple[str, Snapshot, Snapshot]] = {}

    def take(self, left: Sequence[Event], right: Sequence[Event], *, mode: str) -> None:
        """Keep the snapshots in two matching answers; one that only a failing task took is ignored."""
        theirs = {event.id: event for event in right if type(event) is Snapshot}
        both = [(event, theirs[event.id]) for event in left if type(event) is Snapshot and event.id in theirs]
        for mine, other in both:
            if segments(mine.elements, mode=mode) == segments(other.elements, mode=mode):
                self._taken[mine.id] = (mode, mine, other)

    def restored(self, life: Life) -> RestoredPair:
        """The states for `life`; empty if its snapshot was not taken, or not alike on both sides."""
        if life.restore is None or life.restore not in self._taken:
            return RestoredPair()
        mode, mine, other = self._taken[life.restore]
        crowd = max(len(part) for part in segments(mine.elements, mode=mode) or [[]])
        return RestoredPair(
            left=mine.state,
            right=other.state,
            free=mode != "ordered" and crowd > 1,
            shuffled=value_key(mine.elements) != value_key(other.elements),
            beyond=len(mine.elements) > life.config.get("capacity", 0),
        )


def open_command(life: Life, state: msgspec.Raw | None) -> Command:
    """The `open` command for one side."""
    return {"cmd": "open", "config": life.config, "now": life.now, "restore": state}


STEPS_MAX = 1_000
_DRAINED = "drained"
_IDLE: Command = {"cmd": "advance", "to": -(1 << 40)}
"""Sent to the side that is drained while the other is not: it is refused, so it changes nothing."""


@dataclass(slots=True, kw_only=True)
class _Side:
    """One side's drain. Mutable; `events`: everything that it wrote since `open`."""

    events: list[Event]
    waiting: list[FunctionCall] = field(default_factory=list)

    def hear(self, said: Sequence[Event]) -> None:
        self.waiting.extend(event for event in said if type(event) is FunctionCall)

    def next(self) -> Command:
        """End the oldest call with a result that names its record."""
        if not self.waiting:
            return _IDLE
        call = self.waiting.pop(0)
        return {"cmd": "complete", "call": call.call, "results": [[_DRAINED, call.value]]}


def drained(
    twins: Twins, *, opened: ComparedCommand, keep: Callable[[ComparedCommand], None]
) -> Mismatch | None:
    """End all calls of both sides; compare everything since `open` as a whole."""
    left, right = _Side(events=[*opened.left]), _Side(events=[*opened.right])
    left.hear(left.events)
    right.hear(right.events)
    for _ in range(STEPS_MAX):
        if not left.waiting and not right.waiting:
            break
        commands = left.next(), right.next()
        ours, theirs = twins.tell(*commands)
        keep(
            ComparedCommand(
                life=opened.life, left_command=commands[0], right_command=commands[1], left=ours, right=theirs
            )
        )
        for side, said, command in ((left, ours, commands[0]), (right, theirs, commands[1])):
            if command is not _IDLE:
                side.events.extend(said)
                side.hear(said)
    return _totals(twins, left, right)


def _totals(twins: Twins, left: _Side, right: _Side) -> Mismatch | None:
    failed = [driver.phase is ConversationPhase.FAILED for driver in (twins.left, twins.right)]
    if failed[0] or failed[1]:
        words = ["failed" if one else "did not fail" for one in failed]
        return (
            None
            if all(failed)
            else Mismatch(kind=MismatchKind.FAILURE, detail=f"left {words[0]}, right {words[1]}")
        )
    if left.waiting or right.waiting or twins.left.conversation.blocked or twins.right.conversation.blocked:
        return Mismatch(
            kind=MismatchKind.BLOCKED, detail=f"not drained after {STEPS_MAX} completions, or no call left"
        )
    moment = Moment(mode="unordered", reissued=True)
    return compare({"cmd": "complete"}, left.events, right.events, moment=moment)


def is_of_a_drain(command: Command) -> bool:
    """Whether a command was sent by a drain, not by a script."""
    results = command.get("results")
    drained_call = isinstance(results, list) and bool(results) and results[0][:1] == [_DRAINED]
    return drained_call or command == _IDLE


ORDER_KINDS = frozenset(
    {MismatchKind.NUMBERS, MismatchKind.CALLS, MismatchKind.FAILURE, MismatchKind.BLOCKED}
)
"""Kinds of difference that are allowed at `open` when each side re-issues in its own order."""
_BREACHES = (MismatchKind.LEFT_BREACH, MismatchKind.RIGHT_BREACH)


def run_lockstep(
    twins: Twins, script: Script, *, first: int = 0, snapshots: Snapshots | None = None
) -> DifferingScript | None:
    """Run a script's lives from `first` on; returns the first difference.

    After a breach both programs are restarted.
    """
    run = _Lockstep(twins, snapshots or Snapshots())
    for place, life in enumerate(script.lives[first:], first):
        if mismatch := run.live(life, place=place):
            return DifferingScript(script=script, mismatch=mismatch, life=place, exchanges=run.exchanges)
    return None


class _Names:
    """The calls of one side's current life, by number and by name. Mutable."""

    def __init__(self) -> None:
        self._times: Counter[tuple[bytes, int]] = Counter()
        self.names: dict[int, CallName] = {}
        self.numbers: dict[CallName, int] = {}

    def learn(self, events: Sequence[Event]) -> None:
        for event in events:
            if type(event) is FunctionCall:
                value = value_key(event.value)
                self._times[value, event.attempt] += 1
                name = CallName(value=value, attempt=event.attempt, nth=self._times[value, event.attempt])
                self.names[event.call] = name
                self.numbers[name] = event.call


class _Lockstep:
    """One run of one script. Mutable."""

    def __init__(self, twins: Twins, snapshots: Snapshots) -> None:
        self._twins = twins
        self._snapshots = snapshots
        self._left = _Names()
        self._right = _Names()
        self._moment = Moment()
        self._place = 0
        self.exchanges: list[ComparedCommand] = []

    def live(self, life: Life, *, place: int) -> Mismatch | None:
        """Run one life; afterwards both sides are before `open` again."""
        self._place = place
        try:
            mismatch = self._live(life)
            if (
                self._twins.left.phase is not ConversationPhase.SHUT
                or self._twins.right.phase is not ConversationPhase.SHUT
            ):
                self._close()
        except SideBreach as broken:
            self._twins.start()
            kind = _BREACHES[0] if broken.left else _BREACHES[1]
            return Mismatch(kind=kind, detail=str(broken.breach))
        return mismatch

    def _live(self, life: Life) -> Mismatch | None:
        restored = self._snapshots.restored(life)
        self._left, self._right = _Names(), _Names()
        self._moment = Moment(mode=life.config.get("mode", ""))
        shuffled, mismatch = self._open(life, restored)
        if mismatch is not None:
            return mismatch
        if restored.must_drain(life, shuffled=shuffled):
            return drained(self._twins, opened=self.exchanges[-1], keep=self.exchanges.append)
        self._moment = replace(self._moment, reissued=shuffled)
        for command in life.commands:
            if mismatch := self._step(command):
                return mismatch
        return self._tell({"cmd": "close"}, {"cmd": "close"})

    def _open(self, life: Life, restored: RestoredPair) -> tuple[bool, Mismatch | None]:
        """Open both sides; returns whether their order of re-issue differed, and the mismatch if there is one."""
        mismatch = self._tell(open_command(life, restored.left), open_command(life, restored.right))
        if mismatch is None or not restored.free or mismatch.kind not in ORDER_KINDS:
            return restored.free and restored.shuffled, mismatch
        legal = mismatch.kind is MismatchKind.NUMBERS or restored.must_drain(life, shuffled=True)
        return True, None if legal else mismatch

    def _step(self, command: Command) -> Mismatch | None:
        pair = self._translated(command)
        if pair is None:
            return None
        mismatch = self._tell(*pair)
        if mismatch is None:
            return None
        if mismatch.kind is MismatchKind.NUMBERS and command.get("cmd") == "end_input":
            return None
        if (
            mismatch.kind is MismatchKind.FAILURE
            and command.get("cmd") == "fail"
            and command.get("hold") is True
        ):
            # One side applied it at once; the other must fail when its mails run. What these did is not compared.
            self._tell({"cmd": "stats"}, {"cmd": "stats"})
            both = {self._twins.left.phase, self._twins.right.phase} == {ConversationPhase.FAILED}
            return None if both else mismatch
        return mismatch

    def _tell(self, left: Command, right: Command) -> Mismatch | None:
        try:
            ours, theirs = self._twins.tell(left, right)
        except SideBreach:
            self._keep(left, right, (), ())
            raise
        self._keep(left, right, ours, theirs)
        self._left.learn(ours)
        self._right.learn(theirs)
        mismatch = compare(left, ours, theirs, moment=self._moment)
        if mismatch is None:
            self._snapshots.take(ours, theirs, mode=self._moment.mode)
        talk = self._twins.left.conversation
        self._moment = replace(
            self._moment, blocked=talk.blocked, failed=talk.phase is ConversationPhase.FAILED
        )
        return mismatch

    def _keep(self, left: Command, right: Command, ours: Sequence[Event], theirs: Sequence[Event]) -> None:
        told = ComparedCommand(
            life=self._place, left_command=left, right_command=right, left=ours, right=theirs
        )
        self.exchanges.append(told)

    def _translated(self, command: Command) -> tuple[Command, Command] | None:
        """The command for each side; None if its call exists on only one side, or is a name that exists on neither."""
        call = command.get("call")
        if isinstance(call, CallName):
            numbers = self._left.numbers.get(call), self._right.numbers.get(call)
            if None in numbers:
                return None
            return {**command, "call": numbers[0]}, {**command, "call": numbers[1]}
        if type(call) is not int:
            return command, command
        name = self._left.names.get(call)
        if name is None:
            return None if call in self._right.names else (command, command)
        number = self._right.numbers.get(name)
        return None if number is None else (command, {**command, "call": number})

    def _close(self) -> None:
        """After a mismatch or a drain: bring both sides before `open` again, without comparing."""
        for driver in (self._twins.left, self._twins.right):
            if driver.phase is ConversationPhase.SHUT:
                self._twins.kill()
                self._twins.start()
                return
        self._twins.tell({"cmd": "close"}, {"cmd": "close"})
