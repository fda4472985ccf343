"""What the task behind marks as late is what the fold says, and a status that is lost or out of place changes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.scenario.model import Task, Workload
from harness.scenario.workloads.lookups import Inputs, LookupSource
from harness.scenario.workloads.sessions import session_stamps
from harness.scenario.workloads.shape import MarkOfTime
from harness.sut.function_under_test import Enriched
from harness.sut.neighbours import JoinedTask
from harness.sut.positions import TaskState
from reference_impl.elements import OperatorInput, Record, Watermark, WatermarkStatus

STATE = TaskState(text="")


def place_of(element: OperatorInput) -> int:
    """Where it stands in the source."""
    assert isinstance(element, Record | Watermark | WatermarkStatus)
    assert element.position is not None
    return element.position


class Rig:
    """A stream as it leaves the lookups, and the task behind. Mutable: what that passed on."""

    def __init__(self, seed: int = 7) -> None:
        workload = Workload.model_validate({"records": 80, "keys": 5, "watermark_every": 4})
        task = Task.model_validate({"gap": "60ms", "idle": 2, "joined": "150ms"})
        self.source = LookupSource(workload=workload, seed=seed, subtask=0)
        self.inputs = Inputs(task, self.source, seed=seed, subtask=0)
        stamps = session_stamps(self.source, self.inputs, task=task)
        self.expected = {id: stamp["late"] for id, stamp in stamps.items()}
        self.joined = JoinedTask(step_ms=task.joined, elements=self.source, inputs=self.inputs)
        self.passed: list[OperatorInput] = []

    def stream(self) -> list[OperatorInput]:
        return [element for position in range(len(self.source)) for element in self._at(position)]

    def _at(self, position: int) -> Iterator[OperatorInput]:
        match self.source[position]:
            case MarkOfTime(timestamp=mark):
                yield Watermark(timestamp=mark, position=position)
                if self.inputs.all_fall_idle(position):
                    yield WatermarkStatus(idle=True, position=position)
                    yield WatermarkStatus(idle=False, position=position)
            case (lookup, timestamp):
                value = Enriched(id=lookup.id, j=0, value={"name": "n"})
                yield Record(value=value, timestamp=timestamp, position=position)

    def run(
        self, stream: Sequence[OperatorInput], *, replayed: Sequence[Any] = (), position: int = 0
    ) -> None:
        emit = self.joined.in_front_of(self.passed.append, replayed=replayed, position=position)
        for element in stream:
            emit(element)

    @property
    def late(self) -> dict[int, bool]:
        """Of each record that was passed on, by id."""
        results = [element.value for element in self.passed if isinstance(element, Record)]
        return {result.id: result.value["late"] for result in results}


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_a_result_is_late_where_the_fold_says_so_and_everything_is_passed_on_w3_trust7(seed: int) -> None:
    rig = Rig(seed)

    rig.run(rig.stream())

    assert rig.late == rig.expected
    assert [type(element) for element in rig.passed] == [type(element) for element in rig.stream()]
    assert set(rig.late.values()) == {False, True}


@given(cut=st.integers(0, 104), held=st.integers(0, 8))
def test_an_attempt_knows_what_left_before_its_checkpoint_trust7(cut: int, held: int) -> None:
    """Elements up to `cut` were taken, and the last `held` of them had not left."""
    rig, stream = Rig(), Rig().stream()
    places = [place_of(element) for element in stream]
    position = places[cut] if cut < len(stream) else len(rig.source)
    begin = max(0, cut - held)
    if begin == cut < len(stream):
        cut = begin = places.index(position)

    rig.run(stream[begin:], replayed=(STATE, *stream[begin:cut]), position=position)

    assert rig.late == {id: late for id, late in rig.expected.items() if id in rig.late}
    assert len(rig.late) == sum(isinstance(element, Record) for element in stream[begin:])


@pytest.mark.parametrize("places", [0, -3], ids=["lost", "before three records"])
def test_a_status_that_is_lost_or_overtakes_changes_what_is_late_trust7(places: int) -> None:
    rig, wrong = Rig(), list[OperatorInput]()
    for element in rig.stream():
        if not isinstance(element, WatermarkStatus):
            wrong.append(element)
        elif places:
            wrong.insert(len(wrong) + places, element)

    rig.run(wrong)

    assert rig.late != rig.expected
