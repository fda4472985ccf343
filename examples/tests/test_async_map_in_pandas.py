"""Asyncio inside `mapInPandas`: an error of a lookup runs the batch again, and one that is skipped loses its row."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from examples.tests.fire import EXAMPLES, Fire, convicted, outcomes
from harness.runs.outcome import RunOutcome

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(900)]

FAIL = str(EXAMPLES / "async_map_in_pandas" / "lookups-fail.yaml")
FIRES = [
    Fire(job="async_map_in_pandas/job.toml", scenario=FAIL),
    Fire(job="async_map_in_pandas/skips_errors.toml", scenario=FAIL, convicts="V8"),
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Fire, RunOutcome]:
    pytest.importorskip(
        "spark_pipeline_framework", reason="not in an extra of ours: see the example's README"
    )
    return outcomes(FIRES, report=tmp_path_factory.mktemp("report"))


@pytest.mark.parametrize("fire", FIRES, ids=lambda fire: fire.job.partition("/")[2])
def test_a_lookup_that_fails_is_asked_again_or_its_row_is_lost(
    fire: Fire, ran: Mapping[Fire, RunOutcome]
) -> None:
    assert convicted(ran[fire]) == ([fire.convicts] if fire.convicts else [])
