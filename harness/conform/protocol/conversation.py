"""The state machine of a conversation: checks every event of an answer against the state.

Answers to h11's idea of a connection as a state machine. It checks turns, numbers and places, never values: whether an
emission is correct is for others to judge. Invariant: an event that the state forbids raises `Misplaced`; a refused
command (`error`) changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar

from harness.conform.protocol.events import (
    Blocked,
    Closed,
    DrainEnded,
    Emit,
    ErrorAnswer,
    Event,
    FunctionCall,
    Hello,
    Marker,
    Snapshot,
    Stats,
    Status,
    TaskFailed,
    Timeout,
    Unblocked,
    Watermark,
)

PROTOCOL = 1


class Misplaced(ValueError):
    """An event that the state of the conversation forbids; the message says which event and why."""


class ConversationPhase(StrEnum):
    """The states of a conversation."""

    NEW = "before `hello`"
    SHUT = "before `open`"
    OPEN = "open"
    DRAINING = "between `end_input` and `ended`"
    ENDED = "after `ended`"
    FAILED = "after `failed`"


_WHILE_WAITING = frozenset({"complete", "fail", "advance", "snapshot", "close", "stats"})
_ACCEPTED: Mapping[ConversationPhase, frozenset[str]] = {
    ConversationPhase.NEW: frozenset({"hello"}),
    ConversationPhase.SHUT: frozenset({"open"}),
    ConversationPhase.OPEN: _WHILE_WAITING
    | {"element", "watermark", "status", "marker", "notify", "end_input"},
    ConversationPhase.DRAINING: _WHILE_WAITING,
    ConversationPhase.ENDED: _WHILE_WAITING | {"notify"},
    ConversationPhase.FAILED: frozenset({"stats", "close"}),
}
_MAY_BLOCK = frozenset({"open", "element", "watermark", "status"})
_ONLY_POSTS = frozenset({"complete", "fail", "advance", "notify", "stats", "snapshot"})
"""With `hold` these commands only post mail, so no event of a mail can follow."""


class Conversation:
    """The state of one conversation. Mutable: changes with every command."""

    def __init__(self) -> None:
        self.phase = ConversationPhase.NEW
        self.blocked = False
        self._calls = 0
        self._due_snapshots: list[int] = []
        self._name = ""
        self._id: object = None
        self._posts_only = False
        self._failed_here = False
        self._answered: list[type[Event]] = []

    def accepts(self, name: str) -> bool:
        """Whether a command of this name is allowed now."""
        allowed = (
            _WHILE_WAITING if self.blocked and self.phase is ConversationPhase.OPEN else _ACCEPTED[self.phase]
        )
        return name in allowed

    def follow(self, command: Mapping[str, object], events: Sequence[Event]) -> None:
        """Check the whole answer to one command. Raises `Misplaced`."""
        if len(events) == 1 and type(events[0]) is ErrorAnswer:
            return
        self._perform(command)
        for event in events:
            self._require_possible(event)
            self._TAKE[type(event)](self, event)
        if self._failed_here:
            return
        owed = _OWED.get(self._name)
        if owed is not None and owed not in self._answered:
            raise Misplaced(f"the answer to `{self._name}` lacks the event that it must have")
        waits = self.blocked or self.phase in {ConversationPhase.DRAINING, ConversationPhase.FAILED}
        if self._due_snapshots and not waits:
            raise Misplaced(f"snapshot {self._due_snapshots[0]} was due, but is not taken")

    def _perform(self, command: Mapping[str, object]) -> None:
        name = command.get("cmd")
        if not isinstance(name, str) or not self.accepts(name):
            state = "while blocked" if self.blocked else self.phase
            raise Misplaced(f"`{name}` is out of order {state}, but was not refused")
        self._name = name
        self._id = command.get("id")
        self._posts_only = command.get("hold") is True and name in _ONLY_POSTS
        self._failed_here = False
        self._answered.clear()
        if name == "open":
            self.phase = ConversationPhase.OPEN
            self.blocked = False
            self._calls = 0
            self._due_snapshots.clear()
        elif name == "end_input":
            self.phase = ConversationPhase.DRAINING
        elif name == "snapshot":
            if type(self._id) is not int:
                raise Misplaced("a `snapshot` without a whole number for its id was not refused")
            self._due_snapshots.append(self._id)

    def _require_possible(self, event: Event) -> None:
        kind = type(event)
        told = f"`{kind.__struct_config__.tag}`"
        if self._failed_here:
            raise Misplaced(f"{told} comes after `failed`")
        if kind in _ANSWERS:
            return
        if self._name in {"hello", "close"} or self.phase in {
            ConversationPhase.SHUT,
            ConversationPhase.FAILED,
        }:
            raise Misplaced(f"{told} cannot answer `{self._name}` {self.phase}")
        if self._posts_only and kind not in {Snapshot, TaskFailed}:
            raise Misplaced(f"{told} can only come from a mail, but `{self._name}` was held")
        if self.phase is ConversationPhase.ENDED and kind not in {Snapshot, TaskFailed}:
            raise Misplaced(f"{told} cannot follow `ended`")

    def _take_hello(self, event: Hello) -> None:
        self._answer("hello", Hello)
        if event.protocol != PROTOCOL:
            raise Misplaced(f"`hello` answers with protocol {event.protocol}, but {PROTOCOL} was asked for")
        self.phase = ConversationPhase.SHUT

    def _take_closed(self, _event: Closed) -> None:
        self._answer("close", Closed)
        self.phase = ConversationPhase.SHUT
        self.blocked = False
        self._due_snapshots.clear()

    def _take_stats(self, _event: Stats) -> None:
        self._answer("stats", Stats)

    def _take_marker(self, event: Marker) -> None:
        self._answer("marker", Marker)
        if event.id != self._id:
            raise Misplaced(f"`marker` {event.id} came out, but {self._id} was sent")

    def _answer(self, name: str, kind: type[Event]) -> None:
        if self._name != name:
            raise Misplaced(f"the event that answers `{name}` is in the answer to `{self._name}`")
        if kind in self._answered:
            raise Misplaced(f"`{name}` is answered twice")
        self._answered.append(kind)

    def _take_call(self, event: FunctionCall) -> None:
        if event.call != self._calls + 1:
            raise Misplaced(f"call {event.call} follows call {self._calls}; numbers are dense from 1")
        self._calls += 1

    def _take_blocked(self, _event: Blocked) -> None:
        if self._name not in _MAY_BLOCK:
            raise Misplaced(f"`{self._name}` cannot be `blocked`")
        if self.blocked:
            raise Misplaced("`blocked` twice without `unblocked` between")
        self.blocked = True

    def _take_unblocked(self, _event: Unblocked) -> None:
        if not self.blocked:
            raise Misplaced("`unblocked` without `blocked` before it")
        self.blocked = False

    def _take_snapshot(self, event: Snapshot) -> None:
        if not self._due_snapshots or self._due_snapshots[0] != event.id:
            raise Misplaced(f"snapshot {event.id} is taken, but due is {self._due_snapshots or 'none'}")
        if self.blocked or self.phase is ConversationPhase.DRAINING:
            raise Misplaced(f"snapshot {event.id} is taken {'while blocked' if self.blocked else self.phase}")
        self._due_snapshots.pop(0)

    def _take_failed(self, _event: TaskFailed) -> None:
        self.phase = ConversationPhase.FAILED
        self._failed_here = True

    def _take_ended(self, _event: DrainEnded) -> None:
        if self.phase is not ConversationPhase.DRAINING:
            raise Misplaced(f"`ended` came {self.phase}")
        self.phase = ConversationPhase.ENDED

    def _take_refusal(self, _event: ErrorAnswer) -> None:
        raise Misplaced("an `error` must be the only event of its answer, but there are others")

    def _take_plain(self, _event: Event) -> None:
        """An event that is allowed anywhere in an answer."""

    _TAKE: ClassVar[Mapping[type[Event], Callable[[Conversation, Any], None]]] = {
        Hello: _take_hello,
        Closed: _take_closed,
        Stats: _take_stats,
        Marker: _take_marker,
        FunctionCall: _take_call,
        Blocked: _take_blocked,
        Unblocked: _take_unblocked,
        Snapshot: _take_snapshot,
        TaskFailed: _take_failed,
        DrainEnded: _take_ended,
        Timeout: _take_plain,
        Emit: _take_plain,
        Watermark: _take_plain,
        Status: _take_plain,
        ErrorAnswer: _take_refusal,
    }


_OWED: Mapping[str, type[Event]] = {"hello": Hello, "close": Closed, "stats": Stats, "marker": Marker}
_ANSWERS = frozenset({Hello, Closed, Stats, ErrorAnswer})
