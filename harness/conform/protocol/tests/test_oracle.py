"""The reference and the real Flink 2.3.0 give the same answers, up to the freedom of the protocol.

A modest number of scripts of fresh seeds and of fixed ones; the large run's command is in the oracle's README.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.conform.oracle.program import FLINKS
from harness.conform.protocol.comparison import report
from harness.conform.protocol.differential import common_settings, compare_systems
from harness.conform.protocol.driver import Twins
from harness.conform.protocol.program import Limits
from harness.system.choices import fresh_seed
from harness.system.errors import FloodmarkError
from harness.world.settings import WorldSettings

oracle_launch = pytest.importorskip(
    "harness.conform.oracle.program", reason="there is no oracle in this version"
)

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]

SCRIPTS = 1_500
REFERENCE = [str(Path(sys.executable).with_name("floodmark")), "sut", "serve", "reference"]
MET = (
    "retries",
    "second outcome in the backoff",
    "outcome held when the clock moves",
    "timeout of a record whose outcome is held",
    "outcome of an earlier attempt while a later one runs",
    "call after the timeout",
    "timeout in the backoff",
    "last calls at end of input",
    "last call beside a running one",
    "last call for a record that timed out",
    "snapshots while blocked",
    "restores beyond the capacity",
    "restores into the other mode",
    "emissions right behind a watermark",
)
"""The races of A36-A48 and A76-A87 that every run must have met, or it has shown nothing."""


@pytest.fixture(scope="module")
def oracle() -> list[str]:
    """The command line of the real Flink; skipped with what it lacks."""
    try:
        found: list[str] = oracle_launch.find_oracle(WorldSettings.from_environment())
    except FloodmarkError as lacking:
        pytest.skip(str(lacking))
    return found


@pytest.fixture(scope="module")
def twins(oracle: list[str]) -> Iterator[Twins]:
    with Twins(REFERENCE, oracle, limits=Limits()) as opened:
        yield opened


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
@pytest.mark.parametrize("seed", [1, 2, None])
def test_the_reference_answers_as_flink_does(twins: Twins, mode: str, seed: int | None) -> None:
    """A15-A26, A35-A50, A56-A63, A66-A88 under profile `flink`; a report names the seed of a fresh run."""
    settings = common_settings(twins, mode=mode, profile="flink")

    outcome = compare_systems(
        twins, seed=fresh_seed() if seed is None else seed, scripts=SCRIPTS, settings=settings
    )

    assert [report(one) for one in outcome.differences] == []
    assert outcome.scripts == SCRIPTS
    assert [sight for sight in MET if not outcome.coverage.counts[sight]] == []


def test_the_reference_answers_as_flink_does_whatever_order_flink_restores_in(oracle: list[str]) -> None:
    """A25: an unordered snapshot lists records by their identity hash; here that is a random number."""
    moved = [*oracle[:-1], "-XX:hashCode=0", oracle[-1]]
    with Twins(REFERENCE, moved, limits=Limits()) as twins:
        settings = common_settings(twins, mode="unordered", profile="flink")

        outcome = compare_systems(twins, seed=fresh_seed(), scripts=SCRIPTS, settings=settings)

    assert [report(one) for one in outcome.differences] == []
    assert outcome.coverage.counts["restores in an order of each side's own"] > 0


@pytest.mark.parametrize(("line", "system"), [("2.0", "reference"), ("1.20", "reference-flink-1.20")])
def test_older_flinks_answer_as_the_reference_does_with_their_quirks(line: str, system: str) -> None:
    """2.0.2 as 2.3.0; 1.20.5 without the check of FLINK-38082 (A72). Skipped where they are not set up."""
    try:
        older = oracle_launch.find_oracle(WorldSettings.from_environment(), version=FLINKS[line])
    except FloodmarkError as lacking:
        pytest.skip(str(lacking))
    with Twins([*REFERENCE[:-1], system], older, limits=Limits()) as twins:
        settings = common_settings(twins, mode="both", profile="flink")

        outcome = compare_systems(twins, seed=fresh_seed(), scripts=SCRIPTS // 3, settings=settings)

    assert [report(one) for one in outcome.differences] == []
