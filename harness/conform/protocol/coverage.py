"""Counts what happened in the scripts that ran, so that a result "no difference" can be weighed.

Read from the commands and one side's answers only. Invariant: it counts what was seen, never what was intended; each
race of A36-A48 and A76-A87 that a script can reach has a line, even if its count is 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from harness.conform.protocol.driver import Command
from harness.conform.protocol.events import (
    Blocked,
    DrainEnded,
    Emit,
    ErrorAnswer,
    Event,
    FunctionCall,
    Marker,
    Snapshot,
    Status,
    TaskFailed,
    Timeout,
    Unblocked,
    Watermark,
)
from harness.conform.protocol.script import Life, value_key
from harness.system.json_types import JsonView

SIGHTS: Mapping[str, str] = {
    "lives": "",
    "commands": "",
    "commands held": "",
    "calls": "",
    "retries": "A72",
    "emissions": "A39",
    "emissions without a timestamp": "A40",
    "emissions right behind a watermark": "A23",
    "watermarks out": "A52",
    "statuses out": "A55",
    "markers out": "A54",
    "waits that outlast their command": "A27",
    "waits that end in a later command": "A31",
    "second outcome of a call": "A36",
    "outcome held while another of its record is held": "A36",
    "outcome held when the clock moves": "A43",
    "timeouts": "A43",
    "timeouts that fail the task": "A44",
    "outcome after its record timed out": "A45",
    "timeouts that answer nothing": "A46",
    "timeout handler raises": "A47",
    "invocation raises": "A34",
    "task fails of a failed call": "A41",
    "second outcome in the backoff": "A76",
    "outcome of an earlier attempt while a later one runs": "A76",
    "timeout in the backoff": "A80",
    "call after the timeout": "A80",
    "timeout of a record whose outcome is held": "A81",
    "last calls at end of input": "A85",
    "last call beside a running one": "A86",
    "last call for a record that timed out": "A86",
    "ends of input that drain at once": "A67",
    "ends of input that drain later": "A66",
    "snapshots": "A57",
    "snapshots that hold something": "A58",
    "snapshots while blocked": "A30",
    "snapshots while draining": "A66",
    "restores of something": "A61",
    "restores beyond the capacity": "A62",
    "restores into the other mode": "A5",
    "restores in an order of each side's own": "A25",
    "commands refused": "",
}
"""What is counted, and the statement that it is about."""


class Coverage:
    """The counts. Mutable."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._modes: dict[int, tuple[str, int]] = {}
        self._begin_life({})

    def lines(self) -> Iterator[str]:
        """One line for each count, zeros included."""
        for sight, statement in SIGHTS.items():
            yield f"{self.counts[sight]:>10}  {sight}{f' ({statement})' if statement else ''}"

    def begin_script(self) -> None:
        """Begin a script; the snapshots of the one before are forgotten."""
        self._modes.clear()

    def begin_life(self, life: Life, opened: Sequence[Event]) -> None:
        """Begin a life, with the answer to its `open`."""
        self._begin_life(life.config)
        self.counts["lives"] += 1
        saved = self._modes.get(life.restore) if life.restore is not None else None
        if saved is not None and saved[1]:
            self.counts["restores of something"] += 1
            self.counts["restores beyond the capacity"] += saved[1] > life.config["capacity"]
            self.counts["restores into the other mode"] += saved[0] != life.config["mode"]
        self.note({"cmd": "open"}, opened)

    def _begin_life(self, config: JsonView) -> None:
        self._config = config
        self._calls: dict[int, tuple[bytes, int]] = {}
        self._latest: dict[bytes, int] = {}
        """The latest call of each value."""
        self._answered: set[int] = set()
        self._retried: set[int] = set()
        """Calls whose outcome leads to a retry."""
        self._timed_out: set[bytes] = set()
        self._held: set[bytes] = set()
        self._blocked = False
        self._draining = False

    def note(self, command: Command, events: Sequence[Event]) -> None:
        """Count one command and its answer."""
        counts = self.counts
        counts["commands"] += 1
        held = command.get("hold") is True
        counts["commands held"] += held
        if events and type(events[0]) is ErrorAnswer:
            counts["commands refused"] += 1
            return
        name = command.get("cmd")
        if name in {"complete", "fail"}:
            self._note_outcome(command, held=held)
        elif name == "advance":
            counts["outcome held when the clock moves"] += bool(self._held)
        elif name == "snapshot":
            counts["snapshots while blocked"] += self._blocked
            counts["snapshots while draining"] += self._draining and not self._blocked
        elif name == "end_input":
            self._draining = True
        behind = False
        for event in events:
            kind = type(event)
            self._note_event(event, name)
            counts["emissions right behind a watermark"] += behind and kind is Emit
            behind = behind or kind is Watermark
        if not held:
            self._held.clear()

    def _note_outcome(self, command: Command, *, held: bool) -> None:
        call = command.get("call")
        if type(call) is not int or call not in self._calls:
            return
        value, attempt = self._calls[call]
        counts, latest = self.counts, self._latest[value]
        overtaken = call < latest and latest not in self._answered
        counts["outcome of an earlier attempt while a later one runs"] += overtaken
        counts["outcome after its record timed out"] += value in self._timed_out
        if held:
            counts["outcome held while another of its record is held"] += value in self._held
            self._held.add(value)
        if call in self._answered:
            counts["second outcome of a call"] += 1
            counts["second outcome in the backoff"] += call == latest and call in self._retried
        elif (retry := self._config.get("retry")) is not None and attempt <= retry["max_retries"]:
            word = "error" if command["cmd"] == "fail" else "" if command.get("results") else "empty"
            if word in retry["on"] and value not in self._timed_out and not self._draining:
                self._retried.add(call)
        self._answered.add(call)

    def _note_event(self, event: Event, name: object) -> None:
        match event:
            case FunctionCall():
                self._saw_call(event, name)
            case Timeout():
                self._saw_timeout(event)
            case Emit():
                self.counts["emissions"] += 1
                self.counts["emissions without a timestamp"] += event.ts is None
            case TaskFailed():
                self.counts["timeouts that fail the task"] += event.error == "timeout"
                self.counts["task fails of a failed call"] += event.error == "user-error"
            case Blocked():
                self.counts["waits that outlast their command"] += 1
                self._blocked = True
            case Unblocked():
                self.counts["waits that end in a later command"] += 1
                self._blocked = False
            case Snapshot():
                self.counts["snapshots"] += 1
                self.counts["snapshots that hold something"] += bool(event.elements)
                self._modes[event.id] = (self._config["mode"], len(event.elements))
            case DrainEnded():
                at_once = name == "end_input"
                self.counts[
                    "ends of input that drain at once" if at_once else "ends of input that drain later"
                ] += 1
                self._draining = False
            case Watermark() | Status() | Marker():
                self.counts[_OUTPUTS[type(event)]] += 1

    def _saw_call(self, event: FunctionCall, name: object) -> None:
        counts, value = self.counts, value_key(event.value)
        counts["calls"] += 1
        counts["invocation raises"] += event.value in self._config.get("invoke_throws", ())
        if event.attempt > 1:
            counts["retries"] += 1
            counts["call after the timeout"] += value in self._timed_out and name != "end_input"
            if name == "end_input":
                counts["last calls at end of input"] += 1
                counts["last call beside a running one"] += self._latest.get(value) not in self._answered
                counts["last call for a record that timed out"] += value in self._timed_out
        self._calls[event.call] = (value, event.attempt)
        self._latest[value] = event.call

    def _saw_timeout(self, event: Timeout) -> None:
        counts, value = self.counts, value_key(event.value)
        answer = self._config.get("on_timeout", "fail")
        counts["timeouts"] += 1
        counts["timeouts that answer nothing"] += answer == "nothing"
        counts["timeout handler raises"] += isinstance(answer, Mapping) and "throw" in answer
        is_held = value in self._held
        counts["timeout of a record whose outcome is held"] += is_held
        counts["timeout in the backoff"] += not is_held and self._latest.get(value) in self._retried
        self._timed_out.add(value)


_OUTPUTS: Mapping[type, str] = {
    Watermark: "watermarks out",
    Status: "statuses out",
    Marker: "markers out",
}
