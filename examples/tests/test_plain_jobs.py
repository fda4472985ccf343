"""Consumers, keyed tables and a Bytewax flow under fire: the wrong ones are convicted, their right twins pass."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from examples.tests.fire import Fire, convicted, outcomes
from harness.scenario.outcome import RunOutcome

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

QUICK = ("offer=all", "records=100")
FEW_AGAIN = (*QUICK, "keys=100")
"""Keys that seldom come again: an order that is lost is not made good by a newer one."""
FIRES = [
    Fire(job="asyncio_consumer/job.toml", scenario="late-commit", settings=QUICK),
    Fire(job="asyncio_consumer/one_transaction.toml", scenario="late-commit", convicts="V8", settings=QUICK),
    Fire(
        job="asyncio_consumer/rows_first.toml",
        scenario="killed-after-commit",
        convicts="V8",
        settings=QUICK,
    ),
    Fire(
        job="asyncio_consumer/position_from_replica.toml",
        scenario="lookups-on-lagging-replica",
        convicts="V8",
    ),
    Fire(
        job="asyncio_consumer/offset_first.toml",
        scenario="killed-after-commit",
        convicts="V8",
        settings=QUICK,
    ),
    Fire(
        job="asyncio_consumer/blind_retry.toml", scenario="commit-reply-lost", convicts="V8", settings=QUICK
    ),
    Fire(job="asyncio_consumer/job.toml", scenario="lookups-cut", settings=QUICK),
    Fire(job="asyncio_consumer/customer_unknown.toml", scenario="lookups-cut", convicts="V8", settings=QUICK),
    Fire(job="asyncio_consumer/inbox.toml", scenario="gaps-fill-late"),
    Fire(job="asyncio_consumer/inbox_by_position.toml", scenario="gaps-fill-late", convicts="V8"),
    Fire(job="asyncio_consumer/inbox_by_position.toml", scenario="calm-job", convicts="V8"),
    Fire(job="keyed_tables/counts.toml", scenario="killed-after-commit", settings=QUICK),
    Fire(
        job="keyed_tables/counts_rows_first.toml",
        scenario="killed-after-commit",
        convicts="V8",
        settings=QUICK,
    ),
    Fire(job="keyed_tables/sums.toml", scenario="killed-after-commit", settings=QUICK),
    Fire(
        job="keyed_tables/sums_rows_first.toml",
        scenario="killed-after-commit",
        convicts="V8",
        settings=QUICK,
    ),
    Fire(job="keyed_tables/newest.toml", scenario="killed-after-commit", settings=FEW_AGAIN),
    Fire(
        job="keyed_tables/newest_place_first.toml",
        scenario="killed-after-commit",
        convicts="V8",
        settings=FEW_AGAIN,
    ),
    Fire(job="keyed_tables/pairs.toml", scenario="killed-after-commit", settings=QUICK),
    Fire(
        job="keyed_tables/pairs_rows_first.toml",
        scenario="killed-after-commit",
        convicts="V8",
        settings=QUICK,
    ),
    Fire(job="bytewax_flow/job.toml", scenario="killed-after-commit", settings=QUICK),
    Fire(job="bytewax_flow/append.toml", scenario="killed-after-commit", convicts="V8", settings=QUICK),
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Fire, RunOutcome]:
    pytest.importorskip("bytewax")
    return outcomes(FIRES, report=tmp_path_factory.mktemp("report"))


@pytest.mark.parametrize("fire", FIRES, ids=str)
def test_the_wrong_job_is_convicted_and_its_right_twin_passes(
    fire: Fire, ran: Mapping[Fire, RunOutcome]
) -> None:
    assert convicted(ran[fire]) == ([fire.convicts] if fire.convicts else [])
