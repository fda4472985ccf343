"""The cost of recording an event in each form, against the minimal work; contenders for rounds.

Invariant: both sides of a pair handle the same events of the same records; a side with fewer events gets no time.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from harness.database.simulated.hub import Hub
from harness.database.simulated.tape import MemoryRecorder, Tape
from harness.history.event import Call, Event, In, Out, Res
from harness.history.journal import Journal
from harness.history.recorder import Recorder
from harness.system.choices import Draw
from harness.system.clock import monotonic_us
from tools.bench.answer import WrongOutput

__all__ = ["BufferForm", "DurableForm"]

EVENTS_A_RECORD = 4
"""`in`, `call`, `res`, `out`."""

_encode_lines = msgspec.json.Encoder().encode_lines


def _life(journal: Journal, records: int) -> None:
    for number in range(records):
        value = f"v{number}"
        journal.took_record(position=number, id=number, key=number % 100, ts=number, expect=[value])
        journal.called(id=number, attempt=1)
        journal.settled(id=number, attempt=1, ending="ok", final=True, values=[value], error=None)
        journal.emits(id=number, j=0, value=value, ts=number)


def _cost(began_us: int, events: int) -> float:
    return (monotonic_us() - began_us) / 1e6 / events


class BufferForm:
    """Recording as at level sim: structs in a list, encoded at the end."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._whole = _encode_lines(self._tape().events)

    def _tape(self) -> Tape:
        tape = Tape(Hub(Draw(1, "the cost of recording"), limit_ms=1, steps_max=1))
        _life(Journal(MemoryRecorder(tape), subtask=0, attempt=1), self._records)
        return tape

    def recorded(self) -> float:
        """Seconds per event, through the journal."""
        began_us = monotonic_us()
        text = _encode_lines(self._tape().events)
        cost = _cost(began_us, self._records * EVENTS_A_RECORD)
        self._require(text)
        return cost

    def bare(self) -> float:
        """Seconds per event in a loop that makes the same structs, appends and encodes them."""
        began_us = monotonic_us()
        events: list[Event] = []
        append = events.append
        n = 0
        for number in range(self._records):
            v = f"v{number}"
            append(In(n=n + 1, t=0, s=0, a=1, pos=number, id=number, key=number % 100, ts=number, expect=[v]))
            nonce = (1 << 28) + number + 1
            append(Call(n=n + 2, t=0, s=0, a=1, id=number, try_=1, nonce=nonce, thread="task"))
            append(Res(n=n + 3, t=0, s=0, a=1, id=number, try_=1, r="ok", final=True, v=[v], thread="task"))
            append(Out(n=n + 4, t=0, s=0, a=1, id=number, j=0, v=v, ts=number, thread="task"))
            n += EVENTS_A_RECORD
        text = _encode_lines(events)
        cost = _cost(began_us, len(events))
        self._require(text)
        return cost

    def _require(self, text: bytes) -> None:
        if text != self._whole or text.count(b"\n") != self._records * EVENTS_A_RECORD:
            raise WrongOutput(f"{len(text)} bytes were recorded, not the {len(self._whole)} of these records")


class DurableForm:
    """Recording as at level live: each event is written to disk before its effect."""

    def __init__(self, records: int) -> None:
        self._records = records
        with TemporaryDirectory(prefix="floodmark-recording-") as folder:
            path = Path(folder) / "once.jsonl"
            self._record(path)
            self._lines = path.read_bytes().splitlines(keepends=True)

    def _record(self, path: Path) -> float:
        with Recorder(path) as recorder:
            journal = Journal(recorder, subtask=0, attempt=1)
            began_us = monotonic_us()
            _life(journal, self._records)
            return _cost(began_us, self._records * EVENTS_A_RECORD)

    def recorded(self) -> float:
        """Seconds per event, through the journal and its recorder."""
        with TemporaryDirectory(prefix="floodmark-recording-") as folder:
            path = Path(folder) / "recorded.jsonl"
            cost = self._record(path)
            self._require(path)
        return cost

    def bare(self) -> float:
        """Seconds per event, writing lines that exist already."""
        with TemporaryDirectory(prefix="floodmark-recording-") as folder:
            path = Path(folder) / "bare.jsonl"
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            began_us = monotonic_us()
            for line in self._lines:
                os.write(descriptor, line)
            cost = _cost(began_us, len(self._lines))
            os.close(descriptor)
            self._require(path)
        return cost

    def _require(self, path: Path) -> None:
        lines = path.read_bytes().count(b"\n")
        if lines != self._records * EVENTS_A_RECORD:
            raise WrongOutput(f"{lines} events were recorded of {self._records} records")
