"""Whole runs of two seconds with one fault of a link, in a real world; and a proxy that takes orders, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from harness.faults.real.evidence import LogPage
from harness.faults.real.fault_site import ToxicRequest
from harness.scenario.model import Scenario
from harness.scenario.outcome import RunOutcome
from harness.tests.whole_run import DRAWS, links_are_free, whole_run
from harness.world.world import ProxyControl, World


@dataclass(frozen=True, kw_only=True)
class IdleProxy:
    """A proxy that takes orders and does nothing."""

    proxy: ProxyControl

    def add_toxic(self, link: str, toxic: ToxicRequest) -> None:
        pass

    def cut(self, link: str, how: str) -> Sequence[int]:
        return []

    def disable(self, link: str) -> None:
        pass

    def link_log(self, link: str, after: int = 0) -> LogPage | None:
        return self.proxy.link_log(link, after)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.proxy, name)


def short(*faults: dict[str, Any], timeout: str = "5s", **workload: Any) -> Scenario:
    """Two seconds of lookups, so few that a busy machine keeps up, with these faults."""
    return Scenario.model_validate(
        {
            "scenario": "short",
            "about": "Two seconds of lookups.",
            "levels": ["live"],
            "operator": {"mode": "ordered", "timeout": timeout, "on_timeout": ["no answer"]},
            "workload": {
                "records": 240, "rate": "120/s", "service": "10ms", "checkpoint_every": 30, **workload,
            },
            "faults": list(faults),
            "decisive": ["V1", "V8", "V9"],
            "expects": {"checkpoints": 2},
        }
    )  # fmt: skip


def short_run(world: World, scenario: Scenario, folder: Path, *, idle: bool = False) -> RunOutcome:
    """Perform it; afterwards nothing of it may act on a link."""
    proxy = cast("ProxyControl", IdleProxy(proxy=world.proxy)) if idle else world.proxy
    outcome = whole_run(
        scenario, world=replace(world, proxy=proxy), within=folder, draws=1 if idle else DRAWS
    )
    assert links_are_free(world)
    return outcome
