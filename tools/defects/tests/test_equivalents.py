"""The equivalents: no invariant convicts them, and what is none is found out."""

from __future__ import annotations

from dataclasses import replace

from harness.sut.defects import variant_of
from harness.system.clock import Deadline
from harness.system.pool import PlainExecutors
from tools.defects.equivalents import EQUIVALENTS, compare, compare_equivalents


def test_every_equivalent_is_compared_and_none_convicted() -> None:
    compared = compare_equivalents(PlainExecutors(), first_seed=1, runs=1, deadline=Deadline(60))

    assert [one.name for one in compared] == [one.name for one in EQUIVALENTS]
    assert not any(one.convicted for one in compared)


def test_an_equivalent_is_compared_with_the_reference_run_by_run() -> None:
    leak = next(one for one in EQUIVALENTS if one.name == "segment-leak")

    same = compare(leak, first_seed=1, runs=2, draws_max=50, deadline=Deadline(60))
    other = compare(
        replace(leak, variant=variant_of("settles-twice"), applies=lambda _: True),
        first_seed=1,
        runs=1,
        draws_max=1,
        deadline=Deadline(60),
    )

    assert (same.runs, same.same, same.convicted) == (2, 2, ())
    assert (other.runs, other.same, other.convicted) == (1, 0, (1,))
