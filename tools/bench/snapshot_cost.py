"""The cost of a snapshot after few and after many records, with the same number in flight.

Answers to A56: a snapshot lists what is in flight, so its cost must not grow with the number of records seen.
Invariant: each measured snapshot is checked to hold exactly the records in flight.
"""

from __future__ import annotations

from harness.system.clock import monotonic_us
from reference_impl.elements import OperatorInput, Record
from reference_impl.operator.result import ResultHandle
from tools.bench.answer import WrongOutput
from tools.bench.operator_rate import OperatorLoad, assembled

_SNAPSHOTS = 2_000


class _Withheld:
    """A function that answers at once while `open`, later never. Mutable."""

    def __init__(self) -> None:
        self.open = True

    def invoke(self, value: int, handle: ResultHandle) -> None:
        if self.open:
            handle.complete([value])

    def timeout(self, value: int, handle: ResultHandle) -> None:
        del value
        handle.complete([])


def snapshot_s(*, seen: int, in_flight: int) -> float:
    """Seconds per snapshot with `in_flight` records in flight, after `seen` records have left."""
    left = 0

    def emit(element: OperatorInput) -> None:
        nonlocal left
        del element
        left += 1

    function = _Withheld()
    load = OperatorLoad(records=seen + in_flight, capacity=in_flight, latency_ms=0)
    with assembled(load, emit=emit, function=function) as bench:
        operator = bench.operator
        for number in range(seen):
            operator.process(Record(value=number))
        operator.end_input()
        function.open = False
        for number in range(seen, seen + in_flight):
            operator.process(Record(value=number))
        began_us = monotonic_us()
        for _ in range(_SNAPSHOTS):
            snapshot = operator.snapshot()
        took_s = (monotonic_us() - began_us) / 1e6 / _SNAPSHOTS
        held = [element.value for element in snapshot if isinstance(element, Record)]
    if left != seen or held != list(range(seen, seen + in_flight)):
        raise WrongOutput(
            f"{left} of {seen} records had left, and a snapshot held {len(held)} of {in_flight}"
        )
    return took_s
