"""Jobs that read a topic under fire: killed after a COMMIT, and their broker killed and started again."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

import pytest

from examples.tests.fire import Fire, convicted, outcomes
from harness.levels.job.sources import refuse_kafka
from harness.scenario.outcome import RunOutcome
from harness.system.errors import WorldError
from harness.world.settings import WorldSettings

pytestmark = [pytest.mark.real, pytest.mark.soak, pytest.mark.timeout(600)]

QUICK = ("offer=all", "records=100")
FIRES = [
    Fire(job="asyncio_consumer/kafka.toml", scenario="killed-after-commit", settings=QUICK),
    Fire(job="asyncio_consumer/kafka.toml", scenario="broker-killed"),
]
if find_spec("quixstreams"):  # not in an extra of ours: it takes an older pydantic than we do
    FIRES += [
        Fire(job="quix_streams/job.toml", scenario="killed-after-commit", settings=QUICK),
        Fire(job="quix_streams/append.toml", scenario="killed-after-commit", convicts="V8", settings=QUICK),
    ]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Fire, RunOutcome]:
    pytest.importorskip("aiokafka")
    try:
        refuse_kafka(WorldSettings.from_environment())
    except WorldError as lacking:
        pytest.skip(str(lacking))
    return outcomes(FIRES, report=tmp_path_factory.mktemp("report"))


@pytest.mark.parametrize("fire", FIRES, ids=str)
def test_a_wrong_job_of_a_topic_is_convicted_and_a_right_one_passes(
    fire: Fire, ran: Mapping[Fire, RunOutcome]
) -> None:
    assert convicted(ran[fire]) == ([fire.convicts] if fire.convicts else [])
