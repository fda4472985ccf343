"""Evidence of faults that pace bytes: the proxy's log must show the sizes, gaps and rate that were asked for."""

from __future__ import annotations

import pytest

from harness.faults.real.evidence import ProxyEvidence
from harness.faults.tests.recorded import SLOW, event, made, paced, seen, sliced


@pytest.mark.parametrize(
    "written",
    [
        sliced(count=27),
        sliced(count=18),
        sliced(gap_us=4 * 44_000),
        sliced(gap_us=4 * 58_000),
        sliced(count=2, pieces=1, gap_us=0),
    ],
)
def test_a_slow_loris_whose_pieces_or_gaps_are_not_as_asked_is_not_believed(written: ProxyEvidence) -> None:
    assert made("slow_loris").evidence(seen(SLOW, log=[written])) == {}


def test_a_slow_loris_says_what_the_proxy_wrote() -> None:
    evidence = made("slow_loris").evidence(seen(SLOW, log=[sliced(), sliced(gap_us=204_000)]))

    assert (evidence["pieces"], evidence["bytes_a_piece"], evidence["gap_ms"]) == (10, 5.0, 50.5)


@pytest.mark.parametrize(
    ("written", "bites"),
    [
        (paced(us=80_000), False),
        (paced(us=98_000), True),
        (paced(us=101_000), False),
        (paced(us=101_000, empty=1), True),
        (paced(us=0), False),
    ],
)
def test_a_bandwidth_whose_rate_is_not_as_asked_is_not_believed(
    written: ProxyEvidence, *, bites: bool
) -> None:
    held = event("held", ms=90, bytes=900)

    assert bool(made("bandwidth").evidence(seen(SLOW, log=[held, written]))) is bites
