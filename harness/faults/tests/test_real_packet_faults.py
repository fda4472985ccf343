"""Each fault that needs packets, in a whole run in each world: it bites, and every record still counts once.

Where the proxy is asked and does nothing, the same run is vacuous.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.faults.registry import FAULTS
from harness.faults.tests.short_run import short_run
from harness.history.verdict import Outcome
from harness.scenario.model import Scenario
from harness.tests.real_world import real_world
from harness.world.world import World

pytestmark = [pytest.mark.real, pytest.mark.long]

AT = {"when": {"at": "200ms"}}
RESET = {"id": "g", "do": "reset_now", "link": "lookups", "when": {"at": "250ms"}}
"""So that clients need new connections."""
TRIALS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "half_open": [{"link": "lookups", "direction": "down", "for": "1500ms"}],
    "half_open up": [{"link": "lookups", "direction": "up", "for": "1500ms"}],
    "reset_now": [{"link": "lookups"}],
    "reset_at_packet": [{"link": "lookups", "packet": 2, "bytes": 7, "times": 3}],
    "refuse_connects": [{"link": "lookups", "for": "1500ms"}, RESET],
    "stalled_handshake": [{"link": "lookups", "for": "1500ms"}, RESET],
    "lost_commit": [{"link": "sink"}],
    "lost_commit_reply": [{"link": "sink"}],
    "sql_error": [{"link": "lookups", "code": 1213, "times": 5}],
    "sql_error 1040": [{"link": "lookups", "code": 1040, "times": 5, "for": "1500ms"}, RESET],
    "hold_reply": [{"link": "lookups", "statement": "select", "times": 2, "for": "1500ms"}],
}


@pytest.fixture(scope="module", params=["local", "containers"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world of this kind with our own proxy, or a skip with what this machine lacks."""
    with real_world(request.param, proxy="own") as opened:
        yield opened


def small(trial: str) -> Scenario:
    """Two seconds of lookups, with the trial's faults."""
    first, *others = TRIALS[trial]
    patience = "300ms" if trial.split(maxsplit=1)[0] in {"half_open", "hold_reply"} else "5s"
    return Scenario.model_validate(
        {
            "scenario": f"packets-{trial.replace(' ', '-').replace('_', '-')}",
            "about": "Two seconds of lookups.",
            "operator": {"mode": "ordered", "timeout": patience, "on_timeout": ["no answer"]},
            "workload": {
                "records": 300, "rate": "150/s", "service": "20ms", "watermark_every": 10, "checkpoint_every": 30,
            },
            "faults": [{"id": "f", "do": trial.split(maxsplit=1)[0], **AT, **first}, *others],
            "decisive": ["V1", "V5", "V8", "V10"],
        }
    )  # fmt: skip


def test_every_kind_has_a_trial() -> None:
    """But for those of two servers, which their scenarios try."""
    tried = dict.fromkeys(trial.split()[0] for trial in TRIALS)

    kinds = [name for name, kind in FAULTS.items() if "packets" in kind.abilities]
    assert sorted(tried) == sorted(name for name in kinds if "replica" not in FAULTS[name].abilities)


@pytest.mark.parametrize("trial", TRIALS)
def test_each_bites_and_every_record_counts_once(world: World, tmp_path: Path, trial: str) -> None:
    outcome = short_run(world, small(trial), tmp_path)

    assert outcome.error is None
    assert all(fault.bites for fault in outcome.faults), outcome.faults
    assert outcome.judgement.outcome is Outcome.PASS, outcome.judgement
    wrong = {name: outcome.accounting[name] for name in ("doubled", "missing", "disordered")}
    assert wrong == {"doubled": 0, "missing": 0, "disordered": 0}


@pytest.mark.parametrize("trial", [trial for trial in TRIALS if len(TRIALS[trial]) == 1])
@pytest.mark.parametrize("world", ["local"], indirect=True)
def test_each_that_does_nothing_leaves_the_run_vacuous(world: World, tmp_path: Path, trial: str) -> None:
    outcome = short_run(world, small(trial), tmp_path, idle=True)

    assert outcome.faults[0].evidence == {}
    assert outcome.judgement.outcome is Outcome.VACUOUS
