"""The page of coverage is what its counts say, and every hole has a reason or is named as open."""

from __future__ import annotations

from harness.explore.features import Feature, Source, holes, pairs_of, sources, written
from harness.faults.parts.triggers import PHASES
from harness.faults.registry import FAULTS
from tools.pages.coverage_page import PAGE, page_text


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page_text(), "run: python -m tools.pages.coverage_page"


def test_no_fault_and_no_phase_of_a_crash_is_unreached_without_a_reason() -> None:
    open_ones = [(hole.kind, hole.phase) for hole in holes(sources()) if not hole.why]

    assert open_ones == []


def test_a_fault_that_was_never_effective_is_a_hole() -> None:
    nothing = Source(what="exploration", level="sim", runs=1, seed=1, pairs={})

    found = {(hole.kind, hole.phase) for hole in holes((nothing,))}

    assert {(kind, "") for kind in FAULTS} <= found
    assert {("kill_worker", phase) for phase in PHASES} <= found


def test_pairs_are_those_of_a_fault_and_a_phase() -> None:
    counted: dict[Feature, int] = {
        ("latency", "emit"): 3,
        ("latency", "queue full"): 9,
        ("checkpoint", "emit"): 2,
    }

    assert pairs_of(counted) == {"latency": {"emit": 3}}


def test_what_is_written_is_read_as_the_same() -> None:
    counted = {(source.what, source.level): source for source in sources()}

    assert '"what": "exploration"' in written(counted)
