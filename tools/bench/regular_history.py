"""A legal history of any length from one seed, as a long run without errors leaves it; for the judge's benchmark.

Two subtasks, watermarks, some retries and timeouts, records with no and with two outputs; a checkpoint and a `retire`
every 10^4 events, a crash and a restore every 10^5. Invariant: every verdict on it is `pass`, `vacuous` or
`not-claimed`; the memory used does not grow with its length.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.history.event import (
    Call,
    Close,
    Done,
    End,
    Ended,
    Event,
    FaultEvent,
    In,
    Kill,
    Out,
    Owm,
    Res,
    Restore,
    Retire,
    Snap,
    Start,
    Wm,
)
from harness.history.header import Bounds, Header, OperatorHeader
from harness.history.text import header_line
from harness.system.choices import Draw

Mode = Literal["ordered", "unordered"]

CHECKPOINT_EVERY = 10_000
CRASH_EVERY = 100_000
"""Events."""
_SUBTASKS = 2
_CAPACITY = 20
_TIMEOUT_MS = 1_000
_TRIES = 3
_MARK_EVERY = 20
"""Every position with this distance is a watermark."""
_STEP_US = 40
_LINES = 1_000


def regular_header(mode: Mode) -> Header:
    """The header line of such a history."""
    operator = OperatorHeader(mode=mode, capacity=_CAPACITY, timeout_ms=_TIMEOUT_MS, max_tries=_TRIES)
    # Its clock jumps at a timeout, after which many answers seem late.
    return Header(operator=operator, bounds=Bounds(timeout_slack=10**9))


def regular_history(mode: Mode, events: int, *, seed: int = 1) -> Iterator[Event]:
    """A history of at least `events` events; then the run drains and ends."""
    return _Run(mode, Draw(seed, "a regular history")).told(events)


def write_lines(path: Path, header: Header, events: Iterator[Event]) -> None:
    """Write a history in the recorder's compact form, without holding it in memory."""
    encode = msgspec.json.Encoder().encode_lines
    with path.open("wb") as file:
        file.write(header_line(header))
        while batch := list(islice(events, _LINES)):
            file.write(encode(batch))


class _Entry:
    """A record or a watermark in the operator. Mutable."""

    __slots__ = ("id", "pos", "tries", "v")

    def __init__(self, pos: int, id_: int | None) -> None:
        self.pos = pos
        self.id = id_
        """None for a watermark."""
        self.tries = 1
        self.v: list[str] | None = None
        """The outcome; None while the call runs."""

    def element(self) -> dict[str, Any]:
        return {"w": self.pos, "pos": self.pos} if self.id is None else {"id": self.id}


class _Subtask:
    """One subtask's current attempt and its part of the latest checkpoint. Mutable."""

    def __init__(self, s: int) -> None:
        self.s = s
        self.a = 0
        self.pos = 0
        self.queue: list[_Entry] = []
        self.saved: tuple[int, list[_Entry]] = (0, [])


def _expected(id_: int) -> list[str]:
    return [f"v{id_}.{j}" for j in range(0 if id_ % 37 == 0 else 2 if id_ % 11 == 0 else 1)]


