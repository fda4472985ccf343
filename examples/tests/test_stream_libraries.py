"""Stream libraries under slow lookups: what each promises holds, and what a user might hope for besides does not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from examples.tests.fire import EXAMPLES, Fire, convicted, outcomes
from harness.scenario.outcome import RunOutcome

pytestmark = [pytest.mark.real, pytest.mark.soak, pytest.mark.timeout(600)]

SLOW = str(EXAMPLES / "stream_libraries" / "slow-lookups.yaml")
FIRES = [
    Fire(job="stream_libraries/aiostream.toml", scenario=SLOW),
    Fire(job="stream_libraries/aiostream_unordered.toml", scenario=SLOW),
    Fire(job="stream_libraries/aiostream_unordered_claims_order.toml", scenario=SLOW, convicts="V3"),
    Fire(job="stream_libraries/pypeln.toml", scenario=SLOW),
    Fire(job="stream_libraries/pypeln_with_timeout.toml", scenario=SLOW, convicts="V8"),
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Fire, RunOutcome]:
    for name in ("aiostream", "pypeln"):
        pytest.importorskip(name, reason="not in an extra of ours: pip install aiostream pypeln")
    return outcomes(FIRES, report=tmp_path_factory.mktemp("report"))


@pytest.mark.parametrize("fire", FIRES, ids=lambda fire: fire.job.partition("/")[2])
def test_a_library_keeps_what_it_promises_and_nothing_more(
    fire: Fire, ran: Mapping[Fire, RunOutcome]
) -> None:
    assert convicted(ran[fire]) == ([fire.convicts] if fire.convicts else [])
