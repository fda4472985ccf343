"""The cost of the harness's recording: the operator with and without the recorder attached.

Invariant: both sides process the same lookups with the same results; the recorded side's file must contain every event
of every record (`in`, `call`, `res`, `out`), else there is no time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.history.event import In, Out
from harness.history.journal import Journal
from harness.history.merge import read_leftovers
from harness.history.recorder import Recorder, attempt_file
from harness.scenario.workloads.lookups import Lookup
from harness.sut.function_under_test import JournalProbe
from harness.sut.phases import EarlierAttempts, PhaseHooks
from reference_impl.elements import OperatorInput, Record
from tools.bench.answer import WrongOutput, require_all_in_order
from tools.bench.operator_rate import OperatorLoad, assembled

_KINDS = ("in", "call", "res", "out")


def lookups(count: int) -> Sequence[Record]:
    """The records that a source of the lookups workload would emit."""
    return [
        Record(value=_Asked(id=number, key=number % 100, service_ms=0), timestamp=number, position=number)
        for number in range(count)
    ]


class _Asked(Lookup, frozen=True, kw_only=True):
    """A lookup that is also its own answer: it has an id and a value."""

    @property
    def value(self) -> int:
        return self.id


def run_unrecorded(load: OperatorLoad, records: Sequence[Record]) -> float:
    """Seconds for `records` without recording."""
    came_out: list[int] = []

    def emit(element: OperatorInput) -> None:
        came_out.append(element.value.id)  # type: ignore[union-attr]  # only records were put in

    with assembled(load, emit=emit) as bench:
        took_s = bench.drive(iter(records))
    require_all_in_order(came_out, load.records)
    return took_s


def run_recorded(load: OperatorLoad, records: Sequence[Record]) -> float:
    """Seconds for `records`, with each event written to a file before its effect."""
    came_out: list[int] = []
    with TemporaryDirectory(prefix="floodmark-recording-") as folder:
        path = attempt_file(Path(folder), subtask=0, attempt=1)
        with Recorder(path) as recorder:
            journal = Journal(recorder, subtask=0, attempt=1)

            def emit(element: OperatorInput) -> None:
                assert isinstance(element, Record), "only records were put in"
                answer = element.value
                journal.event(Out, id=answer.id, j=0, v=answer.value, ts=element.timestamp)
                came_out.append(answer.id)

            phases = PhaseHooks((), past=EarlierAttempts(), journal=journal)
            with assembled(load, emit=emit, probe=JournalProbe(journal, phases)) as bench:
                took_s = bench.drive(_noted(records, journal))
        _require_whole(Path(folder), load.records)
    require_all_in_order(came_out, load.records)
    return took_s


def _noted(records: Sequence[Record], journal: Journal) -> Iterator[Record]:
    for record in records:
        asked = record.value
        journal.event(In, pos=asked.id, id=asked.id, key=asked.key, ts=record.timestamp, expect=[asked.value])
        yield record


def _require_whole(folder: Path, count: int) -> None:
    """Raise WrongOutput unless there are `count` events of each kind and no line is missing."""
    found = read_leftovers(folder)
    kinds = Counter(str(line.__struct_config__.tag) for line in found.lines)
    if found.missing or found.warnings or kinds != dict.fromkeys(_KINDS, count):
        raise WrongOutput(f"the file holds {dict(kinds)}, not {count} of each; {'; '.join(found.warnings)}")
