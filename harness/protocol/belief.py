"""What a script's author believes the operator to be doing, so that most of its commands hit something.

It is no model of the operator: mails, `hold` and quirks are left out, and nothing is ever judged by it. A wrong
belief costs a command that hits nothing. Invariant: it decides which scripts are drawn, never a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, ClassVar

__all__ = ["Belief", "Record", "Stage"]


class Stage(Enum):
    """How far a record is."""

    RUNNING = auto()
    BACKOFF = auto()
    DONE = auto()


class Record:
    """A record (or, without a value, a watermark). Mutable."""

    __slots__ = ("attempt", "call", "deadline", "is_record", "retry_at", "stage", "value")

    def __init__(self, value: object, *, is_record: bool) -> None:
        self.value = value
        self.is_record = is_record
        self.stage = Stage.RUNNING if is_record else Stage.DONE
        self.attempt = 0
        self.call = 0
        self.deadline: int | None = None
        self.retry_at: int | None = None


class Belief:
    """Mutable: it is told what the operator is told."""

    _FAR: ClassVar[int] = 1 << 60

    def __init__(self, config: Mapping[str, Any], *, now: int) -> None:
        self.config = config
        self.now = now
        self.capacity: int = config["capacity"]
        self.timeout_ms: int = config["timeout_ms"]
        self.retry: Mapping[str, Any] | None = config.get("retry")
        self.queue: list[Record] = []
        self.waiting: list[Record] = []
        self.calls: list[Record] = []
        self.failed = False
        self.draining = False

    @property
    def blocked(self) -> bool:
        """Whether something waits for a slot."""
        return bool(self.waiting)

    @property
    def ended(self) -> bool:
        """Whether the drain is over."""
        return self.draining and not self.queue

    @property
    def unfinished(self) -> list[Record]:
        """The records that have a slot and no outcome, oldest first."""
        return [entry for entry in self.queue if entry.stage is not Stage.DONE]

    def give(self, record: Record) -> None:
        """An element or watermark comes in."""
        if self.waiting or len(self.queue) >= self.capacity:
            self.waiting.append(record)
        else:
            self._admit(record)
        self._emit()

    def outcome(self, call: int, kind: str) -> None:
        """A call ends: `value`, `empty` or `error`."""
        if not 1 <= call <= len(self.calls):
            return
        record = self.calls[call - 1]
        if record.stage is not Stage.RUNNING:
            return
        retry = self.retry
        retried = retry is not None and kind in retry["on"] and record.attempt <= retry["max_retries"]
        if retried and not self.draining:
            record.stage = Stage.BACKOFF
            record.retry_at = self.now + self._delay(record.attempt)
        elif kind == "error":
            self.failed = True
        else:
            self._finish(record)

    def advance(self, to: int) -> None:
        """Time goes on."""
        while True:
            due = min((self._due(entry) for entry in self.queue), default=self._FAR)
            if due > to or self.failed:
                break
            self.now = max(self.now, due)
            for entry in list(self.queue):
                if self._due(entry) <= self.now:
                    self._fire(entry)
        self.now = max(self.now, to)

    def end_input(self) -> None:
        """The source is over."""
        self.draining = True
        for entry in self.queue:
            if entry.stage is Stage.BACKOFF:
                self._call(entry)

    def _admit(self, record: Record) -> None:
        self.queue.append(record)
        if record.is_record:
            record.deadline = self.now + self.timeout_ms if self.timeout_ms else None
            self._call(record)
            if record.value in self.config.get("invoke_throws", ()):
                self.failed = True

    def _call(self, record: Record) -> None:
        record.stage = Stage.RUNNING
        record.retry_at = None
        record.attempt += 1
        self.calls.append(record)
        record.call = len(self.calls)

    def _delay(self, attempt: int) -> int:
        assert self.retry is not None, "only a retried record waits"
        if self.retry["strategy"] == "fixed":
            return int(self.retry["delay_ms"])
        grown = int(self.retry["initial_ms"] * self.retry["multiplier"] ** (attempt - 1))
        return grown if attempt == 1 else min(grown, int(self.retry["max_ms"]))

    def _due(self, entry: Record) -> int:
        if entry.stage is Stage.DONE:
            return self._FAR
        return min(
            self._FAR if entry.deadline is None else entry.deadline,
            self._FAR if entry.retry_at is None else entry.retry_at,
        )

    def _fire(self, entry: Record) -> None:
        if entry.deadline is None or entry.deadline > self.now:
            self._call(entry)
            return
        entry.deadline = None
        answer = self.config.get("on_timeout", "fail")
        if isinstance(answer, Mapping) and "results" in answer:
            self._finish(entry)
        elif answer == "nothing":
            entry.stage = Stage.RUNNING
            entry.retry_at = None
        else:
            self.failed = True

    def _finish(self, record: Record) -> None:
        record.stage = Stage.DONE
        self._emit()

    def _emit(self) -> None:
        while self._emit_one():
            while self.waiting and len(self.queue) < self.capacity:
                self._admit(self.waiting.pop(0))

    def _emit_one(self) -> bool:
        for place, entry in enumerate(self.queue):
            if entry.stage is Stage.DONE and (place == 0 or entry.is_record):
                del self.queue[place]
                return True
            if not entry.is_record or self.config["mode"] == "ordered":
                return False
        return False
