"""The watch: a run is given up as hanging only after nothing has happened for long enough."""

from __future__ import annotations

import pytest

from harness.engine.watch import hangs
from harness.history.follower import Progress


@pytest.mark.parametrize(
    ("quiet_ms", "timeout_ms", "expected"),
    [(9_999, 0, False), (10_000, 0, True), (10_000, 6_000, False), (11_000, 6_000, True)],
)
def test_a_run_hangs_once_it_is_quiet_for_longer_than_anything_may_take(
    quiet_ms: int, timeout_ms: int, *, expected: bool
) -> None:
    progress = Progress(last_us=5)

    assert hangs(progress, timeout_ms=timeout_ms, now_us=5 + quiet_ms * 1000) is expected


def test_a_run_that_recorded_nothing_shows_nothing_of_the_operator() -> None:
    assert not hangs(Progress(), timeout_ms=0, now_us=10**12)
