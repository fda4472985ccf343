"""Claims about the planted defects: each shows on the smallest case, where the reference does not."""

from __future__ import annotations

from typing import Any

import pytest

from reference_impl.async_wait_build import BuildOperator, build_operator
from reference_impl.elements import QueueElement
from reference_impl.mutants import BUILDERS
from reference_impl.tests.rig import open_rig, record, watermark


def outputs(build: BuildOperator) -> list[Any]:
    """Two records and a watermark, the second record's call ending first."""
    with open_rig(build=build) as rig:
        rig.process(record(1), record(2), watermark(2))
        for value in (2, 1):
            rig.complete(value, value)
            rig.run_mail()
        return rig.values()


def snapshot(build: BuildOperator) -> tuple[QueueElement, ...]:
    """Of two records and a watermark, the second record's call having ended."""
    with open_rig(build=build) as rig:
        rig.process(record(1), record(2), watermark(2))
        rig.complete(2, "b")
        rig.run_mail()
        return rig.operator.snapshot()


@pytest.mark.parametrize(
    ("build", "emitted", "kept"),
    [
        pytest.param(build_operator, [1, 2, "w2"], (record(1), record(2), watermark(2)), id="reference"),
        pytest.param(
            BUILDERS["snapshot-omits-completed"],
            [1, 2, "w2"],
            (record(1), watermark(2)),
            id="snapshot-omits-completed",
        ),
        pytest.param(
            BUILDERS["watermarks-at-once"],
            ["w2", 1, 2],
            (record(1), record(2)),
            id="watermarks-at-once",
        ),
        pytest.param(
            BUILDERS["unordered-emission"], [2, 1, "w2"], (record(1), watermark(2)), id="unordered-emission"
        ),
    ],
)
def test_a_mutant_differs_from_the_reference_in_what_its_name_says(
    build: BuildOperator, emitted: list[Any], kept: tuple[QueueElement, ...]
) -> None:
    assert outputs(build) == emitted
    assert snapshot(build) == kept


def test_no_mutant_is_left_out_above() -> None:
    assert set(BUILDERS) == {"snapshot-omits-completed", "unordered-emission", "watermarks-at-once"}
