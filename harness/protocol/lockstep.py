"""Runs one script on two systems command by command, translating the names of calls for each.

Slower than the stream, and the one that decides: it knows what may differ after records were re-issued in an order
of each side's own (an unordered snapshot restored, last calls at `end_input`), and when a held `fail` may be told.
Invariant: a command is told to both or to neither; a call is never translated by guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from harness.protocol.comparison import Kind, Mismatch, Moment, compare
from harness.protocol.conversation import Phase
from harness.protocol.difference import Difference, Exchange
from harness.protocol.drain import drained
from harness.protocol.driver import Command
from harness.protocol.events import Call, Event
from harness.protocol.restoring import Restored, Snapshots, open_command
from harness.protocol.script import CallName, Life, Script, value_key
from harness.protocol.twins import SideBreach, Twins

__all__ = ["ORDER_KINDS", "run_lockstep"]

ORDER_KINDS = frozenset({Kind.NUMBERS, Kind.CALLS, Kind.FAILURE, Kind.BLOCKED})
"""What may differ at `open` when each side re-issues in its own order, and not all of it at once."""
_BREACHES = (Kind.LEFT_BREACH, Kind.RIGHT_BREACH)


def run_lockstep(
    twins: Twins, script: Script, *, first: int = 0, snapshots: Snapshots | None = None
) -> Difference | None:
    """Run a script's lives from `first` on; the first difference. After a breach the twins start anew."""
    run = _Lockstep(twins, snapshots or Snapshots())
    for place, life in enumerate(script.lives[first:], first):
        if mismatch := run.live(life, place=place):
            return Difference(script=script, mismatch=mismatch, life=place, exchanges=run.exchanges)
    return None


class _Names:
    """The calls of one side's present life, by number and by name. Mutable."""

    def __init__(self) -> None:
        self._times: Counter[tuple[bytes, int]] = Counter()
        self.names: dict[int, CallName] = {}
        self.numbers: dict[CallName, int] = {}

    def learn(self, events: Sequence[Event]) -> None:
        for event in events:
            if type(event) is Call:
                value = value_key(event.value)
                self._times[value, event.attempt] += 1
                name = CallName(value=value, attempt=event.attempt, nth=self._times[value, event.attempt])
                self.names[event.call] = name
                self.numbers[name] = event.call


class _Lockstep:
    """Mutable: one script's run."""

    def __init__(self, twins: Twins, snapshots: Snapshots) -> None:
        self._twins = twins
        self._snapshots = snapshots
        self._left = _Names()
        self._right = _Names()
        self._moment = Moment()
        self._place = 0
        self.exchanges: list[Exchange] = []

    def live(self, life: Life, *, place: int) -> Mismatch | None:
        """One life; however it ends, the twins stand before an `open` again."""
        self._place = place
        try:
            mismatch = self._live(life)
            if self._twins.left.phase is not Phase.SHUT or self._twins.right.phase is not Phase.SHUT:
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

    def _open(self, life: Life, restored: Restored) -> tuple[bool, Mismatch | None]:
        """Whether the order of re-issue differed, and what is wrong."""
        mismatch = self._tell(open_command(life, restored.left), open_command(life, restored.right))
        if mismatch is None or not restored.free or mismatch.kind not in ORDER_KINDS:
            return restored.free and restored.shuffled, mismatch
        legal = mismatch.kind is Kind.NUMBERS or restored.must_drain(life, shuffled=True)
        return True, None if legal else mismatch

    def _step(self, command: Command) -> Mismatch | None:
        pair = self._translated(command)
        if pair is None:
            return None
        mismatch = self._tell(*pair)
        if mismatch is None:
            return None
        if mismatch.kind is Kind.NUMBERS and command.get("cmd") == "end_input":
            return None
        if mismatch.kind is Kind.FAILURE and command.get("cmd") == "fail" and command.get("hold") is True:
            return self._settled(mismatch)
        return mismatch

    def _settled(self, mismatch: Mismatch) -> Mismatch | None:
        """A held `fail` was told early by one; the other must tell when the mails run."""
        late = self._tell({"cmd": "stats"}, {"cmd": "stats"})
        both = {self._twins.left.phase, self._twins.right.phase} == {Phase.FAILED}
        del late  # of what the mails of a failing task did, nothing is compared
        return None if both else mismatch

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
        self._moment = replace(self._moment, blocked=talk.blocked, failed=talk.phase is Phase.FAILED)
        return mismatch

    def _keep(self, left: Command, right: Command, ours: Sequence[Event], theirs: Sequence[Event]) -> None:
        told = Exchange(life=self._place, left_command=left, right_command=right, left=ours, right=theirs)
        self.exchanges.append(told)

    def _translated(self, command: Command) -> tuple[Command, Command] | None:
        """The command for each side; None if its call exists on one side only, or is named and on neither."""
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
        """After a mismatch, or a drain: both stand before `open` again, whatever they say."""
        for driver in (self._twins.left, self._twins.right):
            if driver.phase is Phase.SHUT:
                self._twins.kill()
                self._twins.start()
                return
        self._twins.tell({"cmd": "close"}, {"cmd": "close"})