class _Run:
    """The run. Mutable. Each method yields the events that it records."""

    def __init__(self, mode: Mode, draw: Draw) -> None:
        self.ordered = mode == "ordered"
        self.draw = draw
        self.n = 0
        self.t = 0
        self.checkpoint = 0
        self.subtasks = [_Subtask(s) for s in range(_SUBTASKS)]

    def told(self, least: int) -> Iterator[Event]:
        for subtask in self.subtasks:
            yield from self._start(subtask)
        checkpoint_at, crash_at = CHECKPOINT_EVERY, CRASH_EVERY
        while self.n < least:
            subtask = self.subtasks[self.draw.index(_SUBTASKS)]
            full = len(subtask.queue) >= _CAPACITY
            yield from self._settle(subtask) if full or self.draw.chance(300) else self._take(subtask)
            yield from self._emit(subtask)
            if self.n >= checkpoint_at:
                checkpoint_at += CHECKPOINT_EVERY
                yield from self._snap()
            if self.n >= crash_at:
                crash_at += CRASH_EVERY
                yield from self._crash()
        for subtask in self.subtasks:
            yield from self._drain(subtask)

    def _at(self, subtask: _Subtask) -> dict[str, Any]:
        return {**self._now(), "s": subtask.s, "a": subtask.a}

    def _now(self) -> dict[str, Any]:
        self.n += 1
        self.t += self.draw.index(_STEP_US)
        return {"n": self.n, "t": self.t}

    def _start(self, subtask: _Subtask) -> Iterator[Event]:
        """Start an attempt from the latest checkpoint, if there is one."""
        subtask.a += 1
        subtask.pos, kept = subtask.saved
        from_ = self.checkpoint or None
        yield Start(**self._at(subtask), from_=from_, pos=subtask.pos)
        subtask.queue = [_Entry(entry.pos, entry.id) for entry in kept]
        if from_ is not None:
            elements = [entry.element() for entry in kept]
            yield Restore(**self._at(subtask), c=from_, elements=elements)
        for entry in subtask.queue:
            if entry.id is not None:
                yield Call(**self._at(subtask), id=entry.id, try_=1)

    def _take(self, subtask: _Subtask) -> Iterator[Event]:
        pos = subtask.pos
        subtask.pos += 1
        if pos % _MARK_EVERY == _MARK_EVERY - 1:
            subtask.queue.append(_Entry(pos, None))
            yield Wm(**self._at(subtask), pos=pos, w=pos)
            return
        id_ = pos * _SUBTASKS + subtask.s
        subtask.queue.append(_Entry(pos, id_))
        yield In(**self._at(subtask), pos=pos, id=id_, expect=_expected(id_))
        yield Call(**self._at(subtask), id=id_, try_=1)

    def _settle(self, subtask: _Subtask) -> Iterator[Event]:
        """End one of the running calls."""
        asked = [entry for entry in subtask.queue if entry.id is not None and entry.v is None]
        if not asked:
            return
        entry = asked[self.draw.index(len(asked))]
        assert entry.id is not None, "only records are asked for"
        if entry.tries < _TRIES and self.draw.chance(20):
            yield Res(**self._at(subtask), id=entry.id, try_=entry.tries, r="fail", final=False, error="down")
            entry.tries += 1
            yield Call(**self._at(subtask), id=entry.id, try_=entry.tries)
        elif self.draw.chance(5):
            self.t += _TIMEOUT_MS * 1000
            entry.v = ["late"]
            yield Res(**self._at(subtask), id=entry.id, try_=entry.tries, r="timeout", final=True, v=entry.v)
        else:
            entry.v = _expected(entry.id)
            yield Res(**self._at(subtask), id=entry.id, try_=entry.tries, r="ok", final=True, v=entry.v)

    def _emit(self, subtask: _Subtask) -> Iterator[Event]:
        """Emit what may leave: the head of the queue, or in unordered mode everything before the first watermark."""
        at = 0
        queue = subtask.queue
        while at < len(queue):
            entry = queue[at]
            if entry.id is None:
                if at:
                    return
                yield Owm(**self._at(subtask), w=entry.pos)
            elif entry.v is None:
                if self.ordered:
                    return
                at += 1
                continue
            else:
                for j, value in enumerate(entry.v):
                    yield Out(**self._at(subtask), id=entry.id, j=j, v=value)
            del queue[at]

    def _snap(self) -> Iterator[Event]:
        self.checkpoint += 1
        for subtask in self.subtasks:
            subtask.saved = (subtask.pos, list(subtask.queue))
            elements = [entry.element() for entry in subtask.queue]
            yield Snap(**self._at(subtask), c=self.checkpoint, pos=subtask.pos, elements=elements)
        yield Done(**self._now(), c=self.checkpoint)
        yield Retire(**self._now(), c=self.checkpoint - 1)

    def _crash(self) -> Iterator[Event]:
        yield FaultEvent(**self._now(), f="kill-worker", phase="begin")
        for subtask in self.subtasks:
            yield Kill(**self._at(subtask))
        yield FaultEvent(**self._now(), f="kill-worker", phase="end", evidence={"killed": _SUBTASKS})
        for subtask in self.subtasks:
            yield from self._start(subtask)

    def _drain(self, subtask: _Subtask) -> Iterator[Event]:
        yield End(**self._at(subtask))
        while subtask.queue:
            yield from self._settle(subtask)
            yield from self._emit(subtask)
        yield Ended(**self._at(subtask))
        yield Close(**self._at(subtask))
