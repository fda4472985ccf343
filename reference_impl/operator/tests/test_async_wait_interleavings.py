"""Claims about the operator that hold for any interleaving: A32, A36, A39, A52, A59."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.elements import Record, Watermark
from reference_impl.operator.build import Mode
from reference_impl.tests.rig import Rig, open_rig, quickly, record, watermark


@st.composite
def interleavings(draw: st.DrawFn) -> list[tuple[str, int]]:
    steps = st.sampled_from(["record", "watermark", "complete", "supply", "fail", "mail", "mail", "snapshot"])
    return draw(st.lists(st.tuples(steps, st.integers(0, 7)), max_size=40))


class Run:
    """An interleaving, played; holds what the claims are about."""

    def __init__(self, rig: Rig, capacity: int) -> None:
        self.rig = rig
        self.capacity = capacity
        self.taken: list[Record | Watermark] = []
        self.open: list[int] = []

    def step(self, what: str, number: int) -> None:
        match what:
            case "record" | "watermark" if len(self.rig.operator) < self.capacity:
                index = len(self.taken)
                element = record(index) if what == "record" else watermark(index)
                self.taken.append(element)
                self.open += [index] if what == "record" else []
                self.rig.process(element)
            case "complete" | "supply" | "fail" if self.open:
                self.end(self.open.pop(number % len(self.open)), what)
            case "mail":
                self.rig.executor.try_yield()
            case "snapshot":
                self.check_cut()
            case _:
                pass
        assert len(self.rig.operator) <= self.capacity

    def end(self, index: int, what: str) -> None:
        handle = self.rig.hand.attempts[index][0]
        match what:
            case "complete":
                handle.complete([index] * (index % 3))
            case "supply":
                handle.supply(lambda: [index] * (index % 3))
            case _:
                handle.fail(ArithmeticError(index))
        handle.complete(["second"])

    def check_cut(self) -> None:
        """A59: of each input, either it is in the snapshot, or all of its outputs have left."""
        held = self.rig.operator.snapshot()
        gone = [element for element in self.taken if element not in held]
        settled_well = {value for what, value in self.rig.happened if what == "ok"}
        due: list[Any] = []
        for element in gone:
            if isinstance(element, Watermark):
                due.append(f"w{element.timestamp}")
            elif element.value in settled_well:
                due += [element.value] * (element.value % 3)
        assert sorted(map(str, self.rig.values())) == sorted(map(str, due))
        assert len(held) + len(gone) == len(self.taken)

    def finish(self) -> None:
        while self.open:
            self.end(self.open.pop(), "complete")
        self.rig.operator.end_input()
        self.rig.run_mail()
        self.check_cut()


@pytest.mark.parametrize("mode", get_args(Mode))
@quickly
@given(st.integers(1, 4), interleavings())
def test_whatever_interleaves_nothing_is_lost_doubled_or_out_of_place(
    mode: Mode, capacity: int, steps: list[tuple[str, int]]
) -> None:
    """A32, A36, A39, A52, A59; B19: what was taken in is what has left, and what the snapshot holds."""
    with open_rig(mode=mode, capacity=capacity) as rig:
        run = Run(rig, capacity)
        for what, number in steps:
            run.step(what, number)
        run.finish()

        assert rig.operator.snapshot() == ()
        assert len(rig.mailbox) == 0
        check_order(mode, run)
        check_outcomes(run)


def check_order(mode: Mode, run: Run) -> None:
    """Ordered: timestamps never fall. Unordered: none crosses a watermark, whose number is its position."""
    elements = [element for element in run.rig.emitted if isinstance(element, Record | Watermark)]
    places = [element.timestamp for element in elements if element.timestamp is not None]
    if mode == "ordered":
        assert places == sorted(places)
    for index, element in enumerate(run.rig.emitted):
        if isinstance(element, Watermark):
            assert all(place < element.timestamp for place in places[:index])
            assert all(place > element.timestamp for place in places[index + 1 :])


def check_outcomes(run: Run) -> None:
    """Each record is called once, then settled once, and only then emitted; a failure fails the task."""
    records = [element.value for element in run.taken if isinstance(element, Record)]
    called = [value for what, value in run.rig.happened if what == "called"]
    settled = [value for what, value in run.rig.happened if what in {"ok", "fail"}]
    assert called == records
    assert sorted(settled) == records
    assert len(run.rig.failures) == sum(what == "fail" for what, _ in run.rig.happened)
